#include "agent/preload/flow_table.h"

#include <errno.h>
#include <string.h>

#include "agent/preload/plan_use.h"

namespace orrery::preload {

uint32_t descriptors[kMaxDescriptors];
Flow flows[kMaxFlows];

namespace {

constexpr uint32_t kPeers = 1024;  // a power of two
constexpr uint32_t kPeerProbes = 16;
constexpr uint32_t kBeingAnnounced = 0xffffffffu;

struct Peer {
  uint64_t key;
  uint32_t connections;
};
Peer peers[kPeers];
uint32_t flow_hint = 0;
uint32_t highest_descriptor = 0;

uint64_t key_of(const uint8_t* address, uint8_t protocol) {
  uint64_t words[2];
  memcpy(words, address, 16);
  words[1] ^= protocol;
  const uint64_t key = (words[0] * 0x9e3779b97f4a7c15ull ^ words[1]) * 0xff51afd7ed558ccdull;
  return key != 0 ? key : 1;
}

Flow* claim_flow() {
  const uint32_t hint = __atomic_fetch_add(&flow_hint, 1u, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < kMaxFlows; ++i) {
    Flow& flow = flows[(hint + i) % kMaxFlows];
    uint32_t free = 0;
    if (__atomic_load_n(&flow.references, __ATOMIC_RELAXED) == 0 &&
        __atomic_compare_exchange_n(&flow.references, &free, 1u, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return &flow;
  }
  return nullptr;
}

void emit_flow(uint32_t type, const Flow& flow, uint32_t slot, uint32_t generation) {
  orrery_event event{};
  event.time_ns = now_ns();
  event.type = type;
  memcpy(event.flow.local_address, flow.local.address, 16);
  memcpy(event.flow.remote_address, flow.remote.address, 16);
  event.flow.local_port = flow.local.port;
  event.flow.remote_port = flow.remote.port;
  event.flow.protocol = IPPROTO_TCP;
  event.flow.role = flow.role;
  event.flow.slot = static_cast<uint16_t>(slot);
  event.flow.generation = generation;
  event.flow.plan_index = flow.born_by_entry;
  emit(event);
}

void drop_reference(Flow& flow) {
  if (__atomic_load_n(&flow.references, __ATOMIC_RELAXED) == 1) {
    // The last one: nobody else leads here any more.
    if (attached() && flow.announced == generation() && flow.slot != shm::SegmentWriter::kNoSlot) {
      emit_flow(ORRERY_EVENT_FLOW_GONE, flow, flow.slot, flow.slot_generation);
      attachment.segment.release_flow(flow.slot, flow.slot_generation);
    }
    __atomic_store_n(&flow.remote.port, uint16_t{0}, __ATOMIC_RELAXED);  // announce_all_flows() passes it by
    flow.announced = 0;
  }
  __atomic_fetch_sub(&flow.references, 1u, __ATOMIC_RELEASE);
}

uint32_t take_descriptor(int fd) {
  return __atomic_exchange_n(&descriptors[fd], 0u, __ATOMIC_ACQ_REL);
}

void raise_highest(int fd) {
  uint32_t highest = __atomic_load_n(&highest_descriptor, __ATOMIC_RELAXED);
  while (highest < static_cast<uint32_t>(fd) &&
         !__atomic_compare_exchange_n(&highest_descriptor, &highest, static_cast<uint32_t>(fd), true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
}

void set_descriptor(int fd, uint32_t value) {
  raise_highest(fd);
  __atomic_store_n(&descriptors[fd], value, __ATOMIC_RELEASE);
}

bool same(const Endpoint& a, const Endpoint& b) {
  return a.port == b.port && memcmp(a.address, b.address, 16) == 0;
}

bool local_endpoint_of(int fd, Endpoint* local) {
  sockaddr_storage address;
  socklen_t bytes = sizeof(address);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 &&
         to_endpoint(reinterpret_cast<sockaddr*>(&address), bytes, local);
}

}  // namespace

bool is_tcp(int fd) {
  int type = 0;
  socklen_t bytes = sizeof(type);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM;
}

bool has_local_port(int fd, uint16_t port) {
  Endpoint local;
  return local_endpoint_of(fd, &local) && local.port == port;
}

uint16_t next_ordinal(const Endpoint& remote, uint8_t protocol) {
  const uint64_t key = key_of(remote.address, protocol);
  for (uint32_t i = 0; i < kPeerProbes; ++i) {
    Peer& peer = peers[(key + i) & (kPeers - 1)];
    uint64_t seen = __atomic_load_n(&peer.key, __ATOMIC_RELAXED);
    if (seen == 0 && __atomic_compare_exchange_n(&peer.key, &seen, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      seen = key;
    if (seen == key) {
      const uint32_t before = __atomic_fetch_add(&peer.connections, 1u, __ATOMIC_RELAXED);
      return static_cast<uint16_t>(before < kNoOrdinal ? before : kNoOrdinal);
    }
  }
  return kNoOrdinal;
}

void add_flow(int fd, const Endpoint& remote, orrery_flow_role role, uint16_t ordinal, uint32_t born_by_entry) {
  if (static_cast<uint32_t>(fd) >= kMaxDescriptors) return;
  Endpoint local;
  if (!local_endpoint_of(fd, &local) || memcmp(local.address, remote.address, 16) == 0) return;
  Flow* flow = claim_flow();
  if (flow == nullptr) return;
  __atomic_store_n(&flow->announced, 0u, __ATOMIC_RELAXED);
  flow->local = local;
  memcpy(flow->remote.address, remote.address, 16);  // its port comes last
  flow->role = role;
  flow->ordinal = ordinal;
  flow->born_by_entry = born_by_entry;
  flow->plan_generation = 0;
  flow->plan_flow_id = flow->plan_comm_id = flow->release_offset_ns = 0;
  flow->plan_comm = nullptr;
  flow->last_tx_ns = 0;
  flow->hold = ReleaseHold{};
  const uint32_t edge = descriptor(fd) & kEdgeTriggered;
  __atomic_store_n(&flow->edge_triggered, edge != 0, __ATOMIC_RELAXED);
  flow->paced = false;
  __atomic_store_n(&flow->remote.port, remote.port, __ATOMIC_RELEASE);  // announce_all_flows() finds it from now on
  set_descriptor(fd, static_cast<uint32_t>(flow - flows) + 1 + edge);
  fence_announcement();
  if (!attached()) return;
  refresh_plan(*flow, now_ns());
  announce_flow(*flow);
}

void forget_descriptor(int fd) {
  const uint32_t index = take_descriptor(fd) & kFlowMask;
  if (index != 0) drop_reference(flows[index - 1]);
}

void copy_descriptor(int from, int to) {
  if (static_cast<uint32_t>(to) >= kMaxDescriptors) return;
  const uint32_t value = descriptor(from);
  if (value == 0) return;
  if (const uint32_t index = value & kFlowMask) __atomic_fetch_add(&flows[index - 1].references, 1u, __ATOMIC_ACQ_REL);
  set_descriptor(to, value);
}

bool still_means(int fd, const Flow& flow) {
  sockaddr_storage address;
  socklen_t bytes = sizeof(address);
  Endpoint local, remote;
  return local_endpoint_of(fd, &local) && same(local, flow.local) &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 &&
         to_endpoint(reinterpret_cast<sockaddr*>(&address), bytes, &remote) && same(remote, flow.remote);
}

void mark_edge_triggered(int fd) {
  if (static_cast<uint32_t>(fd) >= kMaxDescriptors) return;
  raise_highest(fd);
  const uint32_t before = __atomic_fetch_or(&descriptors[fd], kEdgeTriggered, __ATOMIC_ACQ_REL);
  if (const uint32_t index = before & kFlowMask)
    __atomic_store_n(&flows[index - 1].edge_triggered, true, __ATOMIC_RELAXED);
}

void forget_range(uint32_t first, uint32_t last) {
  const uint32_t highest = __atomic_load_n(&highest_descriptor, __ATOMIC_RELAXED);
  for (uint32_t fd = first; fd <= last && fd <= highest; ++fd)
    if (descriptor(static_cast<int>(fd)) != 0) forget_descriptor(static_cast<int>(fd));
}

void forget_flows_of_parent() {
  const uint32_t highest = __atomic_load_n(&highest_descriptor, __ATOMIC_RELAXED);
  for (uint32_t fd = 0; fd <= highest; ++fd)
    if (descriptors[fd] != 0) descriptors[fd] &= kEdgeTriggered;  // the epoll set is inherited, too
  for (Flow& flow : flows)
    if (flow.references != 0) flow = Flow{};
  for (Peer& peer : peers)
    if (peer.key != 0) peer = Peer{};
}

void announce_flow(Flow& flow) {
  const uint32_t current = generation();
  uint32_t announced = __atomic_load_n(&flow.announced, __ATOMIC_RELAXED);
  if (announced == current || announced == kBeingAnnounced ||
      !__atomic_compare_exchange_n(&flow.announced, &announced, kBeingAnnounced, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED))
    return;
  flow.slot = attachment.segment.claim_flow(static_cast<uint32_t>(&flow - flows));
  if (flow.slot != shm::SegmentWriter::kNoSlot) {
    orrery_flow_counters* counters = attachment.segment.counters(flow.slot);
    flow.slot_generation = counters->generation;
    shm::store_relaxed(&counters->plan_flow_id, flow.plan_flow_id);
    emit_flow(ORRERY_EVENT_FLOW_BORN, flow, flow.slot, flow.slot_generation);
  }
  __atomic_store_n(&flow.announced, current, __ATOMIC_RELEASE);
}

void announce_all_flows() {
  for (Flow& flow : flows)
    if (__atomic_load_n(&flow.references, __ATOMIC_RELAXED) != 0 &&
        __atomic_load_n(&flow.remote.port, __ATOMIC_ACQUIRE) != 0)
      announce_flow(flow);
}

}  // namespace orrery::preload
