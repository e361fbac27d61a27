// What one event costs its writer, how many pass, whether any is lost at 10 million per second from 8 threads, and what
// becomes of writers and counts when the agent has stopped.
// The baselines are the two obvious other ways: a mutex around a queue, and a write() of the event to a pipe.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/shm/agent_segment.h"
#include "common/shm/segment_writer.h"

namespace {

using namespace orrery;

constexpr shm::SegmentShape kShape{.ring_count = 8, .ring_events = 8192, .flow_slots = 1};
constexpr int kBatch = 1000;
constexpr int kBatches = 400;

orrery_event an_event(uint64_t number) {
  orrery_event event{};
  event.time_ns = number + 1;
  event.type = ORRERY_EVENT_COLLECTIVE;
  event.collective.comm_id = 1;
  event.collective.bytes = number;
  event.collective.op = ORRERY_OP_ALL_REDUCE;
  event.collective.peer = 0xffffffffu;
  return event;
}

// A process's writer half and the agent's half of one segment, drained by a thread of its own.
class LiveSegment {
 public:
  LiveSegment() : agent_(shm::AgentSegment::create(kShape).value()) {
    void* base = mmap(nullptr, agent_.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, agent_.fd(), 0);
    if (base == MAP_FAILED || !writer_.open(base, agent_.bytes())) std::exit(1);
    reader_ = std::thread([this] { read(); });
  }
  ~LiveSegment() {
    stop_ = true;
    reader_.join();
  }
  shm::SegmentWriter& writer() { return writer_; }
  uint64_t received() const { return received_; }
  uint64_t malformed() const { return malformed_; }

 private:
  void read() {
    for (bool last = false; !last;) {
      last = stop_;
      const auto result = agent_.drain(1u << 20, monotonic_now_ns(), [](const orrery_event&) {});
      received_ += result.events;
      malformed_ += result.malformed;
      if (result.events == 0) usleep(50);
    }
  }
  shm::AgentSegment agent_;
  shm::SegmentWriter writer_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> received_ = 0, malformed_ = 0;
  std::thread reader_;
};

// Median cost of one call, over batches with a pause in between for the reader.
double median_ns(const std::function<void(uint64_t)>& call) {
  std::vector<double> costs;
  uint64_t number = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    const uint64_t start = monotonic_now_ns();
    for (int i = 0; i < kBatch; ++i) call(number++);
    costs.push_back(static_cast<double>(monotonic_now_ns() - start) / kBatch);
    usleep(200);
  }
  std::nth_element(costs.begin(), costs.begin() + kBatches / 2, costs.end());
  return costs[kBatches / 2];
}

double ring_push_ns() {
  LiveSegment segment;
  orrery_ring_header* ring = segment.writer().claim_ring(1, [](uint32_t) { return true; });
  return median_ns([&](uint64_t number) { segment.writer().push(ring, an_event(number)); });
}

struct Stopped {
  double push_ns = 0;
  uint64_t miscounted = 0;
};

// An agent that has stopped: the ring fills up, and then every event is dropped and counted, by 8 threads at once.
Stopped stopped_agent() {
  constexpr uint32_t kThreads = 8;
  constexpr uint64_t kPushes = 1'000'000;
  shm::AgentSegment agent = shm::AgentSegment::create(kShape).value();
  void* base = mmap(nullptr, agent.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, agent.fd(), 0);
  shm::SegmentWriter writer;
  if (base == MAP_FAILED || !writer.open(base, agent.bytes())) std::exit(1);
  std::vector<std::thread> writers;
  for (uint32_t t = 1; t < kThreads; ++t)
    writers.emplace_back([&, t] {
      orrery_ring_header* ring = writer.claim_ring(t, [](uint32_t) { return true; });
      for (uint64_t number = 0; number < kPushes; ++number) writer.push(ring, an_event(number));
    });
  for (std::thread& thread : writers) thread.join();
  orrery_ring_header* ring = writer.claim_ring(kThreads, [](uint32_t) { return true; });
  for (uint64_t number = 0; number < kPushes - uint64_t{kBatch} * kBatches; ++number)
    writer.push(ring, an_event(number));
  Stopped stopped;
  stopped.push_ns = median_ns([&](uint64_t number) { writer.push(ring, an_event(number)); });
  const auto drained = agent.drain(1u << 20, monotonic_now_ns(), [](const orrery_event&) {});
  const uint64_t told = drained.events + drained.dropped;
  const uint64_t pushed = kThreads * kPushes;
  stopped.miscounted = told > pushed ? told - pushed : pushed - told;
  munmap(base, agent.bytes());
  return stopped;
}

double mutex_push_ns() {
  std::mutex mutex;
  std::deque<orrery_event> queue;
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      std::deque<orrery_event> taken;
      {
        std::lock_guard lock(mutex);
        taken.swap(queue);
      }
      if (taken.empty()) usleep(50);
    }
  });
  const double cost = median_ns([&](uint64_t number) {
    std::lock_guard lock(mutex);
    queue.push_back(an_event(number));
  });
  stop = true;
  reader.join();
  return cost;
}

double pipe_push_ns() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::exit(1);
  fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  std::thread reader([&] {
    std::vector<char> buffer(1 << 16);
    while (read(ends[0], buffer.data(), buffer.size()) > 0) {
    }
  });
  const double cost = median_ns([&](uint64_t number) {
    const orrery_event event = an_event(number);
    if (write(ends[1], &event, sizeof(event)) != sizeof(event)) std::exit(1);
  });
  close(ends[1]);
  reader.join();
  close(ends[0]);
  return cost;
}

// One writer that waits whenever the ring is full: what the pair can move.
double events_per_s() {
  constexpr uint64_t kEvents = 20'000'000;
  LiveSegment segment;
  orrery_ring_header* ring = segment.writer().claim_ring(1, [](uint32_t) { return true; });
  const uint64_t start = monotonic_now_ns();
  for (uint64_t number = 0; number < kEvents; ++number)
    while (!segment.writer().push(ring, an_event(number))) std::this_thread::yield();
  while (segment.received() < kEvents) std::this_thread::yield();
  return static_cast<double>(kEvents) * 1e9 / static_cast<double>(monotonic_now_ns() - start);
}

struct Loss {
  double rate = 0;
  uint64_t lost = 0;
};

// 8 threads push 1250 events each in every millisecond for two seconds.
Loss loss_at_ten_million_per_s() {
  constexpr int kThreads = 8, kMilliseconds = 2000, kPerMillisecond = 1250;
  std::atomic<uint64_t> lost = 0;
  uint64_t elapsed = 0;
  {
    LiveSegment segment;
    std::vector<std::thread> writers;
    const uint64_t start = monotonic_now_ns();
    for (uint32_t t = 1; t <= kThreads; ++t)
      writers.emplace_back([&, t] {
        orrery_ring_header* ring = segment.writer().claim_ring(t, [](uint32_t) { return true; });
        uint64_t mine = 0, number = 0;
        for (uint64_t ms = 0; ms < kMilliseconds; ++ms) {
          const uint64_t due = start + ms * 1'000'000;
          for (uint64_t now = monotonic_now_ns(); now < due; now = monotonic_now_ns())
            usleep(static_cast<useconds_t>((due - now) / 1000));
          for (int i = 0; i < kPerMillisecond; ++i) mine += !segment.writer().push(ring, an_event(number++));
        }
        lost += mine;
      });
    for (std::thread& writer : writers) writer.join();
    elapsed = monotonic_now_ns() - start;
    const uint64_t sent = uint64_t{kThreads} * kMilliseconds * kPerMillisecond - lost;
    while (segment.received() < sent) usleep(100);
    lost += segment.malformed();
  }
  return {kThreads * kMilliseconds * double{kPerMillisecond} * 1e9 / static_cast<double>(elapsed), lost};
}

}  // namespace

int main() {
  std::fprintf(stderr, "ring: one event's cost to its writer, with a live reader...\n");
  const double ring = ring_push_ns(), mutex = mutex_push_ns(), pipe = pipe_push_ns();
  std::fprintf(stderr, "ring: ring %.1f ns, mutex and queue %.1f ns, pipe %.1f ns\n", ring, mutex, pipe);
  const double rate = events_per_s();
  std::fprintf(stderr, "ring: one writer, one reader: %.1f million events per second\n", rate / 1e6);
  const Loss loss = loss_at_ten_million_per_s();
  std::fprintf(stderr, "ring: 8 threads, %.2f million events per second, rings of %u events: %llu lost\n",
               loss.rate / 1e6, kShape.ring_events, static_cast<unsigned long long>(loss.lost));
  const Stopped stopped = stopped_agent();
  std::fprintf(stderr, "ring: with a stopped agent %.1f ns per event, %llu counted wrongly\n", stopped.push_ns,
               static_cast<unsigned long long>(stopped.miscounted));
  nlohmann::json figures = nlohmann::json::array();
  const auto add = [&](const char* name, double value, const char* unit, const char* better, nlohmann::json target,
                       nlohmann::json baseline, nlohmann::json ratio) {
    figures.push_back({{"name", name},
                       {"value", value},
                       {"unit", unit},
                       {"better", better},
                       {"target", target},
                       {"baseline", baseline},
                       {"ratio", ratio}});
  };
  add("ring_push_ns", ring, "ns", "lower", nullptr, mutex, mutex / ring);
  add("ring_push_against_pipe_ns", ring, "ns", "lower", nullptr, pipe, pipe / ring);
  add("ring_events_per_s", rate, "1/s", "higher", 10e6, 1e9 / mutex, rate * mutex / 1e9);
  add("ring_lost", static_cast<double>(loss.lost), "events", "lower", 0, nullptr, nullptr);
  add("ring_stopped_push_ns", stopped.push_ns, "ns", "lower", nullptr, ring, ring / stopped.push_ns);
  add("ring_stopped_miscounted", static_cast<double>(stopped.miscounted), "events", "lower", 0, nullptr, nullptr);
  add("ring_lost_offered_per_s", loss.rate, "1/s", "higher", 10e6, nullptr, nullptr);
  std::printf("%s\n", nlohmann::json{{"figures", figures}}.dump(2).c_str());
}
