#include "controller/drivers/ebpf/rule_commands.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::drivers::ebpf {
namespace {

constexpr size_t kRevisionsRemembered = 8;

struct MaskedAddress {
  uint32_t address = 0;
  uint32_t mask = 0;
};

// A mask counts in its last four bytes, so that all-ones may be written for IPv6 or v4-mapped.
Result<MaskedAddress> masked_address(uint32_t rule_id, const IpAddress& address, const IpAddress& mask) {
  const auto& bytes = mask.bytes();
  const uint32_t bits = uint32_t{bytes[12]} << 24 | uint32_t{bytes[13]} << 16 | uint32_t{bytes[14]} << 8 | bytes[15];
  if (bits == 0) return MaskedAddress{};
  const auto v4 = address.v4();
  if (!v4)
    return Error{ErrorCode::kRefused, fmt::format("rule {}: {} is not an IPv4 address; this switch forwards IPv4",
                                                  rule_id, address.to_string())};
  return MaskedAddress{*v4 & bits, bits};
}

}  // namespace

Status Fence::check(uint64_t term, uint64_t revision) const {
  if (term < term_)
    return Error{ErrorCode::kRefused, fmt::format("term {} is over: this switch obeys term {}", term, term_)};
  if (term == term_ && revision < revision_ &&
      std::find(replaced_.begin(), replaced_.end(), revision) == replaced_.end())
    return Error{ErrorCode::kRefused,
                 fmt::format("revision {} of term {} is older than revision {} in force", revision, term, revision_)};
  return {};
}

void Fence::advance(uint64_t term, uint64_t revision) {
  if (term != term_) replaced_.clear();
  if (term == term_ && revision != revision_) replaced_.push_back(revision_);
  if (replaced_.size() > kRevisionsRemembered) replaced_.pop_front();
  term_ = term;
  revision_ = revision;
}

Result<RuleSpec> to_rule_spec(const msg::Rule& rule) {
  ORRERY_ASSIGN(const auto src, masked_address(rule.rule_id, rule.match.src, rule.mask.src));
  ORRERY_ASSIGN(const auto dst, masked_address(rule.rule_id, rule.match.dst, rule.mask.dst));
  RuleSpec spec;
  spec.rule_id = rule.rule_id;
  spec.src_address = src.address;
  spec.src_mask = src.mask;
  spec.dst_address = dst.address;
  spec.dst_mask = dst.mask;
  spec.src_port = rule.match.src_port;
  spec.src_port_mask = rule.mask.src_port;
  spec.dst_port = rule.match.dst_port;
  spec.dst_port_mask = rule.mask.dst_port;
  spec.protocol = rule.match.protocol;
  spec.protocol_mask = rule.mask.protocol;
  spec.egress_port = rule.egress_port;
  spec.backup_port = rule.backup_port;
  return spec;
}

RuleCommands::RuleCommands(const ForwardingTable& table, RuleStore& store)
    : table_(table), store_(store), fence_(store.term(), store.revision()) {}

Status RuleCommands::replace(const msg::RuleSet& rules, uint64_t now_ns) {
  if (rules.switch_name != table_.switch_name)
    return Error{ErrorCode::kRefused,
                 fmt::format("the rules are for switch '{}', this is '{}'", rules.switch_name, table_.switch_name)};
  ORRERY_TRY(fence_.check(rules.term, rules.revision));
  std::vector<RuleSpec> specs;
  specs.reserve(rules.rules.size());
  for (const auto& rule : rules.rules) {
    ORRERY_ASSIGN(auto spec, to_rule_spec(rule));
    specs.push_back(std::move(spec));
  }
  ORRERY_ASSIGN(auto set, build_rule_set(table_, specs));
  set.term = rules.term;
  set.revision = rules.revision;
  ORRERY_TRY(store_.install(set, now_ns + rules.lease_ns));
  fence_.advance(rules.term, rules.revision);
  return {};
}

Status RuleCommands::renew(const msg::Lease& lease, uint64_t now_ns) {
  if (lease.term != store_.term() || lease.revision != store_.revision() || store_.withdrawn())
    return Error{ErrorCode::kRefused, fmt::format("revision {} of term {} is not installed here; send its rules",
                                                  lease.revision, lease.term)};
  store_.renew(now_ns + lease.lease_ns);
  return {};
}

Status RuleCommands::withdraw(const msg::Lease& lease) {
  if (lease.term < fence_.term()) return fence_.check(lease.term, lease.revision);
  store_.withdraw();
  return {};
}

msg::Ack RuleCommands::answer(uint64_t term, uint64_t revision, const Status& outcome) const {
  msg::Ack ack{.name = table_.switch_name, .term = term, .revision = revision, .accepted = outcome.has_value()};
  if (!outcome) ack.reason = outcome.error().message;
  ack.entries = static_cast<uint32_t>(store_.withdrawn() ? 0 : store_.size());
  return ack;
}

std::optional<msg::Ack> RuleCommands::handle(const msg::SwitchCommand& command, uint64_t now_ns) {
  if (const auto* rules = std::get_if<msg::RuleSet>(&command))
    return answer(rules->term, rules->revision, replace(*rules, now_ns));
  if (const auto* gone = std::get_if<msg::Withdraw>(&command))
    return answer(gone->lease.term, gone->lease.revision, withdraw(gone->lease));
  const auto& lease = std::get<msg::Lease>(command);
  const auto renewed = renew(lease, now_ns);
  if (renewed) return std::nullopt;  // the next hello says enough
  return answer(lease.term, lease.revision, renewed);
}

}  // namespace orrery::drivers::ebpf
