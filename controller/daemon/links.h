// Links as the switches' telemetry shows them: state, counters, utilisation over the last second.
//
// A cable is up when neither end says it is down. Hosts send no telemetry: what a host's NIC sends is what the leaf's
// port receives.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/msg/switch_messages.h"
#include "controller/fabric/graph.h"

namespace orrery::daemon {

struct LinkRecord {
  bool port_down = false;  // as its own switch says
  uint64_t tx_bytes = 0;   // totals since the switch agent started
  uint64_t drops = 0;
  uint64_t queue_max_bytes = 0;  // since the sample before
  struct Sample {
    uint64_t at_tai_ns = 0;
    uint64_t tx_bytes = 0;
  };
  std::deque<Sample> samples;  // of a little more than the last second
};

class LinkBook {
 public:
  // `fabric` gets the link states and outlives the book.
  explicit LinkBook(fabric::Graph& fabric) : fabric_(fabric), links_(fabric.links().size()) {}

  // Whether some link went up or down.
  bool on_telemetry(const msg::SwitchTelemetry& telemetry);
  const LinkRecord& record(fabric::LinkId link) const { return links_[link]; }
  // 0..1 of the link's rate; 0 when telemetry is older than three seconds.
  double utilization(fabric::LinkId link, uint64_t now_tai_ns) const;

 private:
  std::optional<fabric::LinkId> port_of(const msg::SwitchTelemetry& telemetry, const std::string& port) const;
  void add_sample(fabric::LinkId link, uint64_t at_tai_ns, uint64_t tx_bytes);
  bool set_port(fabric::LinkId link, bool up);

  fabric::Graph& fabric_;
  std::vector<LinkRecord> links_;
};

}  // namespace orrery::daemon
