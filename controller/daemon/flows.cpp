#include "controller/daemon/flows.h"

#include <algorithm>
#include <bit>

namespace orrery::daemon {
namespace {
constexpr size_t kMaxFlows = 262'144;
constexpr size_t kMaxFlowsPerHost = 16'384;
constexpr uint64_t kDoubtNs = 5'000'000'000;
constexpr uint64_t kLostReportNs = 60'000'000'000;  // longer than training pauses: a flow that rests says nothing
constexpr uint64_t kMuchChanged = 4;                // times heavier or lighter
}  // namespace

bool FlowBook::on_report(const std::string& host, const msg::FlowReport& report, uint64_t now_ns) {
  const FlowKey key{report.tuple, report.queue_pair ? report.queue_pair->qpn : 0};
  const auto found = flows_.find(key);
  if (report.kind == msg::FlowReport::Kind::kGone)
    return found != flows_.end() && found->second.host == host && erase(found);
  const fabric::Nic* src = fabric_.find_nic(report.tuple.src);
  if (src == nullptr || fabric_.node(src->host).name != host) {
    ++refused_;
    return false;
  }
  const fabric::Nic* dst = fabric_.find_nic(report.tuple.dst);
  if (dst == nullptr || dst->host == src->host) return false;  // leaves the fabric, or never enters it
  if (found == flows_.end() && (flows_.size() >= kMaxFlows || count_by_host_[host] >= kMaxFlowsPerHost)) {
    ++refused_;
    return false;
  }
  if (found == flows_.end()) {
    ++count_by_host_[host];
    forget_restored(key);
  }
  LiveFlow& flow = flows_[key];
  const bool was_plain = is_plain(flow);
  if (report.kind == msg::FlowReport::Kind::kBorn || report.tx_bytes < flow.tx_bytes)
    flow = {};  // a new connection with an old tuple
  flow.tuple = report.tuple;
  flow.host = host;
  flow.doubtful_until_ns = 0;
  flow.comm_id = report.comm_id;
  if (report.flow_id != 0) flow.plan_flow_id = report.flow_id;
  count(*src, flow, report.tx_bytes);
  flow.held_ns = report.held_ns;
  flow.queue_pair = report.queue_pair;
  const bool weight_changed = weigh(flow, now_ns);
  return was_plain != is_plain(flow) || (is_plain(flow) && weight_changed);
}

// What was restored by its five-tuple alone is a queue pair, now that one is reported there.
void FlowBook::forget_restored(const FlowKey& key) {
  const auto restored = key.qpn != 0 ? flows_.find({key.tuple, 0}) : flows_.end();
  if (restored != flows_.end() && restored->second.doubtful_until_ns != 0) erase(restored);
}

void FlowBook::count(const fabric::Nic& src, LiveFlow& flow, uint64_t tx_bytes) {
  if (flow.counted) sent_bytes_[&src - fabric_.nics().data()] += tx_bytes - flow.tx_bytes;
  flow.tx_bytes = tx_bytes;
  flow.counted = true;
}

bool FlowBook::weigh(LiveFlow& flow, uint64_t now_ns) {
  if (flow.tx_bytes < kPlainRealBytes) return false;
  if (flow.weight_bytes == 0) {
    flow.weight_bytes = kPlainRealBytes;
    flow.period_start_ns = now_ns;
    flow.period_start_bytes = flow.tx_bytes;
    return true;
  }
  if (now_ns < flow.period_start_ns + kWeightPeriodNs) return false;
  const uint64_t sent = (flow.tx_bytes - flow.period_start_bytes) * kWeightPeriodNs /
                        std::max<uint64_t>(now_ns - flow.period_start_ns, 1);
  flow.period_start_ns = now_ns;
  flow.period_start_bytes = flow.tx_bytes;
  const uint64_t weight = std::bit_ceil(std::clamp<uint64_t>(sent, kPlainRealBytes, uint64_t{1} << 50));
  if (weight < flow.weight_bytes * kMuchChanged && flow.weight_bytes < weight * kMuchChanged) return false;
  flow.weight_bytes = weight;
  return true;
}

void FlowBook::restore(const FiveTuple& tuple, uint64_t weight_bytes, uint64_t now_ns) {
  const fabric::Nic* src = fabric_.find_nic(tuple.src);
  if (src == nullptr || fabric_.find_nic(tuple.dst) == nullptr || flows_.size() >= kMaxFlows) return;
  LiveFlow flow{
      .tuple = tuple, .host = fabric_.node(src->host).name, .tx_bytes = kPlainRealBytes, .weight_bytes = weight_bytes};
  flow.period_start_ns = now_ns;
  flow.period_start_bytes = kPlainRealBytes;
  flow.doubtful_until_ns = now_ns + kDoubtNs;
  if (flows_.insert_or_assign(FlowKey{tuple, 0}, flow).second) ++count_by_host_[flow.host];
  ++doubtful_;
}

bool FlowBook::expire(uint64_t now_ns) {
  if (doubtful_ == 0) return false;
  bool plain = false;
  doubtful_ = 0;
  for (auto it = flows_.begin(); it != flows_.end();) {
    const auto flow = it++;
    if (flow->second.doubtful_until_ns == 0) continue;
    if (now_ns >= flow->second.doubtful_until_ns)
      plain |= erase(flow);
    else
      ++doubtful_;
  }
  return plain;
}

bool FlowBook::erase(std::map<FlowKey, LiveFlow>::iterator flow) {
  const bool plain = is_plain(flow->second);
  --count_by_host_[flow->second.host];
  flows_.erase(flow);
  return plain;
}

bool FlowBook::forget_hosts(const std::vector<std::string>& hosts) {
  bool plain = false;
  if (hosts.empty()) return plain;
  for (auto it = flows_.begin(); it != flows_.end();) {
    const auto flow = it++;
    if (std::binary_search(hosts.begin(), hosts.end(), flow->second.host)) plain |= erase(flow);
  }
  return plain;
}

void FlowBook::doubt_host(const std::string& host, uint64_t now_ns) {
  for (auto& [key, flow] : flows_) {
    if (flow.host != host || flow.doubtful_until_ns != 0) continue;
    flow.doubtful_until_ns = now_ns + kLostReportNs;
    ++doubtful_;
  }
}

std::vector<LiveFlow*> FlowBook::of_pair(std::optional<uint64_t> comm_id, const IpAddress& src, const IpAddress& dst) {
  std::vector<LiveFlow*> found;
  for (auto it = flows_.lower_bound({{src, dst, 0, 0, 0}, 0});
       it != flows_.end() && it->first.tuple.src == src && it->first.tuple.dst == dst; ++it)
    if ((comm_id ? it->second.comm_id == *comm_id : it->second.comm_id != 0) && it->second.tx_bytes >= kRealBytes)
      found.push_back(&it->second);
  std::sort(found.begin(), found.end(), [](const LiveFlow* a, const LiveFlow* b) { return a->tx_bytes > b->tx_bytes; });
  // What carries next to nothing beside the pair's largest is control traffic.
  const auto small = std::find_if(found.begin(), found.end(),
                                  [&](const LiveFlow* flow) { return flow->tx_bytes < found.front()->tx_bytes / 16; });
  found.erase(small, found.end());
  return found;
}

std::vector<LiveFlow*> FlowBook::of_tuple(const FiveTuple& tuple) {
  std::vector<LiveFlow*> found;
  for (auto it = flows_.lower_bound({tuple, 0}); it != flows_.end() && it->first.tuple == tuple; ++it)
    found.push_back(&it->second);
  return found;
}

}  // namespace orrery::daemon
