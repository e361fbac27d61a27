#include "controller/daemon/links.h"

#include <algorithm>

namespace orrery::daemon {
namespace {
constexpr uint64_t kSpanNs = 1'000'000'000;
constexpr uint64_t kStaleNs = 3'000'000'000;
constexpr size_t kMaxSamples = 256;
}  // namespace

std::optional<fabric::LinkId> LinkBook::port_of(const msg::SwitchTelemetry& telemetry, const std::string& port) const {
  const auto link = fabric_.find_link(port.find(':') == std::string::npos ? telemetry.switch_name + ":" + port : port);
  if (!link || fabric_.node(fabric_.link(*link).from).name != telemetry.switch_name) return std::nullopt;
  return link;
}

bool LinkBook::on_telemetry(const msg::SwitchTelemetry& telemetry) {
  bool changed = false;
  for (const msg::PathEvent& event : telemetry.events) {
    const bool about_port =
        event.kind == msg::PathEvent::Kind::kPortDown || event.kind == msg::PathEvent::Kind::kPortUp;
    if (const auto link = port_of(telemetry, event.port); link && about_port)
      changed |= set_port(*link, event.kind == msg::PathEvent::Kind::kPortUp);
  }
  for (const msg::LinkSample& sample : telemetry.links) {
    const auto link = port_of(telemetry, sample.port);
    if (!link) continue;
    changed |= set_port(*link, sample.up);
    links_[*link].drops = sample.drops;
    add_sample(*link, telemetry.at_tai_ns, sample.tx_bytes);
    const fabric::LinkId reverse = fabric_.link(*link).reverse;
    if (fabric_.node(fabric_.link(reverse).from).kind == fabric::NodeKind::kHost)
      add_sample(reverse, telemetry.at_tai_ns, sample.rx_bytes);
  }
  for (const msg::QueueSample& sample : telemetry.queues)
    if (const auto link = port_of(telemetry, sample.port)) links_[*link].queue_max_bytes = sample.max_bytes;
  return changed;
}

bool LinkBook::set_port(fabric::LinkId link, bool up) {
  links_[link].port_down = !up;
  const fabric::LinkId reverse = fabric_.link(link).reverse;
  const bool cable_up = !links_[link].port_down && !links_[reverse].port_down;
  if (fabric_.link(link).up == cable_up) return false;
  fabric_.set_link_up(link, cable_up);
  fabric_.set_link_up(reverse, cable_up);
  return true;
}

void LinkBook::add_sample(fabric::LinkId link, uint64_t at_tai_ns, uint64_t tx_bytes) {
  LinkRecord& record = links_[link];
  if (tx_bytes < record.tx_bytes || (!record.samples.empty() && at_tai_ns <= record.samples.back().at_tai_ns))
    record.samples.clear();  // restarted
  record.tx_bytes = tx_bytes;
  record.samples.push_back({at_tai_ns, tx_bytes});
  // Keeps one sample that is at least a second old.
  while (record.samples.size() > kMaxSamples ||
         (record.samples.size() > 2 && record.samples[1].at_tai_ns + kSpanNs <= at_tai_ns))
    record.samples.pop_front();
}

double LinkBook::utilization(fabric::LinkId link, uint64_t now_tai_ns) const {
  const LinkRecord& record = links_[link];
  if (record.samples.size() < 2 || record.samples.back().at_tai_ns + kStaleNs < now_tai_ns) return 0;
  const auto &first = record.samples.front(), &last = record.samples.back();
  const double seconds = static_cast<double>(last.at_tai_ns - first.at_tai_ns) / 1e9;
  const double bits = static_cast<double>(last.tx_bytes - first.tx_bytes) * 8;
  return std::clamp(bits / seconds / static_cast<double>(fabric_.link(link).rate_bps), 0.0, 1.0);
}

}  // namespace orrery::daemon
