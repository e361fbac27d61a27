// Scenario files: YAML tree -> Scenario.
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "tools/sim/scenario/engine_keys.h"
#include "tools/sim/scenario/job_read.h"
#include "tools/sim/scenario/map_reader.h"
#include "tools/sim/scenario/scenario.h"
#include "tools/sim/workload/input.h"

namespace orrery::sim {
namespace {

using fabric::quoted;
using fabric::YamlNode;
using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 2> kProtocols{"tcp", "udp"};
constexpr std::array<std::string_view, 3> kPlacements{"contiguous", "fragmented", "random"};

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
    read_jobs(map, scenario_.jobs, mistakes_);
    read_workload(map, scenario_.workload, mistakes_);
    if (scenario_.jobs.empty() && !scenario_.workload && map.find("jobs") == nullptr && map.find("workload") == nullptr)
      map.mistake("", "nothing to run; give jobs or a workload file");
    read_rounds(map);
    if (const YamlNode* engine = map.find("engine")) read_engine(*engine, scenario_, mistakes_);
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
    map.whole("connections", scenario_.scheme_options.connections, 1, kMaxConnections);
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

  void read_faults(MapReader& map) {
    map.each("faults", "list them as {at_us: 500, link: \"leaf1:p5\"}", [&](const YamlNode& node, size_t i) {
      MapReader fault(node, fmt::format("faults[{}]", i), mistakes_);
      if (!fault.is_map()) return;
      ScenarioFault& out = scenario_.faults.emplace_back();
      if (!fault.time("at_us", out.at, kPerUs) && fault.find("at_us") == nullptr)
        fault.mistake("at_us", "is missing; say when, in microseconds from the start");
      fault.text("link", out.link);
      fault.text("switch", out.node);
      fault.text("pausing_nic", out.pausing_nic);
      int kinds = 0;
      for (const char* kind : {"link", "switch", "pausing_nic"}) kinds += fault.find(kind) != nullptr;
      if (kinds != 1)
        fault.mistake("link",
                      "give either this, a port of a cable, such as \"leaf1:p5\", or switch, such as spine1, or "
                      "pausing_nic, such as \"h5:eth0\"");
      fault.flag("up", out.up);
      fault.finish();
    });
  }

  Scenario& scenario_;
  fabric::Mistakes& mistakes_;
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
