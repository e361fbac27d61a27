// The flow-level engine against the packet engine where switches serve first in, first out and DCQCN sets the rates.
// It takes 10 to 20 ms to find them, at any link rate, and 0.1 s to share a link between two: long is a third of a
// second for a flow that has its path to itself, which takes the fewest packets at a low rate.
#include "tests/unit/sim/long_flows.h"

#include <catch2/catch.hpp>

namespace orrery::sim {
namespace {

constexpr uint64_t k10G = 10'000'000'000;
constexpr uint64_t kLong = 400ull << 20;

}  // namespace

TEST_CASE("first in, first out, with DCQCN and PFC: mean completion of long flows is the packet engine's within 3 %") {
  check_means(long_flows(kLong, k10G, 1), config_for(k10G), Sharing::kDcqcn);
}

TEST_CASE("first in, first out, with DCQCN alone: mean completion of long flows is the packet engine's within 3 %") {
  PacketConfig config = config_for(k10G);
  config.pfc.enabled = false;
  check_means(long_flows(kLong, k10G, 2), config, Sharing::kDcqcn);
}

}  // namespace orrery::sim
