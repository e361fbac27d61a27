#include "agent/uplink/uplink.h"

#include <catch2/catch.hpp>
#include <random>

#include "tests/fakes/fake_controller.h"
#include "tests/fakes/scratch_directory.h"

using namespace orrery;
using test::FakeController;

namespace {

// An uplink and the controller it talks to; `speak` repeats until the controller has heard enough, as PUB and DEALER
// take a moment to connect.
struct Conversation {
  Conversation()
      : controller(scratch.ipc("intents"), scratch.ipc("agents")),
        uplink(uplink::Uplink::create(context, {scratch.ipc("intents"), scratch.ipc("agents")}, {}, metrics).value()) {}

  bool repeat(const std::function<void()>& speak, const std::function<bool()>& heard) {
    for (int i = 0; i < 200; ++i) {
      speak();
      if (controller.run_until(heard, 50)) return true;
    }
    return false;
  }
  std::vector<msg::ControllerMessage> wait_for_messages(size_t count) {
    std::vector<msg::ControllerMessage> all;
    for (int i = 0; i < 200 && all.size() < count; ++i) {
      for (auto& message : uplink.receive()) all.push_back(std::move(message));
      controller.run_until([] { return false; }, 10);
    }
    return all;
  }

  test::ScratchDirectory scratch;
  FakeController controller;
  telemetry::Metrics metrics;
  msg::Context context;
  uplink::Uplink uplink;
};

msg::AgentHello hello() {
  msg::AgentHello hello;
  hello.host = "h1";
  hello.addresses = {IpAddress::parse("10.0.0.1").value()};
  return hello;
}

}  // namespace

TEST_CASE("windows and hellos reach the controller as they were", "[uplink]") {
  Conversation talk;
  msg::IntentWindow window;
  window.host = "h1";
  window.sequence = 7;
  window.clock.source = "none";
  window.communicators = {
      {msg::CommunicatorEvent::Kind::kAnnounced, 42, 0, 1, 4, 1, IpAddress::parse("10.0.0.1").value()}};
  REQUIRE(talk.repeat([&] { talk.uplink.publish(window); }, [&] { return !talk.controller.windows.empty(); }));
  CHECK(talk.controller.windows[0] == window);
  REQUIRE(talk.repeat([&] { (void)talk.uplink.send(hello()); }, [&] { return !talk.controller.hellos.empty(); }));
  CHECK(talk.controller.hellos[0] == hello());
}

TEST_CASE("plans, leases and withdrawals arrive in order", "[uplink]") {
  Conversation talk;
  REQUIRE(talk.repeat([&] { (void)talk.uplink.send(hello()); }, [&] { return !talk.controller.hellos.empty(); }));
  msg::HostPlan plan{.host = "h1", .term = 1, .revision = 2, .lease_ns = 3'000'000'000, .flows = {}};
  REQUIRE(talk.controller.send(plan));
  REQUIRE(talk.controller.send(msg::Lease{1, 2, 3'000'000'000}));
  REQUIRE(talk.controller.send(msg::Withdraw{{1, 2, 0}}));
  const auto messages = talk.wait_for_messages(3);
  REQUIRE(messages.size() == 3);
  CHECK(std::get<msg::HostPlan>(messages[0]) == plan);
  CHECK(std::get<msg::Lease>(messages[1]) == msg::Lease{1, 2, 3'000'000'000});
  CHECK(std::holds_alternative<msg::Withdraw>(messages[2]));
}

TEST_CASE("malformed messages are counted and ignored, and the next good one is taken", "[uplink]") {
  Conversation talk;
  REQUIRE(talk.repeat([&] { (void)talk.uplink.send(hello()); }, [&] { return !talk.controller.hellos.empty(); }));
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::string noise(random() % 400, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    REQUIRE(talk.controller.send_raw(noise));
  }
  REQUIRE(talk.controller.send(msg::Lease{3, 4, 1'000'000'000}));
  const auto messages = talk.wait_for_messages(1);
  REQUIRE(messages.size() == 1);
  CHECK(std::get<msg::Lease>(messages[0]) == msg::Lease{3, 4, 1'000'000'000});
  CHECK(talk.metrics.scrape().find("orrery_uplink_malformed_messages_total 20") != std::string::npos);
}

TEST_CASE("without a controller sending fails at once and blocks nothing", "[uplink]") {
  test::ScratchDirectory scratch;
  telemetry::Metrics metrics;
  msg::Context context;
  auto uplink = uplink::Uplink::create(context, {scratch.ipc("intents"), scratch.ipc("agents")}, {}, metrics).value();
  CHECK_FALSE(uplink.send(hello()));
  CHECK(uplink.receive().empty());
}

TEST_CASE("a plain uplink to another machine is refused unless it was allowed", "[uplink]") {
  telemetry::Metrics metrics;
  msg::Context context;
  const uplink::Endpoints far{"tcp://192.0.2.1:7001", "tcp://192.0.2.1:7002"};
  CHECK_FALSE(uplink::Uplink::create(context, far, {}, metrics));
  CHECK(uplink::Uplink::create(context, far, {.allow_plain = true}, metrics));
  CHECK_FALSE(uplink::Uplink::create(context, {"nonsense", "ipc:///x"}, {}, metrics));
}
