// What a study takes, before it is begun: of the parts that grow with fabric and jobs, as counts, and the memory of
// each.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "controller/fabric/topology.h"
#include "tools/sim/schemes/scheme.h"
#include "tools/sim/workload/jobs.h"

namespace orrery::sim {

// What can be had without swapping: of the machine, the control group and the process (ulimit -v) the least; 0 when
// none of them says.
uint64_t available_memory();

struct Load {
  double links = 0;
  double equal_paths = 1;  // between two hosts, at most
  JobSize jobs;
  double pairs = 0;  // of hosts that send to each other, both ways as one
};
// Of the fabric; paths between some hosts stand for all.
Load load_of(const fabric::Graph& graph);
// The same of a fabric that is not made yet.
Load load_of(const fabric::LeafSpine& shape);
// What a job takes at most, and what is there.
void add_load(const Job& job, Load& load);
void add_load(const Traffic& traffic, Load& load);

struct StudySize {
  std::span<const Scheme> schemes;
  SchemeOptions options;
  uint32_t subflows = 1;  // of planned schemes: subflows_of()
  bool fluid = false;
  bool ideal = true;
  uint64_t seeds = 1;
  uint32_t parallel = 1;  // runs at a time
  bool record = false;    // what links do over time, per scheme
  bool document = false;  // written after every run
};

// Bytes at the peak, an upper bound within twice of what is taken (memory_test.cpp measures both).
uint64_t memory_needed(const Load& load, const StudySize& study);
// Of the fabric alone.
uint64_t fabric_memory(const Load& load);

// "31 GiB", "310 MiB".
std::string memory_text(uint64_t bytes);

}  // namespace orrery::sim
