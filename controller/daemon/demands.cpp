#include "controller/daemon/demands.h"

#include <algorithm>
#include <set>

namespace orrery::daemon {

uint64_t FlowIds::id_of(const DemandKey& key) {
  const auto [known, fresh] = ids_.try_emplace(key, next_);
  next_ += fresh;
  return known->second;
}

void FlowIds::restore(const DemandKey& key, uint64_t id) {
  ids_[key] = id;
  set_next(id + 1);
}

void FlowIds::keep_only(const std::vector<DemandKey>& demands) {
  const std::set<DemandKey> kept(demands.begin(), demands.end());
  std::erase_if(ids_, [&](const auto& entry) { return !kept.contains(entry.first); });
}

Demands build_demands(const fabric::Graph& fabric, const CommunicatorBook& communicators, FlowBook& flows, FlowIds& ids,
                      const DemandRules& rules, const std::function<std::optional<fabric::Path>(LiveFlow&)>& path_of,
                      const std::function<fabric::Path(uint64_t)>& current) {
  Demands demands;
  demands.snapshot.fabric = &fabric;
  demands.snapshot.options = rules.options;
  std::set<AddressPair> managed;
  const auto add = [&](const DemandKey& key, uint64_t bytes, LiveFlow* live) {
    planner::FlowDemand demand{
        .flow_id = ids.id_of(key), .comm_id = key.comm_id, .src = key.tuple.src, .dst = key.tuple.dst, .bytes = bytes};
    if (live != nullptr && !rules.moves_live_flows) demand.fixed = path_of(*live).value_or(fabric::Path());
    if (demand.fixed.empty()) demand.current = current(demand.flow_id);
    demands.snapshot.flows.push_back(std::move(demand));
    demands.keys.push_back(key);
  };
  for (const auto& [id, communicator] : communicators.all()) {
    if (!communicator.complete()) continue;
    for (const auto& [pair, bytes] : communicator.pairs) {
      const auto live = flows.of_pair(id, pair.first, pair.second);
      add(pair_key(id, pair.first, pair.second), bytes, live.empty() ? nullptr : live.front());
      managed.insert(pair);
    }
  }
  // A plain flow between hosts whose pair is planned already goes where the pair goes.
  for (auto& [tuple, flow] : flows.all())
    if (FlowBook::is_plain(flow) && !managed.contains({tuple.src, tuple.dst}))
      add({0, tuple}, flow.weight_bytes, &flow);
  return demands;
}

}  // namespace orrery::daemon
