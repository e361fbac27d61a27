/* BPF map layouts of orrery-switch, shared by its data plane and its control process.
 *
 * Addresses and ports are in NETWORK byte order here (the data plane compares packet bytes); hashes use host order (ecmp_hash_abi.h).
 * Rules are found by tuple-space search: for each of at most ORRERY_SWITCH_MAX_MASKS masks in use the packet's five-tuple is masked and looked up. */
#ifndef ORRERY_COMMON_ABI_SWITCH_ABI_H
#define ORRERY_COMMON_ABI_SWITCH_ABI_H

#include "common/abi/types_abi.h"

#define ORRERY_SWITCH_MAX_PORTS 64u
#define ORRERY_SWITCH_MAX_MASKS 8u
#define ORRERY_SWITCH_MAX_RULES 16384u
#define ORRERY_SWITCH_MAX_ROUTES 65536u
#define ORRERY_SWITCH_NO_PORT 0xffu

struct orrery_switch_tuple {
  orrery_u32 src_address;
  orrery_u32 dst_address;
  orrery_u16 src_port;
  orrery_u16 dst_port;
  orrery_u8 protocol;
  orrery_u8 mask_index;  /* which mask made this key */
  orrery_u16 reserved;
};

struct orrery_switch_rule {
  orrery_u32 rule_id;
  orrery_u8 egress_port;
  orrery_u8 backup_port; /* ORRERY_SWITCH_NO_PORT: fall back to ECMP */
  orrery_u16 reserved;
  orrery_u64 packets;
  orrery_u64 bytes;
  orrery_u64 backup_packets;
};

/* Destination prefix -> equal-cost group: the LPM trie's value. */
struct orrery_switch_route {
  orrery_u32 size;
  orrery_u8 members[ORRERY_SWITCH_MAX_PORTS]; /* port indices in topology order */
};

struct orrery_switch_port {
  orrery_u32 ifindex;
  orrery_u8 own_mac[6];
  orrery_u8 peer_mac[6];
};

struct orrery_switch_port_counters {
  orrery_u64 rx_packets, rx_bytes;
  orrery_u64 tx_packets, tx_bytes;
  orrery_u64 no_route, ttl_expired;
  orrery_u64 queue_bytes_max;   /* largest backlog met by a packet since the control process last read it */
  orrery_u64 queue_bytes_sum;   /* for the mean: sum over queue_samples packets */
  orrery_u64 queue_samples;
};

struct orrery_switch_config {
  orrery_u32 hash_seed;
  orrery_u32 mask_count;
  orrery_u64 ports_up;              /* bit per port index */
  orrery_u64 rules_valid_until_ns;  /* CLOCK_MONOTONIC (bpf_ktime_get_ns); rules are ignored after it */
  struct orrery_switch_tuple masks[ORRERY_SWITCH_MAX_MASKS]; /* most specific first */
};

ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_tuple) == 16, "switch tuple layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_switch_rule) == 32, "switch rule layout");

#endif
