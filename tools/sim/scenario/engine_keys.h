// The keys of `engine` in a scenario file.
#pragma once

#include "tools/sim/scenario/map_reader.h"
#include "tools/sim/scenario/scenario.h"

namespace orrery::sim {

// Thresholds, buffers and rate steps for hosts of this rate, from those for 100 Gb/s and in proportion, as vendors
// recommend them.
void suit_rate(PacketConfig& packet, uint64_t rate_bps);

// Into scenario.engine, sharing and packet.
void read_engine(const fabric::YamlNode& node, Scenario& scenario, fabric::Mistakes& mistakes);

}  // namespace orrery::sim
