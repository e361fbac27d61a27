#include "agent/enforce/plan_entry.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <cstring>

#include "common/abi/ecmp_hash_abi.h"

namespace orrery::enforce {
namespace {

Error refuse(const msg::FlowPlan& flow, std::string what) {
  return {ErrorCode::kRefused,
          fmt::format("flow {:#x} ({} > {}): {}", flow.flow_id, flow.src.to_string(), flow.dst.to_string(), what)};
}

Status check_ends(const msg::FlowPlan& flow, const std::function<bool(const IpAddress&)>& is_local) {
  if (flow.dst.is_unspecified()) return refuse(flow, "has no destination");
  if (!flow.src.is_unspecified() && !is_local(flow.src)) return refuse(flow, "does not start at this host");
  if (flow.protocol != IPPROTO_TCP && flow.protocol != IPPROTO_UDP)
    return refuse(flow, fmt::format("protocol {} is neither TCP nor UDP", flow.protocol));
  return {};
}

Status check_values(const msg::FlowPlan& flow) {
  if (flow.hops.size() > ORRERY_PLAN_MAX_HOPS)
    return refuse(flow, fmt::format("{} hash hops, at most {} are possible", flow.hops.size(), ORRERY_PLAN_MAX_HOPS));
  for (const msg::HashHop& hop : flow.hops) {
    if (hop.hash_function != ORRERY_HASH_MURMUR_5TUPLE)
      return refuse(flow, fmt::format("hash function {} is not known here; upgrade the agent", hop.hash_function));
    if (hop.group_size == 0 || hop.group_size > ORRERY_ECMP_MAX_GROUP || hop.member >= hop.group_size)
      return refuse(flow, fmt::format("member {} of a group of {}", hop.member, hop.group_size));
  }
  if (flow.src_port_first > flow.src_port_last)
    return refuse(flow, fmt::format("source ports {} to {}", flow.src_port_first, flow.src_port_last));
  if (flow.protocol == IPPROTO_UDP && flow.src_port_first != 0 && flow.src_port_first < kFirstRocePort)
    return refuse(flow,
                  fmt::format("source port {} for RoCE, which has {} to 65535", flow.src_port_first, kFirstRocePort));
  if ((flow.src_port_value & ~flow.src_port_mask) != 0) return refuse(flow, "source port value outside its mask");
  if (flow.dscp > 63 && flow.dscp != 0xff) return refuse(flow, fmt::format("DSCP {}", flow.dscp));
  if (flow.pace_bps != 0 && flow.pace_bps < kMinPaceBps)
    return refuse(flow, fmt::format("a pace of {} bit/s would starve it, the least is {}", flow.pace_bps, kMinPaceBps));
  return {};
}

}  // namespace

Result<orrery_plan_entry> make_entry(const msg::FlowPlan& flow, const std::function<bool(const IpAddress&)>& is_local) {
  ORRERY_TRY(check_ends(flow, is_local));
  ORRERY_TRY(check_values(flow));
  orrery_plan_entry entry{};
  entry.flow_id = flow.flow_id;
  entry.comm_id = flow.comm_id;
  std::memcpy(entry.local_address, flow.src.bytes().data(), sizeof entry.local_address);
  std::memcpy(entry.remote_address, flow.dst.bytes().data(), sizeof entry.remote_address);
  entry.ordinal = flow.ordinal;
  entry.src_port_first = flow.src_port_first;
  entry.src_port_last = flow.src_port_last;
  entry.src_port_mask = flow.src_port_mask;
  entry.src_port_value = flow.src_port_value;
  entry.protocol = flow.protocol;
  entry.dscp = flow.dscp;
  entry.hop_count = static_cast<uint8_t>(flow.hops.size());
  for (size_t i = 0; i < flow.hops.size(); ++i) {
    entry.hops[i].seed = flow.hops[i].seed;
    entry.hops[i].group_size = flow.hops[i].group_size;
    entry.hops[i].member = flow.hops[i].member;
    entry.hops[i].hash_function = flow.hops[i].hash_function;
  }
  entry.release_offset_ns = flow.release_offset_ns;
  entry.pace_bps = flow.pace_bps;
  return entry;
}

}  // namespace orrery::enforce
