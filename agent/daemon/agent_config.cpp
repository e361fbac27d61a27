#include "agent/daemon/agent_config.h"

#include <unistd.h>

#include <charconv>

#include "common/abi/attach_abi.h"
#include "common/base/ip_address.h"

namespace orrery::daemon {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

bool parse_mode(const std::string& text, mode_t& mode) {
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, mode, 8).ptr == end && !text.empty() && mode <= 0777;
}

void add_agent_keys(config::Table& table, AgentConfig& c) {
  table
      .key("agent.host", c.agent.host, "",
           {.help = "name of this host in the controller's topology file; empty: the host name"})
      .key("agent.socket_path", c.agent.socket_path, ORRERY_AGENT_SOCKET_DEFAULT,
           {.required = true, .help = "socket that training processes attach to; mount it into containers"})
      .key("agent.socket_mode", c.agent.socket_mode, "0666",
           {.help = "permissions of that socket, octal; whoever can write to it can attach"})
      .key("agent.interface", c.agent.interface, "",
           {.help = "network interface of the training traffic; empty: all but the loopback"})
      .key("agent.only_interface", c.agent.only_interface, false,
           {.help = "addresses of other interfaces are other hosts', for several agents on one machine"})
      .key("agent.extra_addresses", c.agent.extra_addresses, {},
           {.help = "further addresses that count as this host's, for containers that have their own"})
      .key("controller.intents_endpoint", c.controller.intents_endpoint, "",
           {.required = true, .help = "where the controller takes intent windows, such as tcp://10.0.0.1:7001"})
      .key("controller.agents_endpoint", c.controller.agents_endpoint, "",
           {.required = true, .help = "where the controller talks to agents, such as tcp://10.0.0.1:7002"});
}

void add_timing_keys(config::Table& table, AgentConfig& c) {
  table
      .key("window.length_ms", c.window.length_ms, 10,
           {.unit = "ms", .low = 1, .high = 1000, .help = "how often busy processes are drained and a window is sent"})
      .key("window.idle_ms", c.window.idle_ms, 50,
           {.unit = "ms",
            .low = 1,
            .high = 1000,
            .help = "the same while attached processes have been silent for half a second"})
      .key("window.quiet_ms", c.window.quiet_ms, 20,
           {.unit = "ms", .low = 1, .high = 10000, .help = "a collective whose bytes rested this long has ended"})
      .key("window.progress_ms", c.window.progress_ms, 100,
           {.unit = "ms", .low = 10, .high = 10000, .help = "byte counts of a flow are sent at most this often"})
      .key("preload.flowlet_gap_us", c.preload.flowlet_gap_us, 500,
           {.unit = "µs", .low = 1, .high = 1000000, .help = "a send after a longer pause begins a new burst"})
      .key("preload.hold_cap_us", c.preload.hold_cap_us, 1000,
           {.unit = "µs",
            .low = 0,
            .high = 10000,
            .help = "a send is never held back longer for a release offset; 0: never held"});
}

void add_limit_keys(config::Table& table, AgentConfig& c) {
  table
      .key("limits.processes_count", c.limits.processes, 256,
           {.unit = "processes", .low = 1, .high = 65536, .help = "attached at one time; further ones run unmanaged"})
      .key("limits.communicators_count", c.limits.communicators, 1024,
           {.unit = "communicators", .low = 1, .high = 65536, .help = "of one process"})
      .key("limits.open_collectives_count", c.limits.open_collectives, 256,
           {.unit = "collectives", .low = 1, .high = 65536, .help = "of one process whose end has not been seen"})
      .key("limits.rings_count", c.limits.rings, 32,
           {.unit = "rings", .low = 1, .high = 4096, .help = "threads of one process that can report"})
      .key("limits.ring_events_count", c.limits.ring_events, 1024,
           {.unit = "events", .low = 2, .high = 1048576, .help = "of one thread between two drains; a power of two"})
      .key("limits.flows_count", c.limits.flows, 1024,
           {.unit = "flows", .low = 1, .high = 65535, .help = "of one process at one time"})
      .key("limits.plan_flows_count", c.limits.plan_flows, 16384,
           {.unit = "flows", .low = 1, .high = 65536, .help = "of one host's plan"})
      .key("limits.plan_entries_count", c.limits.plan_entries, 1024,
           {.unit = "entries", .low = 1, .high = 65536, .help = "of one process's plan table"});
}

void add_host_keys(config::Table& table, AgentConfig& c) {
  table
      .key("clock.source", c.clock.source, "none",
           {.choices = {"none", "ptp4l"}, .help = "what disciplines the host's clock"})
      .key("clock.socket_path", c.clock.socket_path, "/var/run/ptp4l",
           {.help = "management socket of ptp4l, with clock.source ptp4l"})
      .key("clock.domain_number", c.clock.domain, 0, {.low = 0, .high = 127, .help = "PTP domain of ptp4l"})
      .key("clock.bound_ns", c.clock.bound_ns, 1000,
           {.unit = "ns",
            .low = 1,
            .high = 1000000000,
            .help = "a larger offset from the master suspends release offsets"})
      .key(
          "clock.required", c.clock.required, false,
          {.help =
               "suspend release offsets also when clock.source is none; they count from a collective's local start, so "
               "that hosts without a common clock can use them"})
      .key("bpf.mode", c.bpf.mode, "auto",
           {.choices = {"auto", "off", "required"},
            .help = "count bytes and retransmissions in the kernel and set DSCP there; auto: what the kernel allows, "
                    "on agent.interface"})
      .key("metrics.listen_address", c.metrics.listen_address, "127.0.0.1:9465",
           {.help = "ADDRESS:PORT that serves Prometheus metrics; empty: none"})
      .key("security.mode", c.security.mode, "plain",
           {.choices = {"plain", "curve"}, .help = "plain sockets, only on this machine; or CURVE keys"})
      .key("security.allow_plain", c.security.allow_plain, false,
           {.help = "with security.mode plain: allow it also to a controller on another machine"})
      .key("security.key_file", c.security.key_file, "",
           {.help = "this agent's CURVE key pair, with security.mode curve"})
      .key("security.server_key_file", c.security.server_key_file, "",
           {.help = "the controller's public CURVE key, with security.mode curve"})
      .key(
          "log.level", c.log.level, "info",
          {.choices = {"trace", "debug", "info", "warning", "error"}, .help = "least severe messages that are logged"});
}

void add_rules(config::Table& table, AgentConfig& c) {
  table
      .rule("agent.host",
            [&c]() -> std::string {
              if (c.agent.host.empty()) c.agent.host = host_name();
              return c.agent.host.empty() ? "this machine has no host name; set it" : "";
            })
      .rule("agent.socket_mode",
            [&c]() -> std::string {
              mode_t mode = 0;
              return parse_mode(c.agent.socket_mode, mode) ? "" : "is not octal permissions such as 0660";
            })
      .rule("agent.only_interface",
            [&c]() -> std::string {
              return c.agent.only_interface && c.agent.interface.empty() ? "needs agent.interface" : "";
            })
      .rule("agent.extra_addresses",
            [&c]() -> std::string {
              for (const std::string& text : c.agent.extra_addresses)
                if (const auto address = IpAddress::parse(text); !address) return address.error().message;
              return "";
            })
      .rule("limits.ring_events_count",
            [&c]() -> std::string {
              return (c.limits.ring_events & (c.limits.ring_events - 1)) == 0 ? "" : "must be a power of two";
            })
      .rule("security.key_file",
            [&c]() -> std::string {
              const bool missing = c.security.mode == "curve" && c.security.key_file.empty();
              return missing ? "must be set with security.mode curve; or set security.mode to plain" : "";
            })
      .rule("security.server_key_file", [&c]() -> std::string {
        const bool missing = c.security.mode == "curve" && c.security.server_key_file.empty();
        return missing ? "must be set with security.mode curve; copy the controller's .pub file here" : "";
      });
}

}  // namespace

config::Table agent_config_table(AgentConfig& config) {
  config::Table table("orrery-agent");
  add_agent_keys(table, config);
  add_timing_keys(table, config);
  add_limit_keys(table, config);
  add_host_keys(table, config);
  add_rules(table, config);
  // The preload library's, often set for every process of a job.
  table.ignore_environment("ORRERY_AGENT_SOCKET");
  return table;
}

mode_t socket_mode(const AgentConfig& config) {
  mode_t mode = 0;
  return parse_mode(config.agent.socket_mode, mode) ? mode : 0600;
}

}  // namespace orrery::daemon
