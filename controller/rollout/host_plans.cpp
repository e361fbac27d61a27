#include "controller/rollout/host_plans.h"

#include <fmt/format.h>

namespace orrery::rollout {
namespace {

msg::FlowPlan flow_plan(const fabric::Graph& fabric, const drivers::Flow& flow,
                        const drivers::HostDirective& directive) {
  msg::FlowPlan out{.flow_id = flow.flow_id,
                    .comm_id = flow.comm_id,
                    .src = flow.src,
                    .dst = flow.dst,
                    .protocol = flow.protocol,
                    .ordinal = flow.ordinal};
  if (flow.tuple.src_port != 0) out.tuple = flow.tuple;
  out.path = fabric.path_names(flow.path);
  for (const fabric::Path& backup : flow.backups) out.backups.push_back(fabric.path_names(backup));
  for (const drivers::HashHop& hop : directive.hops)
    out.hops.push_back({hop.seed, hop.group_size, hop.member, hop.hash_function});
  out.src_port_first = directive.src_port_first;
  out.src_port_last = directive.src_port_last;
  out.src_port_mask = directive.src_port_mask;
  out.src_port_value = directive.src_port_value;
  out.release_offset_ns = flow.release_offset_ns;
  out.pace_bps = flow.pace_bps;
  return out;
}

// A flow that exists already cannot use port choices: its host is told only of offsets and pace.
bool concerns_host(const drivers::Flow& flow) {
  return flow.tuple.src_port == 0 || flow.release_offset_ns != 0 || flow.pace_bps != 0;
}

}  // namespace

HostPlans make_host_plans(const fabric::Graph& fabric, drivers::Driver& driver,
                          const std::vector<drivers::Flow>& flows) {
  HostPlans plans;
  for (const drivers::Flow& flow : flows) {
    const fabric::Nic* src = fabric.find_nic(flow.src);
    if (src == nullptr) {
      plans.refused[flow.flow_id] = fmt::format("{} is no host's address in the topology file", flow.src.to_string());
      continue;
    }
    if (flow.path.empty()) {
      plans.refused[flow.flow_id] = "no usable path: links on every way are down or drained";
      continue;
    }
    const auto directive = driver.direct(flow);
    if (!directive) {
      plans.refused[flow.flow_id] = directive.error().message;
      continue;
    }
    plans.accepted.push_back(flow);
    if (concerns_host(flow)) plans.by_host[fabric.node(src->host).name].push_back(flow_plan(fabric, flow, *directive));
  }
  return plans;
}

}  // namespace orrery::rollout
