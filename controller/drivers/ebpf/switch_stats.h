// Everything orrery-switch knows of its ports and rules at one moment, gathered from the kernel, and the forms it is
// told in: telemetry to the controller, a JSON file for people and scripts.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "common/msg/switch_messages.h"
#include "controller/drivers/ebpf/data_plane.h"
#include "controller/drivers/ebpf/link_monitor.h"
#include "controller/drivers/ebpf/port_table.h"

namespace orrery::drivers::ebpf {

struct PortStats {
  std::string name;
  bool up = false;
  uint64_t rx_packets = 0, rx_bytes = 0;
  uint64_t tx_packets = 0, tx_bytes = 0;  // left the queue
  uint64_t drops = 0;                     // refused by the queue
  uint64_t queue_max_bytes = 0;           // since the process started
  uint64_t queue_interval_max_bytes = 0;  // since the last gathering
  uint64_t queue_interval_mean_bytes = 0;
  uint64_t queue_interval_samples = 0;
  uint64_t queue_mean_bytes = 0;  // since the programs were loaded
  orrery_switch_port_counters counters{};
};

struct SwitchStats {
  std::vector<PortStats> ports;
  std::vector<RuleCount> rules;
  uint64_t no_route = 0;
  uint64_t ttl_expired = 0;
};

class StatsGatherer {
 public:
  // All outlive this.
  StatsGatherer(const PortTable& ports, DataPlane& plane, LinkMonitor& links)
      : ports_(ports), plane_(plane), links_(links) {}
  Result<SwitchStats> gather();

 private:
  const PortTable& ports_;
  DataPlane& plane_;
  LinkMonitor& links_;
  std::vector<QueueReading> last_queues_;
  std::vector<uint64_t> queue_max_;
};

// Tells which rules' counters moved since the last message and when a rule began or ceased to use its backup.
class TelemetryWriter {
 public:
  TelemetryWriter(std::string switch_name, const PortTable& ports)
      : switch_name_(std::move(switch_name)), ports_(ports) {}
  msg::SwitchTelemetry write(const SwitchStats& stats, std::vector<msg::PathEvent> events, uint64_t at_tai_ns);

 private:
  struct Seen {
    uint64_t packets = 0;
    uint64_t backup_packets = 0;
    bool on_backup = false;
  };
  std::string switch_name_;
  const PortTable& ports_;
  std::unordered_map<uint32_t, Seen> seen_;
};

std::string to_json(const SwitchStats& stats, const std::string& switch_name, uint64_t at_tai_ns);
// Complete or not at all: readers never see half a file.
Status write_file_whole(const std::string& path, const std::string& content);

}  // namespace orrery::drivers::ebpf
