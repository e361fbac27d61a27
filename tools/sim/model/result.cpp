#include "tools/sim/model/result.h"

#include <algorithm>
#include <bit>

namespace orrery::sim {

Totals& Totals::operator+=(const Totals& other) {
  events += other.events;
  hops += other.hops;
  data_hops += other.data_hops;
  drops += other.drops;
  marks += other.marks;
  pauses += other.pauses;
  cnps += other.cnps;
  retransmitted += other.retransmitted;
  path_changes += other.path_changes;
  delivered_messages += other.delivered_messages;
  delivered_bytes += other.delivered_bytes;
  return *this;
}

size_t QueueTimes::class_of(uint64_t bytes) {
  if (bytes < 8) return bytes == 0 ? 0 : 1;
  const auto octave = static_cast<size_t>(std::bit_width(bytes)) - 1;
  return std::min(kClasses - 1, 1 + 8 * (octave - 3) + (bytes >> (octave - 3)) % 8);
}

uint64_t QueueTimes::most_in(size_t depth_class) {
  if (depth_class == 0) return 0;
  const size_t octave = (depth_class - 1) / 8 + 3, part = (depth_class - 1) % 8;
  return ((uint64_t{9} + part) << (octave - 3)) - 1;
}

void QueueTimes::add(uint64_t bytes, uint64_t ns) {
  if (port_ns.empty()) port_ns.resize(kClasses);
  port_ns[class_of(bytes)] += ns;
}

QueueTimes& QueueTimes::operator+=(const QueueTimes& other) {
  if (port_ns.empty()) port_ns.resize(kClasses);
  for (size_t i = 0; i < other.port_ns.size(); ++i) port_ns[i] += other.port_ns[i];
  return *this;
}

}  // namespace orrery::sim
