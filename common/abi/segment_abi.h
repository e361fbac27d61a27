/* The shared-memory segment of one training process: a memfd made by the agent, mapped read-write by both. Sealed
 * against resizing.
 *
 *   header | ring_count x (ring header + ring_events x event) | flow_slots x flow counters | flow_slots x qp counters
 *
 * The last part is there since version 2; qps_offset is 0 without it. A queue pair uses the flow counters and the qp
 * counters of the same slot.
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
  orrery_u64 qps_offset;     /* offset of the first qp counters; 0: none (version 1) */
  orrery_u8 reserved[48];
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

/* What a queue pair adds to its flow counters, updated in place. tx_bytes of the flow counters are the bytes of all
 * posted sends, RDMA writes and atomics; rx_bytes the lengths that its completions and reads name. Zeroed when the slot
 * is claimed. */
struct orrery_qp_counters {
  orrery_u64 posted_sends; /* work requests that the provider took, deferred ones once they are posted */
  orrery_u64 posted_recvs;
  orrery_u64 send_completions;
  orrery_u64 recv_completions;
  orrery_u64 completion_errors;
  orrery_u64 writes; /* RDMA_WRITE */
  orrery_u64 write_imms;
  orrery_u64 sends; /* SEND and its variants */
  orrery_u64 reads;
  orrery_u64 atomics_and_others;
  orrery_u64 control_writes; /* of the writes: clear-to-send messages of NCCL (short, receiver to sender) */
  orrery_u64 flush_reads;    /* of the reads: loopback flushes */
  orrery_u64 zero_imms;      /* of write_imms: without data, the notice after a RDMA_WRITE */
  orrery_u64 deferred;       /* of posted_sends: held back for the plan first */
  orrery_u64 failed_posts;   /* work requests the provider refused */
  orrery_u64 drained_early;  /* deferred ones posted before their time: FIFO full, plan gone or agent gone */
};

ORRERY_ABI_ASSERT(sizeof(struct orrery_qp_counters) == 128, "qp counters layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_segment_header) == 128, "segment header layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_ring_header) == 128, "ring header layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_flow_counters) == 64, "flow counters layout");

#endif
