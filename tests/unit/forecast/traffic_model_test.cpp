#include "controller/forecast/traffic_model.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "common/abi/event_abi.h"

using namespace orrery::forecast;

namespace {

constexpr uint32_t kNoPeer = 0xffffffff;

using Edges = std::map<std::pair<uint32_t, uint32_t>, uint64_t>;

Edges edges(uint16_t op, uint64_t bytes, uint32_t nranks, uint32_t peer = kNoPeer, uint32_t caller = 0) {
  Edges edges;
  for (const RankFlow& flow : flows_of(op, bytes, nranks, peer, caller)) {
    CHECK(flow.src_rank != flow.dst_rank);
    CHECK(edges.emplace(std::pair(flow.src_rank, flow.dst_rank), flow.bytes).second);
  }
  return edges;
}

}  // namespace

TEST_CASE("an all-reduce goes twice around the ring, less a share for each rank") {
  CHECK(edges(ORRERY_OP_ALL_REDUCE, 1600, 4) == Edges{{{0, 1}, 2400}, {{1, 2}, 2400}, {{2, 3}, 2400}, {{3, 0}, 2400}});
  CHECK(edges(ORRERY_OP_ALL_REDUCE, 1000, 2) == Edges{{{0, 1}, 1000}, {{1, 0}, 1000}});
}

TEST_CASE("volumes are rounded up alike, so that flows stay of equal size") {
  const auto flows = flows_of(ORRERY_OP_ALL_REDUCE, 1001, 16, kNoPeer, 0);
  REQUIRE(flows.size() == 16);
  for (const RankFlow& flow : flows) CHECK(flow.bytes == 1877);  // 2 * 15 * 1001 / 16 = 1876.9
}

TEST_CASE("all-gather and reduce-scatter name the share of one rank, and n - 1 of them pass every rank") {
  for (uint16_t op : {ORRERY_OP_ALL_GATHER, ORRERY_OP_REDUCE_SCATTER})
    CHECK(edges(op, 100, 3) == Edges{{{0, 1}, 200}, {{1, 2}, 200}, {{2, 0}, 200}});
}

TEST_CASE("broadcast and reduce are pipelines that begin or end at the root") {
  CHECK(edges(ORRERY_OP_BROADCAST, 100, 4, 2) == Edges{{{2, 3}, 100}, {{3, 0}, 100}, {{0, 1}, 100}});
  CHECK(edges(ORRERY_OP_REDUCE, 100, 4, 2) == Edges{{{3, 0}, 100}, {{0, 1}, 100}, {{1, 2}, 100}});
}

TEST_CASE("all-to-all, gather and scatter go directly") {
  CHECK(edges(ORRERY_OP_ALL_TO_ALL, 10, 3) ==
        Edges{{{0, 1}, 10}, {{0, 2}, 10}, {{1, 0}, 10}, {{1, 2}, 10}, {{2, 0}, 10}, {{2, 1}, 10}});
  CHECK(edges(ORRERY_OP_GATHER, 10, 3, 1) == Edges{{{0, 1}, 10}, {{2, 1}, 10}});
  CHECK(edges(ORRERY_OP_SCATTER, 10, 3, 1) == Edges{{{1, 0}, 10}, {{1, 2}, 10}});
}

TEST_CASE("send and recv are one flow, seen from either end") {
  CHECK(edges(ORRERY_OP_SEND, 10, 4, 3, 1) == Edges{{{1, 3}, 10}});
  CHECK(edges(ORRERY_OP_RECV, 10, 4, 3, 1) == Edges{{{3, 1}, 10}});
  CHECK(edges(ORRERY_OP_SEND, 10, 4, 1, 1).empty());
  CHECK(edges(ORRERY_OP_SEND, 10, 4, 1, 9).empty());
}

TEST_CASE("every operation with n ranks moves what it must in all") {
  for (uint32_t nranks : {2u, 3u, 7u, 16u, 64u}) {
    const uint64_t bytes = uint64_t{nranks} * 1000;
    const std::map<uint16_t, uint64_t> all{{ORRERY_OP_ALL_REDUCE, 2 * (nranks - 1) * bytes},
                                           {ORRERY_OP_ALL_GATHER, nranks * (nranks - 1) * bytes},
                                           {ORRERY_OP_REDUCE_SCATTER, nranks * (nranks - 1) * bytes},
                                           {ORRERY_OP_BROADCAST, (nranks - 1) * bytes},
                                           {ORRERY_OP_REDUCE, (nranks - 1) * bytes},
                                           {ORRERY_OP_ALL_TO_ALL, nranks * (nranks - 1) * bytes},
                                           {ORRERY_OP_GATHER, (nranks - 1) * bytes},
                                           {ORRERY_OP_SCATTER, (nranks - 1) * bytes}};
    for (const auto& [op, expected] : all) {
      uint64_t sum = 0;
      for (const auto& [edge, sent] : edges(op, bytes, nranks, nranks / 2)) sum += sent;
      CHECK(sum == expected);
    }
  }
}

TEST_CASE("what cannot be modelled gives no flows") {
  CHECK(flows_of(0, 100, 4, kNoPeer, 0).empty());
  CHECK(flows_of(999, 100, 4, kNoPeer, 0).empty());
  CHECK(flows_of(ORRERY_OP_ALL_REDUCE, 100, 1, kNoPeer, 0).empty());
  CHECK(flows_of(ORRERY_OP_ALL_REDUCE, 100, 0, kNoPeer, 0).empty());
  CHECK(flows_of(ORRERY_OP_BROADCAST, 100, 4, 4, 0).empty());
  CHECK(flows_of(ORRERY_OP_ALL_TO_ALL, 100, 4'000'000'000, kNoPeer, 0).empty());
  CHECK(flows_of(ORRERY_OP_ALL_TO_ALL, 100, 1100, kNoPeer, 0).empty());
}

TEST_CASE("sizes beyond the type are held at its end") {
  CHECK(flows_of(ORRERY_OP_ALL_GATHER, UINT64_MAX, 8, kNoPeer, 0).front().bytes == UINT64_MAX);
}

TEST_CASE("what one flow of an operation carries is what its flows say") {
  for (uint16_t op = 0; op < 16; ++op) {
    const auto flows = flows_of(op, 1001, 5, 2, 0);
    if (!flows.empty()) CHECK(flow_bytes(op, 1001, 5) == flows.front().bytes);
  }
  CHECK(flow_bytes(ORRERY_OP_ALL_REDUCE, 1001, 1) == 0);
  CHECK(flow_bytes(999, 1001, 4) == 0);
}
