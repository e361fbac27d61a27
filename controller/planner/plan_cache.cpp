#include "controller/planner/plan_cache.h"

#include <type_traits>

namespace orrery::planner {
namespace {

class Encoder {
 public:
  template <typename T>
  void add(const T& value) {
    static_assert(std::has_unique_object_representations_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add(const fabric::Path& path) {
    add(path.size());
    bytes_.append(reinterpret_cast<const char*>(path.data()), path.size() * sizeof(fabric::LinkId));
  }
  void add(const IpAddress& address) {
    bytes_.append(reinterpret_cast<const char*>(address.bytes().data()), address.bytes().size());
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

void add_fabric(Encoder& out, const fabric::Graph& fabric) {
  out.add(fabric.links().size());
  for (const fabric::Link& link : fabric.links()) {
    out.add(link.from);
    out.add(link.to);
    out.add(link.rate_bps);
    out.add(link.queue_bytes);
    out.add(static_cast<uint8_t>(link.usable()));
  }
  out.add(fabric.nics().size());
  for (const fabric::Nic& nic : fabric.nics()) {
    out.add(nic.address);
    out.add(nic.uplink);
  }
}

}  // namespace

std::string signature(const Snapshot& snapshot) {
  Encoder out;
  out.add(snapshot.options.backups);
  out.add(static_cast<uint8_t>(snapshot.options.stagger));
  out.add(snapshot.options.min_stagger_ns);
  out.add(snapshot.options.max_stagger_ns);
  out.add(static_cast<uint8_t>(snapshot.options.rounds));
  out.add(snapshot.options.max_offset_ns);
  out.add(snapshot.options.round_margin_percent);
  out.add(snapshot.options.move_penalty_percent);
  if (snapshot.fabric != nullptr) add_fabric(out, *snapshot.fabric);
  for (const FlowDemand& flow : snapshot.flows) {
    out.add(flow.flow_id);
    out.add(flow.comm_id);
    out.add(flow.src);
    out.add(flow.dst);
    out.add(flow.bytes);
    out.add(flow.phase);
    out.add(flow.subflows);
    out.add(static_cast<uint8_t>(flow.exchange));
    out.add(flow.collectives);
    out.add(static_cast<uint8_t>(flow.in_step));
    out.add(flow.fixed);
    out.add(flow.current);
  }
  return out.take();
}

Result<std::shared_ptr<const Plan>> PlanCache::plan(const Snapshot& snapshot) {
  std::string key = signature(snapshot);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    ++hits_;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().plan;
  }
  ++misses_;
  ORRERY_ASSIGN(Plan fresh, planner::plan(snapshot));
  auto plan = std::make_shared<const Plan>(std::move(fresh));
  key_bytes_ += key.size();
  entries_.push_front({std::move(key), plan});
  by_key_.emplace(entries_.front().key, entries_.begin());
  while (!entries_.empty() && (entries_.size() > capacity_ || key_bytes_ > kMaxKeyBytes)) {
    key_bytes_ -= entries_.back().key.size();
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return plan;
}

}  // namespace orrery::planner
