#include "tools/sim/cli/run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/base/nearest_name.h"
#include "controller/fabric/yaml_tree.h"
#include "tools/ctl/ranges.h"
#include "tools/ctl/table.h"
#include "tools/sim/cli/budget.h"
#include "tools/sim/cli/waveforms.h"
#include "tools/sim/scenario/engine_keys.h"
#include "tools/sim/workload/input.h"

namespace orrery::sim {
namespace {

Error refuse(std::string what) {
  return Error{ErrorCode::kInvalidArgument, std::move(what)};
}

Status fill_quantity(const char* option, const std::string& text, uint64_t& value) {
  const auto parsed = parse_quantity(text);
  if (!parsed) return refuse(fmt::format("{}: {}", option, parsed.error().message));
  value = *parsed;
  return {};
}

Status fill_rate(const char* option, const std::string& text, uint64_t& value) {
  ORRERY_TRY(fill_quantity(option, text, value));
  if (value >= fabric::kMinRateBps && value <= fabric::kMaxRateBps) return {};
  return refuse(fmt::format("{}: {} is out of range; give a rate from 1k to 10T", option, text));
}

std::vector<std::string_view> scheme_names() {
  std::vector<std::string_view> names{"all"};
  for (const Scheme scheme : all_schemes()) names.push_back(name_of(scheme));
  return names;
}

Result<Scheme> scheme_named(const char* option, const std::string& name) {
  if (const auto scheme = scheme_of(name)) return *scheme;
  return refuse(fmt::format("{}: there is no '{}'{}", option, name, did_you_mean(name, scheme_names())));
}

}  // namespace

void RunOptions::add_to(CLI::App& app) {
  app.add_option("SCENARIO", file_, "Scenario file (YAML) in place of the options on fabric, job and model");
  add_fabric(app);
  add_job(app);
  add_study(app);
  add_model(app);
  add_output(app);
}

void RunOptions::add_fabric(CLI::App& app) {
  const char* group = "Fabric (bytes and rates take k, M, G, T, Ki, Mi, Gi)";
  only_without_file_.insert(
      only_without_file_.end(),
      {app.add_option("--topology", topology_, "Topology file, in place of the five below")->group(group),
       app.add_option("--leaves", leaves_, "Leaf switches")->capture_default_str()->group(group),
       app.add_option("--spines", spines_, "Spine switches")->capture_default_str()->group(group),
       app.add_option("--hosts", hosts_, "Hosts in all, dealt evenly to the leaves")
           ->capture_default_str()
           ->group(group),
       app.add_option("--rate", rate_, "Rate of every host link, bit/s")->capture_default_str()->group(group),
       app.add_option("--uplink-rate", uplink_rate_, "Rate of every leaf-to-spine link; 0: as --rate")
           ->capture_default_str()
           ->group(group),
       app.add_option("--queue-bytes", queue_bytes_, "Limit of each egress queue; 0: 16 MB for each 100 Gb/s of --rate")
           ->capture_default_str()
           ->group(group)});
}

void RunOptions::add_job(CLI::App& app) {
  const char* group = "Job";
  only_without_file_.insert(
      only_without_file_.end(),
      {workload_given_ = app.add_option("--workload", workload_,
                                        "What another tool recorded or wrote, in place of one collective a round")
                             ->type_name("FILE")
                             ->group(group),
       app.add_option("--format", format_, "Of --workload: aicb, simai, htsim, nccl-tests, intents or chakra")
           ->needs(workload_given_)
           ->capture_default_str()
           ->group(group),
       op_given_ = app.add_option("--collective", op_,
                                  "all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all or send-recv")
                       ->capture_default_str()
                       ->group(group),
       app.add_option("--algorithm", algorithm_,
                      "ring, tree, halving_doubling, pat, pairwise, hierarchical, direct or default")
           ->capture_default_str()
           ->group(group),
       app.add_option("--bytes", bytes_, "Whole array, as nccl-tests counts it")->capture_default_str()->group(group),
       app.add_option("--ranks", ranks_, "Ranks of a job; 0: as many as there is room for")
           ->capture_default_str()
           ->group(group),
       app.add_option("--ranks-per-host", ranks_per_host_, "Consecutive ranks that share a host and its NIC")
           ->check(CLI::Range(1u, kMaxRanksPerHost))
           ->capture_default_str()
           ->group(group),
       app.add_option("--jobs", jobs_, "How many equal jobs share the fabric")
           ->check(CLI::Range(1u, static_cast<uint32_t>(fabric::kMaxHosts)))
           ->capture_default_str()
           ->group(group),
       app.add_option("--placement", placement_, "contiguous, fragmented or random")
           ->capture_default_str()
           ->group(group),
       app.add_option("--placement-seed", placement_seed_, "Of --placement random")
           ->capture_default_str()
           ->group(group),
       rounds_given_ = app.add_option("--rounds", rounds_, "Iterations [5, or as the workload says]")
                           ->check(CLI::Range(1u, kMaxIterations))
                           ->group(group),
       app.add_option("--compute-us", compute_us_, "Computation before the collective, microseconds")
           ->check(ctl::within(0, 1e12))
           ->capture_default_str()
           ->group(group),
       app.add_option("--jitter", jitter_, "Standard deviation of computations, as a share of them")
           ->check(ctl::within(0, 1))
           ->capture_default_str()
           ->group(group),
       app.add_option("--channels", channels_, "Connections per pair of ranks that share the bytes")
           ->check(CLI::Range(1u, kMaxChannels))
           ->capture_default_str()
           ->group(group),
       app.add_option("--ring-steps", ring_steps_,
                      "Merge the steps of rings into so many, as many bytes as ever: faster; 0: do not")
           ->capture_default_str()
           ->group(group),
       app.add_option("--round-width", round_width_, "Peers that a rank of an all-to-all exchanges with at once")
           ->check(CLI::Range(1u, 1u << 20))
           ->capture_default_str()
           ->group(group)});
}

void RunOptions::add_study(CLI::App& app) {
  const char* group = "Study";
  app.add_option("--scheme", schemes_, fmt::format("May be repeated: {} [all]", fmt::join(scheme_names(), ", ")))
      ->delimiter(',')
      ->group(group);
  seeds_given_ =
      app.add_option("--seeds", seeds_,
                     "Runs of each scheme, with the seeds 1 to N [3, or as the scenario says; 1 with --workload]")
          ->check(CLI::Range(1u, kMaxSeeds))
          ->group(group);
  connections_given_ =
      app.add_option("--connections", connections_, "Connections of the scheme ecmp-multi [4, or as the scenario says]")
          ->check(CLI::Range(1u, kMaxConnections))
          ->group(group);
  app.add_option("--parallel", output_.parallel,
                 "Runs at a time at most, if there is memory for them; results do not depend on it [one for each "
                 "processor, or for each --threads of them]")
      ->check(CLI::Range(1u, kMaxParallelRuns))
      ->group(group);
  app.add_flag("--no-ideal", no_ideal_, "Leave out the run on a fabric that never blocks")->group(group);
}

void RunOptions::add_model(CLI::App& app) {
  engine_given_ =
      app.add_option(
             "--engine", engine_,
             "packet, or fluid: flows at max-min fair rates, no queues or losses [packet; fluid with --workload]")
          ->check(CLI::IsMember({"packet", "fluid"}))
          ->group("Study");
  const char* group = "Model (thresholds, buffers and rate steps grow with --rate)";
  app.add_option("--threads", threads_, "Threads of the packet engine; results do not depend on it")
      ->check(CLI::Range(1u, 256u))
      ->capture_default_str()
      ->group(group);
  only_without_file_.insert(
      only_without_file_.end(),
      {app.add_option("--pfc", pfc_, "on (lossless) or off")
           ->check(CLI::IsMember({"on", "off"}))
           ->capture_default_str()
           ->group(group),
       app.add_option("--congestion-control", congestion_control_, "dcqcn or none")
           ->check(CLI::IsMember({"dcqcn", "none"}))
           ->capture_default_str()
           ->group(group),
       app.add_option("--telemetry-every", telemetry_, "Sample queues with one packet in so many; 0: none")
           ->capture_default_str()
           ->group(group),
       app.add_option("--clock-error-ns", clock_error_ns_, "How wrong the clock of each host may be, either way")
           ->check(ctl::within(0, 1e9))
           ->capture_default_str()
           ->group(group),
       app.add_option("--propagation-ns", propagation_ns_, "Delay of every link")
           ->check(ctl::within(1, 1e9))
           ->capture_default_str()
           ->group(group)});
}

void RunOptions::add_output(CLI::App& app) {
  const char* group = "Output";
  app.add_flag("--json", output_.json, "Print JSON for programs")->group(group);
  CLI::Option* output = app.add_option("--output,-o", output_.output,
                                       "Write the JSON to a file besides, for `compare`, `report` and --resume");
  output->group(group);
  app.add_option("--report", output_.page, "Write the page that `report` makes of it")->type_name("FILE")->group(group);
  app.add_flag_callback(
         "--no-history", [this] { output_.history = false; },
         "Leave out what links and queues did over time, which the page shows")
      ->group(group);
  app.add_flag("--resume", output_.resume, "Take the runs that an interrupted study left in the --output file")
      ->needs(output)
      ->group(group);
  app.add_option("--csv", output_.csv, "Write PREFIX.flows.csv and PREFIX.links.csv, a line per flow or link and run")
      ->type_name("PREFIX")
      ->group(group);
  CLI::Option* waveforms =
      app.add_option(
             "--waveforms", output_.waveforms,
             "Write what each NIC sends over time, for orrery-controller (forecast.waveforms_file): of the only "
             "planned scheme that runs, with the first seed")
          ->type_name("FILE")
          ->group(group);
  app.add_option("--waveforms-of", waveforms_of_, "The scheme to write, where there is no only planned one")
      ->needs(waveforms)
      ->type_name("SCHEME")
      ->group(group);
  app.add_flag("--progress", output_.progress, "Tell how far it is, also where standard error is no terminal")
      ->group(group);
  app.add_option("--memory-gib", output_.memory_gib, "Refuse to take more [what the machine has]")
      ->check(ctl::within(1e-6, 1e6))
      ->group(group);
}

Result<RunRequest> RunOptions::request() const {
  RunRequest request = output_;
  request.ideal = !no_ideal_;
  if (file_.empty()) {
    ORRERY_TRY(from_options(request));
  } else {
    ORRERY_TRY(from_file(request));
  }
  if (!request.waveforms.empty()) {
    std::optional<Scheme> named;
    if (!waveforms_of_.empty()) {
      ORRERY_ASSIGN(named, scheme_named("--waveforms-of", waveforms_of_));
    }
    ORRERY_ASSIGN(request.waveforms_of, scheme_for_waveforms(request.scenario.schemes, named));
  }
  request.title = title(request.scenario);
  ORRERY_ASSIGN(request.model_text, model_text());
  return request;
}

Result<std::string> RunOptions::model_text() const {
  if (!file_.empty()) return read_file(file_, fabric::kYamlMaxBytes + 1, "the scenario");
  return fmt::format("{} {} {} {} {}", pfc_, congestion_control_, telemetry_, clock_error_ns_, propagation_ns_);
}

Status RunOptions::from_file(RunRequest& request) const {
  for (const CLI::Option* option : only_without_file_)
    if (option->count() > 0)
      return refuse(fmt::format("{} does not go with a scenario file; write it into {}", option->get_name(), file_));
  ORRERY_ASSIGN(request.scenario, load_scenario(file_));
  Scenario& scenario = request.scenario;
  if (threads_ != 1) scenario.packet.threads = threads_;
  ORRERY_TRY(fill_study(scenario));
  ORRERY_TRY(Budget::check_fabric(scenario, output_.memory_gib));
  ORRERY_ASSIGN(request.graph, graph_of(scenario));
  return {};
}

Status RunOptions::from_options(RunRequest& request) const {
  Scenario& scenario = request.scenario;
  scenario.file = "options";
  scenario.packet.threads = threads_;
  ORRERY_TRY(fill_fabric(scenario));
  ORRERY_TRY(Budget::check_fabric(scenario, output_.memory_gib));
  ORRERY_ASSIGN(request.graph, graph_of(scenario));
  fill_model(scenario, *request.graph);
  ORRERY_TRY(fill_placement(scenario));
  if (!workload_.empty()) {
    ORRERY_TRY(fill_workload(scenario));
  } else {
    ORRERY_TRY(fill_job(scenario, static_cast<uint32_t>(request.graph->nics().size())));
  }
  return fill_study(scenario);
}

Status RunOptions::fill_fabric(Scenario& scenario) const {
  if (!topology_.empty()) {
    for (const CLI::Option* option : only_without_file_)
      for (const char* other : {"--leaves", "--spines", "--hosts", "--rate", "--uplink-rate", "--queue-bytes"})
        if (option->get_name() == other && option->count() > 0)
          return refuse(fmt::format("{} does not go with --topology; the file says it", other));
    scenario.topology_file = topology_;
    return {};
  }
  fabric::LeafSpine shape{.leaves = leaves_, .spines = spines_, .hosts = hosts_};
  ORRERY_TRY(fill_rate("--rate", rate_, shape.rate_bps));
  if (uplink_rate_ != "0") ORRERY_TRY(fill_rate("--uplink-rate", uplink_rate_, shape.uplink_rate_bps));
  ORRERY_TRY(fill_quantity("--queue-bytes", queue_bytes_, shape.queue_bytes));
  if (shape.queue_bytes > fabric::kMaxQueueBytes)
    return refuse(
        fmt::format("--queue-bytes: {} is out of range; give at most {}", queue_bytes_, fabric::kMaxQueueBytes));
  if (shape.queue_bytes == 0) {
    const uint64_t fastest = std::max(shape.rate_bps, shape.uplink_rate_bps);
    shape.queue_bytes = std::max<uint64_t>(16'000'000 * (fastest / 1'000'000'000) / 100, 1'000'000);
  }
  scenario.leaf_spine = shape;
  return {};
}

Status RunOptions::fill_placement(Scenario& scenario) const {
  const auto placement = placement_of(placement_);
  if (!placement) return refuse(fmt::format("--placement: there is no '{}'; see --help", placement_));
  scenario.placement = *placement;
  scenario.placement_seed = placement_seed_;
  return {};
}

Status RunOptions::fill_workload(Scenario& scenario) const {
  for (const CLI::Option* option : only_without_file_)
    for (const char* other : {"--algorithm", "--bytes", "--jobs", "--compute-us"})
      if (option->get_name() == other && option->count() > 0)
        return refuse(
            fmt::format("{} does not go with --workload: the file says what the job does; several jobs of "
                        "files are written as a scenario",
                        other));
  ScenarioWorkload workload;
  workload.file = workload_;
  const auto format = format_of(format_);
  if (!format) return refuse(fmt::format("--format: there is no '{}'; see --help", format_));
  workload.format = *format;
  ReadOptions& options = workload.options;
  options.names = {.ranks = "--ranks",
                   .ranks_per_host = "--ranks-per-host",
                   .iterations = "--rounds",
                   .op = "--collective",
                   .format = "--format"};
  options.ranks = ranks_;
  options.ranks_per_host = ranks_per_host_;
  if (rounds_given_->count() > 0) options.iterations = rounds_;
  options.jitter = jitter_;
  options.communicators.channels = channels_;
  options.communicators.max_steps = ring_steps_;
  options.communicators.round_width = round_width_;
  if (op_given_->count() > 0) {
    options.op = op_of(op_);
    if (!options.op) return refuse(fmt::format("--collective: there is no '{}'; see --help", op_));
  }
  if (engine_given_->count() == 0) scenario.engine = Engine::kFluid;
  scenario.workload = std::move(workload);
  return {};
}

Status RunOptions::fill_job(Scenario& scenario, uint32_t hosts) const {
  const auto op = op_of(op_);
  if (!op) return refuse(fmt::format("--collective: there is no '{}'; see --help", op_));
  const auto algorithm = algorithm_of(algorithm_);
  if (!algorithm) return refuse(fmt::format("--algorithm: there is no '{}'; see --help", algorithm_));
  Collective collective{.op = *op, .algorithm = *algorithm};
  ORRERY_TRY(fill_quantity("--bytes", bytes_, collective.bytes));
  if (collective.bytes == 0 || collective.bytes > kMaxCollectiveBytes)
    return refuse(fmt::format("--bytes: {} is out of range; give 1 to {}", bytes_, kMaxCollectiveBytes));
  const uint32_t room = hosts / jobs_ * ranks_per_host_;
  const uint32_t ranks = ranks_ != 0 ? ranks_ : room;
  if (ranks < 2)
    return refuse(
        fmt::format("{} jobs on {} hosts of {} ranks: a job has 2 ranks or more; take fewer --jobs or more "
                    "--hosts, or give --ranks",
                    jobs_, hosts, ranks_per_host_));
  if (ranks % ranks_per_host_ != 0)
    return refuse(fmt::format("--ranks: {} do not fill hosts of {} (--ranks-per-host); take {}", ranks, ranks_per_host_,
                              ranks - ranks % ranks_per_host_ + ranks_per_host_));
  for (uint32_t i = 0; i < jobs_; ++i) {
    ScenarioJob job;
    job.host_count = ranks / ranks_per_host_;
    job.job.name = fmt::format("job{}", i + 1);
    job.job.ranks_per_host = ranks_per_host_;
    job.job.iterations = rounds_;
    job.job.jitter = jitter_;
    job.job.seed = i + 1;
    job.job.options.channels = channels_;
    job.job.options.max_steps = ring_steps_;
    job.job.options.round_width = round_width_;
    job.job.steps = {
        {.compute = static_cast<Time>(compute_us_ * static_cast<double>(kPerUs)), .collective = collective}};
    scenario.jobs.push_back(std::move(job));
  }
  return {};
}

Status RunOptions::fill_study(Scenario& scenario) const {
  if (engine_given_->count() > 0) scenario.engine = engine_ == "fluid" ? Engine::kFluid : Engine::kPacket;
  if (!schemes_.empty() || scenario.schemes.empty()) {
    scenario.schemes.clear();
    for (const std::string& name : schemes_) {
      if (name == "all") {
        scenario.schemes.assign(all_schemes().begin(), all_schemes().end());
        break;
      }
      ORRERY_ASSIGN(const Scheme scheme, scheme_named("--scheme", name));
      if (std::find(scenario.schemes.begin(), scenario.schemes.end(), scheme) == scenario.schemes.end())
        scenario.schemes.push_back(scheme);
    }
    if (schemes_.empty()) scenario.schemes.assign(all_schemes().begin(), all_schemes().end());
  }
  if ((file_.empty() && workload_.empty()) || seeds_given_->count() > 0) {
    scenario.seeds.resize(seeds_);
    std::iota(scenario.seeds.begin(), scenario.seeds.end(), uint64_t{1});
  }
  if (file_.empty() || connections_given_->count() > 0) scenario.scheme_options.connections = connections_;
  return {};
}

void RunOptions::fill_model(Scenario& scenario, const fabric::Graph& graph) const {
  PacketConfig& packet = scenario.packet;
  if (!graph.nics().empty()) suit_rate(packet, graph.link(graph.nics()[0].uplink).rate_bps);
  packet.pfc.enabled = pfc_ == "on";
  packet.dcqcn.enabled = packet.ecn.enabled = congestion_control_ == "dcqcn";
  packet.telemetry.sample_every = telemetry_;
  packet.propagation = static_cast<Time>(propagation_ns_ * static_cast<double>(kPerNs));
  scenario.clock_error = static_cast<Time>(clock_error_ns_ * static_cast<double>(kPerNs));
  // Where queues are shorter than the thresholds, marking has to begin inside them.
  uint64_t shortest = packet.ecn.kmax_bytes;
  for (const fabric::Link& link : graph.links())
    if (graph.node(link.from).kind == fabric::NodeKind::kSwitch) shortest = std::min(shortest, link.queue_bytes);
  if (shortest < packet.ecn.kmax_bytes) {
    packet.ecn.kmax_bytes = shortest * 4 / 5;
    packet.ecn.kmin_bytes = packet.ecn.kmax_bytes / 4;
  }
}

std::string RunOptions::title(const Scenario& scenario) const {
  const std::string seeds =
      fmt::format("{} seed{}, {}", scenario.seeds.size(), scenario.seeds.size() == 1 ? "" : "s",
                  scenario.engine == Engine::kFluid ? "as flows (--engine fluid)" : "packet by packet");
  if (!file_.empty()) return fmt::format("{}: {}", file_, seeds);
  const std::string fabric = scenario.leaf_spine
                                 ? fmt::format("{} leaves x {} spines, {} hosts at {}", leaves_, spines_, hosts_,
                                               ctl::human_rate(scenario.leaf_spine->rate_bps))
                                 : topology_;
  if (scenario.workload)
    return fmt::format(
        "{}: {} (as {}), {} to a host, placed {}, {}", fabric, workload_, name_of(scenario.workload->format),
        ranks_per_host_ == 1 ? "a rank" : fmt::format("{} ranks", ranks_per_host_), name_of(scenario.placement), seeds);
  const JobStep& step = scenario.jobs.front().job.steps.front();
  const auto& job = scenario.jobs.front();
  return fmt::format("{}: {}{} ({}) of {} over {} ranks, placed {}, {} round{}, {}", fabric,
                     jobs_ > 1 ? fmt::format("{} jobs of ", jobs_) : "", name_of(step.collective->op),
                     name_of(algorithm_for(*step.collective)), ctl::human_bytes(step.collective->bytes),
                     job.host_count * job.job.ranks_per_host, name_of(scenario.placement), rounds_,
                     rounds_ == 1 ? "" : "s", seeds);
}

}  // namespace orrery::sim
