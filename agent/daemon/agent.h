// The agent: one thread, one epoll loop over the attach socket, the processes, the controller and the clock.
//
// It sleeps until something happens or is due: every window while attached processes are busy, every few while they are
// silent, once a second when there are none.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "agent/bpf/traffic_probe.h"
#include "agent/collect/attach_listener.h"
#include "agent/collect/collector.h"
#include "agent/collect/ptp_clock.h"
#include "agent/daemon/agent_config.h"
#include "agent/daemon/host_addresses.h"
#include "agent/daemon/session.h"
#include "agent/enforce/enforcer.h"
#include "agent/uplink/uplink.h"

namespace orrery::daemon {

class Agent {
 public:
  // `config` and `metrics` outlive the agent. Blocks SIGTERM and SIGINT, which end run(). Errors say which setting to
  // change.
  static Result<std::unique_ptr<Agent>> create(const AgentConfig& config, telemetry::Metrics& metrics);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Until a signal ends it. Error: the loop itself failed.
  Status run();

 private:
  enum class Source : uint32_t { kSignal, kListener, kPending, kProcess, kProcessEnd, kUplink, kClock };

  Agent(const AgentConfig& config, telemetry::Metrics& metrics, UniqueFd epoll, UniqueFd signals,
        collect::AttachListener listener);
  collect::HostView host_view();
  Status open(telemetry::Metrics& metrics);
  Status open_probe();
  Status watch(int fd, Source source, uint32_t events);
  void handle(Source source, int fd, uint32_t events);

  void accept_processes();
  void mute_listener();
  void take_request(int fd);
  void attach(collect::AttachRequest request);
  Result<uint64_t> prepare(const collect::AttachRequest& request);
  void ring(int fd, uint32_t events);
  void detach(Session& session);

  void tick();
  void collect(uint64_t process);
  void publish_if_due();
  msg::ClockState clock_state() const;
  void once_a_second();
  void take_messages();
  void take(const msg::HostPlan& plan);
  void take(const msg::Lease& lease);
  void take(const msg::Withdraw& withdraw);
  void take(const msg::Refused& refused);
  void say_hello();
  std::vector<uint32_t> layer_counts() const;
  void look_for_roce();
  void update_marks();
  int wait_ms() const;

  const AgentConfig& config_;
  UniqueFd epoll_;
  UniqueFd signals_;
  collect::AttachListener listener_;
  HostAddresses addresses_;
  enforce::Enforcer enforcer_;
  collect::Collector collector_;
  msg::Context context_;
  std::unique_ptr<uplink::Uplink> uplink_;
  std::unique_ptr<collect::PtpClock> ptp_;  // none: clock.source is none
  std::optional<bpf::TrafficProbe> probe_;  // none: bpf.mode is off, or the kernel does not allow it
  std::unordered_map<int, std::unique_ptr<Session>> sessions_;  // by connection
  std::unordered_map<int, Session*> by_pidfd_;
  std::vector<std::string> features_;
  bool roce_ = false;  // RDMA devices send from this host's addresses
  uint64_t roce_looked_ns_ = 0;
  std::string last_refusal_;
  uint64_t now_ns_ = 0;
  int64_t tai_minus_monotonic_ns_ = 0;
  uint64_t last_tick_ns_ = 0;
  uint64_t last_second_ns_ = 0;
  uint64_t last_active_ns_ = 0;
  bool accept_due_ = false;
  bool listener_muted_ = false;  // until the next second, because it could not be served
  bool said_starved_ = false;
  bool urgent_ = false;
  bool stopping_ = false;
  uint64_t unheard_hellos_ = 1;  // since one was taken; begins at 1 so that the first connection is logged
};

}  // namespace orrery::daemon
