// Small good files of every format that the simulator reads, written by hand in the form of the real ones.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/sim/workload/readers.h"

namespace orrery::sim::samples {

extern const std::string kAicb, kSimai, kHtsim, kNcclTests, kIntents, kScenario;

// The protobuf of Chakra's schema, by hand.
struct ChakraSample {
  uint64_t id = 0;
  uint64_t type = 0;
  uint64_t duration_us = 0;
  std::vector<uint64_t> after;
  std::vector<std::pair<std::string, uint64_t>> numbers;  // attributes
  std::string group;
};
std::string chakra_file(const std::vector<ChakraSample>& nodes);
// Two ranks: rank 0 computes, sends to rank 1, and both end with an all-reduce.
std::vector<Input> chakra();

// One of each format, as read_workload() takes them; `ranks` that suit all.
std::vector<std::pair<Format, std::vector<Input>>> all();

}  // namespace orrery::sim::samples
