// Whom the api hands what arrived. Called on the controller's thread, from Api::serve().
#pragma once

#include <cstdint>
#include <string>

#include "common/msg/control_messages.h"
#include "common/msg/intent_messages.h"
#include "common/msg/plan_messages.h"
#include "common/msg/switch_messages.h"

namespace orrery::api {

class Receiver {
 public:
  virtual ~Receiver() = default;
  // Hosts and switches named here are in the topology file. Times are CLOCK_MONOTONIC.
  virtual void on_window(const msg::IntentWindow& window, uint64_t now_ns) = 0;
  // The first hello of an agent, or the first over a new connection.
  virtual void on_agent_connected(const msg::AgentHello& hello, uint64_t now_ns) = 0;
  virtual void on_agent_hello(const msg::AgentHello& hello, uint64_t now_ns) = 0;  // the later ones
  virtual void on_agent_gone(const std::string& host, uint64_t now_ns) = 0;
  virtual void on_agent_ack(const msg::Ack& ack, uint64_t now_ns) = 0;
  virtual void on_switch_connected(const msg::SwitchHello& hello, uint64_t now_ns) = 0;
  virtual void on_switch_hello(const msg::SwitchHello& hello, uint64_t now_ns) = 0;
  virtual void on_switch_gone(const std::string& name, uint64_t now_ns) = 0;
  virtual void on_switch_ack(const msg::Ack& ack, uint64_t now_ns) = 0;
  virtual void on_telemetry(const msg::SwitchTelemetry& telemetry, uint64_t now_ns) = 0;
  virtual msg::Response answer(const msg::Request& request, uint64_t now_ns) = 0;
};

}  // namespace orrery::api
