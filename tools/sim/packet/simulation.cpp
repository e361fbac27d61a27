#include "tools/sim/packet/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "tools/sim/packet/domain.h"
#include "tools/sim/packet/meeting.h"
#include "tools/sim/packet/recorder.h"

namespace orrery::sim {
namespace {

// Leaves with their hosts, then spines, dealt out evenly: neighbours by number are neighbours in the fabric.
std::vector<uint32_t> deal_out(const fabric::Graph& graph, uint32_t domains) {
  std::vector<uint32_t> domain(graph.nodes().size(), 0);
  if (domains <= 1) return domain;
  std::vector<std::vector<fabric::NodeId>> by_tier;
  for (fabric::NodeId id = 0; id < graph.nodes().size(); ++id) {
    const fabric::Node& node = graph.node(id);
    if (node.kind != fabric::NodeKind::kSwitch) continue;
    if (by_tier.size() <= node.tier) by_tier.resize(node.tier + 1);
    by_tier[node.tier].push_back(id);
  }
  for (const auto& tier : by_tier)
    for (size_t i = 0; i < tier.size(); ++i) domain[tier[i]] = static_cast<uint32_t>(i * domains / tier.size());
  for (const fabric::Nic& nic : graph.nics()) domain[nic.host] = domain[graph.link(nic.uplink).to];
  return domain;
}

// A part of the fabric, with what is recorded of it.
struct Part {
  Domain domain;
  Recorder recorder;

  Part(World& world, uint32_t index, uint32_t count) : domain(world, index, count), recorder(world, index) {}
  void run_until(Time end) {
    domain.run_until(end);
    if (end == recorder.next()) recorder.sample();
  }
};

Pulse pulse_of(const Domain& domain, Time now) {
  return {.now = now, .events = domain.totals().events, .delivered_bytes = domain.totals().delivered_bytes};
}

void run_alone(std::vector<Part>& parts, PulseClock& clock) {
  constexpr Time kBatch = 10 * kPerUs;
  Part& part = parts[0];
  part.domain.start();
  for (Time next = part.domain.next_time(); next != kNever; next = part.domain.next_time()) {
    const Time end = clock.watched() ? next + kBatch : kNever;
    part.run_until(std::min(end, part.recorder.next()));
    clock.tick([&] { return pulse_of(part.domain, next); });
  }
}

// The shortest way from one switch to another: what happens in a window as long as that reaches no other domain in it.
Time shortest_crossing(const World& world) {
  const Transport& transport = world.config.transport;
  const uint32_t least = std::min({transport.header_bytes, transport.control_bytes, kPauseBytes});
  Time shortest = kNever;
  for (const WireClass& wire : world.wire_classes)
    if (!wire.to_host) shortest = std::min(shortest, wire.time_of(least));
  return world.config.propagation + (shortest == kNever ? 0 : shortest);
}

void run_together(std::vector<Part>& parts, Time window, PulseClock& clock) {
  const auto count = static_cast<uint32_t>(parts.size());
  Meeting meeting(count);
  const auto work = [&](uint32_t self) {
    Part& part = parts[self];
    part.domain.start();
    for (uint32_t round = 0;; ++round) {
      const Time first = meeting.meet(self, part.domain.next_told(), pulse_of(part.domain, 0));
      if (first == kNever) return;
      if (self == 0) clock.tick([&] { return meeting.pulse(self, first); });
      for (uint32_t other = 0; other < count; ++other)
        if (other != self) part.domain.take(parts[other].domain.outbox(round, self), other);
      part.domain.begin_window(round + 1);
      part.run_until(std::min(first + window, part.recorder.next()));
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < count; ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

RunResult collect(const World& world, std::vector<Part>& parts) {
  RunResult result;
  for (const Part& part : parts) {
    result.totals += part.domain.totals();
    result.state_bytes += part.domain.event_bytes() + part.recorder.bytes();
  }
  for (const uint32_t position : world.message_position) {
    const MessageState& message = world.messages[position];
    result.released_at.push_back(message.released_at);
    result.delivered_at.push_back(message.delivered_at);
    if (message.delivered_at != kNever) result.end = std::max(result.end, message.delivered_at);
  }
  for (const QpSender& qp : world.senders) result.qps.push_back({qp.retransmitted, qp.path_changes});
  for (const StepState& step : world.steps) result.step_done_at.push_back(step.done_at);
  for (size_t link = 0; link < world.wires.wires.size(); ++link) {
    const Port& port = world.ports[link];
    const bool still = port.data_paused && port.paused_since < result.end;
    result.links.push_back({port.sent_bytes, port.max_queued_bytes, port.drops, port.marks, port.pauses,
                            port.paused_time + (still ? result.end - port.paused_since : 0)});
    result.state_bytes += sizeof(Port) + port.data.bytes() + port.control.bytes();
  }
  Time slice = 0;
  for (Part& part : parts) slice = std::max(slice, part.recorder.finish(result.end));
  for (Part& part : parts) part.recorder.add_to(result, slice);
  if (world.config.recording.slice != 0) Recorder::add_empty_queues(world, result);
  return result;
}

}  // namespace

Status check_packet_counts(const Program& program, const PacketConfig& config) {
  const uint64_t payload = config.transport.payload_bytes;
  for (const QueuePair& pair : program.qps) {
    uint64_t packets = 0;
    for (uint32_t at = pair.first_message; at < pair.first_message + pair.message_count; ++at)
      packets += std::max<uint64_t>(1, (program.messages[program.qp_messages[at]].bytes + payload - 1) / payload);
    if (packets < kNone) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("a queue pair from host {} to host {} sends {} packets; the packet engine counts {} of one: "
                    "take --engine fluid, or fewer rounds",
                    pair.src, pair.dst, packets, kNone - 1)};
  }
  return {};
}

RunResult run_packets(const fabric::Graph& graph, const Program& program, const PacketConfig& config,
                      const Watch& watch) {
  const uint32_t count = std::max(1u, config.threads);
  World world(program, make_wires(graph, config), config, deal_out(graph, count));
  PulseClock clock(watch);
  std::vector<Part> parts;
  parts.reserve(count);
  for (uint32_t i = 0; i < count; ++i) parts.emplace_back(world, i, count);
  if (count == 1)
    run_alone(parts, clock);
  else
    run_together(parts, shortest_crossing(world), clock);
  return collect(world, parts);
}

}  // namespace orrery::sim
