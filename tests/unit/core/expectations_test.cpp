// What a simulation predicted: the weight of jobs before they send, and what live traffic is compared with.
#include <fstream>

#include "controller/daemon/waveforms_file.h"
#include "tests/fakes/scratch_directory.h"
#include "tests/unit/core/fixture.h"

using namespace orrery;
using orrery::test::CoreFixture;
using orrery::test::kMs;

namespace {

struct ExpectationsFixture : CoreFixture {
  // Two seconds an iteration.
  msg::Waveforms waveforms(const std::map<size_t, uint64_t>& bytes_by_nic) const {
    msg::Waveforms out{.topology = fabric.name(), .fingerprint = fabric.fingerprint(), .bin_ns = 1'000'000};
    out.jobs = {{"train", 4, 2'000'000'000}};
    for (const auto& [nic, bytes] : bytes_by_nic)
      out.nics.push_back({host(nic), fabric.nics()[nic].name, {bytes}, {{0, bytes}}});
    return out;
  }
  void expect(const std::map<size_t, uint64_t>& bytes_by_nic) {
    core.expect(*daemon::NicPrediction::make(waveforms(bytes_by_nic), fabric));
  }
  uint64_t planned_bytes(size_t src) {
    for (const msg::PlannedFlow& flow : plan().flows)
      if (flow.src_host == host(src)) return flow.bytes_per_round;
    return 0;
  }
  msg::NicForecasts nics() { return ask<msg::NicForecasts>({msg::Request::Kind::kNicForecasts}); }
  const msg::NicForecast* nic(const msg::NicForecasts& list, size_t index) const {
    for (const msg::NicForecast& each : list.nics)
      if (each.host == host(index)) return &each;
    return nullptr;
  }
  // For twenty seconds, a report each 100 ms.
  void send_at(size_t src, size_t dst, uint64_t bps, uint64_t& sent) {
    for (int i = 0; i < 200; ++i) {
      flow(src, tuple(src, dst), 7, sent);
      sent += bps / 80;
      pass(100);
    }
  }
};

}  // namespace

TEST_CASE_METHOD(ExpectationsFixture, "before a job has sent, its flows weigh what a simulation says of their NICs") {
  expect({{0, 100'000'000}, {4, 90'000'000}});
  announce_all(7, {0, 4});
  announce_all(8, {1, 5});
  pass(0);
  CHECK(planned_bytes(0) == 100'000'000);
  CHECK(planned_bytes(4) == 90'000'000);
  CHECK(planned_bytes(1) == 1 << 20);  // nothing is expected there
  const auto reasons =
      ask<msg::FlowExplanation>({msg::Request::Kind::kFlowExplain, plan().flows.at(0).flow_id}).reasons;
  CHECK(std::count_if(reasons.begin(), reasons.end(), [](const std::string& reason) {
          return reason.find("what a simulation predicted") != std::string::npos;
        }) == 1);
}

TEST_CASE_METHOD(ExpectationsFixture, "a NIC with several receivers in the ring shares its prediction among them") {
  expect({{0, 100'000'000}});
  announce_all(7, {0, 4, 0, 8});
  pass(0);
  CHECK(planned_bytes(0) == 50'000'000);
}

TEST_CASE_METHOD(ExpectationsFixture, "what is seen takes the place of what was predicted, also for the next job") {
  expect({{0, 100'000'000}, {4, 100'000'000}});
  announce_all(7, {0, 4});
  pass(0);
  call(7, 0, 0, ORRERY_OP_ALL_REDUCE, 4 << 20, 0);
  pass(100);
  CHECK(planned_bytes(0) == 4 << 20);
  announce_all(8, {0, 8});
  pass(100);
  const auto flows = plan().flows;
  CHECK(std::any_of(flows.begin(), flows.end(), [&](const msg::PlannedFlow& flow) {
    return flow.src_host == host(0) && flow.dst_host == host(8) && flow.bytes_per_round == 1 << 20;
  }));
}

TEST_CASE_METHOD(ExpectationsFixture, "live traffic stands beside the prediction, NIC by NIC") {
  expect({{0, 10'000'000}, {1, 10'000'000}});  // 40 Mbit/s
  uint64_t sent = 5'000'000'000;               // before anybody looked
  send_at(0, 4, 20'000'000, sent);
  const msg::NicForecasts list = nics();
  CHECK(list.same_fabric);
  CHECK(list.jobs == std::vector<msg::ForecastJob>{{"train", 2'000'000'000}});
  CHECK(list.total == 2);
  REQUIRE(nic(list, 0) != nullptr);
  CHECK(nic(list, 0)->predicted_bps == 40'000'000);
  CHECK(static_cast<double>(nic(list, 0)->observed_bps) == Approx(20e6).epsilon(0.05));
  CHECK(nic(list, 0)->verdict == msg::NicForecast::Verdict::kSlower);
  REQUIRE(nic(list, 1) != nullptr);
  CHECK(nic(list, 1)->verdict == msg::NicForecast::Verdict::kSilent);
}

TEST_CASE_METHOD(ExpectationsFixture, "a NIC that nobody expected to send is listed once it does") {
  expect({{1, 10'000'000}});
  uint64_t sent = 0;
  send_at(2, 6, 20'000'000, sent);
  const msg::NicForecasts list = nics();
  REQUIRE(nic(list, 2) != nullptr);
  CHECK(nic(list, 2)->verdict == msg::NicForecast::Verdict::kNotPredicted);
}

TEST_CASE_METHOD(ExpectationsFixture, "lies about bytes do not bring the comparison down") {
  expect({{0, 10'000'000}});
  flow(0, tuple(0, 4), 7, 0);
  for (int i = 0; i < 40; ++i) {
    flow(0, tuple(0, 4), 7, i % 2 == 0 ? UINT64_MAX : 0);
    pass(500);
  }
  CHECK(nics().nics.size() == 1);
}

TEST_CASE_METHOD(ExpectationsFixture, "without a prediction nothing is compared") {
  uint64_t sent = 0;
  send_at(0, 4, 20'000'000, sent);
  CHECK(nics() == msg::NicForecasts{});
}

TEST_CASE_METHOD(ExpectationsFixture, "a waveforms file is refused with its name, the fault and the cure") {
  test::ScratchDirectory scratch;
  const std::string path = scratch.file("waves.bin");
  const auto refusal = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto loaded = daemon::load_waveforms(path, fabric);
    return loaded ? "loaded" : loaded.error().message;
  };
  const std::string good = *msg::encode(waveforms({{0, 1000}}));
  CHECK(refusal(good) == "loaded");
  const std::string begin = "forecast.waveforms_file: " + path + ": ";
  for (const std::string& bytes : {std::string(), good.substr(0, good.size() - 8), std::string("schema: 1\n")}) {
    const std::string message = refusal(bytes);
    CHECK(message.starts_with(begin + "damaged, cut off or no waveforms file ("));
    CHECK(message.ends_with("; write it again with orrery-sim run --waveforms"));
  }
  msg::Waveforms stranger = waveforms({{0, 1000}});
  stranger.nics[0].host = "gpu7";
  CHECK(refusal(*msg::encode(stranger)).starts_with(begin + "NIC 'gpu7:eth0' is not in the topology"));
  const auto folder = daemon::load_waveforms(scratch.file("."), fabric);
  REQUIRE_FALSE(folder);
  CHECK(folder.error().message.find("is no plain file") != std::string::npos);
  const auto missing = daemon::load_waveforms(scratch.file("nothing"), fabric);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message.find("No such file") != std::string::npos);
}
