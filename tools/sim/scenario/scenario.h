// The scenario file: which jobs on which fabric, by which schemes, in one YAML file.
//
//   topology: {file: fabric.yaml}               # or {leaf_spine: {leaves: 4, spines: 4, hosts: 64, rate_bps: ...}}
//                                               # down: [spine1, "leaf2:p5"]: failed before the start
//   placement: {kind: fragmented, seed: 1}      # contiguous, fragmented, random
//   schemes: [ecmp, orrery]                     # or all
//   seeds: 5                                    # 1..5, or a list
//   rounds: 10                                  # iterations of every job, in place of their own
//   jobs:
//     - name: train
//       hosts: 16                               # how many, or a list of names: [h1, h2:eth1]
//       ranks_per_host: 8
//       steps:
//         - {compute_us: 1200, op: all_reduce, algorithm: ring, bytes: 125000000, overlapped: true}
//     - {name: gpt, ranks_per_host: 8, workload: {file: gpt.csv, format: aicb}}
//   workload: {file: run.csv, format: aicb}     # beside jobs or in their place
//   engine: {kind: packet, ecn: {kmin_bytes: 400000}, dcqcn: {enabled: false}}
//   faults: [{at_us: 500, link: "leaf1:p5"}]    # the cable of that port, both ways; up: true mends it
//   clock_error_ns: 100                         # of every host, even within +- this
//
// docs/reference/scenario.md lists every key. Reading reports every mistake at once, each with file, line, key and
// cure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "controller/fabric/topology.h"
#include "tools/sim/fluid/config.h"
#include "tools/sim/packet/config.h"
#include "tools/sim/schemes/scheme.h"
#include "tools/sim/workload/readers.h"

namespace orrery::sim {

// What scenarios and command lines may ask for.
inline constexpr uint32_t kMaxRanksPerHost = 256;
inline constexpr uint32_t kMaxIterations = 1'000'000;
inline constexpr uint32_t kMaxChannels = 64;
inline constexpr uint32_t kMaxConnections = 64;
inline constexpr uint32_t kMaxSeeds = 10'000;
inline constexpr uint32_t kMaxParallelRuns = 256;

enum class Engine : uint8_t { kPacket, kFluid };

struct ScenarioWorkload {
  std::string file;
  Format format = Format::kAicb;
  ReadOptions options;
};

struct ScenarioJob {
  Job job;                              // without hosts
  uint32_t host_count = 0;              // when host_names is empty
  std::vector<std::string> host_names;  // "h1", or "h1:eth0" where h1 has several NICs
  // In place of steps: what the job does stands in a file of another tool. host_count 0: as many as the file needs.
  std::optional<ScenarioWorkload> workload;
};

struct ScenarioFault {
  Time at = 0;
  bool up = false;
  // One of:
  std::string link;         // a port, "leaf1:p5": both directions of its cable
  std::string node;         // a switch, "spine1": all its cables
  std::string pausing_nic;  // a host's port, "h5:eth0", that sends pause frames
};

struct Scenario {
  std::string file;                             // for messages; paths inside are relative to its folder
  std::string topology_file;                    // or
  std::optional<fabric::LeafSpine> leaf_spine;  // one of the two
  std::vector<std::string> down;  // nodes or ports ("spine1", "leaf1:p5") out of use, as every scheme knows
  Placement placement = Placement::kContiguous;
  uint64_t placement_seed = 1;
  std::vector<ScenarioJob> jobs;
  std::optional<ScenarioWorkload> workload;
  Engine engine = Engine::kPacket;
  Sharing sharing = Sharing::kMaxMin;  // of the fluid engine
  PacketConfig packet;                 // without faults and seed: see packet_config()
  std::vector<Scheme> schemes;
  SchemeOptions scheme_options;  // without seed
  std::vector<uint64_t> seeds{1};
  std::vector<ScenarioFault> faults;
  Time clock_error = 0;
};

Result<Scenario> load_scenario(const std::string& path);
Result<Scenario> parse_scenario(std::string_view yaml, const std::string& file_name);

// Reads or generates the topology; what is `down` carries nothing. Errors: also a name that it does not have.
Result<fabric::Graph> graph_of(const Scenario& scenario);
// Jobs and workload file, with their hosts, before they are made into traffic: what takes memory by then is no more
// than the file.
struct PlacedJobs {
  std::vector<Job> jobs;
  Workload workload;
  std::vector<uint32_t> workload_hosts;
};
// Reads the workload's file. `max_tasks`: ReadOptions::max_tasks.
Result<PlacedJobs> placed_jobs(const Scenario& scenario, const fabric::Graph& graph, uint64_t max_tasks);
Result<Traffic> traffic_of(const Scenario& scenario, const PlacedJobs& placed);
// What the file of a job says, under the job's name; its tasks at most `max_tasks`. Precondition: job.workload. Errors:
// also when the file's hosts are not as many as the job's.
Result<Workload> load_job(const Scenario& scenario, const ScenarioJob& job, uint64_t max_tasks);
// `packet` with the faults, the seed, and receivers that take reordering where the scheme needs it. Errors: a fault
// that names no port or switch.
Result<PacketConfig> packet_config(const Scenario& scenario, const fabric::Graph& graph, Scheme scheme, uint64_t seed);
// LoweringOptions::clock_error_ps by seed; empty when clocks are right.
std::vector<int64_t> clock_errors(const Scenario& scenario, const fabric::Graph& graph, uint64_t seed);

}  // namespace orrery::sim
