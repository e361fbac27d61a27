#include "controller/forecast/period_finder.h"

#include <catch2/catch.hpp>
#include <random>
#include <string_view>

using namespace orrery::forecast;

namespace {

PeriodFinder after(std::string_view operations) {
  PeriodFinder finder;
  for (char operation : operations) finder.push({{.op = 1, .bytes = static_cast<uint64_t>(operation)}, 0});
  return finder;
}

}  // namespace

TEST_CASE("a period is found at its second repetition") {
  CHECK(!after("").period());
  CHECK(!after("a").period());
  CHECK(after("aa").period() == 1u);
  CHECK(after("abab").period() == 2u);
  CHECK(!after("aba").period());
  CHECK(after("aabaab").period() == 3u);
  CHECK(after("abcdabcd").period() == 4u);
}

TEST_CASE("a long repetition outweighs a short one inside it") {
  CHECK(after("aabaabaa").period() == 3u);
  CHECK(after("xyzaaabaaabaaa").period() == 4u);
}

TEST_CASE("what came before the repetition does not matter") {
  CHECK(after("qwertyabcabc").period() == 3u);
  CHECK(after("ababababcdecde").period() == 3u);
}

TEST_CASE("random sequences of any length up to the limit are found, and only what is held is looked at") {
  std::mt19937 random(51);
  for (uint32_t length : {2u, 5u, 17u, 100u, kMaxPeriod}) {
    std::vector<uint64_t> cycle(length);
    for (uint64_t& bytes : cycle) bytes = random();
    PeriodFinder finder;
    for (uint32_t at = 0; at < 5 * length; ++at) finder.push({{.op = 1, .bytes = cycle[at % length]}, at});
    CHECK(finder.period() == length);
    CHECK(finder.explained(length) == 5 * length);
    CHECK(finder.size() <= 2 * kMaxPeriod + 1);
    for (uint32_t back = 0; back < finder.size(); ++back)
      REQUIRE(finder.recent(back).start_ns == 5 * length - 1 - back);
  }
}

TEST_CASE("a sequence longer than the limit is not mistaken for another") {
  PeriodFinder finder;
  for (uint32_t at = 0; at < 3 * (kMaxPeriod + 1); ++at) finder.push({{.op = 1, .bytes = at % (kMaxPeriod + 1)}, at});
  CHECK(!finder.period());
}
