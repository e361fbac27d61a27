#include "controller/forecast/forecaster.h"

#include <catch2/catch.hpp>
#include <random>
#include <string_view>
#include <vector>

using namespace orrery::forecast;

namespace {

constexpr uint64_t kMillisecond = 1'000'000;

Operation operation(char name) {
  return {.op = 1, .bytes = static_cast<uint64_t>(name)};
}

// Feeds one communicator, each operation a fixed time after the last.
class Feed {
 public:
  std::vector<bool> operator()(std::string_view operations, uint64_t gap_ns = 10 * kMillisecond) {
    std::vector<bool> held;
    for (char name : operations) {
      now_ns += gap_ns;
      if (const auto result = forecaster.observe(7, operation(name), now_ns)) held.push_back(*result);
    }
    return held;
  }
  uint64_t misses() const { return forecaster.score(7).misses; }

  Forecaster forecaster;
  uint64_t now_ns = 0;
};

std::string repeated(std::string_view cycle, int times) {
  std::string all;
  for (int round = 0; round < times; ++round) all += cycle;
  return all;
}

}  // namespace

TEST_CASE("nothing is predicted before a sequence was seen twice, everything after") {
  Feed feed;
  CHECK(feed("abcabc").empty());
  CHECK(feed("abcabcabc") == std::vector<bool>(9, true));
  CHECK(feed.forecaster.score(7).hits == 9);
}

TEST_CASE("a prediction names operation, window, period and confidence") {
  Feed feed;
  feed(repeated("abcd", 10));
  const auto prediction = feed.forecaster.predict(7);
  REQUIRE(prediction);
  CHECK(prediction->next == operation('a'));
  CHECK(prediction->window_start_ns < feed.now_ns + 10 * kMillisecond);
  CHECK(prediction->window_end_ns > feed.now_ns + 10 * kMillisecond);
  CHECK(prediction->window_end_ns - prediction->window_start_ns < 4 * kMillisecond);
  CHECK(prediction->period_ns == 40 * kMillisecond);
  CHECK(prediction->confidence == 1);
}

TEST_CASE("a rhythm is the round to come, from the next operation on") {
  Feed feed;
  CHECK_FALSE(feed.forecaster.rhythm(7));
  feed(repeated("abc", 5) + "a");
  const auto rhythm = feed.forecaster.rhythm(7);
  REQUIRE(rhythm);
  CHECK(rhythm->last_start_ns == feed.now_ns);
  CHECK(rhythm->period_ns == 30 * kMillisecond);
  REQUIRE(rhythm->round.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(rhythm->round[i].operation == operation("bca"[i]));
    CHECK(rhythm->round[i].start_ns == feed.now_ns + (i + 1) * 10 * kMillisecond);
  }
}

TEST_CASE("a short repetition inside a sequence is unlearned once the whole is known") {
  Feed feed;
  feed(repeated("aab", 3));
  CHECK(feed(repeated("aab", 5)) == std::vector<bool>(15, true));
}

TEST_CASE("a foreign operation costs its own miss and a late successor at most") {
  Feed feed;
  feed(repeated("abcde", 6));
  const uint64_t before = feed.misses();
  feed("abXcdeabcde");
  CHECK(feed.misses() == before + 1);
}

TEST_CASE("a left-out operation costs one miss") {
  Feed feed;
  feed(repeated("abcde", 6));
  const uint64_t before = feed.misses();
  feed("abdeabcde");
  CHECK(feed.misses() == before + 1);
}

TEST_CASE("a sequence that changes is learned anew") {
  Feed feed;
  feed(repeated("abcde", 10));
  feed(repeated("vwxyz", 3));
  CHECK(feed(repeated("vwxyz", 4)) == std::vector<bool>(20, true));
}

TEST_CASE("one operation that changes for good is learned, the rest of the sequence stays known") {
  Feed feed;
  feed(repeated("abcde", 10));
  const uint64_t before = feed.misses();
  feed(repeated("abCde", 3));
  CHECK(feed.misses() <= before + 6);
  CHECK(feed(repeated("abCde", 4)) == std::vector<bool>(20, true));
}

TEST_CASE("a sequence given up predicts nothing until another is known") {
  Feed feed;
  feed(repeated("abcde", 4));
  feed("1234");
  CHECK(!feed.forecaster.predict(7));
  CHECK(feed("5678").empty());
}

TEST_CASE("a pause is one miss and does not widen the window for long") {
  Feed feed;
  feed(repeated("ab", 20));
  const uint64_t before = feed.misses();
  feed("a", 5000 * kMillisecond);
  feed("b");
  CHECK(feed.misses() == before + 1);
  feed(repeated("ab", 20));
  CHECK(feed.misses() <= before + 2);
  const auto prediction = feed.forecaster.predict(7);
  CHECK(prediction->window_end_ns - prediction->window_start_ns < 5 * kMillisecond);
}

TEST_CASE("a lasting change of pace is followed within a few rounds") {
  Feed feed;
  feed(repeated("ab", 20));
  feed(repeated("ab", 20), 20 * kMillisecond);
  CHECK(feed(repeated("ab", 10), 20 * kMillisecond) == std::vector<bool>(20, true));
}

TEST_CASE("random sequences with jitter are predicted nearly always once learned") {
  std::mt19937 random(61);
  std::normal_distribution<double> jitter(0, 0.05);
  for (int round = 0; round < 20; ++round) {
    const size_t length = 1 + random() % 60;
    std::vector<std::pair<Operation, double>> cycle(length);
    for (auto& [op, gap] : cycle) {
      op = {.op = static_cast<uint16_t>(1 + random() % 3), .bytes = 1000 * (1 + random() % 5)};
      gap = 1e6 * (1 + random() % 50);
    }
    Forecaster forecaster;
    double now = 1e9;
    for (size_t at = 0; at < 60 * length; ++at) {
      now += cycle[at % length].second * std::max(0.0, 1 + jitter(random));
      forecaster.observe(1, cycle[at % length].first, static_cast<uint64_t>(now));
    }
    const Score score = forecaster.score(1);
    CHECK(score.hits + score.misses >= 57 * length - 10);
    CHECK(static_cast<double>(score.misses) < 0.05 * static_cast<double>(score.hits));
  }
}

TEST_CASE("any observations whatever are taken, and windows stay sensible") {
  std::mt19937 random(62);
  Forecaster forecaster;
  for (int at = 0; at < 20'000; ++at) {
    const uint64_t comm = random() % 4;
    const uint64_t start = random() % 10 == 0 ? UINT64_MAX / 2 - random() : random() % 100 * 1'000'000;
    forecaster.observe(comm, operation(static_cast<char>('a' + random() % 3)), start);
    if (const auto prediction = forecaster.predict(comm)) {
      REQUIRE(prediction->window_start_ns <= prediction->window_end_ns);
      REQUIRE(prediction->confidence >= 0);
      REQUIRE(prediction->confidence <= 1);
    }
  }
}

TEST_CASE("communicators are told apart and can be forgotten") {
  Forecaster forecaster;
  for (uint64_t at = 0; at < 8; ++at) {
    forecaster.observe(1, operation(at % 2 ? 'a' : 'b'), at * kMillisecond);
    forecaster.observe(2, operation('x'), at * kMillisecond);
  }
  CHECK(forecaster.predict(1)->next == operation('b'));
  CHECK(forecaster.predict(2)->next == operation('x'));
  forecaster.forget(1);
  CHECK(!forecaster.predict(1));
  CHECK(forecaster.score(1).hits == 0);
  CHECK(forecaster.predict(2));
  CHECK(!forecaster.predict(3));
}

TEST_CASE("the communicator not heard of for longest goes when there are too many") {
  Forecaster forecaster;
  for (int round = 0; round < 2; ++round)
    for (uint64_t comm = 0; comm < kMaxCommunicators; ++comm) forecaster.observe(comm, operation('a'), 1);
  forecaster.observe(0, operation('a'), 2);
  forecaster.observe(kMaxCommunicators, operation('a'), 2);
  CHECK(forecaster.communicators() == kMaxCommunicators);
  CHECK(forecaster.predict(0));
  CHECK(!forecaster.predict(1));
  CHECK(forecaster.predict(2));
}

TEST_CASE("starts at random are not called as predicted: a window is never wider than the period") {
  std::mt19937 random(63);
  std::exponential_distribution<double> gap(1.0 / 20e6);
  Forecaster forecaster;
  double now = 1e9;
  for (int at = 0; at < 3000; ++at) {
    now += gap(random);
    forecaster.observe(1, operation('a'), static_cast<uint64_t>(now));
    if (const auto prediction = forecaster.predict(1))
      REQUIRE(prediction->window_end_ns - prediction->window_start_ns <=
              std::max<uint64_t>(prediction->period_ns, 200'000) + 2);
  }
  const Score score = forecaster.score(1);
  CHECK(static_cast<double>(score.hits) < 0.6 * static_cast<double>(score.hits + score.misses));
}

TEST_CASE("one start from a broken clock does not make every later one right") {
  Feed feed;
  feed(repeated("ab", 20));
  const uint64_t real_ns = feed.now_ns;
  feed("a", uint64_t{1} << 60);
  feed.now_ns = real_ns + 10 * kMillisecond;
  CHECK(feed("b") == std::vector<bool>{false});
  CHECK(feed(repeated("ab", 10)).size() == 20);
  const auto prediction = feed.forecaster.predict(7);
  CHECK(prediction->window_start_ns > feed.now_ns);
  feed("a", 1);  // far too early
  CHECK(feed.forecaster.predict(7)->confidence < 1);
  CHECK(feed("b", 0) == std::vector<bool>{false});
}
