#include "tools/sim/packet/recorder.h"

#include <algorithm>

namespace orrery::sim {

Recorder::Recorder(const World& world, uint32_t domain)
    : world_(world), most_(world.config.recording.most_slices), slice_(world.config.recording.slice), kept_(slice_) {
  if (slice_ == 0) return;
  for (uint32_t link = 0; link < world.wires.wires.size(); ++link)
    if (world.domain_of_node[world.wires.wires[link].from_node] == domain) links_.push_back(link);
  cells_.resize(links_.size() * most_);
  sent_.resize(links_.size());
  next_ = slice_ / kSamplesPerSlice;
}

void Recorder::sample() {
  const Time interval = slice_ / kSamplesPerSlice;
  for (size_t i = 0; i < links_.size(); ++i) {
    const uint64_t queued = world_.ports[links_[i]].queued_bytes;
    if (queued == 0) continue;
    widen(slice_);
    cell(i, present_).queued = std::max(cell(i, present_).queued, queued);
    (world_.wires.wires[links_[i]].to_host == kNone ? core_ : edge_).add(queued, interval / kPerNs);
  }
  if (++samples_ == kSamplesPerSlice) end_slice();
  next_ += slice_ / kSamplesPerSlice;
}

void Recorder::end_slice() {
  for (size_t i = 0; i < links_.size(); ++i) {
    const uint64_t sent = world_.ports[links_[i]].sent_bytes;
    if (sent == sent_[i]) continue;
    widen(slice_);
    cell(i, present_).sent = sent - sent_[i];
    sent_[i] = sent;
  }
  samples_ = 0;
  if (++present_ < most_) return;
  present_ = most_ / 2;
  slice_ *= 2;
}

void Recorder::widen(Time slice) {
  for (; kept_ < slice; kept_ *= 2)
    for (size_t i = 0; i < links_.size(); ++i) {
      for (uint32_t at = 0; at < most_ / 2; ++at) {
        const Cell a = cell(i, 2 * at), b = cell(i, 2 * at + 1);
        cell(i, at) = {a.sent + b.sent, std::max(a.queued, b.queued)};
      }
      std::fill_n(&cell(i, most_ / 2), most_ - most_ / 2, Cell{});
    }
}

Time Recorder::finish(Time end) {
  if (next_ == kNever) return 0;
  end_slice();
  while (end / kept_ >= most_) widen(2 * kept_);
  return kept_;
}

void Recorder::add_to(RunResult& result, Time slice) {
  if (next_ == kNever) return;
  widen(slice);
  result.waveforms.resize(world_.wires.wires.size());
  const auto slices = static_cast<uint32_t>(result.end / slice + 1);
  for (size_t i = 0; i < links_.size(); ++i) {
    Waveform& wave = result.waveforms[links_[i]];
    wave.slice = slice;
    const bool queues = world_.wires.wires[links_[i]].from_host == kNone;
    for (uint32_t at = 0; at < slices; ++at) {
      wave.bytes.push_back(cell(i, at).sent);
      if (queues) wave.queued_bytes.push_back(cell(i, at).queued);
    }
  }
  result.core_queues += core_;
  result.edge_queues += edge_;
}

void Recorder::add_empty_queues(const World& world, RunResult& result) {
  uint64_t core_ports = 0, edge_ports = 0;
  for (const Wire& wire : world.wires.wires)
    if (wire.from_host == kNone) ++(wire.to_host == kNone ? core_ports : edge_ports);
  const auto add = [&](uint64_t ports, QueueTimes& times) {
    uint64_t filled = 0;
    for (const uint64_t part : times.port_ns) filled += part;
    const uint64_t all = ports * (result.end / kPerNs);
    times.add(0, all > filled ? all - filled : 0);
  };
  add(core_ports, result.core_queues);
  add(edge_ports, result.edge_queues);
}

}  // namespace orrery::sim
