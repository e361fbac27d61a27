// orreryctl place: which host each rank of a job gets, so that few bytes cross leaves and cores.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>
#include <set>

#include "tools/ctl/command.h"
#include "tools/ctl/quantity.h"
#include "tools/ctl/render.h"
#include "tools/ctl/table.h"
#include "tools/planning/fabric/host_list.h"
#include "tools/planning/placement/place.h"
#include "tools/planning/placement/placed_files.h"
#include "tools/sim/workload/input.h"

namespace orrery::ctl {
namespace {

using planning::Demand;
using planning::Placed;
using planning::Volume;

constexpr size_t kMaxListBytes = 64u << 20;

struct PlaceOptions {
  std::string topology, scenario;
  std::vector<std::string> rings, all_to_alls;
  std::string free, occupied;
  std::string before;  // empty: as the scenario says
  uint64_t seed = 1;
  uint32_t together = 1;
  std::string emit, rankfiles;
  bool json = false;
};

// Everything that is asked, read.
struct Question {
  sim::Scenario scenario;
  std::string text;  // of the scenario's file; or one made of the options
  std::vector<Demand> demands;
};

// "64x125M"
Result<std::pair<uint32_t, uint64_t>> parse_job(const std::string& text) {
  const size_t x = text.find('x');
  const auto hosts = parse_quantity(text.substr(0, x));
  const auto bytes = parse_quantity(x == std::string::npos ? "" : text.substr(x + 1));
  if (hosts && bytes && *hosts >= 2 && *hosts <= fabric::kMaxHosts && *bytes > 0)
    return std::pair(static_cast<uint32_t>(*hosts), *bytes);
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' is no job: write hosts x bytes, such as 64x125M, with 2 hosts or more", text)};
}

std::string relative_to(const std::string& path, const std::string& beside) {
  const auto folder = std::filesystem::absolute(beside).parent_path();
  return std::filesystem::absolute(path).lexically_normal().lexically_relative(folder.lexically_normal()).string();
}

// A scenario of the jobs that the options name.
Result<std::string> scenario_text(const PlaceOptions& options) {
  std::string text = fmt::format("topology: {{file: \"{}\"}}\nschemes: [ecmp, orrery]\nseeds: 1\njobs:\n",
                                 options.emit.empty() ? options.topology : relative_to(options.topology, options.emit));
  for (const auto& [kind, jobs] :
       {std::pair("all_reduce", &options.rings), std::pair("all_to_all", &options.all_to_alls)})
    for (size_t i = 0; i < jobs->size(); ++i) {
      ORRERY_ASSIGN(const auto job, parse_job((*jobs)[i]));
      text +=
          fmt::format("  - name: {}{}\n    hosts: {}\n    steps: [{{op: {}, bytes: {}}}]\n",
                      kind == std::string("all_reduce") ? "ring" : "all-to-all", i + 1, job.first, kind, job.second);
    }
  return text;
}

Result<Question> read_question(const PlaceOptions& options) {
  const bool named = !options.rings.empty() || !options.all_to_alls.empty();
  if (options.scenario.empty() == !named || (options.topology.empty() && named))
    return Error{ErrorCode::kInvalidArgument,
                 "give a scenario file, or --topology with --ring or --all-to-all: one of the two"};
  Question question;
  if (named) {
    ORRERY_ASSIGN(question.text, scenario_text(options));
    ORRERY_ASSIGN(question.scenario, sim::parse_scenario(question.text, "the options"));
  } else {
    ORRERY_ASSIGN(question.text, sim::read_file(options.scenario, kMaxListBytes, "the scenario"));
    ORRERY_ASSIGN(question.scenario, sim::parse_scenario(question.text, options.scenario));
  }
  ORRERY_ASSIGN(question.demands, planning::demands_of(question.scenario));
  return question;
}

Result<fabric::Graph> graph_of(const PlaceOptions& options, const sim::Scenario& scenario) {
  if (options.topology.empty()) return sim::graph_of(scenario);
  if (!options.topology.ends_with(".csv")) {
    ORRERY_ASSIGN(const fabric::Topology topology, fabric::load_topology(options.topology));
    return fabric::Graph::build(topology);
  }
  ORRERY_ASSIGN(const planning::Clos clos, planning::load_host_list(options.topology, {}));
  ORRERY_ASSIGN(const fabric::Topology topology, planning::topology_of(clos));
  return fabric::Graph::build(topology);
}

Result<std::vector<bool>> free_nics(const PlaceOptions& options, const fabric::Graph& graph) {
  std::vector<bool> free(graph.nics().size(), options.free.empty());
  for (const auto& [file, value] : {std::pair(&options.free, true), std::pair(&options.occupied, false)}) {
    if (file->empty()) continue;
    ORRERY_ASSIGN(const std::string text, sim::read_file(*file, kMaxListBytes, "a list of hosts"));
    ORRERY_ASSIGN(const std::vector<uint32_t> nics, planning::nics_of_list(graph, text, *file));
    for (const uint32_t nic : nics) free[nic] = value;
  }
  return free;
}

std::string bytes_text(double bytes) {
  return human_bytes(static_cast<uint64_t>(bytes + 0.5));
}

uint32_t leaves_of(const planning::Sites& sites, const std::vector<uint32_t>& nics) {
  std::set<uint32_t> leaves;
  for (const uint32_t nic : nics) leaves.insert(sites.leaf_of(nic));
  return static_cast<uint32_t>(leaves.size());
}

std::string hosts_line(const fabric::Graph& graph, const std::string& name, const std::vector<uint32_t>& nics) {
  constexpr size_t kShown = 16;
  std::string line = name + ":";
  for (size_t i = 0; i < std::min(nics.size(), kShown); ++i) line += " " + planning::nic_name(graph, nics[i]);
  if (nics.size() > kShown) line += fmt::format(" and {} more (--rankfiles or --json: all)", nics.size() - kShown);
  return line + "\n";
}

std::string text_of(const fabric::Graph& graph, const planning::Sites& sites, const Placed& placed, bool colour) {
  Table table({{"JOB"},
               {""},
               {"HOSTS", Align::kRight},
               {"LEAVES", Align::kRight},
               {"WITHIN HOST", Align::kRight},
               {"WITHIN LEAF", Align::kRight},
               {"ACROSS LEAVES", Align::kRight},
               {"ACROSS CORES", Align::kRight},
               {"AT LEAST", Align::kRight}});
  Volume all[2];
  double bound = 0;
  const auto add = [&](const std::string& name, const char* when, const std::string& hosts, const std::string& leaves,
                       const Volume& v, double least) {
    table.add_row({name, when, hosts, leaves, bytes_text(v.host), bytes_text(v.leaf), bytes_text(v.cross_leaf),
                   bytes_text(v.cross_core), bytes_text(least)});
  };
  for (size_t i = 0; i < placed.jobs.size(); ++i) {
    const planning::PlacedJob& job = placed.jobs[i];
    bound += job.bound;
    for (const bool after : {false, true}) {
      const auto& nics = after ? placed.after[i] : placed.before[i];
      const Volume& v = after ? job.after : job.before;
      Volume& sum = all[after];
      sum = {sum.host + v.host, sum.leaf + v.leaf, sum.cross_leaf + v.cross_leaf, sum.cross_core + v.cross_core};
      add(after ? "" : job.name, after ? "after" : "before", std::to_string(nics.size()),
          std::to_string(leaves_of(sites, nics)), v, job.bound);
    }
  }
  if (placed.jobs.size() > 1) {
    add("all", "before", "", "", all[0], bound);
    add("", "after", "", "", all[1], bound);
  }
  std::string text = table.to_string(colour) +
                     "\nBytes of one iteration, both directions. AT LEAST: what crosses leaves or cores in any "
                     "placement on the hosts that are free.\n\n";
  for (size_t i = 0; i < placed.jobs.size(); ++i) text += hosts_line(graph, placed.jobs[i].name, placed.after[i]);
  return text;
}

Json json_of(const Volume& volume) {
  return {{"within_host", volume.host},
          {"within_leaf", volume.leaf},
          {"across_leaves", volume.cross_leaf},
          {"across_cores", volume.cross_core}};
}

Json json_of(const fabric::Graph& graph, const Placed& placed) {
  Json json;
  json["jobs"] = Json::array();
  for (size_t i = 0; i < placed.jobs.size(); ++i) {
    Json hosts = Json::array();
    for (const uint32_t nic : placed.after[i]) hosts.push_back(planning::nic_name(graph, nic));
    json["jobs"].push_back({{"name", placed.jobs[i].name},
                            {"hosts", std::move(hosts)},
                            {"before", json_of(placed.jobs[i].before)},
                            {"after", json_of(placed.jobs[i].after)},
                            {"at_least", placed.jobs[i].bound}});
  }
  return json;
}

Status write_scenario(const PlaceOptions& options, const Question& question, const fabric::Graph& graph,
                      const Placed& placed, std::ostream& out) {
  const auto wrong = [](std::string text) { return Error{ErrorCode::kInvalidArgument, std::move(text)}; };
  if (options.topology.ends_with(".csv"))
    return wrong("--emit: a scenario takes a topology file; make one with 'orreryctl topology import'");
  if (question.scenario.workload) return wrong("--emit: hosts of a workload file cannot be named; take --rankfiles");
  if (!options.scenario.empty() && !options.topology.empty())
    return wrong("--emit: the scenario names its own fabric; leave --topology out");
  const auto folder = [](const std::string& file) { return std::filesystem::absolute(file).parent_path(); };
  if (!options.scenario.empty() && options.emit != "-" && folder(options.emit) != folder(options.scenario))
    return wrong(fmt::format("--emit: write it beside {}, whose paths are relative to its folder", options.scenario));
  ORRERY_ASSIGN(const std::string text,
                planning::with_hosts(question.text, question.scenario.file, graph, placed.after));
  return write_text(options.emit, text, out);
}

Status write_rankfiles(const PlaceOptions& options, const Question& question, const fabric::Graph& graph,
                       const Placed& placed, std::ostream& out) {
  for (size_t i = 0; i < placed.jobs.size(); ++i) {
    std::string name = placed.jobs[i].name;
    for (char& c : name)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') c = '_';
    const std::string prefix = fmt::format("{}.{}", options.rankfiles, name);
    const uint32_t ranks = question.demands[i].ranks_per_slot;
    ORRERY_TRY(write_text(prefix + ".hostfile", planning::host_file(graph, placed.after[i], ranks), out));
    ORRERY_TRY(write_text(prefix + ".rankfile", planning::rank_file(graph, placed.after[i], ranks), out));
  }
  return {};
}

Status run_place(Console& console, const PlaceOptions& options) {
  ORRERY_ASSIGN(const Question question, read_question(options));
  ORRERY_ASSIGN(const fabric::Graph graph, graph_of(options, question.scenario));
  ORRERY_ASSIGN(const std::vector<bool> free, free_nics(options, graph));
  const sim::Placement kind = options.before.empty() ? question.scenario.placement
                                                     : *sim::placement_of(options.before);  // checked by the parser
  const uint64_t seed = options.before.empty() ? question.scenario.placement_seed : options.seed;
  ORRERY_ASSIGN(const planning::Assignment before,
                planning::assign_before(graph, question.demands, free, kind, seed, options.together));
  const planning::Sites sites(graph);
  const Placed placed = planning::place(sites, question.demands, free, before, options.together);
  if (!options.emit.empty()) ORRERY_TRY(write_scenario(options, question, graph, placed, console.out));
  if (!options.rankfiles.empty()) ORRERY_TRY(write_rankfiles(options, question, graph, placed, console.out));
  console.out << (options.json ? json_text(json_of(graph, placed)) : text_of(graph, sites, placed, console.colour));
  return {};
}

}  // namespace

void add_place_command(Session& session) {
  CLI::App* app = session.app.add_subcommand(
      "place", "Put the ranks of jobs on hosts so that few bytes cross leaves and cores (no controller needed)");
  auto options = std::make_shared<PlaceOptions>();
  app->add_option("SCENARIO", options->scenario, "Scenario file with jobs or a workload file");
  app->add_option("--topology", options->topology,
                  "Topology file, or list of hosts (.csv) as for 'topology import' [the scenario's]");
  app->add_option("--ring", options->rings, "In place of a scenario: a ring all-reduce, as 64x125M: hosts x bytes")
      ->allow_extra_args(false);
  app->add_option("--all-to-all", options->all_to_alls, "The same with an all-to-all")->allow_extra_args(false);
  app->add_option("--free", options->free, "File with the hosts that may be used [all]");
  app->add_option("--occupied", options->occupied, "File with hosts that may not be used");
  app->add_option("--before", options->before,
                  "Where jobs without named hosts are before: contiguous, fragmented, random [as the scenario says]")
      ->check(CLI::IsMember({"contiguous", "fragmented", "random"}));
  app->add_option("--seed", options->seed, "Of --before random")->capture_default_str();
  app->add_option(
         "--together", options->together,
         "Consecutive hosts of a job that stay together on consecutive ones of the fabric: the NICs of a server")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  app->add_option("--emit", options->emit, "Scenario to write, with the hosts of its jobs named");
  app->add_option("--rankfiles", options->rankfiles,
                  "Write PREFIX.JOB.hostfile and PREFIX.JOB.rankfile, for mpirun and torchrun")
      ->type_name("PREFIX");
  app->add_flag("--json", options->json, "Print JSON for programs");
  on_command(session, *app, [&session, options] { return run_place(session.console, *options); });
}

}  // namespace orrery::ctl
