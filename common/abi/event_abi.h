/* Events a training process writes into its rings (preload -> agent). One event is one cache line.
 *
 * Written by the preload, read by the agent, which believes nothing: every field is checked before use. Times are
 * CLOCK_MONOTONIC nanoseconds of the host (the same clock in every container). An event becomes visible with the ring's
 * `produced` (release). Addresses are IPv6, IPv4 as v4-mapped, network byte order; ports host order. */
#ifndef ORRERY_COMMON_ABI_EVENT_ABI_H
#define ORRERY_COMMON_ABI_EVENT_ABI_H

#include "common/abi/types_abi.h"

/* Version of this file, segment_abi.h and plan_abi.h together; the handshake carries it and both sides use the older
 * of the two. 2 adds: queue pairs (their events and counters), the flags of a collective, operations after SCATTER. */
#define ORRERY_ABI_VERSION 2u
#define ORRERY_ABI_OLDEST 1u

enum orrery_event_type {
  ORRERY_EVENT_NONE = 0,
  ORRERY_EVENT_COMM_INIT =
      1, /* .comm, at entry of ncclCommInit*: the announcement that must not wait for the window's end */
  ORRERY_EVENT_COMM_READY = 2, /* .comm, at successful return */
  ORRERY_EVENT_COMM_GONE = 3,  /* .comm (only comm_id), at destroy, abort or failed init */
  ORRERY_EVENT_COLLECTIVE = 4, /* .collective, at entry of the call (depth 0) */
  ORRERY_EVENT_GROUP_END = 5,  /* .group, after the outermost ncclGroupEnd */
  ORRERY_EVENT_FLOW_BORN = 6,  /* .flow, after connect or accept gave a five-tuple */
  ORRERY_EVENT_FLOW_GONE = 7,  /* .flow (only slot and generation count) */
  /* Since version 2: */
  ORRERY_EVENT_QP_READY = 8, /* .qp, after the FLOW_BORN of the same slot: what only a queue pair has; again at each
                                RESET -> RTR cycle */
  ORRERY_EVENT_QP_MOVED = 9, /* .qp: a live queue pair sends from another UDP source port now */
  ORRERY_EVENT_DEVICE_TRAFFIC = 10 /* .comm: this communicator may send without the CPU (GIN): partly uncontrolled */
};

enum orrery_collective_op {
  ORRERY_OP_ALL_REDUCE = 1,
  ORRERY_OP_ALL_GATHER = 2,
  ORRERY_OP_REDUCE_SCATTER = 3,
  ORRERY_OP_BROADCAST = 4,
  ORRERY_OP_REDUCE = 5,
  ORRERY_OP_SEND = 6,
  ORRERY_OP_RECV = 7,
  ORRERY_OP_ALL_TO_ALL = 8,
  ORRERY_OP_GATHER = 9,
  ORRERY_OP_SCATTER = 10,
  /* Since version 2: */
  ORRERY_OP_ALL_TO_ALL_V = 11, /* bytes: sum of this rank's send counts */
  ORRERY_OP_PUT = 12           /* one-sided, to `peer` */
};

/* Bits of orrery_collective_event.flags. Since version 2; 0 before. */
enum orrery_collective_flag {
  ORRERY_COLLECTIVE_FROM_PROFILER = 1, /* seen by the profiler plug-in, not at the API */
  ORRERY_COLLECTIVE_CAPTURED = 2,      /* recorded into a CUDA graph: nothing is sent yet */
  ORRERY_COLLECTIVE_REPLAY = 4         /* a CUDA graph runs it */
};

struct orrery_comm_event {
  orrery_u64 comm_id; /* same on every rank: hash of the 128-byte unique id, or of (parent id, child counter, colour) */
  orrery_u64 parent_id; /* 0 when not split from another */
  orrery_u32 rank;
  orrery_u32 nranks;
};

struct orrery_collective_event {
  orrery_u64 comm_id;
  orrery_u64 bytes;    /* as the call names them: count x element size (facts: NCCL argument table) */
  orrery_u32 op;       /* enum orrery_collective_op */
  orrery_u32 peer;     /* root or peer rank; 0xffffffff when the operation has none */
  orrery_u32 group;    /* per-thread group number; equal for the calls of one ncclGroup, unique otherwise */
  orrery_u8 datatype;  /* ncclDataType_t */
  orrery_u8 reduction; /* ncclRedOp_t, 255 for user-defined or none */
  orrery_u16 flags;    /* OR of enum orrery_collective_flag */
};

struct orrery_group_event {
  orrery_u32 group;
  orrery_u32 calls; /* collectives and point-to-point calls in the group */
};

enum orrery_flow_role { ORRERY_ROLE_CONNECT = 1, ORRERY_ROLE_ACCEPT = 2 };

struct orrery_flow_event {
  orrery_u8 local_address[16];
  orrery_u8 remote_address[16];
  orrery_u16 local_port;
  orrery_u16 remote_port;
  orrery_u8 protocol; /* IPPROTO_TCP; IPPROTO_UDP for RoCEv2 */
  orrery_u8 role;     /* enum orrery_flow_role */
  orrery_u16 slot;    /* index into the segment's flow counters */
  orrery_u32 generation;
  orrery_u32 plan_index; /* entry of the plan table that chose the source port, 0xffffffff when none did */
};

/* One RC or UC queue pair on a RoCEv2 port. Its five-tuple is in the FLOW_BORN of the same slot (protocol UDP, local
 * port = the source port predicted by the formula of the kernel, remote port 4791). */
struct orrery_qp_event {
  orrery_u32 generation; /* of the slot */
  orrery_u16 slot;
  orrery_u8 qp_type;  /* enum ibv_qp_type */
  orrery_u8 port_num; /* of the device, from 1 */
  orrery_u32 qpn;
  orrery_u32 dest_qpn;
  orrery_u32 flow_label; /* in force: ours or the application's; 0: the kernel hashes the QPNs */
  orrery_u32 cycle;      /* how often this QP had been made ready before */
  orrery_u16 udp_sport;
  orrery_u8 traffic_class;
  orrery_u8 flags;       /* OR of enum orrery_qp_flag */
  orrery_u32 plan_index; /* entry that chose the label, 0xffffffff when none did */
  char device[16];       /* name of the RDMA device, NUL-padded, cut if longer */
};

enum orrery_qp_flag {
  ORRERY_QP_LABEL_OURS = 1,
  ORRERY_QP_CAN_MOVE = 2,  /* the provider can move it while it runs */
  ORRERY_QP_LOOPBACK = 4,  /* a flush QP: leads to itself, left alone */
  ORRERY_QP_CAN_DEFER = 8, /* sends can be held back for a release offset */
  ORRERY_QP_LAG = 16       /* on a bonded port: the label would also choose the port, so it is left alone */
};

struct orrery_event {
  orrery_u64 time_ns;
  orrery_u32 type;   /* enum orrery_event_type */
  orrery_u32 thread; /* kernel thread id of the caller */
  union {
    struct orrery_comm_event comm;
    struct orrery_collective_event collective;
    struct orrery_group_event group;
    struct orrery_flow_event flow;
    struct orrery_qp_event qp;
    orrery_u8 raw[48];
  };
};

ORRERY_ABI_ASSERT(sizeof(struct orrery_comm_event) == 24, "comm event layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_collective_event) == 32, "collective event layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_flow_event) == 48, "flow event layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_qp_event) == 48, "queue pair event layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_event) == 64, "an event is one cache line");

#endif
