// Jobs that share links take turns: who is held back, for how long, and when nobody is.
#include "controller/daemon/turns.h"

#include <set>

#include "tests/unit/core/fixture.h"

using namespace orrery;
using orrery::test::CoreFixture;
using orrery::test::kMs;

namespace {

constexpr uint64_t kLengthNs = 10 * kMs;  // of a collective that has the links for itself
constexpr uint64_t kComputeNs = 28 * kMs;
constexpr uint64_t kBytes = 12'000'000;  // as long at 10 Gbit/s

// One spine, so that all that leaves a leaf shares a link.
const fabric::LeafSpine kOneSpine{.leaves = 2, .spines = 1, .hosts = 8, .rate_bps = 10'000'000'000};

// Two hosts that compute, call, wait for the plan's offset, and share the link with whoever else sends.
struct RunningJob {
  uint64_t comm_id = 0;
  size_t first_nic = 0;
  uint64_t compute_ns = kComputeNs;
  bool gives_way = true;  // else its next call does not come later when its sends do
  uint64_t call_at_ns = 0;
  bool called = false;
  uint64_t release_at_ns = 0;
  uint64_t left_ns = 0;
  uint64_t calls = 0;
  std::vector<uint64_t> starts_ns;
};

class TurnsFixture : public CoreFixture {
 public:
  explicit TurnsFixture(bool turns = true)
      : CoreFixture({.version = "test", .planner = {.stagger = false}, .turns = turns}, kOneSpine) {}

  void add(uint64_t comm_id, size_t first_nic, uint64_t compute_ns = kComputeNs, bool gives_way = true) {
    announce_all(comm_id, {first_nic, first_nic + 4});
    jobs.push_back({comm_id, first_nic, compute_ns, gives_way, now + compute_ns});
  }

  void run(uint64_t ms) {
    constexpr uint64_t kTick = kMs / 20;
    for (const uint64_t end = now + ms * kMs; now < end; now += kTick) {
      size_t sending = 0;
      for (RunningJob& job : jobs) {
        if (!job.called && now >= job.call_at_ns) begin(job);
        sending += job.called && now >= job.release_at_ns;
      }
      for (RunningJob& job : jobs) {
        if (!job.called || now < job.release_at_ns) continue;
        job.left_ns -= std::min(job.left_ns, kTick / sending);
        if (job.left_ns != 0) continue;
        job.called = false;
        job.call_at_ns = job.gives_way ? now + job.compute_ns : job.starts_ns.back() + kLengthNs + job.compute_ns;
      }
      if (now % (10 * kMs) == 0) {
        core.step(now);
        acknowledge_all();
      }
    }
  }

  uint64_t offset_ns(const RunningJob& job) const {
    const msg::HostPlan plan = agents.last_plan(host(job.first_nic));
    return plan.flows.empty() ? 0 : plan.flows.front().release_offset_ns;
  }

  // Of the last `count` rounds.
  double period_ms(size_t job, size_t count = 20) const {
    const auto& starts = jobs[job].starts_ns;
    REQUIRE(starts.size() > count);
    return static_cast<double>(starts.back() - starts[starts.size() - 1 - count]) / kMs / static_cast<double>(count);
  }

  bool is_told(const std::string& words) {
    for (const auto& flow : plan().flows)
      for (const auto& reason :
           ask<msg::FlowExplanation>({.kind = msg::Request::Kind::kFlowExplain, .flow_id = flow.flow_id}).reasons)
        if (reason.find(words) != std::string::npos) return true;
    return false;
  }

  std::vector<RunningJob> jobs;
  uint64_t longest_offset_ns = 0;

 private:
  void begin(RunningJob& job) {
    longest_offset_ns = std::max(longest_offset_ns, offset_ns(job));
    job.called = true;
    job.release_at_ns = now + offset_ns(job);
    job.left_ns = kLengthNs;
    job.starts_ns.push_back(now);
    call(job.comm_id, 0, job.first_nic, ORRERY_OP_ALL_REDUCE, kBytes, job.calls++, 0xffffffff, now);
  }
};

struct WithoutTurns : TurnsFixture {
  WithoutTurns() : TurnsFixture(false) {}
};

}  // namespace

TEST_CASE_METHOD(TurnsFixture,
                 "of two jobs that collide one waits a little each round, until they take turns and nobody waits") {
  add(7, 0);
  add(8, 1);
  run(900);
  CHECK(period_ms(0, 5) > 47);  // ten of them because the other sends too
  bool waited = false;
  for (int second = 0; second < 10; ++second) {
    run(1000);
    waited |= is_told("until they take turns: they share leaf1:");
  }
  CHECK(waited);
  CHECK(longest_offset_ns > 0);
  CHECK(longest_offset_ns <= kMs);
  CHECK(period_ms(0) < 40);
  CHECK(period_ms(1) < 40);
  CHECK_FALSE(is_told("until they take turns"));
  CHECK(is_told("and does not wait"));
  CHECK_FALSE(has_problem("jobs"));
}

TEST_CASE_METHOD(WithoutTurns, "jobs are left to collide unless turns are wanted") {
  add(7, 0);
  add(8, 1);
  run(8000);
  CHECK(longest_offset_ns == 0);
  CHECK(period_ms(0) > 47);
  CHECK_FALSE(is_told("job"));
}

TEST_CASE_METHOD(TurnsFixture, "a job whose next round does not come later when it is held back is soon left alone") {
  add(7, 0, kComputeNs, false);
  add(8, 1, kComputeNs, false);
  run(20'000);
  CHECK(longest_offset_ns <= kMs);
  CHECK(has_problem("did not give way"));
  CHECK(is_told("did not give way when it was held back"));
  for (const auto& flow : plan().flows) CHECK(flow.release_offset_ns == 0);
}

TEST_CASE_METHOD(TurnsFixture,
                 "communicators with a host in common are one job: they are not moved against each other") {
  add(7, 0);
  announce_all(9, {0, 1});  // ties both
  add(8, 1);
  run(8000);
  CHECK(longest_offset_ns == 0);
  CHECK_FALSE(is_told("Job 0x"));
}

TEST_CASE_METHOD(TurnsFixture, "a job that ends takes its turn with it") {
  add(7, 0);
  add(8, 1);
  run(3000);
  CHECK(is_told("Job 0x8"));
  for (uint32_t rank = 0; rank < 2; ++rank)
    send(1 + 4 * rank, {.communicators = {{.kind = msg::CommunicatorEvent::Kind::kGone, .comm_id = 8, .rank = rank}}});
  jobs.pop_back();
  run(3000);
  CHECK_FALSE(is_told("Job 0x"));
  CHECK(offset_ns(jobs[0]) == 0);
}

TEST_CASE_METHOD(TurnsFixture, "jobs on hosts whose clock is out of bounds neither wait nor are waited for") {
  add(7, 0);
  add(8, 1);
  send(1, {.clock = {.release_suspended = true}});
  for (int second = 0; second < 5; ++second) {
    run(1000);
    send(1, {.clock = {.release_suspended = true}});
  }
  CHECK_FALSE(is_told("until they take turns"));
}

namespace {

daemon::Job job_of(uint64_t id, fabric::LinkId link, uint64_t start_ns, uint64_t period_ns = 40 * kMs) {
  return {.rhythm = {id, period_ns, {{link, start_ns, start_ns + kLengthNs, 10'000'000'000}}}, .collectives = 1};
}

struct LookFixture {
  fabric::Graph fabric = fabric::Graph::build(*fabric::generate_leaf_spine(kOneSpine));
  fabric::LinkId link = *fabric.find_link("leaf1:p5");
  fabric::NodeId first = *fabric.find_node("h1"), second = *fabric.find_node("h2");
  daemon::Turns turns;
  uint64_t now = 1'000'000 * kMs;

  daemon::Jobs two(uint64_t first_start_ns, uint64_t second_start_ns) const {
    daemon::Jobs jobs{.jobs = {job_of(7, link, first_start_ns), job_of(8, link, second_start_ns)},
                      .shared = {{link, {0, 1}, 1}},
                      .of_host = std::vector<uint32_t>(fabric.nodes().size(), fabric::kNone)};
    jobs.of_host[first] = 0;
    jobs.of_host[second] = 1;
    return jobs;
  }
  bool look(const Result<daemon::Jobs>& jobs, const std::vector<uint64_t>& room_ns = {kMs, kMs}) {
    now += 1000 * kMs;
    return turns.look(fabric, jobs, room_ns, now);
  }
};

}  // namespace

TEST_CASE_METHOD(LookFixture, "the job that has the shorter way waits") {
  CHECK(look(two(0, 2 * kMs)));
  CHECK(turns.wait_ns(first) == 0);
  CHECK(turns.wait_ns(second) > 0);
  CHECK(look(two(2 * kMs, 0)));
  CHECK(turns.wait_ns(first) > 0);
  CHECK(turns.wait_ns(second) == 0);
}

TEST_CASE_METHOD(LookFixture, "jobs whose periods fit no common one are not held back") {
  daemon::Jobs jobs = two(0, kMs);
  jobs.jobs[1] = job_of(8, link, kMs, 59 * kMs);
  CHECK_FALSE(look(jobs));
  CHECK(turns.of_host(first)->why.find("fit no common one") != std::string::npos);
}

TEST_CASE_METHOD(LookFixture,
                 "jobs that stay where they are, now one ahead and now the other, are both left alone in the end") {
  uint64_t waited_ns = 0;
  for (int i = 0; i < 400; ++i) {
    look(i % 2 == 0 ? two(0, kMs) : two(kMs, 0));
    waited_ns += turns.wait_ns(first) + turns.wait_ns(second);
    CHECK(turns.wait_ns(first) + turns.wait_ns(second) <= kMs);
  }
  CHECK(waited_ns < 100 * kMs);
  CHECK(turns.problem(now).find("2 jobs did not give way") != std::string::npos);
}

TEST_CASE_METHOD(LookFixture, "no job waits longer than its offsets have room for") {
  look(two(0, kMs), {kMs, kMs / 20});
  CHECK(turns.wait_ns(second) == kMs / 20);
  CHECK(look(two(0, kMs), {kMs, 0}));
  CHECK(turns.wait_ns(second) == 0);
  CHECK(turns.of_host(second)->why.find("cannot do") != std::string::npos);
}

TEST_CASE_METHOD(LookFixture,
                 "when jobs cannot be found, or what is computed makes no sense, nobody waits and that is told") {
  REQUIRE(look(two(0, kMs)));
  CHECK(turns.problem(now).empty());
  SECTION("too many") {
    CHECK(look(Error{ErrorCode::kExhausted, "too many"}));
    CHECK(turns.problem(now).find("too many") != std::string::npos);
  }
  SECTION("nonsense") {
    CHECK(look(two(0, kMs), {}));
    CHECK(turns.problem(now).find("makes no sense") != std::string::npos);
  }
  CHECK(turns.wait_ns(second) == 0);
  CHECK(turns.of_host(second) == nullptr);
  CHECK(look(two(0, kMs)));
  CHECK(turns.problem(now).empty());
}

TEST_CASE_METHOD(CoreFixture, "more ranks than can be looked at are an error, not a long silence") {
  announce_all(7, {0, 4, 8, 12});
  const daemon::CommunicatorBook book(fabric);
  daemon::CommunicatorBook many(fabric);
  many.on_event(host(0), {.comm_id = 1, .rank = 0, .nranks = 2, .address = address(0)}, now);
  const forecast::Forecaster forecaster;
  const auto no_path = [](const daemon::AddressPair&) -> const fabric::Path* { return nullptr; };
  const auto always = [](const std::string&) { return true; };
  CHECK(daemon::find_jobs({fabric, book, forecaster, no_path, always}, 0));
  const auto found = daemon::find_jobs({fabric, many, forecaster, no_path, always}, 0);
  REQUIRE_FALSE(found);
  CHECK(found.error().code == ErrorCode::kExhausted);
}

namespace {

// Of jobs between a leaf's hosts and the other's, as they look to find_jobs().
struct FindFixture : TurnsFixture {
  daemon::CommunicatorBook book{fabric};
  forecast::Forecaster forecaster;
  fabric::Path path{*fabric.find_link("leaf1:p5")}, other_path{*fabric.find_link("leaf2:p5")};
  std::set<daemon::AddressPair> elsewhere;  // pairs on other_path

  void repeat(uint64_t comm_id, size_t nic, uint64_t period_ns, uint16_t op = ORRERY_OP_ALL_REDUCE,
              uint64_t bytes = UINT64_MAX) {
    const uint32_t peer = op == ORRERY_OP_BROADCAST ? 0 : 0xffffffff;
    for (uint32_t rank = 0; rank < 2; ++rank)
      book.on_event(host(nic + 4 * rank),
                    {.comm_id = comm_id, .rank = rank, .nranks = 2, .process = 1, .address = address(nic + 4 * rank)},
                    now);
    const uint64_t begin_ns = 2'000'000'000'000 - 100 * period_ns;
    for (uint64_t i = 0; i < 100; ++i) {
      const uint64_t start_ns = begin_ns + i * period_ns;
      book.on_intent(
          host(nic),
          {.comm_id = comm_id, .op = op, .bytes = bytes, .peer = peer, .called_tai_ns = start_ns, .sequence = i}, now);
      forecaster.observe(comm_id, {op, bytes, peer}, start_ns);
    }
  }

  daemon::Jobs find() const {
    const auto path_of = [&](const daemon::AddressPair& pair) {
      return &(elsewhere.contains(pair) ? other_path : path);
    };
    const auto always = [](const std::string&) { return true; };
    const auto found = daemon::find_jobs({fabric, book, forecaster, path_of, always});
    REQUIRE(found);
    return *found;
  }
};

}  // namespace

TEST_CASE_METHOD(FindFixture,
                 "who calls every nanosecond beside rounds of seconds has no more bursts than are placed") {
  repeat(7, 0, 10'000'000'000);
  repeat(8, 1, 10'000'000'000);
  repeat(9, 0, 1);
  const daemon::Jobs found = find();
  REQUIRE(found.jobs.size() == 2);
  CHECK(std::max(found.jobs[0].collectives, found.jobs[1].collectives) == UINT32_MAX);
  for (const daemon::Job& job : found.jobs) {
    CHECK(!job.rhythm.activity.empty());
    CHECK(job.rhythm.activity.size() <= 4096);
    CHECK(std::all_of(job.rhythm.activity.begin(), job.rhythm.activity.end(),
                      [&](const auto& burst) { return burst.end_ns - burst.start_ns <= job.rhythm.period_ns; }));
  }
}

TEST_CASE_METHOD(FindFixture, "who never uses the shared link leaves the bursts there to those who do") {
  repeat(7, 2, 1);  // before all others of its job
  elsewhere = {{address(2), address(6)}, {address(6), address(2)}};
  repeat(8, 1, 10'000'000'000, ORRERY_OP_ALL_REDUCE, kBytes);
  repeat(9, 0, 10'000'000'000, ORRERY_OP_ALL_REDUCE, kBytes);
  for (uint32_t rank = 0; rank < 2; ++rank)  // 7 and 9 are one job
    book.on_event(host(2 * rank), {.comm_id = 10, .rank = rank, .nranks = 2, .address = address(2 * rank)}, now);
  const daemon::Jobs found = find();
  REQUIRE(found.jobs.size() == 2);
  for (const daemon::Job& job : found.jobs) CHECK(job.rhythm.activity.size() == 1);
}

TEST_CASE_METHOD(FindFixture, "a pair that a communicator sends nothing between shares no link with anybody") {
  repeat(7, 0, 1'000'000'000, ORRERY_OP_BROADCAST, kBytes);  // to the other host only
  repeat(8, 1, 1'000'000'000, ORRERY_OP_ALL_REDUCE, kBytes);
  elsewhere = {{address(0), address(4)}};
  CHECK(find().jobs.empty());
}
