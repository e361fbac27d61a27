#include "tools/lab/hostnccl/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

namespace orrery::hostnccl {
namespace {

Result<uint32_t> read_number(const char* name, uint32_t fallback, uint32_t low, uint32_t high) {
  const char* text = std::getenv(name);
  if (!text || !*text) return fallback;
  uint32_t value = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || value < low || value > high) {
    return Error{ErrorCode::kInvalidArgument, std::string(name) + "=" + text + " is not a whole number from " +
                                                  std::to_string(low) + " to " + std::to_string(high)};
  }
  return value;
}

}  // namespace

Result<Settings> read_settings() {
  Settings settings;
  ORRERY_ASSIGN(const uint32_t min_channels, read_number("NCCL_MIN_NCHANNELS", 1, 1, 32));
  ORRERY_ASSIGN(const uint32_t max_channels, read_number("NCCL_MAX_NCHANNELS", 32, 1, 32));
  settings.shared.channels = std::min(min_channels, max_channels);
  ORRERY_ASSIGN(const uint32_t per_thread, read_number("NCCL_NSOCKS_PERTHREAD", 1, 1, 64));
  ORRERY_ASSIGN(const uint32_t threads, read_number("NCCL_SOCKET_NTHREADS", 1, 1, 16));
  if (per_thread * threads > 64) {
    return Error{ErrorCode::kInvalidArgument,
                 "NCCL_NSOCKS_PERTHREAD x NCCL_SOCKET_NTHREADS is more than 64 sockets for one channel and peer"};
  }
  settings.shared.sockets = per_thread * threads;
  ORRERY_ASSIGN(const uint32_t slice, read_number("HOSTNCCL_SLICE_BYTES", 16 << 10, 4 << 10, 4 << 20));
  settings.shared.slice_bytes = slice / 64 * 64;
  ORRERY_ASSIGN(const uint32_t join, read_number("HOSTNCCL_JOIN_TIMEOUT_S", 120, 1, 86400));
  settings.join_timeout = std::chrono::seconds(join);
  ORRERY_ASSIGN(const uint32_t peer, read_number("HOSTNCCL_PEER_TIMEOUT_S", 30, 1, 86400));
  settings.peer_timeout = std::chrono::seconds(peer);
  if (const char* name = std::getenv("NCCL_SOCKET_IFNAME")) settings.interface = name;
  return settings;
}

}  // namespace orrery::hostnccl
