#include "controller/drivers/ebpf/switch_daemon.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "common/abi/ecmp_hash_abi.h"
#include "common/base/clock.h"
#include "controller/fabric/topology.h"

namespace orrery::drivers::ebpf {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kPurgeDelayNs = 50'000'000;  // packets that still look at a replaced rule set are long gone then
constexpr size_t kMaxPendingEvents = 1024;
constexpr int kPriority = -10;  // link changes are urgent; ignored without the privilege

enum Ready : uint64_t { kLinksReady = 1, kSignalReady = 2, kTimerReady = 4, kControllerReady = 8 };

// One control process per switch and network namespace: an abstract socket vanishes with its owner, however that ends.
Result<UniqueFd> lock_switch(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("cannot open a socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto text = fmt::format("orrery-switch.{}", name).substr(0, sizeof(address.sun_path) - 2);
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0) return fd;
  if (errno == EADDRINUSE)
    return Error{ErrorCode::kRefused,
                 fmt::format("an orrery-switch for '{}' runs in this network namespace already; stop it first", name)};
  return system_error("cannot lock the switch", errno);
}

Result<ForwardingTable> load_table(const SwitchConfig& config) {
  ORRERY_ASSIGN(const auto topology, fabric::load_topology(config.topology_file));
  ORRERY_ASSIGN(auto table, make_forwarding_table(fabric::Graph::build(topology), config.name));
  if (config.hash_seed >= 0) table.hash_seed = static_cast<uint32_t>(config.hash_seed);
  return table;
}

msg::SwitchHello make_hello(const ForwardingTable& table, bool queue_depth) {
  msg::SwitchHello hello{.switch_name = table.switch_name, .version = ORRERY_VERSION};
  hello.hash_function = ORRERY_HASH_MURMUR_5TUPLE;
  hello.hash_seed = table.hash_seed;
  for (const auto& port : table.ports) hello.ports.push_back(port.name);
  hello.table_size = ORRERY_SWITCH_MAX_RULES;
  hello.mask_limit = ORRERY_SWITCH_MAX_MASKS;
  hello.features = {"exact-path", "local-reroute"};
  if (queue_depth) hello.features.emplace_back("queue-telemetry");
  return hello;
}

}  // namespace

SwitchDaemon::SwitchDaemon(const SwitchConfig& config, ForwardingTable table, DataPlane plane, LinkMonitor links,
                           PortTable ports)
    : config_(config),
      table_(std::move(table)),
      plane_(std::move(plane)),
      links_(std::move(links)),
      ports_(std::move(ports)),
      commands_(table_, plane_.rules()),
      gatherer_(ports_, plane_, links_),
      telemetry_(table_.switch_name, ports_) {}

Result<std::unique_ptr<SwitchDaemon>> SwitchDaemon::start(const SwitchConfig& config) {
  ORRERY_ASSIGN(auto lock, lock_switch(config.name));
  ORRERY_ASSIGN(auto table, load_table(config));
  ORRERY_ASSIGN(auto links, LinkMonitor::create());  // subscribed before the first look, so that no change is missed
  ORRERY_ASSIGN(const auto interfaces, links.interfaces());
  ORRERY_ASSIGN(auto ports, PortTable::bind(table, interfaces));
  ORRERY_ASSIGN(auto plane, DataPlane::load(table));
  if (!plane.has_queue_depth()) spdlog::warn("{}", plane.queue_problem());
  const auto adopted = plane.adopt_rules(ports.ifindexes());
  if (!adopted) spdlog::warn("rules of the previous process are dropped: {}", adopted.error().message);
  plane.set_ports_up(ports.up());
  const auto count = static_cast<uint8_t>(ports.size());
  for (uint8_t i = 0; i < count; ++i) ORRERY_TRY(plane.bind(i, ports.ifindexes()[i]));
  for (uint8_t i = 0; i < count; ++i) ORRERY_TRY(plane.attach(i));

  std::unique_ptr<SwitchDaemon> daemon(
      new SwitchDaemon(config, std::move(table), std::move(plane), std::move(links), std::move(ports)));
  daemon->lock_ = std::move(lock);
  ORRERY_TRY(daemon->make_fds());
  ORRERY_TRY(daemon->connect());
  setpriority(PRIO_PROCESS, 0, kPriority);
  return daemon;
}

size_t SwitchDaemon::ports_up() const {
  return static_cast<size_t>(std::popcount(ports_.up()));
}

Status SwitchDaemon::connect() {
  if (config_.controller_endpoint.empty()) return {};
  ORRERY_ASSIGN(const auto security, msg::load_security(config_.security));
  ORRERY_ASSIGN(session_, ControllerSession::connect(config_.controller_endpoint, security,
                                                     make_hello(table_, plane_.has_queue_depth())));
  return {};
}

Status SwitchDaemon::make_fds() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGUSR1);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  signals_.reset(signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK));
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!signals_ || !timer_) return system_error("cannot make a signal or timer descriptor", errno);
  set_interval(false);
  return {};
}

void SwitchDaemon::set_interval(bool connected) {
  const uint64_t wanted = connected ? telemetry_ns() : kSecondNs;
  if (std::exchange(interval_ns_, wanted) == wanted) return;
  itimerspec spec{};
  spec.it_interval = {.tv_sec = static_cast<time_t>(wanted / kSecondNs),
                      .tv_nsec = static_cast<long>(wanted % kSecondNs)};
  spec.it_value = {.tv_sec = 0, .tv_nsec = 1'000'000};
  timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

Status SwitchDaemon::wait(uint64_t& ready) {
  pollfd fds[] = {{links_.fd(), POLLIN, 0},
                  {signals_.get(), POLLIN, 0},
                  {timer_.get(), POLLIN, 0},
                  {session_ ? session_->fd() : -1, POLLIN, 0}};
  ready = 0;
  const int timeout_ms = purge_at_ns_ != 0 ? static_cast<int>(kPurgeDelayNs / 1'000'000) : -1;
  if (poll(fds, 4, timeout_ms) < 0 && errno != EINTR) return system_error("cannot wait for events", errno);
  for (size_t i = 0; i < 4; ++i)
    if (fds[i].revents != 0) ready |= uint64_t{1} << i;
  return {};
}

Status SwitchDaemon::run() {
  for (;;) {
    uint64_t ready = 0;
    ORRERY_TRY(wait(ready));
    if (ready & kLinksReady) on_links();
    if (ready & kSignalReady) {
      signalfd_siginfo info{};
      const bool got = read(signals_.get(), &info, sizeof(info)) == sizeof(info);
      if (got && info.ssi_signo != SIGUSR1) break;
      next_second_ns_ = 0;
      on_timer();
    }
    if (ready & kTimerReady) {
      uint64_t ticks = 0;
      if (read(timer_.get(), &ticks, sizeof(ticks)) == sizeof(ticks)) on_timer();
    }
    // Also without its bit, and last: ZMQ_FD tells edges, and sending may have swallowed one.
    if (session_) {
      session_->receive([this](const msg::SwitchCommand& command) {
        const uint64_t now = monotonic_now_ns();
        if (!std::holds_alternative<msg::Lease>(command)) purge_at_ns_ = now + kPurgeDelayNs;
        return commands_.handle(command, now);
      });
    }
    if (purge_at_ns_ != 0 && monotonic_now_ns() >= purge_at_ns_) {
      plane_.rules().purge();
      purge_at_ns_ = 0;
    }
  }
  stop();
  return {};
}

void SwitchDaemon::on_links() {
  const auto changes = links_.changes();
  if (!changes) {
    spdlog::error("{}", changes.error().message);
    return;
  }
  const auto changed = ports_.update(*changes);
  plane_.set_ports_up(ports_.up());
  for (const auto& change : changed) {
    if (change.rebound) rebind(change.port);
    spdlog::info("port {} is {}", ports_.name(change.port), change.up ? "up" : "down");
    if (events_.size() < kMaxPendingEvents)
      events_.push_back({change.up ? msg::PathEvent::Kind::kPortUp : msg::PathEvent::Kind::kPortDown,
                         fmt::format("{}:{}", table_.switch_name, ports_.name(change.port)), tai_now_ns(), ""});
  }
  if (!events_.empty()) on_timer();
}

void SwitchDaemon::rebind(uint8_t port) {
  auto attached = plane_.bind(port, ports_.ifindexes()[port]);
  if (attached) attached = plane_.attach(port);
  if (!attached) spdlog::error("port {}: {}", ports_.name(port), attached.error().message);
}

void SwitchDaemon::on_timer() {
  const uint64_t now = monotonic_now_ns();
  const bool second = now >= next_second_ns_;
  if (second) next_second_ns_ = now + kSecondNs - telemetry_ns() / 2;
  if (second && session_) session_->send_hello();
  const bool connected = session_ && session_->connected();
  set_interval(connected);
  const bool write = second && !config_.stats_file.empty();
  if (!connected && !write) return;
  const auto stats = gatherer_.gather();
  if (!stats) {
    spdlog::error("counters cannot be read: {}", stats.error().message);
    return;
  }
  if (connected) session_->send_telemetry(telemetry_.write(*stats, std::exchange(events_, {}), tai_now_ns()));
  if (write) write_stats(*stats);
}

void SwitchDaemon::write_stats(const SwitchStats& stats) {
  const auto written = write_file_whole(config_.stats_file, to_json(stats, table_.switch_name, tai_now_ns()));
  if (written) return;
  spdlog::error("{}; no more counters are written", written.error().message);
  config_.stats_file.clear();
}

void SwitchDaemon::stop() {
  if (!config_.stats_file.empty())
    if (const auto stats = gatherer_.gather()) write_stats(*stats);
  if (config_.keep_forwarding) return;
  for (size_t i = 0; i < ports_.size(); ++i) plane_.detach(static_cast<uint8_t>(i));
}

}  // namespace orrery::drivers::ebpf
