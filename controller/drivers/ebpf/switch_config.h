// Configuration of orrery-switch and its command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/config/table.h"
#include "common/msg/security.h"

namespace orrery::drivers::ebpf {

struct SwitchConfig {
  std::string name;
  std::string topology_file;
  int64_t hash_seed = -1;  // -1: the topology's
  std::string stats_file;
  bool keep_forwarding = false;
  uint32_t telemetry_ms = 200;
  std::string controller_endpoint;  // "": plain ECMP, no controller
  msg::SecuritySettings security;
  std::string log_level;
};

// The keys of `config`, which must outlive the table.
config::Table make_switch_table(SwitchConfig& config);

// Nothing: go on. Otherwise the exit code. Knows short forms of the usual options: --topology, --switch, --controller,
// --hash-seed,
// --stats-file, --keep.
std::optional<int> load_switch_config(SwitchConfig& config, int argc, const char* const* argv, const char* const* envp);

}  // namespace orrery::drivers::ebpf
