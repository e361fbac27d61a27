#include "agent/collect/attach_listener.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

namespace orrery::collect {
namespace {

constexpr uint64_t kRequestPatienceNs = 1'000'000'000;

Result<sockaddr_un> socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("agent.socket_path '{}' must have 1 to {} characters", path, sizeof address.sun_path - 1)};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Whether a living agent answers at the address; a socket file left by a crash refuses connections.
bool somebody_listens(const sockaddr_un& address) {
  UniqueFd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return false;
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
  return errno == EAGAIN;  // its backlog is full
}

Peer peer_of(int fd, const orrery_attach_request& request) {
  Peer peer;
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
    peer.pid = credentials.pid;
    peer.uid = credentials.uid;
  }
  for (const char c : request.program) {
    if (c == '\0') break;
    peer.program += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  }
  peer.layers = request.layers;
  peer.abi_version = std::min<uint32_t>(request.abi_version, ORRERY_ABI_VERSION);
  return peer;
}

}  // namespace

Result<AttachListener> AttachListener::create(const std::string& path, mode_t mode) {
  ORRERY_ASSIGN(const sockaddr_un address, socket_address(path));
  UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return system_error("cannot make the attach socket", errno);
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode))
      return Error{ErrorCode::kRefused,
                   fmt::format("'{}' exists and is not a socket; remove it or set agent.socket_path", path)};
    if (somebody_listens(address))
      return Error{
          ErrorCode::kRefused,
          fmt::format("another agent listens at '{}'; stop it, or give this one its own agent.socket_path", path)};
    unlink(path.c_str());
  }
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error(fmt::format("cannot bind the attach socket '{}' (does its directory exist?)", path), errno);
  AttachListener made(std::move(listener), path);
  if (chmod(path.c_str(), mode) != 0) return system_error(fmt::format("cannot set the mode of '{}'", path), errno);
  if (listen(made.fd(), 128) != 0) return system_error(fmt::format("cannot listen at '{}'", path), errno);
  return made;
}

AttachListener::AttachListener(AttachListener&& other) noexcept
    : listener_(std::move(other.listener_)),
      path_(std::exchange(other.path_, "")),
      pending_(std::move(other.pending_)) {}

AttachListener::~AttachListener() {
  if (!path_.empty()) unlink(path_.c_str());
}

std::vector<int> AttachListener::accept_pending(uint64_t now_ns) {
  std::vector<int> accepted;
  starved_ = false;
  while (accepted.size() < kPendingLimit) {
    UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) {
      starved_ = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      break;
    }
    if (pending_.size() == kPendingLimit) pending_.erase(pending_.begin());
    accepted.push_back(connection.get());
    pending_.push_back({std::move(connection), now_ns});
  }
  return accepted;
}

bool AttachListener::is_pending(int fd) const {
  return std::any_of(pending_.begin(), pending_.end(), [fd](const Pending& p) { return p.connection.get() == fd; });
}

AttachListener::Answer AttachListener::read_request(int fd) {
  const auto pending =
      std::find_if(pending_.begin(), pending_.end(), [fd](const Pending& p) { return p.connection.get() == fd; });
  if (pending == pending_.end()) return {};
  orrery_attach_request request{};
  const ssize_t got = recv(fd, &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  UniqueFd connection = std::move(pending->connection);
  pending_.erase(pending);
  if (got == 0) return {.closed = true};
  const Peer peer = peer_of(fd, request);
  if (got != sizeof request || request.magic != ORRERY_ATTACH_MAGIC) {
    send_refusal(fd, ORRERY_ATTACH_REFUSED);
    return {.closed = true, .refusal = fmt::format("process {} (uid {}) sent no attach request", peer.pid, peer.uid)};
  }
  if (request.abi_oldest > ORRERY_ABI_VERSION || request.abi_version < ORRERY_ABI_OLDEST) {
    send_refusal(fd, ORRERY_ATTACH_VERSION);
    return {.closed = true,
            .refusal =
                fmt::format("process {} ({}) has a library that speaks versions {} to {}, this agent {} to {}; upgrade "
                            "the older one",
                            peer.pid, peer.program, request.abi_oldest, request.abi_version, ORRERY_ABI_OLDEST,
                            ORRERY_ABI_VERSION)};
  }
  return {.request = AttachRequest{std::move(connection), peer}};
}

void AttachListener::drop(int fd) {
  std::erase_if(pending_, [fd](const Pending& p) { return p.connection.get() == fd; });
}

size_t AttachListener::expire(uint64_t now_ns) {
  return std::erase_if(pending_, [&](const Pending& p) { return now_ns - p.since_ns > kRequestPatienceNs; });
}

Status send_reply(int connection, const orrery_attach_reply& reply, int segment_fd, int plan_fd) {
  const int descriptors[2] = {segment_fd, plan_fd};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
  iovec part{const_cast<orrery_attach_reply*>(&reply), sizeof reply};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(head), descriptors, sizeof descriptors);
  if (sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof reply))
    return Error{ErrorCode::kUnavailable, fmt::format("the process did not take the reply ({})", std::strerror(errno))};
  return {};
}

void send_refusal(int connection, orrery_attach_status status) {
  orrery_attach_reply reply{};
  reply.magic = ORRERY_ATTACH_MAGIC;
  reply.status = status;
  reply.abi_version = ORRERY_ABI_VERSION;
  // A process that has gone needs no answer.
  (void)!send(connection, &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace orrery::collect
