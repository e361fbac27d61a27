#include "tools/lab/hostnccl/settings.h"

#include <strings.h>

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

Result<bool> read_flag(const char* name, bool fallback) {
  ORRERY_ASSIGN(const uint32_t value, read_number(name, fallback ? 1 : 0, 0, 1));
  return value == 1;
}

// NCCL writes -1 for "choose for me".
bool is_automatic(const char* name) {
  const char* text = std::getenv(name);
  return !text || !*text || std::strcmp(text, "-1") == 0;
}

Result<NetworkChoice> read_network() {
  ORRERY_ASSIGN(const bool disabled, read_flag("NCCL_IB_DISABLE", false));
  const char* text = std::getenv("NCCL_NET");
  if (!text || !*text) return disabled ? NetworkChoice::kSocket : NetworkChoice::kAny;
  if (::strcasecmp(text, "Socket") == 0) return NetworkChoice::kSocket;
  if (::strcasecmp(text, "IB") != 0) {
    return Error{ErrorCode::kInvalidArgument, std::string("NCCL_NET=") + text + " is neither Socket nor IB"};
  }
  if (disabled) return Error{ErrorCode::kInvalidArgument, "NCCL_NET=IB and NCCL_IB_DISABLE=1 exclude each other"};
  return NetworkChoice::kVerbs;
}

Status read_shared_verbs(SharedSettings& shared) {
  ORRERY_ASSIGN(const uint32_t queue_pairs, read_number("NCCL_IB_QPS_PER_CONNECTION", 1, 1, 128));
  ORRERY_ASSIGN(const bool split, read_flag("NCCL_IB_SPLIT_DATA_ON_QPS", false));
  shared.queue_pairs = static_cast<uint16_t>(queue_pairs);
  shared.split_data = split ? 1 : 0;
  return {};
}

Result<PollSettings> read_poll() {
  PollSettings poll;
  ORRERY_ASSIGN(poll.spins, read_number("HOSTNCCL_POLL_SPINS", poll.spins, 0, 1'000'000'000));
  ORRERY_ASSIGN(poll.yields, read_number("HOSTNCCL_POLL_YIELDS", poll.yields, 0, 1'000'000'000));
  ORRERY_ASSIGN(poll.sleep_us, read_number("HOSTNCCL_POLL_SLEEP_US", poll.sleep_us, 0, 1'000'000));
  ORRERY_ASSIGN(poll.sleep_max_us, read_number("HOSTNCCL_POLL_SLEEP_MAX_US", poll.sleep_max_us, 0, 1'000'000));
  return poll;
}

Status read_verbs_addressing(VerbsSettings& verbs) {
  if (!is_automatic("NCCL_IB_GID_INDEX")) {
    ORRERY_ASSIGN(const uint32_t index, read_number("NCCL_IB_GID_INDEX", 0, 0, 65535));
    verbs.gid_index = static_cast<int>(index);
  }
  ORRERY_ASSIGN(const uint32_t level, read_number("NCCL_IB_SL", 0, 0, 15));
  ORRERY_ASSIGN(const uint32_t pkey, read_number("NCCL_IB_PKEY", 0, 0, 65535));
  verbs.service_level = static_cast<uint8_t>(level);
  verbs.pkey_index = static_cast<uint16_t>(pkey);
  if (!is_automatic("NCCL_IB_TC")) {
    ORRERY_ASSIGN(const uint32_t traffic_class, read_number("NCCL_IB_TC", 0, 0, 255));
    verbs.traffic_class = static_cast<uint8_t>(traffic_class);
  }
  verbs.cts_traffic_class = verbs.traffic_class;
  if (!is_automatic("NCCL_IB_FIFO_TC")) {
    ORRERY_ASSIGN(const uint32_t traffic_class, read_number("NCCL_IB_FIFO_TC", 0, 0, 255));
    verbs.cts_traffic_class = static_cast<uint8_t>(traffic_class);
  }
  return {};
}

Result<VerbsSettings> read_verbs() {
  VerbsSettings verbs;
  if (const char* hca = std::getenv("NCCL_IB_HCA")) verbs.hca = hca;
  ORRERY_TRY(read_verbs_addressing(verbs));
  ORRERY_ASSIGN(const uint32_t timeout, read_number("NCCL_IB_TIMEOUT", 20, 1, 31));
  ORRERY_ASSIGN(const uint32_t retries, read_number("NCCL_IB_RETRY_CNT", 7, 0, 7));
  verbs.timeout = static_cast<uint8_t>(timeout);
  verbs.retries = static_cast<uint8_t>(retries);
  ORRERY_ASSIGN(verbs.adaptive_routing, read_flag("NCCL_IB_ADAPTIVE_ROUTING", false));
  ORRERY_ASSIGN(verbs.adaptive_threshold, read_number("NCCL_IB_AR_THRESHOLD", 8192, 0, UINT32_MAX));
  ORRERY_ASSIGN(verbs.inline_cts, read_flag("NCCL_IB_USE_INLINE", true));
  ORRERY_ASSIGN(const uint32_t relaxed, read_number("NCCL_IB_PCI_RELAXED_ORDERING", 2, 0, 2));  // 2: where possible
  verbs.relaxed_ordering = relaxed != 0;
  ORRERY_ASSIGN(verbs.flush, read_flag("HOSTNCCL_FLUSH", false));
  ORRERY_ASSIGN(verbs.poll, read_poll());
  return verbs;
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
  ORRERY_ASSIGN(const uint32_t slice, read_number("HOSTNCCL_SLICE_BYTES", 0, 4 << 10, 4 << 20));
  settings.shared.slice_bytes = slice / 64 * 64;
  ORRERY_ASSIGN(const uint32_t join, read_number("HOSTNCCL_JOIN_TIMEOUT_S", 120, 1, 86400));
  settings.join_timeout = std::chrono::seconds(join);
  ORRERY_ASSIGN(const uint32_t peer, read_number("HOSTNCCL_PEER_TIMEOUT_S", 30, 1, 86400));
  settings.peer_timeout = std::chrono::seconds(peer);
  if (const char* name = std::getenv("NCCL_SOCKET_IFNAME")) settings.interface = name;
  ORRERY_ASSIGN(settings.network, read_network());
  ORRERY_TRY(read_shared_verbs(settings.shared));
  ORRERY_ASSIGN(settings.verbs, read_verbs());
  return settings;
}

}  // namespace orrery::hostnccl
