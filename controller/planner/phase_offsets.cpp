#include "controller/planner/phase_offsets.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace orrery::planner {
namespace {

using fabric::LinkId;

constexpr uint32_t kMaxMultiple = 8;  // of the longest period: the common period at most
constexpr uint32_t kMaxRepeats = 64;  // of a job in a common period
constexpr int kMaxPasses = 8;

// Rate by slot of a job's period; one slot for a job that fits no common period.
using Wave = std::vector<double>;

// How often each job repeats in the common period; 0: it does not fit.
struct Common {
  uint64_t period_ns = 0;
  std::vector<uint32_t> repeats;
  uint32_t slots = 0;
};

Common common_period(std::span<const PeriodicJob> jobs, const PhaseOptions& options) {
  uint64_t longest = 0;
  for (const PeriodicJob& job : jobs) longest = std::max(longest, job.activity.empty() ? 0 : job.period_ns);
  Common best;
  uint32_t best_fit = 0;
  for (uint64_t multiple = 1; multiple <= kMaxMultiple; ++multiple) {
    Common tried{.period_ns = longest * multiple};
    uint32_t fit = 0, together = 1;
    for (const PeriodicJob& job : jobs) {
      const uint64_t repeats = job.period_ns == 0 || job.activity.empty() ? 0 : tried.period_ns / job.period_ns;
      const bool fits =
          repeats > 0 && repeats <= kMaxRepeats &&
          (tried.period_ns / repeats - job.period_ns) * 100 <= job.period_ns * options.max_stretch_percent &&
          std::lcm(together, static_cast<uint32_t>(repeats)) <= kMaxRepeats;
      tried.repeats.push_back(fits ? static_cast<uint32_t>(repeats) : 0);
      if (fits) together = std::lcm(together, static_cast<uint32_t>(repeats)), ++fit;
    }
    if (fit <= best_fit) continue;
    best_fit = fit;
    tried.slots = (std::max(1u, options.slots) + together - 1) / together * together;
    best = std::move(tried);
  }
  return best;
}

void add(Wave& wave, const Activity& part, uint64_t period_ns) {
  const double slot = static_cast<double>(period_ns) / static_cast<double>(wave.size());
  const double begin = static_cast<double>(part.start_ns % period_ns);
  const double end = begin + static_cast<double>(std::min(part.end_ns - part.start_ns, period_ns));
  for (auto at = static_cast<size_t>(begin / slot); static_cast<double>(at) * slot < end; ++at) {
    const double from = std::max(begin, static_cast<double>(at) * slot);
    const double to = std::min(end, static_cast<double>(at + 1) * slot);
    if (to > from) wave[at % wave.size()] += static_cast<double>(part.rate_bps) * (to - from) / slot;
  }
}

// Links that the same jobs use alike, as one.
struct SharedLinks {
  double rate_bps = 0;
  double count = 0;
  std::map<uint32_t, Wave> waves;  // by job
};

std::vector<SharedLinks> shared_links(const fabric::Graph& fabric, std::span<const PeriodicJob> jobs,
                                      const Common& common) {
  std::map<LinkId, std::map<uint32_t, Wave>> by_link;
  for (uint32_t job = 0; job < jobs.size(); ++job)
    for (const Activity& part : jobs[job].activity) {
      if (jobs[job].period_ns == 0 || part.end_ns <= part.start_ns) continue;
      Wave& wave = by_link[part.link][job];
      if (wave.empty()) wave.resize(common.repeats[job] == 0 ? 1 : common.slots / common.repeats[job]);
      add(wave, part, jobs[job].period_ns);
    }
  std::map<std::pair<uint64_t, std::map<uint32_t, Wave>>, double> alike;
  for (auto& [link, waves] : by_link)
    if (waves.size() > 1) alike[{fabric.link(link).rate_bps, std::move(waves)}] += 1;
  std::vector<SharedLinks> shared;
  for (auto& [use, count] : alike) shared.push_back({static_cast<double>(use.first), count, use.second});
  return shared;
}

class Circle {
 public:
  Circle(std::vector<SharedLinks> links, const Common& common)
      : links_(std::move(links)), common_(common), shift_(common.repeats.size()) {
    load_.assign(links_.size(), Wave(common.slots));
    for (uint32_t job = 0; job < shift_.size(); ++job) place(job, 1);
  }

  const std::vector<uint32_t>& shift() const { return shift_; }  // in slots

  // Of all bytes, those beyond the links' rates.
  double overlap() const {
    double beyond = 0, all = 0;
    for (size_t i = 0; i < links_.size(); ++i)
      for (const double load : load_[i]) {
        beyond += load > links_[i].rate_bps * (1 + 1e-9) ? links_[i].count * (load - links_[i].rate_bps) : 0;
        all += links_[i].count * load;
      }
    return all > 0 ? beyond / all : 0;
  }

  // Jobs one after the other take their best shift beside the others, until none gains.
  void improve(const std::vector<uint32_t>& order) {
    bool moved = true;
    for (int pass = 0; pass < kMaxPasses && moved; ++pass) {
      moved = false;
      for (const uint32_t job : order) moved |= shift_best(job);
    }
  }

  // Jobs join one after the other, each where it is best beside those before it.
  void begin_anew(const std::vector<uint32_t>& order) {
    for (const uint32_t job : order) place(job, -1);
    for (const uint32_t job : order) {
      shift_[job] = 0;
      place(job, 1);
      shift_best(job);
    }
  }

 private:
  void place(uint32_t job, double sign) {
    for (size_t i = 0; i < links_.size(); ++i) {
      const auto wave = links_[i].waves.find(job);
      if (wave == links_[i].waves.end()) continue;
      for (size_t slot = 0; slot < load_[i].size(); ++slot)
        load_[i][(slot + shift_[job]) % load_[i].size()] += sign * wave->second[slot % wave->second.size()];
    }
  }

  bool shift_best(uint32_t job) {
    if (common_.repeats[job] == 0) return false;
    const uint32_t before = shift_[job], slots = common_.slots / common_.repeats[job];
    place(job, -1);
    std::vector<double> beyond(slots);
    for (size_t i = 0; i < links_.size(); ++i)
      if (const auto wave = links_[i].waves.find(job); wave != links_[i].waves.end())
        for (uint32_t shift = 0; shift < slots; ++shift) beyond[shift] += cost(i, wave->second, shift);
    const double least = *std::min_element(beyond.begin(), beyond.end());
    if (beyond[before] > least * (1 + 1e-9) + 1) shift_[job] = middle_of_best(beyond, least);
    place(job, 1);
    return shift_[job] != before;
  }

  double cost(size_t link, const Wave& wave, uint32_t shift) const {
    double beyond = 0;
    for (size_t slot = 0; slot < load_[link].size(); ++slot) {
      const size_t from = (slot + load_[link].size() - shift) % load_[link].size();
      beyond += std::max(0.0, load_[link][slot] + wave[from % wave.size()] - links_[link].rate_bps);
    }
    return beyond * links_[link].count;
  }

  // Of the longest run of best shifts the middle: farthest from where jitter would bring a collision.
  static uint32_t middle_of_best(const std::vector<double>& beyond, double least) {
    const auto size = static_cast<uint32_t>(beyond.size());
    const auto good = [&](uint32_t at) { return beyond[at % size] <= least * (1 + 1e-9) + 1; };
    uint32_t best = 0, longest = 0;
    for (uint32_t first = 0; first < size; ++first) {
      if (!good(first)) continue;
      uint32_t length = 0;
      while (length < size && good(first + length)) ++length;
      if (length > longest) longest = length, best = (first + (length - 1) / 2) % size;
    }
    return best;
  }

  std::vector<SharedLinks> links_;
  const Common& common_;
  std::vector<uint32_t> shift_;  // by job, in slots
  std::vector<Wave> load_;       // by links_ and slot
};

// Those that send most first: the others have to find room beside them.
std::vector<uint32_t> by_bytes(std::span<const PeriodicJob> jobs) {
  std::vector<double> bytes;
  for (const PeriodicJob& job : jobs) {
    bytes.push_back(0);
    for (const Activity& part : job.activity)
      bytes.back() += static_cast<double>(part.rate_bps) * static_cast<double>(part.end_ns - part.start_ns);
  }
  std::vector<uint32_t> order(jobs.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return bytes[a] > bytes[b]; });
  return order;
}

}  // namespace

PhaseOffsets phase_offsets(const fabric::Graph& fabric, std::span<const PeriodicJob> jobs,
                           const PhaseOptions& options) {
  PhaseOffsets result;
  for (const PeriodicJob& job : jobs) result.jobs.push_back({.job_id = job.job_id});
  const Common common = common_period(jobs, options);
  if (common.slots == 0) return result;
  const std::vector<uint32_t> order = by_bytes(jobs);
  Circle now(shared_links(fabric, jobs, common), common);
  result.overlap_before = result.overlap_after = now.overlap();
  Circle anew = now;
  now.improve(order);
  anew.begin_anew(order);
  anew.improve(order);
  const Circle& best = anew.overlap() < now.overlap() ? anew : now;
  result.overlap_after = std::min(result.overlap_before, best.overlap());
  const uint64_t slot_ns = common.period_ns / common.slots;
  for (uint32_t job = 0; job < jobs.size(); ++job) {
    if (common.repeats[job] == 0) continue;
    result.jobs[job].period_ns = common.period_ns / common.repeats[job];
    result.jobs[job].shift_ns = best.shift()[job] * slot_ns;
  }
  return result;
}

}  // namespace orrery::planner
