// A fake libnccl.so.2 that moves nothing and drives a profiler plug-in as NCCL does (tests/preload/profiled_nccl.h), in
// the version of the interface that FAKE_NCCL_INTERFACE says. Communicators are made on a thread of its own when they
// are several or non-blocking, as NCCL does.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/preload/profiled_nccl.h"

using ncclResult_t = int;
struct ncclUniqueId {
  char internal[128];
};
struct FakeProfiledComm {
  orrery::probe::ProfiledComm comm;
  std::thread maker;
  std::atomic<bool> ready = true;
};
using ncclComm_t = FakeProfiledComm*;

namespace {

using orrery::probe::Plan;
using orrery::probe::ProfiledCall;
using orrery::probe::ProfiledNccl;

constexpr ncclResult_t kSuccess = 0, kInvalidArgument = 4, kInProgress = 7;

std::mutex mutex;
std::unique_ptr<ProfiledNccl> nccl;
bool capturing = false;
std::vector<Plan> graph;
thread_local int group_level = 0;
thread_local Plan group_plan;
thread_local std::vector<ncclComm_t> group_made;

ProfiledNccl& driver() {
  if (nccl == nullptr) {
    const char* version = std::getenv("FAKE_NCCL_INTERFACE");
    nccl = ProfiledNccl::create(version != nullptr ? std::atoi(version) : 6);
  }
  return *nccl;
}

void start_making(ncclComm_t made) {
  made->ready = false;
  made->maker = std::thread([made] {
    std::lock_guard lock(mutex);
    driver().init(made->comm);
    made->ready = true;
  });
}

ncclResult_t make(ncclComm_t* comm, int nranks, uint64_t hash, int rank, bool blocking) {
  if (comm == nullptr || rank < 0 || rank >= nranks) return kInvalidArgument;
  auto* made = new FakeProfiledComm{{hash, nranks, rank}, {}};
  if (group_level == 0 && blocking) {
    std::lock_guard lock(mutex);
    driver().init(made->comm);
  } else if (group_level == 0) {
    start_making(made);
  } else {
    group_made.push_back(made);
  }
  *comm = made;
  return group_level == 0 && !blocking ? kInProgress : kSuccess;
}

uint64_t hash_of(const ncclUniqueId& id) {
  uint64_t hash = 5381;
  for (char c : id.internal) hash = hash * 33 ^ static_cast<unsigned char>(c);
  return hash;
}

void launch() {
  Plan plan = std::move(group_plan);
  group_plan = {};
  driver().launch(plan);
  if (capturing) graph.push_back(std::move(plan));
}

ncclResult_t collective(ncclComm_t comm, const ProfiledCall& call) {
  if (comm == nullptr) return kInvalidArgument;
  if (comm->maker.joinable()) comm->maker.join();
  driver().enqueue(group_plan, comm->comm, call, capturing);
  if (group_level == 0) launch();
  return kSuccess;
}

}  // namespace

#define FAKE_API extern "C" __attribute__((visibility("default"), weak))

FAKE_API void fake_nccl_capture(int on) {
  if (on != 0) graph.clear();
  capturing = on != 0;
}
// The host callbacks of a graph's launches, on a thread that is none of the application's.
FAKE_API void fake_nccl_replay(int times) {
  std::thread([times] {
    for (int i = 0; i < times; ++i)
      for (const Plan& plan : graph) driver().run(plan, 0);
  }).join();
}

FAKE_API ncclResult_t ncclGetVersion(int* version) {
  *version = 23007;
  return kSuccess;
}
FAKE_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  for (size_t i = 0; i < sizeof(id->internal); ++i) id->internal[i] = static_cast<char>(i * 7 + 1);
  return kSuccess;
}
FAKE_API ncclResult_t ncclGroupStart() {
  ++group_level;
  return kSuccess;
}
FAKE_API ncclResult_t ncclGroupEnd() {
  if (--group_level > 0) return kSuccess;
  for (ncclComm_t made : group_made) start_making(made);
  for (ncclComm_t made : group_made) made->maker.join();
  group_made.clear();
  if (group_plan.comm != nullptr) launch();
  return kSuccess;
}
FAKE_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return make(comm, nranks, hash_of(id), rank, true);
}
FAKE_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, void* config) {
  return make(comm, nranks, hash_of(id), rank, config == nullptr);
}
FAKE_API ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int*) {
  ++group_level;
  for (int i = 0; i < devices; ++i) make(&comms[i], devices, 77, i, true);
  return ncclGroupEnd();
}
FAKE_API ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int, ncclComm_t* child, void*) {
  return make(child, comm->comm.nranks / 2, comm->comm.hash + static_cast<uint64_t>(colour) + 1, comm->comm.rank / 2,
              true);
}
FAKE_API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->maker.joinable()) comm->maker.join();
  {
    std::lock_guard lock(mutex);
    driver().destroy(comm->comm);
  }
  delete comm;
  return kSuccess;
}
FAKE_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->ready ? kSuccess : kInProgress;
  return kSuccess;
}
FAKE_API ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->comm.nranks;
  return kSuccess;
}
FAKE_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->comm.rank;
  return kSuccess;
}
FAKE_API ncclResult_t ncclAllReduce(const void*, void*, size_t count, int type, int, ncclComm_t comm, void*) {
  return collective(comm, {"AllReduce", 4, count, type});
}
FAKE_API ncclResult_t ncclAllGather(const void*, void*, size_t count, int type, ncclComm_t comm, void*) {
  return collective(comm, {"AllGather", 2, count, type});
}
FAKE_API ncclResult_t ncclSend(const void*, size_t count, int type, int peer, ncclComm_t comm, void*) {
  return collective(comm, {"Send", 6, count, type, 0, peer});
}
FAKE_API ncclResult_t ncclRecv(void*, size_t count, int type, int peer, ncclComm_t comm, void*) {
  return collective(comm, {"Recv", 7, count, type, 0, peer});
}
