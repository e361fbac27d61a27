#include "agent/enforce/enforcer.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <optional>
#include <random>

#include "common/shm/plan_reader.h"
#include "plans.h"

using namespace orrery;
using namespace orrery::enforce;
using test::flow_plan;
using test::host_plan;

namespace {

constexpr uint64_t kNow = 1'000'000'000;
constexpr uint64_t kLease = 3'000'000'000;

// A process's read-only view of its plan table.
class View {
 public:
  View(int fd, size_t bytes) : base_(mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0)), bytes_(bytes) {
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(reader_.open(base_, bytes));
  }
  ~View() { munmap(base_, bytes_); }
  // Flow id of the entry for a connection to `dst`, 0 when there is none.
  uint64_t find(const char* dst, uint64_t now_ns) const {
    shm::PlanAnswer answer{};
    return look(dst, now_ns, answer) ? answer.entry.flow_id : 0;
  }
  bool release_suspended(const char* dst, uint64_t now_ns) const {
    shm::PlanAnswer answer{};
    look(dst, now_ns, answer);
    return answer.release_suspended;
  }

 private:
  bool look(const char* dst, uint64_t now_ns, shm::PlanAnswer& answer) const {
    shm::PlanQuery query{};
    std::memcpy(query.remote_address, IpAddress::parse(dst).value().bytes().data(), 16);
    query.protocol = 6;
    return reader_.find(query, now_ns, &answer);
  }
  void* base_;
  size_t bytes_;
  shm::PlanReader reader_;
};

struct Host {
  Host() : enforcer("h1", {.flows_per_host = 100, .entries_per_process = 4}, test::is_h1, metrics) {}
  View attach(uint64_t process, std::vector<uint64_t> comm_ids) {
    auto table = shm::PlanTable::create(4).value();
    const int fd = table.fd();
    const size_t bytes = table.bytes();
    enforcer.attach(process, std::move(table));
    enforcer.set_communicators(process, std::move(comm_ids));
    return View(fd, bytes);
  }
  telemetry::Metrics metrics;
  Enforcer enforcer;
};

}  // namespace

TEST_CASE("a process reads the entries of its own communicators and those for all, no others", "[enforce]") {
  Host host;
  const View a = host.attach(1, {10}), b = host.attach(2, {20}), none = host.attach(3, {});
  const msg::Ack ack = host.enforcer.accept(
      host_plan(1, 1, {flow_plan(0x1, 10, "10.0.0.2"), flow_plan(0x2, 20, "10.0.0.3"), flow_plan(0x3, 0, "10.0.0.4")}),
      kNow);
  CHECK(ack == msg::Ack{.name = "h1", .term = 1, .revision = 1, .accepted = true, .reason = "", .entries = 3});
  CHECK(a.find("10.0.0.2", kNow) == 0x1);
  CHECK(a.find("10.0.0.3", kNow) == 0);
  CHECK(b.find("10.0.0.2", kNow) == 0);
  CHECK(b.find("10.0.0.3", kNow) == 0x2);
  for (const View* view : {&a, &b, &none}) CHECK(view->find("10.0.0.4", kNow) == 0x3);
  CHECK(none.find("10.0.0.2", kNow) == 0);
}

TEST_CASE("a communicator announced after the plan, or a process attached after it, gets its entries at once",
          "[enforce]") {
  Host host;
  const View early = host.attach(1, {});
  host.enforcer.accept(host_plan(1, 1, {flow_plan(0x1, 10)}), kNow);
  CHECK(early.find("10.0.0.2", kNow) == 0);
  host.enforcer.set_communicators(1, {10});
  CHECK(early.find("10.0.0.2", kNow) == 0x1);
  const View late = host.attach(2, {10});
  CHECK(late.find("10.0.0.2", kNow) == 0x1);
  host.enforcer.set_communicators(1, {});
  CHECK(early.find("10.0.0.2", kNow) == 0);
}

TEST_CASE("a plan ends with its lease, and a renewal of another plan does not help it", "[enforce]") {
  Host host;
  const View view = host.attach(1, {10});
  host.enforcer.accept(host_plan(1, 5, {flow_plan(0x1, 10)}), kNow);
  CHECK_FALSE(host.enforcer.renew({1, 4, kLease}, kNow));
  CHECK_FALSE(host.enforcer.renew({2, 5, kLease}, kNow));
  CHECK(host.enforcer.renew({1, 5, kLease}, kNow + kLease - 1));
  CHECK(view.find("10.0.0.2", kNow + kLease + 1) == 0x1);
  CHECK_FALSE(host.enforcer.expire(kNow + 2 * kLease - 2));
  CHECK(view.find("10.0.0.2", kNow + 2 * kLease) == 0);  // the reader does not wait for the agent
  CHECK(host.enforcer.expire(kNow + 2 * kLease));
  CHECK_FALSE(host.enforcer.in_force());
  CHECK(view.find("10.0.0.2", kNow) == 0);
  CHECK_FALSE(host.enforcer.renew({1, 5, kLease}, kNow + 2 * kLease));
}

TEST_CASE("a refused plan changes nothing, and the reason says why", "[enforce]") {
  Host host;
  const View view = host.attach(1, {10});
  host.enforcer.accept(host_plan(5, 7, {flow_plan(0x1, 10)}), kNow);
  auto other_host = host_plan(6, 1, {});
  other_host.host = "h2";
  auto bad_flow = host_plan(6, 1, {flow_plan(0x2, 10), flow_plan(0x3, 10)});
  bad_flow.flows[1].dscp = 99;
  const std::vector<std::pair<msg::HostPlan, std::string>> refused = {
      {other_host, "the plan is for host 'h2'"},
      {host_plan(4, 99, {}), "term 4 is over"},
      {host_plan(5, 6, {}), "revision 6 is older than 7"},
      {host_plan(6, 1, std::vector<msg::FlowPlan>(101, flow_plan(1, 10))), "limits.plan_flows_count"},
      {bad_flow, "DSCP 99"}};
  for (const auto& [plan, reason] : refused) {
    const msg::Ack ack = host.enforcer.accept(plan, kNow);
    INFO(reason);
    CHECK_FALSE(ack.accepted);
    CHECK(ack.reason.find(reason) != std::string::npos);
    CHECK(ack.entries == 1);
    CHECK(view.find("10.0.0.2", kNow) == 0x1);
  }
  // None of them moved the term on.
  CHECK(host.enforcer.accept(host_plan(5, 8, {flow_plan(0x4, 10)}), kNow).accepted);
  CHECK(view.find("10.0.0.2", kNow) == 0x4);
}

TEST_CASE("an old leader stays fenced after the new one's plan has expired", "[enforce]") {
  Host host;
  host.enforcer.accept(host_plan(9, 3, {}), kNow);
  host.enforcer.expire(kNow + kLease);
  CHECK_FALSE(host.enforcer.accept(host_plan(8, 100, {}), kNow + kLease).accepted);
  CHECK_FALSE(host.enforcer.accept(host_plan(9, 2, {}), kNow + kLease).accepted);
  CHECK(host.enforcer.accept(host_plan(9, 3, {}), kNow + kLease).accepted);
}

TEST_CASE("a withdrawal ends the plan it names and older ones, not a newer one", "[enforce]") {
  Host host;
  const View view = host.attach(1, {10});
  host.enforcer.accept(host_plan(2, 5, {flow_plan(0x1, 10)}), kNow);
  CHECK_FALSE(host.enforcer.withdraw({2, 4, 0}));
  CHECK_FALSE(host.enforcer.withdraw({1, 9, 0}));
  CHECK(view.find("10.0.0.2", kNow) == 0x1);
  CHECK(host.enforcer.withdraw({2, 5, 0}));
  CHECK(view.find("10.0.0.2", kNow) == 0);
  CHECK_FALSE(host.enforcer.in_force());
}

TEST_CASE("what does not fit a process's table is left out and counted", "[enforce]") {
  Host host;
  const View view = host.attach(1, {10});
  std::vector<msg::FlowPlan> flows;
  for (int i = 2; i < 9; ++i)
    flows.push_back(flow_plan(static_cast<uint64_t>(i), 10, ("10.0.0." + std::to_string(i)).c_str()));
  CHECK(host.enforcer.accept(host_plan(1, 1, flows), kNow).accepted);
  CHECK(view.find("10.0.0.5", kNow) == 5);
  CHECK(view.find("10.0.0.6", kNow) == 0);
  CHECK(host.metrics.scrape().find("orrery_enforce_over_limit_entries_total 3") != std::string::npos);
}

TEST_CASE("a clock out of bounds suspends offsets and leaves the paths", "[enforce]") {
  Host host;
  const View view = host.attach(1, {10});
  host.enforcer.accept(host_plan(1, 1, {flow_plan(0x1, 10)}), kNow);
  CHECK_FALSE(view.release_suspended("10.0.0.2", kNow));
  host.enforcer.suspend_release(true, kNow);
  CHECK(view.release_suspended("10.0.0.2", kNow));
  CHECK(view.find("10.0.0.2", kNow) == 0x1);
  host.enforcer.accept(host_plan(1, 2, {flow_plan(0x1, 10)}), kNow);
  CHECK(view.release_suspended("10.0.0.2", kNow));
  host.enforcer.suspend_release(false, kNow);
  CHECK_FALSE(view.release_suspended("10.0.0.2", kNow));
}

TEST_CASE("a flow is planned for a process only between the ends its table names", "[enforce]") {
  Host host;
  const View view = host.attach(1, {10});
  host.attach(2, {});
  host.enforcer.accept(host_plan(1, 1, {flow_plan(0x1, 10)}), kNow);
  const FiveTuple right{IpAddress::parse("10.0.0.1").value(), IpAddress::parse("10.0.0.2").value(), 1, 2, 6};
  FiveTuple wrong = right;
  wrong.dst = IpAddress::parse("10.0.0.3").value();
  CHECK(host.enforcer.is_planned(1, 0x1, right));
  CHECK_FALSE(host.enforcer.is_planned(1, 0x1, wrong));
  CHECK_FALSE(host.enforcer.is_planned(1, 0x2, right));
  CHECK_FALSE(host.enforcer.is_planned(1, 0, right));
  CHECK_FALSE(host.enforcer.is_planned(2, 0x1, right));
  CHECK_FALSE(host.enforcer.is_planned(3, 0x1, right));
}

TEST_CASE("in any order of messages the term never goes back and an expired plan is nowhere", "[enforce]") {
  std::mt19937 random(GENERATE(1, 2, 3, 4, 5));
  Host host;
  const View view = host.attach(1, {10});
  uint64_t highest = 0, now = kNow, valid_until = 0;
  for (int step = 0; step < 3000; ++step) {
    now += random() % 500'000'000;
    const uint64_t term = 1 + random() % 6, revision = 1 + random() % 6;
    switch (random() % 4) {
      case 0: {
        auto plan = host_plan(term, revision, {flow_plan(term * 100 + revision, 10)});
        const msg::Ack ack = host.enforcer.accept(plan, now);
        REQUIRE(ack.accepted == !ack.reason.size());
        if (term < highest) REQUIRE_FALSE(ack.accepted);
        if (!ack.accepted) break;
        highest = term;
        valid_until = now + kLease;
        REQUIRE(view.find("10.0.0.2", now) == term * 100 + revision);
        break;
      }
      case 1:
        if (host.enforcer.renew({term, revision, kLease}, now)) valid_until = now + kLease;
        break;
      case 2:
        if (random() % 4 == 0 && host.enforcer.withdraw({term, revision, 0})) highest = term, valid_until = 0;
        break;
      default:
        if (host.enforcer.expire(now)) REQUIRE(now >= valid_until);
    }
    if (now >= valid_until) REQUIRE(view.find("10.0.0.2", now) == 0);
  }
}
