// The lock on a queue pair's counters by itself, as several threads come to share what one thread had for itself.
#include "agent/preload/posting_lock.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace orrery::preload {

__thread Thread thread_state __attribute__((tls_model("initial-exec"))) = {};

namespace {

struct Shared {
  Qp qp{};
  uint64_t counted = 0;  // under the lock
  std::atomic<uint64_t> left_out{0};
};

// True when the lock was had.
bool count_one(Shared& shared) {
  uint32_t* const lock = begin_sending(shared.qp);
  if (lock == nullptr) {
    ++shared.left_out;
    return false;
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);  // no compiler may join two rounds
  ++shared.counted;
  end_sending(lock);
  return true;
}

}  // namespace

TEST_CASE("one thread alone always has the lock") {
  prepare_posting_locks();
  Shared shared;
  for (int i = 0; i < 1000; ++i) CHECK(count_one(shared));
}

TEST_CASE("what interrupts the thread that has the lock does not get it, and does not end it") {
  prepare_posting_locks();
  Shared shared;
  REQUIRE(count_one(shared));
  uint32_t* const lock = begin_sending(shared.qp);
  REQUIRE(lock != nullptr);
  CHECK(!count_one(shared));
  std::thread other([&] { CHECK(!count_one(shared)); });
  other.join();
  end_sending(lock);
  CHECK(count_one(shared));
}

TEST_CASE("a thread that comes later gets the lock when the first one is silent") {
  prepare_posting_locks();
  Shared shared;
  REQUIRE(count_one(shared));
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) CHECK(count_one(shared));
  });
  other.join();
  CHECK(count_one(shared));
}

TEST_CASE("no two threads have the lock at once, whenever the others come") {
  prepare_posting_locks();
  constexpr int kRounds = 300, kThreads = 3;
  constexpr uint64_t kCounts = 20000;
  uint64_t times_had = 0;
  for (int round = 0; round < kRounds; ++round) {
    Shared shared;
    std::atomic<uint64_t> by_first{0}, had{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        const uint64_t begin = static_cast<uint64_t>(t) * static_cast<uint64_t>(round) * 16 % kCounts;
        while (t != 0 && by_first < begin) std::this_thread::yield();
        uint64_t mine = 0;
        for (uint64_t i = 0; i < kCounts / (t == 0 ? 1 : 10); ++i) {
          mine += count_one(shared);
          if (t == 0) by_first.store(i + 1, std::memory_order_relaxed);
        }
        had += mine;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(shared.counted == had);
    CHECK(shared.counted + shared.left_out == kCounts + 2 * kCounts / 10);
    times_had += had;
  }
  CHECK(times_had > 0);
}

}  // namespace orrery::preload
