// The checks of a topology that go beyond the form of the file: names, ranges, cabling, reachability.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/fabric/mistakes.h"
#include "controller/fabric/topology.h"

namespace orrery::fabric {

// Where a value stands in the file, and whether it could be read: what could not is reported already and is not judged
// again.
struct Place {
  uint32_t line = 0;
  bool readable = true;
};

struct PortPlaces {
  Place name, rate, queue, address;
};
struct NodePlaces {
  Place name, tier, ports;
  std::vector<PortPlaces> each_port;
};
struct CablePlaces {
  Place a, b;
};

// Parallel to the vectors of the Topology it describes.
struct Places {
  Place name, mtu;
  std::vector<NodePlaces> switches;
  std::vector<NodePlaces> hosts;
  std::vector<CablePlaces> links;
  bool links_complete = true;  // false: some could not be read, so that a port without a cable may have one
};

// Places for a topology that came from no file.
Places places_without_file(const Topology& topology);
void check_topology(const Topology& topology, const Places& places, Mistakes& mistakes);

// Reports `value` when outside [low, high] and returns whether it was inside.
bool check_range(uint64_t value, uint64_t low, uint64_t high, std::string_view unit, uint32_t line, std::string key,
                 Mistakes& mistakes);

// The same for the bytes of a queue, which holds at least one packet. `mtu_bytes` 0: not known.
bool check_queue(uint64_t bytes, uint32_t mtu_bytes, uint32_t line, std::string key, Mistakes& mistakes);

// ", did you mean 'x'?" or `otherwise`.
std::string hint_or(std::string_view wrong, std::span<const std::string_view> valid, std::string_view otherwise);

}  // namespace orrery::fabric
