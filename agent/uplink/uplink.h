// The agent's two conversations with the controller: intent windows out (PUB), hellos and acknowledgements out and
// plans in (DEALER).
//
// Owned by the agent's loop thread; nothing blocks, nothing is kept for later: a controller that is away misses what
// was said meanwhile. What cannot be decoded is counted, logged once per kind of fault, and ignored.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/msg/intent_messages.h"
#include "common/msg/plan_messages.h"
#include "common/msg/socket.h"
#include "common/telemetry/metrics.h"

namespace orrery::uplink {

struct Endpoints {
  std::string intents;  // controller.intents_endpoint
  std::string agents;   // controller.agents_endpoint
};

class Uplink {
 public:
  // `context` outlives it. Errors: kInvalidArgument or kRefused, naming the configuration key.
  static Result<Uplink> create(msg::Context& context, const Endpoints& endpoints, const msg::Security& security,
                               telemetry::Metrics& metrics);

  void publish(const msg::IntentWindow& window);
  // False when no controller is connected.
  bool send(const msg::AgentMessage& message);
  // What has arrived, at most kReceiveLimit messages; call it after every wake-up and after every send (rules of
  // ZMQ_FD).
  std::vector<msg::ControllerMessage> receive();
  int fd() const { return agents_.fd(); }

 private:
  static constexpr size_t kReceiveLimit = 64;
  Uplink(msg::Socket intents, msg::Socket agents, telemetry::Metrics& metrics);
  void count_malformed(const Error& error);

  struct Series {
    telemetry::Counter& published;
    telemetry::Counter& unpublished;
    telemetry::Counter& sent;
    telemetry::Counter& unsent;
    telemetry::Counter& received;
    telemetry::Counter& malformed;
  };
  msg::Socket intents_;
  msg::Socket agents_;
  Series series_;
  std::set<std::string> logged_faults_;
};

}  // namespace orrery::uplink
