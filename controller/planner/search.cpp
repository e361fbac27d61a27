#include "controller/planner/search.h"

#include <algorithm>

namespace orrery::planner {
namespace {

using fabric::LinkId;

constexpr uint32_t kMaxChain = 6;           // moves in one chain
constexpr uint64_t kWorkPerStep = 200'000;  // moves tried to lower the maximum once
constexpr uint64_t kWorkInAll = 1'000'000;
constexpr ptrdiff_t kMaxTriedPerLink = 256;  // flows tried to take off one link; more flows are finer grain
constexpr uint32_t kEvenOutPasses = 4;
constexpr double kEpsilon = 1e-9;  // relative: below it two drain times are the same

}  // namespace

Search::Search(const Problem& problem)
    : problem_(problem),
      choice_(problem.items.size(), kNoChoice),
      bytes_(problem.fixed_bytes),
      flows_(bytes_.size()),
      ns_per_byte_(bytes_.size()),
      on_link_(bytes_.size()),
      in_chain_(problem.items.size()) {
  for (LinkId link = 0; link < bytes_.size(); ++link)
    ns_per_byte_[link] = 8e9 / static_cast<double>(std::max<uint64_t>(1, problem.fabric->link(link).rate_bps));
  std::vector<bool> contested(bytes_.size());
  for (const Item& item : problem.items) {
    if (item.cores->size() < 2) continue;
    for (const Core& core : *item.cores) {
      longest_core_ = std::max(longest_core_, core.size());
      for (LinkId link : core) contested[link] = true;
    }
  }
  position_.resize(problem.items.size() * longest_core_);
  for (LinkId link = 0; link < contested.size(); ++link)
    if (contested[link]) contested_.push_back(link);
}

void Search::load(uint32_t item, bool add) {
  const Item& what = problem_.items[item];
  const auto change = [&](LinkId link) {
    bytes_[link] += add ? what.weight : -what.weight;
    flows_[link] += add ? 1 : -1;
  };
  change(what.up);
  change(what.down);
  const Core& links = core(item, choice_[item]);
  for (uint32_t hop = 0; hop < links.size(); ++hop) {
    change(links[hop]);
    if (!movable(item)) continue;
    std::vector<Place>& places = on_link_[links[hop]];
    uint32_t& at = position({item, hop});
    if (add) {
      at = static_cast<uint32_t>(places.size());
      places.push_back({item, hop});
    } else {
      places[at] = places.back();
      position(places[at]) = at;
      places.pop_back();
    }
  }
}

void Search::assign(uint32_t item, uint32_t choice) {
  choice_[item] = choice;
  load(item, true);
}

void Search::take_off(uint32_t item) {
  load(item, false);
  choice_[item] = kNoChoice;
}

void Search::begin(const Choice& choice) {
  for (uint32_t item = 0; item < choice_.size(); ++item)
    if (choice_[item] == kNoChoice && choice[item] != kNoChoice) assign(item, choice[item]);
}

void Search::keep_current() {
  for (uint32_t item = 0; item < choice_.size(); ++item)
    if (choice_[item] == kNoChoice && problem_.items[item].current != kNoChoice)
      assign(item, problem_.items[item].current);
}

void Search::settle(uint64_t limit_ns) {
  const double limit = static_cast<double>(limit_ns) * (1 + kEpsilon);
  for (uint32_t item = 0; item < choice_.size(); ++item) {
    const uint32_t home = problem_.items[item].home;
    if (choice_[item] == kNoChoice && home != kNoChoice && cost_of(item, home).max <= limit) assign(item, home);
  }
}

Search::Cost Search::cost_of(uint32_t item, uint32_t choice) const {
  Cost cost;
  for (LinkId link : core(item, choice)) {
    const double after = drain(link) + static_cast<double>(problem_.items[item].weight) * ns_per_byte_[link];
    cost.max = std::max(cost.max, after);
    // Flows without bytes are told apart by their number.
    cost.sum += after + 1e-3 * flows_[link];
  }
  return cost;
}

void Search::place_rest() {
  for (uint32_t item = 0; item < choice_.size(); ++item) {
    if (choice_[item] != kNoChoice) continue;
    const std::vector<uint32_t> order = cores_by_preference(item);
    uint32_t best = order.front();
    Cost best_cost = cost_of(item, best);
    for (uint32_t choice : order) {
      const Cost cost = cost_of(item, choice);
      if (cost < best_cost) {
        best = choice;
        best_cost = cost;
      }
    }
    assign(item, best);
  }
}

// The current core first; else every item begins elsewhere, so that equal choices do not pile up on the first core.
std::vector<uint32_t> Search::cores_by_preference(uint32_t item) const {
  const uint32_t count = static_cast<uint32_t>(problem_.items[item].cores->size());
  const uint32_t current = problem_.items[item].current;
  std::vector<uint32_t> order;
  order.reserve(count);
  if (current != kNoChoice) order.push_back(current);
  for (uint32_t step = 0; step < count; ++step)
    if (const uint32_t choice = (item + step) % count; choice != current) order.push_back(choice);
  return order;
}

LinkId Search::busiest() const {
  LinkId worst = fabric::kNone;
  for (LinkId link : contested_)
    if (!on_link_[link].empty() && (worst == fabric::kNone || drain(link) > drain(worst))) worst = link;
  return worst;
}

void Search::lower_maximum(uint64_t goal_ns) {
  work_left_ = kWorkInAll;
  for (LinkId link = busiest(); link != fabric::kNone && drain(link) > static_cast<double>(goal_ns); link = busiest()) {
    const double limit = drain(link) * (1 - kEpsilon);
    bool lowered = false;
    for (uint32_t depth = 1; depth <= kMaxChain && !lowered && work_left_ > 0; ++depth) {
      const uint64_t reserve = work_left_ - std::min(work_left_, kWorkPerStep);
      work_left_ -= reserve;
      lowered = repair({link}, limit, depth);
      work_left_ += reserve;
    }
    std::fill(in_chain_.begin(), in_chain_.end(), false);
    if (!lowered) return;
  }
}

// Brings every link of `overloaded` below `limit` with at most `depth` moves; else changes nothing.
bool Search::repair(std::vector<LinkId> overloaded, double limit, uint32_t depth) {
  while (!overloaded.empty() && drain(overloaded.back()) < limit) overloaded.pop_back();
  if (overloaded.empty()) return true;
  return depth > 0 && move_off(overloaded.back(), overloaded, limit, depth);
}

bool Search::move_off(LinkId link, const std::vector<LinkId>& overloaded, double limit, uint32_t depth) {
  const std::vector<Place>& all = on_link_[link];
  const std::vector<Place> places(all.begin(), all.begin() + std::min(std::ssize(all), kMaxTriedPerLink));
  for (const auto& [item, unused] : places) {
    if (in_chain_[item]) continue;
    const uint32_t before = choice_[item];
    in_chain_[item] = true;
    for (uint32_t choice : cores_by_preference(item)) {
      if (choice == before || work_left_ == 0) continue;
      const Core& next = core(item, choice);
      if (std::find(next.begin(), next.end(), link) != next.end()) continue;
      --work_left_;
      // Each link that the move would overload needs a move of its own.
      const double added = static_cast<double>(problem_.items[item].weight);
      const auto overfull = [&](LinkId to) { return drain(to) + added * ns_per_byte_[to] >= limit; };
      if (std::count_if(next.begin(), next.end(), overfull) >= depth) continue;
      take_off(item);
      assign(item, choice);
      std::vector<LinkId> rest = overloaded;
      rest.insert(rest.end(), next.begin(), next.end());
      if (repair(std::move(rest), limit, depth - 1)) return true;
      take_off(item);
      assign(item, before);
    }
    in_chain_[item] = false;
  }
  return false;
}

// Change of the sum of squared drain times when `item`, taken off, goes to `choice`.
double Search::squares(uint32_t item, uint32_t choice) const {
  double change = 0;
  for (LinkId link : core(item, choice)) {
    const double added = static_cast<double>(problem_.items[item].weight) * ns_per_byte_[link];
    change += added * (2 * drain(link) + added);
  }
  return change;
}

void Search::even_out() {
  const LinkId worst = busiest();
  if (worst == fabric::kNone) return;
  const double limit = drain(worst) * (1 + kEpsilon);
  bool moved = true;
  for (uint32_t pass = 0; pass < kEvenOutPasses && moved; ++pass) {
    moved = false;
    for (uint32_t item = 0; item < choice_.size(); ++item) {
      if (!movable(item) || problem_.items[item].current != kNoChoice) continue;
      const uint32_t before = choice_[item];
      take_off(item);
      uint32_t best = before;
      double best_change = squares(item, before) * (1 - kEpsilon);
      for (uint32_t choice = 0; choice < problem_.items[item].cores->size(); ++choice) {
        const double change = squares(item, choice);
        if (change >= best_change || cost_of(item, choice).max > limit) continue;
        best = choice;
        best_change = change;
      }
      assign(item, best);
      moved = moved || best != before;
    }
  }
}

uint64_t Search::max_drain_ns() const {
  return planner::max_drain_ns(*problem_.fabric, bytes_);
}

uint32_t Search::moves() const {
  uint32_t moves = 0;
  for (uint32_t item = 0; item < choice_.size(); ++item)
    moves += problem_.items[item].current != kNoChoice && choice_[item] != problem_.items[item].current;
  return moves;
}

}  // namespace orrery::planner
