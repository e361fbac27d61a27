#include "tools/sim/workload/weave.h"

#include <algorithm>
#include <bit>

namespace orrery::sim {

uint64_t part_of(uint64_t bytes, uint32_t parts, uint32_t index) {
  return bytes / parts + (index < bytes % parts ? 1 : 0);
}

uint64_t parts_of(uint64_t bytes, uint32_t parts, uint32_t first, uint32_t count) {
  const uint64_t rest = bytes % parts;
  const auto below = [&](uint64_t index) { return index * (bytes / parts) + std::min(index, rest); };
  const uint64_t begin = first % parts, end = begin + count % parts;
  const uint64_t wrapped = end <= parts ? below(end) - below(begin) : bytes - below(begin) + below(end - parts);
  return wrapped + count / parts * bytes;
}

uint32_t chunk_count(uint64_t channel_bytes, const CommunicatorOptions& options) {
  const uint64_t size = std::max<uint64_t>(1, options.chunk_bytes);
  const uint64_t chunks = channel_bytes / size + (channel_bytes % size != 0 ? 1 : 0);
  return static_cast<uint32_t>(std::clamp<uint64_t>(chunks, 1, std::max(1u, options.max_chunks)));
}

uint32_t log2_up(uint32_t n) {
  return n <= 1 ? 0 : static_cast<uint32_t>(std::bit_width(n - 1));
}

Weaver::Weaver(Communicator& communicator, const Collective& collective, const std::vector<uint32_t>& ready)
    : communicator_(communicator), traffic_(communicator.traffic_), collective_(collective), ready_(ready) {
  for (const uint32_t host : communicator.hosts_) done_.push_back(traffic_.add_computation(host, 0));
}

uint64_t Weaver::channel_bytes(uint32_t channel) const {
  return part_of(collective_.bytes, std::max(1u, options().channels), channel);
}

void Weaver::wait_for(const Awaited& event, uint32_t task) {
  switch (event.kind) {
    case Awaited::Kind::kNothing:
      return;
    case Awaited::Kind::kTask:
      return traffic_.after_task.push_back({event.index, task});
    case Awaited::Kind::kDelivered:
      return traffic_.after_delivered.push_back({event.index, task});
    case Awaited::Kind::kAcknowledged:
      return traffic_.after_acknowledged.push_back({event.index, task});
  }
}

// What is first on a connection also waits until the rank is ready; the rest comes behind it.
void Weaver::wait_for_all(std::span<const Awaited> events, uint32_t rank, uint32_t task, bool first) {
  if (first) traffic_.after_task.push_back({ready_[rank], task});
  for (const Awaited& event : events) wait_for(event, task);
}

Sent Weaver::send(uint32_t src, uint32_t dst, uint64_t bytes, uint32_t channel, uint32_t round,
                  std::span<const Awaited> waits) {
  if (host(src) == host(dst)) return send_inside(src, bytes, channel, waits);
  const uint32_t phase = collective_.first_phase + (collective_.split_phases ? round : 0);
  const auto [found, added] = communicator_.flows_.try_emplace({src, dst, channel, phase}, 0);
  if (added)
    found->second = traffic_.add_flow({.job = communicator_.job_,
                                       .src = host(src),
                                       .dst = host(dst),
                                       .channel = channel,
                                       .communicator = communicator_.number_,
                                       .phase = phase,
                                       .exchange = exchange_});
  const uint32_t transfer = traffic_.add_transfer(found->second, bytes);
  const bool opens = opened_.insert(found->second).second;
  wait_for_all(waits, src, traffic_.add_send(transfer, options().step_delay, opens), opens);
  return {{Awaited::Kind::kDelivered, transfer}, {Awaited::Kind::kAcknowledged, transfer}};
}

Sent Weaver::send_inside(uint32_t src, uint64_t bytes, uint32_t channel, std::span<const Awaited> waits) {
  const double transmission = options().nvlink_bps > 0 ? static_cast<double>(bytes) * 8e12 / options().nvlink_bps : 0;
  const Time duration = options().step_delay + options().nvlink_latency + static_cast<Time>(transmission);
  const uint32_t task = traffic_.add_computation(host(src), duration);
  const auto [last, first] = inside_.try_emplace({src, channel}, task);
  wait_for_all(waits, src, task, first);
  if (!first) traffic_.after_task.push_back({last->second, task});
  last->second = task;
  return {{Awaited::Kind::kTask, task}, {Awaited::Kind::kTask, task}};
}

Awaited Weaver::join(uint32_t rank, std::span<const Awaited> events) {
  if (events.size() == 1) return events[0];
  const uint32_t task = traffic_.add_computation(host(rank), 0);
  wait_for_all(events, rank, task, false);
  return {Awaited::Kind::kTask, task};
}

void Weaver::finish(uint32_t rank, const Awaited& event) {
  wait_for(event, done_[rank]);
}

std::vector<uint32_t> Weaver::done() {
  for (uint32_t rank = 0; rank < done_.size(); ++rank) traffic_.after_task.push_back({ready_[rank], done_[rank]});
  return done_;
}

}  // namespace orrery::sim
