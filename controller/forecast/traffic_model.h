// From a collective to the flows it sends: which ranks talk to which, and how many bytes each sends. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::forecast {

struct RankFlow {
  uint32_t src_rank = 0;
  uint32_t dst_rank = 0;
  uint64_t bytes = 0;
};

// Flows of one collective by NCCL's ring algorithm (send/recv and all-to-all: direct), payload bytes as sent by each
// rank over all channels. `op` is enum orrery_collective_op, `bytes` as the call names them, `peer` the root or peer
// rank; `caller` matters for send and recv only. Source: volumes per rank of NCCL's ring algorithm, 2(n-1)/n * S for
// all-reduce; broadcast and reduce are pipelines along the ring that begin and end at the root. Volumes are rounded up
// alike for all ranks, because flows of equal size can be planned exactly. No flows: an unknown op, fewer than two
// ranks, a root or peer outside the communicator, or more than kMaxFlows.
inline constexpr uint64_t kMaxFlows = 1u << 20;
std::vector<RankFlow> flows_of(uint16_t op, uint64_t bytes, uint32_t nranks, uint32_t peer, uint32_t caller);

// What each of these flows carries; 0: an unknown op, or fewer than two ranks.
uint64_t flow_bytes(uint16_t op, uint64_t bytes, uint32_t nranks);

}  // namespace orrery::forecast
