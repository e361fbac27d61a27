#include "tests/unit/sim/long_flows.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

namespace orrery::sim {
namespace {

class Maker {
 public:
  Maker(std::string name, fabric::Graph graph, uint32_t seed)
      : name_(std::move(name)), graph_(std::move(graph)), builder_(graph_), random_(seed) {}

  uint32_t draw(uint32_t below) { return random_() % below; }
  fabric::Path path(uint32_t src, uint32_t dst, uint32_t number = 0) const {
    const auto all = graph_.paths(graph_.nics()[src], graph_.nics()[dst]);
    return all[number % all.size()];
  }
  fabric::Path hashed(uint32_t src, uint32_t dst) {
    const auto port = static_cast<uint16_t>(49'152 + draw(16'384));
    return *graph_.ecmp_path({graph_.nics()[src].address, graph_.nics()[dst].address, port, 4791, 17});
  }
  void flow(uint32_t src, uint32_t dst, const fabric::Path& path, uint64_t bytes, Time at = 0) {
    builder_.add_send_step(builder_.add_message(builder_.add_qp(src, dst, {path}), bytes), at);
  }
  void permutation(uint32_t hosts, uint64_t bytes) {
    const std::vector<uint32_t> to = random_derangement(hosts, draw(1'000'000));
    for (uint32_t host = 0; host < hosts; ++host) flow(host, to[host], hashed(host, to[host]), bytes);
  }
  void ring(uint32_t ranks, uint32_t steps, uint64_t bytes) {
    std::vector<uint32_t> order(ranks), qps, before;
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random_);
    for (uint32_t i = 0; i < ranks; ++i) {
      const uint32_t src = order[i], dst = order[(i + 1) % ranks];
      qps.push_back(builder_.add_qp(src, dst, {hashed(src, dst)}));
    }
    for (uint32_t step = 0; step < steps; ++step) {
      std::vector<uint32_t> messages;
      for (uint32_t i = 0; i < ranks; ++i) {
        messages.push_back(builder_.add_message(qps[i], bytes));
        const uint32_t send = builder_.add_send_step(messages[i]);
        if (step != 0) builder_.after_delivered(before[(i + ranks - 1) % ranks], send);
      }
      before = messages;
    }
  }
  LongFlows make() {
    Program program = builder_.build().value();
    return {std::move(name_), std::move(graph_), std::move(program)};
  }

 private:
  std::string name_;
  fabric::Graph graph_;
  ProgramBuilder builder_;
  std::mt19937 random_;
};

double mean(const RunResult& result) {
  double sum = 0;
  for (size_t i = 0; i < result.delivered_at.size(); ++i)
    sum += static_cast<double>(result.delivered_at[i] - result.released_at[i]);
  return sum / static_cast<double>(result.delivered_at.size());
}

}  // namespace

std::vector<LongFlows> long_flows(uint64_t bytes, uint64_t rate_bps, uint32_t seed) {
  std::vector<LongFlows> all;
  const auto add = [&](const std::string& name, uint32_t leaves, uint32_t spines, uint32_t hosts, const auto& fill) {
    Maker maker(name, leaf_spine(leaves, spines, hosts, rate_bps), seed);
    fill(maker);
    all.push_back(maker.make());
  };
  const auto one_link = [&](Maker& maker, uint32_t count, bool unequal) {
    for (uint32_t i = 0; i < count; ++i)
      maker.flow(i, count + i, maker.path(i, count + i), unequal ? (i + 1) * bytes : bytes);
  };
  add("permutation", 8, 4, 32, [&](Maker& maker) { maker.permutation(32, bytes); });
  add("pairs", 8, 4, 32, [&](Maker& maker) {
    const Time half = bytes * (8'000'000'000'000 / rate_bps) / 2;
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t src = maker.draw(32), dst = (src + 1 + maker.draw(31)) % 32;
      maker.flow(src, dst, maker.hashed(src, dst), bytes, maker.draw(1'000) * (half / 1'000));
    }
  });
  for (const uint32_t count : {2u, 4u, 8u, 16u})
    add("link of " + std::to_string(count), 2, 1, 2 * count, [&](Maker& maker) { one_link(maker, count, false); });
  add("unequal", 2, 1, 8, [&](Maker& maker) { one_link(maker, 4, true); });
  for (const uint32_t count : {4u, 16u})
    add("incast of " + std::to_string(count), 8, 4, 32, [&](Maker& maker) {
      for (uint32_t i = 0; i < count; ++i) maker.flow(31 - i, 0, maker.path(31 - i, 0, i), bytes);
    });
  add("parking lot", 4, 1, 16, [&](Maker& maker) {
    for (const auto& [src, dst] : {std::pair{0u, 4u}, {1u, 8u}, {12u, 5u}, {6u, 4u}})
      maker.flow(src, dst, maker.path(src, dst), bytes);
  });
  add("ring", 4, 4, 16, [&](Maker& maker) { maker.ring(16, 4, bytes); });
  add("2:1", 4, 2, 16, [&](Maker& maker) { maker.permutation(16, bytes); });
  add("all-to-all", 4, 2, 8, [&](Maker& maker) {
    for (uint32_t src = 0; src < 8; ++src)
      for (uint32_t to = 1; to < 8; ++to) maker.flow(src, (src + to) % 8, maker.hashed(src, (src + to) % 8), bytes);
  });
  return all;
}

PacketConfig config_for(uint64_t rate_bps) {
  PacketConfig config;
  const double factor = static_cast<double>(rate_bps) / static_cast<double>(k100G);
  for (uint64_t* bytes : {&config.ecn.kmin_bytes, &config.ecn.kmax_bytes, &config.pfc.xoff_bytes, &config.pfc.xon_bytes,
                          &config.pfc.headroom_bytes, &config.dcqcn.byte_counter})
    *bytes = static_cast<uint64_t>(static_cast<double>(*bytes) * factor);
  config.dcqcn.additive_bps *= factor;
  config.dcqcn.hyper_bps *= factor;
  return config;
}

void check_means(const std::vector<LongFlows>& all, const PacketConfig& config, Sharing sharing) {
  FluidConfig fluid;
  fluid.sharing = sharing;
  fluid.ack_every = config.transport.ack_every;
  for (const LongFlows& flows : all) {
    INFO(flows.name);
    const RunResult packets = run_packets(flows.graph, flows.program, config);
    CHECK(packets.totals.drops == 0);
    REQUIRE(packets.totals.delivered_messages == flows.program.messages.size());
    const double longer = mean(run_fluid(flows.graph, flows.program, fluid)) / mean(packets) - 1;
    std::printf("  %-14s %+.1f %%\n", flows.name.c_str(), 100 * longer);
    CHECK(std::abs(longer) < 0.03);
  }
}

}  // namespace orrery::sim
