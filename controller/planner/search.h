// Assignment of flows to cores that makes the busiest link drain soonest, when edge colouring does not apply: greedy,
// then local search that moves flows off the busiest link by chains of moves. Deterministic; the work is bounded by
// counting moves, never by a clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/planner/problem.h"

namespace orrery::planner {

class Search {
 public:
  // `problem` must outlive the search. Nothing is assigned at first.
  explicit Search(const Problem& problem);

  // Gives each item its core in `choice`, where it has one.
  void begin(const Choice& choice);
  // Gives each item its current core, where it has one.
  void keep_current();
  // Gives each item without a core its home, where it has one and no link of it then drains later than `limit_ns`.
  void settle(uint64_t limit_ns);
  // Gives each item without a core, in the problem's order (heaviest first is best), the one whose links end up least
  // loaded.
  void place_rest();
  // Lowers the busiest link's drain time by chains of moves until `goal_ns` is reached or the work is spent. Moves as
  // few as it can.
  void lower_maximum(uint64_t goal_ns);
  // Shortens the other queues: moves items without a current core while that lowers the sum of
  // squared drain times.
  void even_out();

  const Choice& choice() const { return choice_; }
  uint64_t max_drain_ns() const;
  uint32_t moves() const;  // items away from their current core

 private:
  struct Cost {
    double max = 0;
    double sum = 0;
    auto operator<=>(const Cost&) const = default;
  };
  struct Place {
    uint32_t item;
    uint32_t hop;  // index of the link in the item's core
  };
  uint32_t& position(const Place& place) { return position_[place.item * longest_core_ + place.hop]; }
  const Core& core(uint32_t item, uint32_t choice) const { return (*problem_.items[item].cores)[choice]; }
  double drain(fabric::LinkId link) const { return static_cast<double>(bytes_[link]) * ns_per_byte_[link]; }
  bool movable(uint32_t item) const { return problem_.items[item].cores->size() > 1; }
  Cost cost_of(uint32_t item, uint32_t choice) const;
  void assign(uint32_t item, uint32_t choice);
  void take_off(uint32_t item);
  void load(uint32_t item, bool add);
  fabric::LinkId busiest() const;  // of the links that some item could leave; kNone when there is none
  bool repair(std::vector<fabric::LinkId> overloaded, double limit, uint32_t depth);
  bool move_off(fabric::LinkId link, const std::vector<fabric::LinkId>& overloaded, double limit, uint32_t depth);
  double squares(uint32_t item, uint32_t choice) const;
  std::vector<uint32_t> cores_by_preference(uint32_t item) const;

  const Problem& problem_;
  Choice choice_;
  std::vector<uint64_t> bytes_;              // by LinkId
  std::vector<uint32_t> flows_;              // by LinkId
  std::vector<double> ns_per_byte_;          // by LinkId
  std::vector<std::vector<Place>> on_link_;  // by LinkId: items there that could be elsewhere, in no order
  std::vector<uint32_t> position_;           // in on_link_, by item and hop
  size_t longest_core_ = 0;
  std::vector<fabric::LinkId> contested_;  // links that some item may choose or avoid
  std::vector<bool> in_chain_;             // by item
  uint64_t work_left_ = 0;
};

}  // namespace orrery::planner
