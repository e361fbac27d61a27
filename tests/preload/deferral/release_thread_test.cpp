// The release thread by itself, with a stand-in for what is held: whoever holds is served, whatever the thread is doing
// at that moment, and without a word after it.
#include "agent/preload/release_thread.h"

#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "agent/preload/forward.h"
#include "agent/preload/process.h"
#include "agent/preload/qp_timing.h"

namespace orrery::preload {

constinit Attachment attachment{};
constinit uint32_t held_qps = 0;

namespace {

constexpr size_t kHolders = 4;
std::array<std::atomic<bool>, kHolders> holds{};
std::atomic<int> made{0}, ended{0}, drained{0}, looks_in_vain{0};
bool refuses = false;
void* (*run_release_thread)(void*) = nullptr;

void* run_counted(void* argument) {
  void* const result = run_release_thread(argument);
  ++ended;
  return result;
}

int make_counted(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  if (refuses) return EAGAIN;
  ++made;
  run_release_thread = run;
  return pthread_create(thread, attributes, run_counted, argument);
}

void serve_all() {
  ++looks_in_vain;
  for (auto& hold : holds) {
    if (!hold.exchange(false)) continue;
    __atomic_fetch_sub(&held_qps, 1u, __ATOMIC_SEQ_CST);
    looks_in_vain = 0;
  }
}

void hold(size_t index) {
  holds[index] = true;
  __atomic_fetch_add(&held_qps, 1u, __ATOMIC_SEQ_CST);
  rely_on_release_thread();
}

void wait_until_served(size_t index) {
  while (holds[index]) std::this_thread::yield();
}

void wait_until_ended() {
  while (ended != made) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

void* global_symbol(const char* name) {
  if (std::string_view(name) == "pthread_create") return reinterpret_cast<void*>(make_counted);
  return dlsym(RTLD_DEFAULT, name);
}
uint64_t release_due_sends() {
  serve_all();
  return UINT64_MAX;
}
void drain_all_held_sends() {
  serve_all();
  ++drained;
}
void say(LogLevel, const char*, const char*) {}

TEST_CASE("every hold is served, whether the release thread is awake, parks, ends or is not there at that moment") {
  using std::chrono::microseconds;
  prepare_release_thread();
  attachment.hold_cap_ns = 1;
  release_thread_stays_ns = 300'000;
  std::vector<std::thread> holders;
  for (size_t i = 0; i < kHolders; ++i)
    holders.emplace_back([i] {
      std::mt19937 random(static_cast<unsigned>(i));
      for (int round = 0; round < 1000; ++round) {
        hold(i);
        wait_until_served(i);
        // At times all are silent for about as long as it takes to park, and to end.
        const bool rest = round % 16 == 0;
        std::this_thread::sleep_for(microseconds(rest ? 3000 + random() % 2000 : random() % 100));
      }
    });
  for (std::thread& holder : holders) holder.join();
  CHECK(__atomic_load_n(&held_qps, __ATOMIC_SEQ_CST) == 0u);
  wait_until_ended();  // whether it ended before that is up to the machine
  const int made_before = made;
  hold(0);
  wait_until_served(0);
  CHECK(made == made_before + 1);
  CHECK(drained == 0);
}

TEST_CASE("where no thread can be made, what has been held goes at once, and nothing is held again") {
  wait_until_ended();
  refuses = true;
  CHECK(!release_thread_is_refused());
  hold(0);
  CHECK(!holds[0]);
  CHECK(drained == 1);
  CHECK(release_thread_is_refused());
  hold(1);
  CHECK(!holds[1]);
}

TEST_CASE("a hold that is made as the release thread parks, or has just parked, wakes it") {
  constexpr int kLooksBeforePark = 21;
  forget_release_thread_of_parent();
  refuses = false;
  release_thread_stays_ns = 60'000'000'000;
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    hold(0);
    wait_until_served(0);
    const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    while (looks_in_vain < kLooksBeforePark && std::chrono::steady_clock::now() < late) {
    }
    volatile unsigned spins = random() % 500;
    while (spins != 0) spins = spins - 1;
  }
}

}  // namespace orrery::preload
