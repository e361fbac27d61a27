// A ring of plans, run in memory against a plain sum: what one rank sends its neighbour receives, in the same order and
// sizes.
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <vector>

#include "tools/lab/hostnccl/ring.h"

namespace orrery::hostnccl {
namespace {

using Values = std::vector<uint32_t>;

struct Rank {
  Values send;
  Values recv;
  size_t next = 0;
  std::deque<Values> inbox;
  size_t most_waiting = 0;
};

uint32_t input(size_t rank, size_t index) {
  return static_cast<uint32_t>(1000 * rank + index % 997 + 1);
}

struct Sizes {
  size_t send;
  size_t recv;
};

Sizes sizes_of(OperationKind kind, size_t count, size_t nranks) {
  switch (kind) {
    case OperationKind::kAllGather:
      return {count, count * nranks};
    case OperationKind::kReduceScatter:
      return {count * nranks, count};
    default:
      return {count, count};
  }
}

// Carries out one step if its input has arrived.
bool advance(Rank& rank, const RingPlan& plan, Rank& neighbour) {
  if (rank.next == plan.size()) return false;
  const SliceStep step = plan.at(rank.next);
  const size_t count = step.bytes / sizeof(uint32_t);
  Values value(count);
  if (step.receives) {
    if (rank.inbox.empty()) return false;
    value = rank.inbox.front();
    REQUIRE(value.size() == count);
    rank.inbox.pop_front();
  }
  if (step.local) {
    Values own(count);
    if (count > 0) std::memcpy(own.data(), step.local, step.bytes);
    for (size_t i = 0; i < count; ++i) value[i] += own[i];
  }
  if (step.out && count > 0) std::memcpy(step.out, value.data(), step.bytes);
  if (step.sends) neighbour.inbox.push_back(value);
  neighbour.most_waiting = std::max(neighbour.most_waiting, neighbour.inbox.size());
  ++rank.next;
  return true;
}

uint32_t expected(OperationKind kind, size_t rank, size_t index, size_t count, size_t nranks, size_t root) {
  uint32_t sum = 0;
  switch (kind) {
    case OperationKind::kAllGather:
      return input(index / count, index % count);
    case OperationKind::kBroadcast:
      return input(root, index);
    case OperationKind::kReduceScatter:
      for (size_t r = 0; r < nranks; ++r) sum += input(r, rank * count + index);
      return sum;
    default:
      for (size_t r = 0; r < nranks; ++r) sum += input(r, index);
      return sum;
  }
}

void run_ring(OperationKind kind, size_t nranks, size_t count, uint32_t channels, uint32_t slice_bytes) {
  const SharedSettings shared{.channels = channels, .slice_bytes = slice_bytes};
  const size_t root = nranks / 2;
  const Sizes sizes = sizes_of(kind, count, nranks);
  std::vector<Rank> ranks(nranks);
  for (size_t r = 0; r < nranks; ++r) {
    for (size_t i = 0; i < sizes.send; ++i) ranks[r].send.push_back(input(r, i));
    ranks[r].recv.assign(sizes.recv, 0);
  }
  for (uint32_t channel = 0; channel < channels; ++channel) {
    std::vector<RingPlan> plans;
    for (size_t r = 0; r < nranks; ++r) {
      ranks[r].next = 0;
      const Operation operation{.kind = kind,
                                .send = ranks[r].send.data(),
                                .recv = ranks[r].recv.data(),
                                .count = count,
                                .type = ncclUint32,
                                .peer = static_cast<int>(root)};
      plans.emplace_back(operation, static_cast<int>(r), static_cast<int>(nranks), shared, channel);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < nranks; ++r) moved |= advance(ranks[r], plans[r], ranks[(r + 1) % nranks]);
    }
    for (size_t r = 0; r < nranks; ++r) {
      REQUIRE(ranks[r].next == plans[r].size());
      REQUIRE(ranks[r].inbox.empty());
    }
  }
  for (size_t r = 0; r < nranks; ++r) {
    if (kind == OperationKind::kReduce && r != root) continue;
    for (size_t i = 0; i < sizes.recv; ++i) REQUIRE(ranks[r].recv[i] == expected(kind, r, i, count, nranks, root));
  }
}

TEST_CASE("rings of any size carry out every collective for any count") {
  const auto kind = GENERATE(OperationKind::kAllReduce, OperationKind::kAllGather, OperationKind::kReduceScatter,
                             OperationKind::kBroadcast, OperationKind::kReduce);
  const size_t nranks = GENERATE(2u, 3u, 5u, 8u);
  const size_t count = GENERATE(0u, 1u, 7u, 1024u, 20011u);
  const uint32_t channels = GENERATE(1u, 3u);
  CAPTURE(static_cast<int>(kind), nranks, count, channels);
  run_ring(kind, nranks, count, channels, 4096);
}

TEST_CASE(
    "an all-reduce of 4 MiB on 16 ranks is cut into slices of at most the slice size and at least eight per chunk") {
  const SharedSettings shared{.channels = 1, .slice_bytes = 32 << 10};
  const Operation operation{.kind = OperationKind::kAllReduce, .count = 1 << 20, .type = ncclFloat32};
  const RingPlan plan(operation, 3, 16, shared, 0);
  REQUIRE(plan.size() >= 31 * 8);
  uint64_t sent = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    REQUIRE(plan.at(i).bytes <= 32 << 10);
    if (plan.at(i).sends) sent += plan.at(i).bytes;
  }
  REQUIRE(sent == 2 * 15 * (uint64_t{4 << 20} / 16));
}

}  // namespace
}  // namespace orrery::hostnccl
