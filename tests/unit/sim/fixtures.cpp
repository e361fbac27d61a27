#include "tests/unit/sim/fixtures.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "controller/fabric/topology.h"

namespace orrery::sim {

fabric::Graph leaf_spine(uint32_t leaves, uint32_t spines, uint32_t hosts, uint64_t rate_bps) {
  const auto topology = fabric::generate_leaf_spine(
      {.leaves = leaves, .spines = spines, .hosts = hosts, .rate_bps = rate_bps, .queue_bytes = 16'000'000});
  return fabric::Graph::build(topology.value());
}

PacketConfig plain_config() {
  PacketConfig config;
  config.ecn.enabled = false;
  config.dcqcn.enabled = false;
  return config;
}

Program permutation(const fabric::Graph& graph, const std::vector<uint32_t>& to, uint64_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  ProgramBuilder builder(graph);
  for (uint32_t host = 0; host < to.size(); ++host) {
    if (to[host] == host) continue;
    const auto port = static_cast<uint16_t>(49'152 + random() % 16'384);
    const FiveTuple tuple{graph.nics()[host].address, graph.nics()[to[host]].address, port, 4791, 17};
    builder.add_send_step(builder.add_message(builder.add_qp(host, to[host], {*graph.ecmp_path(tuple)}), bytes));
  }
  return builder.build().value();
}

std::vector<uint32_t> random_derangement(uint32_t hosts, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> to(hosts);
  std::iota(to.begin(), to.end(), 0u);
  const auto moves_all = [&] {
    for (uint32_t i = 0; i < hosts; ++i)
      if (to[i] == i) return false;
    return true;
  };
  do std::shuffle(to.begin(), to.end(), random);
  while (!moves_all());
  return to;
}

}  // namespace orrery::sim
