#include "controller/drivers/entropy_driver.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>

#include "common/abi/ecmp_hash_abi.h"
#include "common/abi/plan_abi.h"

namespace orrery::drivers {
namespace {

Error refused(std::string message) {
  return {ErrorCode::kRefused, std::move(message)};
}

// The decision that the switch where `link` begins must take; no hop when it has only one way.
Result<std::optional<HashHop>> decision_at(const fabric::Graph& fabric, fabric::LinkId link, const fabric::Nic& dst) {
  const fabric::NodeId at = fabric.link(link).from;
  const fabric::Node& node = fabric.node(at);
  if (node.kind == fabric::NodeKind::kHost) return std::optional<HashHop>();
  const auto group = fabric.next_hops(at, dst);
  const auto member = std::find(group.begin(), group.end(), link);
  if (member == group.end())
    return refused(fmt::format("{} is not on a shortest path to {}, so no hash leads there", fabric.link_name(link),
                               dst.address.to_string()));
  if (group.size() == 1) return std::optional<HashHop>();
  if (node.hash_function != ORRERY_HASH_MURMUR_5TUPLE || group.size() > ORRERY_ECMP_MAX_GROUP)
    return refused(fmt::format(
        "the hash of switch {} is unknown; give hash.function and hash.seed in the topology file", node.name));
  return std::optional(HashHop{node.hash_seed, static_cast<uint16_t>(group.size()),
                               static_cast<uint16_t>(member - group.begin()), node.hash_function});
}

}  // namespace

Result<HostDirective> EntropyDriver::direct(const Flow& flow) {
  const fabric::Nic* dst = fabric_.find_nic(flow.dst);
  if (dst == nullptr) return refused(fmt::format("{} is no host's address", flow.dst.to_string()));
  if (flow.tuple.src_port != 0 && fabric_.ecmp_path(flow.tuple) != flow.path)
    return refused(
        fmt::format("{} exists and hashes to another path; this driver cannot move it", flow.tuple.to_string()));
  HostDirective directive;
  for (const fabric::LinkId link : flow.path) {
    ORRERY_ASSIGN(const std::optional<HashHop> hop, decision_at(fabric_, link, *dst));
    if (hop) directive.hops.push_back(*hop);
  }
  if (directive.hops.size() > ORRERY_PLAN_MAX_HOPS)
    return refused(fmt::format("the path takes {} hashing decisions, more than the {} a source port is searched for",
                               directive.hops.size(), ORRERY_PLAN_MAX_HOPS));
  if (!directive.hops.empty()) {
    const PortRange& ports = flow.protocol == IPPROTO_UDP ? kRocePorts : ports_;
    directive.src_port_first = ports.first;
    directive.src_port_last = ports.last;
  }
  return directive;
}

void EntropyDriver::apply(Revision, const std::vector<Flow>&, uint64_t, Completion done) {
  done({});
}

void EntropyDriver::renew(Revision, uint64_t) {}

}  // namespace orrery::drivers
