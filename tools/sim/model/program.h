// What is to be simulated: queue pairs with their paths, messages, and the steps that release messages.
//
// A step waits for `pending` things, then for `delay`, then does its part: it releases a message, or is itself the end
// of a computation; then it counts down its successors. Every successor of a step is on the step's own host, every
// successor of a delivered message on the receiving host, of an acknowledged one on the sending host: no host knows
// what another does but by packets. Plain arrays and indices; immutable while it runs.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/model/types.h"

namespace orrery::sim {

struct Successors {
  uint32_t first = 0;  // into Program::successors
  uint32_t count = 0;
};

struct Step {
  uint32_t host = 0;
  uint32_t pending = 0;  // how many completions it waits for; 0: starts at time 0
  Time delay = 0;
  uint32_t message = kNone;  // released when the step is done
  Successors successors;
  uint32_t alignment = kNone;  // into Program::alignments
};

// A step that is early waits for the next multiple of `period` after `phase`, for at most `limit`; one that is late by
// less than half a period does not wait. kNever: it waits in any case.
struct Alignment {
  Time period = 1;
  Time phase = 0;
  Time limit = kNever;
};

struct Message {
  uint32_t qp = 0;
  uint64_t bytes = 0;
  Successors on_delivered;
  Successors on_acknowledged;
};

// What a sender does with the paths of a queue pair.
enum class PathPolicy : uint8_t {
  kStatic,   // the first, the others are backups
  kSpray,    // another for every packet
  kFlowlet,  // another after a pause
  kRecycle,  // the path of an ACK that came back unmarked, else the next: REPS (Bonato et al. 2024)
  kRehash,   // another when marks persist: PLB (Qureshi et al., SIGCOMM 2022)
  kBurst     // another at the start of a message, when telemetry says that this one is congested
};

struct QueuePair {
  uint32_t src = 0;  // host indices
  uint32_t dst = 0;
  uint32_t first_path = 0;  // into Program::qp_paths
  uint32_t path_count = 0;
  PathPolicy policy = PathPolicy::kStatic;
  uint32_t first_message = 0;  // into Program::qp_messages: its messages, in the order they are sent
  uint32_t message_count = 0;
  uint64_t pace_bps = 0;  // 0: the NIC's rate
};

struct Program {
  std::vector<QueuePair> qps;
  std::vector<Message> messages;
  std::vector<uint32_t> qp_messages;  // message indices, grouped by queue pair
  std::vector<Step> steps;
  std::vector<uint32_t> successors;  // step indices
  std::vector<Alignment> alignments;
  std::vector<uint32_t> qp_paths;  // path indices, grouped by queue pair
  std::vector<PathLinks> paths;
  std::vector<uint32_t> reverse_of;  // by path: the way back over the same cables, which ACKs take
};

// How long `step` takes from `now`, when it has all that it waits for.
inline Time delay_of(const Program& program, const Step& step, Time now) {
  if (step.alignment == kNone) return step.delay;
  const Alignment& to = program.alignments[step.alignment];
  const Time wait = (to.period - (now + step.delay) % to.period + to.phase % to.period) % to.period;
  if (to.limit == kNever) return step.delay + wait;
  return step.delay + (wait > to.period / 2 ? 0 : wait < to.limit ? wait : to.limit);
}

}  // namespace orrery::sim
