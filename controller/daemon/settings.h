// orrery-controller's configuration: the table of its keys, bound to one struct.
#pragma once

#include <cstdint>
#include <string>

#include "common/config/table.h"
#include "common/msg/security.h"

namespace orrery::daemon {

struct ControllerSettings {
  std::string topology_file;
  std::string intents_endpoint;
  std::string agents_endpoint;
  std::string switches_endpoint;
  std::string control_endpoint;
  std::string driver;
  uint32_t lease_ms = 3000;
  uint32_t ack_timeout_ms = 1000;
  uint32_t coalesce_ms = 50;
  uint32_t retry_ms = 5000;
  uint32_t messages_per_second = 2000;
  uint32_t backups = 1;
  bool stagger = true;
  bool turns = false;
  bool rounds = false;
  uint32_t hold_cap_us = 1000;
  uint32_t move_penalty_percent = 1;
  uint16_t src_port_first = 32768;
  uint16_t src_port_last = 60999;
  std::string waveforms_file;
  std::string state_file;
  std::string metrics_address;
  msg::SecuritySettings security;
  std::string allow_list_file;
  std::string log_level;
};

// `settings` outlives the table.
config::Table controller_table(ControllerSettings& settings);

}  // namespace orrery::daemon
