#include "tools/lab/hostnccl/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

namespace orrery::hostnccl {
namespace {

constexpr int kBacklog = 4096;
constexpr auto kConnectRetry = std::chrono::milliseconds(50);

struct Selection {
  bool exact = false;
  bool excludes = false;
  std::string_view names;

  bool lists(std::string_view interface) const {
    std::string_view rest = names;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view name = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (name.empty()) continue;
      if (exact ? interface == name : interface.starts_with(name)) return true;
    }
    return false;
  }
};

Selection parse_selection(std::string_view text) {
  Selection selection;
  if (text.starts_with('^')) {
    selection.excludes = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    selection.exact = true;
    text.remove_prefix(1);
  }
  selection.names = text;
  return selection;
}

Status wait_for(int fd, short events, Deadline deadline, const char* what) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Error{ErrorCode::kUnavailable, std::string(what) + " timed out"};
    pollfd poll_fd{fd, events, 0};
    const int ready = ::poll(&poll_fd, 1, static_cast<int>(std::min<long long>(left, 1'000'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_error("poll", errno);
  }
}

Status set_nonblocking(int fd) {
  if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL, 0) | O_NONBLOCK) != 0) return system_error("fcntl O_NONBLOCK", errno);
  return {};
}

void set_no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

std::string to_text(const sockaddr_in& address) {
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return std::string(text) + ":" + std::to_string(ntohs(address.sin_port));
}

Result<sockaddr_in> choose_local_address(const std::string& selection_text) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  const Selection selection = parse_selection(selection_text);
  const sockaddr_in* loopback = nullptr;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET || !(entry->ifa_flags & IFF_UP)) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    const std::string_view name = entry->ifa_name;
    if (!selection_text.empty() && !selection.excludes) {
      if (selection.lists(name)) return *address;
      continue;
    }
    if (selection.excludes && selection.lists(name)) continue;
    if (entry->ifa_flags & IFF_LOOPBACK) {
      if (!loopback) loopback = address;
    } else if (!name.starts_with("docker")) {
      return *address;
    }
  }
  if (loopback) return *loopback;
  return Error{ErrorCode::kInvalidArgument,
               "no interface with an IPv4 address that is up" +
                   (selection_text.empty() ? std::string() : " matches NCCL_SOCKET_IFNAME=" + selection_text)};
}

Result<sockaddr_in> parse_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  uint16_t port = 0;
  if (colon == std::string::npos ||
      std::from_chars(text.data() + colon + 1, text.data() + text.size(), port).ptr != text.data() + text.size()) {
    return Error{ErrorCode::kInvalidArgument, "\"" + text + "\" is not host:port"};
  }
  const std::string host = text.substr(0, colon);
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0) return Error{ErrorCode::kInvalidArgument, "cannot resolve " + host + ": " + ::gai_strerror(code)};
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  ::freeaddrinfo(found);
  address.sin_port = htons(port);
  return address;
}

Result<UniqueFd> listen_on(sockaddr_in& address) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  const int on = 1;
  if (address.sin_port != 0) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return system_error("bind to " + to_text(address), errno);
  }
  if (::listen(fd.get(), kBacklog) != 0) return system_error("listen on " + to_text(address), errno);
  socklen_t length = sizeof address;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return system_error("getsockname", errno);
  }
  return fd;
}

Result<UniqueFd> accept_before(int listener, Deadline deadline) {
  for (;;) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd) {
      prepare_accepted(fd.get());
      return fd;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) return system_error("accept", errno);
    ORRERY_TRY(wait_for(listener, POLLIN, deadline, "waiting for a connection"));
  }
}

Result<UniqueFd> start_connect(const sockaddr_in& address) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("socket", errno);
  ORRERY_TRY(set_nonblocking(fd.get()));
  set_no_delay(fd.get());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS) {
    const int reason = errno;
    auto error = system_error("connect to " + to_text(address), reason);
    if (reason == ECONNREFUSED) error.code = ErrorCode::kRefused;
    if (reason == EHOSTUNREACH || reason == ENETUNREACH || reason == ETIMEDOUT) error.code = ErrorCode::kUnavailable;
    return error;
  }
  return fd;
}

Result<UniqueFd> connect_before(const sockaddr_in& address, Deadline deadline) {
  for (;;) {
    auto fd = start_connect(address);
    if (!fd && fd.error().code != ErrorCode::kUnavailable && fd.error().code != ErrorCode::kRefused) return fd;
    std::string text;
    if (fd) {
      int reason = 0;
      ORRERY_TRY(wait_for(fd->get(), POLLOUT, deadline, ("connecting to " + to_text(address)).c_str()));
      socklen_t length = sizeof reason;
      ::getsockopt(fd->get(), SOL_SOCKET, SO_ERROR, &reason, &length);
      if (reason == 0) return fd;
      text = system_error("connect to " + to_text(address), reason).message;
    } else {
      text = fd.error().message;
    }
    if (Clock::now() + kConnectRetry >= deadline) return Error{ErrorCode::kUnavailable, text};
    std::this_thread::sleep_for(kConnectRetry);
  }
}

void bound_silence(int fd, std::chrono::seconds timeout) {
  const int on = 1;
  const int seconds = static_cast<int>(std::max<long long>(timeout.count() / 3, 1));
  const int probes = 2;
  const unsigned int unacknowledged_ms = static_cast<unsigned int>(timeout.count() * 1000);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

void prepare_accepted(int fd) {
  (void)set_nonblocking(fd);
  set_no_delay(fd);
}

Status send_all(int fd, const void* data, size_t bytes, Deadline deadline) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, next, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      next += sent;
      bytes -= static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      ORRERY_TRY(wait_for(fd, POLLOUT, deadline, "sending"));
    } else if (errno != EINTR) {
      return Error{ErrorCode::kUnavailable, system_error("send", errno).message};
    }
  }
  return {};
}

Status receive_all(int fd, void* data, size_t bytes, Deadline deadline) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(fd, next, bytes, 0);
    if (got > 0) {
      next += got;
      bytes -= static_cast<size_t>(got);
    } else if (got == 0) {
      return Error{ErrorCode::kUnavailable, "the peer closed the connection"};
    } else if (errno == EAGAIN) {
      ORRERY_TRY(wait_for(fd, POLLIN, deadline, "receiving"));
    } else if (errno != EINTR) {
      return Error{ErrorCode::kUnavailable, system_error("recv", errno).message};
    }
  }
  return {};
}

}  // namespace orrery::hostnccl
