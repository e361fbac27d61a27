// The controller's four sockets. Belongs to the controller's thread.
//
// What arrives is decoded and checked here and handed to the Receiver as plain structs. Messages that do not decode are
// counted and logged once per peer; peers that the topology file does not know are told so and listed in complaints();
// who sends more than the limit is cut off for the rest of the second.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/msg/authenticator.h"
#include "common/msg/socket.h"
#include "common/telemetry/metrics.h"
#include "controller/api/peers.h"
#include "controller/api/rate_limit.h"
#include "controller/api/receiver.h"
#include "controller/drivers/switch_link.h"
#include "controller/fabric/graph.h"
#include "controller/rollout/agent_link.h"

namespace orrery::api {

struct Settings {
  std::string intents_endpoint;
  std::string agents_endpoint;
  std::string switches_endpoint;
  std::string control_endpoint;
  msg::Security security;
  std::string allow_list_file;               // with CURVE: public keys that may connect
  uint64_t peer_timeout_ns = 3'000'000'000;  // without a hello
  uint32_t messages_per_second = 2000;       // of one peer
};

class AgentChannel;
class SwitchChannel;

class Api {
 public:
  // Binds. Errors name the setting and the cure. `context`, `fabric` and `metrics` outlive the api.
  static Result<std::unique_ptr<Api>> create(msg::Context& context, const fabric::Graph& fabric,
                                             telemetry::Metrics& metrics, const Settings& settings);
  ~Api();

  rollout::AgentLink& agents();
  drivers::SwitchLink& switches();

  // Waits for messages, at most `timeout_ms`, and hands over a bounded number of them; then reports peers that went
  // away.
  Status serve(Receiver& receiver, int timeout_ms);

  // Sentences about peers that could not be accepted lately, for `orreryctl health`; each says what to do.
  std::vector<std::string> complaints(uint64_t now_ns) const;

 private:
  struct Sockets {
    msg::Socket intents, agents, switches, control;
  };
  Api(const fabric::Graph& fabric, telemetry::Metrics& metrics, const Settings& settings, Sockets sockets);

  using Handler = void (Api::*)(const msg::Message&, Receiver&, uint64_t);
  void drain(msg::Socket& socket, const char* kind, Handler handler, Receiver& receiver, uint64_t now_ns);
  void on_intent_message(const msg::Message& message, Receiver& receiver, uint64_t now_ns);
  void on_agent_message(const msg::Message& message, Receiver& receiver, uint64_t now_ns);
  void on_switch_message(const msg::Message& message, Receiver& receiver, uint64_t now_ns);
  void on_agent_hello(const std::string& identity, const msg::AgentHello& hello, Receiver& receiver, uint64_t now_ns);
  void on_switch_hello(const std::string& identity, const msg::SwitchHello& hello, Receiver& receiver, uint64_t now_ns);
  void answer_control(Receiver& receiver, uint64_t now_ns);
  bool is_known(const std::string& name, fabric::NodeKind kind) const;
  void malformed(const std::string& who, const Error& error);
  // Notes the complaint and says it in the log the first time.
  std::string complain(const std::string& name, std::string sentence, uint64_t now_ns);

  const fabric::Graph& fabric_;
  const Settings settings_;
  std::unique_ptr<msg::Authenticator> authenticator_;
  Sockets sockets_;
  Peers agent_peers_, switch_peers_;
  std::unique_ptr<AgentChannel> agent_channel_;
  std::unique_ptr<SwitchChannel> switch_channel_;
  RateLimit rate_limit_;
  std::set<std::string> logged_;  // peers whose malformed messages were logged
  struct Complaint {
    std::string sentence;
    uint64_t last_ns = 0;
  };
  std::map<std::string, Complaint> complaints_;  // by name

  telemetry::Counter& received_;
  telemetry::Counter& malformed_;
  telemetry::Counter& refused_;
  telemetry::Gauge& agents_connected_;
  telemetry::Gauge& switches_connected_;
};

}  // namespace orrery::api
