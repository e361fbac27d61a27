// Which communicators are planned in rounds: those that do nothing but all-to-alls, where that fits in the hold cap.
#include <set>

#include "tests/unit/core/fixture.h"

using namespace orrery;
using orrery::test::CoreFixture;
using orrery::test::kMs;

namespace {

constexpr uint64_t kShort = 65'536;  // 52 us at 10 Gbit/s

struct ExchangeFixture : CoreFixture {
  explicit ExchangeFixture(bool rounds = true)
      : CoreFixture({.version = "test", .planner = {.stagger = false, .rounds = rounds}},
                    {.rate_bps = 10'000'000'000}) {
    announce_all(7, nics);
    pass(100);
  }

  std::set<uint64_t> offsets() {
    std::set<uint64_t> found;
    for (const auto& flow : plan().flows) found.insert(flow.release_offset_ns);
    return found;
  }
  bool goes_in_rounds() {
    for (const auto& flow : plan().flows)
      for (const auto& reason :
           ask<msg::FlowExplanation>({.kind = msg::Request::Kind::kFlowExplain, .flow_id = flow.flow_id}).reasons)
        if (reason.find("goes in rounds") != std::string::npos) return true;
    return false;
  }
  void send_to(uint32_t group, uint32_t peer, uint32_t rank = 0) {
    for (const uint16_t op : {ORRERY_OP_SEND, ORRERY_OP_RECV})
      send(nics[rank], {.intents = {{.comm_id = 7,
                                     .rank = rank,
                                     .op = op,
                                     .bytes = kShort,
                                     .peer = peer,
                                     .group = group,
                                     .called_tai_ns = 1,
                                     .sequence = sequence++}}});
  }
  // Of a rank, to `count` others in one group.
  void send_group(uint32_t group, uint32_t count, uint32_t rank = 0) {
    for (uint32_t i = 0, peer = 0; i < count; ++peer) {
      if (peer == rank) continue;
      ++i;
      send_to(group, peer, rank);
    }
  }

  const std::vector<size_t> nics = {0, 4, 8, 12};
  uint64_t sequence = 0;
};

struct WithoutRounds : ExchangeFixture {
  WithoutRounds() : ExchangeFixture(false) {}
};

}  // namespace

TEST_CASE_METHOD(ExchangeFixture, "a short all-to-all goes in rounds within the cap, a long one at once") {
  call(7, 0, 0, ORRERY_OP_ALL_TO_ALL, kShort, 0);
  pass(100);
  CHECK(goes_in_rounds());
  CHECK(offsets().size() == 3);
  CHECK(*offsets().begin() == 0);
  CHECK(*offsets().rbegin() <= kMs);
  call(7, 0, 0, ORRERY_OP_ALL_TO_ALL, kShort * 64, 1);
  pass(100);
  CHECK_FALSE(goes_in_rounds());
  CHECK(offsets() == std::set<uint64_t>{0});
}

TEST_CASE_METHOD(WithoutRounds, "no all-to-all goes in rounds unless that is wanted") {
  call(7, 0, 0, ORRERY_OP_ALL_TO_ALL, kShort, 0);
  pass(100);
  CHECK(offsets() == std::set<uint64_t>{0});
}

TEST_CASE_METHOD(ExchangeFixture, "a communicator that does something else too is no longer held back for rounds") {
  call(7, 0, 0, ORRERY_OP_ALL_TO_ALL, kShort, 0);
  pass(100);
  REQUIRE(goes_in_rounds());
  call(7, 0, 0, ORRERY_OP_ALL_REDUCE, kShort, 1);
  pass(100);
  CHECK_FALSE(goes_in_rounds());
  CHECK(offsets() == std::set<uint64_t>{0});
}

TEST_CASE_METHOD(ExchangeFixture, "a pair that two communicators use goes in no rounds") {
  call(7, 0, 0, ORRERY_OP_ALL_TO_ALL, kShort, 0);
  announce_all(8, nics);
  call(8, 0, 0, ORRERY_OP_ALL_TO_ALL, kShort, 0);
  pass(100);
  CHECK_FALSE(goes_in_rounds());
}

TEST_CASE_METHOD(ExchangeFixture, "sends to all others in one group are an all-to-all") {
  send_group(6, 1, 1);  // of a rank that is followed only until a lower one is heard of
  send_group(1, 2);     // not heard from its beginning
  for (uint32_t group = 2; group < 5; ++group) send_group(group, 3);
  pass(100);
  CHECK(offsets().size() == 3);
  send_group(5, 1);  // to a neighbour only
  send_group(6, 3);
  pass(100);
  CHECK(offsets() == std::set<uint64_t>{0});
}

TEST_CASE_METHOD(ExchangeFixture, "several sends to one other in a group are no all-to-all") {
  send_group(1, 3);
  for (uint32_t group = 2; group < 4; ++group)
    for (int i = 0; i < 3; ++i) send_to(group, 1);
  pass(100);
  CHECK_FALSE(goes_in_rounds());
}

TEST_CASE_METHOD(ExchangeFixture, "an all-to-all may send to each other in pieces") {
  for (uint32_t group = 1; group < 4; ++group)
    for (int piece = 0; piece < 2; ++piece) send_group(group, 3);
  pass(100);
  CHECK(goes_in_rounds());
}
