#include "tools/sim/scenario/job_read.h"

#include <fmt/format.h>

#include <array>
#include <set>

namespace orrery::sim {
namespace {

using fabric::quoted;
using fabric::YamlNode;
using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 7> kOps{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                               "reduce",     "all_to_all", "send_recv"};
constexpr std::array<std::string_view, 8> kAlgorithms{"default", "ring",     "tree",         "halving_doubling",
                                                      "pat",     "pairwise", "hierarchical", "direct"};
constexpr std::array<std::string_view, 6> kFormats{"aicb", "simai", "htsim", "nccl-tests", "intents", "chakra"};

void read_communicators(MapReader& map, CommunicatorOptions& options) {
  map.whole("channels", options.channels, 1, kMaxChannels);
  map.whole("max_steps", options.max_steps, 0, UINT32_MAX);
  map.whole("slice_bytes", options.slice_bytes, 0, kMaxCollectiveBytes);
  map.whole("chunk_bytes", options.chunk_bytes, 1, kMaxCollectiveBytes);
  map.whole("max_chunks", options.max_chunks, 1, 1u << 20);
  map.whole("round_width", options.round_width, 1, 1u << 20);
  map.time("step_delay_us", options.step_delay, kPerUs);
  map.real("nvlink_bps", options.nvlink_bps, 1e6, 1e15);
  map.time("nvlink_latency_us", options.nvlink_latency, kPerUs);
}

void read_file_keys(MapReader& map, ScenarioWorkload& workload) {
  if (!map.text("file", workload.file) && map.find("file") == nullptr)
    map.mistake("file", "is missing; name the workload's file");
  if (!map.choice("format", workload.format, format_of, kFormats) && map.find("format") == nullptr)
    map.mistake("format", fmt::format("is missing; take {}", fmt::join(kFormats, ", ")));
  map.whole("ranks", workload.options.ranks, 1, fabric::kMaxHosts * kMaxRanksPerHost);
  Op op = Op::kAllReduce;
  if (map.choice("op", op, op_of, kOps)) workload.options.op = op;
}

class JobsReader {
 public:
  JobsReader(std::vector<ScenarioJob>& jobs, fabric::Mistakes& mistakes) : jobs_(jobs), mistakes_(mistakes) {}

  void read(MapReader& map) {
    map.each("jobs", "list the jobs", [&](const YamlNode& node, size_t i) {
      MapReader job(node, fmt::format("jobs[{}]", i), mistakes_);
      if (job.is_map()) read_job(job, i);
      job.finish();
    });
  }

 private:
  void read_job(MapReader& map, size_t index) {
    ScenarioJob& out = jobs_.emplace_back();
    out.job.name = fmt::format("job{}", index + 1);
    out.job.seed = index + 1;
    map.text("name", out.job.name);
    if (!names_.insert(out.job.name).second)
      map.mistake("name", fmt::format("{} is another job's name", quoted(out.job.name)));
    const YamlNode* file = map.find("workload");
    read_hosts(map, out, file != nullptr);
    map.whole("ranks_per_host", out.job.ranks_per_host, 1, kMaxRanksPerHost);
    const bool counted = map.whole("iterations", out.job.iterations, 1, kMaxIterations);
    map.time("start_us", out.job.start, kPerUs);
    map.real("jitter", out.job.jitter, 0, 1);
    map.whole("seed", out.job.seed, 0, UINT64_MAX);
    read_communicators(map, out.job.options);
    const uint64_t hosts = out.host_names.empty() ? out.host_count : out.host_names.size();
    const auto ranks = static_cast<uint32_t>(hosts * out.job.ranks_per_host);
    if (file != nullptr) {
      for (const char* key : {"setup", "steps"})
        if (map.find(key) != nullptr) map.mistake(key, "does not go with workload: the file says what the job does");
      return read_job_file(*file, map.key_of("workload"), out, ranks, counted ? out.job.iterations : 0);
    }
    map.each("setup", "list the steps", [&](const YamlNode& node, size_t i) {
      read_step(node, fmt::format("{}[{}]", map.key_of("setup"), i), ranks, out.job.setup);
    });
    if (map.find("steps") == nullptr)
      map.mistake("",
                  "has no steps; list them, such as {compute_us: 1000, op: all_reduce, bytes: 1000000}, or name a "
                  "workload's file");
    map.each("steps", "list the steps", [&](const YamlNode& node, size_t i) {
      read_step(node, fmt::format("{}[{}]", map.key_of("steps"), i), ranks, out.job.steps);
    });
  }

  // The file leaves open what the job's other keys say.
  void read_job_file(const YamlNode& node, const std::string& key, ScenarioJob& out, uint32_t ranks,
                     uint32_t iterations) {
    MapReader map(node, key, mistakes_);
    if (!map.is_map()) return;
    ScenarioWorkload& workload = out.workload.emplace();
    ReadOptions& options = workload.options;
    options.ranks_per_host = out.job.ranks_per_host;
    options.iterations = iterations;
    options.jitter = out.job.jitter;
    options.seed = out.job.seed;
    options.communicators = out.job.options;
    read_file_keys(map, workload);
    // Other formats tell their ranks.
    if (options.ranks == 0 && (workload.format == Format::kSimai || workload.format == Format::kNcclTests))
      options.ranks = ranks;
    if (workload.format == Format::kHtsim)
      map.mistake("format", "is no job's: a connection matrix names its hosts; write it as the scenario's workload");
    map.finish();
  }

  void read_hosts(MapReader& map, ScenarioJob& job, bool optional) {
    constexpr const char* kCure = "say how many, or name them in a list";
    const YamlNode* node = optional ? map.find("hosts") : map.require("hosts", kCure);
    if (node == nullptr) return;
    if (node->kind == Kind::kScalar) {
      map.whole("hosts", job.host_count, 1, fabric::kMaxHosts);
      return;
    }
    std::set<std::string_view> names;
    map.each("hosts", kCure, [&](const YamlNode& item, size_t i) {
      if (item.kind != Kind::kScalar)
        return map.mistake("hosts", fmt::format("item {} is no name; write h1, or h1:eth0", i));
      if (!names.insert(item.text).second)
        return map.mistake("hosts", fmt::format("{} stands there twice; use ranks_per_host", quoted(item.text)));
      job.host_names.push_back(item.text);
    });
  }

  void read_step(const YamlNode& node, const std::string& key, uint32_t ranks, std::vector<JobStep>& steps) {
    MapReader map(node, key, mistakes_);
    if (!map.is_map()) return;
    JobStep step;
    map.time("compute_us", step.compute, kPerUs);
    Collective collective;
    const bool has_op = map.choice("op", collective.op, op_of, kOps);
    map.choice("algorithm", collective.algorithm, algorithm_of, kAlgorithms);
    const bool has_bytes = map.whole("bytes", collective.bytes, 1, kMaxCollectiveBytes);
    map.whole("root", collective.root, 0, UINT32_MAX);
    map.whole("peer", collective.peer, 0, UINT32_MAX - 1);
    map.flag("overlapped", step.overlapped);
    read_group(map, step.group);
    map.finish();
    if (has_op) {
      step.collective = collective;
      if (!has_bytes && map.find("bytes") == nullptr) map.mistake("bytes", "is missing; give the size of the array");
      check_step(map, step, ranks);
    } else if (map.find("op") == nullptr && has_bytes) {
      map.mistake("op", fmt::format("is missing; take {}", fmt::join(kOps, ", ")));
    } else if (map.find("op") == nullptr && map.find("compute_us") == nullptr) {
      map.mistake("", "does nothing; give compute_us or op");
    }
    steps.push_back(step);
  }

  void read_group(MapReader& map, Group& group) {
    const YamlNode* node = map.find("group");
    if (node == nullptr) return;
    MapReader reader(*node, map.key_of("group"), mistakes_);
    reader.whole("size", group.size, 1, UINT32_MAX);
    reader.whole("stride", group.stride, 1, UINT32_MAX);
    if (reader.is_map() && reader.find("size") == nullptr)
      reader.mistake("size", "is missing; give the ranks of a group");
    reader.finish();
  }

  // `ranks` 0: not known.
  void check_step(const MapReader& map, const JobStep& step, uint32_t ranks) {
    if (ranks == 0) return;
    const uint32_t size = step.group.size == 0 ? ranks : step.group.size;
    const uint64_t block = uint64_t{size} * step.group.stride;
    if (block > ranks || ranks % block != 0)
      return map.mistake("group", fmt::format("groups of {} ranks, {} apart, do not divide the {} ranks of the job",
                                              size, step.group.stride, ranks));
    if (const Status sound = check(*step.collective, size); !sound) map.mistake("", sound.error().message);
  }

  std::vector<ScenarioJob>& jobs_;
  fabric::Mistakes& mistakes_;
  std::set<std::string> names_;
};

}  // namespace

void read_jobs(MapReader& map, std::vector<ScenarioJob>& jobs, fabric::Mistakes& mistakes) {
  JobsReader(jobs, mistakes).read(map);
}

void read_workload(MapReader& map, std::optional<ScenarioWorkload>& out, fabric::Mistakes& mistakes) {
  const YamlNode* node = map.find("workload");
  if (node == nullptr) return;
  MapReader reader(*node, "workload", mistakes);
  if (!reader.is_map()) return;
  ScenarioWorkload& workload = out.emplace();
  read_file_keys(reader, workload);
  ReadOptions& options = workload.options;
  reader.whole("ranks_per_host", options.ranks_per_host, 1, kMaxRanksPerHost);
  reader.whole("iterations", options.iterations, 1, kMaxIterations);
  reader.real("jitter", options.jitter, 0, 1);
  reader.whole("seed", options.seed, 0, UINT64_MAX);
  read_communicators(reader, options.communicators);
  reader.finish();
}

}  // namespace orrery::sim
