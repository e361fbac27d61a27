#include "tools/lab/hostnccl/verbs_plan.h"

#include <arpa/inet.h>

#include <catch2/catch.hpp>
#include <set>

namespace orrery::hostnccl {
namespace {

sockaddr_in address(const char* text) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  REQUIRE(::inet_pton(AF_INET, text, &made.sin_addr) == 1);
  return made;
}

Gid mapped(const char* text) {
  Gid gid{};
  gid[10] = gid[11] = 0xff;
  const sockaddr_in parsed = address(text);
  std::copy_n(reinterpret_cast<const uint8_t*>(&parsed.sin_addr), 4, gid.begin() + 12);
  return gid;
}

Gid link_local() {
  Gid gid{};
  gid[0] = 0xfe;
  gid[1] = 0x80;
  gid[15] = 1;
  return gid;
}

TEST_CASE("an empty HCA list admits every device and port") {
  const HcaFilter filter("");
  CHECK(filter.admits("mlx5_0", 1));
  CHECK(filter.admits("r1", 2));
}

TEST_CASE("HCA names are prefixes unless the list begins with an equals sign") {
  const HcaFilter prefix("mlx5_1,r");
  CHECK(prefix.admits("mlx5_1", 1));
  CHECK(prefix.admits("mlx5_10", 1));
  CHECK(prefix.admits("rxe0", 1));
  CHECK_FALSE(prefix.admits("mlx5_0", 1));
  const HcaFilter exact("=mlx5_1,r1");
  CHECK(exact.admits("mlx5_1", 1));
  CHECK_FALSE(exact.admits("mlx5_10", 1));
  CHECK(exact.admits("r1", 2));
  CHECK_FALSE(exact.admits("r12", 1));
}

TEST_CASE("a caret turns the HCA list into an exclusion") {
  const HcaFilter prefix("^mlx5_1");
  CHECK_FALSE(prefix.admits("mlx5_10", 1));
  CHECK(prefix.admits("mlx5_0", 1));
  const HcaFilter exact("^=mlx5_1");
  CHECK_FALSE(exact.admits("mlx5_1", 1));
  CHECK(exact.admits("mlx5_10", 1));
}

TEST_CASE("an HCA entry may name a port") {
  const HcaFilter filter("=mlx5_0:1,mlx5_1");
  CHECK(filter.admits("mlx5_0", 1));
  CHECK_FALSE(filter.admits("mlx5_0", 2));
  CHECK(filter.admits("mlx5_1", 2));
  const HcaFilter excluded("^=mlx5_0:2");
  CHECK(excluded.admits("mlx5_0", 1));
  CHECK_FALSE(excluded.admits("mlx5_0", 2));
}

TEST_CASE("empty HCA entries are skipped") {
  const HcaFilter filter(",=r1,,");
  CHECK_FALSE(filter.admits("r1", 1));  // the sign is only one at the beginning
  const HcaFilter only_commas("=,,");
  CHECK(only_commas.admits("r1", 1));
}

TEST_CASE("the GID of the local address wins, then IPv4 over RoCEv2, then RoCEv2, then any") {
  const sockaddr_in local = address("10.1.2.2");
  std::vector<GidEntry> entries = {{0, link_local(), false}};
  CHECK(choose_gid(entries, local) == 0);
  entries.push_back({1, link_local(), true});
  CHECK(choose_gid(entries, local) == 1);
  entries.push_back({2, mapped("10.9.9.9"), false});
  CHECK(choose_gid(entries, local) == 1);
  entries.push_back({3, mapped("10.9.9.9"), true});
  CHECK(choose_gid(entries, local) == 3);
  entries.push_back({4, mapped("10.9.9.10"), true});
  CHECK(choose_gid(entries, local) == 3);
  entries.push_back({7, mapped("10.1.2.2"), true});
  CHECK(choose_gid(entries, local) == 7);
}

TEST_CASE("a GID table without a GID gives none") {
  CHECK_FALSE(choose_gid({}, address("10.0.0.1")));
  CHECK_FALSE(choose_gid({{0, Gid{}, true}}, address("10.0.0.1")));
}

TEST_CASE("a GID is written as its IPv4 address where it holds one") {
  CHECK(to_text(mapped("10.1.2.3")) == "10.1.2.3");
  CHECK(to_text(link_local()) == "fe80::1");
  CHECK(carries(mapped("10.1.2.3"), address("10.1.2.3")));
  CHECK_FALSE(carries(mapped("10.1.2.3"), address("10.1.2.4")));
}

TEST_CASE("the shares of a message cover it once, in order, in multiples of 128 bytes") {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{129}, size_t{1000}, size_t{65536},
                             size_t{1} << 20, (size_t{1} << 20) - 1}) {
    for (const size_t pairs : {1u, 2u, 3u, 4u, 7u, 16u, 128u}) {
      size_t next = 0;
      for (size_t i = 0; i < pairs; ++i) {
        const Share share = share_of(bytes, pairs, i);
        CHECK(share.offset == next);
        const bool is_last = share.offset + share.bytes == bytes;
        CHECK((is_last || share.bytes % 128 == 0));
        next += share.bytes;
      }
      CHECK(next == bytes);
    }
  }
}

TEST_CASE("a small message is the first queue pair's alone") {
  CHECK(share_of(100, 4, 0).bytes == 100);
  CHECK(share_of(100, 4, 1).bytes == 0);
  CHECK(share_of(300, 2, 0).bytes == 256);
  CHECK(share_of(300, 2, 1).bytes == 44);
}

TEST_CASE("requests use the queue pairs in turn") {
  CHECK(queue_pair_of(0, 3) == 0);
  CHECK(queue_pair_of(4, 3) == 1);
  CHECK(queue_pair_of(5, 1) == 0);
}

TEST_CASE("no two outstanding requests share a slot, and a slot's sequence never repeats") {
  for (const uint64_t first : {uint64_t{0}, uint64_t{50}, uint64_t{1} << 40}) {
    std::set<size_t> slots;
    for (uint64_t request = first; request < first + kRequests; ++request) slots.insert(slot_of(request));
    CHECK(slots.size() == kRequests);
    CHECK(sequence_of(first) != sequence_of(first + kRequests));
    CHECK(sequence_of(first) != 0);  // what an unused slot holds
  }
}

TEST_CASE("exactly one clear-to-send of a round is signalled") {
  for (const size_t device : {0u, 3u}) {
    int signalled = 0;
    for (uint64_t request = 100; request < 100 + kRequests; ++request)
      signalled += signals_cts(request, device) ? 1 : 0;
    CHECK(signalled == 1);
  }
}

TEST_CASE("a work request id holds the requests it completes") {
  const uint64_t id = pack_requests({37, 254}, 2);
  CHECK(unpack_request(id, 0) == 37);
  CHECK(unpack_request(id, 1) == 254);
  CHECK(pack_requests({37, 254}, 1) == 37);
}

}  // namespace
}  // namespace orrery::hostnccl
