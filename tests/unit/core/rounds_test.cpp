// What the planner is told of a round of a job, from calls alone.
#include "controller/daemon/rounds.h"

#include "tests/unit/core/fixture.h"

using namespace orrery;
using orrery::test::CoreFixture;
using orrery::test::kMs;

namespace {

constexpr uint64_t kBytes = 1 << 20;  // what each of two ranks sends in an all-reduce of as many

class RoundsFixture : public CoreFixture {
 public:
  // One host each on two leaves.
  void add(uint64_t comm_id, size_t first_nic) {
    announce_all(comm_id, {first_nic, first_nic + 4});
    nic_of[comm_id] = first_nic;
  }
  void all_reduce(uint64_t comm_id, uint64_t bytes = kBytes, uint64_t ms = 2) {
    call(comm_id, 0, nic_of[comm_id], ORRERY_OP_ALL_REDUCE, bytes, calls[comm_id]++, 0xffffffff, now);
    pass(ms);
  }
  void look() { pass(1'200); }
  uint64_t round_bytes(uint64_t comm_id) {
    for (const auto& flow : plan().flows)
      if (flow.comm_id == comm_id) return flow.bytes_per_round;
    return 0;
  }

 private:
  std::map<uint64_t, size_t> nic_of;
  std::map<uint64_t, uint64_t> calls;
};

}  // namespace

TEST_CASE_METHOD(RoundsFixture, "until a communicator repeats, it is planned by its largest operation") {
  add(1, 0);
  all_reduce(1, kBytes);
  all_reduce(1, 3 * kBytes);
  look();
  CHECK(round_bytes(1) == 3 * kBytes);
  for (int round = 0; round < 3; ++round) {
    all_reduce(1, kBytes);
    all_reduce(1, 3 * kBytes);
  }
  look();
  CHECK(round_bytes(1) == 4 * kBytes);
}

TEST_CASE_METHOD(RoundsFixture,
                 "what repeats several times in the round of another communicator of its hosts counts as often") {
  announce_all(3, {0, 1});  // ties the hosts of the other two together, and calls nothing
  add(1, 0);
  add(2, 1);
  for (int iteration = 0; iteration < 5; ++iteration) {
    all_reduce(1);
    for (int layer = 0; layer < 7; ++layer) all_reduce(2, kBytes / 2);
    pass(50);
  }
  look();
  CHECK(round_bytes(1) == kBytes);
  CHECK(round_bytes(2) == 7 * kBytes / 2);
}

TEST_CASE_METHOD(RoundsFixture, "jobs on other hosts have rounds of their own") {
  add(1, 0);
  add(2, 1);
  for (int iteration = 0; iteration < 5; ++iteration) {
    all_reduce(1);
    for (int layer = 0; layer < 7; ++layer) all_reduce(2);
    pass(50);
  }
  look();
  CHECK(round_bytes(1) == kBytes);
  CHECK(round_bytes(2) == kBytes);
}

TEST_CASE_METHOD(RoundsFixture, "a communicator that hardly sends makes no round for the others") {
  announce_all(3, {0, 1});
  add(1, 0);
  add(2, 1);
  for (int iteration = 0; iteration < 40; ++iteration) {
    if (iteration % 10 == 0) all_reduce(1, 64);
    all_reduce(2);
  }
  look();
  CHECK(round_bytes(2) == kBytes);
}

TEST_CASE_METHOD(RoundsFixture,
                 "an operation larger than all of the known round stands for a round until the new one is known") {
  add(1, 0);
  for (int round = 0; round < 4; ++round) all_reduce(1);
  look();
  all_reduce(1, 5 * kBytes);
  pass(200);
  CHECK(round_bytes(1) == 5 * kBytes);
}

TEST_CASE_METHOD(RoundsFixture, "sends that the followed rank repeats are taken as a pattern for the others") {
  announce_all(1, {0, 4, 8});
  uint64_t sequence = 0;
  const auto send_to = [&](uint32_t rank, uint32_t peer) {
    call(1, rank, 4 * rank, ORRERY_OP_SEND, kBytes, sequence++, peer, now);
    pass(2);
  };
  for (int round = 0; round < 5; ++round) {
    for (int microbatch = 0; microbatch < 3; ++microbatch) send_to(0, 1);
    send_to(1, 2);
    call(1, 0, 0, ORRERY_OP_ALL_REDUCE, 8, sequence++, 0xffffffff, now);
    pass(20);
  }
  look();
  for (const auto& flow : plan().flows)
    if (flow.src_host != host(8)) CHECK(flow.bytes_per_round / kBytes == 3);  // beside what the all-reduce takes
}

TEST_CASE_METHOD(RoundsFixture, "where there are too many ranks to look at, nothing is said of rounds") {
  const fabric::Graph& graph = fabric;
  daemon::CommunicatorBook book(graph);
  forecast::Forecaster forecaster;
  for (const uint32_t rank : {0u, 1u})
    book.on_event(host(4 * rank), {.comm_id = 1, .rank = rank, .nranks = 2, .address = address(4 * rank)}, now);
  for (uint64_t call = 0; call < 4; ++call) forecaster.observe(1, {ORRERY_OP_ALL_REDUCE, kBytes}, call * kMs);
  CHECK(find_rounds(graph, book, forecaster, 2).size() == 1);
  CHECK(find_rounds(graph, book, forecaster, 1).empty());
}
