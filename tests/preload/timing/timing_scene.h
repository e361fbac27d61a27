// What the scenes of timing_probe have in common: a queue pair of the fake libibverbs whose sends the plan times, and
// writes of one byte, each to a place of its own, that have arrived as soon as the provider has them.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/preload/nccl_calls.h"
#include "tests/preload/verbs/verbs_objects.h"

namespace orrery::probe {

inline constexpr size_t kTarget = sizeof(memory) / 2;  // where verbs_objects.h's requests write to
inline ncclComm_t comm = nullptr;

inline void wait_for_line(const char* word) {
  std::printf("%s\n", word);
  std::fflush(stdout);
  char line;
  if (read(STDIN_FILENO, &line, 1) < 0) std::exit(1);
}

inline uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t collective() {
  const uint64_t start = now_ns();
  ncclAllReduce(nullptr, nullptr, 1, 0, 0, comm, nullptr);
  return start;
}

// One-byte writes, each to a place of its own.
inline int write_byte(ibv_qp* qp, size_t place, char value, uint64_t wr_id = 1, unsigned flags = IBV_SEND_SIGNALED) {
  memory[place] = value;
  ibv_sge part{reinterpret_cast<uint64_t>(memory + place), 1, 0};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &part, 1, flags);
  wr.wr_id = wr_id;
  wr.wr.rdma.remote_addr += place;
  return post(qp, &wr);
}
inline bool arrived(size_t place, char value) {
  return memory[kTarget + place] == value;
}

// Some traffic, and a pause.
inline void warm_up(ibv_qp* qp) {
  write_byte(qp, 0, 1);
  poll_all(qp->send_cq);
  usleep(2000);
}

struct Scene {
  Device device;
  Pair pair{device};
  Scene() { warm_up(pair.a); }
};

inline int tasks(const std::string& named = "") {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (named.empty() || name == named) ++count;
  }
  return count;
}
inline int release_threads() {
  return tasks("orrery-release");
}

inline void hold_two(Scene& scene) {
  collective();
  const int first = write_byte(scene.pair.a, 1, 11, 11), second = write_byte(scene.pair.a, 2, 22, 22);
  const int polled = poll_all(scene.pair.a->send_cq);
  std::printf("posted %d %d polled %d arrived %d%d\n", first, second, polled, arrived(1, 11), arrived(2, 22));
}

inline void print_after(const char* what, ibv_cq* cq = nullptr) {
  std::printf("%s: arrived %d%d completions %d\n", what, arrived(1, 11), arrived(2, 22),
              cq != nullptr ? poll_all(cq) : -1);
}

// release_scenes.cpp
void blocked(const std::string& how);
void blocked_until_told();
void life();
void end_last_thread(const std::string& how);
void hold_steadily();
void while_release_thread_posts(const std::string& what);
void crowd();

}  // namespace orrery::probe
