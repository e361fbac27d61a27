#include "agent/collect/collectives.h"

#include <algorithm>
#include <utility>

namespace orrery::collect {

void Collectives::pop_front(uint64_t comm_id, PerCommunicator& state) {
  fronts_.erase({state.entries.front().collective.called_ns, comm_id});
  state.entries.pop_front();
  --open_count_;
  if (!state.entries.empty()) fronts_.insert({state.entries.front().collective.called_ns, comm_id});
}

void Collectives::forget_oldest() {
  if (fronts_.empty()) return;
  const uint64_t comm_id = fronts_.begin()->second;
  PerCommunicator& state = communicators_[comm_id];
  forgotten_ += !state.entries.front().told;
  pop_front(comm_id, state);
}

namespace {

Collective make(const orrery_collective_event& event, uint32_t rank, uint64_t called_ns, uint64_t sequence) {
  return {.comm_id = event.comm_id,
          .bytes = event.bytes,
          .sequence = sequence,
          .called_ns = called_ns,
          .op = event.op,
          .peer = event.peer,
          .group = event.group,
          .rank = rank,
          .flags = event.flags};
}

}  // namespace

Collective Collectives::captured(const orrery_collective_event& event, uint32_t rank, uint64_t called_ns) const {
  const auto found = communicators_.find(event.comm_id);
  return make(event, rank, called_ns, found == communicators_.end() ? 0 : found->second.next_sequence);
}

Collective Collectives::call(const orrery_collective_event& event, uint32_t rank, uint64_t called_ns) {
  if (open_count_ >= limits_.open_collectives_per_process) forget_oldest();
  PerCommunicator& state = communicators_[event.comm_id];
  const Collective collective = make(event, rank, called_ns, state.next_sequence++);
  state.entries.push_back({collective});
  if (state.entries.size() == 1) fronts_.insert({called_ns, event.comm_id});
  ++open_count_;
  return collective;
}

void Collectives::end_older_than(uint64_t comm_id, PerCommunicator& state, size_t newest) {
  for (size_t i = 0; i < newest; ++i) {
    const Entry& entry = state.entries.front();
    if (!entry.told && entry.collective.last_byte_ns != 0) ended_.push_back(entry.collective);
    pop_front(comm_id, state);
  }
}

void Collectives::observe(uint64_t comm_id, uint64_t first_ns, uint64_t last_ns) {
  const auto found = communicators_.find(comm_id);
  if (found == communicators_.end()) return;
  std::deque<Entry>& entries = found->second.entries;
  size_t newest = entries.size();
  while (newest > 0 && entries[newest - 1].collective.called_ns > last_ns) --newest;
  if (newest == 0) return;
  --newest;
  const uint32_t group = entries[newest].collective.group;
  size_t oldest = newest;
  while (oldest > 0 && entries[oldest - 1].collective.group == group) --oldest;
  const size_t members = newest - oldest + 1;
  end_older_than(comm_id, found->second, oldest);
  for (size_t i = 0; i < members; ++i) {
    Entry& entry = entries[i];
    Collective& collective = entry.collective;
    const uint64_t first = std::max(first_ns, collective.called_ns);
    if (collective.first_byte_ns == 0 || first < collective.first_byte_ns) collective.first_byte_ns = first;
    if (last_ns > collective.last_byte_ns) {
      collective.last_byte_ns = last_ns;
      entry.told = false;
    }
  }
}

std::vector<Collective> Collectives::take_ended(uint64_t now_ns) {
  for (auto& [comm_id, state] : communicators_) {
    for (Entry& entry : state.entries) {
      const uint64_t last = entry.collective.last_byte_ns;
      if (entry.told || last == 0 || last + cadence_.quiet_ns > now_ns) continue;
      entry.told = true;
      ended_.push_back(entry.collective);
    }
  }
  return std::exchange(ended_, {});
}

void Collectives::forget(uint64_t comm_id) {
  const auto found = communicators_.find(comm_id);
  if (found == communicators_.end()) return;
  for (const Entry& entry : found->second.entries)
    if (!entry.told && entry.collective.last_byte_ns != 0) ended_.push_back(entry.collective);
  open_count_ -= found->second.entries.size();
  if (!found->second.entries.empty()) fronts_.erase({found->second.entries.front().collective.called_ns, comm_id});
  communicators_.erase(found);
}

}  // namespace orrery::collect
