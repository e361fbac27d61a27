// The part of NCCL that drives a profiler plug-in, for each version of the interface as the release that brought it
// does: how the plug-in is found, the one mask for all communicators, which events that mask brings about, what their
// descriptors say, the order of starts, states and stops, and graphs. Moves nothing. Facts: NVIDIA/nccl,
// src/plugin/profiler.cc, src/plugin/plugin_open.cc, src/enqueue.cc (hostStreamPlanTask).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <memory>
#include <vector>

namespace orrery::probe {

struct ProfiledComm {
  uint64_t hash;
  int nranks, rank;
  void* context = nullptr;
  uint64_t sequence[16] = {};
};

// One call of an application's, or one half of a send and receive.
struct ProfiledCall {
  const char* func;
  uint8_t number;  // of func, in version 1
  size_t count;
  int type;  // ncclDataType_t
  int root = 0;
  int peer = -1;  // >= 0: point to point
};

// What a graph has recorded: calls with the handles of their API events.
struct Plan {
  ProfiledComm* comm = nullptr;
  bool captured = false;
  void* group_api = nullptr;
  std::vector<ProfiledCall> calls;
  std::vector<void*> api_events;
};

class ProfiledNccl {
 public:
  // `version` of the interface, 1 to 6.
  static std::unique_ptr<ProfiledNccl> create(int version);
  virtual ~ProfiledNccl() = default;

  // As ncclCommInit* does: loads the plug-in that NCCL_PROFILER_PLUGIN names at the first one.
  virtual void init(ProfiledComm& comm) = 0;
  // As ncclCommDestroy does; unloads with the last one.
  virtual void destroy(ProfiledComm& comm) = 0;
  // One call of an application's, before anything is launched; the first one opens the plan.
  virtual void enqueue(Plan& plan, ProfiledComm& comm, const ProfiledCall& call, bool captured) = 0;
  // The end of the outermost group: runs the plan, unless it is captured.
  virtual void launch(Plan& plan) = 0;
  // The calls of one group, both steps.
  Plan call(ProfiledComm& comm, const std::vector<ProfiledCall>& calls, bool captured = false) {
    Plan plan;
    for (const ProfiledCall& one : calls) enqueue(plan, comm, one, captured);
    launch(plan);
    return plan;
  }
  // A graph's host callback. `proxy_pid` is that of the process whose rank the proxy serves.
  virtual void run(const Plan& plan, pid_t proxy_pid) = 0;
  virtual void proxy_control() = 0;

  virtual int mask() const = 0;
  virtual bool loaded() const = 0;
};

}  // namespace orrery::probe
