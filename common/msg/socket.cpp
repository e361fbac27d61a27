#include "common/msg/socket.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <vector>

namespace orrery::msg {
namespace {

constexpr int kReconnectMs = 100;
constexpr int kReconnectMaxMs = 1000;
constexpr int kHeartbeatMs = 1000;
constexpr int kHeartbeatTimeoutMs = 3000;
constexpr size_t kMaxFrames = 3;

int zmq_type(SocketKind kind) {
  switch (kind) {
    case SocketKind::kPublish:
      return ZMQ_PUB;
    case SocketKind::kSubscribe:
      return ZMQ_SUB;
    case SocketKind::kRouter:
      return ZMQ_ROUTER;
    case SocketKind::kDealer:
      return ZMQ_DEALER;
    case SocketKind::kRequest:
      return ZMQ_REQ;
    case SocketKind::kReply:
      return ZMQ_REP;
  }
  std::abort();
}

bool has_head(SocketKind kind) {
  return kind == SocketKind::kPublish || kind == SocketKind::kSubscribe || kind == SocketKind::kRouter;
}

void set_common_options(zmq::socket_t& socket, SocketKind kind, const SocketOptions& options) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, options.send_queue);
  socket.set(zmq::sockopt::rcvhwm, options.receive_queue);
  socket.set(zmq::sockopt::maxmsgsize, options.max_message_bytes);
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMs);
  socket.set(zmq::sockopt::heartbeat_ivl, kHeartbeatMs);
  socket.set(zmq::sockopt::heartbeat_timeout, kHeartbeatTimeoutMs);
  socket.set(zmq::sockopt::heartbeat_ttl, kHeartbeatTimeoutMs);
  if (kind == SocketKind::kDealer) socket.set(zmq::sockopt::immediate, 1);
  if (kind == SocketKind::kRouter) socket.set(zmq::sockopt::router_mandatory, 1);
  if (kind == SocketKind::kSubscribe) socket.set(zmq::sockopt::subscribe, options.topic);
}

Status set_curve(zmq::socket_t& socket, std::string_view key, const Security& security, bool server) {
  if (!security.curve) return {};
  if (server) {
    socket.set(zmq::sockopt::curve_server, 1);
    socket.set(zmq::sockopt::zap_domain, std::string("orrery"));
  } else {
    if (security.server_public_key.empty())
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: security.mode is curve but security.server_key_file is not set; copy the "
                               "controller's .pub file here and name it",
                               key)};
    socket.set(zmq::sockopt::curve_serverkey, security.server_public_key);
  }
  socket.set(zmq::sockopt::curve_publickey, security.own.public_key);
  socket.set(zmq::sockopt::curve_secretkey, security.own.secret_key);
  return {};
}

Status check_ipc_directory(std::string_view key, const Endpoint& endpoint) {
  if (endpoint.transport != Transport::kIpc) return {};
  const auto directory = std::filesystem::path(endpoint.text.substr(6)).parent_path();
  std::error_code ignored;
  if (endpoint.text[6] == '@' || directory.empty() || std::filesystem::is_directory(directory, ignored)) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("{}: directory {} of '{}' does not exist; create it first", key,
                                                        directory.string(), endpoint.text)};
}

Error cannot(std::string_view what, std::string_view key, const Endpoint& endpoint, const zmq::error_t& error) {
  return {
      ErrorCode::kUnavailable,
      fmt::format("{}: cannot {} '{}': {}{}", key, what, endpoint.text, error.what(),
                  error.num() == EADDRINUSE ? "; another process uses it: stop it or choose another endpoint" : "")};
}

}  // namespace

Result<Socket> Socket::create(Context& context, SocketKind kind, std::string_view key, const Endpoint& endpoint,
                              const SocketOptions& options, bool server) {
  ORRERY_TRY(check_security(key, endpoint, options.security));
  try {
    zmq::socket_t socket(context.raw(), zmq_type(kind));
    set_common_options(socket, kind, options);
    ORRERY_TRY(set_curve(socket, key, options.security, server));
    return Socket(kind, std::move(socket));
  } catch (const zmq::error_t& error) {
    return cannot("set up", key, endpoint, error);
  }
}

Result<Socket> Socket::bind(Context& context, SocketKind kind, std::string_view key, std::string_view endpoint,
                            const SocketOptions& options) {
  ORRERY_ASSIGN(const Endpoint parsed, parse_endpoint(key, endpoint));
  ORRERY_TRY(check_ipc_directory(key, parsed));
  ORRERY_ASSIGN(Socket socket, create(context, kind, key, parsed, options, true));
  try {
    socket.socket_.bind(parsed.text);
  } catch (const zmq::error_t& error) {
    return cannot("bind", key, parsed, error);
  }
  return socket;
}

Result<Socket> Socket::connect(Context& context, SocketKind kind, std::string_view key, std::string_view endpoint,
                               const SocketOptions& options) {
  ORRERY_ASSIGN(const Endpoint parsed, parse_endpoint(key, endpoint));
  ORRERY_ASSIGN(Socket socket, create(context, kind, key, parsed, options, false));
  try {
    socket.socket_.connect(parsed.text);
  } catch (const zmq::error_t& error) {
    return cannot("connect to", key, parsed, error);
  }
  return socket;
}

Status Socket::send_parts(std::optional<std::string_view> head, std::string_view body) {
  try {
    if (head) {
      const auto sent = socket_.send(zmq::buffer(*head), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
      if (!sent) return Error{ErrorCode::kUnavailable, "the peer's queue is full"};
    }
    const auto sent = socket_.send(zmq::buffer(body), zmq::send_flags::dontwait);
    if (!sent) return Error{ErrorCode::kUnavailable, "no peer is connected or its queue is full"};
    return {};
  } catch (const zmq::error_t& error) {
    return Error{ErrorCode::kUnavailable, fmt::format("cannot send: {}", error.what())};
  }
}

Result<std::optional<Message>> Socket::receive() {
  try {
    std::array<zmq::message_t, kMaxFrames> frames;
    size_t count = 0;
    bool more = true;
    for (zmq::message_t frame; more; ++count) {
      if (!socket_.recv(frame, zmq::recv_flags::dontwait)) return std::optional<Message>();
      more = frame.more();
      if (count < kMaxFrames) frames[count] = std::move(frame);
    }
    const size_t expected = has_head(kind_) ? 2 : 1;
    if (count != expected)
      return Error{ErrorCode::kCorrupt, fmt::format("message of {} frames where {} were expected", count, expected)};
    Message message;
    message.body = frames[expected - 1].to_string();
    if (kind_ == SocketKind::kRouter) message.peer = frames[0].to_string();
    if (kind_ == SocketKind::kSubscribe) message.topic = frames[0].to_string();
    return std::optional(std::move(message));
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return std::optional<Message>();
    return Error{ErrorCode::kSystem, fmt::format("cannot receive: {}", error.what())};
  }
}

int Socket::fd() const {
  return static_cast<int>(socket_.get(zmq::sockopt::fd));
}

Result<uint64_t> wait_readable(std::span<Socket* const> sockets, int timeout_ms) {
  std::vector<zmq::pollitem_t> items;
  for (Socket* socket : sockets) items.push_back({socket->raw().handle(), 0, ZMQ_POLLIN, 0});
  if (zmq_poll(items.data(), static_cast<int>(items.size()), timeout_ms) < 0) {
    if (zmq_errno() == EINTR) return uint64_t{0};
    return system_error("wait for messages", zmq_errno());
  }
  uint64_t readable = 0;
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].revents & ZMQ_POLLIN) readable |= uint64_t{1} << i;
  return readable;
}

Result<std::string> ask(Context& context, std::string_view key, std::string_view endpoint, const Security& security,
                        std::string_view body, int timeout_ms) {
  SocketOptions options;
  options.security = security;
  ORRERY_ASSIGN(Socket socket, Socket::connect(context, SocketKind::kRequest, key, endpoint, options));
  ORRERY_TRY(socket.send(body));
  Socket* const sockets[] = {&socket};
  ORRERY_ASSIGN(const uint64_t readable, wait_readable(sockets, timeout_ms));
  if (readable) {
    ORRERY_ASSIGN(std::optional<Message> answer, socket.receive());
    if (answer) return std::move(answer->body);
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("no answer from {} within {} ms; check that the controller runs (systemctl status "
                           "orrery-controller) and that {} names its control endpoint{}",
                           endpoint, timeout_ms, key, security.curve ? " and that this key is in its allow-list" : "")};
}

}  // namespace orrery::msg
