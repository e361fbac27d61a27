#include "agent/preload/endpoint.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace orrery::preload {

static const uint8_t kV4Prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool to_endpoint(const sockaddr* address, socklen_t bytes, Endpoint* out) {
  if (address == nullptr || bytes < sizeof(sa_family_t)) return false;
  if (address->sa_family == AF_INET && bytes >= sizeof(sockaddr_in)) {
    sockaddr_in v4;
    memcpy(&v4, address, sizeof(v4));
    memcpy(out->address, kV4Prefix, 12);
    memcpy(out->address + 12, &v4.sin_addr, 4);
    out->port = ntohs(v4.sin_port);
    return true;
  }
  if (address->sa_family == AF_INET6 && bytes >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6;
    memcpy(&v6, address, sizeof(v6));
    memcpy(out->address, &v6.sin6_addr, 16);
    out->port = ntohs(v6.sin6_port);
    return true;
  }
  return false;
}

// rt_sigprocmask reads 8 bytes before it looks at what is to be done with them, and refuses what is not one of its
// three operations: EFAULT or EINVAL tells, and nothing is changed.
static bool is_word_readable(const char* address) {
  return syscall(SYS_rt_sigprocmask, ~0, address, nullptr, 8) == -1 && errno != EFAULT;
}

bool is_readable(const void* address, size_t bytes) {
  const int saved = errno;
  const auto* first = static_cast<const char*>(address);
  const char* last = first + bytes - 1;  // two words of eight within aligned words are each on one page
  const bool readable = is_word_readable(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(first) & ~7ull)) &&
                        is_word_readable(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(last) & ~7ull));
  errno = saved;
  return readable;
}

bool is_loopback(const Endpoint& endpoint) {
  static const uint8_t kV6Loopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  if (memcmp(endpoint.address, kV4Prefix, 12) == 0) return endpoint.address[12] == 127 || endpoint.address[12] == 0;
  return memcmp(endpoint.address, kV6Loopback, 16) == 0;
}

bool to_v4(const Endpoint& endpoint, uint32_t* out) {
  if (memcmp(endpoint.address, kV4Prefix, 12) != 0) return false;
  uint32_t network;
  memcpy(&network, endpoint.address + 12, 4);
  *out = ntohl(network);
  return true;
}

}  // namespace orrery::preload
