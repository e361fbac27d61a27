#include "common/telemetry/metrics.h"

#include <catch2/catch.hpp>

using namespace orrery::telemetry;

TEST_CASE("a metric's name has the prefix, a module, a noun and a unit, and _total exactly on counters",
          "[telemetry]") {
  CHECK(is_metric_name("orrery_collect_ring_events_total", Kind::kCounter));
  CHECK(is_metric_name("orrery_enforce_plan_entries", Kind::kGauge));
  CHECK(is_metric_name("orrery_planner_planning_time_seconds", Kind::kHistogram));
  CHECK_FALSE(is_metric_name("orrery_collect_ring_events", Kind::kCounter));
  CHECK_FALSE(is_metric_name("orrery_enforce_plan_entries_total", Kind::kGauge));
  for (const char* wrong :
       {"collect_ring_events", "orrery_events", "orrery_collect_events", "orrery_collect__ring_events",
        "orrery_Collect_ring_events", "orrery_collect_ring_events_", "orrery__ring_x_events", ""})
    CHECK_FALSE(is_metric_name(wrong, Kind::kGauge));
}

TEST_CASE("one name and label set is one series, another label set another", "[telemetry]") {
  Metrics metrics;
  Counter& first = metrics.counter("orrery_uplink_received_messages_total", "Messages.", {{"kind", "plan"}});
  Counter& again = metrics.counter("orrery_uplink_received_messages_total", "Messages.", {{"kind", "plan"}});
  Counter& other = metrics.counter("orrery_uplink_received_messages_total", "Messages.", {{"kind", "lease"}});
  CHECK(&first == &again);
  CHECK(&first != &other);
  first.Increment(3);
  other.Increment();
  const std::string page = metrics.scrape();
  CHECK(page.find("orrery_uplink_received_messages_total{kind=\"plan\"} 3") != std::string::npos);
  CHECK(page.find("orrery_uplink_received_messages_total{kind=\"lease\"} 1") != std::string::npos);
}

TEST_CASE("no address means no endpoint, and an address that cannot be bound is an error with a cure", "[telemetry]") {
  Metrics metrics;
  CHECK(metrics.serve(""));
  const orrery::Status status = metrics.serve("203.0.113.1:1");
  REQUIRE_FALSE(status);
  CHECK(status.error().message.find("use a free ADDRESS:PORT") != std::string::npos);
  CHECK(metrics.serve("127.0.0.1:0"));
}

TEST_CASE("the reference lists every metric once, sorted", "[telemetry]") {
  Metrics metrics;
  metrics.gauge("orrery_b_things_count", "B.");
  metrics.counter("orrery_a_things_count_total", "A.");
  metrics.counter("orrery_a_things_count_total", "A.", {{"kind", "x"}});
  CHECK(metrics.reference("orrery-x") ==
        "# Metrics of orrery-x\n\n| name | kind | meaning |\n| --- | --- | --- |\n"
        "| `orrery_a_things_count_total` | counter | A. |\n| `orrery_b_things_count` | gauge | B. |\n");
}
