// Makes communicators in every way, all ranks in one process: `communicators WHAT`. Each one made is used for one
// all-reduce, whose number of bytes says which stage and rank it belongs to. With PROBE_WAITS_FOR_AGENT it says "ready"
// and waits for a line first.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/preload/nccl/nccl_api.h"

namespace {

ncclUniqueId some_id(char first) {
  ncclUniqueId id;
  for (size_t i = 0; i < sizeof(id.internal); ++i) id.internal[i] = static_cast<char>(i * 3 + 1);
  id.internal[0] = first;
  return id;
}

void use(ncclComm_t comm, int stage, int rank) {
  const auto bytes = static_cast<size_t>(stage * 100 + rank);
  const ncclResult_t result = ncclAllReduce(nullptr, nullptr, bytes, ncclInt8, ncclSum, comm, nullptr);
  if (result != ncclSuccess) std::printf("stage %d rank %d: %d\n", stage, rank, result);
}

void use(const std::vector<ncclComm_t>& comms, int stage) {
  for (size_t rank = 0; rank < comms.size(); ++rank) use(comms[rank], stage, static_cast<int>(rank));
}

std::vector<ncclComm_t> init(int nranks, char first) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(nranks));
  for (int rank = 0; rank < nranks; ++rank)
    ncclCommInitRank(&comms[static_cast<size_t>(rank)], nranks, some_id(first), rank);
  return comms;
}

// A config of `size` bytes that ends where the memory ends.
ncclConfig_t* config_at_end_of_page(size_t size, int blocking) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* base = static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(base + page, page, PROT_NONE);
  char* config = base + page - size;
  for (size_t i = 0; i < size; ++i) config[i] = static_cast<char>(i);
  std::memcpy(config, &size, sizeof(size));
  std::memcpy(config + 16, &blocking, sizeof(blocking));
  return reinterpret_cast<ncclConfig_t*>(config);
}

#if FAKE_NCCL_VERSION >= 22902
// Rank `root` asks for the unique id; the last rank is new.
std::vector<ncclComm_t> grow(const std::vector<ncclComm_t>& parents, size_t root) {
  const auto nranks = static_cast<int>(parents.size() + 1);
  std::vector<ncclComm_t> comms(parents.size() + 1);
  ncclUniqueId id;
  ncclCommGetUniqueId(parents[root], &id);
  for (size_t rank = 0; rank < parents.size(); ++rank)
    ncclCommGrow(parents[rank], nranks, rank == root ? &id : nullptr, -1, &comms[rank], nullptr);
  ncclCommGrow(nullptr, nranks, &id, nranks - 1, &comms.back(), nullptr);
  return comms;
}

std::vector<ncclComm_t> shrink(const std::vector<ncclComm_t>& parents, int excluded) {
  std::vector<ncclComm_t> comms;
  for (size_t rank = 0; rank < parents.size(); ++rank) {
    if (static_cast<int>(rank) == excluded) continue;
    comms.emplace_back();
    ncclCommShrink(parents[rank], &excluded, 1, &comms.back(), nullptr, 0);
  }
  return comms;
}

std::vector<ncclComm_t> split(const std::vector<ncclComm_t>& parents, int colour) {
  std::vector<ncclComm_t> comms;
  for (size_t rank = 0; rank < parents.size(); ++rank) {
    comms.emplace_back();
    ncclCommSplit(parents[rank], colour, static_cast<int>(rank), &comms.back(), nullptr);
  }
  return comms;
}

void lineage() {
  const std::vector<ncclComm_t> first = init(4, 'a');
  use(first, 1);
  use(split(first, 5), 2);
  use(split(first, 5), 3);
  std::vector<ncclComm_t> none = split(first, -1);
  use(split(first, 6), 4);
  const std::vector<ncclComm_t> grown = grow(first, 2);
  use(grown, 5);
  use(grow(first, 0), 6);
  const std::vector<ncclComm_t> shrunk = shrink(grown, 1);
  use(shrunk, 7);
  use(shrink(grown, 0), 8);
  const std::vector<ncclComm_t> grown_again = grow(shrunk, 3);
  use(grown_again, 9);
  const std::vector<ncclComm_t> child = split(grown_again, 0);
  use(child, 10);
  use(grow(child, 1), 11);
}

// The old ranks that do not ask for the unique id can't know what it is going to be.
void grow_what_was_made_at_once() {
  std::vector<ncclComm_t> comms(2);
  ncclCommInitAll(comms.data(), 2, nullptr);
  use(grow(comms, 0), 1);
}

void device() {
  const std::vector<ncclComm_t> comms = init(2, 'a');
  for (int i = 0; i < 2; ++i) std::printf("device %d\n", ncclDevCommCreate(comms[1], nullptr, nullptr));
  std::printf("device %d\n", ncclDevCommCreate(nullptr, nullptr, nullptr));
}

void one_sided() {
  const std::vector<ncclComm_t> comms = init(2, 'a');
  ncclPutSignal(nullptr, 10, ncclHalf, 1, nullptr, 0, 0, 0, 0, comms[0], nullptr);
  ncclSignal(1, 0, 0, 0, comms[0], nullptr);
  ncclWaitSignal(0, nullptr, comms[0], nullptr);
  use(comms[0], 1, 0);
}

void ends() {
  const std::vector<ncclComm_t> comms = init(4, 'a');
  use(comms, 1);
  ncclCommFinalize(comms[0]);
  ncclCommDestroy(comms[0]);
  ncclCommRevoke(comms[1], 0);
  ncclCommAbort(comms[1]);
  ncclCommSuspend(comms[2], 1);
  ncclCommResume(comms[2]);
  use(comms[2], 2, 2);
  fake_nccl_answer_with(ncclInternalError);
  ncclComm_t failed = nullptr;
  std::printf("failed %d\n", ncclCommInitRank(&failed, 4, some_id('f'), 1));
}
#endif

#if FAKE_NCCL_VERSION >= 21800
void poll(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  int polls = 0;
  for (; state == ncclInProgress; ++polls) ncclCommGetAsyncError(comm, &state);
  std::printf("ready after %d: %d\n", polls, state);
}

void non_blocking() {
  ncclConfig_t* config = config_at_end_of_page(48, 0);
  ncclComm_t comm = nullptr, child = nullptr, early = nullptr;
  std::printf("init %d\n", ncclCommInitRankConfig(&comm, 4, some_id('n'), 1, config));
  poll(comm);
  use(comm, 1, 1);
  std::printf("split %d\n", ncclCommSplit(comm, 3, 0, &child, nullptr));
  poll(comm);
  poll(child);
  use(child, 2, 0);
  ncclGroupStart();
  std::printf("split in group %d\n", ncclCommSplit(comm, 4, 0, &early, nullptr));
  std::printf("end %d\n", ncclGroupEnd());
  poll(comm);
  use(early, 3, 0);  // not ready yet: who it is can't be asked before
  poll(early);
  use(early, 4, 0);
}

void every_config() {
  for (size_t size : {24, 40, 48, 72, 80, 88, 96, 104}) {
    ncclComm_t comm = nullptr, child = nullptr;
    std::printf("init %d", ncclCommInitRankConfig(&comm, 2, some_id('c'), 0, config_at_end_of_page(size, 1)));
    std::printf(" split %d\n", ncclCommSplit(comm, 0, 0, &child, config_at_end_of_page(size, 1)));
  }
}
#endif

#if FAKE_RCCL
void uneven() {
  const std::vector<ncclComm_t> comms = init(3, 'a');
  // Exactly as long as there are ranks, up to the end of the memory.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* base = static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(base + page, page, PROT_NONE);
  auto* counts = reinterpret_cast<size_t*>(base + page) - 4;
  for (size_t i = 0; i < 4; ++i) counts[i] = 10 + i;
  ncclAllToAllv(nullptr, counts, nullptr, nullptr, counts, nullptr, ncclHalf, comms[1], nullptr);
  ncclAllToAll(nullptr, nullptr, 7, ncclHalf, comms[1], nullptr);
  ncclGather(nullptr, nullptr, 8, ncclHalf, 2, comms[1], nullptr);
  ncclScatter(nullptr, nullptr, 9, ncclHalf, 1, comms[1], nullptr);
  ncclAllReduceWithBias(nullptr, nullptr, 10, ncclHalf, ncclMax, comms[1], nullptr, nullptr);
}
#endif

void call_agent() {
  ncclUniqueId id{};
  ncclCommInitRank(nullptr, 0, id, 0);
}

void wait_for_agent() {
  call_agent();
  std::printf("ready\n");
  std::fflush(stdout);
  char line;
  if (read(STDIN_FILENO, &line, 1) == 1) call_agent();
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> commands {
#if FAKE_NCCL_VERSION >= 21800
    {"non-blocking", non_blocking}, {"every-config", every_config},
#endif
#if FAKE_NCCL_VERSION >= 22902
        {"lineage", lineage}, {"grow-what-was-made-at-once", grow_what_was_made_at_once}, {"device", device},
        {"one-sided", one_sided}, {"ends", ends},
#endif
#if FAKE_RCCL
        {"uneven", uneven},
#endif
  };
  const auto command = commands.find(argc == 2 ? argv[1] : "");
  if (command == commands.end()) return 2;
  if (std::getenv("PROBE_WAITS_FOR_AGENT") != nullptr) wait_for_agent();
  command->second();
  return 0;
}
