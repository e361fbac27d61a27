// Scenes of timing_probe in which nobody but the release thread can post what is held, or in which it meets others.
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/preload/probe_syscalls.h"
#include "tests/preload/timing/timing_scene.h"

namespace orrery::probe {
namespace {

// The other side: another thread, that tells the poster in the way it waits in when it has what was posted.
int news_in = -1, news_out = -1;
volatile bool has_news = false;
std::mutex news_lock;
std::condition_variable news;

void tell() {
  const std::lock_guard lock(news_lock);
  has_news = true;
  news.notify_all();
  if (write(news_in, "x", 1) != 1) std::exit(1);
}

void wait_for_news(const std::string& how) {
  char byte;
  pollfd ready{news_out, POLLIN, 0};
  std::unique_lock lock(news_lock);
  if (how == "condition variable") news.wait(lock, [] { return has_news; });
  lock.unlock();
  if (how == "poll" && poll(&ready, 1, -1) != 1) std::exit(1);
  if (how == "read" && read(news_out, &byte, 1) != 1) std::exit(1);
  if (how == "event" && read(news_out, &byte, 1) != 1) std::exit(1);
  volatile double sum = 0;
  while (!has_news && how == "memory") {
  }
  while (!has_news && how == "computing") sum = sum + std::sqrt(sum + 1);
}

// Which thread brought the provider what was posted last. A look at whether something has arrived yet would come too
// late on a busy machine.
std::atomic<int> posting_thread{0};

void note_thread() {
  posting_thread = gettid();
}

void order_after_post(void (*after_post)()) {
  FakeVerbsOrders orders{};
  orders.after_post = after_post;
  fake_ibverbs_order(&orders);
}

void print_arrival(const std::string& how, char value) {
  std::printf("%s: arrived %d by this thread %d\n", how.c_str(), arrived(1, value), posting_thread == gettid());
}

// Posts, and then calls nothing of verbs until the other side has got it.
void post_and_wait(ibv_qp* qp, const std::string& how, char value) {
  has_news = false;
  order_after_post(note_thread);
  collective();
  write_byte(qp, 1, value);
  int id = 0;
  std::thread peer([&id, value] {
    id = gettid();
    while (!arrived(1, value)) usleep(200);
    tell();
  });
  wait_for_news(how);
  peer.join();
  wait_until_gone(id);
  while (posting_thread == 0) usleep(200);  // it has arrived a moment earlier
  print_arrival(how, value);
  posting_thread = 0;
}

}  // namespace

void blocked(const std::string& how) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  news_out = ends[0], news_in = ends[1];
  alarm(60);
  Scene scene;
  ibv_qp* qp = scene.pair.a;
  if (how != "event") return post_and_wait(qp, how, 11);
  // As a completion channel: what the device raises when it has taken the request, it writes to a descriptor.
  ibv_req_notify_cq(qp->send_cq, 0);
  order_after_post([] {
    note_thread();
    tell();
  });
  collective();
  write_byte(qp, 1, 11);
  wait_for_news(how);
  print_arrival(how, 11);
}

// The agent takes the plan back, or dies, while what it had held is all that the program waits for.
void blocked_until_told() {
  Scene scene;
  hold_two(scene);
  alarm(60);
  std::printf("held\n");
  std::fflush(stdout);
  while (!arrived(2, 22)) usleep(200);
  print_after("then", scene.pair.a->send_cq);
}

static uint64_t switches_of_release_thread() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string line, name;
    uint64_t count = 0;
    while (std::getline(status, line)) {
      if (line.starts_with("Name:")) name = line;
      if (line.starts_with("voluntary_ctxt_switches:")) count = std::stoull(line.substr(line.find(':') + 1));
    }
    if (name.ends_with("orrery-release")) return count;
  }
  return 0;
}

// The release thread's life: made by the first hold, parked, woken, gone, made again.
void life() {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  news_in = ends[1];
  alarm(60);
  std::printf("threads %d\n", tasks());
  Scene scene;
  std::printf("threads %d\n", tasks());
  post_and_wait(scene.pair.a, "first", 11);
  std::printf("threads %d of release %d\n", tasks(), release_threads());
  if (setgid(getgid()) != 0) std::exit(1);  // the C library asks every thread
  for (uint64_t seen = 0, last = 1; seen != last && release_threads() == 1; usleep(200'000))
    last = seen, seen = switches_of_release_thread();
  post_and_wait(scene.pair.a, "parked", 12);
  while (release_threads() != 0) usleep(10'000);
  std::printf("threads %d\n", tasks());
  post_and_wait(scene.pair.a, "gone", 13);
  std::printf("threads %d of release %d\n", tasks(), release_threads());
}

// The process ends with its last thread, when that is not ours.
void end_last_thread(const std::string& how) {
  static Scene scene;
  hold_two(scene);
  std::fflush(stdout);
  if (how == "exit") std::exit(0);
  pthread_exit(nullptr);
}

namespace {

std::atomic<bool> in_post{false}, may_return{false};

void use_much_stack() {
  volatile char data[128 << 10];
  for (size_t i = 0; i < sizeof(data); i += 1024) data[i] = 1;
}

void stay_in_post() {
  in_post = true;
  while (!may_return) usleep(100);
}

// What a child does that goes on with verbs.
int live_in_child(const Scene& scene) {
  alarm(20);
  may_return = true;
  Device own;
  Pair pair(own);
  write_byte(pair.a, 3, 33, 33);
  const bool sent = arrived(3, 33) && poll_all(pair.a->send_cq) == 1;
  ibv_destroy_qp(scene.pair.a);
  return sent && tasks() == 1 ? 0 : 1;
}

}  // namespace

// The provider takes its time, or much stack, to post what the release thread brings it.
void while_release_thread_posts(const std::string& what) {
  alarm(20);
  static Scene scene;
  const bool stays = what != "much stack";
  order_after_post(stays ? stay_in_post : use_much_stack);
  collective();
  write_byte(scene.pair.a, 1, 11);
  while (stays && !in_post) usleep(100);
  if (what == "exit") std::exit(0);
  int status = 0;
  if (what == "fork") {
    const pid_t child = fork();
    if (child == 0) _exit(live_in_child(scene));
    waitpid(child, &status, 0);
  }
  may_return = true;
  while (poll_all(scene.pair.a->send_cq) == 0) usleep(200);
  std::printf("%s: arrived %d child %d\n", what.c_str(), arrived(1, 11), status);
}

// Holds again and again, a little apart, with system calls trapped.
void hold_steadily() {
  Scene scene;
  ibv_qp* qp = scene.pair.a;
  fake_ibverbs_make_hollow(qp);
  const auto round = [&] {
    collective();
    write_byte(qp, 1, 11);
    ibv_wc completion{};
    for (const uint64_t until = now_ns() + 400'000; now_ns() < until;) ibv_poll_cq(qp->send_cq, 1, &completion);
  };
  for (int i = 0; i < 100; ++i) round();
  trap_all_but_looks_at_agent();
  for (int i = 0; i < 1000; ++i) round();
  print_raw("syscalls ", trapped_syscalls());
  leave(0);
}

// Threads that post, each to queue pairs of its own and to one that all share, and take their time in between.
void crowd() {
  constexpr int kThreads = 4, kRounds = 300;
  Device device;
  Pair shared(device);
  std::atomic<long> completed{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      Pair own(device);
      std::mt19937 random(static_cast<unsigned>(i));
      uint64_t last = 0;
      const auto take = [&](ibv_qp* qp) {
        ibv_wc completion{};
        while (ibv_poll_cq(qp->send_cq, 1, &completion) == 1) {
          ++completed;
          if (completion.status != IBV_WC_SUCCESS) ++wrong;
          if (qp == own.a && completion.wr_id != ++last) ++wrong;
        }
      };
      uint64_t posted = 0;
      for (int round = 0; round < kRounds; ++round) {
        if (random() % 4 == 0) collective();
        for (unsigned count = random() % 8; count != 0; --count)
          if (write_byte(own.a, static_cast<size_t>(100 + i), 1, ++posted) != 0) ++wrong;
        if (write_byte(shared.a, static_cast<size_t>(200 + i), 1) != 0) ++wrong;
        if (random() % 3 == 0) take(own.a);
        if (random() % 3 == 0) take(shared.a);
        usleep(random() % 2 == 0 ? 0 : static_cast<useconds_t>(random() % 1500));
      }
      while (last != posted) take(own.a);
    });
  for (std::thread& thread : threads) thread.join();
  usleep(20'000);
  for (int i = 0; i < 100; ++i) completed += poll_all(shared.a->send_cq), usleep(1000);
  std::printf("completed %d wrong %d\n", static_cast<int>(completed.load()), static_cast<int>(wrong.load()));
}

}  // namespace orrery::probe
