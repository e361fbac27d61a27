#include "tests/integration/nccl/ranks.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace orrery::test {
namespace {

constexpr size_t kTextBytes = 1024;

struct Shared {
  std::atomic<int> id_state{0};  // 1: id is set, 2: rank 0 failed to make it
  ncclUniqueId id;
};

Shared* map_shared(size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Shared;
}

void share_id(RankContext& context, Shared& shared) {
  if (context.rank == 0) {
    shared.id_state = ncclGetUniqueId(&shared.id) == ncclSuccess ? 1 : 2;
  }
  while (shared.id_state == 0) ::usleep(1000);
  expect(shared.id_state == 1, "ncclGetUniqueId failed");
  context.id = shared.id;
}

// Where there are RDMA devices, ORRERY_TEST_HCAS names them, separated by commas: the ranks take them in turn.
void choose_device(int rank) {
  const char* list = std::getenv("ORRERY_TEST_HCAS");
  if (!list) return;
  std::vector<std::string> names;
  std::istringstream text(list);
  for (std::string name; std::getline(text, name, ',');) names.push_back(name);
  ::setenv("NCCL_IB_HCA", ("=" + names[static_cast<size_t>(rank) % names.size()]).c_str(), 1);
}

[[noreturn]] void run_child(RankContext context, Shared& shared, char* text,
                            const std::function<void(RankContext&)>& body, int timeout_s) {
  const char* slower = std::getenv("ORRERY_TEST_SLOWER");  // how many times longer things may take here
  ::alarm(static_cast<unsigned>(timeout_s * (slower ? std::atoi(slower) : 1)));
  choose_device(context.rank);
  try {
    share_id(context, shared);
    body(context);
  } catch (const std::exception& finding) {
    std::snprintf(text, kTextBytes, "%s", finding.what());
  }
  ::_exit(0);
}

}  // namespace

void expect(bool condition, const std::string& what) {
  if (!condition) throw Finding(what);
}

void expect_success(ncclResult_t result, const std::string& what) {
  if (result != ncclSuccess) {
    throw Finding(what + " returned " + std::to_string(result) + ": " + ncclGetLastError(nullptr));
  }
}

std::vector<std::string> run_ranks(int nranks, const std::function<void(RankContext&)>& body, int timeout_s) {
  const size_t bytes = sizeof(Shared) + static_cast<size_t>(nranks) * kTextBytes;
  Shared* shared = map_shared(bytes);
  if (!shared) return {"mmap failed"};
  char* texts = reinterpret_cast<char*>(shared + 1);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < nranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      run_child({.rank = rank, .nranks = nranks}, *shared, texts + static_cast<size_t>(rank) * kTextBytes, body,
                timeout_s);
    }
    pids.push_back(pid);
  }
  std::vector<std::string> found;
  for (size_t rank = 0; rank < pids.size(); ++rank) {
    int status = 0;
    ::waitpid(pids[rank], &status, 0);
    std::string text = texts + rank * kTextBytes;
    if (WIFSIGNALED(status)) text = "killed by signal " + std::to_string(WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) text = "exit code " + std::to_string(WEXITSTATUS(status));
    found.push_back(text);
  }
  ::munmap(shared, bytes);
  return found;
}

std::string findings(const std::vector<std::string>& texts) {
  std::string all;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) all += "rank " + std::to_string(rank) + ": " + texts[rank] + "\n";
  }
  return all;
}

}  // namespace orrery::test
