#include "tools/sim/fluid/max_min.h"

#include <algorithm>
#include <limits>

namespace orrery::sim {
namespace {

constexpr double kNoKey = std::numeric_limits<double>::infinity();
constexpr double kTie = 1e-12;  // relative: levels as close are one, so that equals stay equal

}  // namespace

MaxMin::MaxMin(std::vector<double> capacity_bps, double tolerance)
    : ShareTable(capacity_bps.size()), tolerance_(tolerance) {
  for (size_t i = 0; i < links_.size(); ++i) links_[i].capacity = capacity_bps[i];
}

void MaxMin::list(uint32_t id) {
  const Group& group = groups_[id];
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use) {
    if (use_parts_[use] == 0) continue;
    ++links_[use_link_[use]].active;
    if (use_slot_[use] == kNone) list_at(use, id);
  }
}

// It has no flows, or will be listed elsewhere. It stays listed: often it has flows again before anyone looks.
void MaxMin::retire(uint32_t id) {
  const Group& group = groups_[id];
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use)
    if (use_parts_[use] != 0) --links_[use_link_[use]].active;
}

// Everything at the links of a changed group may have to move.
void MaxMin::change(uint32_t id) {
  Group& group = groups_[id];
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use)
    if (use_parts_[use] != 0 && !links_[use_link_[use]].seed) {
      links_[use_link_[use]].seed = true;
      seeds_.push_back(use_link_[use]);
    }
  if (group.changed) return;
  group.changed = true;
  changed_.push_back(id);
}

void MaxMin::set_flows(uint32_t id, uint32_t flows) {
  Group& group = groups_[id];
  if (group.flows == flows) return;
  change(id);
  const bool had_none = group.flows == 0;
  group.flows = flows;
  if (had_none) list(id);
  if (flows != 0) return;
  retire(id);
  group.rate = 0;
  group.bottleneck = kNone;
}

void MaxMin::set_parts(uint32_t id, std::span<const uint16_t> parts, uint16_t of) {
  Group& group = groups_[id];
  const bool active = group.flows != 0;
  if (active) {
    change(id);
    retire(id);
  }
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use)
    if (use_slot_[use] != kNone) unlist_at(use);
  write_parts(group, parts, of);
  if (!active) return;
  list(id);
  change(id);
}

void MaxMin::set_capacity(uint32_t id, double capacity_bps) {
  Link& link = links_[id];
  link.capacity = capacity_bps;
  for (uint32_t slot = link.first_slot; slot < link.first_slot + link.listed; ++slot)
    if (groups_[slot_group_[slot]].flows != 0) change(slot_group_[slot]);
}

void MaxMin::begin(uint32_t id) {
  Link& link = links_[id];
  if (link.touched) return;
  link.touched = true;
  touched_.push_back(id);
  link.left = link.capacity;
  link.weight = link.held = 0;
  link.unfrozen = link.inside = 0;
  link.key = kNoKey;
}

// The load of all that are listed; those that are inside have changed and carry nothing.
void MaxMin::weigh_listed(uint32_t id) {
  Link& link = links_[id];
  if (link.inside == link.active) return;
  double load = 0;
  for (uint32_t slot = link.first_slot; slot < link.first_slot + link.listed;) {
    const Group& group = groups_[slot_group_[slot]];
    if (group.flows == 0) {
      unlist_at(slot_use_[slot]);
      continue;
    }
    load += weight(group, slot_use_[slot]) * group.rate;
    if (group.bottleneck == id) link.held = std::max(link.held, group.rate);
    ++slot;
  }
  link.left = link.capacity - load;
}

// Nothing at a link that has not been touched is inside.
void MaxMin::touch(uint32_t id) {
  if (links_[id].touched) return;
  begin(id);
  weigh_listed(id);
}

void MaxMin::take_in(uint32_t id) {
  Group& group = groups_[id];
  if (group.inside) return;
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use)
    if (use_parts_[use] != 0) touch(use_link_[use]);
  group.inside = true;
  group.frozen = false;
  inside_.push_back(id);
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use) {
    if (use_parts_[use] == 0) continue;
    Link& link = links_[use_link_[use]];
    const double mine = weight(group, use);
    ++link.unfrozen;
    ++link.inside;
    link.weight += mine;
    link.left += mine * group.rate;
    propose(use_link_[use]);
  }
  if (group.limit > 0) push({group.limit, id, true});
}

// What it had belongs to another number of flows. The others at its links have not been looked at yet.
void MaxMin::take_in_changed(uint32_t id) {
  Group& group = groups_[id];
  group.changed = false;
  group.rate = 0;
  group.bottleneck = kNone;
  if (group.flows == 0) return;
  group.inside = true;
  group.frozen = false;
  inside_.push_back(id);
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use) {
    if (use_parts_[use] == 0) continue;
    begin(use_link_[use]);
    Link& link = links_[use_link_[use]];
    ++link.unfrozen;
    ++link.inside;
    link.weight += weight(group, use);
  }
  if (group.limit > 0) candidates_.push_back({group.limit, id, true});
}

void MaxMin::push(const Candidate& candidate) {
  candidates_.push_back(candidate);
  std::push_heap(candidates_.begin(), candidates_.end(), above);
}

// The level at which something happens at the link: it is full, or those outside that it holds must be looked at.
double MaxMin::key(const Link& link) {
  const double full = link.unfrozen != 0 ? std::max(0.0, link.left) / link.weight : kNoKey;
  return link.held > 0 ? std::min(full, link.held) : full;
}

void MaxMin::propose(uint32_t id) {
  Link& link = links_[id];
  const double level = key(link);
  if (level >= link.key) return;
  link.key = level;
  push({level, id, false});
}

void MaxMin::seed_set() {
  candidates_.clear();
  for (const uint32_t id : changed_) take_in_changed(id);
  for (const uint32_t id : seeds_) {
    links_[id].seed = false;
    begin(id);
  }
  changed_.clear();
  seeds_.clear();
  for (const uint32_t id : touched_) {
    weigh_listed(id);
    links_[id].key = key(links_[id]);
    if (links_[id].key != kNoKey) candidates_.push_back({links_[id].key, id, false});
  }
  std::make_heap(candidates_.begin(), candidates_.end(), above);
}

void MaxMin::freeze(uint32_t id, double level, uint32_t bottleneck) {
  Group& group = groups_[id];
  group.frozen = true;
  group.wanted = level;
  group.next_bottleneck = bottleneck;
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use) {
    if (use_parts_[use] == 0) continue;
    Link& link = links_[use_link_[use]];
    const double mine = weight(group, use);
    link.left -= mine * level;
    link.weight -= mine;
    --link.unfrozen;
  }
}

// Progressive filling of what is inside, from the lowest level up. The level of a link rises while others freeze, so
// that an entry of the heap may come up too early and goes back in; it falls when a flow is taken in, but never below
// the present level, as that flow was at least as fast: then a second entry is made, and the first is out of date.
void MaxMin::fill() {
  double level = 0;
  const auto raise = [&level](double to) { level = to > level * (1 + kTie) ? to : level; };
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), above);
    const Candidate first = candidates_.back();
    candidates_.pop_back();
    if (first.is_limit) {
      if (groups_[first.of].frozen) continue;
      raise(groups_[first.of].limit);
      freeze(first.of, level, kNone);
      continue;
    }
    Link& link = links_[first.of];
    if (first.level != link.key) continue;
    link.key = kNoKey;
    const double now = key(link);
    if (now > first.level * (1 + kTie) && !candidates_.empty() && now > candidates_.front().level) {
      propose(first.of);
      continue;
    }
    if (now == kNoKey) continue;
    raise(now);
    if (link.held > 0 && link.held == now)
      release_held(first.of);
    else if (!take_in_faster(first.of, now))
      freeze_link(first.of, level);
  }
}

// Level `held` has come: does the link still fill up at it? If not, those it held may rise with the others.
void MaxMin::release_held(uint32_t id) {
  Link& link = links_[id];
  const double held = link.held;
  link.held = 0;
  const bool still =
      link.unfrozen != 0 ? link.left / link.weight <= held * (1 + tolerance_) : link.left <= link.capacity * tolerance_;
  if (!still)
    for (uint32_t slot = link.first_slot; slot < link.first_slot + link.listed; ++slot)
      if (groups_[slot_group_[slot]].bottleneck == id) take_in(slot_group_[slot]);
  propose(id);
}

// Who is outside and faster than this link now lets the others be must give way.
bool MaxMin::take_in_faster(uint32_t id, double level) {
  const Link& link = links_[id];
  if (link.inside == link.active) return false;
  bool any = false;
  for (uint32_t slot = link.first_slot; slot < link.first_slot + link.listed; ++slot) {
    const Group& group = groups_[slot_group_[slot]];
    if (group.inside || group.rate <= level * (1 + tolerance_)) continue;
    take_in(slot_group_[slot]);
    any = true;
  }
  if (any) propose(id);
  return any;
}

void MaxMin::freeze_link(uint32_t id, double level) {
  const Link& link = links_[id];
  for (uint32_t slot = link.first_slot; link.unfrozen != 0; ++slot) {
    const Group& group = groups_[slot_group_[slot]];
    if (group.inside && !group.frozen) freeze(slot_group_[slot], level, id);
  }
}

void MaxMin::commit() {
  moved_.clear();
  for (const uint32_t id : inside_) {
    Group& group = groups_[id];
    group.inside = false;
    group.bottleneck = group.next_bottleneck;
    if (group.wanted != group.rate || group.rate == 0) moved_.push_back(id);  // 0: perhaps since seed_set()
    group.rate = group.wanted;
  }
  for (const uint32_t link : touched_) links_[link].touched = false;
  inside_.clear();
  touched_.clear();
}

std::span<const uint32_t> MaxMin::update() {
  seed_set();
  fill();
  commit();
  return moved_;
}

size_t MaxMin::bytes() const {
  const size_t lists =
      changed_.capacity() + seeds_.capacity() + inside_.capacity() + touched_.capacity() + moved_.capacity();
  return table_bytes() + lists * sizeof(uint32_t) + candidates_.capacity() * sizeof(Candidate);
}

}  // namespace orrery::sim
