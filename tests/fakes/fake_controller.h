// The controller's sockets and nothing behind them, for tests of the agent.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/msg/intent_messages.h"
#include "common/msg/plan_messages.h"
#include "common/msg/socket.h"

namespace orrery::test {

class FakeController {
 public:
  FakeController(const std::string& intents_endpoint, const std::string& agents_endpoint)
      : intents_(
            msg::Socket::bind(context_, msg::SocketKind::kSubscribe, "intents", intents_endpoint, subscribe()).value()),
        agents_(msg::Socket::bind(context_, msg::SocketKind::kRouter, "agents", agents_endpoint).value()) {}

  // Takes what arrives until `done` or the time is over; returns whether it was done. Windows and messages are kept
  // below.
  bool run_until(const std::function<bool()>& done, int timeout_ms = 10000) {
    const uint64_t end_ns = monotonic_now_ns() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
    msg::Socket* const sockets[] = {&intents_, &agents_};
    while (!done()) {
      const uint64_t now_ns = monotonic_now_ns();
      if (now_ns >= end_ns) return false;
      (void)msg::wait_readable(sockets, static_cast<int>((end_ns - now_ns) / 1'000'000) + 1);
      take_windows();
      take_messages();
    }
    return true;
  }
  bool send(const msg::ControllerMessage& message) { return send_raw(msg::encode(message).value()); }
  bool send_raw(const std::string& body) { return agents_.send_to(agent_, body).has_value(); }

  std::vector<msg::IntentWindow> windows;
  std::vector<msg::AgentHello> hellos;
  std::vector<msg::Ack> acks;
  size_t undecodable = 0;

 private:
  static msg::SocketOptions subscribe() {
    msg::SocketOptions options;
    options.topic = msg::kIntentTopic;
    return options;
  }
  void take_windows() {
    for (auto received = intents_.receive(); received && *received; received = intents_.receive()) {
      if (auto window = msg::decode_intent_window((*received)->body))
        windows.push_back(std::move(*window));
      else
        ++undecodable;
    }
  }
  void take_messages() {
    for (auto received = agents_.receive(); received && *received; received = agents_.receive()) {
      agent_ = (*received)->peer;
      auto message = msg::decode_agent_message((*received)->body);
      if (!message)
        ++undecodable;
      else if (auto* hello = std::get_if<msg::AgentHello>(&*message))
        hellos.push_back(std::move(*hello));
      else
        acks.push_back(std::get<msg::Ack>(std::move(*message)));
    }
  }

  msg::Context context_;
  msg::Socket intents_;
  msg::Socket agents_;
  std::string agent_;  // the one heard last
};

}  // namespace orrery::test
