/* BPF map layouts of orrery-switch, shared by its data plane and its control process.
 *
 * Addresses and ports are in NETWORK byte order here (the data plane compares packet bytes); hashes use host order
 * (ecmp_hash_abi.h). Rules are found by tuple-space search: for each of at most ORRERY_SWITCH_MAX_MASKS masks in use
 * the packet's five-tuple is masked and looked up. Two rule sets exist side by side (`set` is part of a rule's key), so
 * that a new one is complete before one store makes it the active one, and the old one is removed after no packet can
 * be looking at it any more. */
#ifndef ORRERY_COMMON_ABI_SWITCH_ABI_H
#define ORRERY_COMMON_ABI_SWITCH_ABI_H

#include "common/abi/types_abi.h"

#define ORRERY_SWITCH_ABI_VERSION 1u
#define ORRERY_SWITCH_MAX_PORTS 64u
#define ORRERY_SWITCH_MAX_MASKS 8u
#define ORRERY_SWITCH_MAX_RULES 16384u /* in one set */
#define ORRERY_SWITCH_MAX_ROUTES 65536u
#define ORRERY_SWITCH_MAX_GROUPS 4096u
#define ORRERY_SWITCH_NO_PORT 0xffu
/* Inverted in the first byte of the source MAC address of a frame that left its shortest path because no port of it was
 * up: told from the address that the neighbour's port is known to have. A switch that would have to divert such a frame
 * again drops it: none can circle. */
#define ORRERY_SWITCH_MAC_DIVERTED 0x04u

/* A rule's key, and a packet's five-tuple. Of a fragment, and of protocols other than TCP and UDP, both ports are 0. */
struct orrery_switch_tuple {
  orrery_u32 src_address;
  orrery_u32 dst_address;
  orrery_u16 src_port;
  orrery_u16 dst_port;
  orrery_u8 protocol;
  orrery_u8 mask_index; /* which mask of the set made this key */
  orrery_u8 set;        /* 0 or 1 */
  orrery_u8 reserved;
};

struct orrery_switch_rule {
  orrery_u32 rule_id;
  orrery_u32 counter_slot; /* index into the rule counters */
  orrery_u8 egress_port;
  orrery_u8 backup_port; /* ORRERY_SWITCH_NO_PORT: fall back to ECMP */
  orrery_u16 reserved;
};

struct orrery_switch_rule_counters {
  orrery_u64 packets; /* that matched, whatever port they left by */
  orrery_u64 bytes;
  orrery_u64 backup_packets; /* of those, the ones that left by the backup port */
  orrery_u64 ecmp_packets;   /* of those, the ones for which neither port was up */
};

/* An equal-cost group. A destination address maps to the index of its group. */
struct orrery_switch_group {
  orrery_u32 size;
  orrery_u32 reserved;
  orrery_u64 detour_ports; /* bit per port: neighbours that reach the destination without this switch */
  orrery_u8 members[ORRERY_SWITCH_MAX_PORTS]; /* port indices in topology order */
};

struct orrery_switch_port {
  orrery_u32 ifindex; /* 0: unused */
  orrery_u8 own_mac[6];
  orrery_u8 peer_mac[6];
};

/* Per CPU and ingress port. */
struct orrery_switch_port_counters {
  orrery_u64 rx_packets;
  orrery_u64 rx_bytes;
  orrery_u64 no_route; /* no group for the destination, or no port of it up */
  orrery_u64 ttl_expired;
  orrery_u64 unsupported; /* not untagged IPv4: ARP, IPv6, VLAN, ... */
  orrery_u64 malformed;   /* lengths that contradict each other */
  orrery_u64 rule_hits;
  orrery_u64 diverted; /* left by a detour port */
};

/* Per CPU and egress port: what packets met as they reached the port's queue. */
struct orrery_switch_queue {
  orrery_u64 packets; /* offered to the queue, before it drops any */
  orrery_u64 bytes;
  orrery_u64 backlog_bytes_sum;    /* for the mean: over `packets` */
  orrery_u64 backlog_bytes_max[2]; /* by parity of the epoch; valid when max_epoch[] equals the epoch asked for */
  orrery_u32 max_epoch[2];
};

struct orrery_switch_rule_set {
  orrery_u32 mask_count;
  orrery_u32 rule_count;
  struct orrery_switch_tuple
      masks[ORRERY_SWITCH_MAX_MASKS]; /* most specific first; mask_index, set and reserved are 0 */
};

/* One element, mapped into the control process, which is the only writer: aligned stores, seen whole by the data plane.
 */
struct orrery_switch_config {
  orrery_u32 abi_version;
  orrery_u32 hash_seed;
  orrery_u64 ports_up;             /* bit per port index */
  orrery_u64 rules_valid_until_ns; /* CLOCK_MONOTONIC (bpf_ktime_get_ns); rules are ignored after it */
  orrery_u32 active_set;           /* 0 or 1 */
  orrery_u32 queue_epoch;
  orrery_u64 term; /* of the active set */
  orrery_u64 revision;
  struct orrery_switch_rule_set sets[2];
};

ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_tuple) == 16, "switch tuple layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_rule) == 12, "switch rule layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_rule_counters) == 32, "switch rule counters layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_group) == 80, "switch group layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_port) == 16, "switch port layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_port_counters) == 64, "switch port counters layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_queue) == 48, "switch queue layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_config) == 320, "switch config layout");

#endif
