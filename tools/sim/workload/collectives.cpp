#include "tools/sim/workload/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "tools/sim/workload/weave.h"

namespace orrery::sim {
namespace {

constexpr std::array<std::string_view, 7> kOps{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                               "reduce",     "all_to_all", "send_recv"};
constexpr std::array<std::string_view, 8> kAlgorithms{"default", "ring",     "tree",         "halving_doubling",
                                                      "pat",     "pairwise", "hierarchical", "direct"};

// Letters only, small: "ALL_TO_ALL", "AllToAll" and "alltoall" are one.
std::string plain(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (c != '_' && c != '-') letters += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return letters;
}

template <typename Enum, size_t N>
std::optional<Enum> find(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (plain(names[i]) == plain(name)) return static_cast<Enum>(i);
  return std::nullopt;
}

bool has(Op op, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return op != Op::kAllToAll && op != Op::kSendRecv;
    case Algorithm::kTree:
      return op == Op::kAllReduce;
    case Algorithm::kHalvingDoubling:
      return op == Op::kAllReduce || op == Op::kAllGather || op == Op::kReduceScatter;
    case Algorithm::kPat:
      return op == Op::kAllGather || op == Op::kReduceScatter;
    case Algorithm::kPairwise:
    case Algorithm::kHierarchical:
      return op == Op::kAllToAll;
    case Algorithm::kDirect:
      return op == Op::kSendRecv;
    case Algorithm::kDefault:
      break;
  }
  return true;
}

Error refuse(const Collective& collective, std::string_view why) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} by {}: {}", name_of(collective.op), name_of(algorithm_for(collective)), why)};
}

bool hosts_have_equal_ranks(const std::vector<uint32_t>& hosts) {
  std::map<uint32_t, uint32_t> ranks;
  for (const uint32_t host : hosts) ++ranks[host];
  return std::all_of(ranks.begin(), ranks.end(), [&](const auto& r) { return r.second == ranks.begin()->second; });
}

uint32_t ring_steps(const Collective& collective, uint32_t ranks) {
  return collective.op == Op::kAllReduce ? 2 * (ranks - 1) : ranks - 1;
}

uint32_t limited(uint32_t steps, uint32_t limit) {
  return limit == 0 ? steps : std::min(steps, limit);
}

}  // namespace

Status check(const Collective& collective, uint32_t ranks) {
  if (!has(collective.op, algorithm_for(collective))) {
    std::string others;
    for (size_t i = 1; i < kAlgorithms.size(); ++i)
      if (has(collective.op, static_cast<Algorithm>(i)))
        others += fmt::format("{}{}", others.empty() ? "" : " or ", kAlgorithms[i]);
    return refuse(collective, fmt::format("no such algorithm for it; take {}", others));
  }
  const bool uses_root = collective.op == Op::kBroadcast || collective.op == Op::kReduce ||
                         (collective.op == Op::kSendRecv && collective.peer != kNone);
  if (uses_root && collective.root >= ranks)
    return refuse(collective, fmt::format("rank {} of {} ranks; count from 0", collective.root, ranks));
  if (collective.op == Op::kSendRecv && collective.peer != kNone && collective.peer >= ranks)
    return refuse(collective, fmt::format("peer {} of {} ranks; count from 0", collective.peer, ranks));
  if (collective.op == Op::kSendRecv && collective.peer == collective.root)
    return refuse(collective, fmt::format("rank {} sends to itself; give another peer", collective.peer));
  if (algorithm_for(collective) == Algorithm::kHalvingDoubling && collective.op != Op::kAllReduce &&
      !std::has_single_bit(ranks))
    return refuse(collective, fmt::format("{} ranks are no power of two; take ring or pat", ranks));
  return {};
}

std::string_view name_of(Op op) {
  return kOps[static_cast<size_t>(op)];
}
std::string_view name_of(Algorithm algorithm) {
  return kAlgorithms[static_cast<size_t>(algorithm)];
}
std::optional<Op> op_of(std::string_view name) {
  return find<Op>(kOps, name);
}
std::optional<Algorithm> algorithm_of(std::string_view name) {
  return find<Algorithm>(kAlgorithms, name);
}

Algorithm algorithm_for(const Collective& collective) {
  if (collective.algorithm != Algorithm::kDefault) return collective.algorithm;
  if (collective.op == Op::kAllToAll) return Algorithm::kPairwise;
  return collective.op == Op::kSendRecv ? Algorithm::kDirect : Algorithm::kRing;
}

uint64_t transfers_of(const Collective& collective, uint32_t ranks, const CommunicatorOptions& options) {
  if (ranks < 2) return 0;
  const uint64_t n = ranks, channels = std::max(1u, options.channels), log = log2_up(ranks);
  const uint64_t p2 = std::bit_floor(ranks);
  const uint64_t streams = algorithm_for(collective) == Algorithm::kTree ? 2 * channels : channels;
  const uint64_t chunks = chunk_count((collective.bytes + streams - 1) / streams, options);
  switch (algorithm_for(collective)) {
    case Algorithm::kRing:
      if (collective.op == Op::kBroadcast || collective.op == Op::kReduce) return channels * (n - 1) * chunks;
      return channels * n * limited(ring_steps(collective, ranks), options.max_steps) *
             ring_slices((collective.bytes + channels - 1) / channels, ranks, ring_steps(collective, ranks), options);
    case Algorithm::kTree:
      return streams * 2 * (n - 1) * chunks;
    case Algorithm::kHalvingDoubling:
      return channels *
             ((collective.op == Op::kAllReduce ? 2 : 1) * p2 * log2_up(std::bit_floor(ranks)) + 2 * (n - p2));
    case Algorithm::kPat:
      return channels * n * log;
    case Algorithm::kPairwise:
    case Algorithm::kHierarchical:
      return channels * n * (n - 1);
    case Algorithm::kDirect:
    case Algorithm::kDefault:
      break;
  }
  return channels * (collective.peer == kNone ? n : 1);
}

uint32_t phases_of(const Collective& collective, uint32_t ranks, const CommunicatorOptions& options) {
  if (ranks < 2 || !collective.split_phases) return 1;
  const uint32_t width = std::max(1u, options.round_width);
  switch (algorithm_for(collective)) {
    case Algorithm::kHalvingDoubling:
      return log2_up(std::bit_floor(ranks)) + (std::has_single_bit(ranks) ? 0 : 2);
    case Algorithm::kPat:
      return log2_up(ranks);
    case Algorithm::kPairwise:
      return (ranks - 1 + width - 1) / width;
    case Algorithm::kHierarchical:
      return (ranks - 1 + width - 1) / width + 1;
    default:
      return 1;
  }
}

Communicator::Communicator(Traffic& traffic, uint32_t job, std::vector<uint32_t> hosts,
                           const CommunicatorOptions& options)
    : traffic_(traffic), job_(job), number_(traffic.communicators++), hosts_(std::move(hosts)), options_(options) {
  options_.channels = std::max(1u, options_.channels);
}

Result<std::vector<uint32_t>> Communicator::add(const Collective& collective, const std::vector<uint32_t>& ready) {
  if (ready.size() != hosts_.size())
    return refuse(collective, fmt::format("{} ready tasks for {} ranks", ready.size(), hosts_.size()));
  ORRERY_TRY(check(collective, ranks()));
  if (algorithm_for(collective) == Algorithm::kHierarchical && !hosts_have_equal_ranks(hosts_))
    return refuse(collective, "hosts have different numbers of ranks; take pairwise");
  if (ranks() < 2) return ready;
  Weaver weaver(*this, collective, ready);
  switch (algorithm_for(collective)) {
    case Algorithm::kTree:
      weave_tree(weaver);
      break;
    case Algorithm::kHalvingDoubling:
      weave_halving_doubling(weaver);
      break;
    case Algorithm::kPat:
      weave_pat(weaver);
      break;
    case Algorithm::kPairwise:
      weave_pairwise(weaver);
      break;
    case Algorithm::kHierarchical:
      weave_hierarchical(weaver);
      break;
    case Algorithm::kDirect:
      weave_direct(weaver);
      break;
    case Algorithm::kRing:
    case Algorithm::kDefault:
      if (collective.op == Op::kBroadcast)
        weave_broadcast(weaver);
      else if (collective.op == Op::kReduce)
        weave_reduce(weaver);
      else
        weave_ring(weaver, limited(ring_steps(collective, ranks()), options_.max_steps));
  }
  return weaver.done();
}

}  // namespace orrery::sim
