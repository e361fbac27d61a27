// The planner's inner form of a snapshot: flows resolved to links, and per phase the assignment problem that the
// solvers share.
//
// A path is the source's uplink, a core (the links between the first and the last switch) and the link down to the
// destination. Cores depend on the two switches only, so flows between the same pair share one table of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "controller/planner/planner.h"

namespace orrery::planner {

using Core = std::vector<fabric::LinkId>;
inline constexpr uint32_t kNoChoice = 0xffffffff;
inline constexpr size_t kMaxCores = 256;  // candidates considered per pair of switches

// Bytes that `demand` counts for: more than kMaxBytes, which only a liar claims, count as that, so that sums stay in
// range.
inline constexpr uint64_t kMaxBytes = uint64_t{1} << 42;
inline uint64_t planned_bytes(const FlowDemand& demand) {
  return demand.bytes < kMaxBytes ? demand.bytes : kMaxBytes;
}

inline uint64_t subflow_bytes(const FlowDemand& demand) {
  return (planned_bytes(demand) + demand.subflows - 1) / demand.subflows;
}

// Nanoseconds to send `bytes` at `rate_bps`, rounded up.
uint64_t drain_ns(uint64_t bytes, uint64_t rate_bps);

// The usable cores between pairs of switches, found once per pair. Lives as long as one call of plan().
class CoreTable {
 public:
  explicit CoreTable(const fabric::Graph& fabric) : fabric_(fabric) {}
  // Stays valid for the life of the table. Empty: no usable way. One empty core: both NICs are on one switch.
  const std::vector<Core>& between(const fabric::Nic& src, const fabric::Nic& dst);

 private:
  const fabric::Graph& fabric_;
  std::map<std::pair<fabric::NodeId, fabric::NodeId>, std::vector<Core>> cores_;
};

// A flow of the snapshot with its addresses and paths resolved.
struct ResolvedFlow {
  const FlowDemand* demand = nullptr;
  const fabric::Nic* src = nullptr;
  const fabric::Nic* dst = nullptr;
  fabric::LinkId down = fabric::kNone;       // last link of every path
  const std::vector<Core>* cores = nullptr;  // never null; empty when the flow is local or has no usable path
  uint32_t current = kNoChoice;              // index in cores of the flow's current path, when that is usable
  bool movable() const { return demand->fixed.empty() && !cores->empty(); }
  fabric::Path path(uint32_t choice) const;
};

// In the snapshot's order. Errors: as plan().
Result<std::vector<ResolvedFlow>> resolve(const Snapshot& snapshot, CoreTable& table);

// One movable subflow as the solvers see it.
struct Item {
  uint64_t weight = 0;  // bytes, or what Teams make of them
  fabric::LinkId up = fabric::kNone;
  fabric::LinkId down = fabric::kNone;
  const std::vector<Core>* cores = nullptr;
  uint32_t current = kNoChoice;
  uint32_t home = kNoChoice;  // where it goes unless the optimum forbids or it has a current core (homes.h)
};

// Flows that send at the same time. `items` are in an order that does not depend on the snapshot's.
struct Problem {
  const fabric::Graph* fabric = nullptr;
  std::vector<uint64_t> fixed_bytes;  // by LinkId
  std::vector<Item> items;
  uint32_t phase = 0;
};

// Index of the core of each item.
using Choice = std::vector<uint32_t>;

// Bytes by LinkId under `choice`, fixed loads included.
std::vector<uint64_t> load_of(const Problem& problem, const Choice& choice);
// Drain time of the busiest link.
uint64_t max_drain_ns(const fabric::Graph& fabric, std::span<const uint64_t> bytes);

}  // namespace orrery::planner
