// orrery-switch's control process: binds ports, attaches the data plane, follows link state, obeys the controller,
// tells what it sees. One thread, one poll loop.
#pragma once

#include <memory>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "controller/drivers/ebpf/controller_session.h"
#include "controller/drivers/ebpf/data_plane.h"
#include "controller/drivers/ebpf/link_monitor.h"
#include "controller/drivers/ebpf/port_table.h"
#include "controller/drivers/ebpf/rule_commands.h"
#include "controller/drivers/ebpf/switch_config.h"
#include "controller/drivers/ebpf/switch_stats.h"

namespace orrery::drivers::ebpf {

class SwitchDaemon {
 public:
  // Everything that can fail at start, up to and including attachment: forwarding works when this returns.
  static Result<std::unique_ptr<SwitchDaemon>> start(const SwitchConfig& config);
  SwitchDaemon(const SwitchDaemon&) = delete;

  size_t port_count() const { return ports_.size(); }
  size_t ports_up() const;
  // Until SIGTERM or SIGINT.
  Status run();

 private:
  SwitchDaemon(const SwitchConfig& config, ForwardingTable table, DataPlane plane, LinkMonitor links, PortTable ports);
  Status connect();
  Status make_fds();
  Status wait(uint64_t& ready);
  void on_links();
  void rebind(uint8_t port);
  void on_timer();
  void write_stats(const SwitchStats& stats);
  void stop();
  void set_interval(bool connected);
  uint64_t telemetry_ns() const { return config_.telemetry_ms * uint64_t{1'000'000}; }

  SwitchConfig config_;
  ForwardingTable table_;
  DataPlane plane_;
  LinkMonitor links_;
  PortTable ports_;
  RuleCommands commands_;
  StatsGatherer gatherer_;
  TelemetryWriter telemetry_;
  std::unique_ptr<ControllerSession> session_;
  std::vector<msg::PathEvent> events_;
  UniqueFd lock_, signals_, timer_;
  uint64_t interval_ns_ = 0;
  uint64_t next_second_ns_ = 0;
  uint64_t purge_at_ns_ = 0;  // 0: nothing to purge
};

}  // namespace orrery::drivers::ebpf
