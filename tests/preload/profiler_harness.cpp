// The program of the profiler tests: `profiler_harness SCENARIO VERSION`. In "hidden" scenarios it is a program with an
// NCCL of its own inside, of which only the profiler interface shows; in the others it calls an NCCL library.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "agent/preload/profiler_abi.h"
#include "tests/preload/nccl_calls.h"
#include "tests/preload/probe_syscalls.h"
#include "tests/preload/profiled_nccl.h"

extern "C" void fake_nccl_capture(int);
extern "C" void fake_nccl_replay(int);

namespace orrery::probe {
namespace {

using namespace preload::profiler;

const ProfiledCall kAllReduce{"AllReduce", 4, 1000, 7};
const ProfiledCall kAllGather{"AllGather", 2, 20, 0};
const ProfiledCall kBroadcast{"Broadcast", 0, 10, 0, 1};
const ProfiledCall kSend{"Send", 6, 64, 7, 0, 2};
const ProfiledCall kRecv{"Recv", 7, 64, 7, 0, 0};

// Two communicators, every kind of call, a graph, late and missing states: what NCCL does in a job.
void hidden_tour(int version) {
  auto nccl = ProfiledNccl::create(version);
  ProfiledComm first{0xaaaa, 4, 1}, second{0xbbbb, 2, 0};
  nccl->init(first);
  nccl->init(second);
  std::printf("loaded %d mask %d\n", nccl->loaded(), nccl->mask());
  nccl->call(first, {kAllGather});
  nccl->call(first, {kAllReduce});
  nccl->call(first, {kSend, kRecv});
  nccl->call(second, {kAllGather});
  nccl->call(second, {kBroadcast});
  nccl->proxy_control();
  const Plan graph = nccl->call(first, {kAllReduce}, true);
  for (int i = 0; i < 3; ++i) nccl->run(graph, getpid());
  nccl->call(first, {kAllReduce});
  nccl->run(graph, getpid() + 1);
  nccl->destroy(second);
  nccl->call(first, {kAllReduce});
  nccl->destroy(first);
  std::printf("unloaded %d\n", !nccl->loaded());
}

// The last communicator's end closes the plug-in; the next opens it again.
void hidden_twice(int version) {
  hidden_tour(version);
  hidden_tour(version);
}

template <int kVersion>
Table<kVersion>* own_table() {
  return static_cast<Table<kVersion>*>(dlsym(RTLD_DEFAULT, ("ncclProfiler_v" + std::to_string(kVersion)).c_str()));
}

template <int kVersion, typename Use>
void init_with(Table<kVersion>* table, void** context, int* mask, Use use) {
  if constexpr (kVersion <= 3)
    use(table->init(context, mask));
  else if constexpr (kVersion == 4)
    use(table->init(context, mask, nullptr, 0x1234, 1, 4, 3, nullptr));
  else
    use(table->init(context, 0x1234, mask, nullptr, 1, 4, 3, nullptr));
}

// What no NCCL should do, and some have done.
template <int kVersion>
void hostile_to(Table<kVersion>* table) {
  using Descriptor = typename Types<kVersion>::Descriptor;
  int failures = 0;
  const auto expect_ok = [&](int result) { failures += result != 0; };
  void* context = nullptr;
  int mask = -1;
  init_with(table, nullptr, nullptr, expect_ok);
  init_with(table, &context, &mask, expect_ok);
  Descriptor descriptor{};
  void* event = nullptr;
  expect_ok(table->start_event(context, nullptr, &descriptor));
  expect_ok(table->start_event(context, &event, nullptr));
  auto* unreadable = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int local = 0;
  // Contexts and handles of other processes, of the past, and of nobody.
  for (void* odd :
       {static_cast<void*>(nullptr), static_cast<void*>(&local), unreadable,
        reinterpret_cast<void*>(0xdeadbeefdeadbeefull), static_cast<void*>(static_cast<char*>(context) + 8)})
    for (unsigned bit = 0; bit < (kVersion >= 5 ? 64 : 8); ++bit) {
      descriptor = {};
      descriptor.type = static_cast<decltype(descriptor.type)>(1ull << bit);
      descriptor.parent = odd;
      descriptor.rank = -5;
      event = unreadable;
      expect_ok(table->start_event(odd, &event, &descriptor));
      expect_ok(table->record_event_state(event, static_cast<int>(bit), nullptr));
      expect_ok(table->stop_event(event));
      expect_ok(table->start_event(context, &event, &descriptor));
      expect_ok(table->stop_event(event));
      expect_ok(table->record_event_state(event, 9, nullptr));  // after its stop
      expect_ok(table->stop_event(event));                      // twice
      expect_ok(table->stop_event(odd));
      expect_ok(table->record_event_state(odd, 1 << 30, nullptr));
    }
  for (int i = 0; i < 100'000; ++i) {  // never stopped
    descriptor = {};
    descriptor.type = kGroup;
    table->start_event(context, &event, &descriptor);
  }
  descriptor.type = kProxyOp;  // of a process we are not (PXN), whose handle this is
  descriptor.parent = unreadable;
  descriptor.proxy_op.pid = getpid() + 1;
  expect_ok(table->start_event(context, &event, &descriptor));
  expect_ok(table->stop_event(event));
  expect_ok(table->finalize(context));
  expect_ok(table->finalize(context));
  expect_ok(table->finalize(unreadable));
  descriptor.type = kGroup;
  expect_ok(table->start_event(context, &event, &descriptor));
  // More communicators than fit, and all given back.
  std::vector<void*> many(3000);
  for (void*& one : many) init_with(table, &one, &mask, expect_ok);
  for (void* one : many) expect_ok(table->finalize(one));
  init_with(table, &context, &mask, expect_ok);
  std::printf("failures %d mask %d context %d\n", failures, mask, context != nullptr);
}

void hostile(int version) {
  const std::function<void()> ways[] = {[] { hostile_to(own_table<1>()); }, [] { hostile_to(own_table<2>()); },
                                        [] { hostile_to(own_table<3>()); }, [] { hostile_to(own_table<4>()); },
                                        [] { hostile_to(own_table<5>()); }, [] { hostile_to(own_table<6>()); }};
  ways[version - 1]();
}

// Eight threads that make a communicator each, at once, and call.
void hidden_threads(int version) {
  auto nccl = ProfiledNccl::create(version);
  std::vector<ProfiledComm> comms;
  for (uint64_t i = 0; i < 8; ++i) comms.push_back({0x100 + i, 8, static_cast<int>(i)});
  std::vector<std::thread> threads;
  for (ProfiledComm& comm : comms)
    threads.emplace_back([&nccl, &comm] {
      nccl->init(comm);
      for (int i = 0; i < 50; ++i) nccl->call(comm, {kAllGather});
    });
  for (std::thread& thread : threads) thread.join();
  for (ProfiledComm& comm : comms) nccl->destroy(comm);
  std::printf("done\n");
}

// Communicators come and go on several threads at once; counts the contexts that two had at the same time.
void churn(int) {
  constexpr int kThreads = 4;
  std::atomic<void*> held[kThreads] = {};
  std::atomic<int> shared = 0;
  std::vector<std::thread> threads;
  for (int self = 0; self < kThreads; ++self)
    threads.emplace_back([&held, &shared, self] {
      const Table<6>* table = own_table<6>();
      for (uint64_t i = 0; i < 200'000; ++i) {
        void* context = nullptr;
        int mask = 0;
        table->init(&context, i, &mask, "", 1, 8, self, nullptr);
        held[self] = context;
        for (int other = 0; other < kThreads; ++other) shared += other != self && held[other] == context;
        held[self] = nullptr;
        table->finalize(context);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::printf("shared %d\n", shared.load());
}

void hidden_syscalls(int version) {
  auto nccl = ProfiledNccl::create(version);
  ProfiledComm comm{0xaaaa, 4, 1};
  nccl->init(comm);
  for (int i = 0; i < 100; ++i) nccl->call(comm, {kAllGather});
  const Plan graph = nccl->call(comm, {kAllReduce}, true);
  trap_all_syscalls();
  for (int i = 0; i < 50'000; ++i) {
    nccl->run(graph, 1);
  }
  print_raw("syscalls ", trapped_syscalls());
  leave(0);
}

int all_reduce(ncclComm_t comm, size_t count) {
  return ncclAllReduce(nullptr, nullptr, count, 7, 0, comm, nullptr);
}

ncclComm_t make_comm(int nranks, int rank, int salt = 0) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  id.internal[0] = static_cast<char>(salt);
  ncclComm_t comm = nullptr;
  ncclCommInitRank(&comm, nranks, id, rank);
  return comm;
}

void api_tour(int) {
  ncclComm_t comm = make_comm(4, 1);
  all_reduce(comm, 10);
  fake_nccl_capture(1);
  all_reduce(comm, 20);
  ncclGroupStart();
  ncclSend(nullptr, 30, 7, 2, comm, nullptr);
  ncclRecv(nullptr, 30, 7, 0, comm, nullptr);
  ncclGroupEnd();
  fake_nccl_capture(0);
  fake_nccl_replay(3);
  all_reduce(comm, 40);
  ncclCommDestroy(comm);
  std::printf("done\n");
}

// Made all at once, in a group, later and as a child; each launches a graph of its own size.
void api_many(int) {
  std::vector<ncclComm_t> comms(3);
  ncclCommInitAll(comms.data(), 3, nullptr);
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t grouped[2];
  ncclGroupStart();
  for (int rank = 0; rank < 2; ++rank) ncclCommInitRank(&grouped[rank], 2, id, rank);
  ncclGroupEnd();
  comms.insert(comms.end(), {grouped[0], grouped[1]});
  int config = 0;
  ncclComm_t late = nullptr;
  ncclCommInitRankConfig(&late, 8, id, 5, &config);
  for (int state = -1; state != 0;) ncclCommGetAsyncError(late, &state);  // before that it may not be used
  comms.push_back(late);
  ncclComm_t child = nullptr;
  ncclCommSplit(late, 1, 0, &child, nullptr);
  comms.push_back(child);
  for (size_t i = 0; i < comms.size(); ++i) {
    all_reduce(comms[i], 100 + i);
    fake_nccl_capture(1);
    all_reduce(comms[i], 200 + i);
    fake_nccl_capture(0);
    fake_nccl_replay(2);
  }
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  std::printf("done\n");
}

// An NCCL with wrappers and a hidden one side by side.
void api_and_hidden(int version) {
  ncclComm_t comm = make_comm(4, 1);
  auto nccl = ProfiledNccl::create(version);
  ProfiledComm hidden{0xaaaa, 4, 1};
  nccl->init(hidden);
  all_reduce(comm, 10);
  nccl->call(hidden, {kAllGather});
  nccl->destroy(hidden);
  ncclCommDestroy(comm);
  std::printf("done\n");
}

// Makes the library call the agent, and then take the answer.
void wait_for_agent() {
  ncclUniqueId id{};
  ncclCommInitRank(nullptr, 0, id, 0);
  std::printf("ready\n");
  std::fflush(stdout);
  char line;
  if (read(STDIN_FILENO, &line, 1) == 1) ncclCommInitRank(nullptr, 0, id, 0);
}

int run(const std::string& scenario, int version) {
  const std::map<std::string, void (*)(int)> scenarios{{"hidden", hidden_tour},
                                                       {"hidden-twice", hidden_twice},
                                                       {"hidden-threads", hidden_threads},
                                                       {"hidden-syscalls", hidden_syscalls},
                                                       {"hostile", hostile},
                                                       {"churn", churn},
                                                       {"api", api_tour},
                                                       {"api-many", api_many},
                                                       {"api-and-hidden", api_and_hidden}};
  const auto found = scenarios.find(scenario);
  if (found == scenarios.end()) return 2;
  setenv("FAKE_NCCL_INTERFACE", std::to_string(version).c_str(), 1);
  if (std::getenv("PROBE_WAITS_FOR_AGENT") != nullptr) wait_for_agent();
  found->second(version);
  return 0;
}

}  // namespace
}  // namespace orrery::probe

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return orrery::probe::run(argv[1], std::atoi(argv[2]));
}
