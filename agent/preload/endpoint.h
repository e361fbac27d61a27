// One end of a connection, as the ABI headers write it.
#pragma once

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

namespace orrery::preload {

struct Endpoint {
  uint8_t address[16];  // network byte order, IPv4 as v4-mapped
  uint16_t port;        // host byte order
};

// False for anything but IPv4 and IPv6. `address` must be readable.
bool to_endpoint(const sockaddr* address, socklen_t bytes, Endpoint* out);
// Whether `bytes` (at least 1) bytes from `address` on can be read; asks the kernel.
bool is_readable(const void* address, size_t bytes);
bool is_loopback(const Endpoint& endpoint);
// Host byte order; false when the endpoint is not IPv4.
bool to_v4(const Endpoint& endpoint, uint32_t* out);
}  // namespace orrery::preload
