#include "controller/daemon/nic_prediction.h"

#include <catch2/catch.hpp>

#include "controller/fabric/topology.h"

using namespace orrery;
using namespace orrery::daemon;

namespace {

const fabric::Graph& a_fabric() {
  static const fabric::Graph graph =
      fabric::Graph::build(*fabric::generate_leaf_spine({.leaves = 2, .spines = 2, .hosts = 4}));
  return graph;
}

msg::Waveforms sample() {
  msg::Waveforms waveforms{.topology = a_fabric().name(),
                           .fingerprint = a_fabric().fingerprint(),
                           .scheme = "orrery",
                           .engine = "fluid",
                           .seed = 1,
                           .title = "two jobs",
                           .bin_ns = 250'000'000};
  waveforms.jobs = {{"train", 4, 2'000'000'000}, {"eval", 8, 1'000'000'000}};
  // Two seconds at full rate, two at nothing.
  waveforms.nics = {{"h1", "eth0", {100, 100, 100, 100, 100, 100, 100, 100, 0, 0, 0, 0, 0, 0, 0, 0}, {{0, 1'000'000}}},
                    {"h3", "eth0", {100, 0}, {{0, 500'000}, {1, 250'000}}}};
  return waveforms;
}

}  // namespace

TEST_CASE("a NIC is expected to send the bytes of its jobs in the time of their iterations") {
  const auto prediction = NicPrediction::make(sample(), a_fabric());
  REQUIRE(prediction);
  CHECK(prediction->of(0).jobs == "train");
  CHECK(prediction->of(0).mean_bps == Approx(4e6));
  CHECK(prediction->of(0).bytes_per_iteration == 1'000'000);
  CHECK(prediction->of(2).jobs == "train, eval");
  CHECK(prediction->of(2).mean_bps == Approx(2e6 + 2e6));
  CHECK(prediction->of(2).period_ns == 2'000'000'000);
  CHECK_FALSE(prediction->of(1).sends());
  CHECK(prediction->source() == "orrery, fluid engine, seed 1: two jobs");
}

TEST_CASE("the peak is that of the fullest second, and the mean where the run was shorter") {
  const auto prediction = NicPrediction::make(sample(), a_fabric());
  REQUIRE(prediction);
  CHECK(prediction->of(0).peak_bps == Approx(8e6));
  CHECK(prediction->of(2).peak_bps == Approx(prediction->of(2).mean_bps));
}

TEST_CASE("a prediction knows whether it was made on this very fabric") {
  CHECK(NicPrediction::make(sample(), a_fabric())->same_fabric());
  const auto faster = fabric::Graph::build(
      *fabric::generate_leaf_spine({.leaves = 2, .spines = 2, .hosts = 4, .rate_bps = 200'000'000}));
  const auto prediction = NicPrediction::make(sample(), faster);
  REQUIRE(prediction);
  CHECK_FALSE(prediction->same_fabric());
}

TEST_CASE("links that are down or drained make no other fabric") {
  fabric::Graph changed = a_fabric();
  changed.set_link_up(0, false);
  changed.set_link_drained(1, true);
  CHECK(changed.fingerprint() == a_fabric().fingerprint());
}

TEST_CASE("a NIC that the fabric does not have is named, with the cure") {
  msg::Waveforms waveforms = sample();
  waveforms.nics[1].host = "gpu7";
  const auto prediction = NicPrediction::make(waveforms, a_fabric());
  REQUIRE_FALSE(prediction);
  CHECK(prediction.error().code == ErrorCode::kInvalidArgument);
  CHECK(prediction.error().message ==
        "NIC 'gpu7:eth0' is not in the topology leaf-spine-2x2x4; simulate on the controller's topology file");
}

TEST_CASE("a NIC that is there twice is refused") {
  msg::Waveforms waveforms = sample();
  waveforms.nics[1].host = "h1";
  CHECK_FALSE(NicPrediction::make(waveforms, a_fabric()));
}
