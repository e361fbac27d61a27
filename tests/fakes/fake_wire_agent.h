// An agent as the controller sees it: real sockets, no processes. Hellos, publishes what the test says, acknowledges
// (or refuses) plans.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/msg/intent_messages.h"
#include "common/msg/plan_messages.h"
#include "common/msg/socket.h"

namespace orrery::test {

class FakeWireAgent {
 public:
  FakeWireAgent(msg::Context& context, std::string host, const std::string& intents, const std::string& agents)
      : host_(std::move(host)),
        started_tai_ns_(tai_now_ns()),
        publisher_(*msg::Socket::connect(context, msg::SocketKind::kPublish, "intents", intents)),
        dealer_(*msg::Socket::connect(context, msg::SocketKind::kDealer, "agents", agents)) {}

  std::function<bool(const msg::HostPlan&)> refuses = [](const msg::HostPlan&) { return false; };
  bool acknowledges = true;
  std::vector<std::string> features;
  std::vector<msg::HostPlan> plans;
  std::vector<msg::Lease> leases;
  std::vector<std::string> refusals;  // of this agent, by the controller
  uint64_t last_plan_ns = 0;          // CLOCK_MONOTONIC

  const std::string& host() const { return host_; }
  uint64_t published() const { return sequence_; }  // windows so far
  bool hello() {
    msg::AgentHello hello{.host = host_, .version = "test", .features = features};
    return dealer_.send(*msg::encode(msg::AgentMessage(hello))).has_value();
  }
  void publish(msg::IntentWindow window) {
    window.host = host_;
    window.sequence = ++sequence_;
    window.agent_start_tai_ns = started_tai_ns_;
    window.start_tai_ns = tai_now_ns();
    window.length_ns = 10'000'000;
    static_cast<void>(publisher_.publish(msg::kIntentTopic, *msg::encode(window)));
  }
  void send_raw(const std::string& bytes) { static_cast<void>(dealer_.send(bytes)); }
  void publish_raw(const std::string& bytes) { static_cast<void>(publisher_.publish(msg::kIntentTopic, bytes)); }

  // Takes what has arrived and answers it.
  void serve() {
    while (true) {
      const auto message = dealer_.receive();
      if (!message || !*message) return;
      const auto decoded = msg::decode_controller_message((**message).body);
      if (!decoded) continue;
      if (const auto* plan = std::get_if<msg::HostPlan>(&*decoded)) {
        plans.push_back(*plan);
        last_plan_ns = monotonic_now_ns();
        if (acknowledges) acknowledge(*plan);
      }
      if (const auto* lease = std::get_if<msg::Lease>(&*decoded)) leases.push_back(*lease);
      if (const auto* refused = std::get_if<msg::Refused>(&*decoded)) refusals.push_back(refused->reason);
    }
  }

 private:
  void acknowledge(const msg::HostPlan& plan) {
    msg::Ack ack{.name = host_, .term = plan.term, .revision = plan.revision, .accepted = !refuses(plan)};
    if (!ack.accepted) ack.reason = "no room";
    ack.entries = static_cast<uint32_t>(plan.flows.size());
    static_cast<void>(dealer_.send(*msg::encode(msg::AgentMessage(ack))));
  }

  std::string host_;
  uint64_t started_tai_ns_;
  uint64_t sequence_ = 0;
  msg::Socket publisher_, dealer_;
};

}  // namespace orrery::test
