// Queue pairs that move alike: the same paths, policy and pace are one group of Shares. A queue pair is in its group
// for good; when links fail the paths of the group change.
//
// What a path policy is to a fluid:
//   kStatic            the path it is on; when that is known to be dead the next that is not
//   kFlowlet           the same: a NIC that has bytes to send makes no pauses, so that there are no flowlets
//   kSpray             an even split over the paths that are not known to be dead
//   kRehash, kBurst    the same: where random moves away from congestion lead on average (an optimistic reading)
//   kRecycle           an even split over the paths that are not dead: what brings no ACK back is not used again
// Until a failure is known a group with a part on the dead link stands still.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/fluid/shares.h"
#include "tools/sim/model/program.h"

namespace orrery::sim {

class FlowGroups {
 public:
  FlowGroups(const Program& program, Shares& rates);

  size_t size() const { return groups_.size(); }
  uint32_t of_qp(uint32_t qp) const { return group_of_[qp]; }
  // Whose delays its messages have: the slowest would do as well, as equal-cost paths have equal delays.
  uint32_t path(uint32_t group) const { return groups_[group].path; }
  uint64_t pace_bps(uint32_t group) const { return groups_[group].pace_bps; }

  // Groups that must be given to `rates` anew, after a link has changed (`physically`) or is known to have (not).
  void set_dead(uint32_t link, bool dead, bool physically, std::vector<uint32_t>& moved);
  void give_parts(uint32_t group);
  size_t bytes() const;

 private:
  enum class Spread : uint8_t { kOne, kAll, kAllThatWork };
  struct Group {
    uint32_t first_path = 0;  // into Program::qp_paths
    uint32_t path_count = 0;
    uint32_t path = 0;
    uint32_t position = 0;
    uint64_t pace_bps = 0;
    Spread spread = Spread::kOne;
  };
  static Spread spread_of(const QueuePair& qp);
  uint32_t add(const QueuePair& qp);
  void count_parts(const Group& group, std::span<const uint32_t> links);
  bool choose(Group& group);
  bool is_live(const Group& group, uint32_t path) const;

  const Program& program_;
  Shares& rates_;
  std::vector<Group> groups_;
  std::vector<uint32_t> group_of_;
  std::vector<uint8_t> dead_, known_dead_;  // by link; empty while none is
  std::vector<uint32_t> links_;             // scratch
  std::vector<uint16_t> parts_;             // scratch
  uint16_t of_ = 1;                         // scratch
};

}  // namespace orrery::sim
