#include "tools/planning/placement/demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "tools/sim/workload/workload.h"

namespace orrery::planning {
namespace {

constexpr uint64_t kMaxTasks = 40'000'000;

void simplify(sim::Job& job) {
  job.setup.clear();
  job.iterations = 1;
  job.options.max_steps = 1;
  job.options.channels = 1;
  job.options.max_chunks = 1;
}

std::vector<Pair> pairs_of(const sim::Traffic& traffic) {
  std::vector<Pair> all;
  all.reserve(traffic.transfers.size());
  for (const sim::Transfer& transfer : traffic.transfers) {
    const sim::Flow& flow = traffic.flows[transfer.flow];
    if (flow.src == flow.dst) continue;
    all.push_back({std::min(flow.src, flow.dst), std::max(flow.src, flow.dst), static_cast<double>(transfer.bytes)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Pair& x, const Pair& y) { return std::pair(x.a, x.b) < std::pair(y.a, y.b); });
  std::vector<Pair> pairs;
  for (const Pair& pair : all) {
    if (!pairs.empty() && pairs.back().a == pair.a && pairs.back().b == pair.b)
      pairs.back().bytes += pair.bytes;
    else
      pairs.push_back(pair);
  }
  return pairs;
}

Status check_size(const std::string& name, uint64_t tasks) {
  if (tasks <= kMaxTasks) return {};
  return Error{ErrorCode::kExhausted,
               fmt::format("{}: an iteration has {} sends, more than {}; give fewer steps", name, tasks, kMaxTasks)};
}

Result<Demand> demand_of(const sim::ScenarioJob& given) {
  sim::Job job = given.job;
  simplify(job);
  const auto named = static_cast<uint32_t>(given.host_names.size());
  job.hosts.resize(named != 0 ? named : given.host_count);
  std::iota(job.hosts.begin(), job.hosts.end(), 0);
  ORRERY_TRY(check_size(job.name, sim::tasks_of(job)));
  sim::Traffic traffic;
  ORRERY_TRY(sim::add_job(traffic, job));
  return Demand{job.name, static_cast<uint32_t>(job.hosts.size()), job.ranks_per_host, pairs_of(traffic),
                given.host_names};
}

Result<Demand> demand_of(const std::string& name, sim::Workload workload, const std::vector<std::string>& host_names) {
  for (sim::Job& job : workload.jobs) simplify(job);
  ORRERY_TRY(check_size(name, sim::tasks_of(workload)));
  std::vector<uint32_t> hosts(workload.hosts);
  std::iota(hosts.begin(), hosts.end(), 0);
  ORRERY_ASSIGN(const sim::Traffic traffic, sim::traffic_of(workload, hosts));
  return Demand{name, workload.hosts, workload.jobs.empty() ? 1 : workload.jobs[0].ranks_per_host, pairs_of(traffic),
                host_names};
}

Result<Demand> demand_of(const sim::Scenario& scenario, const sim::ScenarioJob& given) {
  if (!given.workload) return demand_of(given);
  ORRERY_ASSIGN(sim::Workload workload, sim::load_job(scenario, given, sim::ReadOptions().max_tasks));
  return demand_of(given.job.name, std::move(workload), given.host_names);
}

Result<Demand> demand_of(const sim::Scenario& scenario, const sim::ScenarioWorkload& given) {
  const auto path = std::filesystem::path(scenario.file).parent_path() / given.file;
  ORRERY_ASSIGN(sim::Workload workload, sim::load_workload(given.format, path.string(), given.options));
  return demand_of(path.filename().string(), std::move(workload), {});
}

}  // namespace

Result<std::vector<Demand>> demands_of(const sim::Scenario& scenario) {
  std::vector<Demand> demands;
  for (const sim::ScenarioJob& job : scenario.jobs) {
    ORRERY_ASSIGN(Demand demand, demand_of(scenario, job));
    demands.push_back(std::move(demand));
  }
  if (scenario.workload) {
    ORRERY_ASSIGN(Demand demand, demand_of(scenario, *scenario.workload));
    demands.push_back(std::move(demand));
  }
  return demands;
}

}  // namespace orrery::planning
