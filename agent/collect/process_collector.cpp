#include "agent/collect/process_collector.h"

#include <netinet/in.h>

#include <algorithm>

namespace orrery::collect {

namespace {

// Losses are what a hostile process says: their sum stays at its greatest value.
void add_saturated(uint64_t& sum, uint64_t more) {
  if (__builtin_add_overflow(sum, more, &sum)) sum = UINT64_MAX;
}

}  // namespace

struct ProcessCollector::Tick {
  uint64_t now_ns;
  int64_t tai_minus_monotonic_ns;
  Reports& reports;
  Outcome outcome = {};

  // A time of the process's: 0 stays 0 (not seen), the future is cut to now.
  uint64_t tai(uint64_t monotonic_ns) const {
    if (monotonic_ns == 0) return 0;
    return static_cast<uint64_t>(static_cast<int64_t>(std::min(monotonic_ns, now_ns)) + tai_minus_monotonic_ns);
  }
};

ProcessCollector::ProcessCollector(uint64_t process, shm::AgentSegment segment, const Limits& limits,
                                   const Cadence& cadence, const HostView& host)
    : process_(process),
      segment_(std::move(segment)),
      limits_(limits),
      cadence_(cadence),
      host_(host),
      communicators_(limits),
      collectives_(limits, cadence) {}

ProcessCollector::Outcome ProcessCollector::collect(uint64_t now_ns, int64_t tai_minus_monotonic_ns, Reports& reports) {
  Tick tick{now_ns, tai_minus_monotonic_ns, reports};
  events_.clear();
  const shm::DrainResult drained =
      segment_.drain(limits_.events_per_drain, now_ns, [this](const orrery_event& event) { events_.push_back(event); });
  // Threads have rings of their own; their events are told in the order they happened.
  std::stable_sort(events_.begin(), events_.end(),
                   [](const orrery_event& a, const orrery_event& b) { return a.time_ns < b.time_ns; });
  counters_.events += drained.events;
  counters_.malformed += drained.malformed + drained.resyncs;
  add_saturated(counters_.dropped, drained.dropped);
  add_saturated(counters_.no_ring, drained.no_ring);
  add_saturated(counters_.no_slot, drained.no_slot);
  tick.outcome.more = drained.more;
  tick.outcome.active = !events_.empty();
  for (const orrery_event& event : events_) handle(event, tick);
  for (auto& [slot, flow] : flows_.all()) read_flow(slot, flow, tick);
  tell_the_late(tick);
  report_ended(tick);
  report_progress(tick);
  return tick.outcome;
}

void ProcessCollector::finish(uint64_t now_ns, int64_t tai_minus_monotonic_ns, Reports& reports) {
  collect(now_ns, tai_minus_monotonic_ns, reports);
  Tick tick{now_ns, tai_minus_monotonic_ns, reports};
  for (auto& [slot, flow] : flows_.all()) untell(flow, tick);
  flows_.all().clear();
  for (const uint64_t comm_id : communicators_.ids()) handle_gone(comm_id, tick);
  report_ended(tick);
}

void ProcessCollector::restate(Reports& reports) {
  for (const Communicator& communicator : communicators_.all()) {
    report_communicator(msg::CommunicatorEvent::Kind::kAnnounced, communicator, reports);
    if (communicator.ready) report_communicator(msg::CommunicatorEvent::Kind::kReady, communicator, reports);
  }
}

void ProcessCollector::handle(const orrery_event& event, Tick& tick) {
  switch (event.type) {
    case ORRERY_EVENT_COMM_INIT:
    case ORRERY_EVENT_COMM_READY:
      return handle_communicator(event, tick);
    case ORRERY_EVENT_COMM_GONE:
      return handle_gone(event.comm.comm_id, tick);
    case ORRERY_EVENT_COLLECTIVE:
      return handle_collective(event, tick);
    case ORRERY_EVENT_FLOW_BORN:
      return handle_birth(event, tick);
    case ORRERY_EVENT_FLOW_GONE:
      return handle_death(event, tick);
    case ORRERY_EVENT_QP_READY:
    case ORRERY_EVENT_QP_MOVED:
      return handle_queue_pair(event, tick);
    case ORRERY_EVENT_DEVICE_TRAFFIC:
      return handle_device_traffic(event.comm.comm_id, tick);
    case ORRERY_EVENT_GROUP_END:
      return;  // the calls of a group carry its number; its end says nothing more
    default:
      ++counters_.malformed;
  }
}

void ProcessCollector::handle_communicator(const orrery_event& event, Tick& tick) {
  using Told = Communicators::Outcome;
  using Kind = msg::CommunicatorEvent::Kind;
  const bool ready = event.type == ORRERY_EVENT_COMM_READY;
  const orrery_comm_event& told = event.comm;
  const Communicator communicator{told.comm_id, told.parent_id, told.rank, told.nranks, ready, false};
  switch (communicators_.announce(told, ready)) {
    case Told::kNew:
      tick.outcome.announced = tick.outcome.communicators_changed = true;
      report_communicator(Kind::kAnnounced, communicator, tick.reports);
      if (ready) report_communicator(Kind::kReady, communicator, tick.reports);
      return;
    case Told::kChanged:
      return report_communicator(Kind::kReady, communicator, tick.reports);
    case Told::kKnown:
      return;
    case Told::kMalformed:
      ++counters_.malformed;
      return;
    case Told::kFull:
      ++counters_.over_limit;
      return;
  }
}

void ProcessCollector::handle_gone(uint64_t comm_id, Tick& tick) {
  const std::vector<Communicator> gone = communicators_.remove(comm_id);
  if (gone.empty()) {
    ++counters_.malformed;
    return;
  }
  tick.outcome.communicators_changed = true;
  collectives_.forget(comm_id);
  for (const Communicator& communicator : gone)
    report_communicator(msg::CommunicatorEvent::Kind::kGone, communicator, tick.reports);
}

void ProcessCollector::handle_collective(const orrery_event& event, Tick& tick) {
  const orrery_collective_event& told = event.collective;
  const Communicator* const communicator = communicators_.find(told.comm_id);
  if (communicator == nullptr || (told.peer != UINT32_MAX && told.peer >= communicator->nranks)) {
    ++counters_.malformed;
    return;
  }
  const uint64_t called_ns = std::min<uint64_t>(event.time_ns, tick.now_ns);
  communicators_.touch(told.comm_id, called_ns);
  const bool captured = (told.flags & ORRERY_COLLECTIVE_CAPTURED) != 0;
  report_intent(captured ? collectives_.captured(told, communicator->rank, called_ns)
                         : collectives_.call(told, communicator->rank, called_ns),
                tick);
}

void ProcessCollector::handle_device_traffic(uint64_t comm_id, Tick& tick) {
  if (!communicators_.contains(comm_id)) {
    ++counters_.malformed;
    return;
  }
  for (const Communicator& communicator : communicators_.mark_device_traffic(comm_id))
    report_communicator(msg::CommunicatorEvent::Kind::kAnnounced, communicator, tick.reports);
}

void ProcessCollector::handle_birth(const orrery_event& event, Tick& tick) {
  const FiveTuple tuple = Flows::tuple_of(event.flow);
  if (!host_.is_local(tuple.src)) {
    ++counters_.malformed;
    return;
  }
  if (host_.is_local(tuple.dst)) return;  // never reaches the fabric
  if (auto replaced = flows_.birth(event.flow)) untell(*replaced, tick);
  Flow& flow = *flows_.find(event.flow.slot);
  flow.born_ns = tick.now_ns;
  flow.comm_id = communicators_.most_recent();
  if (tuple.protocol == IPPROTO_UDP) return;  // told with its QP_READY, which follows
  tell(event.flow.slot, flow, tick);
}

bool ProcessCollector::tell(uint16_t slot, Flow& flow, Tick& tick) {
  if (!host_.claim(process_, flow.key())) {  // another process's
    ++counters_.malformed;
    flows_.forget(slot);
    return false;
  }
  flow.told = true;
  read_flow(slot, flow, tick);
  report_flow(msg::FlowReport::Kind::kBorn, flow, tick);
  flow.changed = false;
  return true;
}

void ProcessCollector::untell(Flow& flow, Tick& tick) {
  if (!flow.told) return;
  report_flow(msg::FlowReport::Kind::kGone, flow, tick);
  host_.release(process_, flow.key());
  flow.told = false;
}

// Queue pairs whose QP_READY was lost are flows all the same.
void ProcessCollector::tell_the_late(Tick& tick) {
  std::vector<uint16_t> late;
  for (const auto& [slot, flow] : flows_.all())
    if (!flow.told && tick.now_ns >= flow.born_ns + cadence_.progress_ns) late.push_back(slot);
  for (const uint16_t slot : late) tell(slot, *flows_.find(slot), tick);
}

void ProcessCollector::handle_queue_pair(const orrery_event& event, Tick& tick) {
  const orrery_qp_event& told = event.qp;
  Flow* const flow = flows_.find(told.slot);
  if (flow == nullptr || flow->generation != told.generation) return;  // such as one that leads to its own host
  if (flow->tuple.protocol != IPPROTO_UDP) {
    ++counters_.malformed;
    return;
  }
  Flow changed = *flow;
  Flows::take(changed, told);
  if (changed.key() != flow->key()) {
    read_flow(told.slot, *flow, tick);
    untell(*flow, tick);
    changed = *flow;
    Flows::take(changed, told);
    const bool moved = event.type == ORRERY_EVENT_QP_MOVED;
    changed.queue_pair.moves += moved;
    counters_.moved += moved;
  }
  *flow = changed;
  flow->changed = true;
  if (!flow->told) tell(told.slot, *flow, tick);
}

void ProcessCollector::handle_death(const orrery_event& event, Tick& tick) {
  // Flows that were never told about end here too; that is no fault.
  auto flow = flows_.death(event.flow.slot, event.flow.generation);
  if (!flow) return;
  if (const auto last = segment_.read_ended_flow(event.flow.slot, event.flow.generation)) {
    absorb(*flow, *last, tick);
    absorb(event.flow.slot, *flow);
  }
  untell(*flow, tick);
}

void ProcessCollector::read_flow(uint16_t slot, Flow& flow, Tick& tick) {
  const auto sample = segment_.read_flow(slot);
  if (!sample) return;
  absorb(flow, *sample, tick);
  absorb(slot, flow);
}

void ProcessCollector::absorb(Flow& flow, const shm::FlowSample& sample, Tick& tick) {
  if (sample.plan_flow_id != flow.claimed_flow_id) {
    flow.claimed_flow_id = sample.plan_flow_id;
    flow.flow_id = host_.is_planned(process_, sample.plan_flow_id, flow.tuple) ? sample.plan_flow_id : 0;
    flow.changed = true;
  }
  const auto movement = Flows::update(flow, sample, tick.now_ns);
  if (!movement) return;
  tick.outcome.active = true;
  flow.comm_id = communicators_.most_recent();
  if (movement->sent) collectives_.observe(flow.comm_id, movement->first_tx_ns, movement->last_tx_ns);
}

void ProcessCollector::absorb(uint16_t slot, Flow& flow) {
  if (flow.queue_pair.qpn == 0) return;
  const auto counters = segment_.read_qp(slot, flow.generation);
  if (!counters) return;
  const msg::QueuePair before = flow.queue_pair;
  Flows::update(flow, *counters);
  add_saturated(counters_.deferred, flow.queue_pair.deferred_sends - before.deferred_sends);
  add_saturated(counters_.drained_early, flow.queue_pair.drained_early - before.drained_early);
  add_saturated(counters_.completion_errors, flow.queue_pair.completion_errors - before.completion_errors);
}

size_t ProcessCollector::queue_pairs() const {
  const auto& all = flows_.all();
  return static_cast<size_t>(
      std::count_if(all.begin(), all.end(), [](const auto& entry) { return entry.second.queue_pair.qpn != 0; }));
}

void ProcessCollector::report_ended(Tick& tick) {
  for (const Collective& collective : collectives_.take_ended(tick.now_ns)) report_intent(collective, tick);
}

void ProcessCollector::report_progress(Tick& tick) {
  if (tick.now_ns - last_progress_ns_ < cadence_.progress_ns) return;
  last_progress_ns_ = tick.now_ns;
  for (auto& [slot, flow] : flows_.all()) {
    if (flow.changed && flow.told) report_flow(msg::FlowReport::Kind::kProgress, flow, tick);
    flow.changed = false;
  }
}

bool ProcessCollector::admit(uint32_t Share::*used, uint32_t limit, Reports& reports) {
  if (share_.window != reports.window) share_ = {.window = reports.window};
  if (share_.*used >= std::max(1u, limit / std::max(1u, reports.processes))) {
    ++reports.over_limit;
    return false;
  }
  ++(share_.*used);
  return true;
}

void ProcessCollector::report_communicator(msg::CommunicatorEvent::Kind kind, const Communicator& communicator,
                                           Reports& reports) {
  if (!admit(&Share::communicators, limits_.communicators_per_window, reports)) return;
  reports.communicators.push_back({kind, communicator.comm_id, communicator.parent_id, communicator.rank,
                                   communicator.nranks, process_, host_.nic_address(), communicator.device_traffic});
}

void ProcessCollector::report_intent(const Collective& collective, Tick& tick) {
  if (!admit(&Share::intents, limits_.intents_per_window, tick.reports)) return;
  tick.reports.intents.push_back({.comm_id = collective.comm_id,
                                  .process = process_,
                                  .rank = collective.rank,
                                  .op = static_cast<uint16_t>(collective.op),
                                  .bytes = collective.bytes,
                                  .peer = collective.peer,
                                  .group = collective.group,
                                  .called_tai_ns = tick.tai(collective.called_ns),
                                  .first_byte_tai_ns = tick.tai(collective.first_byte_ns),
                                  .last_byte_tai_ns = tick.tai(collective.last_byte_ns),
                                  .sequence = collective.sequence,
                                  .flags = collective.flags});
}

void ProcessCollector::report_flow(msg::FlowReport::Kind kind, const Flow& flow, Tick& tick) {
  if (!admit(&Share::flows, limits_.flows_per_window, tick.reports)) return;
  const bool is_queue_pair = flow.queue_pair.qpn != 0;
  tick.reports.flows.push_back({.kind = kind,
                                .tuple = flow.tuple,
                                .comm_id = flow.comm_id,
                                .process = process_,
                                .flow_id = flow.flow_id,
                                .tx_bytes = flow.tx_bytes,
                                .rx_bytes = flow.rx_bytes,
                                .bursts = flow.bursts,
                                .retransmits = host_.retransmits(flow.tuple),
                                .role = flow.role,
                                .held_ns = flow.held_ns,
                                .queue_pair = is_queue_pair ? std::optional(flow.queue_pair) : std::nullopt});
}

}  // namespace orrery::collect
