#include "tools/sim/cli/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery::sim {
namespace {

constexpr uint64_t kGib = 1u << 30;
constexpr uint64_t kLeastBytesPerTask = 100;

uint64_t limit_of(double memory_gib) {
  if (memory_gib > 0) return static_cast<uint64_t>(memory_gib * static_cast<double>(kGib));
  const uint64_t available = available_memory();
  return available != 0 ? available : UINT64_MAX;
}

// `known`: all that it takes, or only a part, so that a cure may not be enough.
enum class Known { kAll, kPart };

Error refuse(const Scenario& scenario, double memory_gib, uint64_t bytes, uint64_t limit,
             const std::vector<std::string>& cures, Known known) {
  const std::string text =
      fmt::format("{}: needs {}{}, have {}: use {}", scenario.file, known == Known::kPart ? "at least " : "",
                  memory_text(bytes), memory_text(limit), fmt::join(cures, "; or "));
  if (memory_gib <= 0) return Error{ErrorCode::kExhausted, text + "; or allow more (--memory-gib)"};
  const double gib = std::ceil(static_cast<double>(bytes) / static_cast<double>(kGib) * 1000) / 1000;
  return Error{ErrorCode::kExhausted, fmt::format("{}; or allow more (--memory-gib {})", text, gib)};
}

void set_rounds(std::vector<Job>& jobs, uint64_t rounds) {
  for (Job& job : jobs) job.iterations = std::min(job.iterations, static_cast<uint32_t>(rounds));
}

void set_steps(std::vector<Job>& jobs, uint64_t steps) {
  for (Job& job : jobs)
    if (job.options.max_steps == 0 || job.options.max_steps > steps)
      job.options.max_steps = static_cast<uint32_t>(steps);
}

}  // namespace

Budget::Budget(const RunRequest& request)
    : request_(request), limit_(limit_of(request.memory_gib)), in_file_(request.scenario.file != "options") {
  const Scenario& scenario = request.scenario;
  study_.schemes = scenario.schemes;
  study_.size = {.schemes = {},
                 .options = scenario.scheme_options,
                 .fluid = scenario.engine == Engine::kFluid,
                 .ideal = request.ideal,
                 .seeds = scenario.seeds.size(),
                 .record = request.history && !(request.output.empty() && request.page.empty()),
                 .document = !request.output.empty()};
}

uint64_t Budget::max_tasks() const {
  return limit_ / kLeastBytesPerTask;
}

Status Budget::check_fabric(const Scenario& scenario, double memory_gib) {
  if (!scenario.leaf_spine) return {};  // a file is no larger than its reader allows
  const uint64_t bytes = fabric_memory(load_of(*scenario.leaf_spine)), limit = limit_of(memory_gib);
  if (bytes <= limit) return {};
  return refuse(scenario, memory_gib, bytes, limit, {"fewer hosts, leaves or spines"}, Known::kPart);
}

Status Budget::check_jobs(const fabric::Graph& graph, const PlacedJobs& placed) {
  fabric_ = load_of(graph);
  prescribed_ = fabric_;
  add_load(placed.workload.fixed, prescribed_);
  study_.jobs = placed.jobs;
  study_.jobs.insert(study_.jobs.end(), placed.workload.jobs.begin(), placed.workload.jobs.end());
  const uint64_t bytes = needed(study_);
  if (bytes <= limit_) return {};
  // Planned schemes may split flows.
  const bool planned = std::any_of(study_.schemes.begin(), study_.schemes.end(), plans);
  return refuse(request_.scenario, request_.memory_gib, bytes, limit_, cures(), planned ? Known::kPart : Known::kAll);
}

Status Budget::check_traffic(const fabric::Graph& graph, const Traffic& traffic) {
  for (const Scheme scheme : study_.schemes) {
    if (!plans(scheme)) continue;
    ORRERY_ASSIGN(const uint32_t subflows, subflows_of(traffic, graph, scheme, study_.size.options));
    study_.size.options.known.of(scheme) = subflows;
    study_.size.subflows = std::max(study_.size.subflows, subflows);
  }
  traffic_ = fabric_;
  add_load(traffic, traffic_);
  StudySize size = study_.size;
  size.schemes = study_.schemes;
  const uint64_t bytes = memory_needed(traffic_, size);
  if (bytes <= limit_) return {};
  return refuse(request_.scenario, request_.memory_gib, bytes, limit_, cures(), Known::kAll);
}

uint32_t Budget::runs_at_once(uint32_t wanted) const {
  StudySize size = study_.size;
  size.schemes = study_.schemes;
  for (size.parallel = wanted; size.parallel > 1; --size.parallel)
    if (memory_needed(traffic_, size) <= limit_) break;
  return std::max(1u, size.parallel);
}

uint64_t Budget::needed(const Study& study) const {
  Load load = prescribed_;
  for (const Job& job : study.jobs) add_load(job, load);
  StudySize size = study.size;
  size.schemes = study.schemes;
  return memory_needed(load, size);
}

uint64_t Budget::largest(uint64_t most, const std::function<void(Study&, uint64_t)>& change) const {
  uint64_t good = 0;
  for (uint64_t bad = most + 1; bad - good > 1;) {
    const uint64_t middle = good + (bad - good) / 2;
    Study changed = study_;
    change(changed, middle);
    (needed(changed) <= limit_ ? good : bad) = middle;
  }
  return good;
}

std::vector<std::string> Budget::cures() const {
  std::vector<std::string> cures;
  Study fluid = study_;
  fluid.size.fluid = true;
  if (!study_.size.fluid && needed(fluid) <= limit_) cures.push_back("--engine fluid");
  cure_by_numbers(cures);
  std::vector<std::string_view> small;
  for (const Scheme scheme : study_.schemes) {
    Study one = study_;
    one.schemes = {scheme};
    if (needed(one) <= limit_) small.push_back(name_of(scheme));
  }
  if (!small.empty() && study_.schemes.size() > 1)
    cures.push_back(fmt::format("one scheme at a time (--scheme): {}", fmt::join(small, ", ")));
  if (cures.empty()) cure_by_all(cures);
  return cures;
}

void Budget::cure_by_numbers(std::vector<std::string>& cures) const {
  uint64_t rounds = 1;
  for (const Job& job : study_.jobs) rounds = std::max<uint64_t>(rounds, job.iterations);
  if (const uint64_t n = largest(rounds - 1, [](Study& study, uint64_t value) { set_rounds(study.jobs, value); });
      n != 0)
    cures.push_back(fmt::format(fmt::runtime(in_file_ ? "rounds: {}" : "--rounds {}"), n));
  constexpr uint64_t kMostSteps = 1u << 16;
  if (const uint64_t n = largest(kMostSteps, [](Study& study, uint64_t value) { set_steps(study.jobs, value); });
      n != 0)
    cures.push_back(fmt::format(fmt::runtime(in_file_ ? "max_steps: {} in every job" : "--ring-steps {}"), n));
  const SchemeOptions& options = study_.size.options;
  if (const uint64_t n =
          largest(options.connections - 1,
                  [](Study& study, uint64_t value) { study.size.options.connections = static_cast<uint32_t>(value); });
      n != 0)
    cures.push_back(fmt::format("--connections {}", n));
  if (const uint64_t n = largest(study_.size.seeds - 1, [](Study& study, uint64_t value) { study.size.seeds = value; });
      n != 0)
    cures.push_back(fmt::format("--seeds {}", n));
  if (!in_file_) return;
  if (const uint64_t n =
          largest(options.path_limit - 1, [](Study& study, uint64_t value) { study.size.options.path_limit = value; });
      n != 0)
    cures.push_back(fmt::format("path_limit: {}", n));
  if (const uint64_t n =
          largest(study_.size.subflows - 1,
                  [](Study& study, uint64_t value) { study.size.subflows = static_cast<uint32_t>(value); });
      n != 0)
    cures.push_back(fmt::format("subflows: {}", n));
}

// Everything that makes it smaller.
void Budget::cure_by_all(std::vector<std::string>& cures) const {
  const auto small = [](Study& study, uint64_t steps) {
    set_rounds(study.jobs, 1);
    set_steps(study.jobs, steps);
    study.size.fluid = true;
    study.size.seeds = 1;
    study.schemes.resize(1);
  };
  constexpr uint64_t kMostSteps = 1u << 16;
  const uint64_t steps = largest(kMostSteps, small);
  if (steps == 0) return cures.push_back("fewer hosts or ranks");
  cures.push_back(fmt::format(
      fmt::runtime(in_file_ ? "rounds: 1, max_steps: {} in every job, --engine fluid, --seeds 1 and --scheme {}"
                            : "--rounds 1 --ring-steps {} --engine fluid --seeds 1 --scheme {}"),
      steps, name_of(study_.schemes[0])));
}

}  // namespace orrery::sim
