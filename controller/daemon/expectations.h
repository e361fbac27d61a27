// What a simulation predicted that NICs send, and how live traffic compares with it. Part of the core's books.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/msg/control_messages.h"
#include "common/telemetry/metrics.h"
#include "controller/daemon/nic_prediction.h"
#include "controller/daemon/nic_traffic.h"
#include "controller/fabric/graph.h"

namespace orrery::daemon {

class Expectations {
 public:
  // Both outlive it.
  Expectations(const fabric::Graph& fabric, telemetry::Metrics& metrics);

  // In place of the one before.
  void take(NicPrediction prediction) { prediction_ = std::move(prediction); }
  // Of the NIC with the address; 0: nothing is expected of it.
  uint64_t bytes_per_iteration(const IpAddress& address) const;
  // Bytes that each NIC has sent, by the index in Graph::nics(). Nothing is kept while there is no prediction.
  void sample(std::span<const uint64_t> sent_bytes, uint64_t now_ns);
  msg::NicForecasts list() const;

 private:
  const fabric::Graph& fabric_;
  std::optional<NicPrediction> prediction_;
  NicTraffic traffic_;
  telemetry::Gauge& deviating_;
};

}  // namespace orrery::daemon
