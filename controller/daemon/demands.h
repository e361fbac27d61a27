// From communicators and live flows to what the planner is asked: one demand per (communicator, sending NIC, receiving
// NIC), and one per plain flow that carries real bytes. Ids are kept for as long as the demand is the same.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "controller/daemon/communicators.h"
#include "controller/daemon/flows.h"
#include "controller/planner/planner.h"

namespace orrery::daemon {

// All connections from one NIC to another, of whatever communicators, are one demand: a switch rule or a source port
// cannot tell them apart. A plain flow is one by its five-tuple.
struct DemandKey {
  FiveTuple tuple;  // ports and protocol 0: all connections of the pair
  bool is_pair() const { return tuple.src_port == 0; }
  friend auto operator<=>(const DemandKey&, const DemandKey&) = default;
};

inline DemandKey pair_key(const IpAddress& src, const IpAddress& dst) {
  return {{src, dst, 0, 0, 0}};
}

class FlowIds {
 public:
  uint64_t id_of(const DemandKey& key);
  void restore(const DemandKey& key, uint64_t id);
  // Forgets the keys that are not in `demands`.
  void keep_only(const std::vector<DemandKey>& demands);
  uint64_t next() const { return next_; }
  void set_next(uint64_t next) { next_ = std::max(next_, next); }

 private:
  std::map<DemandKey, uint64_t> ids_;
  uint64_t next_ = 1;
};

struct Demands {
  planner::Snapshot snapshot;
  std::vector<DemandKey> keys;  // of snapshot.flows, in order
  // Of flows fixed on a path that no plan chose for them. Filled by Core, which knows the plan before.
  std::set<DemandKey> adopted;
};

struct DemandRules {
  bool moves_live_flows = true;  // false: flows that exist are fixed where they are, unless their host may move them
  std::function<bool(LiveFlow&)> host_may_move = [](LiveFlow& flow) { return flow.movable(); };
  planner::Options options;
};

// `path_of` tells where a live flow goes now; `current` the path of a flow id in the plan in force, empty when it has
// none. The order of the flows, and so the plan, depends only on what is demanded.
Demands build_demands(const fabric::Graph& fabric, const CommunicatorBook& communicators, FlowBook& flows, FlowIds& ids,
                      const DemandRules& rules, const std::function<std::optional<fabric::Path>(LiveFlow&)>& path_of,
                      const std::function<fabric::Path(uint64_t)>& current);

}  // namespace orrery::daemon
