#include "agent/collect/communicators.h"

#include <algorithm>
#include <tuple>

namespace orrery::collect {

Communicators::Outcome Communicators::announce(const orrery_comm_event& event, bool ready) {
  const Communicator* const same_id = find(event.comm_id);
  if (same_id != nullptr && same_id->nranks != event.nranks) return Outcome::kMalformed;
  const std::pair key(event.comm_id, event.rank);
  if (const auto known = entries_.find(key); known != entries_.end()) {
    if (!ready || known->second.communicator.ready) return Outcome::kKnown;
    known->second.communicator.ready = true;
    return Outcome::kChanged;
  }
  if (entries_.size() >= limits_.communicators_per_process) return Outcome::kFull;
  entries_[key] = {{event.comm_id, event.parent_id, event.rank, event.nranks, ready}, 0, next_order_++};
  if (recent_call_ns_ == 0) recent_id_ = event.comm_id;
  return Outcome::kNew;
}

std::vector<Communicator> Communicators::remove(uint64_t comm_id) {
  std::vector<Communicator> gone;
  auto entry = entries_.lower_bound({comm_id, 0});
  while (entry != entries_.end() && entry->first.first == comm_id) {
    gone.push_back(entry->second.communicator);
    entry = entries_.erase(entry);
  }
  if (recent_id_ == comm_id) choose_recent();
  return gone;
}

std::vector<Communicator> Communicators::mark_device_traffic(uint64_t comm_id) {
  std::vector<Communicator> news;
  for (auto entry = entries_.lower_bound({comm_id, 0}); entry != entries_.end() && entry->first.first == comm_id;
       ++entry) {
    Communicator& communicator = entry->second.communicator;
    if (communicator.device_traffic) continue;
    communicator.device_traffic = true;
    news.push_back(communicator);
  }
  return news;
}

void Communicators::choose_recent() {
  recent_id_ = 0;
  recent_call_ns_ = 0;
  uint64_t best_order = 0;
  for (const auto& [key, entry] : entries_) {
    if (std::tuple(entry.last_call_ns, entry.order) <= std::tuple(recent_call_ns_, best_order)) continue;
    recent_id_ = key.first;
    recent_call_ns_ = entry.last_call_ns;
    best_order = entry.order;
  }
}

void Communicators::touch(uint64_t comm_id, uint64_t time_ns) {
  const auto entry = entries_.lower_bound({comm_id, 0});
  if (entry == entries_.end() || entry->first.first != comm_id) return;
  entry->second.last_call_ns = std::max(entry->second.last_call_ns, time_ns);
  if (time_ns < recent_call_ns_) return;
  recent_id_ = comm_id;
  recent_call_ns_ = time_ns;
}

const Communicator* Communicators::find(uint64_t comm_id) const {
  const auto entry = entries_.lower_bound({comm_id, 0});
  return entry != entries_.end() && entry->first.first == comm_id ? &entry->second.communicator : nullptr;
}

std::vector<Communicator> Communicators::all() const {
  std::vector<Communicator> list;
  for (const auto& [key, entry] : entries_) list.push_back(entry.communicator);
  return list;
}

std::vector<uint64_t> Communicators::ids() const {
  std::vector<uint64_t> list;
  for (const auto& [key, entry] : entries_)
    if (list.empty() || list.back() != key.first) list.push_back(key.first);
  return list;
}

}  // namespace orrery::collect
