// IP addresses and five-tuples as values. IPv4 is held v4-mapped, so that one type serves both families.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace orrery {

class IpAddress {
 public:
  IpAddress() = default;  // "::", meaning any or unknown
  static IpAddress from_bytes(const uint8_t bytes[16]);
  static IpAddress from_v4(uint32_t host_order);
  // Accepts dotted IPv4 and textual IPv6.
  static Result<IpAddress> parse(std::string_view text);

  bool is_unspecified() const { return bytes_ == std::array<uint8_t, 16>{}; }
  // Host byte order; nothing when not IPv4.
  std::optional<uint32_t> v4() const;
  const std::array<uint8_t, 16>& bytes() const { return bytes_; }
  std::string to_string() const;

  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;

 private:
  std::array<uint8_t, 16> bytes_{};  // network byte order
};

struct FiveTuple {
  IpAddress src;
  IpAddress dst;
  uint16_t src_port = 0;
  uint16_t dst_port = 0;
  uint8_t protocol = 0;  // IPPROTO_*

  FiveTuple reversed() const { return {dst, src, dst_port, src_port, protocol}; }
  // "tcp 10.0.0.1:4000 > 10.0.0.2:5000"
  std::string to_string() const;
  friend auto operator<=>(const FiveTuple&, const FiveTuple&) = default;
};

}  // namespace orrery

template <>
struct std::hash<orrery::IpAddress> {
  size_t operator()(const orrery::IpAddress& address) const noexcept;
};
template <>
struct std::hash<orrery::FiveTuple> {
  size_t operator()(const orrery::FiveTuple& tuple) const noexcept;
};
