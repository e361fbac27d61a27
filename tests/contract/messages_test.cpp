#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/contract/samples.h"

using namespace orrery;
using namespace orrery::test;

namespace {

template <typename Message, typename Decode>
void check_round_trips(const std::vector<Message>& messages, Decode&& decode) {
  for (size_t i = 0; i < messages.size(); ++i) {
    INFO("sample " << i);
    const auto frame = msg::encode(messages[i]);
    REQUIRE(frame);
    const auto decoded = decode(*frame);
    REQUIRE(decoded);
    CHECK(*decoded == messages[i]);
  }
}

// As an orreryctl gets it.
template <typename Answer>
Answer received(const Answer& answer) {
  return std::get<Answer>(msg::decode_response(msg::encode(msg::Response(answer)).value()).value());
}

std::string read_golden(const std::string& release, const std::string& file) {
  std::ifstream in(std::string(ORRERY_GOLDEN) + "/" + release + "/" + file, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The golden files of one kind hold `messages`, whatever the decoder has learned since.
template <typename Message, typename Decode>
void check_golden(const std::string& name, const std::vector<Message>& messages, Decode&& decode,
                  const std::string& release = "0.1.0") {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string file = name + "-" + std::to_string(i) + ".bin";
    INFO(file);
    const auto decoded = decode(read_golden(release, file));
    REQUIRE(decoded);
    CHECK(*decoded == messages[i]);
  }
}

}  // namespace

TEST_CASE("every message survives encoding and decoding with all its fields") {
  check_round_trips(std::vector{sample_window()}, msg::decode_intent_window);
  check_round_trips(sample_agent_messages(), msg::decode_agent_message);
  check_round_trips(sample_controller_messages(), msg::decode_controller_message);
  check_round_trips(sample_switch_messages(), msg::decode_switch_message);
  check_round_trips(sample_switch_commands(), msg::decode_switch_command);
  check_round_trips(sample_requests(), msg::decode_request);
  check_round_trips(sample_responses(), msg::decode_response);
  check_round_trips(std::vector{sample_window_0_2()}, msg::decode_intent_window);
  check_round_trips(sample_agent_messages_0_2(), msg::decode_agent_message);
  check_round_trips(sample_requests_0_2(), msg::decode_request);
  check_round_trips(sample_responses_0_2(), msg::decode_response);
  check_round_trips(sample_requests_0_3(), msg::decode_request);
  check_round_trips(sample_responses_0_3(), msg::decode_response);
  check_round_trips(sample_waveforms_0_3(), msg::decode_waveforms);
}

TEST_CASE("the golden messages of release 0.1.0 still say what they said") {
  check_golden("intent-window", std::vector{sample_window()}, msg::decode_intent_window);
  check_golden("agent-message", sample_agent_messages(), msg::decode_agent_message);
  check_golden("controller-message", sample_controller_messages(), msg::decode_controller_message);
  check_golden("switch-message", sample_switch_messages(), msg::decode_switch_message);
  check_golden("switch-command", sample_switch_commands(), msg::decode_switch_command);
  check_golden("request", sample_requests(), msg::decode_request);
  check_golden("response", sample_responses(), msg::decode_response);
}

TEST_CASE("the golden messages of release 0.2.0 still say what they said") {
  check_golden("intent-window", std::vector{sample_window_0_2()}, msg::decode_intent_window, "0.2.0");
  check_golden("agent-message", sample_agent_messages_0_2(), msg::decode_agent_message, "0.2.0");
  check_golden("request", sample_requests_0_2(), msg::decode_request, "0.2.0");
  check_golden("response", sample_responses_0_2(), msg::decode_response, "0.2.0");
}

TEST_CASE("the golden messages of release 0.3.0 still say what they said") {
  check_golden("request", sample_requests_0_3(), msg::decode_request, "0.3.0");
  check_golden("response", sample_responses_0_3(), msg::decode_response, "0.3.0");
  check_golden("waveforms", sample_waveforms_0_3(), msg::decode_waveforms, "0.3.0");
}

TEST_CASE("a question of a later release is refused in words that every orreryctl recognises") {
  std::string frame = msg::encode(msg::Request{msg::Request::Kind::kNicForecasts}).value();
  // Segment table, root pointer: then which question it is.
  constexpr size_t kWhich = 8 + 8;
  REQUIRE(frame.at(kWhich) == 9);
  frame[kWhich] = 99;
  const auto refused = msg::decode_request(frame);
  REQUIRE(!refused);
  CHECK(msg::RequestError{refused.error().message}.is_unknown_kind());
  CHECK_FALSE(msg::RequestError{"flow 7 is not in the plan"}.is_unknown_kind());
}

TEST_CASE("a value of a later release does not keep the rest of an answer from an orreryctl") {
  const auto on_path = static_cast<msg::PlannedFlow::OnPath>(99);
  const msg::PlannedFlow planned{.flow_id = 7, .state = static_cast<msg::PlannedFlow::State>(99), .on_path = on_path};
  const auto plan = received(msg::PlanList{.flows = {planned}});
  CHECK(plan.flows.at(0).flow_id == 7);
  CHECK(plan.flows.at(0).state == msg::PlannedFlow::State::kUnrecognised);
  CHECK(plan.flows.at(0).on_path == msg::PlannedFlow::OnPath::kUnknown);
  const auto live = received(msg::FlowList{.total = 1, .flows = {{.on_path = on_path}}});
  CHECK(live.flows.at(0).on_path == msg::PlannedFlow::OnPath::kUnknown);
  msg::NicForecasts nics;
  nics.nics.push_back({.host = "h1", .nic = "eth0", .verdict = static_cast<msg::NicForecast::Verdict>(99)});
  CHECK(received(nics).nics.at(0).verdict == msg::NicForecast::Verdict::kUnrecognised);
}

TEST_CASE("there is a golden file for every kind of message and no other file") {
  const auto check_folder = [](const std::string& release, const std::vector<EncodedSample>& samples) {
    std::vector<std::string> expected, found;
    for (const EncodedSample& sample : samples) expected.push_back(sample.file);
    for (const auto& entry : std::filesystem::directory_iterator(std::string(ORRERY_GOLDEN) + "/" + release))
      found.push_back(entry.path().filename());
    CHECK_THAT(found, Catch::UnorderedEquals(expected));
  };
  check_folder("0.1.0", encoded_samples());
  check_folder("0.2.0", encoded_samples_0_2());
  check_folder("0.3.0", encoded_samples_0_3());
}

TEST_CASE("the defaults of a message are what a receiver assumes of fields an older sender left out") {
  const auto window = msg::decode_intent_window(*msg::encode(msg::IntentWindow{.host = "h"}));
  REQUIRE(window);
  CHECK(*window == msg::IntentWindow{.host = "h"});
  const msg::HostPlan plan{.host = "h", .term = 1, .revision = 1, .lease_ns = 1, .flows = {{.flow_id = 1}}};
  CHECK(std::get<msg::HostPlan>(*msg::decode_controller_message(*msg::encode(msg::ControllerMessage(plan)))) == plan);
}
