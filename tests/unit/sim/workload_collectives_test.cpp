#include "tools/sim/workload/collectives.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/unit/sim/fixtures.h"
#include "tools/sim/model/lowering.h"
#include "tools/sim/workload/weave.h"

namespace orrery::sim {
namespace {

struct Built {
  Traffic traffic;
  std::vector<uint32_t> ready, done;
};

std::vector<uint32_t> one_per_host(uint32_t ranks) {
  std::vector<uint32_t> hosts(ranks);
  std::iota(hosts.begin(), hosts.end(), 0u);
  return hosts;
}

Result<Built> try_build(const Collective& collective, const std::vector<uint32_t>& hosts,
                        const CommunicatorOptions& options = {}) {
  Built built;
  built.traffic.jobs = {"job"};
  for (const uint32_t host : hosts) built.ready.push_back(built.traffic.add_computation(host, 0));
  Communicator communicator(built.traffic, 0, hosts, options);
  ORRERY_ASSIGN(built.done, communicator.add(collective, built.ready));
  built.traffic.rounds = {{0, built.ready, built.done}};
  return built;
}

Built build(const Collective& collective, const std::vector<uint32_t>& hosts, const CommunicatorOptions& options = {}) {
  Built built = try_build(collective, hosts, options).value();
  const Status sound = check(built.traffic, static_cast<uint32_t>(hosts.size()));
  INFO((sound ? "" : sound.error().message));
  REQUIRE(sound);
  return built;
}

std::vector<uint64_t> sent_by_host(const Traffic& traffic, uint32_t hosts) {
  std::vector<uint64_t> bytes(hosts);
  for (const Transfer& transfer : traffic.transfers) bytes[traffic.flows[transfer.flow].src] += transfer.bytes;
  return bytes;
}

uint64_t total(const std::vector<uint64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

RunResult run(const Traffic& traffic, const fabric::Graph& graph, const PacketConfig& config) {
  std::vector<FlowRoute> routes;
  for (const Flow& flow : traffic.flows) {
    const auto paths = graph.paths(graph.nics()[flow.src], graph.nics()[flow.dst]);
    FlowRoute route;
    route.qps.push_back({{paths[0]}, PathPolicy::kStatic});
    routes.push_back(route);
  }
  return run_packets(graph, lower(traffic, routes, graph).value(), config);
}

}  // namespace

TEST_CASE("every rank sends what nccl-tests counts, and as many transfers as announced") {
  const uint64_t bytes = 16'777'216;
  const auto n = GENERATE(2u, 4u, 8u, 16u);
  struct Case {
    Op op;
    Algorithm algorithm;
    double factor;  // of the array, per rank; of all ranks together where they differ
    bool even;
  };
  const double all = 2.0 * (n - 1) / n, half = 1.0 * (n - 1) / n;
  const auto test = GENERATE_COPY(
      Case{Op::kAllReduce, Algorithm::kRing, all, true}, Case{Op::kAllReduce, Algorithm::kTree, all, false},
      Case{Op::kAllReduce, Algorithm::kHalvingDoubling, all, true}, Case{Op::kAllGather, Algorithm::kRing, half, true},
      Case{Op::kAllGather, Algorithm::kPat, half, true}, Case{Op::kAllGather, Algorithm::kHalvingDoubling, half, true},
      Case{Op::kReduceScatter, Algorithm::kRing, half, true}, Case{Op::kReduceScatter, Algorithm::kPat, half, true},
      Case{Op::kReduceScatter, Algorithm::kHalvingDoubling, half, true},
      Case{Op::kAllToAll, Algorithm::kPairwise, half, true}, Case{Op::kAllToAll, Algorithm::kHierarchical, half, true},
      Case{Op::kBroadcast, Algorithm::kRing, half, false}, Case{Op::kReduce, Algorithm::kRing, half, false},
      Case{Op::kSendRecv, Algorithm::kDirect, 1, true});
  CommunicatorOptions options;
  options.channels = GENERATE(1u, 2u);
  const Collective collective{.op = test.op, .algorithm = test.algorithm, .bytes = bytes};
  CAPTURE(n, name_of(test.op), name_of(test.algorithm), options.channels);
  const Built built = build(collective, one_per_host(n), options);
  const auto sent = sent_by_host(built.traffic, n);
  CHECK(total(sent) == static_cast<uint64_t>(test.factor * static_cast<double>(bytes) * n + 0.5));
  if (test.even)
    for (const uint64_t mine : sent) CHECK(mine == total(sent) / n);
  CHECK(built.traffic.transfers.size() == transfers_of(collective, n, options));
}

TEST_CASE("numbers of ranks and bytes that do not divide lose no byte") {
  const uint64_t bytes = 1'000'003;
  const auto n = GENERATE(3u, 5u, 7u, 12u, 13u);
  CommunicatorOptions options;
  options.max_steps = GENERATE(0u, 3u);
  options.round_width = GENERATE(1u, 4u);
  const auto sum = [&](Op op, Algorithm algorithm) {
    const Built built = build({.op = op, .algorithm = algorithm, .bytes = bytes}, one_per_host(n), options);
    return total(sent_by_host(built.traffic, n));
  };
  CAPTURE(n, options.max_steps);
  CHECK(sum(Op::kAllReduce, Algorithm::kRing) == 2 * (n - 1) * bytes);
  CHECK(sum(Op::kAllReduce, Algorithm::kTree) == 2 * (n - 1) * bytes);
  CHECK(sum(Op::kAllGather, Algorithm::kRing) == (n - 1) * bytes);
  CHECK(sum(Op::kAllGather, Algorithm::kPat) == (n - 1) * bytes);
  CHECK(sum(Op::kReduceScatter, Algorithm::kPat) == (n - 1) * bytes);
  CHECK(sum(Op::kAllToAll, Algorithm::kPairwise) == (n - 1) * bytes);
  // The ranks beyond the power of two hand their array over and get it back.
  const uint32_t power = n < 4 ? 2 : n < 8 ? 4 : 8;
  CHECK(sum(Op::kAllReduce, Algorithm::kHalvingDoubling) == 2 * (power - 1) * bytes + 2 * (n - power) * bytes);
}

TEST_CASE("a tree's busiest rank sends twice the array however many ranks there are") {
  const uint64_t bytes = 1 << 20;
  const auto n = GENERATE(4u, 5u, 8u, 13u, 32u, 33u);
  CAPTURE(n);
  for (const uint64_t sent : sent_by_host(
           build({.op = Op::kAllReduce, .algorithm = Algorithm::kTree, .bytes = bytes}, one_per_host(n)).traffic, n))
    CHECK(sent <= 2 * bytes);
}

TEST_CASE("merged steps send the same bytes to the same neighbours in fewer transfers") {
  const Collective collective{.op = Op::kAllReduce, .bytes = 1'000'000'007};
  CommunicatorOptions merged;
  merged.max_steps = 16;
  const Built all = build(collective, one_per_host(64)), few = build(collective, one_per_host(64), merged);
  CHECK(all.traffic.transfers.size() == 64 * 126);
  CHECK(few.traffic.transfers.size() == 64 * 16);
  CHECK(all.traffic.flows.size() == few.traffic.flows.size());
  CHECK(sent_by_host(all.traffic, 64) == sent_by_host(few.traffic, 64));
}

TEST_CASE("ranks on one host reach each other without the network") {
  const std::vector<uint32_t> hosts{0, 0, 0, 0, 1, 1, 1, 1};
  const uint64_t bytes = 8'000'000;
  const auto sent = [&](Op op, Algorithm algorithm) {
    return sent_by_host(build({.op = op, .algorithm = algorithm, .bytes = bytes}, hosts).traffic, 2);
  };
  // One hop of eight leaves each host.
  CHECK(sent(Op::kAllReduce, Algorithm::kRing) == std::vector<uint64_t>{14'000'000, 14'000'000});
  // Only heads talk, and the trees' roots are on different hosts.
  CHECK(sent(Op::kAllReduce, Algorithm::kTree) == std::vector<uint64_t>{bytes, bytes});
  // Four ranks send half of theirs to the other host, by either way.
  CHECK(sent(Op::kAllToAll, Algorithm::kPairwise) == std::vector<uint64_t>{4 * bytes / 2, 4 * bytes / 2});
  CHECK(sent(Op::kAllToAll, Algorithm::kHierarchical) == std::vector<uint64_t>{4 * bytes / 2, 4 * bytes / 2});
  const Built flat = build({.op = Op::kAllToAll, .bytes = bytes}, hosts);
  const Built rails = build({.op = Op::kAllToAll, .algorithm = Algorithm::kHierarchical, .bytes = bytes}, hosts);
  CHECK(flat.traffic.transfers.size() == 2 * 4 * 4);
  CHECK(rails.traffic.transfers.size() == 2 * 4);
}

TEST_CASE("only the first transfer of each flow opens the collective") {
  const Built built = build({.op = Op::kAllReduce, .bytes = 1 << 20}, one_per_host(8));
  std::vector<uint32_t> opening(built.traffic.flows.size());
  for (const Task& task : built.traffic.tasks)
    if (task.opens_collective) ++opening[built.traffic.transfers[task.transfer].flow];
  CHECK(opening == std::vector<uint32_t>(8, 1));
}

TEST_CASE("collectives of one communicator share its connections, and rounds that do not overlap have phases") {
  Traffic traffic;
  traffic.jobs = {"job"};
  std::vector<uint32_t> ready;
  for (uint32_t host = 0; host < 8; ++host) ready.push_back(traffic.add_computation(host, 0));
  Communicator communicator(traffic, 0, one_per_host(8));
  ready = communicator.add({.op = Op::kAllReduce, .bytes = 8}, ready).value();
  ready = communicator.add({.op = Op::kAllGather, .bytes = 8}, ready).value();
  CHECK(traffic.flows.size() == 8);
  const Collective exchange{.op = Op::kAllToAll, .bytes = 64, .first_phase = 1, .split_phases = true};
  ready = communicator.add(exchange, ready).value();
  REQUIRE(traffic.flows.size() == 8 + 56);
  for (uint32_t i = 8; i < 64; ++i) {
    const Flow& flow = traffic.flows[i];
    CHECK(flow.phase == (flow.dst + 8 - flow.src) % 8);  // round r: to i + r
  }
  CHECK(phases_of(exchange, 8, {}) == 7);
  CHECK(check(traffic, 8));
}

TEST_CASE("a ring on a non-blocking fabric takes 2 (n - 1) (alpha + S / (n B))") {
  const uint32_t n = 8;
  const auto graph = leaf_spine(1, 1, n);
  PacketConfig config = plain_config();
  const uint64_t bytes = 64'000'000;
  const Built built = build({.op = Op::kAllReduce, .bytes = bytes}, one_per_host(n));
  const RunResult result = run(built.traffic, graph, config);
  const RoundTimes round = round_times(built.traffic, result.step_done_at)[0];
  const double packet = 4'000 + 64, wire = static_cast<double>(bytes) / n * packet / 4'000;
  const double alpha = 2 * static_cast<double>(kPerUs) + packet * 80;  // two links, one store-and-forward
  const double expected = 2 * (n - 1) * (alpha + wire * 80);
  CHECK(static_cast<double>(round.end - round.begin) == Approx(expected).epsilon(0.02));
}

TEST_CASE("a ring that sends on slices waits for its latency once, and moves the same bytes") {
  const uint32_t n = 8;
  const auto graph = leaf_spine(1, 1, n);
  CommunicatorOptions options;
  options.slice_bytes = 40'000;
  const uint64_t bytes = n * 320'000;  // eight slices a step
  const Collective all_reduce{.op = Op::kAllReduce, .bytes = bytes};
  const Built built = build(all_reduce, one_per_host(n), options);
  CHECK(built.traffic.transfers.size() == transfers_of(all_reduce, n, options));
  const RunResult result = run(built.traffic, graph, plain_config());
  CHECK(result.totals.delivered_bytes == 2 * (n - 1) * bytes);
  const RoundTimes round = round_times(built.traffic, result.step_done_at)[0];
  // An ACK a packet shares the wire with the data.
  const Time step = 80 * (kFullPacket + kControlPacket), latency = 2 * kPerUs + kFullPacket;
  CHECK(round.end - round.begin >= 2 * (n - 1) * 80 * kFullPacket + latency);
  CHECK(round.end - round.begin <= 2 * (n - 1) * step + 2 * latency);
}

TEST_CASE("every collective ends, on ranks alone and sharing hosts, in packets") {
  const auto graph = leaf_spine(2, 2, 6);
  const auto hosts = GENERATE(std::vector<uint32_t>{0, 1, 2, 3, 4}, std::vector<uint32_t>{0, 0, 1, 1, 5, 5});
  CommunicatorOptions options;
  options.channels = 2;
  options.round_width = 2;
  for (uint8_t op = 0; op <= static_cast<uint8_t>(Op::kSendRecv); ++op)
    for (uint8_t algorithm = 0; algorithm <= static_cast<uint8_t>(Algorithm::kDirect); ++algorithm) {
      const Collective collective{
          .op = static_cast<Op>(op), .algorithm = static_cast<Algorithm>(algorithm), .bytes = 100'003, .root = 1};
      const auto built = try_build(collective, hosts, options);
      if (!built) continue;
      CAPTURE(name_of(collective.op), name_of(collective.algorithm), hosts.size());
      REQUIRE(check(built->traffic, 6));
      const RunResult result = run(built->traffic, graph, plain_config());
      CHECK(result.totals.delivered_messages == built->traffic.transfers.size());
      CHECK(round_times(built->traffic, result.step_done_at)[0].end != kNever);
    }
}

namespace {

// What each task has heard of: the ranks whose ready task comes before it.
std::vector<std::vector<bool>> heard_of(const Built& built) {
  const Traffic& traffic = built.traffic;
  std::vector<std::vector<uint32_t>> next(traffic.tasks.size());
  std::vector<uint32_t> starter(traffic.transfers.size()), pending(traffic.tasks.size()), order;
  for (uint32_t i = 0; i < traffic.tasks.size(); ++i)
    if (traffic.tasks[i].transfer != kNone) starter[traffic.tasks[i].transfer] = i;
  const auto lead = [&](uint32_t from, uint32_t to) { next[from].push_back(to), ++pending[to]; };
  std::vector<uint32_t> last(traffic.flows.size(), kNone);  // transfers of a flow come one after the other
  for (uint32_t i = 0; i < traffic.transfers.size(); ++i) {
    uint32_t& before = last[traffic.transfers[i].flow];
    if (before != kNone) lead(starter[before], starter[i]);
    before = i;
  }
  for (const Edge& edge : traffic.after_task) lead(edge.from, edge.to);
  for (const Edge& edge : traffic.after_delivered) lead(starter[edge.from], edge.to);
  for (const Edge& edge : traffic.after_acknowledged) lead(starter[edge.from], edge.to);
  for (uint32_t i = 0; i < pending.size(); ++i)
    if (pending[i] == 0) order.push_back(i);
  std::vector<std::vector<bool>> heard(traffic.tasks.size(), std::vector<bool>(built.ready.size()));
  for (uint32_t rank = 0; rank < built.ready.size(); ++rank) heard[built.ready[rank]][rank] = true;
  for (size_t i = 0; i < order.size(); ++i)
    for (const uint32_t to : next[order[i]]) {
      for (uint32_t rank = 0; rank < built.ready.size(); ++rank)
        if (heard[order[i]][rank]) heard[to][rank] = true;
      if (--pending[to] == 0) order.push_back(to);
    }
  return heard;
}

}  // namespace

TEST_CASE("no rank is done before it has heard of all whose data it needs") {
  const auto hosts = GENERATE(one_per_host(2), one_per_host(5), one_per_host(8), one_per_host(13),
                              std::vector<uint32_t>{0, 0, 1, 1, 2, 2});
  const auto n = static_cast<uint32_t>(hosts.size());
  CommunicatorOptions options;
  options.max_steps = GENERATE(0u, 100u);
  options.round_width = GENERATE(1u, 3u);
  for (uint8_t op = 0; op <= static_cast<uint8_t>(Op::kAllToAll); ++op)
    for (uint8_t algorithm = 0; algorithm <= static_cast<uint8_t>(Algorithm::kDirect); ++algorithm) {
      const Collective collective{
          .op = static_cast<Op>(op), .algorithm = static_cast<Algorithm>(algorithm), .bytes = 5'000'000, .root = n / 2};
      const auto built = try_build(collective, hosts, options);
      if (!built) continue;
      CAPTURE(name_of(collective.op), name_of(collective.algorithm), n);
      const auto heard = heard_of(*built);
      for (uint32_t rank = 0; rank < n; ++rank)
        for (uint32_t from = 0; from < n; ++from) {
          const bool needs = collective.op == Op::kBroadcast ? from == n / 2
                             : collective.op == Op::kReduce  ? rank == n / 2 || from == rank
                                                             : true;
          if (needs) CHECK(heard[built->done[rank]][from]);
        }
    }
}

TEST_CASE("what a collective cannot do is refused with what it can") {
  const auto refusal = [](const Collective& collective, const std::vector<uint32_t>& hosts) {
    return try_build(collective, hosts).error().message;
  };
  CHECK(refusal({.op = Op::kAllToAll, .algorithm = Algorithm::kTree}, one_per_host(4)) ==
        "all_to_all by tree: no such algorithm for it; take pairwise or hierarchical");
  CHECK(refusal({.op = Op::kAllGather, .algorithm = Algorithm::kHalvingDoubling}, one_per_host(6)) ==
        "all_gather by halving_doubling: 6 ranks are no power of two; take ring or pat");
  CHECK(refusal({.op = Op::kBroadcast, .root = 4}, one_per_host(4)) ==
        "broadcast by ring: rank 4 of 4 ranks; count from 0");
  CHECK(refusal({.op = Op::kSendRecv, .peer = 9}, one_per_host(4)) ==
        "send_recv by direct: peer 9 of 4 ranks; count from 0");
  CHECK(refusal({.op = Op::kAllToAll, .algorithm = Algorithm::kHierarchical}, {0, 0, 1}) ==
        "all_to_all by hierarchical: hosts have different numbers of ranks; take pairwise");
}

TEST_CASE("names are read as other tools write them") {
  for (const char* name : {"all_reduce", "AllReduce", "ALLREDUCE", "all-reduce"}) CHECK(op_of(name) == Op::kAllReduce);
  CHECK(op_of("AllToAll") == Op::kAllToAll);
  CHECK_FALSE(op_of("gather"));
  CHECK(algorithm_of("halving-doubling") == Algorithm::kHalvingDoubling);
}

TEST_CASE("sums of parts agree with the parts") {
  for (uint64_t bytes : {0u, 5u, 17u, 1'000u})
    for (uint32_t parts : {1u, 3u, 8u})
      for (uint32_t first = 0; first < parts; ++first)
        for (uint32_t count = 0; count <= 3 * parts; ++count) {
          uint64_t sum = 0;
          for (uint32_t i = 0; i < count; ++i) sum += part_of(bytes, parts, (first + i) % parts);
          CHECK(parts_of(bytes, parts, first, count) == sum);
        }
}

}  // namespace orrery::sim
