#include "controller/drivers/ebpf/switch_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace orrery::drivers::ebpf {
namespace {

constexpr size_t kMaxRuleSamples = 4096;  // a telemetry message stays well below the limit of a frame
constexpr size_t kMaxEvents = 256;

void take_queue(PortStats& port, const QueueReading& now, const QueueReading& before) {
  const uint64_t samples = now.packets - before.packets;
  port.queue_interval_max_bytes = now.backlog_bytes_max;
  port.queue_interval_samples = samples;
  port.queue_interval_mean_bytes = samples ? (now.backlog_bytes_sum - before.backlog_bytes_sum) / samples : 0;
  port.queue_mean_bytes = now.packets ? now.backlog_bytes_sum / now.packets : 0;
}

}  // namespace

Result<SwitchStats> StatsGatherer::gather() {
  SwitchStats stats;
  ORRERY_ASSIGN(const auto interfaces, links_.interfaces());
  ORRERY_ASSIGN(const auto drops, links_.queue_drops());
  ORRERY_ASSIGN(const auto queues, plane_.read_queues());
  last_queues_.resize(ports_.size());
  queue_max_.resize(ports_.size());
  for (size_t i = 0; i < ports_.size(); ++i) {
    PortStats port{.name = ports_.name(static_cast<uint8_t>(i))};
    const uint32_t ifindex = ports_.ifindexes()[i];
    const auto found =
        std::find_if(interfaces.begin(), interfaces.end(), [&](const auto& known) { return known.ifindex == ifindex; });
    if (found != interfaces.end()) {
      port.up = found->up;
      port.rx_packets = found->rx_packets;
      port.rx_bytes = found->rx_bytes;
      port.tx_packets = found->tx_packets;
      port.tx_bytes = found->tx_bytes;
    }
    if (const auto queue = drops.find(ifindex); queue != drops.end()) port.drops = queue->second.packets;
    take_queue(port, queues[i], last_queues_[i]);
    port.queue_max_bytes = queue_max_[i] = std::max(queue_max_[i], port.queue_interval_max_bytes);
    ORRERY_ASSIGN(port.counters, plane_.read_counters(static_cast<uint8_t>(i)));
    stats.no_route += port.counters.no_route;
    stats.ttl_expired += port.counters.ttl_expired;
    stats.ports.push_back(std::move(port));
  }
  last_queues_ = queues;
  stats.rules = plane_.rules().counts();
  return stats;
}

msg::SwitchTelemetry TelemetryWriter::write(const SwitchStats& stats, std::vector<msg::PathEvent> events,
                                            uint64_t at_tai_ns) {
  msg::SwitchTelemetry message{.switch_name = switch_name_, .at_tai_ns = at_tai_ns, .events = std::move(events)};
  message.no_route = stats.no_route;
  message.ttl_expired = stats.ttl_expired;
  for (const auto& port : stats.ports) {
    const auto name = fmt::format("{}:{}", switch_name_, port.name);
    message.links.push_back(
        {name, port.up, port.tx_bytes, port.tx_packets, port.drops, port.rx_bytes, port.rx_packets});
    message.queues.push_back(
        {name, port.queue_interval_max_bytes, port.queue_interval_mean_bytes, port.queue_interval_samples});
  }
  std::unordered_map<uint32_t, Seen> now;
  for (const auto& rule : stats.rules) {
    const auto& counters = rule.counters;
    Seen seen = seen_.contains(rule.rule_id) ? seen_[rule.rule_id] : Seen{};
    const bool moved = counters.packets != seen.packets;
    const bool on_backup = moved ? counters.backup_packets > seen.backup_packets : seen.on_backup;
    if (moved && message.rules.size() == kMaxRuleSamples) {
      now[rule.rule_id] = seen;  // told next time
      continue;
    }
    if (moved) message.rules.push_back({rule.rule_id, counters.packets, counters.bytes, counters.backup_packets});
    if (on_backup != seen.on_backup && message.events.size() < kMaxEvents) {
      const auto kind = on_backup ? msg::PathEvent::Kind::kBackupInUse : msg::PathEvent::Kind::kPrimaryInUse;
      message.events.push_back({kind, fmt::format("{}:{}", switch_name_, ports_.name(rule.egress_port)), at_tai_ns,
                                fmt::format("rule {}", rule.rule_id)});
    }
    now[rule.rule_id] = {counters.packets, counters.backup_packets, on_backup};
  }
  seen_ = std::move(now);
  return message;
}

std::string to_json(const SwitchStats& stats, const std::string& switch_name, uint64_t at_tai_ns) {
  nlohmann::ordered_json json{{"schema", 1}, {"switch", switch_name}, {"at_tai_ns", at_tai_ns}};
  json["ports"] = nlohmann::ordered_json::array();
  for (const auto& port : stats.ports)
    json["ports"].push_back({{"name", port.name},
                             {"up", port.up},
                             {"rx_packets", port.rx_packets},
                             {"rx_bytes", port.rx_bytes},
                             {"tx_packets", port.tx_packets},
                             {"tx_bytes", port.tx_bytes},
                             {"drops", port.drops},
                             {"queue_max_bytes", port.queue_max_bytes},
                             {"queue_mean_bytes", port.queue_mean_bytes},
                             {"rule_hits", port.counters.rule_hits},
                             {"no_route", port.counters.no_route},
                             {"ttl_expired", port.counters.ttl_expired},
                             {"unsupported", port.counters.unsupported},
                             {"malformed", port.counters.malformed},
                             {"diverted", port.counters.diverted}});
  json["rules"] = nlohmann::ordered_json::array();
  for (const auto& rule : stats.rules)
    json["rules"].push_back({{"id", rule.rule_id},
                             {"packets", rule.counters.packets},
                             {"bytes", rule.counters.bytes},
                             {"backup_packets", rule.counters.backup_packets},
                             {"ecmp_packets", rule.counters.ecmp_packets}});
  return json.dump() + "\n";
}

Status write_file_whole(const std::string& path, const std::string& content) {
  const auto temporary = path + ".new";
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  if (!file) return system_error(fmt::format("cannot write {}", temporary), errno);
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  if (std::fclose(file) != 0 || !written) return system_error(fmt::format("cannot write {}", temporary), errno);
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    return system_error(fmt::format("cannot replace {}", path), errno);
  return {};
}

}  // namespace orrery::drivers::ebpf
