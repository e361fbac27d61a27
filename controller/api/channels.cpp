#include "controller/api/channels.h"

#include <fmt/format.h>

namespace orrery::api {
namespace {

template <typename Message>
Status send_to(msg::Socket& socket, const Peers& peers, std::string_view name, const Message& message) {
  const std::string* identity = peers.identity_of(name);
  if (identity == nullptr) return Error{ErrorCode::kNotFound, fmt::format("{} is not connected", name)};
  ORRERY_ASSIGN(const std::string body, msg::encode(message));
  return socket.send_to(*identity, body);
}

}  // namespace

Status AgentChannel::send(std::string_view host, const msg::ControllerMessage& message) {
  return send_to(socket_, peers_, host, message);
}

Status AgentChannel::send_plan(std::string_view host, const msg::HostPlan& plan) {
  return send(host, plan);
}

Status AgentChannel::send_lease(std::string_view host, drivers::Revision revision, uint64_t lease_ns) {
  return send(host, msg::Lease{revision.term, revision.number, lease_ns});
}

Status AgentChannel::send_withdraw(std::string_view host, drivers::Revision revision) {
  return send(host, msg::Withdraw{{revision.term, revision.number, 0}});
}

Status SwitchChannel::send(std::string_view name, const msg::SwitchCommand& command) {
  return send_to(socket_, peers_, name, command);
}

Status SwitchChannel::send_rules(std::string_view name, const drivers::SwitchRuleSet& rules) {
  msg::RuleSet set{.switch_name = std::string(name),
                   .term = rules.revision.term,
                   .revision = rules.revision.number,
                   .lease_ns = rules.lease_ns};
  for (const drivers::SwitchRule& rule : rules.rules)
    set.rules.push_back({rule.rule_id, rule.match, rule.mask, rule.egress_port, rule.backup_port});
  return send(name, set);
}

Status SwitchChannel::send_lease(std::string_view name, drivers::Revision revision, uint64_t lease_ns) {
  return send(name, msg::Lease{revision.term, revision.number, lease_ns});
}

Status SwitchChannel::send_withdraw(std::string_view name, drivers::Revision revision) {
  return send(name, msg::Withdraw{{revision.term, revision.number, 0}});
}

std::vector<drivers::SwitchInfo> SwitchChannel::connected() const {
  std::vector<drivers::SwitchInfo> infos;
  for (const auto& [name, info] : infos_)
    if (peers_.identity_of(name) != nullptr) infos.push_back(info);
  return infos;
}

drivers::SwitchInfo switch_info(const msg::SwitchHello& hello) {
  return {hello.switch_name, hello.hash_function, hello.hash_seed, hello.ports,
          hello.table_size,  hello.mask_limit,    hello.features};
}

}  // namespace orrery::api
