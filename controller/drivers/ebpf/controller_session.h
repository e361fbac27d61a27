// orrery-switch's conversation with the controller: hello, commands, acknowledgements, telemetry. Loses nothing that
// matters when the controller is away: messages are simply not sent. Owned by one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/msg/socket.h"
#include "common/msg/switch_messages.h"

namespace orrery::drivers::ebpf {

class ControllerSession {
 public:
  using Handler = std::function<std::optional<msg::Ack>(const msg::SwitchCommand&)>;

  static Result<std::unique_ptr<ControllerSession>> connect(const std::string& endpoint, const msg::Security& security,
                                                            msg::SwitchHello hello);

  // When readable, call receive().
  int fd() const { return socket_.fd(); }
  // Takes every command that waits. What does not decode is counted and dropped.
  void receive(const Handler& handle);
  void send_hello();
  void send_telemetry(const msg::SwitchTelemetry& telemetry);
  // The last message found a peer.
  bool connected() const { return connected_; }
  uint64_t undecodable() const { return undecodable_; }

 private:
  ControllerSession(std::unique_ptr<msg::Context> context, msg::Socket socket, msg::SwitchHello hello)
      : context_(std::move(context)), socket_(std::move(socket)), hello_(std::move(hello)) {}
  void send(const msg::SwitchMessage& message);

  std::unique_ptr<msg::Context> context_;
  msg::Socket socket_;
  msg::SwitchHello hello_;
  bool connected_ = false;
  uint64_t undecodable_ = 0;
};

}  // namespace orrery::drivers::ebpf
