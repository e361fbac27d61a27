#include "tools/sim/packet/simulation.h"

#include <algorithm>
#include <barrier>
#include <thread>

#include "tools/sim/packet/domain.h"

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

void run_alone(Domain& domain) {
  domain.start();
  domain.run_until(kNever);
}

void run_together(std::vector<Domain>& domains, Time window) {
  const auto count = static_cast<uint32_t>(domains.size());
  std::vector<Time> next(count);
  std::barrier sync(count);
  const auto work = [&](uint32_t self) {
    Domain& domain = domains[self];
    domain.start();
    for (;;) {
      next[self] = domain.next_time();
      sync.arrive_and_wait();
      const Time first = *std::min_element(next.begin(), next.end());
      if (first == kNever) return;
      domain.run_until(first + window);
      sync.arrive_and_wait();
      for (uint32_t other = 0; other < count; ++other)
        if (other != self) domain.take(domains[other].outbox(self), other);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < count; ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

RunResult collect(const World& world, const std::vector<Domain>& domains) {
  RunResult result;
  for (const Domain& domain : domains) {
    result.totals += domain.totals();
    result.state_bytes += domain.event_bytes();
  }
  for (const uint32_t position : world.message_position) {
    const MessageState& message = world.messages[position];
    result.released_at.push_back(message.released_at);
    result.delivered_at.push_back(message.delivered_at);
    if (message.delivered_at != kNever) result.end = std::max(result.end, message.delivered_at);
  }
  for (const StepState& step : world.steps) result.step_done_at.push_back(step.done_at);
  for (size_t link = 0; link < world.wires.wires.size(); ++link) {
    const Port& port = world.ports[link];
    result.links.push_back({port.sent_bytes, port.max_queued_bytes, port.drops, port.marks, port.paused_time});
    result.state_bytes += sizeof(Port) + port.data.bytes() + port.control.bytes();
  }
  return result;
}

}  // namespace

RunResult run_packets(const fabric::Graph& graph, const Program& program, const PacketConfig& config) {
  const uint32_t count = std::max(1u, config.threads);
  World world(program, make_wires(graph, config), config, deal_out(graph, count));
  std::vector<Domain> domains;
  for (uint32_t i = 0; i < count; ++i) domains.emplace_back(world, i, count);
  if (count == 1)
    run_alone(domains[0]);
  else
    run_together(domains, config.propagation);
  return collect(world, domains);
}

}  // namespace orrery::sim
