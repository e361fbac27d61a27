// Max-min fair rates, kept while flows come and go.
//
// No flow can have more without taking it from one that has no more. Equivalently every flow has a bottleneck: a full
// link on which nobody is faster (Bertsekas and Gallager, Data Networks, 6.5), or its own limit.
//
// update() computes again only what a change reaches, in one filling: the changed flows rise from 0 while all others
// stay where they are, until the level says that another must move. That is when a link fills up below the rate of one
// that is outside, or does not fill up at the rate of those that it held back. Levels only rise, so that whatever is
// taken in is not too late. With the tolerance kExact the result is the max-min allocation; with a coarser one, ripples
// that have become smaller are not followed, which is what makes large congested fabrics fast.
#pragma once

#include <vector>

#include "tools/sim/fluid/share_table.h"

namespace orrery::sim {

struct MaxMinGroup {
  double rate = 0;
  double wanted = 0;  // the rate of the filling under way
  double limit = 0;
  double part = 1;
  uint32_t first_use = 0;
  uint32_t flows = 0;
  uint32_t bottleneck = kNone;       // a link; kNone: its limit, or none yet
  uint32_t next_bottleneck = kNone;  // of the filling under way
  uint16_t uses = 0;
  bool inside = false;  // of the set that is filled
  bool frozen = false;
  bool changed = false;
};
// Of a cache line, as groups meet links in no order that memory knows.
struct alignas(64) MaxMinLink {
  double capacity = 0;
  // Of the filling under way.
  double left = 0;  // by those outside and by the frozen
  double weight = 0;
  double held = 0;  // rate of those outside that have their bottleneck here; 0: none, or they have been looked at
  double key = 0;   // of its entry among the candidates
  uint32_t unfrozen = 0;
  uint32_t inside = 0;
  // Of every filling.
  uint32_t active = 0;  // groups with flows
  uint32_t first_slot = 0;
  uint32_t listed = 0;  // at least those groups; who has lost its flows leaves when the list is next walked
  bool touched = false;
  bool seed = false;
};
static_assert(sizeof(MaxMinLink) == 64);

class MaxMin final : public ShareTable<MaxMinGroup, MaxMinLink> {
 public:
  // The finest tolerance that doubles bear: the rates are the max-min rates.
  static constexpr double kExact = 1e-9;
  // `capacity_bps` by link. `tolerance`: a flow outside counts as wronged when it is by more than this part of its
  // rate; no link ever carries more than its capacity, whatever the tolerance.
  explicit MaxMin(std::vector<double> capacity_bps, double tolerance = kExact);

  void set_flows(uint32_t group, uint32_t flows) override;
  void set_parts(uint32_t group, std::span<const uint16_t> parts, uint16_t of) override;
  void set_capacity(uint32_t link, double capacity_bps) override;

  std::span<const uint32_t> update() override;
  size_t bytes() const override;

 private:
  using Group = MaxMinGroup;
  using Link = MaxMinLink;
  struct Candidate {
    double level;
    uint32_t of;  // a link or a group
    bool is_limit;
  };
  static bool above(const Candidate& a, const Candidate& b) { return a.level > b.level; }

  void list(uint32_t group);
  void retire(uint32_t group);
  void begin(uint32_t link);
  void weigh_listed(uint32_t link);
  void touch(uint32_t link);
  void take_in(uint32_t group);
  void take_in_changed(uint32_t group);
  void change(uint32_t group);
  void seed_set();
  void fill();
  static double key(const Link& link);
  void propose(uint32_t link);
  void push(const Candidate& candidate);
  void release_held(uint32_t link);
  bool take_in_faster(uint32_t link, double level);
  void freeze_link(uint32_t link, double level);
  void freeze(uint32_t group, double level, uint32_t bottleneck);
  void commit();
  double weight(const Group& group, uint32_t use) const { return group.flows * (use_parts_[use] * group.part); }

  double tolerance_;
  std::vector<uint32_t> changed_;  // groups
  std::vector<uint32_t> seeds_;
  std::vector<uint32_t> inside_;   // groups
  std::vector<uint32_t> touched_;  // links
  std::vector<uint32_t> moved_;    // groups
  std::vector<Candidate> candidates_;
};

}  // namespace orrery::sim
