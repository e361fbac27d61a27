// The program under test: run with and without the library, it does what its first argument says and prints what it
// saw.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/preload/nccl_calls.h"
#include "tests/preload/probe_network.h"
#include "tests/preload/probe_syscalls.h"

namespace orrery::probe {
namespace {

ncclComm_t make_comm(char salt = 0) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  id.internal[0] = static_cast<char>(id.internal[0] + salt);
  ncclComm_t comm = nullptr;
  const int result = ncclCommInitRank(&comm, 4, id, 1);
  if (result != 0) std::printf("init failed: %d\n", result);
  return comm;
}

int all_reduce(ncclComm_t comm, size_t count = 1000) {
  return ncclAllReduce(nullptr, nullptr, count, 7, 0, comm, nullptr);
}

// Every kind of call once, with the answers printed.
void nccl_tour() {
  ncclComm_t comm = make_comm();
  std::printf("all_reduce %d\n", all_reduce(comm));
  std::printf("all_gather %d\n", ncclAllGather(nullptr, nullptr, 10, 6, comm, nullptr));
  std::printf("reduce_scatter %d\n", ncclReduceScatter(nullptr, nullptr, 10, 8, 17, comm, nullptr));
  std::printf("bcast %d\n", ncclBcast(nullptr, 5, 0, 2, comm, nullptr));
  std::printf("reduce %d\n", ncclReduce(nullptr, nullptr, 5, 4, 2, 3, comm, nullptr));
  std::printf("group %d", ncclGroupStart());
  std::printf(" %d", ncclSend(nullptr, 64, 7, 2, comm, nullptr));
  std::printf(" %d", ncclRecv(nullptr, 64, 7, 0, comm, nullptr));
  std::printf(" %d level %d\n", ncclGroupEnd(), fake_nccl_group_level());
  ncclComm_t child = nullptr, none = nullptr;
  std::printf("split %d %d\n", ncclCommSplit(comm, 1, 0, &child, nullptr), child != nullptr);
  std::printf("split none %d %d\n", ncclCommSplit(comm, -1, 0, &none, nullptr), none != nullptr);
  std::printf("child %d\n", all_reduce(child, 1));
  std::printf("null %d\n", all_reduce(nullptr));
  std::printf("destroy %d\n", ncclCommDestroy(child));
  std::printf("destroy %d\n", ncclCommDestroy(comm));
  int version = 0;
  std::printf("version %d %d\n", ncclGetVersion(&version), version);
}

void many_comms() {
  ncclComm_t all[3] = {};
  std::printf("init all %d\n", ncclCommInitAll(all, 3, nullptr));
  for (ncclComm_t comm : all) all_reduce(comm);
  ncclGroupStart();
  ncclComm_t grouped[2] = {};
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  for (int rank = 0; rank < 2; ++rank) ncclCommInitRank(&grouped[rank], 2, id, rank);
  ncclGroupEnd();
  for (ncclComm_t comm : grouped) all_reduce(comm);
  int config = 0;
  ncclComm_t eager = nullptr;
  std::printf("non-blocking %d\n", ncclCommInitRankConfig(&eager, 2, id, 0, &config));
  all_reduce(eager);
  // More communicators, one after another, than any table holds: addresses come back.
  for (int i = 0; i < 3000; ++i) {
    ncclComm_t comm = make_comm(static_cast<char>(i));
    if (all_reduce(comm) != 0) std::printf("lost communicator %d\n", i);
    ncclCommAbort(comm);
  }
  std::printf("level %d\n", fake_nccl_group_level());
}

void count_syscalls() {
  ncclComm_t comm = make_comm();
  for (int i = 0; i < 100; ++i) all_reduce(comm);
  trap_all_syscalls();
  for (int i = 0; i < 100'000; ++i) all_reduce(comm);
  const long trapped = trapped_syscalls();
  print_raw("syscalls ", trapped);
  leave(0);
}

// Collectives until standard input ends.
void keep_going() {
  ncclComm_t comm = make_comm();
  std::printf("started\n");
  std::fflush(stdout);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  long failures = 0;
  while (poll(&input, 1, 0) == 0) {
    for (int i = 0; i < 50; ++i) failures += all_reduce(comm) != 0;
    usleep(1000);
  }
  std::printf("failures %ld\n", failures);
}

// Ten thousand collectives for every line of standard input: more than fit a ring that nobody drains.
void storm() {
  ncclComm_t comm = make_comm();
  std::printf("started\n");
  std::fflush(stdout);
  long failures = 0;
  for (char line; read(STDIN_FILENO, &line, 1) == 1;) {
    for (int i = 0; i < 10'000; ++i) failures += all_reduce(comm) != 0;
    std::printf("stormed\n");
    std::fflush(stdout);
  }
  std::printf("failures %ld\n", failures);
}

void fork_child() {
  ncclComm_t comm = make_comm();
  all_reduce(comm);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 1000; ++i) all_reduce(comm);
    ncclComm_t own = make_comm(9);
    char line;  // comes when the agent has answered
    if (read(STDIN_FILENO, &line, 1) < 0) _exit(2);
    for (int i = 0; i < 1000; ++i) all_reduce(own, 11);
    _exit(own == nullptr);
  }
  int status = -1;
  waitpid(child, &status, 0);
  // A bare clone, of which no handler is told.
  const long bare = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (bare == 0) {
    for (int i = 0; i < 1000; ++i) all_reduce(comm);
    syscall(SYS_exit_group, 0);
  }
  int bare_status = -1;
  waitpid(static_cast<pid_t>(bare), &bare_status, 0);
  all_reduce(comm, 7);
  std::printf("child %d %d bare %ld %d\n", child, status, bare, bare_status);
}

void close_everything() {
  ncclComm_t comm = make_comm();
  all_reduce(comm, 1);
  int closed = 0;
  for (int fd = 3; fd < 4096; ++fd) closed += close(fd) == 0;
  all_reduce(comm, 2);
  std::printf("closed %d\n", closed);
}

// Behind the library's back, and then something else gets the number.
void close_everything_raw() {
  ncclComm_t comm = make_comm();
  all_reduce(comm, 1);
  syscall(SYS_close_range, 3, ~0u, 0);
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  std::vector<int> pipes;
  for (int fd = 3; fd < 1020 && fd < static_cast<int>(limit.rlim_cur); ++fd) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) != 0) break;
    pipes.push_back(ends[0]);
    fd = ends[1];
  }
  for (int i = 0; i < 40; ++i) {
    for (int call = 0; call < 100; ++call) all_reduce(comm, 2);
    usleep(10'000);
  }
  int disturbed = 0;
  for (int fd : pipes) {
    char byte;
    disturbed += read(fd, &byte, 1) >= 0 || errno != EAGAIN;
  }
  std::printf("disturbed %d of %d\n", disturbed, pipes.size() > 400);
}

// Every number, ours included, is the program's again once it was closed in a way no library sees.
void take_over_numbers() {
  ncclComm_t comm = make_comm();
  all_reduce(comm, 1);
  syscall(SYS_close_range, 3, ~0u, 0);
  int refused = 0;
  for (int fd = 3; fd < 1020; ++fd) {
    if (dup(0) != fd) std::printf("number %d is not free\n", fd);
  }
  for (int fd = 3; fd < 1020; ++fd) refused += close(fd) != 0;
  std::printf("refused %d\n", refused);
}

void descriptors() {
  ncclComm_t comm = make_comm();
  all_reduce(comm);
  std::vector<int> fds;
  for (int i = 0; i < 20; ++i) fds.push_back(dup(0));
  for (int fd : fds) std::printf("%d ", fd);
  // The number of any descriptor may be taken over.
  int landed = 0;
  for (int fd = 900; fd < 1023; ++fd) landed += dup2(1, fd) == fd;
  all_reduce(comm, 2);
  std::printf("\nlanded %d\n", landed);
}

void many_threads(int count, int rounds) {
  ncclComm_t comm = make_comm();
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    std::vector<int> ids(static_cast<size_t>(count));
    for (int& id : ids)
      threads.emplace_back([&] {
        id = gettid();
        all_reduce(comm, 1);
        ++ready;
        while (ready < count) std::this_thread::yield();
        for (int i = 0; i < 100; ++i) all_reduce(comm, 2);
      });
    for (std::thread& thread : threads) thread.join();
    for (const int id : ids) wait_until_gone(id);  // or their rings are theirs in the next round
  }
  std::printf("threads done\n");
}

// Threads of a forked child that make a communicator each, at once, as the first that the child does: it has to forget
// its parent's before. Then collectives until standard input ends.
void first_together(int count) {
  make_comm();
  const pid_t child = fork();
  if (child != 0) {
    int status = -1;
    waitpid(child, &status, 0);
    std::printf("child %d\n", status);
    return;
  }
  std::atomic<int> ready = 0;
  std::vector<ncclComm_t> comms(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < count) {
      }
      comms[static_cast<size_t>(t)] = make_comm(static_cast<char>(t + 1));
    });
  for (std::thread& thread : threads) thread.join();
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, 1) == 0)
    for (ncclComm_t comm : comms)
      for (int i = 0; i < 50; ++i) all_reduce(comm);
  _exit(0);
}

void signal_storm() {
  static ncclComm_t comm;
  comm = make_comm();
  struct sigaction action {};
  action.sa_handler = [](int) { ncclAllReduce(nullptr, nullptr, 3, 7, 0, comm, nullptr); };
  sigaction(SIGALRM, &action, nullptr);
  itimerval_start(200);
  for (int i = 0; i < 300'000; ++i) all_reduce(comm, 2);
  itimerval_start(0);
  std::printf("done\n");
}

// A communicator that cannot be made: it has the library call the agent, and then take the answer, without leaving any
// other trace.
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

int run(const std::string& what, const std::vector<std::string>& arguments) {
  const auto number = [&](size_t i) { return std::atoi(arguments.at(i).c_str()); };
  const std::map<std::string, std::function<void()>> commands{
      {"nccl-tour", nccl_tour},
      {"many-comms", many_comms},
      {"count-syscalls", count_syscalls},
      {"keep-going", keep_going},
      {"storm", storm},
      {"fork-child", fork_child},
      {"close-everything", close_everything},
      {"close-everything-raw", close_everything_raw},
      {"take-over-numbers", take_over_numbers},
      {"descriptors", descriptors},
      {"many-threads", [&] { many_threads(number(0), number(1)); }},
      {"first-together", [&] { first_together(number(0)); }},
      {"signal-storm", signal_storm},
      {"connect", [&] { connect_many(number(0), arguments.at(1)); }},
      {"transfer", [] { transfer(make_comm(), [](ncclComm_t comm) { all_reduce(comm); }); }},
      {"hold",
       [&] {
         hold(
             make_comm(), [](ncclComm_t comm) { all_reduce(comm); }, arguments.at(0));
       }},
      {"pace", [] { pace(); }},
      {"vfork", [] { vfork_closes(); }},
      {"connect-badly", [] { connect_badly(); }},
      {"close-from", [] { close_from(); }},
      {"send-syscalls", [] { count_send_syscalls(); }},
      {"connect-when-told", [&] { connect_when_told(); }},
  };
  const auto command = commands.find(what);
  if (command == commands.end()) {
    std::fprintf(stderr, "preload_probe: no command %s\n", what.c_str());
    return 2;
  }
  if (std::getenv("PROBE_WAITS_FOR_AGENT") != nullptr) wait_for_agent();
  command->second();
  return 0;
}

}  // namespace
}  // namespace orrery::probe

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return orrery::probe::run(argv[1], {argv + 2, argv + argc});
}
