// Which path a packet takes, and links that fail.
#include <algorithm>

#include "tools/sim/packet/domain.h"

namespace orrery::sim {

bool Domain::is_live(uint32_t path) const {
  if (dead_links_.empty()) return true;
  for (const uint32_t link : world_.program.paths[path].links)
    if (link != kNone && dead_links_[link] != 0) return false;
  return true;
}

// Whether one of the queue pair's paths is whole or may yet be mended; else to try again would be in vain, for ever.
bool Domain::may_arrive(uint32_t id) const {
  if (dead_links_.empty()) return true;
  const QueuePair& pair = world_.program.qps[id];
  for (uint32_t i = 0; i < pair.path_count; ++i)
    if (is_live(world_.program.qp_paths[pair.first_path + i])) return true;
  return std::any_of(config_.faults.begin(), config_.faults.end(),
                     [&](const Fault& fault) { return fault.up && fault.at + config_.fault_detection > now_; });
}

// A path of the queue pair that is not known to be dead: the next in turn, any other, or of kRecycle any at all: where
// there are two, always the other would be the bad one after each good one. None left: the present one.
uint32_t Domain::next_live_path(uint32_t id) {
  const QueuePair& pair = world_.program.qps[id];
  QpSender& qp = world_.senders[id];
  const bool any = pair.policy == PathPolicy::kRecycle;
  const uint32_t candidates = any ? pair.path_count : pair.path_count - 1;
  const uint32_t base = any ? 0 : qp.path_position + 1;
  uint32_t first = 0;
  if (pair.policy != PathPolicy::kSpray && pair.policy != PathPolicy::kStatic) first = draw(qp.random) % candidates;
  for (uint32_t i = 0; i < candidates; ++i) {
    const uint32_t position = (base + (first + i) % candidates) % pair.path_count;
    const uint32_t path = world_.program.qp_paths[pair.first_path + position];
    if (!is_live(path)) continue;
    qp.path_position = position;
    return path;
  }
  return qp.path;
}

uint32_t Domain::choose_path(uint32_t id, bool burst_begins) {
  QpSender& qp = world_.senders[id];
  if (!qp.has_choice) return qp.path;
  const QueuePair& pair = world_.program.qps[id];
  bool move = false;
  switch (pair.policy) {
    case PathPolicy::kStatic:
      break;
    case PathPolicy::kSpray:
      move = true;
      break;
    case PathPolicy::kFlowlet:
      move = qp.last_sent != 0 && now_ - qp.last_sent > config_.choice.flowlet_gap;
      break;
    case PathPolicy::kRecycle: {
      RecycledPaths& good = world_.recycled[id];
      if (good.count == 0) {
        move = true;
        break;
      }
      qp.path_position = good.positions[--good.count];
      qp.path = world_.program.qp_paths[pair.first_path + qp.path_position];
      break;
    }
    case PathPolicy::kRehash:
      move = qp.bad_rounds >= config_.choice.rehash_after;
      if (move) qp.bad_rounds = 0;
      break;
    case PathPolicy::kBurst:
      move = burst_begins && qp.level >= config_.choice.repath_level;
      if (move) qp.level = 0;
      break;
  }
  if (!move && is_live(qp.path)) return qp.path;
  const uint32_t before = qp.path;
  qp.path = next_live_path(id);
  counters_.path_changes += qp.path != before;
  qp.path_changes += qp.path != before;
  return qp.path;
}

void Domain::learn_from_ack(uint32_t id, const Packet& packet) {
  const QueuePair& pair = world_.program.qps[id];
  QpSender& qp = world_.senders[id];
  if (packet.telemetry() != 0) qp.level = static_cast<uint8_t>(packet.telemetry() - 1);
  if (pair.policy == PathPolicy::kRecycle && !packet.marked()) {
    RecycledPaths& good = world_.recycled[id];
    const uint32_t path = world_.program.reverse_of[packet.path];
    for (uint32_t i = 0; i < pair.path_count && good.count < RecycledPaths::kMost; ++i)
      if (world_.program.qp_paths[pair.first_path + i] == path) {
        good.positions[good.count++] = i;
        break;
      }
  }
  if (pair.policy != PathPolicy::kRehash) return;
  ++qp.round_acks;
  qp.round_marks += packet.marked();
  if (packet.psn < qp.round_end) return;
  qp.bad_rounds = 2 * qp.round_marks >= qp.round_acks ? qp.bad_rounds + 1 : 0;
  qp.round_acks = qp.round_marks = 0;
  qp.round_end = qp.next_psn;
}

// What waits at a dead port, and what comes to it, is lost.
void Domain::fault(uint32_t number) {
  const Fault& change = config_.faults[number];
  const Wire& wire = world_.wires.wires[change.link];
  if (world_.domain_of_node[wire.from_node] != index_) return;
  if (change.kind == FaultKind::kPausingNic) return take_pause(change.link, !change.up);
  Port& port = world_.ports[change.link];
  port.down = !change.up;
  if (change.up || wire.from_host != kNone) return;
  while (!port.data.empty()) drop_queued(pop_data(change.link, port), port);
  while (!port.control.empty()) drop_queued(port.control.pop(), port);
}

void Domain::know_fault(uint32_t number) {
  if (config_.faults[number].kind != FaultKind::kLink) return;
  if (dead_links_.empty()) dead_links_.resize(world_.wires.wires.size());
  dead_links_[config_.faults[number].link] = !config_.faults[number].up;
}

}  // namespace orrery::sim
