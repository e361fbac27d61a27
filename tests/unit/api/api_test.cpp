#include "controller/api/peers.h"
#include "controller/api/rate_limit.h"

#include <catch2/catch.hpp>

using namespace orrery::api;

namespace {
constexpr uint64_t kSecond = 1'000'000'000;
}

TEST_CASE("a peer is new once per connection, and gone when it says hello no more") {
  Peers peers;
  CHECK(peers.hello("id-1", "h1", 0));
  CHECK_FALSE(peers.hello("id-1", "h1", kSecond));
  CHECK(peers.hello("id-2", "h1", 2 * kSecond));
  CHECK(*peers.identity_of("h1") == "id-2");
  CHECK(peers.name_of("id-1").empty());
  CHECK(peers.name_of("id-2") == "h1");
  CHECK(peers.expire(4 * kSecond, 3 * kSecond).empty());
  CHECK(peers.expire(5 * kSecond, 3 * kSecond) == std::vector<std::string>{"h1"});
  CHECK(peers.identity_of("h1") == nullptr);
  CHECK(peers.hello("id-2", "h1", 6 * kSecond));
}

TEST_CASE("one connection speaks for one name") {
  Peers peers;
  peers.hello("id-1", "h1", 0);
  CHECK(peers.hello("id-1", "h2", 0));
  CHECK(peers.names() == std::vector<std::string>{"h2"});
  CHECK(peers.name_of("id-1") == "h2");
}

TEST_CASE("a sender is cut off beyond its limit until the next second, and others are not") {
  RateLimit limit(3);
  for (int i = 0; i < 3; ++i) CHECK(limit.admit("a", kSecond));
  CHECK_FALSE(limit.admit("a", kSecond + 1));
  CHECK(limit.admit("b", kSecond + 1));
  CHECK(limit.admit("a", 2 * kSecond));
}

TEST_CASE("senders beyond the bound share one count, so that memory is bounded") {
  RateLimit limit(2);
  for (size_t i = 0; i < RateLimit::kMaxSenders; ++i) REQUIRE(limit.admit("peer " + std::to_string(i), kSecond));
  CHECK(limit.admit("one more", kSecond));
  CHECK(limit.admit("and another", kSecond));
  CHECK_FALSE(limit.admit("a third", kSecond));
  CHECK(limit.admit("peer 0", kSecond));
}

TEST_CASE("of two programs with one name the older is known as replaced until the newer is gone") {
  Peers peers;
  peers.hello("id-1", "h1", 0);
  CHECK_FALSE(peers.was_replaced("id-1", "h1"));
  peers.hello("id-2", "h1", kSecond);
  CHECK(peers.was_replaced("id-1", "h1"));
  CHECK_FALSE(peers.was_replaced("id-2", "h1"));
  CHECK_FALSE(peers.was_replaced("id-3", "h1"));
  peers.expire(5 * kSecond, 3 * kSecond);
  CHECK_FALSE(peers.was_replaced("id-1", "h1"));
}
