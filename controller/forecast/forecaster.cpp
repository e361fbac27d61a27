#include "controller/forecast/forecaster.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "controller/forecast/period_finder.h"

namespace orrery::forecast {
namespace {

constexpr uint32_t kWrongInARow = 4;  // operations after which a sequence is given up
constexpr uint32_t kRecent = 64;      // predictions that confidence looks back on
constexpr double kLeastHalfWindow_ns = 100'000;
constexpr uint64_t kClockStep_ns = 1'000'000'000;  // back in time by more than it: the clock was set
constexpr double kLongest_ns = 1e18;               // times beyond it (30 years) come from a broken clock
constexpr double kDeviations = 4;                  // half a window, as in TCP's retransmission timer (RFC 6298)

uint64_t whole_ns(double ns) {
  return static_cast<uint64_t>(std::clamp(ns, 0.0, kLongest_ns));
}

uint64_t after(uint64_t start_ns, double ns) {
  return start_ns + std::min(whole_ns(ns), UINT64_MAX - start_ns);
}

// One operation of a sequence and the time from the start of the one before it.
struct Step {
  Operation operation;
  double gap_ns = 0;
  double deviation_ns = 0;  // mean absolute

  double half_window_ns() const { return kDeviations * deviation_ns + kLeastHalfWindow_ns; }

  void learn(double gap) {
    // One pause must not spoil what was learned, but a lasting change is followed within a few rounds.
    const double error = std::clamp(gap - gap_ns, -2 * half_window_ns(), 2 * half_window_ns());
    gap_ns = std::max(0.0, gap_ns + error / 8);
    deviation_ns += (std::abs(error) - deviation_ns) / 4;
  }
};

}  // namespace

struct Forecaster::History {
  PeriodFinder finder;
  std::vector<Step> sequence;  // empty: none known
  uint32_t next = 0;           // index in sequence of the operation expected
  uint32_t right_in_a_row = 0;
  uint32_t wrong_in_a_row = 0;
  uint64_t last_start_ns = 0;
  uint64_t recent = 0;  // one bit per prediction, the last one lowest
  uint32_t recent_count = 0;
  uint64_t last_observation = 0;
  bool in_step = false;           // the last operation belonged, so that the gap to the next one is the sequence's
  bool sequence_doubted = false;  // something did not belong lately
  Score score;

  std::optional<bool> observe(const Operation& operation, uint64_t start_ns);
  std::optional<Prediction> predict() const;
  std::optional<Rhythm> rhythm() const;

 private:
  bool follow(const Operation& operation, uint64_t start_ns);
  void lose_track(const Operation& operation);
  void record(bool held);
  void learn_sequence();
};

std::optional<bool> Forecaster::History::observe(const Operation& operation, uint64_t start_ns) {
  const bool clock_set_back = last_start_ns > kClockStep_ns && start_ns < last_start_ns - kClockStep_ns;
  if (clock_set_back) {
    last_start_ns = start_ns;  // no gap can be told, neither to learn from nor to be right about
    in_step = false;
  }
  start_ns = std::max(start_ns, last_start_ns);
  std::optional<bool> held;
  if (!sequence.empty()) {
    held = follow(operation, start_ns) && !clock_set_back;
    record(*held);
  }
  finder.push({operation, start_ns});
  last_start_ns = start_ns;
  learn_sequence();
  return held;
}

// Whether the operation is the predicted one, within its window; takes the sequence one step on.
bool Forecaster::History::follow(const Operation& operation, uint64_t start_ns) {
  Step& step = sequence[next];
  if (!(step.operation == operation)) {
    lose_track(operation);
    return false;
  }
  const Prediction predicted = *predict();
  if (in_step) step.learn(static_cast<double>(start_ns - last_start_ns));
  in_step = true;
  next = (next + 1) % static_cast<uint32_t>(sequence.size());
  wrong_in_a_row = 0;
  if (++right_in_a_row >= 2 * sequence.size()) sequence_doubted = false;
  return start_ns >= predicted.window_start_ns && start_ns <= predicted.window_end_ns;
}

// Goes on behind the operation where the sequence has it; a foreign one is passed over.
void Forecaster::History::lose_track(const Operation& operation) {
  right_in_a_row = 0;
  in_step = false;
  sequence_doubted = true;
  if (++wrong_in_a_row == kWrongInARow) {
    sequence.clear();
    return;
  }
  const uint32_t size = static_cast<uint32_t>(sequence.size());
  for (uint32_t ahead = 1; ahead < size; ++ahead) {
    if (!(sequence[(next + ahead) % size].operation == operation)) continue;
    next = (next + ahead + 1) % size;
    return;
  }
}

void Forecaster::History::record(bool held) {
  ++(held ? score.hits : score.misses);
  recent = recent << 1 | (held ? 1 : 0);
  recent_count = std::min(recent_count + 1, kRecent);
}

// Takes over the finder's period when there is no sequence, or when it explains what the known one does not.
void Forecaster::History::learn_sequence() {
  if (!sequence.empty() && !sequence_doubted) return;
  const std::optional<uint32_t> period = finder.period();
  if (!period) return;
  if (!sequence.empty() &&
      (finder.explained(*period) <= right_in_a_row || finder.explained(*period) < 2 * sequence.size()))
    return;
  sequence.clear();
  for (uint32_t at = 0; at < *period; ++at) {
    const uint32_t back = *period - 1 - at;
    const auto gap = [&](uint32_t from) {
      if (from + 1 >= finder.size()) return -1.0;
      const uint64_t start = finder.recent(from).start_ns, before = finder.recent(from + 1).start_ns;
      return start < before ? 0.0 : static_cast<double>(start - before);
    };
    const double last = gap(back), before = gap(back + *period);
    const double mean = before < 0 ? last : (last + before) / 2;
    sequence.push_back(
        {finder.recent(back).operation, mean, mean / 16 + (before < 0 ? 0 : std::abs(last - before) / 2)});
  }
  next = 0;
  right_in_a_row = 0;
  wrong_in_a_row = 0;
  in_step = true;
  sequence_doubted = false;
}

std::optional<Prediction> Forecaster::History::predict() const {
  if (sequence.empty()) return std::nullopt;
  const Step& step = sequence[next];
  double period = 0, variance = 0;
  for (const Step& each : sequence) {
    period += each.gap_ns;
    variance += each.deviation_ns * each.deviation_ns;
  }
  Prediction prediction{.next = step.operation};
  // A window wider than the period holds a start whatever comes: it would forecast nothing and always be right.
  const double half_window = std::min(step.half_window_ns(), std::max(period / 2, kLeastHalfWindow_ns));
  prediction.window_start_ns = after(last_start_ns, step.gap_ns - half_window);
  prediction.window_end_ns = after(last_start_ns, step.gap_ns + half_window);
  prediction.period_ns = whole_ns(period);
  prediction.jitter_ns = whole_ns(std::sqrt(variance));
  if (recent_count > 0) {
    const uint64_t mask = recent_count == 64 ? ~uint64_t{0} : (uint64_t{1} << recent_count) - 1;
    prediction.confidence = static_cast<double>(std::popcount(recent & mask)) / recent_count;
  }
  return prediction;
}

std::optional<Rhythm> Forecaster::History::rhythm() const {
  const std::optional<Prediction> prediction = predict();
  if (!prediction) return std::nullopt;
  Rhythm rhythm{.last_start_ns = last_start_ns,
                .period_ns = prediction->period_ns,
                .jitter_ns = prediction->jitter_ns,
                .round = {}};
  uint64_t start_ns = last_start_ns;
  for (size_t ahead = 0; ahead < sequence.size(); ++ahead) {
    const Step& step = sequence[(next + ahead) % sequence.size()];
    start_ns = after(start_ns, step.gap_ns);
    rhythm.round.push_back({step.operation, start_ns});
  }
  return rhythm;
}

Forecaster::Forecaster() = default;
Forecaster::~Forecaster() = default;
Forecaster::Forecaster(Forecaster&&) noexcept = default;
Forecaster& Forecaster::operator=(Forecaster&&) noexcept = default;

std::optional<bool> Forecaster::observe(uint64_t comm_id, const Operation& operation, uint64_t start_ns) {
  auto found = histories_.find(comm_id);
  if (found == histories_.end()) {
    if (histories_.size() >= kMaxCommunicators)
      histories_.erase(std::min_element(histories_.begin(), histories_.end(), [](const auto& a, const auto& b) {
        return a.second->last_observation < b.second->last_observation;
      }));
    found = histories_.emplace(comm_id, std::make_unique<History>()).first;
  }
  found->second->last_observation = ++observations_;
  return found->second->observe(operation, start_ns);
}

std::optional<Prediction> Forecaster::predict(uint64_t comm_id) const {
  const auto found = histories_.find(comm_id);
  return found == histories_.end() ? std::nullopt : found->second->predict();
}

std::optional<Rhythm> Forecaster::rhythm(uint64_t comm_id) const {
  const auto found = histories_.find(comm_id);
  return found == histories_.end() ? std::nullopt : found->second->rhythm();
}

std::vector<uint64_t> Forecaster::starts_ns(uint64_t comm_id) const {
  std::vector<uint64_t> starts;
  const auto found = histories_.find(comm_id);
  if (found == histories_.end()) return starts;
  const PeriodFinder& finder = found->second->finder;
  starts.reserve(finder.size());
  for (uint32_t back = finder.size(); back-- > 0;) starts.push_back(finder.recent(back).start_ns);
  return starts;
}

Score Forecaster::score(uint64_t comm_id) const {
  const auto found = histories_.find(comm_id);
  return found == histories_.end() ? Score{} : found->second->score;
}

void Forecaster::forget(uint64_t comm_id) {
  histories_.erase(comm_id);
}

}  // namespace orrery::forecast
