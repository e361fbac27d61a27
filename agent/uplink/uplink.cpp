#include "agent/uplink/uplink.h"

#include <spdlog/spdlog.h>

#include <cctype>

namespace orrery::uplink {
namespace {

constexpr size_t kLoggedFaultsLimit = 64;

// The fault without its numbers: one kind, however many values it comes with.
std::string kind_of(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c); });
  return text;
}

}  // namespace

Result<Uplink> Uplink::create(msg::Context& context, const Endpoints& endpoints, const msg::Security& security,
                              telemetry::Metrics& metrics) {
  msg::SocketOptions options;
  options.security = security;
  ORRERY_ASSIGN(msg::Socket intents, msg::Socket::connect(context, msg::SocketKind::kPublish,
                                                          "controller.intents_endpoint", endpoints.intents, options));
  ORRERY_ASSIGN(msg::Socket agents, msg::Socket::connect(context, msg::SocketKind::kDealer,
                                                         "controller.agents_endpoint", endpoints.agents, options));
  return Uplink(std::move(intents), std::move(agents), metrics);
}

Uplink::Uplink(msg::Socket intents, msg::Socket agents, telemetry::Metrics& metrics)
    : intents_(std::move(intents)),
      agents_(std::move(agents)),
      series_{metrics.counter("orrery_uplink_published_windows_total", "Intent windows handed to the network."),
              metrics.counter("orrery_uplink_unpublished_windows_total", "Intent windows that could not be sent."),
              metrics.counter("orrery_uplink_sent_messages_total", "Hellos and acknowledgements sent."),
              metrics.counter("orrery_uplink_unsent_messages_total",
                              "Hellos and acknowledgements without a controller to take them."),
              metrics.counter("orrery_uplink_received_messages_total", "Messages of the controller understood."),
              metrics.counter("orrery_uplink_malformed_messages_total",
                              "Messages of the controller that could not be decoded.")} {}

void Uplink::publish(const msg::IntentWindow& window) {
  const Result<std::string> body = msg::encode(window);
  const bool sent = body && intents_.publish(msg::kIntentTopic, *body);
  (sent ? series_.published : series_.unpublished).Increment();
}

bool Uplink::send(const msg::AgentMessage& message) {
  const Result<std::string> body = msg::encode(message);
  const bool sent = body && agents_.send(*body);
  (sent ? series_.sent : series_.unsent).Increment();
  return sent;
}

void Uplink::count_malformed(const Error& error) {
  series_.malformed.Increment();
  if (logged_faults_.size() >= kLoggedFaultsLimit || !logged_faults_.insert(kind_of(error.message)).second) return;
  spdlog::warn("ignored a message of the controller: {}; further ones of this kind are only counted", error.message);
}

std::vector<msg::ControllerMessage> Uplink::receive() {
  std::vector<msg::ControllerMessage> messages;
  for (size_t i = 0; i < kReceiveLimit; ++i) {
    auto received = agents_.receive();
    if (!received) {
      count_malformed(received.error());
      continue;
    }
    if (!*received) break;
    auto message = msg::decode_controller_message((*received)->body);
    if (!message) {
      count_malformed(message.error());
      continue;
    }
    series_.received.Increment();
    messages.push_back(std::move(*message));
  }
  return messages;
}

}  // namespace orrery::uplink
