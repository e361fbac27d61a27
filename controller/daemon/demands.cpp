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

namespace {

constexpr size_t kMaxPlainPerHost =
    64;  // their bytes are what hostile processes say: no host may fill the plan with them

struct PairUse {
  uint64_t comm_id = 0;  // 0: more than one
  uint64_t bytes = 0;    // of a round of all communicators together, which may send at the same time
  uint32_t collectives = 0;
  bool exchange = false;
  bool in_step = true;
};

std::map<AddressPair, PairUse> pairs_in_use(const CommunicatorBook& communicators) {
  std::map<AddressPair, PairUse> used;
  for (const auto& [id, communicator] : communicators.all()) {
    if (!communicator.complete()) continue;
    for (const auto& [pair, load] : communicator.pairs) {
      const auto [use, first] = used.try_emplace(pair);
      use->second.comm_id = first ? id : 0;
      use->second.bytes += load.bytes();
      use->second.collectives += load.calls();
      use->second.exchange = first && communicator.only_exchanges();
      use->second.in_step &= !communicator.sends;
    }
  }
  return used;
}

// Plain flows by five-tuple, which queue pairs may share.
struct PlainUse {
  LiveFlow* flow = nullptr;  // one of them
  uint64_t bytes = 0;        // of all together
};

// In the order of their tuples. A plain flow of a pair that is planned goes where the pair goes.
std::map<FiveTuple, PlainUse> heaviest_plain(FlowBook& flows, const std::map<AddressPair, PairUse>& used) {
  std::map<std::string, std::vector<LiveFlow*>> by_host;
  for (auto& [key, flow] : flows.all())
    if (FlowBook::is_plain(flow) && !used.contains({key.tuple.src, key.tuple.dst})) by_host[flow.host].push_back(&flow);
  std::map<FiveTuple, PlainUse> kept;
  for (auto& [host, plain] : by_host) {
    std::stable_sort(plain.begin(), plain.end(),
                     [](const LiveFlow* a, const LiveFlow* b) { return a->weight_bytes > b->weight_bytes; });
    plain.resize(std::min(plain.size(), kMaxPlainPerHost));
    for (LiveFlow* flow : plain) {
      PlainUse& use = kept[flow->tuple];
      use.flow = flow;
      use.bytes += flow->weight_bytes;
    }
  }
  return kept;
}

}  // namespace

Demands build_demands(const fabric::Graph& fabric, const CommunicatorBook& communicators, FlowBook& flows, FlowIds& ids,
                      const DemandRules& rules, const std::function<std::optional<fabric::Path>(LiveFlow&)>& path_of,
                      const std::function<fabric::Path(uint64_t)>& current) {
  Demands demands;
  demands.snapshot.fabric = &fabric;
  demands.snapshot.options = rules.options;
  const auto add = [&](const DemandKey& key, const PairUse& use, LiveFlow* live) {
    planner::FlowDemand demand{.flow_id = ids.id_of(key),
                               .comm_id = use.comm_id,
                               .src = key.tuple.src,
                               .dst = key.tuple.dst,
                               .bytes = use.bytes};
    demand.exchange = use.exchange;
    demand.collectives = use.collectives;
    demand.in_step = use.in_step;
    if (live != nullptr && !rules.moves_live_flows) demand.fixed = path_of(*live).value_or(fabric::Path());
    if (demand.fixed.empty()) demand.current = current(demand.flow_id);
    demands.snapshot.flows.push_back(std::move(demand));
    demands.keys.push_back(key);
  };
  const std::map<AddressPair, PairUse> used = pairs_in_use(communicators);
  for (const auto& [pair, use] : used) {
    const auto live = flows.of_pair(std::nullopt, pair.first, pair.second);
    // What can move while it runs is planned anew; one flow that cannot holds its pair where it is.
    const auto stuck =
        std::find_if(live.begin(), live.end(), [&](LiveFlow* flow) { return !rules.host_may_move(*flow); });
    add(pair_key(pair.first, pair.second), use, stuck == live.end() ? nullptr : *stuck);
  }
  for (const auto& [tuple, use] : heaviest_plain(flows, used))
    add({tuple}, {.bytes = use.bytes, .collectives = 1}, use.flow);
  return demands;
}

}  // namespace orrery::daemon
