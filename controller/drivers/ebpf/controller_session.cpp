#include "controller/drivers/ebpf/controller_session.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace orrery::drivers::ebpf {

Result<std::unique_ptr<ControllerSession>> ControllerSession::connect(const std::string& endpoint,
                                                                      const msg::Security& security,
                                                                      msg::SwitchHello hello) {
  auto context = std::make_unique<msg::Context>();
  msg::SocketOptions options{.send_queue = 64, .receive_queue = 64};
  options.security = security;
  ORRERY_ASSIGN(auto socket,
                msg::Socket::connect(*context, msg::SocketKind::kDealer, "controller.endpoint", endpoint, options));
  return std::unique_ptr<ControllerSession>(
      new ControllerSession(std::move(context), std::move(socket), std::move(hello)));
}

void ControllerSession::receive(const Handler& handle) {
  for (;;) {
    const auto message = socket_.receive();
    if (message && !*message) return;
    const auto command =
        message ? msg::decode_switch_command((*message)->body) : Result<msg::SwitchCommand>(message.error());
    if (!command) {
      if (undecodable_++ == 0) spdlog::warn("a message from the controller is dropped: {}", command.error().message);
      if (!message && message.error().code != ErrorCode::kCorrupt) return;
      continue;
    }
    const auto ack = handle(*command);
    if (!ack) continue;
    if (!ack->accepted) spdlog::warn("refused revision {} of term {}: {}", ack->revision, ack->term, ack->reason);
    send(*ack);
  }
}

void ControllerSession::send_hello() {
  send(hello_);
}

void ControllerSession::send_telemetry(const msg::SwitchTelemetry& telemetry) {
  send(telemetry);
}

void ControllerSession::send(const msg::SwitchMessage& message) {
  const auto frame = msg::encode(message);
  if (!frame) {
    spdlog::error("cannot encode a message to the controller: {}", frame.error().message);
    return;
  }
  const bool sent = socket_.send(*frame).has_value();
  if (sent != std::exchange(connected_, sent))
    spdlog::info(sent ? "connected to the controller" : "the controller is away; forwarding goes on");
}

}  // namespace orrery::drivers::ebpf
