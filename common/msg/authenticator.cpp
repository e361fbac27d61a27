#include "common/msg/authenticator.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>

namespace orrery::msg {
namespace {

constexpr int kPollMs = 100;

// Frames of a ZAP request, RFC 27: version, request id, domain, address, identity, mechanism, credentials.
constexpr size_t kVersion = 0, kRequestId = 1, kAddress = 3, kMechanism = 5, kCredentials = 6;

std::string z85_of(const std::string& raw) {
  std::array<char, 41> text{};
  if (raw.size() != 32 ||
      zmq_z85_encode(text.data(), reinterpret_cast<const uint8_t*>(raw.data()), raw.size()) == nullptr)
    return {};
  return text.data();
}

}  // namespace

Authenticator::Authenticator(zmq::socket_t socket, std::unordered_set<std::string> allowed)
    : socket_(std::move(socket)), allowed_(std::move(allowed)), thread_([this] { run(); }) {}

Result<std::unique_ptr<Authenticator>> Authenticator::create(Context& context,
                                                             const std::vector<std::string>& allowed_public_keys) {
  try {
    zmq::socket_t socket(context.raw(), ZMQ_REP);
    socket.set(zmq::sockopt::linger, 0);
    socket.bind("inproc://zeromq.zap.01");
    return std::unique_ptr<Authenticator>(
        new Authenticator(std::move(socket), {allowed_public_keys.begin(), allowed_public_keys.end()}));
  } catch (const zmq::error_t& error) {
    return Error{ErrorCode::kSystem, fmt::format("cannot set up the check of client keys: {}", error.what())};
  }
}

Authenticator::~Authenticator() {
  stopping_ = true;
  thread_.join();
}

void Authenticator::run() {
  while (!stopping_) {
    try {
      zmq::pollitem_t item = {socket_.handle(), 0, ZMQ_POLLIN, 0};
      if (zmq_poll(&item, 1, kPollMs) <= 0) continue;
      std::vector<std::string> request;
      zmq::message_t frame;
      do {
        if (!socket_.recv(frame, zmq::recv_flags::none)) break;
        request.push_back(frame.to_string());
      } while (frame.more());
      answer(request);
    } catch (const zmq::error_t& error) {
      if (error.num() == ETERM) return;
    }
  }
}

void Authenticator::answer(const std::vector<std::string>& request) {
  const bool curve = request.size() == kCredentials + 1 && request[kMechanism] == "CURVE";
  const std::string key = curve ? z85_of(request[kCredentials]) : "";
  const bool allowed = curve && allowed_.contains(key);
  if (!allowed) {
    ++refused_;
    spdlog::warn("refused a connection from {}: public key {} is not in the allow-list (security.allow_list_file)",
                 request.size() > kAddress ? request[kAddress] : "?", key.empty() ? "of another mechanism" : key);
  }
  const std::array<std::string, 6> reply = {request.size() > kVersion ? request[kVersion] : "1.0",
                                            request.size() > kRequestId ? request[kRequestId] : "",
                                            allowed ? "200" : "400",
                                            allowed ? "OK" : "key not in the allow-list",
                                            allowed ? key : "",
                                            ""};
  for (size_t i = 0; i < reply.size(); ++i)
    socket_.send(zmq::buffer(reply[i]), i + 1 < reply.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
}

}  // namespace orrery::msg
