#include "tools/sim/workload/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "tools/sim/workload/weave.h"

namespace orrery::sim {
namespace {

// The same numbers on every machine, which the standard library's distributions do not promise.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t limit) { return next() % limit; }
  // Mean 0, standard deviation 1: the sum of twelve uniform numbers.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(next() >> 11) * 0x1p-53;
    return sum;
  }

 private:
  uint64_t state_;
};

Error refuse(const Job& job, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, fmt::format("job {}: {}", job.name, what)};
}

Group resolved(const Job& job, const Group& group) {
  return group.size == 0 ? Group{job.ranks(), 1} : group;
}

Status check_steps(const Job& job, const std::vector<JobStep>& steps, const char* part) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].collective) continue;
    const Group group = resolved(job, steps[i].group);
    const uint64_t block = uint64_t{group.size} * group.stride;
    if (block == 0 || block > job.ranks() || job.ranks() % block != 0)
      return refuse(job, fmt::format("{} {}: groups of {} ranks, {} apart, do not divide {} ranks", part, i + 1,
                                     group.size, group.stride, job.ranks()));
  }
  return {};
}

Status check_job(const Job& job) {
  if (job.hosts.empty() || job.ranks_per_host == 0) return refuse(job, "no ranks: give it hosts");
  if (job.iterations == 0) return refuse(job, "no iterations: at least 1");
  if (!(job.jitter >= 0 && job.jitter <= 1))
    return refuse(job, fmt::format("jitter {} is not within 0..1", job.jitter));
  ORRERY_TRY(check_steps(job, job.setup, "setup step"));
  return check_steps(job, job.steps, "step");
}

class JobWriter {
 public:
  JobWriter(Traffic& traffic, const Job& job)
      : traffic_(traffic), job_(job), number_(static_cast<uint32_t>(traffic.jobs.size())), random_(job.seed) {
    traffic_.jobs.push_back(job.name);
    split_phases_ = std::none_of(job.steps.begin(), job.steps.end(), [](const JobStep& s) { return s.overlapped; }) &&
                    std::none_of(job.setup.begin(), job.setup.end(), [](const JobStep& s) { return s.overlapped; });
  }

  Result<uint32_t> write() {
    for (uint32_t rank = 0; rank < job_.ranks(); ++rank)
      ready_.push_back(traffic_.add_computation(host(rank), job_.start));
    if (!job_.setup.empty()) {
      ORRERY_TRY(write_steps(job_.setup, "setup step"));
      ready_ = ends();
    }
    for (uint32_t iteration = 0; iteration < job_.iterations; ++iteration) {
      Round round{.job = number_, .opening = ready_, .closing = {}};
      ORRERY_TRY(write_steps(job_.steps, "step"));
      ready_ = ends();
      round.closing = ready_;
      traffic_.rounds.push_back(std::move(round));
    }
    return number_;
  }

 private:
  // All groups of one shape: rank -> communicator and its number in it.
  struct Groups {
    std::vector<Communicator> communicators;
    std::vector<std::vector<uint32_t>> members;
    std::vector<uint32_t> last;  // by rank: the end of the collective before; kNone
  };

  uint32_t host(uint32_t rank) const { return job_.hosts[rank / job_.ranks_per_host]; }

  Groups& groups_of(const Group& group) {
    const auto [found, added] = groups_.try_emplace(group);
    Groups& groups = found->second;
    if (!added) return groups;
    groups.last.assign(job_.ranks(), kNone);
    for (uint32_t block = 0; block < job_.ranks(); block += group.size * group.stride)
      for (uint32_t offset = 0; offset < group.stride; ++offset) {
        std::vector<uint32_t> members, hosts;
        for (uint32_t i = 0; i < group.size; ++i) members.push_back(block + offset + i * group.stride);
        for (const uint32_t rank : members) hosts.push_back(host(rank));
        groups.communicators.emplace_back(traffic_, number_, std::move(hosts), job_.options);
        groups.members.push_back(std::move(members));
      }
    return groups;
  }

  // Collectives of one group and algorithm use the same connections, so they share phases.
  void set_phases(Collective& collective, const Group& group) {
    collective.split_phases = split_phases_;
    if (!split_phases_) return;
    const auto [found, added] = phases_.try_emplace({group, algorithm_for(collective)}, next_phase_);
    if (added) next_phase_ += phases_of(collective, group.size, job_.options);
    collective.first_phase = found->second;
  }

  void compute(const JobStep& step) {
    if (step.compute == 0) return;
    for (uint32_t rank = 0; rank < job_.ranks(); ++rank) {
      const double factor = job_.jitter == 0 ? 1 : std::max(0.0, 1 + job_.jitter * random_.normal());
      const uint32_t task = traffic_.add_computation(
          host(rank), job_.jitter == 0 ? step.compute : static_cast<Time>(static_cast<double>(step.compute) * factor));
      traffic_.after_task.push_back({ready_[rank], task});
      ready_[rank] = task;
    }
  }

  // When the rank has got here and the collective before it on the same stream is over.
  uint32_t start_of(const Groups& groups, uint32_t rank) {
    const uint32_t before = groups.last[rank];
    if (before == kNone) return ready_[rank];
    const uint32_t task = traffic_.add_computation(host(rank), 0);
    traffic_.after_task.push_back({ready_[rank], task});
    traffic_.after_task.push_back({before, task});
    return task;
  }

  Status start(const JobStep& step) {
    const Group group = resolved(job_, step.group);
    Collective collective = *step.collective;
    set_phases(collective, group);
    Groups& groups = groups_of(group);
    for (size_t i = 0; i < groups.communicators.size(); ++i) {
      std::vector<uint32_t> ready;
      for (const uint32_t rank : groups.members[i]) ready.push_back(start_of(groups, rank));
      ORRERY_ASSIGN(const std::vector<uint32_t> done, groups.communicators[i].add(collective, ready));
      for (size_t k = 0; k < done.size(); ++k) {
        const uint32_t rank = groups.members[i][k];
        groups.last[rank] = step.overlapped ? done[k] : kNone;  // an exposed one is before all that follows
        if (!step.overlapped) ready_[rank] = done[k];
      }
    }
    return {};
  }

  Status write_steps(const std::vector<JobStep>& steps, const char* part) {
    for (size_t i = 0; i < steps.size(); ++i) {
      compute(steps[i]);
      if (!steps[i].collective) continue;
      if (const Status started = start(steps[i]); !started)
        return refuse(job_, fmt::format("{} {}: {}", part, i + 1, started.error().message));
    }
    return {};
  }

  // The task of each rank that follows everything so far.
  std::vector<uint32_t> ends() {
    std::vector<uint32_t> ends;
    for (uint32_t rank = 0; rank < job_.ranks(); ++rank) {
      ends.push_back(traffic_.add_computation(host(rank), 0));
      traffic_.after_task.push_back({ready_[rank], ends.back()});
    }
    for (auto& [group, groups] : groups_)
      for (uint32_t rank = 0; rank < job_.ranks(); ++rank) {
        if (groups.last[rank] != kNone) traffic_.after_task.push_back({groups.last[rank], ends[rank]});
        groups.last[rank] = kNone;
      }
    return ends;
  }

  Traffic& traffic_;
  const Job& job_;
  uint32_t number_;
  Random random_;
  bool split_phases_ = false;
  uint32_t next_phase_ = 0;
  std::vector<uint32_t> ready_;  // by rank
  std::map<Group, Groups> groups_;
  std::map<std::pair<Group, Algorithm>, uint32_t> phases_;
};

// Ranks of a group that share a host.
double sharing(const Job& job, const Group& group) {
  return std::clamp<double>(job.ranks_per_host / std::max(1u, group.stride), 1, std::max(1u, group.size));
}

// One collective, in all groups of that shape.
JobSize size_of(const Job& job, const Collective& collective, const Group& group) {
  const double ranks = job.ranks(), n = std::max(1u, group.size), groups = ranks / n;
  const Algorithm algorithm = algorithm_for(collective);
  const double channels = std::max(1u, job.options.channels);
  const double sends = groups * static_cast<double>(transfers_of(collective, std::max(1u, group.size), job.options));
  // Where ranks wait for several things at once, a task stands for them.
  double joins = 2;
  if (collective.op == Op::kAllToAll && job.options.round_width > 1) joins += n * channels;
  if (algorithm == Algorithm::kHalvingDoubling) joins += sends / ranks;
  // Of neighbours in a ring or chain only the last on a host sends to another, of pairs those on different hosts.
  const bool chained = algorithm == Algorithm::kRing || algorithm == Algorithm::kTree;
  double leave = 1;
  if (chained && n > 1) leave = std::min(1.0, n / sharing(job, group) / (n - 1));
  if (algorithm == Algorithm::kPairwise && n > 1) leave = (n - sharing(job, group)) / (n - 1);
  const double waits = chained                        ? 1.5 - leave
                       : algorithm == Algorithm::kPat ? log2_up(std::max(2u, group.size)) + 1
                                                      : 2;  // for more than what is counted
  const double tasks = ranks * joins + sends;
  const double volume = static_cast<double>(collective.bytes) * ranks * (collective.op == Op::kAllReduce ? 2 : 1);
  return {.tasks = tasks,
          .transfers = sends * leave,
          .edges = tasks + ranks * joins + waits * sends,
          .message_bytes = volume / std::max(1.0, sends)};
}

double flows_of(const Job& job, const Collective& collective, const Group& group) {
  const JobSize size = size_of(job, collective, group);
  const double n = std::max(1u, group.size), channels = std::max(1u, job.options.channels);
  const double neighbours = algorithm_for(collective) == Algorithm::kRing   ? 1
                            : algorithm_for(collective) == Algorithm::kTree ? 4
                                                                            : n;
  return std::min(size.transfers, job.ranks() * neighbours * channels);
}

std::vector<std::vector<uint32_t>> hosts_by_leaf(const fabric::Graph& graph) {
  std::map<fabric::NodeId, size_t> leaf_index;
  std::vector<std::vector<uint32_t>> leaves;
  for (uint32_t i = 0; i < graph.nics().size(); ++i) {
    const auto [found, added] = leaf_index.try_emplace(graph.link(graph.nics()[i].uplink).to, leaves.size());
    if (added) leaves.emplace_back();
    leaves[found->second].push_back(i);
  }
  return leaves;
}

std::vector<uint32_t> host_order(const fabric::Graph& graph, Placement placement, uint64_t seed) {
  const auto leaves = hosts_by_leaf(graph);
  std::vector<uint32_t> order;
  if (placement == Placement::kFragmented) {
    for (size_t row = 0; order.size() < graph.nics().size(); ++row)
      for (const auto& leaf : leaves)
        if (row < leaf.size()) order.push_back(leaf[row]);
    return order;
  }
  for (const auto& leaf : leaves) order.insert(order.end(), leaf.begin(), leaf.end());
  Random random(seed);
  if (placement == Placement::kRandom)
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

constexpr std::array<std::string_view, 3> kPlacements{"contiguous", "fragmented", "random"};

}  // namespace

Result<uint32_t> add_job(Traffic& traffic, const Job& job) {
  ORRERY_TRY(check_job(job));
  const std::array<size_t, 8> before{traffic.jobs.size(),
                                     traffic.flows.size(),
                                     traffic.transfers.size(),
                                     traffic.tasks.size(),
                                     traffic.after_task.size(),
                                     traffic.rounds.size(),
                                     traffic.after_delivered.size(),
                                     traffic.after_acknowledged.size()};
  auto number = JobWriter(traffic, job).write();
  if (number) return number;
  traffic.jobs.resize(before[0]);
  traffic.flows.resize(before[1]);
  traffic.transfers.resize(before[2]);
  traffic.tasks.resize(before[3]);
  traffic.after_task.resize(before[4]);
  traffic.rounds.resize(before[5]);
  traffic.after_delivered.resize(before[6]);
  traffic.after_acknowledged.resize(before[7]);
  return number;
}

JobSize& JobSize::operator+=(const JobSize& other) {
  tasks += other.tasks;
  transfers += other.transfers;
  edges += other.edges;
  flows += other.flows;
  rounds += other.rounds;
  round_tasks += other.round_tasks;
  message_bytes = std::max(message_bytes, other.message_bytes);
  return *this;
}

JobSize size_of(const Job& job) {
  JobSize size;
  const double ranks = job.ranks();
  using Connections = std::tuple<Group, Algorithm, Op>;
  std::map<Connections, double> flows;  // collectives that are alike share connections
  const auto add = [&](const std::vector<JobStep>& steps, double times) {
    JobSize once{.tasks = ranks, .edges = ranks};  // the ends of the steps
    for (const JobStep& step : steps) {
      if (step.compute != 0) once += {.tasks = ranks, .edges = ranks};
      if (!step.collective) continue;
      const Group group = resolved(job, step.group);
      once += size_of(job, *step.collective, group);
      double& most = flows[{group, algorithm_for(*step.collective), step.collective->op}];
      most = std::max(most, flows_of(job, *step.collective, group));
    }
    size += {times * once.tasks, times * once.transfers, times * once.edges, 0, 0, 0, once.message_bytes};
  };
  add(job.setup, 1);
  add(job.steps, job.iterations);
  size.tasks += ranks;
  size.rounds = job.iterations;
  size.round_tasks = 2 * ranks * job.iterations;
  for (const auto& [connections, count] : flows) size.flows += count;
  return size;
}

uint64_t tasks_of(const Job& job) {
  constexpr double kMost = 1e15;
  return static_cast<uint64_t>(std::min(kMost, size_of(job).tasks));
}

std::string_view name_of(Placement placement) {
  return kPlacements[static_cast<size_t>(placement)];
}

std::optional<Placement> placement_of(std::string_view name) {
  const auto found = std::find(kPlacements.begin(), kPlacements.end(), name);
  if (found == kPlacements.end()) return std::nullopt;
  return static_cast<Placement>(found - kPlacements.begin());
}

Result<std::vector<std::vector<uint32_t>>> place(const fabric::Graph& graph, const std::vector<uint32_t>& host_counts,
                                                 Placement placement, uint64_t seed) {
  uint64_t wanted = 0;
  for (const uint32_t count : host_counts) wanted += count;
  if (wanted > graph.nics().size())
    return Error{ErrorCode::kExhausted,
                 fmt::format("the jobs need {} hosts and the fabric has {}: take a larger fabric "
                             "or fewer hosts",
                             wanted, graph.nics().size())};
  const std::vector<uint32_t> order = host_order(graph, placement, seed);
  std::vector<std::vector<uint32_t>> placed;
  auto next = order.begin();
  for (const uint32_t count : host_counts) {
    placed.emplace_back(next, next + count);
    next += count;
  }
  return placed;
}

}  // namespace orrery::sim
