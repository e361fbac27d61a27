#include "controller/daemon/controller.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>

#include <cerrno>

#include "common/base/clock.h"
#include "controller/daemon/waveforms_file.h"
#include "controller/drivers/dry_run_driver.h"
#include "controller/drivers/ebpf/ebpf_driver.h"
#include "controller/drivers/entropy_driver.h"
#include "controller/drivers/registry.h"
#include "controller/fabric/topology.h"

namespace orrery::daemon {
namespace {

constexpr int kStepMs = 50;
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kWatchdogNs = 1'000'000'000;

CoreOptions core_options(const ControllerSettings& settings) {
  CoreOptions options;
  options.version = ORRERY_VERSION;
  options.planner = {
      .backups = settings.backups, .stagger = settings.stagger, .move_penalty_percent = settings.move_penalty_percent};
  options.rollout.lease_ns = settings.lease_ms * kNsPerMs;
  options.rollout.renew_ns = options.rollout.lease_ns / 3;
  options.rollout.host_timeout_ns = settings.ack_timeout_ms * kNsPerMs;
  options.turns = settings.turns;
  options.hold_cap_ns = settings.hold_cap_us * uint64_t{1000};
  options.planner.rounds = settings.rounds;
  options.coalesce_ns = settings.coalesce_ms * kNsPerMs;
  options.retry_ns = settings.retry_ms * kNsPerMs;
  return options;
}

Result<UniqueFd> block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  UniqueFd fd(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) return system_error("signalfd", errno);
  return fd;
}

}  // namespace

Controller::Controller(fabric::Graph fabric, std::unique_ptr<state::Store> store)
    : fabric_(std::move(fabric)), store_(std::move(store)) {}
Controller::~Controller() = default;

Result<std::unique_ptr<Controller>> Controller::create(const ControllerSettings& settings,
                                                       telemetry::Metrics& metrics) {
  ORRERY_ASSIGN(const fabric::Topology topology, fabric::load_topology(settings.topology_file));
  ORRERY_ASSIGN(UniqueFd signals, block_signals());  // before threads start, which inherit the mask
  std::unique_ptr<Controller> controller(
      new Controller(fabric::Graph::build(topology), state::Store::open(settings.state_file)));
  controller->signals_ = std::move(signals);
  ORRERY_TRY(controller->build(settings, metrics));
  return controller;
}

Status Controller::build(const ControllerSettings& settings, telemetry::Metrics& metrics) {
  api::Settings api_settings{settings.intents_endpoint, settings.agents_endpoint, settings.switches_endpoint,
                             settings.control_endpoint};
  ORRERY_ASSIGN(api_settings.security, msg::load_security(settings.security));
  api_settings.allow_list_file = settings.allow_list_file;
  api_settings.peer_timeout_ns = settings.lease_ms * kNsPerMs;
  api_settings.messages_per_second = settings.messages_per_second;
  ORRERY_ASSIGN(api_, api::Api::create(context_, fabric_, metrics, api_settings));
  ORRERY_ASSIGN(driver_, make_driver(settings));
  const auto problems = [this](uint64_t now_ns) {
    std::vector<std::string> sentences = api_->complaints(now_ns);
    if (const std::string problem = store_->problem(); !problem.empty()) sentences.push_back(problem);
    if (!waveforms_problem_.empty()) sentences.push_back(waveforms_problem_);
    return sentences;
  };
  CoreParts parts{fabric_, *driver_,       api_->agents(),
                  metrics, store_->term(), [this](state::SavedState saved) { store_->save(std::move(saved)); },
                  problems};
  core_ = std::make_unique<Core>(std::move(parts), core_options(settings), monotonic_now_ns());
  waveforms_file_ = settings.waveforms_file;
  read_waveforms();
  core_->restore(store_->loaded(), monotonic_now_ns());
  return {};
}

void Controller::read_waveforms() {
  waveforms_problem_.clear();
  if (waveforms_file_.empty()) return;
  auto prediction = load_waveforms(waveforms_file_, fabric_);
  if (!prediction) {
    waveforms_problem_ = prediction.error().message;
    spdlog::error("{}; planning goes on without it", waveforms_problem_);
    return;
  }
  spdlog::info("prediction of {} jobs: {}", prediction->jobs().size(), prediction->source());
  if (!prediction->same_fabric())
    spdlog::warn("the prediction in {} was made on another topology with the same NICs, {}; simulate again",
                 waveforms_file_, prediction->topology());
  core_->expect(*std::move(prediction));
}

Result<std::unique_ptr<drivers::Driver>> Controller::make_driver(const ControllerSettings& settings) {
  using Made = Result<std::unique_ptr<drivers::Driver>>;
  drivers::Registry registry;
  registry.add("entropy", [&]() -> Made {
    return std::unique_ptr<drivers::Driver>(std::make_unique<drivers::EntropyDriver>(
        fabric_, drivers::PortRange{settings.src_port_first, settings.src_port_last}));
  });
  registry.add("ebpf", [&]() -> Made {
    return std::unique_ptr<drivers::Driver>(std::make_unique<drivers::ebpf::EbpfDriver>(fabric_, api_->switches()));
  });
  registry.add("dry-run",
               []() -> Made { return std::unique_ptr<drivers::Driver>(std::make_unique<drivers::DryRunDriver>()); });
  return registry.make(settings.driver);
}

Status Controller::run() {
  spdlog::info("term {}: {} hosts, {} links, driver {}", store_->term(), fabric_.nics().size(), fabric_.links().size(),
               driver_->name());
  uint64_t alive_ns = 0;
  while (true) {
    core_->step(monotonic_now_ns());
    signalfd_siginfo signal{};
    if (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
      if (signal.ssi_signo != SIGHUP) break;
      read_waveforms();
    }
    const uint64_t now_ns = monotonic_now_ns();
    if (now_ns >= alive_ns + kWatchdogNs) {
      sd_notify(0, "WATCHDOG=1");
      alive_ns = now_ns;
    }
    ORRERY_TRY(api_->serve(*core_, core_->wait_ms(now_ns, kStepMs)));
  }
  spdlog::info("stopping: the plan is withdrawn");
  core_->withdraw();
  store_->flush();
  return {};
}

}  // namespace orrery::daemon
