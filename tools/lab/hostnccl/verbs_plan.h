// The parts of the verbs transport without a device: which HCA and GID to use, how a message is divided between queue
// pairs, and the clear-to-send slots. Pure.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::hostnccl {

// NCCL_IB_HCA: "[^][=]name[:port],...". Names are prefixes, with '=' exact names; '^' excludes those listed.
class HcaFilter {
 public:
  explicit HcaFilter(std::string_view text);
  bool admits(std::string_view device, int port) const;
  bool empty() const { return entries_.empty(); }  // admits everything

 private:
  struct Entry {
    std::string name;
    int port = -1;  // any
  };
  bool excludes_ = false;
  bool exact_ = false;
  std::vector<Entry> entries_;
};

using Gid = std::array<uint8_t, 16>;

struct GidEntry {
  int index = 0;
  Gid gid{};
  bool is_roce_v2 = false;
};

bool is_zero(const Gid& gid);
// ::ffff:a.b.c.d in network order.
bool carries(const Gid& gid, const sockaddr_in& address);
std::string to_text(const Gid& gid);  // "10.0.0.1" when IPv4-mapped, else 16 bytes in hex
// RoCEv2 of the local address, else RoCEv2 and IPv4-mapped, else RoCEv2, else any that is set.
std::optional<int> choose_gid(const std::vector<GidEntry>& entries, const sockaddr_in& local);

// The largest message; longer transfers are several.
inline constexpr size_t kMaxMessageBytes = 1 << 20;

// One queue pair's share of a message that all share: shares are multiples of 128 bytes but for the last, and may be
// empty.
struct Share {
  size_t offset = 0;
  size_t bytes = 0;
};
Share share_of(size_t message_bytes, size_t queue_pairs, size_t index);

// Requests of one connection are numbered from 0. Their slots repeat after kRequests.
inline constexpr size_t kRequests = 64;
inline constexpr size_t kMaxOutstanding = 32;
static_assert(kRequests <= 256);                  // a work request id holds a request in 8 bits
static_assert(kMaxOutstanding * 2 <= kRequests);  // a slot is read long before it is written again
inline constexpr size_t kMaxGroup = 2;            // messages that share a request

// What the receiver writes into the sender's memory when it is ready for request `sequence` - 1. 64 bytes: one PCIe
// write, one packet.
struct alignas(64) CtsSlot {
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t key = 0;
  uint32_t group = 0;  // messages in the request
  uint32_t tag = 0;    // place in the group
  uint64_t padding[4] = {};
  uint64_t sequence = 0;  // last: set means that all of it is
};
static_assert(sizeof(CtsSlot) == 64);

inline size_t slot_of(uint64_t request) {
  return static_cast<size_t>(request % kRequests);
}
inline uint64_t sequence_of(uint64_t request) {
  return request + 1;
}
// Whether the slot's write is signalled: once per round, so that the send queue's places come free.
inline bool signals_cts(uint64_t request, size_t device_index) {
  return slot_of(request) == device_index;
}
// The queue pair of a request that is not divided.
inline size_t queue_pair_of(uint64_t request, size_t queue_pairs) {
  return static_cast<size_t>(request % queue_pairs);
}

// Requests in a work request id, 8 bits each.
inline uint64_t pack_requests(const std::array<uint8_t, kMaxGroup>& indices, size_t count) {
  uint64_t id = 0;
  for (size_t i = 0; i < count; ++i) id |= static_cast<uint64_t>(indices[i]) << (8 * i);
  return id;
}
inline uint8_t unpack_request(uint64_t id, size_t place) {
  return static_cast<uint8_t>(id >> (8 * place));
}

}  // namespace orrery::hostnccl
