// The keys of `engine` in a scenario file.
#pragma once

#include "tools/sim/scenario/map_reader.h"
#include "tools/sim/scenario/scenario.h"

namespace orrery::sim {

void read_engine(const fabric::YamlNode& node, Engine& engine, PacketConfig& packet, fabric::Mistakes& mistakes);

}  // namespace orrery::sim
