// Everything an operator can set of orrery-agent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "common/config/table.h"

namespace orrery::daemon {

struct AgentConfig {
  struct {
    std::string host, socket_path, socket_mode, interface;
    bool only_interface = false;
    config::List extra_addresses;
  } agent;
  struct {
    std::string intents_endpoint, agents_endpoint;
  } controller;
  struct {
    uint32_t length_ms = 0, idle_ms = 0, quiet_ms = 0, progress_ms = 0;
  } window;
  struct {
    uint32_t flowlet_gap_us = 0, hold_cap_us = 0;
  } preload;
  struct {
    uint32_t processes = 0, communicators = 0, open_collectives = 0, rings = 0, ring_events = 0, flows = 0;
    uint32_t plan_flows = 0, plan_entries = 0;
  } limits;
  struct {
    std::string source, socket_path;
    uint32_t domain = 0;
    uint64_t bound_ns = 0;
    bool required = false;
  } clock;
  struct {
    std::string mode;
  } bpf;
  struct {
    std::string listen_address;
  } metrics;
  struct {
    std::string mode, key_file, server_key_file;
    bool allow_plain = false;
  } security;
  struct {
    std::string level;
  } log;
};

// `config` must outlive the table.
config::Table agent_config_table(AgentConfig& config);
// agent.socket_mode as a number; the table has checked it.
mode_t socket_mode(const AgentConfig& config);

}  // namespace orrery::daemon
