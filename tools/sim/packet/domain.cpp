// The loop, links and switches.
#include "tools/sim/packet/domain.h"

#include <algorithm>

namespace orrery::sim {

namespace {

uint32_t largest_packet(const Transport& transport) {
  return std::max(transport.payload_bytes + transport.header_bytes, transport.control_bytes);
}

}  // namespace

Domain::Domain(World& world, uint32_t index, uint32_t count)
    : world_(world),
      config_(world.config),
      index_(index),
      sizes_(largest_packet(config_.transport) + 1),
      transits_(world.wire_classes.size() * sizes_),
      rate_timer_line_(events_.line_for(config_.dcqcn.rate_timer)),
      outboxes_{std::vector<std::vector<Crossing>>(count), std::vector<std::vector<Crossing>>(count)} {}

void Domain::start() {
  const Program& program = world_.program;
  for (uint32_t i = 0; i < config_.faults.size(); ++i) {
    events_.push_late(config_.faults[i].at, Event::make_key(EventKind::kFault, i, 0));
    events_.push_late(config_.faults[i].at + config_.fault_detection, Event::make_key(EventKind::kFault, i, 1));
  }
  for (uint32_t step = 0; step < program.steps.size(); ++step) {
    const uint32_t host = program.steps[step].host;
    const uint32_t node = world_.wires.wires[world_.wires.uplink_of[host]].from_node;
    if (world_.domain_of_node[node] == index_ && program.steps[step].pending == 0) step_ready(step);
  }
}

void Domain::run_until(Time end) {
  end = std::min(end, EventLines::kEnd);
  while (events_.next_time() < end) {
    const Event first = events_.pop();
    now_ = first.time;
    ++counters_.events;
    if (events_.next_time() != now_)
      dispatch(first);
    else
      run_moment(first);
  }
}

// Several at one moment: in the order of their keys. Nothing that is made meanwhile falls at this moment.
void Domain::run_moment(const Event& first) {
  constexpr size_t kFew = 16;  // as many are put in their places as they come
  const auto by_key = [](const Event& a, const Event& b) { return a.key < b.key; };
  batch_.clear();
  batch_.push_back(first);
  while (events_.next_time() == now_) {
    const Event event = events_.pop();
    batch_.push_back(event);
    if (batch_.size() > kFew) continue;
    size_t at = batch_.size() - 1;
    for (; at > 0 && event.key < batch_[at - 1].key; --at) batch_[at] = batch_[at - 1];
    batch_[at] = event;
  }
  if (batch_.size() > kFew) std::sort(batch_.begin(), batch_.end(), by_key);
  counters_.events += batch_.size() - 1;
  for (const Event& event : batch_) dispatch(event);
}

void Domain::take(std::vector<Crossing>& crossings, uint32_t from) {
  for (const Crossing& crossing : crossings) {
    const uint32_t line = events_.line_for(crossing.delay, from + 1);
    events_.push(line, crossing.event.time, crossing.event.key, crossing.event.packet);
  }
  crossings.clear();
}

void Domain::dispatch(const Event& event) {
  switch (event.kind()) {
    case EventKind::kArrival:
      return arrive(event.id(), event.packet);
    case EventKind::kDelivery:
      return deliver(event.id(), event.packet);
    case EventKind::kPause:
      return hear_pause(event.id(), event.detail());
    case EventKind::kWake:
      return wake(event.id());
    case EventKind::kSend:
      world_.senders[event.id()].in_ready = false;
      if (make_ready(event.id())) kick(world_.senders[event.id()].host);
      return;
    case EventKind::kTimer:
      return timer(event.id(), event.detail());
    case EventKind::kStep:
      return finish_step(event.id());
    case EventKind::kWatchdog:
      return watch_pause(event.id());
    case EventKind::kFault:
      return event.detail() == 0 ? fault(event.id()) : know_fault(event.id());
  }
}

void Domain::arrive(uint32_t link, Packet packet) {
  ++counters_.hops;
  counters_.data_hops += packet.kind() == PacketKind::kData;
  ++packet.hop;
  enqueue(world_.program.paths[packet.path].links[packet.hop], packet, link);
}

// An idle transmitter takes the packet at once; it then never counts as queued.
void Domain::enqueue(uint32_t link, const Packet& packet, uint32_t ingress_link) {
  Port& port = world_.ports[link];
  const bool is_data = !packet.control();
  if (port.down || (is_data && port.discards_data)) {
    ++port.drops, ++counters_.drops;
    return;
  }
  if (now_ >= port.busy_until && !port.wake_pending && !(is_data && port.data_paused))
    return transmit(link, port, packet, !port.data.empty() && !port.data_paused);
  if (!admit(link, port, packet, ingress_link)) {
    ++port.drops, ++counters_.drops;
    return;
  }
  Packet queued = packet;
  if (is_data) {
    if (!config_.ecn.at_departure) mark(queued, port);
    if (packet.telemetry() != 0)
      queued.set_telemetry(std::max<uint8_t>(packet.telemetry(), queue_level(port.queued_bytes) + 1));
    port.data.push(queued);
    if (!world_.fair.empty()) world_.fair[link].push(queued);
    port.queued_bytes += packet.bytes;
    port.max_queued_bytes = std::max(port.max_queued_bytes, port.queued_bytes);
  } else {
    port.control.push(queued);
    port.queued_control_bytes += packet.bytes;
  }
  ensure_wake(link, port);
}

bool Domain::admit(uint32_t link, Port& port, const Packet& packet, uint32_t ingress_link) {
  SwitchBuffer& buffer = world_.buffers[port.owner];
  if (buffer.used + packet.bytes > config_.switches.buffer_bytes) return false;
  if (config_.pfc.enabled && !packet.control()) {
    Port& ingress = world_.ports[world_.wires.wires[ingress_link].reverse];
    if (ingress.ingress_bytes + packet.bytes > config_.pfc.xoff_bytes + config_.pfc.headroom_bytes) return false;
    ingress.ingress_bytes += packet.bytes;
    if (ingress.pauses_sent % 2 == 0 && ingress.ingress_bytes > config_.pfc.xoff_bytes) send_pause(ingress_link, true);
  } else {
    const uint32_t queued = packet.control() ? port.queued_control_bytes : port.queued_bytes;
    if (queued + packet.bytes > world_.wires.wires[link].limit_bytes) return false;
  }
  buffer.used += packet.bytes;
  buffer.peak = std::max(buffer.peak, buffer.used);
  return true;
}

void Domain::mark(Packet& packet, Port& port) {
  const Ecn& ecn = config_.ecn;
  const uint32_t queued = port.queued_bytes;
  if (!ecn.enabled || queued <= ecn.kmin_bytes) return;
  if (queued <= ecn.kmax_bytes) {
    const double chance =
        ecn.pmax * static_cast<double>(queued - ecn.kmin_bytes) / static_cast<double>(ecn.kmax_bytes - ecn.kmin_bytes);
    if (draw(port.random) >= chance * 4294967296.0) return;
  }
  packet.tag |= Packet::kMarked;
  ++port.marks, ++counters_.marks;
}

void Domain::ensure_wake(uint32_t link, Port& port) {
  if (port.wake_pending || now_ >= port.busy_until) return;
  port.wake_pending = true;
  events_.push_soon(port.busy_until, Event::make_key(EventKind::kWake, link));
}

void Domain::wake(uint32_t link) {
  Port& port = world_.ports[link];
  port.wake_pending = false;
  port.at_host ? wake_host(link, port) : wake_switch(link, port);
}

Packet Domain::pop_data(uint32_t link, Port& port) {
  const Packet oldest = port.data.pop();
  return world_.fair.empty() ? oldest : world_.fair[link].pop();
}

void Domain::wake_switch(uint32_t link, Port& port) {
  if (port.queued_control_bytes != 0) {
    const Packet packet = port.control.pop();
    unbuffer(packet, port);
    return transmit(link, port, packet, port.queued_control_bytes != 0 || (!port.data.empty() && !port.data_paused));
  }
  if (port.data.empty() || port.data_paused) return;
  Packet packet = pop_data(link, port);
  unbuffer(packet, port);
  if (config_.ecn.at_departure) mark(packet, port);
  transmit(link, port, packet, !port.data.empty());
}

// The packet leaves the buffer as its transmission begins.
void Domain::unbuffer(const Packet& packet, Port& port) {
  (packet.control() ? port.queued_control_bytes : port.queued_bytes) -= packet.bytes;
  world_.buffers[port.owner].used -= packet.bytes;
  if (!config_.pfc.enabled || packet.control()) return;
  const uint32_t ingress_link = world_.program.paths[packet.path].links[packet.hop - 1];
  Port& ingress = world_.ports[world_.wires.wires[ingress_link].reverse];
  ingress.ingress_bytes -= packet.bytes;
  if (ingress.pauses_sent % 2 != 0 && ingress.ingress_bytes <= config_.pfc.xon_bytes) send_pause(ingress_link, false);
}

inline const Domain::Transit& Domain::transit(const Port& port, uint32_t bytes) {
  Transit& result = transits_[port.wire_class * sizes_ + bytes];
  if (!result.known) [[unlikely]]
    learn_transit(result, world_.wire_classes[port.wire_class], bytes);
  return result;
}

void Domain::learn_transit(Transit& transit, const WireClass& wire, uint32_t bytes) {
  transit.known = true;
  transit.serialization = wire.time_of(bytes);
  const bool cut = config_.switches.cut_through && !wire.to_host;
  const Time head =
      cut ? wire.time_of(std::min<uint32_t>(bytes, config_.transport.header_bytes)) : transit.serialization;
  transit.delay = head + config_.propagation + (wire.to_host ? Time{0} : config_.switches.forwarding_delay);
  transit.arrival_line = events_.line_for(transit.delay);
  transit.wake_line = events_.line_for(transit.serialization);
}

// `more`: another packet waits, so that the end of this one must be noticed.
void Domain::transmit(uint32_t link, Port& port, const Packet& packet, bool more) {
  const Transit& way = transit(port, packet.bytes);
  port.busy_until = now_ + way.serialization;
  port.sent_bytes += packet.bytes;
  if (port.down) [[unlikely]]  // a host's: a switch's takes nothing
    ++port.drops, ++counters_.drops;
  else
    launch(link, port, packet, way);
  if (!more) return;
  port.wake_pending = true;
  events_.push(way.wake_line, port.busy_until, Event::make_key(EventKind::kWake, link), {});
}

void Domain::launch(uint32_t link, const Port& port, const Packet& packet, const Transit& way) {
  const bool to_host = world_.wire_classes[port.wire_class].to_host;
  const uint64_t key = to_host ? Event::make_key(EventKind::kDelivery, world_.wires.wires[link].to_host)
                               : Event::make_key(EventKind::kArrival, link);
  if (port.far_domain == index_) [[likely]]
    events_.push(way.arrival_line, now_ + way.delay, key, packet);
  else
    cross(port.far_domain, {now_ + way.delay, key, packet}, way.delay);
}

void Domain::cross(uint32_t to, const Event& event, Time delay) {
  outboxes_[window_ % 2][to].push_back({event, delay});
  earliest_crossing_ = std::min(earliest_crossing_, event.time);
}

// A pause frame overtakes the queues of the port it leaves by; its own time on the wire is that of a short packet.
void Domain::send_pause(uint32_t ingress_link, bool pause) {
  const uint32_t back_link = world_.wires.wires[ingress_link].reverse;
  const uint16_t change = ++world_.ports[back_link].pauses_sent;
  counters_.pauses += pause;
  const Wire& back = world_.wires.wires[back_link];
  const Time delay = back.time_of(kPauseBytes) + config_.propagation;
  const Event event{now_ + delay, Event::make_key(EventKind::kPause, ingress_link, change), {}};
  const uint32_t target = world_.domain_of_node[back.to_node];
  if (target != index_)
    cross(target, event, delay);
  else
    events_.push(events_.line_for(delay), event.time, event.key, {});
}

// Changes made at one moment come at one moment, in the order of their keys: where counting has begun anew, the later
// one first.
void Domain::hear_pause(uint32_t link, uint32_t change) {
  Port& port = world_.ports[link];
  if (static_cast<int16_t>(change - port.pauses_heard) <= 0) return;
  port.pauses_heard = static_cast<uint16_t>(change);
  take_pause(link, change % 2 != 0);
}

void Domain::take_pause(uint32_t link, bool pause) {
  Port& port = world_.ports[link];
  if (port.data_paused == pause) return;
  port.data_paused = pause;
  if (pause) {
    port.paused_since = now_;
    ++port.pauses;
    if (config_.pfc.watchdog != 0)
      events_.push_late(now_ + config_.pfc.watchdog, Event::make_key(EventKind::kWatchdog, link));
    return;
  }
  port.discards_data = false;
  port.paused_time += now_ - port.paused_since;
  if (port.wake_pending) return;
  if (now_ < port.busy_until) return ensure_wake(link, port);
  wake(link);
}

// A host's port never discards: what it holds is in memory.
void Domain::watch_pause(uint32_t link) {
  Port& port = world_.ports[link];
  if (!port.data_paused || now_ - port.paused_since < config_.pfc.watchdog || port.at_host) return;
  port.discards_data = true;
  while (!port.data.empty()) drop_queued(pop_data(link, port), port);
}

void Domain::drop_queued(const Packet& packet, Port& port) {
  unbuffer(packet, port);
  ++port.drops, ++counters_.drops;
}

}  // namespace orrery::sim
