#include "controller/api/api.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>

#include "common/base/clock.h"
#include "controller/api/channels.h"

namespace orrery::api {
namespace {

constexpr int kMessagesPerTurn = 256;  // of one socket, so that none starves the others
constexpr size_t kMaxLoggedPeers = 1024;
constexpr size_t kMaxComplaints = 64;
constexpr uint64_t kComplaintLifeNs = 60'000'000'000;

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace

Result<std::unique_ptr<Api>> Api::create(msg::Context& context, const fabric::Graph& fabric,
                                         telemetry::Metrics& metrics, const Settings& settings) {
  std::unique_ptr<msg::Authenticator> authenticator;
  if (settings.security.curve) {
    if (settings.allow_list_file.empty())
      return Error{ErrorCode::kInvalidArgument,
                   "security.allow_list_file: needed with security.mode curve; list the public keys of agents, "
                   "switches and operators there, one a line"};
    ORRERY_ASSIGN(const std::vector<std::string> keys, msg::read_allow_list(settings.allow_list_file));
    ORRERY_ASSIGN(authenticator, msg::Authenticator::create(context, keys));
  }
  msg::SocketOptions options;
  options.security = settings.security;
  msg::SocketOptions intents = options;
  intents.topic = msg::kIntentTopic;
  intents.receive_queue = 10'000;  // a burst of a whole cluster's windows
  using msg::SocketKind;
  ORRERY_ASSIGN(msg::Socket intents_socket,
                msg::Socket::bind(context, SocketKind::kSubscribe, "controller.intents_endpoint",
                                  settings.intents_endpoint, intents));
  ORRERY_ASSIGN(msg::Socket agents_socket, msg::Socket::bind(context, SocketKind::kRouter, "controller.agents_endpoint",
                                                             settings.agents_endpoint, options));
  ORRERY_ASSIGN(msg::Socket switches_socket,
                msg::Socket::bind(context, SocketKind::kRouter, "controller.switches_endpoint",
                                  settings.switches_endpoint, options));
  ORRERY_ASSIGN(msg::Socket control_socket,
                msg::Socket::bind(context, SocketKind::kReply, "controller.control_endpoint", settings.control_endpoint,
                                  options));
  std::unique_ptr<Api> api(new Api(
      fabric, metrics, settings,
      {std::move(intents_socket), std::move(agents_socket), std::move(switches_socket), std::move(control_socket)}));
  api->authenticator_ = std::move(authenticator);
  return api;
}

Api::Api(const fabric::Graph& fabric, telemetry::Metrics& metrics, const Settings& settings, Sockets sockets)
    : fabric_(fabric),
      settings_(settings),
      sockets_(std::move(sockets)),
      agent_channel_(std::make_unique<AgentChannel>(sockets_.agents, agent_peers_)),
      switch_channel_(std::make_unique<SwitchChannel>(sockets_.switches, switch_peers_)),
      rate_limit_(settings.messages_per_second),
      received_(metrics.counter("orrery_api_messages_received_total", "Messages from agents, switches and the CLI")),
      malformed_(
          metrics.counter("orrery_api_messages_malformed_total", "Messages that did not decode or broke a rule")),
      refused_(
          metrics.counter("orrery_api_messages_refused_total", "Messages of unknown peers or beyond the rate limit")),
      agents_connected_(metrics.gauge("orrery_api_agents_connected", "Agents whose hello is fresh")),
      switches_connected_(metrics.gauge("orrery_api_switches_connected", "Switches whose hello is fresh")) {}

Api::~Api() = default;

rollout::AgentLink& Api::agents() {
  return *agent_channel_;
}
drivers::SwitchLink& Api::switches() {
  return *switch_channel_;
}

Status Api::serve(Receiver& receiver, int timeout_ms) {
  const std::array<msg::Socket*, 4> sockets = {&sockets_.agents, &sockets_.switches, &sockets_.intents,
                                               &sockets_.control};
  ORRERY_ASSIGN(const uint64_t readable, msg::wait_readable(sockets, timeout_ms));
  const uint64_t now_ns = monotonic_now_ns();
  if (readable & 1) drain(sockets_.agents, "agents", &Api::on_agent_message, receiver, now_ns);
  if (readable & 2) drain(sockets_.switches, "switches", &Api::on_switch_message, receiver, now_ns);
  if (readable & 4) drain(sockets_.intents, "intents", &Api::on_intent_message, receiver, now_ns);
  if (readable & 8) answer_control(receiver, now_ns);
  for (const std::string& host : agent_peers_.expire(now_ns, settings_.peer_timeout_ns))
    receiver.on_agent_gone(host, now_ns);
  for (const std::string& name : switch_peers_.expire(now_ns, settings_.peer_timeout_ns))
    receiver.on_switch_gone(name, now_ns);
  agents_connected_.Set(static_cast<double>(agent_peers_.names().size()));
  switches_connected_.Set(static_cast<double>(switch_peers_.names().size()));
  return {};
}

void Api::drain(msg::Socket& socket, const char* kind, Handler handler, Receiver& receiver, uint64_t now_ns) {
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    auto message = socket.receive();
    if (!message) {
      if (message.error().code != ErrorCode::kCorrupt)
        return spdlog::error("{} socket: {}", kind, message.error().message);
      malformed(kind, message.error());
      continue;
    }
    if (!*message) return;
    received_.Increment();
    (this->*handler)(**message, receiver, now_ns);
  }
}

void Api::malformed(const std::string& who, const Error& error) {
  malformed_.Increment();
  if (logged_.size() < kMaxLoggedPeers && logged_.insert(who).second)
    spdlog::warn(
        "malformed message from {}: {}; further ones of this peer are only counted "
        "(orrery_api_messages_malformed_total)",
        who, error.message);
}

std::string Api::complain(const std::string& name, std::string sentence, uint64_t now_ns) {
  refused_.Increment();
  const auto known = complaints_.find(name);
  if (known != complaints_.end()) {
    known->second.last_ns = now_ns;
  } else if (complaints_.size() < kMaxComplaints) {
    complaints_[name] = {sentence, now_ns};
    spdlog::warn("{}", sentence);
  }
  return sentence;
}

std::vector<std::string> Api::complaints(uint64_t now_ns) const {
  std::vector<std::string> sentences;
  for (const auto& [name, complaint] : complaints_)
    if (now_ns < complaint.last_ns + kComplaintLifeNs) sentences.push_back(complaint.sentence);
  if (authenticator_ && authenticator_->refused() != 0)
    sentences.push_back(
        fmt::format("{} connections were refused because their key is not in {}; add the key of a peer that should "
                    "connect and restart the controller",
                    authenticator_->refused(), settings_.allow_list_file));
  return sentences;
}

bool Api::is_known(const std::string& name, fabric::NodeKind kind) const {
  const auto node = fabric_.find_node(name);
  return node && fabric_.node(*node).kind == kind;
}

void Api::on_intent_message(const msg::Message& message, Receiver& receiver, uint64_t now_ns) {
  const auto window = msg::decode_intent_window(message.body);
  if (!window) return malformed("the publishers of intents", window.error());
  if (!is_known(window->host, fabric::NodeKind::kHost)) {
    complain(
        window->host,
        fmt::format(
            "intents of host '{}' are ignored: it is not in the topology file; add it there, or correct agent.host",
            window->host),
        now_ns);
    return;
  }
  if (!rate_limit_.admit("intent " + window->host, now_ns)) {
    complain(window->host + " rate",
             fmt::format("host {} sends more than {} intent windows per second; the rest is "
                         "ignored: see the log of orrery-agent there",
                         window->host, settings_.messages_per_second),
             now_ns);
    return;
  }
  receiver.on_window(*window, now_ns);
}

void Api::on_agent_message(const msg::Message& message, Receiver& receiver, uint64_t now_ns) {
  if (!rate_limit_.admit("agent " + message.peer, now_ns)) return refused_.Increment();
  const std::string name(agent_peers_.name_of(message.peer));
  const std::string who = name.empty() ? "an agent that has not said hello" : "the agent of host " + name;
  const auto decoded = msg::decode_agent_message(message.body);
  if (!decoded) return malformed(who, decoded.error());
  std::visit(
      Overloaded{[&](const msg::AgentHello& hello) { on_agent_hello(message.peer, hello, receiver, now_ns); },
                 [&](const msg::Ack& ack) {
                   if (ack.name != name)
                     return malformed(who, {ErrorCode::kCorrupt, fmt::format("acknowledges for '{}'", ack.name)});
                   receiver.on_agent_ack(ack, now_ns);
                 }},
      *decoded);
}

void Api::on_agent_hello(const std::string& identity, const msg::AgentHello& hello, Receiver& receiver,
                         uint64_t now_ns) {
  if (!is_known(hello.host, fabric::NodeKind::kHost)) {
    const std::string reason = complain(
        hello.host,
        fmt::format(
            "agent of host '{}' is refused: it is not in the topology file; add it there, or correct agent.host",
            hello.host),
        now_ns);
    if (const auto body = msg::encode(msg::ControllerMessage(msg::Refused{reason})))
      static_cast<void>(sockets_.agents.send_to(identity, *body));
    return;
  }
  if (agent_peers_.was_replaced(identity, hello.host)) {
    const std::string reason = complain(
        hello.host + " twice",
        fmt::format("two agents call themselves host '{}'; the older one is refused: stop one, or correct agent.host",
                    hello.host),
        now_ns);
    if (const auto body = msg::encode(msg::ControllerMessage(msg::Refused{reason})))
      static_cast<void>(sockets_.agents.send_to(identity, *body));
    return;
  }
  const std::string before(agent_peers_.name_of(identity));
  const bool anew = agent_peers_.hello(identity, hello.host, now_ns);
  if (!before.empty() && before != hello.host) receiver.on_agent_gone(before, now_ns);
  if (anew)
    receiver.on_agent_connected(hello, now_ns);
  else
    receiver.on_agent_hello(hello, now_ns);
}

void Api::on_switch_message(const msg::Message& message, Receiver& receiver, uint64_t now_ns) {
  if (!rate_limit_.admit("switch " + message.peer, now_ns)) return refused_.Increment();
  const std::string name(switch_peers_.name_of(message.peer));
  const std::string who = name.empty() ? "a switch that has not said hello" : "switch " + name;
  const auto decoded = msg::decode_switch_message(message.body);
  if (!decoded) return malformed(who, decoded.error());
  const auto foreign = [&](const std::string& claimed) {
    if (claimed == name) return false;
    malformed(who, {ErrorCode::kCorrupt, fmt::format("speaks for '{}'", claimed)});
    return true;
  };
  std::visit(Overloaded{[&](const msg::SwitchHello& hello) { on_switch_hello(message.peer, hello, receiver, now_ns); },
                        [&](const msg::Ack& ack) {
                          if (!foreign(ack.name)) receiver.on_switch_ack(ack, now_ns);
                        },
                        [&](const msg::SwitchTelemetry& telemetry) {
                          if (!foreign(telemetry.switch_name)) receiver.on_telemetry(telemetry, now_ns);
                        }},
             *decoded);
}

void Api::on_switch_hello(const std::string& identity, const msg::SwitchHello& hello, Receiver& receiver,
                          uint64_t now_ns) {
  if (!is_known(hello.switch_name, fabric::NodeKind::kSwitch)) {
    const std::string reason =
        complain(hello.switch_name,
                 fmt::format("switch '{}' is refused: it is not in the topology file; add it there, "
                             "or correct the name its agent was started with",
                             hello.switch_name),
                 now_ns);
    if (const auto body = msg::encode(msg::SwitchCommand(msg::Refused{reason})))
      static_cast<void>(sockets_.switches.send_to(identity, *body));
    return;
  }
  if (switch_peers_.was_replaced(identity, hello.switch_name)) {
    const std::string reason =
        complain(hello.switch_name + " twice",
                 fmt::format("two agents call themselves switch '{}'; the older one is refused: stop one, or correct "
                             "the name it was started with",
                             hello.switch_name),
                 now_ns);
    if (const auto body = msg::encode(msg::SwitchCommand(msg::Refused{reason})))
      static_cast<void>(sockets_.switches.send_to(identity, *body));
    return;
  }
  const std::string before(switch_peers_.name_of(identity));
  const bool anew = switch_peers_.hello(identity, hello.switch_name, now_ns);
  if (!before.empty() && before != hello.switch_name) receiver.on_switch_gone(before, now_ns);
  switch_channel_->remember(switch_info(hello));
  if (anew)
    receiver.on_switch_connected(hello, now_ns);
  else
    receiver.on_switch_hello(hello, now_ns);
}

void Api::answer_control(Receiver& receiver, uint64_t now_ns) {
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    const auto message = sockets_.control.receive();
    if (message && !*message) return;
    received_.Increment();
    const auto request = message ? msg::decode_request((*message)->body) : Result<msg::Request>(message.error());
    if (!request) malformed("orreryctl", request.error());
    const msg::Response response =
        request ? receiver.answer(*request, now_ns) : msg::Response(msg::RequestError{request.error().message});
    auto body = msg::encode(response);
    if (!body)
      body = msg::encode(
          msg::Response(msg::RequestError{"the answer is too long for a message: " + body.error().message}));
    if (!body) return;
    if (Status sent = sockets_.control.send(*body); !sent)
      return spdlog::warn("control socket: {}", sent.error().message);
  }
}

}  // namespace orrery::api
