#include "agent/collect/flows.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace orrery::collect {

FiveTuple Flows::tuple_of(const orrery_flow_event& event) {
  return {IpAddress::from_bytes(event.local_address), IpAddress::from_bytes(event.remote_address), event.local_port,
          event.remote_port, event.protocol};
}

std::optional<Flow> Flows::birth(const orrery_flow_event& event) {
  std::optional<Flow> replaced;
  if (const auto old = flows_.find(event.slot); old != flows_.end()) replaced = old->second;
  Flow& flow = flows_[event.slot] = Flow{};
  flow.tuple = tuple_of(event);
  flow.generation = event.generation;
  flow.role = event.role;
  return replaced;
}

void Flows::take(Flow& flow, const orrery_qp_event& event) {
  msg::QueuePair& pair = flow.queue_pair;
  flow.tuple.src_port = event.udp_sport;
  pair.qpn = event.qpn;
  pair.dest_qpn = event.dest_qpn;
  pair.device.assign(event.device, strnlen(event.device, sizeof event.device));
  for (char& c : pair.device)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::strchr("_-.:", c) == nullptr) c = '?';
  pair.flags = event.flags;
  pair.traffic_class = event.traffic_class;
  pair.flow_label = event.flow_label;
  pair.cycle = event.cycle;
}

void Flows::update(Flow& flow, const orrery_qp_counters& counters) {
  msg::QueuePair& pair = flow.queue_pair;
  const auto raise = [&flow](uint64_t& seen, uint64_t now) {
    if (now <= seen) return;
    seen = now;
    flow.changed = true;
  };
  raise(pair.posted_sends, counters.posted_sends);
  raise(pair.completed_sends, counters.send_completions);
  raise(pair.completion_errors, counters.completion_errors);
  raise(pair.failed_posts, counters.failed_posts);
  raise(pair.deferred_sends, counters.deferred);
  raise(pair.drained_early, counters.drained_early);
}

std::optional<Flow> Flows::death(uint16_t slot, uint32_t generation) {
  const auto found = flows_.find(slot);
  if (found == flows_.end() || found->second.generation != generation) return std::nullopt;
  const Flow flow = found->second;
  flows_.erase(found);
  return flow;
}

std::optional<Movement> Flows::update(Flow& flow, const shm::FlowSample& sample, uint64_t now_ns) {
  if ((sample.generation - flow.generation) > 1) return std::nullopt;  // its own, or the one its end left
  // Counters only grow; a smaller value is the process's fault and is ignored.
  const bool sent = sample.tx_bytes > flow.tx_bytes;
  if (!sent && sample.rx_bytes <= flow.rx_bytes) return std::nullopt;
  flow.tx_bytes = std::max(flow.tx_bytes, sample.tx_bytes);
  flow.rx_bytes = std::max(flow.rx_bytes, sample.rx_bytes);
  flow.held_ns = std::max(flow.held_ns, sample.held_ns);
  flow.bursts = sample.bursts;
  flow.changed = true;
  const uint64_t last_ns = std::min(sample.last_tx_ns, now_ns);
  return Movement{sent, std::min(sample.first_tx_ns, last_ns), last_ns};
}

Flow* Flows::find(uint16_t slot) {
  const auto found = flows_.find(slot);
  return found == flows_.end() ? nullptr : &found->second;
}

}  // namespace orrery::collect
