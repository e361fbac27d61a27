#include "controller/drivers/ebpf/switch_config.h"

#include <string_view>
#include <vector>

#include "common/config/command_line.h"

namespace orrery::drivers::ebpf {
namespace {

constexpr std::string_view kSummary =
    "Forwards packets between the ports of one switch by eBPF: plan rules where the controller gave some, ECMP "
    "otherwise.\n"
    "Short forms: --topology FILE, --switch NAME, --controller ENDPOINT, --hash-seed N, --stats-file FILE, --keep.";

struct ShortForm {
  std::string_view option;
  std::string_view key;
};
constexpr ShortForm kShortForms[] = {{"--topology", "--switch.topology_file"},
                                     {"--switch", "--switch.name"},
                                     {"--controller", "--controller.endpoint"},
                                     {"--hash-seed", "--switch.hash_seed"},
                                     {"--stats-file", "--switch.stats_file"}};

std::string expand(std::string_view argument) {
  if (argument == "--keep") return "--switch.keep_forwarding=true";
  const auto name = argument.substr(0, argument.find('='));
  for (const auto& form : kShortForms)
    if (name == form.option) return std::string(form.key) + std::string(argument.substr(name.size()));
  return std::string(argument);
}

}  // namespace

config::Table make_switch_table(SwitchConfig& config) {
  config::Table table("orrery-switch");
  table.key("switch.name", config.name, "", {.required = true, .help = "The switch's name in the topology file."})
      .key("switch.topology_file", config.topology_file, "",
           {.required = true, .help = "The topology file (YAML) that has ports, links and routes."})
      .key("switch.hash_seed", config.hash_seed, -1,
           {.low = -1, .high = 0xffffffff, .help = "Seed of the ECMP hash; -1: the one in the topology file."})
      .key("switch.stats_file", config.stats_file, "",
           {.help = "Counters are written to this file as JSON every second and at the end; empty: nowhere."})
      .key("switch.keep_forwarding", config.keep_forwarding, false,
           {.help = "Leave the forwarding programs attached when told to stop."})
      .key("switch.telemetry_ms", config.telemetry_ms, 200,
           {.unit = "ms",
            .low = 20,
            .high = 1000,
            .help = "How often a connected controller is told counters; links that change are told at once."})
      .key("controller.endpoint", config.controller_endpoint, "",
           {.help = "Where the controller takes switches: ipc://PATH or tcp://HOST:PORT; empty: none, plain ECMP."})
      .key("security.mode", config.security.mode, "plain",
           {.choices = {"plain", "curve"}, .help = "How the connection to the controller is protected."})
      .key("security.allow_plain", config.security.allow_plain, false,
           {.help = "Allow plain connections to other machines."})
      .key("security.key_file", config.security.key_file, "", {.help = "This switch's own CURVE key pair."})
      .key("security.server_key_file", config.security.server_key_file, "",
           {.help = "The controller's public CURVE key."})
      .key("log.level", config.log_level, "info",
           {.choices = {"trace", "debug", "info", "warning", "error"}, .help = "Least severity that is logged."});
  return table;
}

std::optional<int> load_switch_config(SwitchConfig& config, int argc, const char* const* argv,
                                      const char* const* envp) {
  std::vector<std::string> expanded(argv, argv + (argc > 0 ? 1 : 0));
  for (int i = 1; i < argc; ++i) expanded.push_back(expand(argv[i]));
  std::vector<const char*> arguments;
  for (const auto& argument : expanded) arguments.push_back(argument.c_str());
  auto table = make_switch_table(config);
  return config::load_command_line(table, ORRERY_VERSION, kSummary, static_cast<int>(arguments.size()),
                                   arguments.data(), envp);
}

}  // namespace orrery::drivers::ebpf
