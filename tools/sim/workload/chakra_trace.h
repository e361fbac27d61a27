// One rank's Chakra execution trace, decoded: MLCommons' schema et_def.proto, read by hand for the fields that matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/sim/model/types.h"
#include "tools/sim/workload/readers.h"

namespace orrery::sim {

struct ChakraNode {
  enum class Kind : uint8_t { kOther, kCompute, kSend, kReceive, kCollective };
  uint64_t offset = 0;  // in the file
  uint64_t id = 0;
  Kind kind = Kind::kOther;
  Time duration = 0;
  std::vector<uint64_t> after;       // ids of nodes
  uint64_t collective = UINT64_MAX;  // CollectiveCommType
  uint64_t bytes = 0;
  uint64_t src = 0, dst = 0, tag = 0, root = 0;
  std::string group;  // of processes; empty: all
};

// Nodes in the order of the file. Errors: kInvalidArgument, with the byte. `left`: how many nodes may be there; counted
// down.
Result<std::vector<ChakraNode>> decode_chakra(const Input& input, uint64_t& left);

}  // namespace orrery::sim
