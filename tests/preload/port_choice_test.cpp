#include "agent/preload/port_choice.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "common/abi/ecmp_hash_abi.h"

namespace orrery::preload {
namespace {

Endpoint v4(uint32_t address, uint16_t port) {
  Endpoint endpoint{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, port};
  for (int i = 0; i < 4; ++i) endpoint.address[12 + i] = static_cast<uint8_t>(address >> (24 - 8 * i));
  return endpoint;
}

orrery_plan_entry any_entry(std::mt19937& random) {
  orrery_plan_entry entry{};
  entry.src_port_first = static_cast<uint16_t>(1 + random() % 60000);
  entry.src_port_last = static_cast<uint16_t>(entry.src_port_first + random() % 5000);
  if (random() % 2) {
    entry.src_port_mask = static_cast<uint16_t>(random() % 8);
    entry.src_port_value = static_cast<uint16_t>(random() & entry.src_port_mask);
  }
  entry.protocol = random() % 2 ? IPPROTO_TCP : IPPROTO_UDP;
  entry.hop_count = static_cast<uint8_t>(random() % (ORRERY_PLAN_MAX_HOPS + 1));
  for (int i = 0; i < entry.hop_count; ++i) {
    const auto group = static_cast<uint16_t>(1 + random() % 8);
    entry.hops[i] = {
        static_cast<uint32_t>(random()), group, static_cast<uint16_t>(random() % group), ORRERY_HASH_MURMUR_5TUPLE, {}};
  }
  return entry;
}

}  // namespace

TEST_CASE("the choice offers exactly the ports that satisfy range, mask and every hop, each once") {
  std::mt19937 random(GENERATE(range(0, 40)));
  const orrery_plan_entry entry = any_entry(random);
  const auto src = static_cast<uint32_t>(random()), dst = static_cast<uint32_t>(random());
  const auto dst_port = static_cast<uint16_t>(1 + random() % 65535);
  std::set<uint16_t> expected;
  for (uint32_t port = entry.src_port_first; port <= entry.src_port_last; ++port) {
    bool good = (port & entry.src_port_mask) == entry.src_port_value;
    for (int i = 0; i < entry.hop_count; ++i)
      good = good && orrery_ecmp_member(orrery_ecmp_hash(entry.hops[i].seed, src, dst, static_cast<uint16_t>(port),
                                                         dst_port, entry.protocol),
                                        entry.hops[i].group_size) == entry.hops[i].member;
    if (good) expected.insert(static_cast<uint16_t>(port));
  }
  PortChoice choice(entry, v4(src, 0), v4(dst, dst_port), static_cast<uint32_t>(random()));
  std::set<uint16_t> offered;
  while (const uint16_t port = choice.next()) REQUIRE(offered.insert(port).second);
  CHECK(offered == expected);
  CHECK(choice.next() == 0);
}

TEST_CASE("nothing is offered when the entry leaves the port alone or cannot be computed") {
  std::mt19937 random(1);
  orrery_plan_entry entry = any_entry(random);
  entry.src_port_mask = entry.src_port_value = 0;
  entry.hop_count = 1;
  entry.hops[0] = {7, 1, 0, ORRERY_HASH_MURMUR_5TUPLE, {}};
  const Endpoint local = v4(1, 0), remote = v4(2, 3);
  REQUIRE(PortChoice(entry, local, remote, 0).next() != 0);
  orrery_plan_entry wrong = entry;
  wrong.src_port_first = wrong.src_port_last = 0;
  CHECK(PortChoice(wrong, local, remote, 0).next() == 0);
  wrong = entry;
  wrong.hops[0].hash_function = 9;
  CHECK(PortChoice(wrong, local, remote, 0).next() == 0);
  Endpoint v6 = remote;
  v6.address[0] = 0x20;
  CHECK(PortChoice(entry, local, v6, 0).next() == 0);
}

}  // namespace orrery::preload
