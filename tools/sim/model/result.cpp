#include "tools/sim/model/result.h"

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

}  // namespace orrery::sim
