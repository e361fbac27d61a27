// Collectives as dependency graphs: what each rank sends, and what it must have received before it does.
//
// Bytes are those of nccl-tests: the whole array, also for all-gather and reduce-scatter, whose share per rank is
// bytes / ranks, and for all-to-all, where it is what each rank sends, its own part included. Volumes are exact to the
// byte: parts differ by one where a division has a rest.
//
// Ranks on one host reach each other by NVLink, modelled as a computation of latency + bytes / rate, one after the
// other per rank and channel; all others by transfers. Reductions take no time of their own beyond `step_delay`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/base/result.h"
#include "tools/sim/model/traffic.h"

namespace orrery::sim {

enum class Op : uint8_t { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kReduce, kAllToAll, kSendRecv };

enum class Algorithm : uint8_t {
  kDefault,          // ring; pairwise for all-to-all; direct for send/recv
  kRing,             // all-reduce, all-gather, reduce-scatter; for broadcast and reduce the chain from or to the root
  kTree,             // all-reduce: double binary tree over hosts, a chain inside each
  kHalvingDoubling,  // all-reduce of any number of ranks; all-gather and reduce-scatter of a power of two
  kPat,              // all-gather, reduce-scatter: parallel aggregated trees, log2(ranks) steps
  kPairwise,         // all-to-all: in round r rank i sends to i + r
  kHierarchical,     // all-to-all: exchange inside each host by destination index, then between equal indices
  kDirect            // send/recv
};

std::string_view name_of(Op op);                 // "all_reduce"
std::string_view name_of(Algorithm algorithm);   // "halving_doubling"
std::optional<Op> op_of(std::string_view name);  // also "AllReduce", "ALLREDUCE", "all-reduce"
std::optional<Algorithm> algorithm_of(std::string_view name);

inline constexpr uint64_t kMaxCollectiveBytes = uint64_t{1} << 50;

struct Collective {
  Op op = Op::kAllReduce;
  Algorithm algorithm = Algorithm::kDefault;
  uint64_t bytes = 0;
  uint32_t root = 0;      // broadcast and reduce; who sends
  uint32_t peer = kNone;  // send/recv: who receives; kNone: every rank sends `bytes` to the next (nccl-tests sendrecv)
  // The phase of its flows. Rounds that never overlap (all-to-all, halving-doubling, PAT) take this one and the
  // phases_of() - 1 that follow, when `split_phases` says so.
  uint32_t first_phase = 0;
  bool split_phases = false;
};

struct CommunicatorOptions {
  uint32_t channels = 1;  // the bytes of a collective are shared by as many connections per pair
  // Rings send in at most this many steps, as many bytes as ever; 0: in as many as there are. A ring with fewer steps
  // pays its latency fewer times.
  uint32_t max_steps = 0;
  // Rings send on what has come in slices of at most this; 0: whole steps.
  uint64_t slice_bytes = 0;
  uint64_t chunk_bytes = 1 << 20;  // trees and chains are pipelined in chunks of about this, per channel,
  uint32_t max_chunks = 16;        // but not in more
  uint32_t round_width = 1;        // peers that a rank of an all-to-all exchanges with at once
  Time step_delay = 0;             // of every send: software between receiving and sending on
  double nvlink_bps = 2.4e12;
  Time nvlink_latency = 1 * kPerUs;
};

// What kDefault stands for; else what the collective says.
Algorithm algorithm_for(const Collective& collective);

// Whether so many ranks, one per host, can do it. Errors: kInvalidArgument says what they can.
Status check(const Collective& collective, uint32_t ranks);

// Most transfers that a collective of so many ranks can take; fewer when ranks share hosts.
uint64_t transfers_of(const Collective& collective, uint32_t ranks, const CommunicatorOptions& options);
// How many phases it takes at most.
uint32_t phases_of(const Collective& collective, uint32_t ranks, const CommunicatorOptions& options);

// Ranks that send to each other, and their connections, which all collectives share: one flow per pair, direction,
// channel and phase.
class Communicator {
 public:
  // `hosts`: the host of each rank. `traffic` outlives it.
  Communicator(Traffic& traffic, uint32_t job, std::vector<uint32_t> hosts, const CommunicatorOptions& options = {});

  // Rank i starts when task ready[i] is done, and the collective is over for it when the i-th of the returned tasks is.
  // Both are on the rank's host. Errors: kInvalidArgument (an algorithm that the operation does not have, a rank out of
  // range); `traffic` is unchanged then.
  Result<std::vector<uint32_t>> add(const Collective& collective, const std::vector<uint32_t>& ready);

  uint32_t ranks() const { return static_cast<uint32_t>(hosts_.size()); }

 private:
  friend class Weaver;
  Traffic& traffic_;
  uint32_t job_;
  uint32_t number_;
  std::vector<uint32_t> hosts_;
  CommunicatorOptions options_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, uint32_t> flows_;  // src, dst, channel, phase
};

}  // namespace orrery::sim
