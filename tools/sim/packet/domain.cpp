// The loop, links and switches.
#include "tools/sim/packet/domain.h"

#include <algorithm>

namespace orrery::sim {

namespace {

constexpr uint32_t kLargestPacket = 16'384;
constexpr uint32_t kWireClasses = 32;
constexpr uint32_t kPauseBytes = 64;

}  // namespace

Domain::Domain(World& world, uint32_t index, uint32_t count)
    : world_(world), config_(world.config), index_(index), lines_(kWireClasses * kLargestPacket), outboxes_(count) {}

void Domain::start() {
  const Program& program = world_.program;
  for (uint32_t i = 0; i < config_.faults.size(); ++i) {
    events_.push_any(config_.faults[i].at, Event::make_key(EventKind::kFault, i, 0));
    events_.push_any(config_.faults[i].at + config_.fault_detection, Event::make_key(EventKind::kFault, i, 1));
  }
  for (uint32_t step = 0; step < program.steps.size(); ++step) {
    const uint32_t host = program.steps[step].host;
    const uint32_t node = world_.wires.wires[world_.wires.uplink_of[host]].from_node;
    if (world_.domain_of_node[node] == index_ && program.steps[step].pending == 0) step_ready(step);
  }
}

void Domain::run_until(Time end) {
  while (!events_.empty() && events_.next_time() < end) {
    const Event first = events_.pop();
    now_ = first.time;
    ++counters_.events;
    if (events_.empty() || events_.next_time() != now_) {
      dispatch(first);
      continue;
    }
    // Several at one moment: in the order of their keys. Nothing that is made meanwhile falls at this moment.
    batch_.clear();
    batch_.push_back(first);
    while (!events_.empty() && events_.next_time() == now_) batch_.push_back(events_.pop());
    counters_.events += batch_.size() - 1;
    const auto by_key = [](const Event& a, const Event& b) { return a.key < b.key; };
    if (!std::is_sorted(batch_.begin(), batch_.end(), by_key)) std::sort(batch_.begin(), batch_.end(), by_key);
    for (const Event& event : batch_) dispatch(event);
  }
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
    case EventKind::kPause:
      return take_pause(event.id(), event.detail() != 0);
    case EventKind::kWake:
      return wake(event.id());
    case EventKind::kSend:
      world_.senders[event.id()].in_ready = false;
      if (make_ready(event.id())) kick(world_.program.qps[event.id()].src);
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
  const Wire& wire = world_.wires.wires[link];
  if (wire.to_host != kNone) return deliver(wire.to_host, packet);
  ++packet.hop;
  enqueue(world_.program.paths[packet.path].links[packet.hop], packet, link);
}

// An idle transmitter takes the packet at once; it then never counts as queued.
void Domain::enqueue(uint32_t link, const Packet& packet, uint32_t ingress_link) {
  Port& port = world_.ports[link];
  const Wire& wire = world_.wires.wires[link];
  const bool is_data = !packet.control();
  if (port.down || (is_data && port.discards_data)) {
    ++port.drops, ++counters_.drops;
    return;
  }
  if (now_ >= port.busy_until && !port.wake_pending && !(is_data && port.data_paused))
    return transmit(link, port, wire, packet, !port.data.empty() && !port.data_paused);
  if (!admit(link, packet, ingress_link)) {
    ++port.drops, ++counters_.drops;
    return;
  }
  Packet queued = packet;
  if (is_data) {
    if (!config_.ecn.at_departure) mark(queued, port);
    if (packet.telemetry() != 0)
      queued.set_telemetry(std::max<uint8_t>(packet.telemetry(), queue_level(port.queued_bytes) + 1));
    port.data.push(queued);
    port.queued_bytes += packet.bytes;
    port.max_queued_bytes = std::max<uint64_t>(port.max_queued_bytes, port.queued_bytes);
  } else {
    port.control.push(queued);
    port.queued_control_bytes += packet.bytes;
  }
  ensure_wake(link, port);
}

bool Domain::admit(uint32_t link, const Packet& packet, uint32_t ingress_link) {
  const Wire& wire = world_.wires.wires[link];
  SwitchBuffer& buffer = world_.buffers[wire.from_node];
  if (buffer.used + packet.bytes > config_.switches.buffer_bytes) return false;
  const Port& port = world_.ports[link];
  const bool lossless = config_.pfc.enabled && !packet.control();
  const uint32_t queued = packet.control() ? port.queued_control_bytes : port.queued_bytes;
  if (!lossless && queued + packet.bytes > wire.limit_bytes) return false;
  if (lossless) {
    Ingress& ingress = world_.ingress[ingress_link];
    if (ingress.queued_bytes + packet.bytes > config_.pfc.xoff_bytes + config_.pfc.headroom_bytes) return false;
    ingress.queued_bytes += packet.bytes;
    if (!ingress.pause_sent && ingress.queued_bytes > config_.pfc.xoff_bytes) send_pause(ingress_link, true);
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
  events_.push_any(port.busy_until, Event::make_key(EventKind::kWake, link));
}

void Domain::wake(uint32_t link) {
  Port& port = world_.ports[link];
  port.wake_pending = false;
  const Wire& wire = world_.wires.wires[link];
  wire.from_host != kNone ? wake_host(link, port, wire) : wake_switch(link, port, wire);
}

void Domain::wake_switch(uint32_t link, Port& port, const Wire& wire) {
  if (!port.control.empty()) {
    const Packet packet = port.control.pop();
    unbuffer(packet, port, wire);
    return transmit(link, port, wire, packet, !port.control.empty() || (!port.data.empty() && !port.data_paused));
  }
  if (port.data.empty() || port.data_paused) return;
  Packet packet = port.data.pop();
  unbuffer(packet, port, wire);
  if (config_.ecn.at_departure) mark(packet, port);
  transmit(link, port, wire, packet, !port.data.empty());
}

// The packet leaves the buffer as its transmission begins.
void Domain::unbuffer(const Packet& packet, Port& port, const Wire& wire) {
  (packet.control() ? port.queued_control_bytes : port.queued_bytes) -= packet.bytes;
  world_.buffers[wire.from_node].used -= packet.bytes;
  if (!config_.pfc.enabled || packet.control()) return;
  const uint32_t ingress_link = world_.program.paths[packet.path].links[packet.hop - 1];
  Ingress& ingress = world_.ingress[ingress_link];
  ingress.queued_bytes -= packet.bytes;
  if (ingress.pause_sent && ingress.queued_bytes <= config_.pfc.xon_bytes) send_pause(ingress_link, false);
}

Domain::Lines& Domain::lines_for(const Wire&, uint8_t wire_class, uint32_t bytes) {
  return lines_[wire_class * kLargestPacket + bytes];
}

void Domain::push_line(uint8_t line, Time delay, uint64_t key, const Packet& packet) {
  events_.push(line - 1u, now_ + delay, key, packet);
}

// `more`: another packet waits, so that the end of this one must be noticed.
void Domain::transmit(uint32_t link, Port& port, const Wire& wire, const Packet& packet, bool more) {
  const Time serialization = wire.time_of(packet.bytes);
  port.busy_until = now_ + serialization;
  port.sent_bytes += packet.bytes;
  Lines& lines = lines_for(wire, port.wire_class, packet.bytes);
  const bool cut = config_.switches.cut_through && wire.to_host == kNone;
  const Time head =
      cut ? wire.time_of(std::min<uint32_t>(packet.bytes, config_.transport.header_bytes)) : serialization;
  const Time delay = head + config_.propagation + (wire.to_host == kNone ? config_.switches.forwarding_delay : Time{0});
  const uint64_t key = Event::make_key(EventKind::kArrival, link);
  const uint32_t target = world_.domain_of_node[wire.to_node];
  if (port.down) [[unlikely]] {  // a host's: a switch's takes nothing
    ++port.drops, ++counters_.drops;
  } else if (target != index_) [[unlikely]] {
    outboxes_[target].push_back({{now_ + delay, key, packet}, delay});
  } else {
    if (lines.arrival == 0) [[unlikely]]
      lines.arrival = static_cast<uint8_t>(events_.line_for(delay) + 1);
    push_line(lines.arrival, delay, key, packet);
  }
  if (!more) return;
  if (lines.wake == 0) [[unlikely]]
    lines.wake = static_cast<uint8_t>(events_.line_for(serialization) + 1);
  port.wake_pending = true;
  push_line(lines.wake, serialization, Event::make_key(EventKind::kWake, link), {});
}

// A pause frame overtakes the queues of the port it leaves by; its own time on the wire is that of a short packet.
void Domain::send_pause(uint32_t ingress_link, bool pause) {
  world_.ingress[ingress_link].pause_sent = pause;
  counters_.pauses += pause;
  const Wire& back = world_.wires.wires[world_.wires.wires[ingress_link].reverse];
  const Time delay = back.time_of(kPauseBytes) + config_.propagation;
  const Event event{now_ + delay, Event::make_key(EventKind::kPause, ingress_link, pause), {}};
  const uint32_t target = world_.domain_of_node[back.to_node];
  if (target != index_)
    outboxes_[target].push_back({event, delay});
  else
    events_.push_any(event.time, event.key);
}

void Domain::take_pause(uint32_t link, bool pause) {
  Port& port = world_.ports[link];
  if (port.data_paused == pause) return;
  port.data_paused = pause;
  if (pause) {
    port.paused_since = now_;
    if (config_.pfc.watchdog != 0)
      events_.push_any(now_ + config_.pfc.watchdog, Event::make_key(EventKind::kWatchdog, link));
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
  const Wire& wire = world_.wires.wires[link];
  if (!port.data_paused || now_ - port.paused_since < config_.pfc.watchdog || wire.from_host != kNone) return;
  port.discards_data = true;
  drop_queued(port, wire, port.data);
}

void Domain::drop_queued(Port& port, const Wire& wire, PacketRing& ring) {
  while (!ring.empty()) {
    unbuffer(ring.pop(), port, wire);
    ++port.drops, ++counters_.drops;
  }
}

}  // namespace orrery::sim
