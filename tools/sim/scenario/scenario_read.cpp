// Scenario files: YAML tree -> Scenario.
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "tools/sim/scenario/engine_keys.h"
#include "tools/sim/scenario/map_reader.h"
#include "tools/sim/scenario/scenario.h"
#include "tools/sim/workload/input.h"

namespace orrery::sim {
namespace {

using fabric::quoted;
using fabric::YamlNode;
using Kind = YamlNode::Kind;

constexpr size_t kMaxSeeds = 10'000;

constexpr std::array<std::string_view, 7> kOps{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                               "reduce",     "all_to_all", "send_recv"};
constexpr std::array<std::string_view, 8> kAlgorithms{"default", "ring",     "tree",         "halving_doubling",
                                                      "pat",     "pairwise", "hierarchical", "direct"};
constexpr std::array<std::string_view, 6> kFormats{"aicb", "simai", "htsim", "nccl-tests", "intents", "chakra"};
constexpr std::array<std::string_view, 2> kProtocols{"tcp", "udp"};
constexpr std::array<std::string_view, 3> kPlacements{"contiguous", "fragmented", "random"};

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

class ScenarioReader {
 public:
  ScenarioReader(Scenario& scenario, fabric::Mistakes& mistakes) : scenario_(scenario), mistakes_(mistakes) {}

  void read(const YamlNode& root) {
    if (root.kind == Kind::kNull) return mistakes_.add(0, "", "is empty; give at least topology, jobs and schemes");
    MapReader map(root, "", mistakes_);
    if (!map.is_map()) return;
    read_topology(map);
    read_placement(map);
    read_schemes(map);
    read_five_tuples(map);
    read_seeds(map);
    read_jobs(map);
    read_workload(map);
    if (scenario_.jobs.empty() && !scenario_.workload && map.find("jobs") == nullptr && map.find("workload") == nullptr)
      map.mistake("", "nothing to run; give jobs or a workload file");
    read_rounds(map);
    if (const YamlNode* engine = map.find("engine"))
      read_engine(*engine, scenario_.engine, scenario_.packet, mistakes_);
    read_faults(map);
    map.time("clock_error_ns", scenario_.clock_error, kPerNs);
    map.finish();
  }

 private:
  void read_topology(MapReader& map) {
    const YamlNode* node = map.require("topology", "give {file: fabric.yaml} or {leaf_spine: {leaves: 4, ...}}");
    if (node == nullptr) return;
    MapReader topology(*node, "topology", mistakes_);
    topology.text("file", scenario_.topology_file);
    if (const YamlNode* shape = topology.find("leaf_spine")) {
      scenario_.leaf_spine.emplace().queue_bytes = 16u << 20;
      scenario_.leaf_spine->rate_bps = 100'000'000'000;
      read_leaf_spine(*shape, *scenario_.leaf_spine);
    }
    if (topology.is_map() && scenario_.topology_file.empty() == !scenario_.leaf_spine)
      topology.mistake("", "give one of file and leaf_spine");
    topology.each("down", "list switches and ports, such as [spine1, \"leaf1:p5\"]",
                  [&](const YamlNode& item, size_t) { scenario_.down.push_back(item.text); });
    topology.finish();
  }

  void read_leaf_spine(const YamlNode& node, fabric::LeafSpine& shape) {
    MapReader map(node, "topology.leaf_spine", mistakes_);
    map.whole("leaves", shape.leaves, 1, fabric::kMaxSwitches);
    map.whole("spines", shape.spines, 1, fabric::kMaxSwitches);
    map.whole("hosts", shape.hosts, 2, fabric::kMaxHosts);
    map.whole("rate_bps", shape.rate_bps, fabric::kMinRateBps, fabric::kMaxRateBps);
    map.whole("uplink_rate_bps", shape.uplink_rate_bps, fabric::kMinRateBps, fabric::kMaxRateBps);
    map.whole("queue_bytes", shape.queue_bytes, 1, fabric::kMaxQueueBytes);
    map.whole("mtu_bytes", shape.mtu_bytes, fabric::kMinMtuBytes, fabric::kMaxMtuBytes);
    map.whole("hash_seed", shape.hash_seed, 0, UINT32_MAX);
    map.finish();
  }

  void read_placement(MapReader& map) {
    const YamlNode* node = map.find("placement");
    if (node == nullptr) return;
    MapReader placement(*node, "placement", mistakes_);
    placement.choice("kind", scenario_.placement, placement_of, kPlacements);
    placement.whole("seed", scenario_.placement_seed, 0, UINT64_MAX);
    placement.finish();
  }

  void read_schemes(MapReader& map) {
    std::vector<std::string_view> names;
    for (const Scheme scheme : all_schemes()) names.push_back(name_of(scheme));
    const YamlNode* node = map.find("schemes");
    if (node == nullptr || (node->kind == Kind::kScalar && node->text == "all")) {
      scenario_.schemes.assign(all_schemes().begin(), all_schemes().end());
    } else {
      map.each("schemes", "name the schemes, or write all", [&](const YamlNode& item, size_t) {
        const auto scheme = scheme_of(item.text);
        auto& schemes = scenario_.schemes;
        if (!scheme)
          map.unknown_word("schemes", item.text, names);
        else if (std::find(schemes.begin(), schemes.end(), *scheme) == schemes.end())
          schemes.push_back(*scheme);
      });
    }
    map.whole("connections", scenario_.scheme_options.connections, 1, 64);
    map.real("threshold", scenario_.scheme_options.threshold, 0, 1);
    map.whole("path_limit", scenario_.scheme_options.path_limit, 1, 4'096);
    map.whole("subflows", scenario_.scheme_options.subflows, 1, 256);
    map.time("max_hold_us", scenario_.scheme_options.max_hold, kPerUs);
    map.time("min_stagger_us", scenario_.scheme_options.min_stagger, kPerUs);
    map.time("max_stagger_us", scenario_.scheme_options.max_stagger, kPerUs);
    if (scenario_.scheme_options.min_stagger > scenario_.scheme_options.max_stagger)
      map.mistake("min_stagger_us", "is above max_stagger_us; starts cannot be both so far and so near");
  }

  void read_five_tuples(MapReader& map) {
    map.each("five_tuples", "list them as {from: \"10.0.1.1:40000\", to: \"10.0.2.1:5000\", protocol: tcp}",
             [&](const YamlNode& node, size_t i) {
               MapReader reader(node, fmt::format("five_tuples[{}]", i), mistakes_);
               if (reader.is_map()) read_five_tuple(reader);
               reader.finish();
             });
  }

  void read_five_tuple(MapReader& map) {
    FiveTuple& tuple = scenario_.scheme_options.five_tuples.emplace_back();
    read_endpoint(map, "from", tuple.src, tuple.src_port);
    read_endpoint(map, "to", tuple.dst, tuple.dst_port);
    tuple.protocol = IPPROTO_UDP;
    map.choice(
        "protocol", tuple.protocol,
        [](std::string_view name) -> std::optional<uint8_t> {
          if (name == kProtocols[0]) return IPPROTO_TCP;
          if (name == kProtocols[1]) return IPPROTO_UDP;
          return std::nullopt;
        },
        kProtocols);
  }

  void read_endpoint(MapReader& map, std::string_view key, IpAddress& address, uint16_t& port) {
    constexpr std::string_view kCure = "write an address and a port, such as \"10.0.1.1:40000\"";
    std::string text;
    if (!map.text(key, text)) {
      if (map.find(key) == nullptr) map.mistake(key, fmt::format("is missing; {}", kCure));
      return;
    }
    const size_t colon = text.rfind(':');
    const auto parsed = IpAddress::parse(std::string_view(text).substr(0, colon));
    const char *begin = text.data() + std::min(text.size(), colon + 1), *end = text.data() + text.size();
    const auto number = std::from_chars(begin, end, port);
    if (colon == std::string::npos || !parsed || begin == end || number.ec != std::errc() || number.ptr != end)
      return map.mistake(key, fmt::format("is {}; {}", quoted(text), kCure));
    address = *parsed;
  }

  void read_seeds(MapReader& map) {
    const YamlNode* node = map.find("seeds");
    if (node == nullptr) return;
    if (node->kind == Kind::kScalar) {
      uint64_t count = 0;
      if (!map.whole("seeds", count, 1, kMaxSeeds)) return;
      scenario_.seeds.clear();
      for (uint64_t seed = 1; seed <= count; ++seed) scenario_.seeds.push_back(seed);
      return;
    }
    scenario_.seeds.clear();
    map.each("seeds", "write how many, or a list of numbers", [&](const YamlNode& item, size_t i) {
      // A map of one key, so that the same reader judges the number.
      YamlNode one{.kind = Kind::kMap, .line = item.line};
      one.keys.push_back({.kind = Kind::kScalar, .line = item.line, .text = std::to_string(i)});
      one.items.push_back(item);
      MapReader reader(one, "seeds", mistakes_);
      uint64_t seed = 0;
      if (reader.whole(one.keys[0].text, seed, 0, UINT64_MAX)) scenario_.seeds.push_back(seed);
    });
    const std::set<uint64_t> different(scenario_.seeds.begin(), scenario_.seeds.end());
    if (different.size() < scenario_.seeds.size())
      map.mistake("seeds", "a seed stands there twice, and would give the same result twice");
    if (scenario_.seeds.size() > kMaxSeeds)
      map.mistake("seeds", fmt::format("{} seeds; at most {}", scenario_.seeds.size(), kMaxSeeds));
  }

  void read_rounds(MapReader& map) {
    uint32_t rounds = 0;
    if (!map.whole("rounds", rounds, 1, kMaxIterations)) return;
    for (ScenarioJob& job : scenario_.jobs) {
      job.job.iterations = rounds;
      if (job.workload) job.workload->options.iterations = rounds;
    }
    if (scenario_.workload) scenario_.workload->options.iterations = rounds;
  }

  void read_jobs(MapReader& map) {
    map.each("jobs", "list the jobs", [&](const YamlNode& node, size_t i) {
      MapReader job(node, fmt::format("jobs[{}]", i), mistakes_);
      if (job.is_map()) read_job(job, i);
      job.finish();
    });
  }

  void read_job(MapReader& map, size_t index) {
    ScenarioJob& out = scenario_.jobs.emplace_back();
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

  void read_file_keys(MapReader& map, ScenarioWorkload& workload) {
    if (!map.text("file", workload.file) && map.find("file") == nullptr)
      map.mistake("file", "is missing; name the workload's file");
    if (!map.choice("format", workload.format, format_of, kFormats) && map.find("format") == nullptr)
      map.mistake("format", fmt::format("is missing; take {}", fmt::join(kFormats, ", ")));
    map.whole("ranks", workload.options.ranks, 1, fabric::kMaxHosts * kMaxRanksPerHost);
    Op op = Op::kAllReduce;
    if (map.choice("op", op, op_of, kOps)) workload.options.op = op;
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

  void read_workload(MapReader& map) {
    const YamlNode* node = map.find("workload");
    if (node == nullptr) return;
    MapReader reader(*node, "workload", mistakes_);
    if (!reader.is_map()) return;
    ScenarioWorkload& workload = scenario_.workload.emplace();
    read_file_keys(reader, workload);
    ReadOptions& options = workload.options;
    reader.whole("ranks_per_host", options.ranks_per_host, 1, kMaxRanksPerHost);
    reader.whole("iterations", options.iterations, 1, kMaxIterations);
    reader.real("jitter", options.jitter, 0, 1);
    reader.whole("seed", options.seed, 0, UINT64_MAX);
    read_communicators(reader, options.communicators);
    reader.finish();
  }

  void read_faults(MapReader& map) {
    map.each("faults", "list them as {at_us: 500, link: \"leaf1:p5\"}", [&](const YamlNode& node, size_t i) {
      MapReader fault(node, fmt::format("faults[{}]", i), mistakes_);
      if (!fault.is_map()) return;
      ScenarioFault& out = scenario_.faults.emplace_back();
      if (!fault.time("at_us", out.at, kPerUs) && fault.find("at_us") == nullptr)
        fault.mistake("at_us", "is missing; say when, in microseconds from the start");
      fault.text("pausing_nic", out.pausing_nic);
      fault.text("link", out.link);
      if ((fault.find("link") == nullptr) == (fault.find("pausing_nic") == nullptr))
        fault.mistake("link",
                      "give either this, a port of a cable, such as \"leaf1:p5\", or pausing_nic, such as \"h5:eth0\"");
      fault.flag("up", out.up);
      fault.finish();
    });
  }

  Scenario& scenario_;
  fabric::Mistakes& mistakes_;
  std::set<std::string> names_;  // of jobs
};

}  // namespace

Result<Scenario> parse_scenario(std::string_view yaml, const std::string& file_name) {
  fabric::Mistakes mistakes(file_name);
  const YamlNode root = fabric::parse_yaml(yaml, mistakes);
  Scenario scenario;
  scenario.file = file_name;
  if (mistakes.empty()) ScenarioReader(scenario, mistakes).read(root);
  if (!mistakes.empty()) return mistakes.to_error();
  return scenario;
}

Result<Scenario> load_scenario(const std::string& path) {
  ORRERY_ASSIGN(const std::string text, read_file(path, fabric::kYamlMaxBytes + 1, "the scenario"));
  return parse_scenario(text, path);
}

}  // namespace orrery::sim
