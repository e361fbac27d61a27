// Whatever is held back reaches the provider whole, in order, and exactly once.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "tests/preload/deferral/send_queue_model.h"

namespace orrery::preload {
namespace {

constexpr SendSchedule kNoHold{false, 0, 0, 0};
constexpr uint64_t kBudget = 1'000'000;

SendSchedule until(uint64_t release_ns, uint64_t budget_ns = kBudget) {
  return {true, release_ns, 0, budget_ns};
}

// A chain of requests in memory that the program reuses as soon as post_send has returned.
class Chain {
 public:
  template <typename Random>
  Chain(Random& random, uint64_t first_id, size_t count, bool malformed = false) : requests_(count) {
    for (size_t i = 0; i < count; ++i) {
      Request& request = requests_[i];
      ibv_send_wr& wr = request.wr;
      std::memset(&wr, 0, sizeof(wr));
      wr.wr_id = first_id + i;
      constexpr std::array kOpcodes{IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM,
                                    IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
      wr.opcode = kOpcodes[random() % kOpcodes.size()];
      wr.send_flags = random() % 2 ? IBV_SEND_SIGNALED : 0;
      if (random() % 4 == 0) wr.send_flags |= IBV_SEND_FENCE;
      wr.num_sge = static_cast<int>(random() % 5);
      wr.sg_list = request.parts.data();
      const bool is_inline = wr.opcode != IBV_WR_RDMA_READ && random() % 3 == 0;
      if (is_inline) wr.send_flags |= IBV_SEND_INLINE;
      for (auto& byte : request.data) byte = static_cast<unsigned char>(random());
      for (size_t part = 0; part < request.parts.size(); ++part)
        request.parts[part] = {is_inline ? reinterpret_cast<uint64_t>(request.data.data() + 64 * part) : random(),
                               static_cast<uint32_t>(is_inline ? random() % 65 : random() % 100000),
                               static_cast<uint32_t>(random())};
      wr.imm_data = static_cast<uint32_t>(random());
      wr.wr.atomic.remote_addr = random();
      wr.wr.atomic.compare_add = random();
      wr.wr.atomic.swap = random();
      wr.wr.atomic.rkey = static_cast<uint32_t>(random());
      if (i != 0) requests_[i - 1].wr.next = &wr;
    }
    if (malformed) requests_[random() % count].wr.num_sge = 5;  // more than the model's queue takes
  }
  ibv_send_wr* first() { return &requests_[0].wr; }
  long index_of(const ibv_send_wr* wr) const {
    for (size_t i = 0; i < requests_.size(); ++i)
      if (&requests_[i].wr == wr) return static_cast<long>(i);
    return -1;
  }
  void scribble() {
    for (Request& request : requests_) {
      request.data.fill(0xee);
      for (ibv_sge& part : request.parts) part = {1, 2, 3};
      std::memset(&request.wr, 0xee, sizeof(request.wr));
    }
  }

 private:
  struct Request {
    ibv_send_wr wr;
    std::array<ibv_sge, 5> parts;
    std::array<unsigned char, 320> data;
  };
  std::vector<Request> requests_;
};

ibv_send_wr plain_write(uint64_t wr_id) {
  ibv_send_wr wr;
  std::memset(&wr, 0, sizeof(wr));
  wr.wr_id = wr_id;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  return wr;
}

int post_one(Deferral& queue, SendQueueModel& model, uint64_t wr_id, const SendSchedule& schedule, uint64_t now,
             uint32_t bytes = 0) {
  ibv_send_wr wr = plain_write(wr_id);
  ibv_sge part{0x1000, bytes, 7};
  if (bytes != 0) {
    wr.sg_list = &part;
    wr.num_sge = 1;
  }
  ibv_send_wr* bad = nullptr;
  const Deferral::Guard guard(queue);
  return queue.post(model.target(), &wr, &bad, schedule, now);
}

std::vector<uint64_t> ids(const SendQueueModel& model) {
  std::vector<uint64_t> all;
  for (const TakenRequest& request : model.taken) all.push_back(request.wr_id);
  return all;
}

}  // namespace

TEST_CASE("a request before its time is copied, and posted as it was when its time has come") {
  const uint32_t segments = segments_in_use();
  SendQueueModel model(16);
  Deferral queue;
  std::mt19937_64 random(1);
  Chain chain(random, 100, 5);
  std::vector<TakenRequest> expected;
  for (ibv_send_wr* wr = chain.first(); wr != nullptr; wr = wr->next) expected.push_back(seen_by_provider(*wr));
  ibv_send_wr* bad = nullptr;
  {
    const Deferral::Guard guard(queue);
    CHECK(queue.post(model.target(), chain.first(), &bad, until(2000), 1000) == 0);
  }
  chain.scribble();
  CHECK(model.taken.empty());
  CHECK(queue.first_due_ns() == 2000);
  const Deferral::Guard guard(queue);
  CHECK(queue.flush(model.target(), 1999, 1999) == 0);
  CHECK(model.taken.empty());
  CHECK(queue.flush(model.target(), 2000, 2000) == 0);
  CHECK((model.taken == expected));
  CHECK(model.calls == 1);
  CHECK(model.held == 5);
  CHECK(model.early == 0);
  CHECK(model.held_ns == 1000);
  CHECK(queue.first_due_ns() == 0);
  CHECK(segments_in_use() == segments);
}

TEST_CASE("nothing overtakes what is held, and the next post sends what is due first") {
  SendQueueModel model(16);
  Deferral queue;
  CHECK(post_one(queue, model, 1, until(2000), 1000) == 0);
  CHECK(post_one(queue, model, 2, until(0), 1500) == 0);
  CHECK(model.taken.empty());
  CHECK(post_one(queue, model, 3, until(0), 2100) == 0);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2, 3});
  CHECK(post_one(queue, model, 4, kNoHold, 2200) == 0);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2, 3, 4});
}

TEST_CASE("when nothing may be held any more, what is held goes with the next post") {
  SendQueueModel model(16);
  Deferral queue;
  CHECK(post_one(queue, model, 1, until(900'000), 1000) == 0);
  CHECK(post_one(queue, model, 2, kNoHold, 2000) == 0);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2});
  CHECK(model.early == 1);
}

TEST_CASE("no request is held beyond the burst's budget, whatever the schedule says") {
  SendQueueModel model(16);
  Deferral queue;
  CHECK(post_one(queue, model, 1, until(UINT64_MAX, 500), 1000) == 0);
  CHECK(post_one(queue, model, 2, {true, 0, 1, 500}, 1400, 1'000'000) == 0);
  CHECK(post_one(queue, model, 3, {true, 0, 1, 500}, 1450, 1'000'000) == 0);
  CHECK(queue.first_due_ns() == 1500);
  const Deferral::Guard guard(queue);
  queue.flush(model.target(), 1500, 1500);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2, 3});
}

TEST_CASE("a pace spreads the requests of a chain over time") {
  SendQueueModel model(16);
  Deferral queue;
  std::array<ibv_send_wr, 3> chain{plain_write(1), plain_write(2), plain_write(3)};
  ibv_sge part{0x1000, 1000, 7};  // 8,000 bits: 80 us at 100 Mbit/s
  for (size_t i = 0; i < chain.size(); ++i) {
    chain[i].sg_list = &part;
    chain[i].num_sge = 1;
    chain[i].next = i + 1 < chain.size() ? &chain[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  const Deferral::Guard guard(queue);
  CHECK(queue.post(model.target(), chain.data(), &bad, {true, 0, 100'000'000, kBudget}, 10'000) == 0);
  CHECK(ids(model) == std::vector<uint64_t>{1});
  CHECK(queue.first_due_ns() == 90'000);
  queue.flush(model.target(), 90'000, 90'000);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2});
  CHECK(queue.first_due_ns() == 170'000);
  queue.flush(model.target(), 170'000, 170'000);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2, 3});
}

TEST_CASE("a request without data goes together with the one it follows, at any pace") {
  SendQueueModel model(16);
  Deferral queue;
  CHECK(post_one(queue, model, 1, {true, 0, 100'000'000, kBudget}, 10'000, 1000) == 0);
  CHECK(post_one(queue, model, 2, {true, 0, 100'000'000, kBudget}, 10'000) == 0);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2});
}

TEST_CASE("a chain that the provider would refuse is refused at the same request") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const size_t count = 1 + random() % 6;
    const uint64_t seed = random();
    std::mt19937_64 first_random(seed), second_random(seed);
    Chain plain_chain(first_random, 10, count, true), held_chain(second_random, 10, count, true);
    SendQueueModel plain(64), model(64);
    Deferral queue;
    ibv_send_wr *plain_bad = nullptr, *bad = nullptr;
    const int plain_answer = plain.post(plain_chain.first(), &plain_bad);
    const Deferral::Guard guard(queue);
    CHECK(queue.post(model.target(), held_chain.first(), &bad, until(5000), 1000) == plain_answer);
    CHECK(held_chain.index_of(bad) == plain_chain.index_of(plain_bad));
    CHECK(ids(model) == ids(plain));
  }
}

TEST_CASE("more than the queue's depth is never held: the provider itself refuses, at the right request") {
  SendQueueModel model(4);
  Deferral queue;
  for (uint64_t id = 1; id <= 4; ++id) CHECK(post_one(queue, model, id, until(5000), 1000) == 0);
  CHECK(model.taken.empty());
  CHECK(post_one(queue, model, 5, until(5000), 1000) == ENOMEM);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2, 3, 4});
  CHECK(model.poll(1).size() == 1);
  CHECK(post_one(queue, model, 5, kNoHold, 1000) == 0);
}

TEST_CASE("a full provider is no error: what it has no room for waits for completions, and keeps its order") {
  SendQueueModel model(2);
  Deferral queue;
  CHECK(post_one(queue, model, 1, kNoHold, 1000) == 0);
  CHECK(post_one(queue, model, 2, until(2000), 1000) == 0);
  CHECK(post_one(queue, model, 3, until(2000), 1000) == 0);
  {
    const Deferral::Guard guard(queue);
    CHECK(queue.flush(model.target(), 2000, 2000) == ENOMEM);
  }
  CHECK(ids(model) == std::vector<uint64_t>{1, 2});
  CHECK(post_one(queue, model, 4, kNoHold, 2100) == 0);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2});
  ibv_send_wr wr = plain_write(5), *bad = nullptr;
  {
    const Deferral::Guard guard(queue);
    CHECK(queue.post(model.target(), &wr, &bad, kNoHold, 2200) == ENOMEM);
  }
  CHECK(bad == &wr);
  CHECK(model.poll(2).size() == 2);
  const Deferral::Guard guard(queue);
  CHECK(queue.flush(model.target(), 2300, 2300) == 0);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2, 3, 4});
}

TEST_CASE("a request that is refused for good after it was held completes with an error, in its place") {
  SendQueueModel model(16);
  model.refused_for_good = {3};
  Deferral queue;
  for (uint64_t id = 1; id <= 5; ++id) CHECK(post_one(queue, model, id, until(2000), 1000) == 0);
  {
    const Deferral::Guard guard(queue);
    CHECK(queue.flush(model.target(), 2000, 2000) == 0);
  }
  CHECK(model.in_error);
  CHECK(queue.broken());
  CHECK(ids(model) == std::vector<uint64_t>{1, 2, 3, 4, 5});
  const auto completions = model.poll(16);
  REQUIRE(completions.size() == 5);
  CHECK((completions[2] == Completion{3, true}));
  CHECK(post_one(queue, model, 6, until(900'000), 3000) == 0);
  CHECK(ids(model).back() == 6);  // never held again
}

TEST_CASE("a queue pair that cannot even be put into the error state loses what is refused, and nothing else") {
  SendQueueModel model(16);
  model.refused_for_good = {2};
  model.error_state_works = false;
  Deferral queue;
  for (uint64_t id = 1; id <= 3; ++id) CHECK(post_one(queue, model, id, until(2000), 1000) == 0);
  const Deferral::Guard guard(queue);
  queue.flush(model.target(), 2000, 2000);
  CHECK(ids(model) == std::vector<uint64_t>{1, 2, 3});  // 2 as an empty request of its id
  CHECK(queue.empty());
}

TEST_CASE("memory is bounded, and a full pool drains at once") {
  const uint32_t segments = segments_in_use();
  limit_send_fifos((segments + 2) * kSegmentBytes);
  SendQueueModel model(10000);
  Deferral queue;
  std::vector<uint64_t> expected;
  uint64_t id = 0;
  while (model.taken.empty() && id < 10000) {
    CHECK(post_one(queue, model, ++id, until(900'000), 1000, 64) == 0);
    expected.push_back(id);
  }
  limit_send_fifos(size_t{kMaxSegments} * kSegmentBytes);
  CHECK(id > 10);
  CHECK(id < 3 * kSegmentBytes / sizeof(ibv_send_wr));
  CHECK(ids(model) == expected);
  CHECK(segments_in_use() == segments);
}

TEST_CASE("with no memory to hold anything, requests go as if there were no deferral") {
  limit_send_fifos(0);
  SendQueueModel model(16);
  Deferral queue;
  CHECK(post_one(queue, model, 1, until(900'000), 1000) == 0);
  limit_send_fifos(size_t{kMaxSegments} * kSegmentBytes);
  CHECK(ids(model) == std::vector<uint64_t>{1});
}

TEST_CASE("random chains, times and refusals: everything arrives once, in order and unchanged") {
  const uint32_t segments = segments_in_use();
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    SendQueueModel model(8 + static_cast<uint32_t>(random() % 60)), plain(1'000'000);
    Deferral queue;
    uint64_t now = 1000, id = 1;
    std::vector<Completion> completions;
    const auto poll = [&] {
      const Deferral::Guard guard(queue);
      if (queue.first_due_ns() != 0 && queue.first_due_ns() <= now) queue.flush(model.target(), now, now);
      for (const Completion& completion : model.poll(random() % 8)) completions.push_back(completion);
    };
    for (int step = 0; step < 400; ++step) {
      now += random() % 20'000;
      if (random() % 2) poll();
      const size_t count = 1 + random() % 6;
      const uint64_t chain_seed = random();
      std::mt19937_64 one(chain_seed), other(chain_seed);
      Chain chain(one, id, count), copy(other, id, count);
      const SendSchedule schedule{random() % 8 != 0, random() % 3 ? now + random() % 100'000 : 0,
                                  random() % 3 ? 0 : uint64_t{1'000'000'000}, random() % 200'000};
      ibv_send_wr *bad = nullptr, *ignored = nullptr;
      int answer;
      {
        const Deferral::Guard guard(queue);
        answer = queue.post(model.target(), chain.first(), &bad, schedule, now);
      }
      size_t accepted = count;
      if (answer != 0) {
        CHECK(answer == ENOMEM);
        REQUIRE(chain.index_of(bad) >= 0);
        accepted = static_cast<size_t>(chain.index_of(bad));
      }
      chain.scribble();
      ibv_send_wr* last = copy.first();
      for (size_t i = 1; i < accepted; ++i) last = last->next;
      last->next = nullptr;
      if (accepted != 0) REQUIRE(plain.post(copy.first(), &ignored) == 0);
      id += accepted;
      copy.scribble();
    }
    for (int round = 0; round < 2000 && (!queue.empty() || model.outstanding() != 0); ++round) {
      now += 1'000'000;
      poll();
    }
    REQUIRE(queue.empty());
    REQUIRE(model.taken.size() == plain.taken.size());
    CHECK((model.taken == plain.taken));
    std::vector<Completion> expected;
    for (const TakenRequest& request : plain.taken)
      if (request.flags & IBV_SEND_SIGNALED) expected.push_back({request.wr_id, false});
    CHECK((completions == expected));
    CHECK(model.counted == plain.taken.size());
  }
  CHECK(segments_in_use() == segments);
}

TEST_CASE("random refusals for good: every request completes or is taken, the error state keeps the order") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    SendQueueModel model(4 + static_cast<uint32_t>(random() % 30));
    Deferral queue;
    const uint64_t total = 40;
    model.refused_for_good = {1 + random() % total, 1 + random() % total};
    uint64_t now = 1000;
    std::vector<uint64_t> accepted, refused_at_once;
    std::vector<uint64_t> completed;
    const auto poll = [&] {
      const Deferral::Guard guard(queue);
      queue.flush(model.target(), now, now);
      for (const Completion& completion : model.poll(4)) completed.push_back(completion.wr_id);
    };
    for (uint64_t id = 1; id <= total; ++id) {
      now += random() % 3000;
      const int answer = post_one(queue, model, id, until(random() % 2 ? now + 10'000 : 0), now);
      if (answer == 0)
        accepted.push_back(id);
      else
        refused_at_once.push_back(id);
      if (random() % 2) poll();
    }
    for (int round = 0; round < 100; ++round) {
      now += 1'000'000;
      poll();
    }
    CHECK(completed == accepted);
    CHECK(accepted.size() + refused_at_once.size() == total);
  }
}

TEST_CASE("threads that post and poll at once lose nothing and keep the order of each") {
  SendQueueModel model(64);
  Deferral queue;
  constexpr uint64_t kPosts = 3000;
  constexpr uint64_t kThreads = 3;
  uint64_t clock = 1000;
  std::vector<std::thread> threads;
  uint64_t running = kThreads;
  for (uint64_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      for (uint64_t i = 1; i <= kPosts; ++i) {
        const uint64_t now = __atomic_add_fetch(&clock, 100, __ATOMIC_RELAXED);
        while (post_one(queue, model, thread << 32 | i, until(random() % 2 ? now + 2000 : 0), now) != 0) {
          model.poll(64);
          std::this_thread::yield();
        }
      }
      __atomic_sub_fetch(&running, 1, __ATOMIC_RELEASE);
    });
  threads.emplace_back([&] {
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE) != 0 || queue.first_due_ns() != 0) {
      const uint64_t now = __atomic_add_fetch(&clock, 100, __ATOMIC_RELAXED);
      if (queue.first_due_ns() != 0 && queue.try_lock()) {
        queue.flush(model.target(), now, now);
        queue.unlock();
      }
      model.poll(64);
    }
  });
  for (std::thread& thread : threads) thread.join();
  REQUIRE(model.taken.size() == kThreads * kPosts);
  std::array<uint64_t, kThreads> last{};
  for (const TakenRequest& request : model.taken) {
    uint64_t& before = last[request.wr_id >> 32];
    CHECK((request.wr_id & 0xffffffffu) == before + 1);
    before = request.wr_id & 0xffffffffu;
  }
}

}  // namespace orrery::preload
