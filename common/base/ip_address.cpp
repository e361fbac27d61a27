#include "common/base/ip_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace orrery {
namespace {
constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::string protocol_name(uint8_t protocol) {
  switch (protocol) {
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    default:
      return fmt::format("proto-{}", protocol);
  }
}
}  // namespace

IpAddress IpAddress::from_bytes(const uint8_t bytes[16]) {
  IpAddress address;
  std::memcpy(address.bytes_.data(), bytes, 16);
  return address;
}

IpAddress IpAddress::from_v4(uint32_t host_order) {
  IpAddress address;
  std::memcpy(address.bytes_.data(), kMappedPrefix, 12);
  const uint32_t network_order = htonl(host_order);
  std::memcpy(address.bytes_.data() + 12, &network_order, 4);
  return address;
}

Result<IpAddress> IpAddress::parse(std::string_view text) {
  const std::string terminated(text);
  in_addr v4{};
  if (inet_pton(AF_INET, terminated.c_str(), &v4) == 1) return from_v4(ntohl(v4.s_addr));
  IpAddress address;
  if (inet_pton(AF_INET6, terminated.c_str(), address.bytes_.data()) == 1) return address;
  return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' is not an IPv4 or IPv6 address", text)};
}

std::optional<uint32_t> IpAddress::v4() const {
  if (std::memcmp(bytes_.data(), kMappedPrefix, 12) != 0) return std::nullopt;
  uint32_t network_order;
  std::memcpy(&network_order, bytes_.data() + 12, 4);
  return ntohl(network_order);
}

std::string IpAddress::to_string() const {
  char text[INET6_ADDRSTRLEN];
  if (v4())
    inet_ntop(AF_INET, bytes_.data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, bytes_.data(), text, sizeof text);
  return text;
}

std::string FiveTuple::to_string() const {
  const auto end = [](const IpAddress& address, uint16_t port) {
    return address.v4() ? fmt::format("{}:{}", address.to_string(), port)
                        : fmt::format("[{}]:{}", address.to_string(), port);
  };
  return fmt::format("{} {} > {}", protocol_name(protocol), end(src, src_port), end(dst, dst_port));
}

}  // namespace orrery

size_t std::hash<orrery::IpAddress>::operator()(const orrery::IpAddress& address) const noexcept {
  uint64_t high, low;
  std::memcpy(&high, address.bytes().data(), 8);
  std::memcpy(&low, address.bytes().data() + 8, 8);
  uint64_t mixed = (high ^ (low + 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;
  return mixed ^ (mixed >> 32);
}

size_t std::hash<orrery::FiveTuple>::operator()(const orrery::FiveTuple& tuple) const noexcept {
  const std::hash<orrery::IpAddress> address_hash;
  uint64_t mixed = address_hash(tuple.src) * 31 + address_hash(tuple.dst);
  mixed ^= (uint64_t{tuple.src_port} << 32) | (uint64_t{tuple.dst_port} << 8) | tuple.protocol;
  mixed *= 0xc4ceb9fe1a85ec53ull;
  return mixed ^ (mixed >> 29);
}
