// A training process as the agent sees one, without the preload library: maps a segment and writes events and counters
// into it.
#pragma once

#include <netinet/in.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "common/base/ip_address.h"
#include "common/shm/segment_writer.h"

namespace orrery::test {

class FakeProcess {
 public:
  static constexpr uint32_t kThread = 7;

  // Maps `segment_fd`; the mapping is this object's.
  FakeProcess(int segment_fd, size_t bytes) : bytes_(bytes) {
    base_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment_fd, 0);
    if (base_ == MAP_FAILED || !writer_.open(base_, bytes)) std::abort();
    ring_ = writer_.claim_ring(kThread, [](uint32_t) { return true; });
  }
  ~FakeProcess() { munmap(base_, bytes_); }
  FakeProcess(const FakeProcess&) = delete;
  FakeProcess& operator=(const FakeProcess&) = delete;

  void comm(orrery_event_type type, uint64_t comm_id, uint32_t rank, uint32_t nranks, uint64_t time_ns) {
    orrery_event event = make(type, time_ns);
    event.comm = {comm_id, 0, rank, nranks};
    push(event);
  }
  void collective(uint64_t comm_id, uint64_t bytes, uint32_t group, uint64_t time_ns,
                  uint32_t op = ORRERY_OP_ALL_REDUCE) {
    orrery_event event = make(ORRERY_EVENT_COLLECTIVE, time_ns);
    event.collective.comm_id = comm_id;
    event.collective.bytes = bytes;
    event.collective.op = op;
    event.collective.peer = UINT32_MAX;
    event.collective.group = group;
    push(event);
  }
  // Returns the slot.
  uint16_t flow(const FiveTuple& tuple, uint64_t time_ns, orrery_flow_role role = ORRERY_ROLE_CONNECT) {
    const auto slot = static_cast<uint16_t>(writer_.claim_flow(0));
    orrery_event event = make(ORRERY_EVENT_FLOW_BORN, time_ns);
    std::memcpy(event.flow.local_address, tuple.src.bytes().data(), 16);
    std::memcpy(event.flow.remote_address, tuple.dst.bytes().data(), 16);
    event.flow.local_port = tuple.src_port;
    event.flow.remote_port = tuple.dst_port;
    event.flow.protocol = tuple.protocol;
    event.flow.role = static_cast<uint8_t>(role);
    event.flow.slot = slot;
    event.flow.generation = counters(slot).generation;
    event.flow.plan_index = UINT32_MAX;
    push(event);
    return slot;
  }
  // A queue pair: UDP from `sport` to RoCE's port, then what only a queue pair has. Returns the slot.
  uint16_t queue_pair(const char* src, const char* dst, uint16_t sport, uint32_t qpn, uint64_t time_ns,
                      uint8_t flags = ORRERY_QP_CAN_MOVE | ORRERY_QP_CAN_DEFER) {
    const uint16_t slot =
        flow({IpAddress::parse(src).value(), IpAddress::parse(dst).value(), sport, 4791, IPPROTO_UDP}, time_ns);
    queue_pair_event(ORRERY_EVENT_QP_READY, slot, sport, qpn, time_ns, flags);
    return slot;
  }
  void queue_pair_event(orrery_event_type type, uint16_t slot, uint16_t sport, uint32_t qpn, uint64_t time_ns,
                        uint8_t flags = ORRERY_QP_CAN_MOVE | ORRERY_QP_CAN_DEFER) {
    orrery_event event = make(type, time_ns);
    event.qp.generation = counters(slot).generation;
    event.qp.slot = slot;
    event.qp.qpn = qpn;
    event.qp.dest_qpn = qpn + 1;
    event.qp.udp_sport = sport;
    event.qp.flow_label = sport & 0x3fff;
    event.qp.flags = flags;
    event.qp.plan_index = UINT32_MAX;
    std::memcpy(event.qp.device, "rxe0", 5);
    push(event);
  }
  void flow_gone(uint16_t slot, uint64_t time_ns) {
    orrery_event event = make(ORRERY_EVENT_FLOW_GONE, time_ns);
    event.flow.slot = slot;
    event.flow.generation = counters(slot).generation;
    writer_.release_flow(slot, event.flow.generation);
    push(event);
  }
  // `bytes` more sent from `first_ns` to `last_ns`.
  void sent(uint16_t slot, uint64_t bytes, uint64_t first_ns, uint64_t last_ns) {
    orrery_flow_counters& flow_counters = counters(slot);
    flow_counters.first_tx_ns = first_ns;
    flow_counters.last_tx_ns = last_ns;
    ++flow_counters.bursts;
    flow_counters.tx_bytes += bytes;
  }

  orrery_flow_counters& counters(uint16_t slot) { return *writer_.counters(slot); }
  shm::SegmentWriter& writer() { return writer_; }
  orrery_ring_header& ring() { return *ring_; }
  void* base() { return base_; }
  size_t bytes() const { return bytes_; }
  bool push(const orrery_event& event) { return writer_.push(ring_, event); }

  static orrery_event make(orrery_event_type type, uint64_t time_ns) {
    orrery_event event{};
    event.type = type;
    event.time_ns = time_ns;
    event.thread = kThread;
    return event;
  }

 private:
  void* base_ = nullptr;
  size_t bytes_;
  shm::SegmentWriter writer_;
  orrery_ring_header* ring_ = nullptr;
};

inline FiveTuple tcp_flow(const char* src, uint16_t src_port, const char* dst, uint16_t dst_port) {
  return {IpAddress::parse(src).value(), IpAddress::parse(dst).value(), src_port, dst_port, IPPROTO_TCP};
}

}  // namespace orrery::test
