/* The plan table of one training process: a second memfd, written by the agent, mapped read-only by the process
 * (F_SEAL_FUTURE_WRITE).
 *
 * Seqlock: `sequence` is odd while the agent writes. A reader copies the entry it wants between two equal even reads
 * and gives up after ORRERY_PLAN_READ_TRIES: no plan is always a correct answer. A table whose lease has passed
 * (`valid_until_ns`) is ignored. */
#ifndef ORRERY_COMMON_ABI_PLAN_ABI_H
#define ORRERY_COMMON_ABI_PLAN_ABI_H

#include "common/abi/event_abi.h"

#define ORRERY_PLAN_MAGIC 0x4e4c505952524f31ull /* "1ORRYPLN" read as a little-endian word */
#define ORRERY_PLAN_READ_TRIES 4
#define ORRERY_PLAN_MAX_HOPS 4
#define ORRERY_PLAN_ANY_ORDINAL 0xffffu

/* One hashing decision on the way: the switch with `seed` must pick `member` of its group of `group_size`. */
struct orrery_plan_hop {
  orrery_u32 seed;
  orrery_u16 group_size;
  orrery_u16 member;
  orrery_u8 hash_function; /* enum orrery_hash_function */
  orrery_u8 reserved[3];
};

struct orrery_plan_entry {
  orrery_u64 flow_id;
  orrery_u64 comm_id;          /* 0: any connection to this peer */
  orrery_u8 local_address[16]; /* all zero: any */
  orrery_u8 remote_address[16];
  orrery_u16 ordinal;        /* n-th connection of this process to that peer, ORRERY_PLAN_ANY_ORDINAL for all */
  orrery_u16 src_port_first; /* candidate source ports, inclusive; first == 0: leave the port to the kernel */
  orrery_u16 src_port_last;
  orrery_u16 src_port_mask; /* (port & mask) == value, for switch rules that tell flows apart by source port */
  orrery_u16 src_port_value;
  orrery_u8 protocol;
  orrery_u8 dscp;      /* 0xff: leave alone */
  orrery_u8 hop_count; /* 0..ORRERY_PLAN_MAX_HOPS */
  orrery_u8 reserved0[3];
  struct orrery_plan_hop hops[ORRERY_PLAN_MAX_HOPS];
  orrery_u64 release_offset_ns; /* from a collective's start to this flow's first byte; 0: at once */
  orrery_u64 pace_bps;          /* 0: unpaced */
  orrery_u64 reserved1;
};

struct orrery_plan_header {
  orrery_u64 magic;
  orrery_u32 abi_version;
  orrery_u32 capacity; /* entries that fit in the memfd, fixed */
  orrery_u32 sequence;
  orrery_u32 count;
  orrery_u64 term;
  orrery_u64 revision;
  orrery_u64 valid_until_ns;    /* CLOCK_MONOTONIC; 0: no plan */
  orrery_u64 release_suspended; /* 1 while the host clock is out of bounds: offsets are ignored, ports are not */
  orrery_u64 reserved;
};

ORRERY_ABI_ASSERT(sizeof(struct orrery_plan_hop) == 12, "plan hop layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_plan_entry) == 136, "plan entry layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_plan_header) == 64, "plan header layout");

#endif
