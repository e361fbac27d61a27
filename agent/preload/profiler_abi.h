// The binary interface of NCCL's profiler plug-ins, versions 1 to 6 (NCCL 2.23 to 2.30). Own declarations, 64-bit; no
// NCCL header is used, because one library serves every version. Newer releases may append to a union of version 6;
// nothing here depends on its size, because descriptors are NCCL's own memory.
//
//   1: 2.23   2: 2.24-2.25   3: 2.26   4: 2.27   5: 2.28   6: 2.29-2.30
//
// Every release looks for its newest version first and then for each older one.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

namespace orrery::preload::profiler {

inline constexpr int kVersions = 6;

// Event types: bits of a mask. The descriptor of versions 1 to 4 has room for the first eight.
enum EventType : uint32_t {
  kGroup = 1u << 0,  // a kernel plan: what one launch carries
  kColl = 1u << 1,
  kP2p = 1u << 2,
  kProxyOp = 1u << 3,
  kProxyStep = 1u << 4,
  kProxyCtrl = 1u << 5,
  kKernelCh = 1u << 6,   // since 3
  kNetPlugin = 1u << 7,  // since 3
  kGroupApi = 1u << 8,   // since 5
  kCollApi = 1u << 9,
  kP2pApi = 1u << 10,
  kKernelLaunch = 1u << 11,
  kCeColl = 1u << 12,  // since 6
  kCeSync = 1u << 13,
  kCeBatch = 1u << 14,
};

enum EventState : int {
  kStepSendGpuWait = 8,
  kStepSendWait = 9,
  kStepRecvWait = 10,
  kStepRecvFlushWait = 11,
  kStepRecvGpuWait = 12,
  kCtrlFirst = 13,  // idle, active, sleep, wakeup, append, append end
  kCtrlLast = 18,
  kOpInProgress = 19,  // since 4; it replaces 0 to 7
  kStepSendPeerWait = 20,
  kNetPluginUpdate = 21,
  kKernelChStop = 22,
  kGroupStartApiStop = 23,  // since 5
  kGroupEndApiStart = 24,
  kCeFirst = 25,  // since 6
  kCeLast = 30,
};

using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

struct ProxyOp {
  pid_t pid;  // of the process that enqueued the operation: not ours when the proxy serves another rank (PXN)
  uint8_t channel;
  int peer, steps, chunk_bytes, is_send;
};
struct ProxyStep {
  int step;
};
struct KernelChannel {
  uint8_t channel;
  uint64_t gpu_time;
};
struct NetPlugin {
  int64_t id;
  void* data;
};

struct Descriptor1 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* comm_name;
      uint64_t comm_hash, sequence;
      uint8_t func;
      const void* send;
      void* receive;
      size_t count;
      int root;
      uint8_t datatype;
      uint32_t reduction;
      size_t traffic_bytes;
      uint8_t channels, warps, algorithm, protocol;
      int is_collnet, is_nvls;
    } coll;
    struct {
      const char* comm_name;
      uint64_t comm_hash;
      uint8_t func;
      void* buffer;
      uint8_t datatype;
      size_t count;
      int peer;
    } p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
  };
};

struct NamedP2p {
  const char* comm_name;
  uint64_t comm_hash;
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};

struct Descriptor2 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* comm_name;
      uint64_t comm_hash, sequence;
      const char* func;
      const void* send;
      void* receive;
      size_t count;
      int root;
      const char* datatype;
      size_t traffic_bytes;
      uint8_t channels, warps;
      const char *algorithm, *protocol;
    } coll;
    NamedP2p p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
  };
};

struct Descriptor3 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* comm_name;
      uint64_t comm_hash, sequence;
      const char* func;
      const void* send;
      void* receive;
      size_t count;
      int root;
      const char* datatype;
      uint8_t channels, warps;
      const char *algorithm, *protocol;
    } coll;
    NamedP2p p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    struct {
      uint8_t channel;
    } kernel_channel;
    NetPlugin net_plugin;
  };
};

struct Descriptor4 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      uint64_t sequence;
      const char* func;
      const void* send;
      void* receive;
      size_t count;
      int root;
      const char* datatype;
      uint8_t channels, warps;
      const char *algorithm, *protocol;
    } coll;
    struct {
      const char* func;
      void* buffer;
      const char* datatype;
      size_t count;
      int peer;
      uint8_t channels;
    } p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    KernelChannel kernel_channel;
    NetPlugin net_plugin;
  };
};

// What `parent` names has changed: the API event, no longer the group.
struct GroupApi {
  bool graph_captured;
  int depth;
};
struct CollApi {
  const char* func;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool graph_captured;
};
struct P2pApi {
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  bool graph_captured;
};
struct KernelLaunch {
  void* stream;
};
struct Coll5 {
  uint64_t sequence;
  const char* func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
  void* parent_group;
};
struct P2p5 {
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;
};

struct Descriptor5 {
  uint64_t type;
  void* parent;
  int rank;
  union {
    GroupApi group_api;
    CollApi coll_api;
    P2pApi p2p_api;
    KernelLaunch kernel_launch;
    Coll5 coll;
    P2p5 p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    KernelChannel kernel_channel;
    NetPlugin net_plugin;
  };
};

struct Descriptor6 {
  uint64_t type;
  void* parent;
  int rank;
  union {
    GroupApi group_api;
    CollApi coll_api;
    P2pApi p2p_api;
    KernelLaunch kernel_launch;
    Coll5 coll;
    P2p5 p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    KernelChannel kernel_channel;
    NetPlugin net_plugin;
    struct {
      uint64_t sequence;
      const char* func;
      const void* send;
      void* receive;
      size_t count;
      int root;
      const char *datatype, *strategy;
      bool intra_batch_sync;
      uint32_t batch_size, batches, copy_sequence;
      void* stream;
    } ce_coll;
    struct {
      bool is_complete;
      int nranks;
    } ce_sync;
    struct {
      int operations;
      size_t total_bytes;
      bool intra_sync;
    } ce_batch;
  };
};

union StateArguments1 {
  struct {
    size_t bytes;
    int steps;
  } proxy_op;
  struct {
    int appended;
  } proxy_ctrl;
};
union StateArguments4 {
  struct {
    size_t bytes;
  } proxy_step;
  struct {
    int appended;
  } proxy_ctrl;
  struct {
    void* data;
  } net_plugin;
  struct {
    uint64_t gpu_time;
  } kernel_channel;
};

template <int kVersion>
struct Types;
template <>
struct Types<1> {
  using Descriptor = Descriptor1;
  using StateArguments = StateArguments1;
};
template <>
struct Types<2> {
  using Descriptor = Descriptor2;
  using StateArguments = StateArguments1;
};
template <>
struct Types<3> {
  using Descriptor = Descriptor3;
  using StateArguments = StateArguments1;
};
template <>
struct Types<4> {
  using Descriptor = Descriptor4;
  using StateArguments = StateArguments4;
};
template <>
struct Types<5> {
  using Descriptor = Descriptor5;
  using StateArguments = StateArguments4;
};
template <>
struct Types<6> {
  using Descriptor = Descriptor6;
  using StateArguments = StateArguments4;
};

// How a communicator is told of. Versions 1 to 3 say nothing about it.
using Init1 = int(void** context, int* mask);
using Init4 = int(void** context, int* mask, const char* comm_name, uint64_t comm_hash, int nodes, int nranks, int rank,
                  Logger log);
using Init5 = int(void** context, uint64_t comm_hash, int* mask, const char* comm_name, int nodes, int nranks, int rank,
                  Logger log);
template <int kVersion>
struct InitOf {
  using Type = Init5;
};
template <>
struct InitOf<4> {
  using Type = Init4;
};
template <>
struct InitOf<3> {
  using Type = Init1;
};
template <>
struct InitOf<2> {
  using Type = Init1;
};
template <>
struct InitOf<1> {
  using Type = Init1;
};

// What the symbol ncclProfiler_vN is.
template <int kVersion>
struct Table {
  const char* name;
  typename InitOf<kVersion>::Type* init;
  int (*start_event)(void* context, void** event, typename Types<kVersion>::Descriptor*);
  int (*stop_event)(void* event);
  int (*record_event_state)(void* event, int state, typename Types<kVersion>::StateArguments*);
  int (*finalize)(void* context);
};

static_assert(sizeof(Table<1>) == 48 && sizeof(Table<4>) == 48 && sizeof(Table<6>) == 48);
static_assert(offsetof(Descriptor1, coll) == 24 && offsetof(Descriptor1, coll.func) == 48);
static_assert(offsetof(Descriptor1, coll.count) == 72 && offsetof(Descriptor1, coll.datatype) == 84);
static_assert(offsetof(Descriptor1, coll.reduction) == 88 && offsetof(Descriptor1, coll.traffic_bytes) == 96);
static_assert(offsetof(Descriptor1, p2p.count) == 64 && sizeof(Descriptor1) == 120);
static_assert(offsetof(Descriptor2, coll.datatype) == 88 && offsetof(Descriptor2, coll.traffic_bytes) == 96);
static_assert(sizeof(Descriptor2) == 128 && sizeof(Descriptor3) == 120 && sizeof(Descriptor4) == 104);
static_assert(offsetof(Descriptor3, p2p.peer) == 72 && offsetof(Descriptor4, coll.count) == 56);
static_assert(offsetof(Descriptor4, coll.root) == 64 && offsetof(Descriptor4, p2p.peer) == 56);
static_assert(offsetof(Descriptor5, coll.parent_group) == 104 && sizeof(Descriptor5) == 112);
static_assert(offsetof(Descriptor5, coll_api.graph_captured) == 64 &&
              offsetof(Descriptor5, p2p_api.graph_captured) == 56);
static_assert(offsetof(Descriptor5, p2p.parent_group) == 64 && sizeof(Descriptor6) == 112);
static_assert(offsetof(Descriptor6, ce_coll.stream) == 104 && offsetof(Descriptor6, ce_coll.copy_sequence) == 100);
static_assert(sizeof(StateArguments1) == 16 && sizeof(StateArguments4) == 8);

}  // namespace orrery::preload::profiler
