#include "controller/planner/backups.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace orrery::planner {
namespace {

using fabric::LinkId;

constexpr int kPasses = 2;  // in the first flows get their backup, in the second they may change it

// Bytes by key, most of them 0.
class Sums {
 public:
  explicit Sums(size_t keys) : slots_(std::bit_ceil(std::max<size_t>(16, 2 * keys))) {}
  void add(uint64_t key, int64_t bytes) { find(key).bytes += bytes; }
  int64_t at(uint64_t key) const {
    size_t at = place(key);
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
    return slots_[at].bytes;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t key = kFree;
    int64_t bytes = 0;
  };
  size_t place(uint64_t key) const { return (key * 0x9e3779b97f4a7c15) >> 32 & (slots_.size() - 1); }
  Slot& find(uint64_t key) {
    size_t at = place(key);
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
    if (slots_[at].key == kFree) {
      slots_[at].key = key;
      if (2 * ++used_ > slots_.size()) return grow(key);
    }
    return slots_[at];
  }
  Slot& grow(uint64_t key) {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    used_ = 0;
    for (const Slot& slot : before)
      if (slot.key != kFree) find(slot.key).bytes = slot.bytes;
    return find(key);
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

class BackupChooser {
 public:
  BackupChooser(const fabric::Graph& fabric, std::span<const FlowWithChoice> flows, std::span<const uint64_t> bytes)
      : fabric_(fabric), flows_(flows), bytes_(bytes), moved_(16 * flows.size()) {
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
      visit(uint64_t{std::min(core[hop], fabric_.link(core[hop]).reverse)});
      if (hop + 1 < core.size()) visit(fabric_.links().size() + fabric_.link(core[hop]).to);
    }
  }
  uint64_t key(uint64_t element, LinkId link) const { return element * bytes_.size() + link; }

  // The flow's bytes come to (or leave) `choice` when anything on its primary path fails.
  void move(const FlowWithChoice& flow, uint32_t choice, int sign) {
    each_element(core(flow, flow.choice), [&](uint64_t element) {
      for (LinkId link : core(flow, choice)) moved_.add(key(element, link), sign * static_cast<int64_t>(flow.bytes));
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
  uint32_t best(const FlowWithChoice& flow, const std::vector<uint32_t>& others, uint32_t before = kNoChoice) const {
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

  Cost cost_of(const FlowWithChoice& flow, uint32_t choice, const std::vector<uint32_t>& others) const {
    const Core &primary = core(flow, flow.choice), &backup = core(flow, choice);
    size_t shared = 0;
    double worst = 0, squares = 0;
    for (LinkId link : backup) {
      shared += std::count(primary.begin(), primary.end(), link);
      for (uint32_t other : others) shared += std::count(core(flow, other).begin(), core(flow, other).end(), link);
      each_element(primary, [&](uint64_t element) {
        const int64_t there = static_cast<int64_t>(bytes_[link] + flow.bytes) + moved_.at(key(element, link));
        const double drain = static_cast<double>(there) * ns_per_byte_[link];
        worst = std::max(worst, drain);
        squares += drain * drain;
      });
    }
    return {shared, worst, squares};
  }

  const fabric::Graph& fabric_;
  std::span<const FlowWithChoice> flows_;
  std::span<const uint64_t> bytes_;
  std::vector<double> ns_per_byte_;  // by LinkId
  Sums moved_;                       // by what fails and link: bytes that come less those that leave
};

}  // namespace

std::vector<std::vector<uint32_t>> choose_backups(const fabric::Graph& fabric, std::span<const FlowWithChoice> flows,
                                                  std::span<const uint64_t> bytes, uint32_t wanted) {
  return BackupChooser(fabric, flows, bytes).run(wanted);
}

}  // namespace orrery::planner
