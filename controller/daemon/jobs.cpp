#include "controller/daemon/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/abi/event_abi.h"
#include "controller/daemon/host_sets.h"
#include "controller/forecast/traffic_model.h"

namespace orrery::daemon {
namespace {

using fabric::kNone;
using fabric::LinkId;

constexpr uint64_t kJitterShare = 5;  // of a period: collisions make it large themselves
constexpr uint64_t kSilentPeriods = 3;
// Headers, acknowledgements, and room for jitter: jobs that only just miss each other soon meet again.
constexpr double kStretch = 1.3;
constexpr double kNsPerSecond = 1e9;
constexpr size_t kMaxShares = 512;   // of jobs in links, the busiest first: more take too long to place
constexpr size_t kMaxBursts = 4096;  // of a job in a period; what is beyond is not counted

// A communicator that repeats.
struct Member {
  const Communicator* communicator = nullptr;
  forecast::Rhythm rhythm;
  std::map<LinkId, uint64_t> load;  // bytes of its largest operation
  uint64_t largest_bytes = 0;       // of a flow of that operation
  double drain_s = 0;               // of that operation, with the fabric for itself
  uint32_t job = kNone;

  double seconds(const forecast::Operation& operation) const {
    if (operation.op == ORRERY_OP_SEND || operation.op == ORRERY_OP_RECV || largest_bytes == 0) return 0;
    const uint64_t bytes = forecast::flow_bytes(operation.op, operation.bytes, communicator->nranks);
    return drain_s * kStretch * static_cast<double>(std::min(bytes, largest_bytes)) /
           static_cast<double>(largest_bytes);
  }
  double seconds_per_round() const {
    double sum = 0;
    for (const auto& expected : rhythm.round) sum += seconds(expected.operation);
    return sum;
  }
};

class Finder {
 public:
  explicit Finder(const JobSources& sources) : sources_(sources), fabric_(sources.fabric), hosts_(fabric_) {}

  Result<Jobs> run(size_t limit) {
    size_t looked_at = 0;
    for (const auto& [id, communicator] : sources_.communicators.all())
      if ((looked_at += communicator.ranks.size() + communicator.pairs.size()) > limit)
        return Error{ErrorCode::kExhausted,
                     fmt::format("there are more than {} ranks and pairs of hosts, too many to look at", limit)};
    for (const auto& [id, communicator] : sources_.communicators.all()) {
      if (!communicator.complete()) continue;
      hosts_.unite(communicator);
      if (auto member = member_of(communicator)) members_.push_back(*std::move(member));
    }
    if (members_.empty()) return Jobs{};
    number_jobs();
    find_shared();
    add_rhythms();
    return only_sharing();
  }

 private:
  std::optional<Member> member_of(const Communicator& communicator) const {
    Member member{.communicator = &communicator};
    const auto rhythm = sources_.forecaster.rhythm(communicator.comm_id);
    if (!rhythm || rhythm->period_ns == 0 || rhythm->jitter_ns > rhythm->period_ns / kJitterShare) return std::nullopt;
    for (const auto& [rank, each] : communicator.ranks)
      if (!sources_.keeps_time(each.host)) return std::nullopt;
    member.rhythm = *rhythm;
    for (const forecast::Operation& operation : communicator.learned)
      member.largest_bytes =
          std::max(member.largest_bytes, forecast::flow_bytes(operation.op, operation.bytes, communicator.nranks));
    for (const auto& [pair, load] : communicator.pairs)
      if (const fabric::Path* path = load.operation_bytes != 0 ? sources_.path_of(pair) : nullptr)
        for (const LinkId link : *path) member.load[link] += load.operation_bytes;
    for (const auto& [link, bytes] : member.load)
      member.drain_s = std::max(member.drain_s, busy_s(link, static_cast<double>(bytes)));
    return member;
  }

  double busy_s(LinkId link, double bytes) const {
    return bytes * 8 / static_cast<double>(fabric_.link(link).rate_bps);
  }

  // Silent communicators are no member of a job any more, but still tie hosts together.
  void number_jobs() {
    for (const Member& member : members_) latest_ns_ = std::max(latest_ns_, member.rhythm.last_start_ns);
    std::erase_if(members_, [&](const Member& member) {
      return (latest_ns_ - member.rhythm.last_start_ns) / kSilentPeriods > member.rhythm.period_ns;
    });
    std::map<uint32_t, uint32_t> by_root;
    for (Member& member : members_) {
      const uint32_t root = hosts_.of(*member.communicator);
      member.job = by_root.try_emplace(root, static_cast<uint32_t>(by_root.size())).first->second;
    }
    of_host_.assign(fabric_.nodes().size(), kNone);
    for (const fabric::Nic& nic : fabric_.nics())
      if (const auto job = by_root.find(hosts_.of(nic.host)); job != by_root.end()) of_host_[nic.host] = job->second;
    name_jobs(by_root.size());
  }

  void name_jobs(size_t count) {
    jobs_.resize(count);
    std::vector<double> longest(jobs_.size(), -1);
    for (const Member& member : members_) {
      Job& job = jobs_[member.job];
      job.rhythm.period_ns = std::max(job.rhythm.period_ns, member.rhythm.period_ns);
      if (member.seconds_per_round() <= longest[member.job]) continue;
      longest[member.job] = member.seconds_per_round();
      job.rhythm.job_id = member.communicator->comm_id;
    }
  }

  void find_shared() {
    struct Use {
      std::set<uint32_t> jobs;
      double busy_s = 0;
    };
    std::map<LinkId, Use> uses;
    for (const Member& member : members_) {
      const double seconds = member.seconds_per_round();
      if (member.drain_s == 0 || seconds == 0) continue;
      for (const auto& [link, bytes] : member.load) {
        uses[link].jobs.insert(member.job);
        uses[link].busy_s += seconds * busy_s(link, static_cast<double>(bytes)) / member.drain_s;
      }
    }
    std::map<std::set<uint32_t>, SharedLink> busiest;
    for (const auto& [link, use] : uses) {
      if (use.jobs.size() < 2) continue;
      SharedLink& shared = busiest[use.jobs];
      if (use.busy_s > shared.busy) shared = {link, {use.jobs.begin(), use.jobs.end()}, use.busy_s};
    }
    for (auto& [jobs, link] : busiest) shared_.push_back(std::move(link));
    std::stable_sort(shared_.begin(), shared_.end(),
                     [](const SharedLink& a, const SharedLink& b) { return a.busy > b.busy; });
    size_t shares = 0;
    shared_.erase(std::find_if(shared_.begin(), shared_.end(),
                               [&](const SharedLink& link) { return (shares += link.jobs.size()) > kMaxShares; }),
                  shared_.end());
  }

  void add_rhythms() {
    std::vector<bool> is_shared(fabric_.links().size());
    for (const SharedLink& shared : shared_) is_shared[shared.link] = true;
    std::vector<size_t> bursts(jobs_.size());
    for (const Member& member : members_) {
      Job& job = jobs_[member.job];
      const uint64_t repeats = job.rhythm.period_ns / member.rhythm.period_ns;
      constexpr uint64_t kMost = UINT32_MAX;
      job.collectives = static_cast<uint32_t>(
          std::min(kMost, job.collectives + member.rhythm.round.size() * std::min(kMost, repeats)));
      if (std::any_of(member.load.begin(), member.load.end(), [&](const auto& load) { return is_shared[load.first]; }))
        add_bursts(job.rhythm, member, repeats, bursts[member.job]);
    }
  }

  void add_bursts(planner::PeriodicJob& rhythm, const Member& member, uint64_t repeats, size_t& bursts) const {
    for (uint64_t repeat = 0; repeat < repeats; ++repeat)
      for (const auto& expected : member.rhythm.round) {
        if (bursts == kMaxBursts) return;
        ++bursts;
        add_burst(rhythm, member, expected.operation, expected.start_ns + repeat * member.rhythm.period_ns);
      }
  }

  void add_burst(planner::PeriodicJob& rhythm, const Member& member, const forecast::Operation& operation,
                 uint64_t start_ns) const {
    const uint64_t period_ns = rhythm.period_ns;
    const auto length_ns =
        static_cast<uint64_t>(std::min(member.seconds(operation) * kNsPerSecond, static_cast<double>(period_ns)));
    if (length_ns == 0) return;
    const uint64_t from_ns = start_ns >= latest_ns_ ? (start_ns - latest_ns_) % period_ns
                                                    : period_ns - 1 - (latest_ns_ - start_ns - 1) % period_ns;
    for (const SharedLink& shared : shared_) {
      const auto load = member.load.find(shared.link);
      if (load == member.load.end()) continue;
      const double bps = static_cast<double>(load->second) * 8 / member.drain_s;
      rhythm.activity.push_back({.link = shared.link,
                                 .start_ns = from_ns,
                                 .end_ns = from_ns + length_ns,
                                 .rate_bps = static_cast<uint64_t>(bps)});
    }
  }

  Jobs only_sharing() {
    Jobs found;
    std::vector<uint32_t> number(jobs_.size(), kNone);
    for (SharedLink& shared : shared_)
      for (uint32_t& job : shared.jobs) {
        if (number[job] == kNone) {
          number[job] = static_cast<uint32_t>(found.jobs.size());
          found.jobs.push_back(std::move(jobs_[job]));
        }
        job = number[job];
      }
    for (SharedLink& shared : shared_) std::sort(shared.jobs.begin(), shared.jobs.end());
    found.shared = std::move(shared_);
    found.of_host.assign(of_host_.size(), kNone);
    for (size_t node = 0; node < of_host_.size(); ++node)
      if (of_host_[node] != kNone) found.of_host[node] = number[of_host_[node]];
    return found;
  }

  const JobSources& sources_;
  const fabric::Graph& fabric_;
  HostSets hosts_;
  std::vector<Member> members_;
  std::vector<Job> jobs_;
  std::vector<uint32_t> of_host_;  // by NodeId
  std::vector<SharedLink> shared_;
  uint64_t latest_ns_ = 0;  // what times count from
};

}  // namespace

Result<Jobs> find_jobs(const JobSources& sources, size_t limit) {
  return Finder(sources).run(limit);
}

}  // namespace orrery::daemon
