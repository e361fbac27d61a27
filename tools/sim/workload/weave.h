// How collectives are put into a Traffic: sends of ranks, and events that later sends of a rank wait for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <unordered_set>
#include <vector>

#include "tools/sim/workload/collectives.h"

namespace orrery::sim {

// Part `index` of `bytes` in `parts`, and the sum of several from `first` on, round the end.
uint64_t part_of(uint64_t bytes, uint32_t parts, uint32_t index);
uint64_t parts_of(uint64_t bytes, uint32_t parts, uint32_t first, uint32_t count);

// What a task on a rank's host can wait for.
struct Awaited {
  enum class Kind : uint8_t { kNothing, kTask, kDelivered, kAcknowledged };
  Kind kind = Kind::kNothing;
  uint32_t index = kNone;
};

struct Sent {
  Awaited arrived;   // for the receiving rank
  Awaited released;  // for the sending rank: its buffer is free again
};

// One collective being put into a Traffic.
class Weaver {
 public:
  Weaver(Communicator& communicator, const Collective& collective, const std::vector<uint32_t>& ready);

  const Collective& collective() const { return collective_; }
  const CommunicatorOptions& options() const { return communicator_.options_; }
  uint32_t ranks() const { return communicator_.ranks(); }
  uint32_t host(uint32_t rank) const { return communicator_.hosts_[rank]; }
  uint64_t channel_bytes(uint32_t channel) const;

  // `round` gives the phase. Not before the rank is ready, nor before what it sent on the same connection.
  Sent send(uint32_t src, uint32_t dst, uint64_t bytes, uint32_t channel, uint32_t round,
            std::span<const Awaited> waits);
  Sent send(uint32_t src, uint32_t dst, uint64_t bytes, uint32_t channel, uint32_t round,
            std::initializer_list<Awaited> waits) {
    return send(src, dst, bytes, channel, round, std::span<const Awaited>(waits.begin(), waits.size()));
  }
  // What is sent from now on starts with all of its phase, so that a planner may give each its round.
  void at_once(bool at_once) { exchange_ = at_once; }
  // One event for several.
  Awaited join(uint32_t rank, std::span<const Awaited> events);
  // The collective is not over for the rank before this.
  void finish(uint32_t rank, const Awaited& event);
  // The task of each rank that ends it.
  std::vector<uint32_t> done();

 private:
  void wait_for(const Awaited& event, uint32_t task);
  void wait_for_all(std::span<const Awaited> events, uint32_t rank, uint32_t task, bool first);
  Sent send_inside(uint32_t src, uint64_t bytes, uint32_t channel, std::span<const Awaited> waits);

  Communicator& communicator_;
  Traffic& traffic_;
  const Collective& collective_;
  const std::vector<uint32_t>& ready_;
  std::vector<uint32_t> done_;
  bool exchange_ = false;
  std::unordered_set<uint32_t> opened_;                       // flows that have sent
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> inside_;  // by rank and channel: the last NVLink hop
};

// Each adds all sends of a collective of more than one rank; collectives.cpp has checked that it can.
void weave_ring(Weaver& weaver, uint32_t steps);
void weave_broadcast(Weaver& weaver);
void weave_reduce(Weaver& weaver);
void weave_tree(Weaver& weaver);
void weave_halving_doubling(Weaver& weaver);
void weave_pat(Weaver& weaver);
void weave_pairwise(Weaver& weaver);
void weave_hierarchical(Weaver& weaver);
void weave_direct(Weaver& weaver);

uint32_t chunk_count(uint64_t channel_bytes, const CommunicatorOptions& options);
// Slices of a step of a ring that has `all` steps before they are merged.
uint32_t ring_slices(uint64_t channel_bytes, uint32_t ranks, uint32_t all, const CommunicatorOptions& options);
// ceil(log2(n))
uint32_t log2_up(uint32_t n);

}  // namespace orrery::sim
