#include "agent/daemon/agent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <utility>

#include "agent/daemon/roce_devices.h"
#include "common/base/clock.h"

namespace orrery::daemon {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kBusyForNs = 500'000'000;
constexpr uint64_t kLookForRoceNs = 10'000'000'000;
constexpr int kEventsPerWait = 64;
constexpr uint64_t kUnheardHellosLogged = 5;

collect::Limits collect_limits(const AgentConfig& config) {
  collect::Limits limits;
  limits.processes = config.limits.processes;
  limits.communicators_per_process = config.limits.communicators;
  limits.open_collectives_per_process = config.limits.open_collectives;
  return limits;
}

collect::Cadence cadence(const AgentConfig& config) {
  collect::Cadence cadence;
  cadence.quiet_ns = config.window.quiet_ms * uint64_t{1'000'000};
  cadence.progress_ns = config.window.progress_ms * uint64_t{1'000'000};
  return cadence;
}

std::vector<IpAddress> extra_addresses(const AgentConfig& config) {
  std::vector<IpAddress> addresses;
  for (const std::string& text : config.agent.extra_addresses)
    if (const auto address = IpAddress::parse(text)) addresses.push_back(*address);
  return addresses;
}

Result<UniqueFd> signal_descriptor() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return system_error("cannot block signals", errno);
  UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return system_error("cannot watch signals (signalfd)", errno);
  return fd;
}

}  // namespace

Result<std::unique_ptr<Agent>> Agent::create(const AgentConfig& config, telemetry::Metrics& metrics) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error("cannot make the event loop (epoll_create1)", errno);
  ORRERY_ASSIGN(UniqueFd signals, signal_descriptor());
  ORRERY_ASSIGN(collect::AttachListener listener,
                collect::AttachListener::create(config.agent.socket_path, socket_mode(config)));
  std::unique_ptr<Agent> agent(new Agent(config, metrics, std::move(epoll), std::move(signals), std::move(listener)));
  ORRERY_TRY(agent->open(metrics));
  return agent;
}

Agent::Agent(const AgentConfig& config, telemetry::Metrics& metrics, UniqueFd epoll, UniqueFd signals,
             collect::AttachListener listener)
    : config_(config),
      epoll_(std::move(epoll)),
      signals_(std::move(signals)),
      listener_(std::move(listener)),
      addresses_(config.agent.interface, config.agent.only_interface, extra_addresses(config)),
      enforcer_(
          config.agent.host, {config.limits.plan_flows, config.limits.plan_entries},
          [this](const IpAddress& address) { return addresses_.is_local(address); }, metrics),
      collector_(config.agent.host, collect_limits(config), cadence(config), host_view(), metrics),
      features_{"preload"} {}

Agent::~Agent() = default;

collect::HostView Agent::host_view() {
  collect::HostView view;
  view.nic_address = [this] { return addresses_.nic_address(); };
  view.is_local = [this](const IpAddress& address) { return addresses_.is_local(address); };
  view.is_planned = [this](uint64_t process, uint64_t flow_id, const FiveTuple& tuple) {
    return enforcer_.is_planned(process, flow_id, tuple);
  };
  view.retransmits = [this](const FiveTuple& tuple) {
    const auto flow = probe_ ? probe_->flow(tuple) : std::nullopt;
    return flow ? static_cast<uint32_t>(std::min<uint64_t>(flow->retransmits, UINT32_MAX)) : 0;
  };
  return view;
}

Status Agent::open_probe() {
  if (config_.bpf.mode == "off") return {};
  const bool required = config_.bpf.mode == "required";
  if (config_.agent.interface.empty()) {
    if (required)
      return Error{ErrorCode::kInvalidArgument,
                   "bpf.mode is required, but agent.interface does not say where to attach"};
    spdlog::info("without BPF: agent.interface does not say where to attach");
    return {};
  }
  auto probe = bpf::TrafficProbe::create(config_.agent.interface);
  if (probe) {
    features_.insert(features_.end(), probe->features().begin(), probe->features().end());
    probe_.emplace(std::move(*probe));
    return {};
  }
  if (required || probe.error().code == ErrorCode::kInvalidArgument) return probe.error();
  spdlog::warn("without BPF: {}", probe.error().message);
  return {};
}

void Agent::update_marks() {
  if (probe_) probe_->set_marks(enforcer_.plan(), enforcer_.valid_until_ns());
}

Status Agent::open(telemetry::Metrics& metrics) {
  const msg::SecuritySettings settings{.mode = config_.security.mode,
                                       .allow_plain = config_.security.allow_plain,
                                       .key_file = config_.security.key_file,
                                       .server_key_file = config_.security.server_key_file};
  ORRERY_ASSIGN(const msg::Security security, msg::load_security(settings));
  ORRERY_ASSIGN(
      uplink::Uplink uplink,
      uplink::Uplink::create(context_, {config_.controller.intents_endpoint, config_.controller.agents_endpoint},
                             security, metrics));
  uplink_ = std::make_unique<uplink::Uplink>(std::move(uplink));
  if (config_.clock.source == "ptp4l") {
    ORRERY_ASSIGN(collect::PtpClock clock,
                  collect::PtpClock::create(config_.clock.socket_path, static_cast<uint8_t>(config_.clock.domain),
                                            config_.clock.bound_ns));
    ptp_ = std::make_unique<collect::PtpClock>(std::move(clock));
    ORRERY_TRY(watch(ptp_->fd(), Source::kClock, EPOLLIN));
  }
  ORRERY_TRY(open_probe());
  ORRERY_TRY(watch(signals_.get(), Source::kSignal, EPOLLIN));
  ORRERY_TRY(watch(listener_.fd(), Source::kListener, EPOLLIN));
  return watch(uplink_->fd(), Source::kUplink, EPOLLIN);
}

Status Agent::watch(int fd, Source source, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<uint64_t>(source) << 32 | static_cast<uint32_t>(fd);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  if (errno == EEXIST && epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  return system_error("cannot watch a descriptor (epoll_ctl)", errno);
}

Status Agent::run() {
  now_ns_ = monotonic_now_ns();
  once_a_second();
  sd_notify(0, "READY=1");
  std::array<epoll_event, kEventsPerWait> events;
  while (!stopping_) {
    const int count = epoll_wait(epoll_.get(), events.data(), kEventsPerWait, wait_ms());
    if (count < 0 && errno != EINTR) return system_error("the event loop failed (epoll_wait)", errno);
    now_ns_ = monotonic_now_ns();
    tai_minus_monotonic_ns_ = static_cast<int64_t>(tai_now_ns()) - static_cast<int64_t>(now_ns_);
    for (int i = 0; i < count; ++i)
      handle(static_cast<Source>(events[i].data.u64 >> 32), static_cast<int>(events[i].data.u64 & UINT32_MAX),
             events[i].events);
    // After the events of descriptors that are closed now, whose numbers new connections may get.
    if (std::exchange(accept_due_, false)) accept_processes();
    tick();
  }
  sd_notify(0, "STOPPING=1");
  enforcer_.withdraw_all();
  spdlog::info("stopped; {} attached processes go on unmanaged", sessions_.size());
  return {};
}

int Agent::wait_ms() const {
  const bool busy = now_ns_ - last_active_ns_ < kBusyForNs;
  uint64_t due_ns = last_second_ns_ + kSecondNs;
  if (!sessions_.empty())
    due_ns = std::min(due_ns,
                      last_tick_ns_ + (busy ? config_.window.length_ms : config_.window.idle_ms) * uint64_t{1'000'000});
  const uint64_t now_ns = monotonic_now_ns();
  return due_ns <= now_ns ? 0 : static_cast<int>((due_ns - now_ns + 999'999) / 1'000'000);
}

void Agent::handle(Source source, int fd, uint32_t events) {
  switch (source) {
    case Source::kSignal:
      stopping_ = true;
      return;
    case Source::kListener:
      accept_due_ = true;
      return;
    case Source::kPending:
      return take_request(fd);
    case Source::kProcess:
      return ring(fd, events);
    case Source::kProcessEnd:
      if (const auto ended = by_pidfd_.find(fd); ended != by_pidfd_.end()) detach(*ended->second);
      return;
    case Source::kUplink:
      // A ZMQ_FD says only that something may have changed, and receiving is what takes note of it: perhaps of a
      // connection.
      take_messages();
      if (unheard_hellos_ != 0) say_hello();
      return;
    case Source::kClock:
      ptp_->read_answers(now_ns_);
      return;
  }
}

void Agent::accept_processes() {
  for (const int fd : listener_.accept_pending(now_ns_)) {
    // A process sends its request right after connecting; mostly it is there already.
    take_request(fd);
    if (listener_.is_pending(fd) && !watch(fd, Source::kPending, EPOLLIN)) listener_.drop(fd);
  }
  if (listener_.starved()) mute_listener();
}

void Agent::mute_listener() {
  listener_muted_ = watch(listener_.fd(), Source::kListener, 0).has_value();
  if (std::exchange(said_starved_, true)) return;
  spdlog::warn(
      "out of descriptors or memory: new processes run unmanaged until some is free; raise LimitNOFILE or lower "
      "limits.processes_count");
}

void Agent::take_request(int fd) {
  auto answer = listener_.read_request(fd);
  if (!answer.refusal.empty()) spdlog::warn("refused to attach: {}", answer.refusal);
  if (answer.request) attach(std::move(*answer.request));
}

Result<uint64_t> Agent::prepare(const collect::AttachRequest& request) {
  ORRERY_ASSIGN(shm::AgentSegment segment, shm::AgentSegment::create({.ring_count = config_.limits.rings,
                                                                      .ring_events = config_.limits.ring_events,
                                                                      .flow_slots = config_.limits.flows,
                                                                      .qp_counters = request.peer.abi_version >= 2}));
  ORRERY_ASSIGN(shm::PlanTable table, shm::PlanTable::create(config_.limits.plan_entries, request.peer.abi_version));
  segment.mark_alive(now_ns_);
  orrery_attach_reply reply{};
  reply.magic = ORRERY_ATTACH_MAGIC;
  reply.status = ORRERY_ATTACH_OK;
  reply.abi_version = request.peer.abi_version;
  reply.segment_bytes = static_cast<uint32_t>(segment.bytes());
  reply.plan_bytes = static_cast<uint32_t>(table.bytes());
  reply.flowlet_gap_ns = config_.preload.flowlet_gap_us * 1000;
  reply.hold_cap_ns = config_.preload.hold_cap_us * 1000;
  const int segment_fd = segment.fd(), plan_fd = table.fd();
  ORRERY_ASSIGN(const uint64_t process, collector_.attach(std::move(segment)));
  enforcer_.attach(process, std::move(table));
  if (const Status sent = collect::send_reply(request.connection.get(), reply, segment_fd, plan_fd); !sent) {
    collector_.detach(process, now_ns_, tai_minus_monotonic_ns_);
    enforcer_.detach(process);
    return sent.error();
  }
  return process;
}

void Agent::attach(collect::AttachRequest request) {
  const int fd = request.connection.get();
  const Result<uint64_t> process = prepare(request);
  if (!process) {
    collect::send_refusal(fd,
                          process.error().code == ErrorCode::kExhausted ? ORRERY_ATTACH_FULL : ORRERY_ATTACH_REFUSED);
    spdlog::warn("process {} ({}) runs unmanaged: {}", request.peer.pid, request.peer.program, process.error().message);
    return;
  }
  auto session = std::make_unique<Session>(*process, std::move(request.connection), std::move(request.peer));
  spdlog::info("process {} ({}, uid {}) attached as number {}", session->peer().pid, session->peer().program,
               session->peer().uid, *process);
  bool watched = watch(fd, Source::kProcess, EPOLLIN | EPOLLRDHUP).has_value();
  if (session->pidfd() >= 0) {
    by_pidfd_[session->pidfd()] = session.get();
    watched &= watch(session->pidfd(), Source::kProcessEnd, EPOLLIN).has_value();
  }
  Session& added = *(sessions_[fd] = std::move(session));
  if (!watched) return detach(added);
  last_active_ns_ = now_ns_;
}

void Agent::ring(int fd, uint32_t events) {
  const auto found = sessions_.find(fd);
  if (found == sessions_.end()) return;
  Session& session = *found->second;
  const Session::Ring ring = session.read_doorbells();
  if (ring == Session::Ring::kRung || ring == Session::Ring::kExhausted) collect(session.process());
  if (ring == Session::Ring::kExhausted && !session.muted)
    session.muted = watch(fd, Source::kProcess, EPOLLRDHUP).has_value();
  if (ring == Session::Ring::kGone || (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0) detach(session);
}

void Agent::detach(Session& session) {
  const uint64_t process = session.process();
  collector_.detach(process, now_ns_, tai_minus_monotonic_ns_);
  enforcer_.detach(process);
  spdlog::info("process {} ({}), number {}, has gone", session.peer().pid, session.peer().program, process);
  if (session.pidfd() >= 0) by_pidfd_.erase(session.pidfd());
  sessions_.erase(session.connection());
}

void Agent::collect(uint64_t process) {
  const auto outcome = collector_.collect(process, now_ns_, tai_minus_monotonic_ns_);
  if (outcome.active) last_active_ns_ = now_ns_;
  urgent_ |= outcome.announced;
  if (outcome.communicators_changed)
    enforcer_.set_communicators(process, collector_.find(process)->communicators().ids());
}

void Agent::tick() {
  const bool busy = now_ns_ - last_active_ns_ < kBusyForNs;
  const uint64_t period_ns = (busy ? config_.window.length_ms : config_.window.idle_ms) * uint64_t{1'000'000};
  const bool window_over = now_ns_ - last_tick_ns_ + 500'000 >= period_ns;
  if (window_over && !sessions_.empty()) {
    last_tick_ns_ = now_ns_;
    for (const auto& [fd, session] : sessions_) collect(session->process());
  }
  if (urgent_ || window_over) publish_if_due();
  if (now_ns_ - last_second_ns_ >= kSecondNs) once_a_second();
  take_messages();
  if (enforcer_.expire(now_ns_)) {
    update_marks();
    spdlog::warn("the plan's lease ran out: no word from the controller; traffic goes on unmanaged");
  }
}

void Agent::publish_if_due() {
  if (!collector_.window_due(now_ns_)) return;
  uplink_->publish(collector_.take_window(now_ns_, tai_minus_monotonic_ns_, clock_state(), urgent_));
  urgent_ = false;
}

msg::ClockState Agent::clock_state() const {
  msg::ClockState state;
  state.source = "none";
  state.bound_ns = config_.clock.bound_ns;
  if (ptp_) state = ptp_->state(now_ns_);
  const bool wanted = ptp_ != nullptr || config_.clock.required;
  state.release_suspended = wanted && !state.synchronized;
  return state;
}

void Agent::once_a_second() {
  last_second_ns_ = now_ns_;
  collector_.mark_alive(now_ns_);
  listener_.expire(now_ns_);
  if (listener_muted_ && watch(listener_.fd(), Source::kListener, EPOLLIN)) listener_muted_ = false;
  for (const auto& [fd, session] : sessions_) {
    session->refill();
    if (session->muted && watch(fd, Source::kProcess, EPOLLIN | EPOLLRDHUP)) session->muted = false;
  }
  if (ptp_) ptp_->ask();
  enforcer_.suspend_release(clock_state().release_suspended, now_ns_);
  publish_if_due();
  say_hello();
  sd_notify(0, "WATCHDOG=1");
}

void Agent::say_hello() {
  if (addresses_.all().empty()) addresses_.refresh(now_ns_);
  look_for_roce();
  msg::AgentHello hello;
  hello.host = config_.agent.host;
  hello.version = ORRERY_VERSION;
  hello.addresses = addresses_.all();
  hello.processes = static_cast<uint32_t>(sessions_.size());
  hello.features = features_;
  if (roce_) hello.features.emplace_back("roce");
  hello.layers = layer_counts();
  if (uplink_->send(hello)) {
    if (unheard_hellos_ != 0) spdlog::info("connected to the controller at {}", config_.controller.agents_endpoint);
    unheard_hellos_ = 0;
  } else if (++unheard_hellos_ == kUnheardHellosLogged) {
    spdlog::warn("no controller answers at {}; traffic goes on unmanaged, and this agent goes on trying",
                 config_.controller.agents_endpoint);
  }
}

std::vector<uint32_t> Agent::layer_counts() const {
  std::vector<uint32_t> counts(std::bit_width<uint32_t>(ORRERY_LAYER_PROFILER));
  for (const auto& [fd, session] : sessions_)
    for (size_t layer = 0; layer < counts.size(); ++layer) counts[layer] += session->peer().layers >> layer & 1;
  return counts;
}

void Agent::look_for_roce() {
  if (roce_looked_ns_ != 0 && now_ns_ - roce_looked_ns_ < kLookForRoceNs) return;
  roce_looked_ns_ = now_ns_;
  const std::vector<std::string> devices = find_roce_devices(kRdmaClassPath, addresses_.all());
  if (std::exchange(roce_, !devices.empty()) == roce_) return;
  spdlog::info("RoCE devices with an address of this host: {}",
               devices.empty() ? "none any more" : fmt::format("{}", fmt::join(devices, ", ")));
}

void Agent::take_messages() {
  for (const msg::ControllerMessage& message : uplink_->receive())
    std::visit([this](const auto& content) { take(content); }, message);
}

void Agent::take(const msg::HostPlan& plan) {
  const msg::Ack ack = enforcer_.accept(plan, now_ns_);
  if (!ack.accepted && ack.reason != last_refusal_) {
    spdlog::warn("refused plan {} of term {}: {}", plan.revision, plan.term, ack.reason);
    last_refusal_ = ack.reason;
  }
  if (ack.accepted) update_marks();
  uplink_->send(ack);
}

void Agent::take(const msg::Lease& lease) {
  if (enforcer_.renew(lease, now_ns_)) update_marks();
}

void Agent::take(const msg::Withdraw& withdraw) {
  if (!enforcer_.withdraw(withdraw.lease)) return;
  update_marks();
  spdlog::info("the controller withdrew the plan; traffic goes on unmanaged");
}

void Agent::take(const msg::Refused& refused) {
  if (refused.reason == last_refusal_) return;
  spdlog::warn("the controller does not accept this agent: {}", refused.reason);
  last_refusal_ = refused.reason;
}

}  // namespace orrery::daemon
