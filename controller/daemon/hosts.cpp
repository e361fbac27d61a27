#include "controller/daemon/hosts.h"

#include <algorithm>

namespace orrery::daemon {
namespace {
// Without a window for so long, an agent that seems to have started earlier is a new one on a clock that was set back.
constexpr uint64_t kSilentNs = 2'000'000'000;
}  // namespace

HostBook::HostBook(const fabric::Graph& fabric, uint64_t now_ns) {
  for (const fabric::Node& node : fabric.nodes())
    if (node.kind == fabric::NodeKind::kHost) hosts_[node.name].gone_since_ns = now_ns;
}

HostBook::Arrival HostBook::on_window(const msg::IntentWindow& window, uint64_t now_tai_ns) {
  HostRecord& host = hosts_[window.host];
  Arrival arrival = Arrival::kNext;
  if (window.agent_start_tai_ns != host.agent_start_tai_ns) {
    const bool silent = now_tai_ns > host.last_window_tai_ns + kSilentNs;
    if (window.agent_start_tai_ns < host.agent_start_tai_ns && !silent)
      return Arrival::kRepeated;  // of an agent that has been replaced
    arrival = Arrival::kRestarted;
    host.agent_start_tai_ns = window.agent_start_tai_ns;
  } else {
    if (window.sequence <= host.last_sequence) return Arrival::kRepeated;
    host.windows_lost += window.sequence - host.last_sequence - 1;
  }
  host.last_sequence = window.sequence;
  ++host.windows;
  host.last_seen_tai_ns = now_tai_ns;
  host.last_window_tai_ns = now_tai_ns;
  host.losses = window.losses;
  host.clock = window.clock;
  return arrival;
}

bool HostBook::on_hello(const msg::AgentHello& hello, uint64_t now_tai_ns) {
  const bool had_roce = has_roce(hello.host);
  HostRecord& host = hosts_[hello.host];
  host.connected = true;
  host.last_seen_tai_ns = now_tai_ns;
  host.processes = hello.processes;
  host.features = hello.features;
  host.layers = hello.layers;
  return had_roce != has_roce(hello.host);
}

void HostBook::on_gone(const std::string& host, uint64_t now_ns) {
  hosts_[host].connected = false;
  hosts_[host].gone_since_ns = now_ns;
}

bool HostBook::has_roce(std::string_view host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && std::ranges::find(found->second.features, "roce") != found->second.features.end();
}

bool HostBook::connected(std::string_view host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && found->second.connected;
}

size_t HostBook::connected_count() const {
  return static_cast<size_t>(
      std::count_if(hosts_.begin(), hosts_.end(), [](const auto& host) { return host.second.connected; }));
}

}  // namespace orrery::daemon
