#include "controller/planner/backups.h"

#include <algorithm>
#include <tuple>

namespace orrery::planner {
namespace {

using fabric::LinkId;

constexpr int kPasses = 2;  // in the first flows get their backup, in the second they may change it

// Bytes by link, most of them 0.
class Sums {
 public:
  void add(LinkId link, int64_t bytes) {
    if (slots_.empty()) slots_.resize(16);
    find(link).bytes += bytes;
  }
  int64_t at(LinkId link) const {
    if (slots_.empty()) return 0;
    size_t at = place(link);
    while (slots_[at].link != link && slots_[at].link != fabric::kNone) at = (at + 1) & (slots_.size() - 1);
    return slots_[at].bytes;
  }

 private:
  struct Slot {
    LinkId link = fabric::kNone;
    int64_t bytes = 0;
  };
  size_t place(LinkId link) const { return (link * uint64_t{0x9e3779b97f4a7c15}) >> 32 & (slots_.size() - 1); }
  Slot& find(LinkId link) {
    size_t at = place(link);
    while (slots_[at].link != link && slots_[at].link != fabric::kNone) at = (at + 1) & (slots_.size() - 1);
    if (slots_[at].link == fabric::kNone) {
      slots_[at].link = link;
      if (2 * ++used_ > slots_.size()) return grow(link);
    }
    return slots_[at];
  }
  Slot& grow(LinkId link) {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    used_ = 0;
    for (const Slot& slot : before)
      if (slot.link != fabric::kNone) find(slot.link).bytes = slot.bytes;
    return find(link);
  }

  std::vector<Slot> slots_;  // a power of two of them, or none
  size_t used_ = 0;
};

class BackupChooser {
 public:
  BackupChooser(const fabric::Graph& fabric, std::span<const FlowWithChoice> flows, std::span<const uint64_t> bytes)
      : fabric_(fabric), flows_(flows), bytes_(bytes), moved_(fabric.links().size() + fabric.nodes().size()) {
    for (LinkId link = 0; link < bytes.size(); ++link)
      ns_per_byte_.push_back(8e9 / static_cast<double>(std::max<uint64_t>(1, fabric.link(link).rate_bps)));
  }

  std::vector<std::vector<uint32_t>> run(uint32_t wanted) {
    std::vector<std::vector<uint32_t>> backups(flows_.size());
    if (wanted == 0) return backups;
    for (const FlowWithChoice& flow : flows_)
      if (may(flow)) move(flow, flow.choice, -1);
    bool changed = true;
    for (int pass = 0; pass < kPasses && changed; ++pass) {
      changed = false;
      for (size_t i = 0; i < flows_.size(); ++i) changed |= may(flows_[i]) && choose_first(flows_[i], backups[i]);
    }
    for (size_t i = 0; i < flows_.size(); ++i)
      while (!backups[i].empty() && backups[i].size() < std::min<size_t>(wanted, flows_[i].flow->cores->size() - 1))
        backups[i].push_back(best(flows_[i], backups[i]));
    return backups;
  }

 private:
  using Cost = std::tuple<size_t, double, double>;  // links shared, worst drain time, sum of squared drain times

  static bool may(const FlowWithChoice& flow) {
    return flow.flow->movable() && flow.choice != kNoChoice && flow.flow->cores->size() > 1;
  }
  static const Core& core(const FlowWithChoice& flow, uint32_t choice) { return (*flow.flow->cores)[choice]; }

  // Calls visit(element) for what can fail on a core: cables, then switches.
  template <typename Visit>
  void each_element(const Core& core, const Visit& visit) const {
    for (size_t hop = 0; hop < core.size(); ++hop) {
      visit(size_t{std::min(core[hop], fabric_.link(core[hop]).reverse)});
      if (hop + 1 < core.size()) visit(fabric_.links().size() + fabric_.link(core[hop]).to);
    }
  }

  // The flow's bytes come to (or leave) `choice` when anything on its primary path fails.
  void move(const FlowWithChoice& flow, uint32_t choice, int sign) {
    each_element(core(flow, flow.choice), [&](size_t element) {
      for (LinkId link : core(flow, choice)) moved_[element].add(link, sign * static_cast<int64_t>(flow.bytes));
    });
  }

  bool choose_first(const FlowWithChoice& flow, std::vector<uint32_t>& backups) {
    const uint32_t before = backups.empty() ? kNoChoice : backups.front();
    if (before != kNoChoice) move(flow, before, -1);
    backups.clear();
    backups.push_back(best(flow, {}, before));
    move(flow, backups.front(), 1);
    return backups.front() != before;
  }

  // `before` is kept unless another is better.
  uint32_t best(const FlowWithChoice& flow, const std::vector<uint32_t>& others, uint32_t before = kNoChoice) {
    failing_.clear();
    each_element(core(flow, flow.choice), [&](size_t element) { failing_.push_back(&moved_[element]); });
    const auto count = static_cast<uint32_t>(flow.flow->cores->size());
    uint32_t best = before;
    Cost best_cost;
    if (before != kNoChoice) best_cost = cost_of(flow, before, others);
    for (uint32_t step = 1; step < count; ++step) {
      const uint32_t choice = (flow.choice + step) % count;
      if (choice == before || std::find(others.begin(), others.end(), choice) != others.end()) continue;
      const Cost cost = cost_of(flow, choice, others);
      if (best != kNoChoice && !(cost < best_cost)) continue;
      best = choice;
      best_cost = cost;
    }
    return best;
  }

  // When what `failing_` belongs to fails.
  Cost cost_of(const FlowWithChoice& flow, uint32_t choice, const std::vector<uint32_t>& others) const {
    const Core &primary = core(flow, flow.choice), &backup = core(flow, choice);
    size_t shared = 0;
    double worst = 0, squares = 0;
    for (LinkId link : backup) {
      shared += std::count(primary.begin(), primary.end(), link);
      for (uint32_t other : others) shared += std::count(core(flow, other).begin(), core(flow, other).end(), link);
      for (const Sums* moved : failing_) {
        const int64_t there = static_cast<int64_t>(bytes_[link] + flow.bytes) + moved->at(link);
        const double drain = static_cast<double>(there) * ns_per_byte_[link];
        worst = std::max(worst, drain);
        squares += drain * drain;
      }
    }
    return {shared, worst, squares};
  }

  const fabric::Graph& fabric_;
  std::span<const FlowWithChoice> flows_;
  std::span<const uint64_t> bytes_;
  std::vector<double> ns_per_byte_;  // by LinkId
  std::vector<Sums> moved_;          // by what fails: bytes that come less those that leave
  std::vector<const Sums*> failing_;
};

}  // namespace

std::vector<std::vector<uint32_t>> choose_backups(const fabric::Graph& fabric, std::span<const FlowWithChoice> flows,
                                                  std::span<const uint64_t> bytes, uint32_t wanted) {
  return BackupChooser(fabric, flows, bytes).run(wanted);
}

}  // namespace orrery::planner
