#include "tests/preload/profiled_nccl.h"

#include <dlfcn.h>
#include <strings.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "agent/preload/profiler_abi.h"

namespace orrery::probe {
namespace {

using namespace preload::profiler;

const char* type_word(int type) {
  static const char* words[] = {"ncclInt8",   "Unknown",     "ncclInt32",   "ncclUint32",  "ncclInt64",
                                "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  return words[type];
}
size_t type_bytes(int type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

void* open_plugin() {
  const char* name = std::getenv("NCCL_PROFILER_PLUGIN");
  if (name == nullptr || *name == '\0')
    name = std::getenv("PROFILED_RCCL") != nullptr ? "librccl-profiler.so" : "libnccl-profiler.so";
  if (strcasecmp(name, "none") == 0) return nullptr;
  if (strncasecmp(name, "STATIC_PLUGIN", strlen(name)) == 0) name = nullptr;
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void log_nothing(int, unsigned long, const char*, int, const char*, ...) {}

// A release that speaks kVersion and finds it. Newer versions than its own no release looks for.
template <int kVersion>
class Driver : public ProfiledNccl {
  using Descriptor = typename Types<kVersion>::Descriptor;
  using Arguments = typename Types<kVersion>::StateArguments;

 public:
  void init(ProfiledComm& comm) override {
    {
      std::lock_guard lock(load_mutex_);
      if (references_++ == 0) load();
    }
    if (table_ == nullptr) return;
    if constexpr (kVersion <= 3)
      table_->init(&comm.context, &mask_);
    else if constexpr (kVersion == 4)
      table_->init(&comm.context, &mask_, "name", comm.hash, 2, comm.nranks, comm.rank, log_nothing);
    else
      table_->init(&comm.context, comm.hash, &mask_, "name", 2, comm.nranks, comm.rank, log_nothing);
  }

  void destroy(ProfiledComm& comm) override {
    if (table_ != nullptr) table_->finalize(comm.context);
    std::lock_guard lock(load_mutex_);
    if (--references_ != 0 || library_ == nullptr) return;
    dlclose(library_);
    library_ = nullptr;
    table_ = nullptr;
  }

  void enqueue(Plan& plan, ProfiledComm& comm, const ProfiledCall& call, bool captured) override {
    if (plan.comm == nullptr) {
      plan.comm = &comm;
      plan.captured = captured;
      if constexpr (kVersion >= 5) open_group(plan);
    }
    plan.calls.push_back(call);
    plan.api_events.push_back(nullptr);
    if constexpr (kVersion >= 5) tell_of_call(plan, call, &plan.api_events.back());
  }

  void launch(Plan& plan) override {
    if (table_ != nullptr && plan.group_api != nullptr)
      table_->record_event_state(plan.group_api, kGroupEndApiStart, nullptr);
    if (!plan.captured) run(plan, getpid());
    if (table_ != nullptr && plan.group_api != nullptr) table_->stop_event(plan.group_api);
  }

  void run(const Plan& plan, pid_t proxy_pid) override {
    if (table_ == nullptr) return;
    void* group = nullptr;
    if (mask_ & (kColl | kP2p | kProxy | kLow | (kVersion >= 3 ? int{kGroup} : 0))) {
      Descriptor descriptor{};
      descriptor.type = kGroup;
      table_->start_event(plan.comm->context, &group, &descriptor);
    }
    std::vector<void*> tasks(plan.calls.size());
    for (size_t i = 0; i < plan.calls.size(); ++i) {
      if (is_merged(plan.calls[i])) continue;
      const int own = plan.calls[i].peer >= 0 ? kP2p : kColl;
      if ((mask_ & (own | kProxy | kLow)) == 0 || (kVersion <= 4 && group == nullptr)) continue;
      start_task(plan, i, group, &tasks[i]);
    }
    for (size_t i = 0; i < tasks.size(); ++i) run_proxy(*plan.comm, tasks[i], proxy_pid, static_cast<int>(i) % 2);
    for (void* task : tasks)
      if (task != nullptr) table_->stop_event(task);
    if (group != nullptr) table_->stop_event(group);
  }

  void proxy_control() override {
    if (table_ == nullptr || (mask_ & kProxyCtrl) == 0) return;
    Descriptor descriptor{};
    descriptor.type = kProxyCtrl;
    void* event = nullptr;
    table_->start_event(nullptr, &event, &descriptor);
    Arguments arguments{};
    arguments.proxy_ctrl.appended = 3;
    if (event == nullptr) return;
    table_->record_event_state(event, kCtrlLast, &arguments);
    table_->stop_event(event);
  }

  int mask() const override { return mask_; }
  bool loaded() const override { return table_ != nullptr; }

 private:
  void load() {
    library_ = open_plugin();
    if (library_ == nullptr) return;
    const std::string name = "ncclProfiler_v" + std::to_string(kVersion);
    table_ = static_cast<Table<kVersion>*>(dlsym(library_, name.c_str()));
  }

  // 2.30 makes one AllGatherV of a group's broadcasts, without a word to the profiler.
  static bool is_merged(const ProfiledCall& call) { return kVersion == 6 && std::strcmp(call.func, "Broadcast") == 0; }

  static constexpr int kProxy = kProxyOp | kProxyStep;
  static constexpr int kLow = kVersion >= 3 ? kKernelCh | kNetPlugin : 0;
  static constexpr int kCopies = kVersion >= 6 ? kCeColl | kCeSync | kCeBatch : 0;

  // The rank of API events is 0 on all ranks, in 2.28 to 2.30 (NVIDIA/nccl issue 2300).
  void open_group(Plan& plan) {
    const int asking = kGroupApi | kP2pApi | kCollApi | kKernelLaunch | kGroup | kColl | kP2p | kProxy | kLow | kCopies;
    if (table_ == nullptr || (mask_ & asking) == 0) return;
    Descriptor descriptor{};
    descriptor.type = kGroupApi;
    descriptor.group_api.graph_captured = plan.captured;
    descriptor.group_api.depth = 1;
    table_->start_event(plan.comm->context, &plan.group_api, &descriptor);
    if (plan.group_api != nullptr) table_->record_event_state(plan.group_api, kGroupStartApiStop, nullptr);
  }

  void tell_of_call(const Plan& plan, const ProfiledCall& call, void** event) {
    const bool p2p = call.peer >= 0;
    const int asking = p2p ? kP2pApi | kP2p | kProxy | kLow : kCollApi | kColl | kProxy | kLow | kCopies;
    if (table_ == nullptr || (mask_ & asking) == 0) return;
    Descriptor descriptor{};
    descriptor.type = p2p ? kP2pApi : kCollApi;
    descriptor.parent = plan.group_api;
    if (p2p)
      descriptor.p2p_api = {call.func, call.count, type_word(call.type), nullptr, plan.captured};
    else
      descriptor.coll_api = {call.func, call.count, type_word(call.type), call.root, nullptr, plan.captured};
    table_->start_event(plan.comm->context, event, &descriptor);
    if (*event != nullptr) table_->stop_event(*event);
  }

  void start_task(const Plan& plan, size_t i, void* group, void** task) {
    const ProfiledCall& call = plan.calls[i];
    Descriptor descriptor{};
    descriptor.type = call.peer >= 0 ? kP2p : kColl;
    descriptor.rank = plan.comm->rank;
    descriptor.parent = kVersion >= 5 ? plan.api_events[i] : group;
    if (call.peer >= 0)
      fill(descriptor.p2p, *plan.comm, call, group).peer = call.peer;
    else
      fill(descriptor.coll, *plan.comm, call, group).root = call.root;
    if constexpr (requires { descriptor.coll.traffic_bytes; })
      if (call.peer < 0) descriptor.coll.traffic_bytes = traffic(*plan.comm, call);
    if (call.peer < 0) descriptor.coll.sequence = plan.comm->sequence[call.number]++;
    table_->start_event(plan.comm->context, task, &descriptor);
  }

  template <typename Part>
  Part& fill(Part& part, const ProfiledComm& comm, const ProfiledCall& call, void* group) {
    part.count = call.count;
    if constexpr (kVersion == 1) {
      part.func = call.number;
      part.datatype = static_cast<uint8_t>(call.type);
    } else {
      part.func = call.func;
      part.datatype = type_word(call.type);
    }
    if constexpr (requires { part.comm_hash; }) {
      part.comm_name = "name";
      part.comm_hash = comm.hash;
    }
    if constexpr (requires { part.parent_group; }) part.parent_group = group;
    return part;
  }

  static size_t traffic(const ProfiledComm& comm, const ProfiledCall& call) {
    const size_t bytes = call.count * type_bytes(call.type);
    if (std::strcmp(call.func, "AllReduce") == 0) return 2 * bytes;
    const bool all = std::strcmp(call.func, "AllGather") == 0 || std::strcmp(call.func, "ReduceScatter") == 0;
    return all ? bytes * static_cast<size_t>(comm.nranks) : bytes;
  }

  void run_proxy(ProfiledComm& comm, void* task, pid_t pid, int is_send) {
    if ((mask_ & (kProxyOp | kProxyStep | (kVersion >= 3 ? int{kNetPlugin} : 0))) == 0) return;
    Descriptor descriptor{};
    descriptor.type = kProxyOp;
    descriptor.parent = task;
    descriptor.rank = comm.rank;
    descriptor.proxy_op = {pid, 3, 2, 2, 4096, is_send};
    void* op = nullptr;
    table_->start_event(comm.context, &op, &descriptor);
    Arguments arguments{};
    if constexpr (kVersion >= 4)
      if (op != nullptr) table_->record_event_state(op, kOpInProgress, nullptr);
    if (mask_ & (kProxyStep | kNetPlugin)) run_step(comm, op, arguments);
    if (op != nullptr) table_->stop_event(op);
  }

  void run_step(ProfiledComm& comm, void* op, Arguments& arguments) {
    Descriptor descriptor{};
    descriptor.type = kProxyStep;
    descriptor.parent = op;
    descriptor.rank = comm.rank;
    descriptor.proxy_step = {1};
    void* step = nullptr;
    table_->start_event(comm.context, &step, &descriptor);
    if constexpr (kVersion >= 4) arguments.proxy_step.bytes = 512;
    if (step == nullptr) return;
    table_->record_event_state(step, kStepSendGpuWait, &arguments);
    table_->record_event_state(step, kStepSendWait, &arguments);
    table_->stop_event(step);
  }

  std::mutex load_mutex_;
  void* library_ = nullptr;
  Table<kVersion>* table_ = nullptr;
  int references_ = 0;
  int mask_ = 0;
};

}  // namespace

std::unique_ptr<ProfiledNccl> ProfiledNccl::create(int version) {
  switch (version) {
    case 1:
      return std::make_unique<Driver<1>>();
    case 2:
      return std::make_unique<Driver<2>>();
    case 3:
      return std::make_unique<Driver<3>>();
    case 4:
      return std::make_unique<Driver<4>>();
    case 5:
      return std::make_unique<Driver<5>>();
    default:
      return std::make_unique<Driver<6>>();
  }
}

}  // namespace orrery::probe
