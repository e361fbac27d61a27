/* The attach handshake on the agent's SOCK_SEQPACKET socket (default /run/orrery/agent.sock, ORRERY_AGENT_SOCKET
 * overrides).
 *
 * The process sends orrery_attach_request; the agent answers with orrery_attach_reply carrying two descriptors by
 * SCM_RIGHTS when status is ORRERY_ATTACH_OK: the segment (read-write) and the plan table (read-only). The connection
 * stays open for the life of the process: its end tells the agent that the process has gone. After the reply the
 * process may send one-byte doorbells (MSG_DONTWAIT): "drain my rings now", used for communicator announcements only.
 * Nothing else is ever sent. */
#ifndef ORRERY_COMMON_ABI_ATTACH_ABI_H
#define ORRERY_COMMON_ABI_ATTACH_ABI_H

#include "common/abi/event_abi.h"

#define ORRERY_ATTACH_MAGIC 0x41595252u
#define ORRERY_AGENT_SOCKET_DEFAULT "/run/orrery/agent.sock"

enum orrery_attach_status {
  ORRERY_ATTACH_OK = 0,
  ORRERY_ATTACH_VERSION = 1,
  ORRERY_ATTACH_FULL = 2,
  ORRERY_ATTACH_REFUSED = 3
};

enum orrery_layer {
  ORRERY_LAYER_NCCL = 1,
  ORRERY_LAYER_DLSYM = 2,
  ORRERY_LAYER_VERBS = 4,
  ORRERY_LAYER_SOCKETS = 8,
  ORRERY_LAYER_PROFILER = 16
};

struct orrery_attach_request {
  orrery_u32 magic;
  orrery_u32 abi_version; /* newest the library speaks */
  orrery_u32 abi_oldest;  /* oldest it still speaks */
  orrery_u32 pid;         /* in the process's own pid namespace; the agent trusts SO_PEERCRED instead */
  orrery_u32 layers;      /* OR of enum orrery_layer */
  orrery_u32 reserved;
  char program[40]; /* comm of the process, NUL-padded, for people only */
};

struct orrery_attach_reply {
  orrery_u32 magic;
  orrery_u32 status;      /* enum orrery_attach_status */
  orrery_u32 abi_version; /* the one both will use */
  orrery_u32 segment_bytes;
  orrery_u32 plan_bytes;
  orrery_u32 flowlet_gap_ns;
  orrery_u32 hold_cap_ns; /* a send is never held longer than this (default 1 ms) */
  orrery_u32 reserved;
};

ORRERY_ABI_ASSERT(sizeof(struct orrery_attach_request) == 64, "attach request layout");
ORRERY_ABI_ASSERT(sizeof(struct orrery_attach_reply) == 32, "attach reply layout");

#endif
