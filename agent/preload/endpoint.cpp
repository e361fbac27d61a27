#include "agent/preload/endpoint.h"

#include <string.h>

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
