#include "controller/planner/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace orrery::planner {
namespace {

using fabric::Graph;
using fabric::LinkId;
using fabric::Nic;

Error bad_flow(const FlowDemand& flow, std::string_view what) {
  return {ErrorCode::kInvalidArgument, fmt::format("flow {}: {}", flow.flow_id, what)};
}

Result<const Nic*> find_nic(const Graph& fabric, const FlowDemand& flow, const IpAddress& address,
                            std::string_view role) {
  const Nic* nic = fabric.find_nic(address);
  if (nic == nullptr)
    return bad_flow(
        flow, fmt::format("no host of the topology has its {} address {}; add the host or leave the flow out", role,
                          address.to_string()));
  return nic;
}

Status check_fixed(const Graph& fabric, const FlowDemand& flow, const Nic& src, const Nic& dst) {
  const auto broken = [&](std::string_view what) {
    return bad_flow(flow, fmt::format("its fixed path is not a path: {}", what));
  };
  for (LinkId link : flow.fixed)
    if (link >= fabric.links().size()) return broken(fmt::format("there is no link number {}", link));
  if (flow.fixed.front() != src.uplink) return broken("it does not begin at the source's NIC");
  for (size_t hop = 1; hop < flow.fixed.size(); ++hop)
    if (fabric.link(flow.fixed[hop]).from != fabric.link(flow.fixed[hop - 1]).to)
      return broken(fmt::format("{} does not follow {}", fabric.link_name(flow.fixed[hop]),
                                fabric.link_name(flow.fixed[hop - 1])));
  if (flow.fixed.back() != fabric.link(dst.uplink).reverse) return broken("it does not end at the destination's NIC");
  return {};
}

uint32_t find_current(const ResolvedFlow& flow) {
  const fabric::Path& current = flow.demand->current;
  if (current.size() < 2 || current.front() != flow.src->uplink || current.back() != flow.down) return kNoChoice;
  for (uint32_t index = 0; index < flow.cores->size(); ++index)
    if (std::equal((*flow.cores)[index].begin(), (*flow.cores)[index].end(), current.begin() + 1, current.end() - 1))
      return index;
  return kNoChoice;
}

const std::vector<Core>& no_cores() {
  static const std::vector<Core> kEmpty;
  return kEmpty;
}

Result<ResolvedFlow> resolve_one(const Graph& fabric, const FlowDemand& demand, CoreTable& table) {
  if (demand.subflows == 0 || demand.subflows > kMaxSubflows)
    return bad_flow(demand, fmt::format("{} subflows; give it 1 to {}", demand.subflows, kMaxSubflows));
  ResolvedFlow flow{.demand = &demand, .cores = &no_cores()};
  ORRERY_ASSIGN(flow.src, find_nic(fabric, demand, demand.src, "source"));
  ORRERY_ASSIGN(flow.dst, find_nic(fabric, demand, demand.dst, "destination"));
  flow.down = fabric.link(flow.dst->uplink).reverse;
  if (!demand.fixed.empty()) {
    ORRERY_TRY(check_fixed(fabric, demand, *flow.src, *flow.dst));
    return flow;
  }
  const bool local = flow.src == flow.dst;
  if (!local && fabric.link(flow.src->uplink).usable() && fabric.link(flow.down).usable())
    flow.cores = &table.between(*flow.src, *flow.dst);
  flow.current = find_current(flow);
  return flow;
}

}  // namespace

uint64_t drain_ns(uint64_t bytes, uint64_t rate_bps) {
  if (bytes == 0) return 0;
  if (rate_bps == 0) return UINT64_MAX;
  const unsigned __int128 scaled = static_cast<unsigned __int128>(bytes) * 8'000'000'000u + rate_bps - 1;
  const unsigned __int128 drain = scaled / rate_bps;
  return drain > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(drain);
}

const std::vector<Core>& CoreTable::between(const Nic& src, const Nic& dst) {
  const auto key = std::pair(fabric_.link(src.uplink).to, fabric_.link(dst.uplink).to);
  const auto [entry, fresh] = cores_.try_emplace(key);
  if (fresh) {
    if (key.first == key.second) {
      entry->second.emplace_back();
    } else {
      for (const fabric::Path& path : fabric_.paths(src, dst, kMaxCores))
        entry->second.emplace_back(path.begin() + 1, path.end() - 1);
    }
  }
  return entry->second;
}

fabric::Path ResolvedFlow::path(uint32_t choice) const {
  if (!demand->fixed.empty()) return demand->fixed;
  if (choice >= cores->size()) return {};
  fabric::Path path{src->uplink};
  path.insert(path.end(), (*cores)[choice].begin(), (*cores)[choice].end());
  path.push_back(down);
  return path;
}

Result<std::vector<ResolvedFlow>> resolve(const Snapshot& snapshot, CoreTable& table) {
  std::vector<ResolvedFlow> flows;
  flows.reserve(snapshot.flows.size());
  std::unordered_set<uint64_t> ids;
  ids.reserve(snapshot.flows.size());
  for (const FlowDemand& demand : snapshot.flows) {
    if (!ids.insert(demand.flow_id).second)
      return bad_flow(demand, "its id occurs twice in the snapshot; ids must be unique");
    ORRERY_ASSIGN(ResolvedFlow flow, resolve_one(*snapshot.fabric, demand, table));
    flows.push_back(flow);
  }
  return flows;
}

std::vector<uint64_t> load_of(const Problem& problem, const Choice& choice) {
  std::vector<uint64_t> bytes = problem.fixed_bytes;
  for (size_t index = 0; index < problem.items.size(); ++index) {
    const Item& item = problem.items[index];
    if (choice[index] == kNoChoice) continue;
    bytes[item.up] += item.weight;
    bytes[item.down] += item.weight;
    for (LinkId link : (*item.cores)[choice[index]]) bytes[link] += item.weight;
  }
  return bytes;
}

uint64_t max_drain_ns(const Graph& fabric, std::span<const uint64_t> bytes) {
  uint64_t max = 0;
  for (LinkId link = 0; link < bytes.size(); ++link)
    if (bytes[link] != 0) max = std::max(max, drain_ns(bytes[link], fabric.link(link).rate_bps));
  return max;
}

}  // namespace orrery::planner
