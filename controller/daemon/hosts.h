// What the controller knows of the hosts of the fabric and their agents. Bounded by the topology file: unknown hosts
// never get here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/msg/intent_messages.h"
#include "common/msg/plan_messages.h"
#include "controller/fabric/graph.h"

namespace orrery::daemon {

struct HostRecord {
  bool connected = false;      // its agent's hello is fresh
  uint64_t gone_since_ns = 0;  // CLOCK_MONOTONIC; since when it is not connected
  uint64_t last_seen_tai_ns = 0;
  uint32_t processes = 0;
  std::vector<std::string> features;  // of its agent, as last said
  std::vector<uint32_t> layers;       // attached processes by preload layer
  uint64_t windows = 0;
  uint64_t windows_lost = 0;   // gaps in the sequence
  uint64_t last_sequence = 0;  // of this agent start
  uint64_t agent_start_tai_ns = 0;
  uint64_t last_window_tai_ns = 0;
  msg::Losses losses;
  msg::ClockState clock;
};

class HostBook {
 public:
  enum class Arrival { kNext, kRestarted, kRepeated };

  HostBook(const fabric::Graph& fabric, uint64_t now_ns);

  // Counts the window. kRestarted: the agent is a new one, what the old one reported of flows is void. kRepeated: an
  // old window, to be ignored.
  Arrival on_window(const msg::IntentWindow& window, uint64_t now_tai_ns);
  // Whether the host has become, or is no longer, one that speaks RoCE.
  bool on_hello(const msg::AgentHello& hello, uint64_t now_tai_ns);
  void on_gone(const std::string& host, uint64_t now_ns);

  const std::map<std::string, HostRecord, std::less<>>& all() const { return hosts_; }
  bool connected(std::string_view host) const;
  bool has_roce(std::string_view host) const;
  size_t connected_count() const;

 private:
  std::map<std::string, HostRecord, std::less<>> hosts_;
};

}  // namespace orrery::daemon
