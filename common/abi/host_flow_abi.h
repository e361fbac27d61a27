/* BPF map layouts of the agent's host program (agent/bpf/host_traffic.bpf.c), shared by the kernel side and the agent.
 *
 * Addresses and ports are in NETWORK byte order here (the program compares packet bytes); IPv4 only. A key is seen from
 * the host: local is the host's end of the flow. */
#ifndef ORRERY_COMMON_ABI_HOST_FLOW_ABI_H
#define ORRERY_COMMON_ABI_HOST_FLOW_ABI_H

#include "common/abi/types_abi.h"

#define ORRERY_HOST_FLOW_MAX 16384u /* least recently used flows are forgotten beyond it */
#define ORRERY_HOST_MARK_MAX 4096u

struct orrery_host_flow_key {
  orrery_u32 local_address;
  orrery_u32 remote_address;
  orrery_u16 local_port;
  orrery_u16 remote_port;
  orrery_u8 protocol;
  orrery_u8 reserved[3];
};

/* Bytes are those of whole frames as the interface's queue takes them. */
struct orrery_host_flow {
  orrery_u64 tx_bytes;
  orrery_u64 tx_packets;
  orrery_u64 rx_bytes;
  orrery_u64 rx_packets;
  orrery_u64 retransmits; /* segments TCP sent again */
};

/* DSCP of planned flows: every connection between two addresses. */
struct orrery_host_mark_key {
  orrery_u32 local_address;
  orrery_u32 remote_address;
  orrery_u8 protocol;
  orrery_u8 reserved[3];
};

struct orrery_host_mark {
  orrery_u64 valid_until_ns; /* CLOCK_MONOTONIC; later the packet is left alone */
  orrery_u32 dscp;
  orrery_u32 reserved;
};

ORRERY_ABI_ASSERT(sizeof(struct orrery_host_flow_key) == 16, "host flow key layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_host_flow) == 40, "host flow layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_host_mark_key) == 12, "host mark key layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_host_mark) == 16, "host mark layout");

#endif
