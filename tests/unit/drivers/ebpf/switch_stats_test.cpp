#include "controller/drivers/ebpf/switch_stats.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace orrery::drivers::ebpf {
namespace {

const ForwardingTable kTable{.switch_name = "leaf1", .ports = {{"p1"}, {"p2"}}};

PortTable bind_ports() {
  return PortTable::bind(kTable, std::vector{Interface{.ifindex = 1, .name = "p1", .up = true},
                                             Interface{.ifindex = 2, .name = "p2", .up = true}})
      .value();
}

SwitchStats with_rule(uint64_t packets, uint64_t backup_packets) {
  SwitchStats stats;
  stats.rules.push_back({.rule_id = 9,
                         .egress_port = 1,
                         .counters = {.packets = packets, .bytes = 100 * packets, .backup_packets = backup_packets}});
  return stats;
}

}  // namespace

TEST_CASE("telemetry names ports as SWITCH:PORT and tells totals of links, intervals of queues") {
  const auto ports = bind_ports();
  TelemetryWriter writer("leaf1", ports);
  SwitchStats stats{.no_route = 3, .ttl_expired = 4};
  stats.ports.push_back({.name = "p1",
                         .up = true,
                         .rx_bytes = 10,
                         .tx_bytes = 20,
                         .drops = 5,
                         .queue_max_bytes = 900,
                         .queue_interval_max_bytes = 700,
                         .queue_interval_mean_bytes = 300,
                         .queue_interval_samples = 2});
  const auto message = writer.write(stats, {{msg::PathEvent::Kind::kPortDown, "leaf1:p2", 5, ""}}, 77);
  CHECK(message.switch_name == "leaf1");
  CHECK(message.at_tai_ns == 77);
  REQUIRE(message.links.size() == 1);
  CHECK(message.links[0] == msg::LinkSample{"leaf1:p1", true, 20, 0, 5, 10, 0});
  CHECK(message.queues[0] == msg::QueueSample{"leaf1:p1", 700, 300, 2});
  CHECK(message.no_route == 3);
  REQUIRE(message.events.size() == 1);
  CHECK(msg::decode_switch_message(msg::encode(msg::SwitchMessage(message)).value()));
}

TEST_CASE("only rules whose counters moved are told") {
  const auto ports = bind_ports();
  TelemetryWriter writer("leaf1", ports);
  CHECK(writer.write(with_rule(0, 0), {}, 0).rules.empty());
  CHECK(writer.write(with_rule(5, 0), {}, 0).rules == std::vector{msg::RuleSample{9, 5, 500, 0}});
  CHECK(writer.write(with_rule(5, 0), {}, 0).rules.empty());
}

TEST_CASE("the begin and the end of a backup's use are events, once each") {
  const auto ports = bind_ports();
  TelemetryWriter writer("leaf1", ports);
  CHECK(writer.write(with_rule(5, 0), {}, 0).events.empty());
  const auto began = writer.write(with_rule(9, 4), {}, 50).events;
  REQUIRE(began.size() == 1);
  CHECK(began[0] == msg::PathEvent{msg::PathEvent::Kind::kBackupInUse, "leaf1:p2", 50, "rule 9"});
  CHECK(writer.write(with_rule(12, 7), {}, 0).events.empty());
  CHECK(writer.write(with_rule(12, 7), {}, 0).events.empty());
  const auto ended = writer.write(with_rule(13, 7), {}, 60).events;
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].kind == msg::PathEvent::Kind::kPrimaryInUse);
}

TEST_CASE("the counters' JSON has every port and rule") {
  SwitchStats stats = with_rule(5, 1);
  stats.ports.push_back({.name = "p1", .up = true, .tx_bytes = 20, .queue_max_bytes = 900});
  const auto json = nlohmann::json::parse(to_json(stats, "leaf1", 1));
  CHECK(json["switch"] == "leaf1");
  CHECK(json["ports"][0]["name"] == "p1");
  CHECK(json["ports"][0]["queue_max_bytes"] == 900);
  CHECK(json["rules"][0]["backup_packets"] == 1);
}

TEST_CASE("a file is replaced whole, and a folder that is missing is reported") {
  const auto path = std::filesystem::temp_directory_path() / ("orrery-stats-" + std::to_string(getpid()));
  REQUIRE(write_file_whole(path, "one"));
  REQUIRE(write_file_whole(path, "two"));
  std::string text;
  std::ifstream(path) >> text;
  CHECK(text == "two");
  CHECK(!std::filesystem::exists(path.string() + ".new"));
  std::filesystem::remove(path);
  CHECK(write_file_whole("/no/such/folder/file", "x").error().message.find("/no/such/folder/file") !=
        std::string::npos);
}

}  // namespace orrery::drivers::ebpf
