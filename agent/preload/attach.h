// The connection to the agent of this host: handshake, health, loss and return. Never on a hot path.
//
// Nothing here waits, with one exception: attach_for_communicator() gives the agent up to kReplyWaitMs to answer, once
// per attempt, because the communicator that is about to be made must be announced before its first connection and
// making it takes far longer.
#pragma once

#include <stdint.h>

namespace orrery::preload {

inline constexpr int kReplyWaitMs = 20;
inline constexpr uint64_t kRetryNs = 1000000000;          // between attempts to reach an agent
inline constexpr uint64_t kRefusedRetryNs = 10000000000;  // after an answer that will not change soon
inline constexpr uint64_t kAgentSilenceNs = 3000000000;  // an agent that does not stamp the segment for so long is gone
inline constexpr uint64_t kTickNs = 250000000;           // least time between two looks at the connection
inline constexpr uint32_t kCallsPerTick = 128;  // calls between two looks at the clock, where nobody else reads it

// `path` null or empty: the default. To be called once, before anything else here.
void choose_agent_socket(const char* path);

// Takes the next step of attaching, or checks that the agent is still there, when that is due. Keeps errno.
extern uint64_t next_tick_ns;
void tick_slow(uint64_t now);
inline void tick(uint64_t now) {
  if (now >= __atomic_load_n(&next_tick_ns, __ATOMIC_RELAXED)) [[unlikely]]
    tick_slow(now);
}
void tick_now_slow();
// For callers that do not know the time: `calls` is the caller's count.
inline bool tick_is_due(uint32_t calls) {
  return (calls + 1) % kCallsPerTick == 0;
}
inline void tick_sometimes(uint32_t& calls) {
  if (tick_is_due(calls++)) [[unlikely]]
    tick_now_slow();
}
void attach_for_communicator();

// "Drain my rings now." Precondition: attached.
void ring_doorbell();

// Whether `fd` is our connection, which the application must not see, and not something of the application's that has
// got its number since. When an application is about to reuse the number (dup2), it moves away.
bool is_agent_connection_slow(int fd);
extern int connection_number;  // -1 without one
inline bool is_agent_connection(int fd) {
  return fd >= 0 && fd == __atomic_load_n(&connection_number, __ATOMIC_RELAXED) && is_agent_connection_slow(fd);
}
void move_connection_away(int fd);

void drop_connection_in_child();
// In a forked child that is going to attach by itself.
void forget_connection_of_parent();

}  // namespace orrery::preload
