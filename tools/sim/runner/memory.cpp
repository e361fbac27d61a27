#include "tools/sim/runner/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <unordered_set>

namespace orrery::sim {
namespace {

// Bytes, measured with fabrics of 256 to 49,152 links and jobs of up to 10^6 messages (glibc). Lists double as they
// grow and are copied then; the numbers count both.
constexpr double kProcess = 10e6;
constexpr double kLink = 480, kLinkOfIdeal = 200;
constexpr double kTask = 24 * 1.6, kTransfer = 16 * 1.6, kEdge = 8 * 1.6, kRoundTask = 8, kFlow = 110;
constexpr double kPlannedFlow = 430, kRehearsedTransfer = 110;
constexpr double kRoute = 100, kRoutePath = 60;  // by queue pair, and by path that one may take
// While a program is put together, and when it is.
constexpr double kBuiltPath = 205, kBuiltMessage = 150, kBuiltTask = 30, kBuiltEdge = 24, kBuiltQp = 100;
constexpr double kPath = 40, kMessage = 40, kStep = 36, kSuccessor = 4, kQp = 44;
// While it runs.
constexpr double kPort = 180, kPacketQp = 270, kReorderingQp = 360, kPacketMessage = 64, kPacketStep = 28;
constexpr double kFluidLink = 120, kFluidQp = 320, kFluidPath = 62, kFluidMessage = 44, kFluidStep = 32;
constexpr double kQueuedPacket = 2 * 16, kPayload = 4'000;
constexpr double kMostQueuedBytes = 4e6;  // of one queue pair's, as thresholds are set
// What is kept of runs: by link and by iteration, the document's numbers and text among them.
constexpr double kRunLink = 8, kDocumentLink = 34, kRunRound = 100;
constexpr double kRecordCells = 4e6, kRecordCell = 16;

struct SchemeSize {
  double qps = 0, paths = 0;  // paths: that queue pairs may take
  double times = 1;           // messages for each transfer
};

SchemeSize size_of(Scheme scheme, const Load& load, const StudySize& study) {
  SchemeSize size;
  if (scheme == Scheme::kEcmpMulti) size.times = std::max(1u, study.options.connections);
  if (plans(scheme)) size.times = std::max(1u, study.subflows);
  size.qps = load.jobs.flows * size.times;
  const double all = std::min(load.equal_paths, static_cast<double>(study.options.path_limit));
  const bool moves = scheme == Scheme::kFlowlet || scheme == Scheme::kRehash || reorders(scheme);
  const double each = scheme == Scheme::kFirstFit       ? 1
                      : scheme == Scheme::kOrreryRepath ? all + 2
                      : moves                           ? all
                                                        : std::min(2.0, all);
  size.paths = size.qps * each;
  return size;
}

double running(const Load& load, const StudySize& study, Scheme scheme, const SchemeSize& size, double messages,
               double steps) {
  if (study.fluid)
    return load.links * kFluidLink + size.qps * kFluidQp + size.paths * kFluidPath + messages * kFluidMessage +
           steps * kFluidStep;
  const double queued = std::min(load.jobs.message_bytes / size.times, kMostQueuedBytes) / kPayload;
  return load.links * kPort + size.qps * (reorders(scheme) ? kPacketQp + kReorderingQp : kPacketQp) +
         messages * kPacketMessage + steps * kPacketStep + size.qps * queued * kQueuedPacket;
}

// Beside fabric and traffic.
double run_memory(const Load& load, const StudySize& study, Scheme scheme) {
  const SchemeSize size = size_of(scheme, load, study);
  const double messages = load.jobs.transfers * size.times;
  const double steps = load.jobs.tasks + messages - load.jobs.transfers, edges = load.jobs.edges * size.times;
  // The way back of each is a path too.
  const double distinct = 2 * std::min(size.paths, load.pairs * load.equal_paths);
  const bool rehearses = scheme == Scheme::kOrreryPhases || scheme == Scheme::kOrreryRepath;
  const double planning =
      plans(scheme) ? size.qps * kPlannedFlow + (rehearses ? load.jobs.transfers * kRehearsedTransfer : 0) : 0;
  const double building = distinct * kBuiltPath + messages * kBuiltMessage + steps * kBuiltTask + edges * kBuiltEdge +
                          size.qps * kBuiltQp + size.paths * kSuccessor;
  const double program = distinct * kPath + messages * kMessage + steps * kStep + edges * kSuccessor + size.qps * kQp +
                         size.paths * kSuccessor;
  return size.qps * kRoute + size.paths * kRoutePath +
         std::max({planning, building, program + running(load, study, scheme, size, messages, steps)});
}

uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : UINT64_MAX;  // "max", or no such file
}

// What the control group (version 2) that the process is in still allows.
uint64_t allowed_by_group() {
  std::ifstream file("/proc/self/cgroup");
  uint64_t least = UINT64_MAX;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string group = line.substr(3); !group.empty(); group.resize(group.rfind('/'))) {
      const std::string folder = "/sys/fs/cgroup" + (group == "/" ? "" : group);
      const uint64_t limit = number_in(folder + "/memory.max"), used = number_in(folder + "/memory.current");
      if (limit != UINT64_MAX && used != UINT64_MAX) least = std::min(least, limit > used ? limit - used : 1);
    }
  }
  return least;
}

}  // namespace

uint64_t available_memory() {
  uint64_t least = allowed_by_group();
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:"))
      least = std::min<uint64_t>(least, 1024 * std::stoull(line.substr(line.find_first_of("0123456789"))));
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    least = std::min<uint64_t>(least, limit.rlim_cur);
  return least == UINT64_MAX ? 0 : least;
}

Load load_of(const fabric::Graph& graph) {
  Load load{.links = static_cast<double>(graph.links().size())};
  const auto& nics = graph.nics();
  constexpr size_t kMost = 4'096;
  for (size_t i = 1; i < nics.size(); i = 2 * i + 1)
    load.equal_paths = std::max(load.equal_paths, static_cast<double>(graph.paths(nics[0], nics[i], kMost).size()));
  if (!nics.empty())
    load.equal_paths =
        std::max(load.equal_paths, static_cast<double>(graph.paths(nics.front(), nics.back(), kMost).size()));
  return load;
}

Load load_of(const fabric::LeafSpine& shape) {
  return {.links = 2.0 * (static_cast<double>(shape.leaves) * shape.spines + shape.hosts),
          .equal_paths = static_cast<double>(shape.spines)};
}

void add_load(const Job& job, Load& load) {
  const JobSize size = size_of(job);
  load.jobs += size;
  // An exchange goes both ways between every two.
  const auto both_ways = [](const JobStep& step) { return step.collective && step.collective->op == Op::kAllToAll; };
  const bool all = !job.steps.empty() && std::all_of(job.steps.begin(), job.steps.end(), both_ways);
  load.pairs += all ? size.flows / 2 : size.flows;
}

void add_load(const Traffic& traffic, Load& load) {
  JobSize size{.tasks = static_cast<double>(traffic.tasks.size()),
               .transfers = static_cast<double>(traffic.transfers.size()),
               .edges = static_cast<double>(traffic.after_task.size() + traffic.after_delivered.size() +
                                            traffic.after_acknowledged.size()),
               .flows = static_cast<double>(traffic.flows.size()),
               .rounds = static_cast<double>(traffic.rounds.size())};
  for (const Round& round : traffic.rounds)
    size.round_tasks += static_cast<double>(round.opening.size() + round.closing.size());
  for (const Transfer& transfer : traffic.transfers)
    size.message_bytes = std::max(size.message_bytes, static_cast<double>(transfer.bytes));
  load.jobs += size;
  std::unordered_set<uint64_t> pairs;
  for (const Flow& flow : traffic.flows)
    pairs.insert(uint64_t{std::min(flow.src, flow.dst)} << 32 | std::max(flow.src, flow.dst));
  load.pairs += static_cast<double>(pairs.size());
}

uint64_t fabric_memory(const Load& load) {
  return static_cast<uint64_t>(kProcess + load.links * kLink);
}

uint64_t memory_needed(const Load& load, const StudySize& study) {
  std::vector<double> each;
  for (const Scheme scheme : study.schemes) each.push_back(run_memory(load, study, scheme));
  if (study.ideal) each.push_back(run_memory(load, study, Scheme::kEcmp) + load.links * kLinkOfIdeal);
  std::sort(each.begin(), each.end(), std::greater<>());
  double most = 0;
  for (uint32_t i = 0; i < study.parallel; ++i) most += each[std::min<size_t>(i / study.seeds, each.size() - 1)];
  const double runs =
      static_cast<double>(study.schemes.size()) * static_cast<double>(study.seeds) + (study.ideal ? 1 : 0);
  const JobSize& jobs = load.jobs;
  const double traffic = jobs.tasks * kTask + jobs.transfers * kTransfer + jobs.edges * kEdge +
                         jobs.round_tasks * kRoundTask + jobs.flows * kFlow;
  const double kept =
      runs * (load.links * (study.document ? kRunLink + kDocumentLink : kRunLink) + jobs.rounds * kRunRound);
  const double records = study.record ? std::min(kRecordCells, 256 * load.links) * kRecordCell * study.parallel : 0;
  constexpr double kMost = 1e18;
  return static_cast<uint64_t>(
      std::min(kMost, static_cast<double>(fabric_memory(load)) + traffic + most + kept + records));
}

std::string memory_text(uint64_t bytes) {
  const auto mib = static_cast<double>(bytes) / (1u << 20);
  if (mib < 1024) return fmt::format("{:.{}f} MiB", mib, mib < 100 ? 1 : 0);
  return fmt::format("{:.{}f} GiB", mib / 1024, mib < 102400 ? 1 : 0);
}

}  // namespace orrery::sim
