#include "common/abi/ecmp_hash_abi.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

namespace {
uint32_t hash_of(uint32_t seed, uint16_t src_port) {
  return orrery_ecmp_hash(seed, 0x0a000101, 0x0a000201, src_port, 5000, 6);
}
}  // namespace

TEST_CASE("source ports spread evenly over the members of a group") {
  std::array<int, 4> count{};
  for (int port = 32768; port < 60999; ++port) ++count[orrery_ecmp_member(hash_of(7, static_cast<uint16_t>(port)), 4)];
  for (int members : count) CHECK(members == Approx(28231 / 4.0).epsilon(0.05));
}

TEST_CASE("switches with different seeds decide independently") {
  int same = 0;
  for (int port = 32768; port < 60999; ++port)
    same += orrery_ecmp_member(hash_of(1, static_cast<uint16_t>(port)), 4) ==
            orrery_ecmp_member(hash_of(2, static_cast<uint16_t>(port)), 4);
  CHECK(same == Approx(28231 / 4.0).epsilon(0.05));
}

TEST_CASE("a member that goes down moves only its own flows") {
  for (int port = 32768; port < 40000; ++port) {
    const uint32_t hash = hash_of(3, static_cast<uint16_t>(port));
    const uint32_t before = orrery_ecmp_live_member(hash, 4, 0xf);
    const uint32_t after = orrery_ecmp_live_member(hash, 4, 0xb);
    REQUIRE(before == orrery_ecmp_member(hash, 4));
    if (before == 2)
      REQUIRE((after != 2 && after < 4));
    else
      REQUIRE(after == before);
  }
  CHECK(orrery_ecmp_live_member(hash_of(3, 1), 4, 0) == ORRERY_ECMP_NO_MEMBER);
}

TEST_CASE("a live member is found as by counting one member after the other") {
  uint32_t state = 1;
  const auto next = [&] { return state = orrery_hash_round(state, 0x1234567u); };
  for (int round = 0; round < 20000; ++round) {
    const uint32_t hash = next(), size = 1 + next() % 64;
    const uint64_t up = (static_cast<uint64_t>(next()) << 32 | next()) & (static_cast<uint64_t>(next()) << 32 | next());
    std::vector<uint32_t> live;
    for (uint32_t member = 0; member < size; ++member)
      if (up >> member & 1) live.push_back(member);
    const uint32_t first = orrery_ecmp_member(hash, size);
    uint32_t expected = ORRERY_ECMP_NO_MEMBER;
    if (up >> first & 1)
      expected = first;
    else if (!live.empty())
      expected = live[orrery_ecmp_member(orrery_hash_round(hash, 0x9e3779b9u), static_cast<uint32_t>(live.size()))];
    REQUIRE(orrery_ecmp_live_member(hash, size, up) == expected);
  }
}
