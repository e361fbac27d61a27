// The controller plans a job live as the simulator does: what it learns from calls comes to the same offsets.
#include <map>

#include "tests/unit/core/fixture.h"
#include "tools/sim/schemes/scheme.h"
#include "tools/sim/workload/jobs.h"

using namespace orrery;
using orrery::test::CoreFixture;
using orrery::test::kMs;

namespace {

using Offsets = std::map<std::string, uint64_t>;  // nanoseconds, by "sender to receiver"

constexpr uint32_t kHosts = 16;

// A call of NCCL by every rank of every group.
struct Call {
  sim::Op op = sim::Op::kAllReduce;
  uint64_t bytes = 0;  // as the simulator counts them
  sim::Group group;
  bool overlapped = false;
};

struct LivePlanFixture : CoreFixture {
  // Two hosts on a leaf for each of its uplinks, so that flows have to share.
  explicit LivePlanFixture(uint32_t spines = 2)
      : CoreFixture({.version = "test"}, {.leaves = 4, .spines = spines, .hosts = kHosts, .rate_bps = 10'000'000'000}) {
    // Neighbours in a ring are on different leaves.
    for (uint32_t rank = 0; rank < kHosts; ++rank) hosts.push_back(rank % 4 * 4 + rank / 4);
  }

  Offsets simulated(const std::vector<Call>& iteration) {
    sim::Job job;
    job.name = "job";
    job.hosts = hosts;
    job.iterations = 2;
    job.options.round_width = kHosts;
    for (const Call& call : iteration)
      job.steps.push_back({.collective = sim::Collective{.op = call.op, .bytes = call.bytes},
                           .group = call.group,
                           .overlapped = call.overlapped});
    sim::Traffic traffic;
    REQUIRE(sim::add_job(traffic, job));
    const auto routed = sim::route(traffic, fabric, sim::Scheme::kOrreryStagger, {.max_hold = 1 * sim::kPerMs});
    Offsets offsets;
    for (size_t flow = 0; flow < traffic.flows.size(); ++flow)
      offsets[host(traffic.flows[flow].src) + " to " + host(traffic.flows[flow].dst)] =
          routed.value().flows[flow].release_offset / sim::kPerNs;
    return offsets;
  }

  // The first rank of every communicator tells what it calls, iteration by iteration.
  Offsets live(const std::vector<Call>& iteration, uint32_t iterations = 4) {
    for (uint32_t i = 0; i < iterations; ++i) {
      for (const Call& call : iteration) {
        for (uint32_t group = 0; group < kHosts / size_of(call.group); ++group) make(call, group);
        pass(3);
      }
      pass(40);
    }
    pass(1'500);
    Offsets offsets;
    for (const auto& flow : plan().flows) offsets[flow.src_host + " to " + flow.dst_host] = flow.release_offset_ns;
    return offsets;
  }

  static uint32_t size_of(const sim::Group& group) { return group.size == 0 ? kHosts : group.size; }

  void make(const Call& call, uint32_t group) {
    const uint32_t size = size_of(call.group), stride = call.group.stride;
    const auto [id, fresh] = ids.try_emplace({size, stride, group}, ids.size() + 1);
    std::vector<size_t> members;
    for (uint32_t at = 0; at < size; ++at)
      members.push_back(hosts[group / stride * size * stride + group % stride + at * stride]);
    if (fresh) announce_all(id->second, members);
    // NCCL names what a rank sends, the simulator the whole array.
    const bool whole = call.op == sim::Op::kAllReduce;
    const uint16_t op = whole                            ? ORRERY_OP_ALL_REDUCE
                        : call.op == sim::Op::kAllGather ? ORRERY_OP_ALL_GATHER
                                                         : ORRERY_OP_ALL_TO_ALL;
    CoreFixture::call(id->second, 0, members[0], op, whole ? call.bytes : call.bytes / size, calls[id->second]++,
                      0xffffffff, now);
  }

  std::vector<uint32_t> hosts;  // by rank
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint64_t> ids;
  std::map<uint64_t, uint64_t> calls;  // by communicator
};

struct NonBlocking : LivePlanFixture {
  NonBlocking() : LivePlanFixture(4) {}
};

uint64_t last(const Offsets& offsets) {
  uint64_t last = 0;
  for (const auto& [pair, offset] : offsets) last = std::max(last, offset);
  return last;
}

}  // namespace

TEST_CASE_METHOD(LivePlanFixture, "collectives of several sizes wait live for as long as simulated") {
  const std::vector<Call> iteration = {{.bytes = 32'000'000}, {.bytes = 1'600'000}, {.bytes = 3'200'000}};
  const Offsets expected = simulated(iteration);
  REQUIRE(last(expected) > 0);
  CHECK(live(iteration) == expected);
}

TEST_CASE_METHOD(LivePlanFixture, "communicators of one job count as often as they are called in its round") {
  const sim::Group experts{4, 1}, replicas{4, 4};
  std::vector<Call> iteration(6, {.op = sim::Op::kAllGather, .bytes = 1'600'000, .group = experts, .overlapped = true});
  iteration.push_back({.bytes = 16'000'000, .group = replicas, .overlapped = true});
  const Offsets expected = simulated(iteration);
  REQUIRE(last(expected) > 0);
  CHECK(live(iteration) == expected);
}

TEST_CASE_METHOD(NonBlocking, "rounds of all-to-alls begin live when they do in the simulation") {
  const std::vector<Call> iteration = {{.op = sim::Op::kAllToAll, .bytes = kHosts * 40'000},
                                       {.op = sim::Op::kAllToAll, .bytes = kHosts * 20'000}};
  const Offsets expected = simulated(iteration);
  REQUIRE(last(expected) > 200'000);
  CHECK(live(iteration) == expected);
}
