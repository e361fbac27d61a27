#include "controller/daemon/settings.h"

namespace orrery::daemon {
namespace {

void add_connections(config::Table& table, ControllerSettings& s) {
  table
      .key("controller.topology_file", s.topology_file, "",
           {.required = true, .help = "the topology file (YAML) of the fabric to plan for"})
      .key("controller.driver", s.driver, "entropy",
           {.choices = {"ebpf", "entropy", "dry-run"},
            .help =
                "how plans are carried out: rules in orrery-switch, source ports chosen by the hosts, or not at all"})
      .key("controller.intents_endpoint", s.intents_endpoint, "ipc:///run/orrery/intents.sock",
           {.help = "where agents publish intent windows: tcp://ADDRESS:PORT or ipc://PATH"})
      .key("controller.agents_endpoint", s.agents_endpoint, "ipc:///run/orrery/agents.sock",
           {.help = "where agents take their plans"})
      .key("controller.switches_endpoint", s.switches_endpoint, "ipc:///run/orrery/switches.sock",
           {.help = "where switches take their rules and send telemetry"})
      .key("controller.control_endpoint", s.control_endpoint, "ipc:///run/orrery/control.sock",
           {.help = "where orreryctl asks"})
      .key("controller.messages_per_second", s.messages_per_second, 2000,
           {.unit = "messages/s",
            .low = 10,
            .high = 1'000'000,
            .help = "of one agent or switch; what is beyond is ignored"});
}

void add_planning(config::Table& table, ControllerSettings& s) {
  table
      .key("plan.lease_ms", s.lease_ms, 3000,
           {.unit = "ms",
            .low = 500,
            .high = 60'000,
            .help = "a plan that is not renewed for so long is ignored everywhere; renewed each third of it"})
      .key("plan.ack_timeout_ms", s.ack_timeout_ms, 1000,
           {.unit = "ms",
            .low = 10,
            .high = 60'000,
            .help = "an agent that has not acknowledged a plan by then fails it"})
      .key("plan.coalesce_ms", s.coalesce_ms, 50,
           {.unit = "ms",
            .low = 0,
            .high = 10'000,
            .help = "changes of traffic wait so long for others before planning; new communicators and failed links "
                    "never wait"})
      .key(
          "plan.retry_ms", s.retry_ms, 5000,
          {.unit = "ms", .low = 100, .high = 600'000, .help = "pause before a plan that was taken back is tried again"})
      .key("plan.backups_count", s.backups, 1,
           {.unit = "paths", .low = 0, .high = 4, .help = "backup paths wanted for each flow"})
      .key("plan.stagger_enabled", s.stagger, true,
           {.help = "give flows that must share a link different release offsets"})
      .key("plan.turns_enabled", s.turns, false,
           {.help = "hold jobs that share links back, a little at each collective, until they send in turns; needs the "
                    "clocks of the hosts to agree within a fraction of the time that a collective takes"})
      .key("plan.rounds_enabled", s.rounds, false,
           {.help = "send short all-to-alls in rounds, in which no host receives from two, where the last round begins "
                    "within plan.hold_cap_us"})
      .key("plan.hold_cap_us", s.hold_cap_us, 1000,
           {.unit = "µs",
            .low = 0,
            .high = 10'000,
            .help = "no release offset is longer: what agents allow (their preload.hold_cap_us)"})
      .key("plan.move_penalty_percent", s.move_penalty_percent, 1,
           {.unit = "%",
            .low = 0,
            .high = 100,
            .help = "a flow is moved only when the busiest link gains more than this"})
      .key("entropy.src_port_first", s.src_port_first, 32768,
           {.low = 1024, .high = 65535, .help = "first of the source ports hosts may choose from, with driver entropy"})
      .key("entropy.src_port_last", s.src_port_last, 60999, {.low = 1024, .high = 65535, .help = "last of them"});
}

void add_daemon(config::Table& table, ControllerSettings& s) {
  table
      .key("forecast.waveforms_file", s.waveforms_file, "",
           {.help = "what NICs are expected to send, as orrery-sim run --waveforms writes it; read at the start and on "
                    "SIGHUP; empty: none"})
      .key("state.file", s.state_file, "/var/lib/orrery/controller.db",
           {.help = "SQLite file that keeps plans and what was learned across restarts; empty: none"})
      .key("metrics.listen_address", s.metrics_address, "127.0.0.1:9464",
           {.help = "ADDRESS:PORT that serves Prometheus metrics; empty: none"})
      .key("security.mode", s.security.mode, "plain",
           {.choices = {"plain", "curve"}, .help = "plain sockets, only on this machine; or CURVE keys"})
      .key("security.allow_plain", s.security.allow_plain, false,
           {.help = "with security.mode plain: allow it also on addresses other machines reach"})
      .key("security.key_file", s.security.key_file, "",
           {.help = "the controller's CURVE key pair, with security.mode curve"})
      .key("security.allow_list_file", s.allow_list_file, "",
           {.help = "public keys that may connect, one a line, with security.mode curve"})
      .key(
          "log.level", s.log_level, "info",
          {.choices = {"trace", "debug", "info", "warning", "error"}, .help = "least severe messages that are logged"});
}

}  // namespace

config::Table controller_table(ControllerSettings& settings) {
  config::Table table("orrery-controller");
  add_connections(table, settings);
  add_planning(table, settings);
  add_daemon(table, settings);
  table.ignore_environment("ORRERY_CONTROLLER");  // orreryctl's
  table.rule("entropy.src_port_last", [&settings]() -> std::string {
    return settings.src_port_last < settings.src_port_first ? "must not be below entropy.src_port_first" : "";
  });
  table.rule("security.key_file", [&settings]() -> std::string {
    return settings.security.mode == "curve" && settings.security.key_file.empty()
               ? "must be set with security.mode curve; or set security.mode to plain"
               : "";
  });
  table.rule("security.allow_list_file", [&settings]() -> std::string {
    return settings.security.mode == "curve" && settings.allow_list_file.empty()
               ? "must be set with security.mode curve: list the public keys of agents, switches and operators there"
               : "";
  });
  return table;
}

}  // namespace orrery::daemon
