#include "controller/daemon/rounds.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "controller/daemon/host_sets.h"
#include "controller/forecast/traffic_model.h"

namespace orrery::daemon {
namespace {

constexpr size_t kRounds = 8;          // that are counted over: starts at a border fall on either side
constexpr double kLeastShare = 0.01;   // of what the busiest communicator sends, to make a job's round
constexpr uint64_t kSilentRounds = 3;  // after which a communicator has no part in the job any more
constexpr double kMostRepeats = 1 << 20;

// A communicator that repeats.
struct Member {
  const Communicator* communicator = nullptr;
  std::vector<forecast::Operation> sequence;
  std::vector<uint64_t> starts_ns;  // of its last operations, oldest first
  size_t rounds = 0;                // of its own, the last ones
  fabric::NodeId job = fabric::kNone;

  uint64_t end_ns() const { return starts_ns.back(); }
  uint64_t begin_ns() const { return starts_ns[starts_ns.size() - 1 - rounds * sequence.size()]; }
  double round_ns() const { return static_cast<double>(end_ns() - begin_ns()) / static_cast<double>(rounds); }
  double bytes_per_ns() const {
    double bytes = 0;
    for (const forecast::Operation& operation : sequence)
      bytes += static_cast<double>(forecast::flow_bytes(operation.op, operation.bytes, communicator->nranks));
    return bytes / round_ns();
  }
};

std::optional<Member> member_of(const Communicator& communicator, const forecast::Forecaster& forecaster) {
  const auto rhythm = forecaster.rhythm(communicator.comm_id);
  if (!rhythm) return std::nullopt;
  Member member{.communicator = &communicator, .starts_ns = forecaster.starts_ns(communicator.comm_id)};
  for (const auto& expected : rhythm->round) member.sequence.push_back(expected.operation);
  member.rounds = std::min(kRounds, (member.starts_ns.size() - 1) / member.sequence.size());
  if (member.rounds == 0 || member.begin_ns() >= member.end_ns()) return std::nullopt;
  return member;
}

// The one whose rounds are the job's.
const Member& slowest(const std::vector<const Member*>& job) {
  double most = 0;
  for (const Member* member : job) most = std::max(most, member->bytes_per_ns());
  const Member* slowest = nullptr;
  for (const Member* member : job)
    if (member->bytes_per_ns() >= most * kLeastShare &&
        (slowest == nullptr || member->round_ns() > slowest->round_ns()))
      slowest = member;
  return *slowest;
}

// How often the member goes through its sequence in a round of the job; 0: it does not any more.
uint32_t repeats_of(const Member& member, const Member& job) {
  const auto& starts = member.starts_ns;
  const auto first = std::lower_bound(starts.begin(), starts.end(), job.begin_ns());
  const auto last = std::lower_bound(starts.begin(), starts.end(), job.end_ns());
  if (first >= last) return 0;
  // Of what began in the middle, and of what calls so often that not all of it is held, a part of the time is known.
  const double known_ns = static_cast<double>(job.end_ns() - std::max(job.begin_ns(), starts.front()));
  const double per_round = static_cast<double>(last - first) * job.round_ns() / known_ns;
  const double repeats = std::round(per_round / static_cast<double>(member.sequence.size()));
  return static_cast<uint32_t>(std::clamp(repeats, 1.0, kMostRepeats));
}

std::vector<Calls> calls_of(const Member& member, uint32_t repeats) {
  std::map<forecast::Operation, uint32_t> counts;
  for (const forecast::Operation& operation : member.sequence) counts[operation] += repeats;
  std::vector<Calls> calls;
  for (const auto& [operation, count] : counts) calls.push_back({operation, count});
  return calls;
}

}  // namespace

std::vector<CommunicatorRound> find_rounds(const fabric::Graph& fabric, const CommunicatorBook& communicators,
                                           const forecast::Forecaster& forecaster, size_t limit) {
  HostSets hosts(fabric);
  std::vector<Member> members;
  size_t looked_at = 0;
  for (const auto& [id, communicator] : communicators.all()) {
    if ((looked_at += communicator.ranks.size()) > limit) return {};
    if (!communicator.complete()) continue;
    hosts.unite(communicator);
    if (auto member = member_of(communicator, forecaster)) members.push_back(*std::move(member));
  }
  std::map<fabric::NodeId, uint64_t> latest_ns;  // by job
  for (Member& member : members) {
    member.job = hosts.of(*member.communicator);
    latest_ns[member.job] = std::max(latest_ns[member.job], member.end_ns());
  }
  std::map<fabric::NodeId, std::vector<const Member*>> jobs;
  for (const Member& member : members)
    if (static_cast<double>(latest_ns[member.job] - member.end_ns()) <= kSilentRounds * member.round_ns())
      jobs[member.job].push_back(&member);
  std::vector<CommunicatorRound> rounds;
  for (const auto& [host, job] : jobs) {
    const Member& round = slowest(job);
    for (const Member* member : job)
      if (const uint32_t repeats = repeats_of(*member, round))
        rounds.push_back({member->communicator->comm_id, calls_of(*member, repeats)});
  }
  return rounds;
}

}  // namespace orrery::daemon
