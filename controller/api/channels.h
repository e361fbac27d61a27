// Sending to peers by name: encodes plain structs and finds the identity. The Api owns the sockets and the peers.
#pragma once

#include <map>

#include "common/msg/socket.h"
#include "common/msg/switch_messages.h"
#include "controller/api/peers.h"
#include "controller/drivers/switch_link.h"
#include "controller/rollout/agent_link.h"

namespace orrery::api {

class AgentChannel : public rollout::AgentLink {
 public:
  AgentChannel(msg::Socket& socket, const Peers& peers) : socket_(socket), peers_(peers) {}
  Status send_plan(std::string_view host, const msg::HostPlan& plan) override;
  Status send_lease(std::string_view host, drivers::Revision revision, uint64_t lease_ns) override;
  Status send_withdraw(std::string_view host, drivers::Revision revision) override;
  std::vector<std::string> connected_agents() const override { return peers_.names(); }

 private:
  Status send(std::string_view host, const msg::ControllerMessage& message);

  msg::Socket& socket_;
  const Peers& peers_;
};

class SwitchChannel : public drivers::SwitchLink {
 public:
  SwitchChannel(msg::Socket& socket, const Peers& peers) : socket_(socket), peers_(peers) {}
  Status send_rules(std::string_view name, const drivers::SwitchRuleSet& rules) override;
  Status send_lease(std::string_view name, drivers::Revision revision, uint64_t lease_ns) override;
  Status send_withdraw(std::string_view name, drivers::Revision revision) override;
  std::vector<drivers::SwitchInfo> connected() const override;

  void remember(drivers::SwitchInfo info) { infos_[info.name] = std::move(info); }

 private:
  Status send(std::string_view name, const msg::SwitchCommand& command);

  msg::Socket& socket_;
  const Peers& peers_;
  std::map<std::string, drivers::SwitchInfo, std::less<>> infos_;
};

drivers::SwitchInfo switch_info(const msg::SwitchHello& hello);

}  // namespace orrery::api
