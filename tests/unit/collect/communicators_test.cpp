#include "agent/collect/communicators.h"

#include <catch2/catch.hpp>

using namespace orrery::collect;
using Outcome = Communicators::Outcome;

TEST_CASE("a communicator is new once, ready once, and known from then on", "[collect]") {
  const Limits limits;
  Communicators communicators(limits);
  CHECK(communicators.announce({5, 0, 1, 4}, false) == Outcome::kNew);
  CHECK(communicators.announce({5, 0, 1, 4}, false) == Outcome::kKnown);
  CHECK(communicators.announce({5, 0, 1, 4}, true) == Outcome::kChanged);
  CHECK(communicators.announce({5, 0, 1, 4}, true) == Outcome::kKnown);
  REQUIRE(communicators.find(5));
  CHECK(communicators.find(5)->rank == 1);
  CHECK(communicators.find(5)->ready);
}

TEST_CASE("one process may hold several ranks of a communicator, but not of two sizes", "[collect]") {
  const Limits limits;
  Communicators communicators(limits);
  CHECK(communicators.announce({5, 0, 2, 4}, false) == Outcome::kNew);
  CHECK(communicators.announce({5, 0, 0, 4}, false) == Outcome::kNew);
  CHECK(communicators.announce({5, 0, 1, 8}, false) == Outcome::kMalformed);
  CHECK(communicators.find(5)->rank == 0);
  CHECK(communicators.ids() == std::vector<uint64_t>{5});
  CHECK(communicators.remove(5).size() == 2);
  CHECK(communicators.remove(5).empty());
}

TEST_CASE("over the bound a communicator is refused and the others stay", "[collect]") {
  Limits limits;
  limits.communicators_per_process = 3;
  Communicators communicators(limits);
  for (uint64_t id = 1; id <= 3; ++id) CHECK(communicators.announce({id, 0, 0, 2}, false) == Outcome::kNew);
  CHECK(communicators.announce({4, 0, 0, 2}, false) == Outcome::kFull);
  CHECK(communicators.size() == 3);
  CHECK_FALSE(communicators.contains(4));
}

TEST_CASE("bytes belong to the communicator that called last, else to the newest", "[collect]") {
  const Limits limits;
  Communicators communicators(limits);
  CHECK(communicators.most_recent() == 0);
  communicators.announce({1, 0, 0, 2}, false);
  communicators.announce({2, 0, 0, 2}, false);
  CHECK(communicators.most_recent() == 2);
  communicators.touch(1, 100);
  CHECK(communicators.most_recent() == 1);
  communicators.announce({3, 0, 0, 2}, false);
  CHECK(communicators.most_recent() == 1);
  communicators.touch(2, 200);
  communicators.remove(2);
  CHECK(communicators.most_recent() == 1);
  communicators.remove(1);
  CHECK(communicators.most_recent() == 3);
  communicators.remove(3);
  CHECK(communicators.most_recent() == 0);
}
