#include "common/msg/codec.h"

#include <catch2/catch.hpp>

#include "common/msg/intent_messages.h"
#include "common/msg/plan_messages.h"
#include "schemas/intent.capnp.h"

using namespace orrery;
using namespace orrery::msg;

namespace {
IntentWindow window_of(const std::string& host) {
  IntentWindow window;
  window.host = host;
  window.length_ns = 10'000'000;
  return window;
}
}  // namespace

TEST_CASE("a frame that is empty, ragged or too long is refused before it is read") {
  const std::string frame = *encode(window_of("h1"));
  CHECK_FALSE(decode_intent_window(""));
  CHECK_FALSE(decode_intent_window(std::string_view(frame).substr(0, frame.size() - 1)));
  const auto read = [](wire::IntentWindow::Reader in) -> Result<uint64_t> { return in.getSequence(); };
  CHECK(decode<wire::IntentWindow>(frame, read, {.max_bytes = frame.size()}));
  CHECK_FALSE(decode<wire::IntentWindow>(frame, read, {.max_bytes = frame.size() - 8}));
}

TEST_CASE("a message that the receiver would refuse for its length is not sent") {
  const auto fill = [](wire::IntentWindow::Builder out) { out.initIntents(1000); };
  const auto result = encode<wire::IntentWindow>(fill, {.max_bytes = 1024});
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::kExhausted);
}

TEST_CASE("reading more than the traversal limit ends in an error, not in work without end") {
  IntentWindow window = window_of("h1");
  window.intents.resize(1000, Intent{.comm_id = 1});
  const std::string frame = *encode(window);
  const auto read = [](wire::IntentWindow::Reader in) -> Result<uint64_t> {
    for (int i = 0; i < 100; ++i) in.getIntents();
    return 0;
  };
  CHECK(decode<wire::IntentWindow>(frame, read));
  CHECK_FALSE(decode<wire::IntentWindow>(frame, read, {.traversal_words = 20'000}));
}

TEST_CASE("names on the wire are printable, not empty and short") {
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("h\x01"), std::string("h\xc3\xa4"), std::string(200, 'h')}) {
    const auto result = decode_intent_window(*encode(window_of(name)));
    REQUIRE_FALSE(result);
    CHECK(result.error().message.starts_with("host "));
  }
}

TEST_CASE("text for people is kept where it is valid and made harmless where it is not") {
  const auto reason_after = [](const std::string& reason) {
    const auto message =
        decode_agent_message(*encode(AgentMessage(Ack{.name = "h1", .term = 1, .revision = 1, .reason = reason})));
    return std::get<Ack>(*message).reason;
  };
  CHECK(reason_after("no room; 8 of 8 used") == "no room; 8 of 8 used");
  CHECK(reason_after("gr\xc3\xb6\xc3\x9f"
                     "er") ==
        "gr\xc3\xb6\xc3\x9f"
        "er");
  CHECK(reason_after("\x1b[31mred\xff\xc3") == "?[31mred??");
  CHECK(reason_after("\xed\xa0\x80|\xc0\xaf|\xf4\x90\x80\x80") == "???|??|????");
  CHECK(reason_after(std::string(5000, 'x')).size() == 4096);
}

TEST_CASE("ranks, addresses, groups, leases and revisions outside their ranges are refused") {
  IntentWindow window = window_of("h1");
  window.communicators = {{.comm_id = 5, .rank = 4, .nranks = 4, .address = IpAddress::from_v4(1)}};
  CHECK_FALSE(decode_intent_window(*encode(window)));
  window.communicators[0].rank = 3;
  CHECK(decode_intent_window(*encode(window)));

  HostPlan plan{.host = "h1", .term = 1, .revision = 1, .lease_ns = 1};
  CHECK(decode_controller_message(*encode(ControllerMessage(plan))));
  for (const auto& spoil :
       {+[](HostPlan& p) { p.term = 0; }, +[](HostPlan& p) { p.revision = 0; }, +[](HostPlan& p) { p.lease_ns = 0; },
        +[](HostPlan& p) { p.lease_ns = 61'000'000'000; }, +[](HostPlan& p) { p.flows = {FlowPlan{}}; },
        +[](HostPlan& p) { p.flows = {FlowPlan{.flow_id = 1, .hops = {{.group_size = 4, .member = 4}}}}; },
        +[](HostPlan& p) { p.flows = {FlowPlan{.flow_id = 1, .hops = std::vector<HashHop>(5, {.group_size = 4})}}; },
        +[](HostPlan& p) { p.flows = {FlowPlan{.flow_id = 1, .src_port_first = 9, .src_port_last = 8}}; },
        +[](HostPlan& p) { p.flows = {FlowPlan{.flow_id = 1, .src_port_mask = 1, .src_port_value = 2}}; },
        +[](HostPlan& p) { p.flows = {FlowPlan{.flow_id = 1, .dscp = 64}}; }}) {
    HostPlan spoilt = plan;
    spoil(spoilt);
    CHECK_FALSE(decode_controller_message(*encode(ControllerMessage(spoilt))));
  }
}
