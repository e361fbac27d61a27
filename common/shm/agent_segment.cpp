#include "common/shm/agent_segment.h"

#include <string>
#include <utility>

namespace orrery::shm {
namespace {

// What a counter in hostile memory grew by; a counter that ran backwards counts for nothing.
uint64_t growth(uint64_t value, uint64_t& seen) {
  const uint64_t grown = value > seen ? value - seen : 0;
  seen = value;
  return grown;
}

}  // namespace

AgentSegment::AgentSegment(SharedMemory memory, const SegmentShape& shape)
    : memory_(std::move(memory)), shape_(shape), consumed_(shape.ring_count), dropped_seen_(shape.ring_count) {}

Result<AgentSegment> AgentSegment::create(const SegmentShape& shape) {
  if (!shape.valid())
    return Error{ErrorCode::kInvalidArgument,
                 "segment of " + std::to_string(shape.ring_count) + " rings x " + std::to_string(shape.ring_events) +
                     " events and " + std::to_string(shape.flow_slots) +
                     " flows: the events per ring must be a power of two and the whole below 4 GiB"};
  ORRERY_ASSIGN(auto memory, SharedMemory::create("orrery-segment", shape.total_bytes(), PeerAccess::kReadWrite));
  auto* header = static_cast<orrery_segment_header*>(memory.data());
  header->magic = ORRERY_SEGMENT_MAGIC;
  header->abi_version = shape.abi_version();
  header->header_bytes = sizeof(orrery_segment_header);
  header->ring_count = shape.ring_count;
  header->ring_events = shape.ring_events;
  header->ring_bytes = static_cast<uint32_t>(shape.ring_bytes());
  header->flow_slots = shape.flow_slots;
  header->flows_offset = shape.flows_offset();
  header->qps_offset = shape.qps_offset();
  header->total_bytes = shape.total_bytes();
  return AgentSegment(std::move(memory), shape);
}

void AgentSegment::mark_alive(uint64_t now_ns) {
  store_relaxed(&static_cast<orrery_segment_header*>(memory_.data())->agent_alive_ns, now_ns);
}

AgentSegment::Batch AgentSegment::open_batch(uint32_t ring, DrainResult& result) {
  const uint64_t produced = __atomic_load_n(&ring_at(memory_.data(), shape_, ring)->produced, __ATOMIC_ACQUIRE);
  if (produced - consumed_[ring] > shape_.ring_events) {
    ++result.resyncs;
    consumed_[ring] = produced;
  }
  return {consumed_[ring], produced};
}

void AgentSegment::close_batch(uint32_t ring, const Batch& batch) {
  consumed_[ring] = batch.next;
  __atomic_store_n(&ring_at(memory_.data(), shape_, ring)->consumed, batch.next, __ATOMIC_RELEASE);
}

orrery_event AgentSegment::copy_event(uint32_t ring, uint64_t position) const {
  const orrery_event* slot = &ring_events(ring_at(memory_.data(), shape_, ring))[position & (shape_.ring_events - 1)];
  orrery_event event;
  copy_words(&event, slot, sizeof(event));
  return event;
}

void AgentSegment::take_losses(DrainResult& result) {
  for (uint32_t ring = 0; ring < shape_.ring_count; ++ring)
    result.dropped += growth(load_relaxed(&ring_at(memory_.data(), shape_, ring)->dropped), dropped_seen_[ring]);
  const auto* header = static_cast<const orrery_segment_header*>(memory_.data());
  result.no_ring += growth(load_relaxed(&header->lost_no_ring), no_ring_seen_);
  result.no_slot += growth(load_relaxed(&header->lost_no_slot), no_slot_seen_);
}

std::optional<FlowSample> AgentSegment::read_slot(uint32_t slot) const {
  if (slot >= shape_.flow_slots) return std::nullopt;
  const orrery_flow_counters* flow = flow_at(memory_.data(), shape_, slot);
  FlowSample sample;
  sample.generation = __atomic_load_n(&flow->generation, __ATOMIC_ACQUIRE);
  sample.bursts = load_relaxed(&flow->bursts);
  sample.tx_bytes = load_relaxed(&flow->tx_bytes);
  sample.rx_bytes = load_relaxed(&flow->rx_bytes);
  sample.first_tx_ns = load_relaxed(&flow->first_tx_ns);
  sample.last_tx_ns = load_relaxed(&flow->last_tx_ns);
  sample.held_ns = load_relaxed(&flow->held_ns);
  sample.held_sends = load_relaxed(&flow->held_sends);
  sample.plan_flow_id = load_relaxed(&flow->plan_flow_id);
  fence_acquire();
  if (load_relaxed(&flow->generation) != sample.generation) return std::nullopt;
  return sample;
}

std::optional<orrery_qp_counters> AgentSegment::read_qp(uint32_t slot, uint32_t generation) const {
  if (slot >= shape_.flow_slots || !shape_.qp_counters) return std::nullopt;
  const orrery_flow_counters* flow = flow_at(memory_.data(), shape_, slot);
  orrery_qp_counters counters;
  copy_words(&counters, qp_at(memory_.data(), shape_, slot), sizeof(counters));
  fence_acquire();
  const uint32_t seen = load_relaxed(&flow->generation);
  if (seen != generation && seen != generation + 1) return std::nullopt;
  return counters;
}

std::optional<FlowSample> AgentSegment::read_flow(uint32_t slot) const {
  auto sample = read_slot(slot);
  return sample && (sample->generation & 1) ? sample : std::nullopt;
}

std::optional<FlowSample> AgentSegment::read_ended_flow(uint32_t slot, uint32_t generation) const {
  auto sample = read_slot(slot);
  return sample && (sample->generation == generation || sample->generation == generation + 1) ? sample : std::nullopt;
}

}  // namespace orrery::shm
