/* The shared-memory segment of one training process: a memfd made by the agent, mapped read-write by both. Sealed
 * against resizing.
 *
 *   header | ring_count x (ring header + ring_events x event) | flow_slots x flow counters
 *
 * Ownership: the agent initialises everything before it hands the memfd over and afterwards writes only `consumed` of
 * each ring and `agent_alive_ns`. All else is the process's and hostile: the agent bounds every index it reads by the
 * sizes it chose itself, never by those in the header.
 *
 * A ring has one writer thread (the one that claimed it by compare-and-swap on `owner`) and one reader (the agent). A
 * full ring drops the event and counts it in `dropped`. `produced` and `consumed` count events since the start and wrap
 * at 2^64; the slot is the count modulo ring_events. */
#ifndef ORRERY_COMMON_ABI_SEGMENT_ABI_H
#define ORRERY_COMMON_ABI_SEGMENT_ABI_H

#include "common/abi/event_abi.h"

#define ORRERY_SEGMENT_MAGIC 0x4752535952524f31ull /* "1ORRYSRG" read as a little-endian word */

struct orrery_segment_header {
  orrery_u64 magic;
  orrery_u32 abi_version;
  orrery_u32 header_bytes; /* offset of the first ring */
  orrery_u32 ring_count;
  orrery_u32 ring_events; /* power of two */
  orrery_u32 ring_bytes;  /* distance between rings */
  orrery_u32 flow_slots;
  orrery_u64 flows_offset; /* offset of the first flow counter */
  orrery_u64 total_bytes;
  orrery_u64 agent_alive_ns; /* CLOCK_MONOTONIC, refreshed by the agent at least every second */
  orrery_u64 lost_no_ring;   /* events of threads that found no free ring */
  orrery_u64 lost_no_slot;   /* flows that found no free counter slot */
  orrery_u8 reserved[56];
};

struct orrery_ring_header {
  /* writer's line */
  orrery_u64 produced;
  orrery_u64 dropped;
  orrery_u32 owner; /* kernel thread id of the writer, 0 when free */
  orrery_u32 pad0;
  orrery_u64 consumed_seen; /* the writer's last look at `consumed`, so that a push need not touch the reader's line */
  orrery_u8 pad1[32];
  /* reader's line */
  orrery_u64 consumed;
  orrery_u8 pad2[56];
};

/* Live counters of one flow, updated in place by the hooks so that a byte costs no event. `generation` is odd while the
 * slot is in use. */
struct orrery_flow_counters {
  orrery_u32 generation;
  orrery_u32 bursts; /* bursts sent: sends after a pause longer than the flowlet gap */
  orrery_u64 tx_bytes;
  orrery_u64 rx_bytes;
  orrery_u64 first_tx_ns; /* first send of the current burst */
  orrery_u64 last_tx_ns;
  orrery_u64 held_ns; /* total time sends were held back for a release offset */
  orrery_u64 held_sends;
  orrery_u64 plan_flow_id; /* flow_id of the plan entry this flow follows, 0 when none; unlike plan_index it survives a
                              new table */
};

ORRERY_ABI_ASSERT(sizeof(struct orrery_segment_header) == 128, "segment header layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_ring_header) == 128, "ring header layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_flow_counters) == 64, "flow counters layout");

#endif
