#include "agent/preload/port_choice.h"

#include "common/abi/ecmp_hash_abi.h"

namespace orrery::preload {

PortChoice::PortChoice(const orrery_plan_entry& entry, const Endpoint& local, const Endpoint& remote, uint32_t start)
    : entry_(entry), remote_port_(remote.port) {
  if (entry.src_port_first == 0) return;
  if (entry.hop_count != 0 && (!to_v4(local, &local_) || !to_v4(remote, &remote_))) return;
  for (uint32_t i = 0; i < entry.hop_count; ++i)
    if (entry.hops[i].hash_function != ORRERY_HASH_MURMUR_5TUPLE) return;
  range_ = static_cast<uint32_t>(entry.src_port_last) - entry.src_port_first + 1;
  start_ = start % range_;
}

uint16_t PortChoice::next() {
  while (tried_ < range_) {
    const auto port = static_cast<uint16_t>(entry_.src_port_first + (start_ + tried_++) % range_);
    if (takes(port)) return port;
  }
  return 0;
}

bool PortChoice::takes(uint16_t port) const {
  return range_ != 0 && port >= entry_.src_port_first && port <= entry_.src_port_last &&
         (port & entry_.src_port_mask) == entry_.src_port_value && wins(port);
}

bool PortChoice::wins(uint16_t port) const {
  for (uint32_t i = 0; i < entry_.hop_count; ++i) {
    const orrery_plan_hop& hop = entry_.hops[i];
    const uint32_t hash = orrery_ecmp_hash(hop.seed, local_, remote_, port, remote_port_, entry_.protocol);
    if (orrery_ecmp_member(hash, hop.group_size) != hop.member) return false;
  }
  return true;
}

}  // namespace orrery::preload
