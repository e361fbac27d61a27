#include "tools/sim/fluid/flow_groups.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery::sim {

FlowGroups::Spread FlowGroups::spread_of(const QueuePair& qp) {
  if (qp.path_count == 1 || qp.policy == PathPolicy::kStatic || qp.policy == PathPolicy::kFlowlet) return Spread::kOne;
  return qp.policy == PathPolicy::kRecycle ? Spread::kAllThatWork : Spread::kAll;
}

FlowGroups::FlowGroups(const Program& program, Shares& rates) : program_(program), rates_(rates) {
  rates.reserve(program.qps.size(), 4 * program.qps.size());
  groups_.reserve(program.qps.size());
  group_of_.reserve(program.qps.size());
  std::vector<uint32_t> alone(program.paths.size(), kNone);  // groups of one path at full rate
  std::map<std::tuple<std::vector<uint32_t>, Spread, uint64_t>, uint32_t> others;
  for (const QueuePair& qp : program.qps) {
    if (qp.path_count == 1 && qp.pace_bps == 0) {
      uint32_t& group = alone[program.qp_paths[qp.first_path]];
      if (group == kNone) group = add(qp);
      group_of_.push_back(group);
      continue;
    }
    const auto first = program.qp_paths.begin() + qp.first_path;
    const auto [found, is_new] = others.try_emplace(
        {std::vector<uint32_t>(first, first + qp.path_count), spread_of(qp), qp.pace_bps}, uint32_t{0});
    if (is_new) found->second = add(qp);
    group_of_.push_back(found->second);
  }
  rates.seal();
}

uint32_t FlowGroups::add(const QueuePair& qp) {
  const Group group{qp.first_path, qp.path_count, program_.qp_paths[qp.first_path], 0, qp.pace_bps, spread_of(qp)};
  groups_.push_back(group);
  links_.clear();
  for (uint32_t i = 0; i < qp.path_count; ++i)
    for (const uint32_t link : program_.paths[program_.qp_paths[qp.first_path + i]].links)
      if (link != kNone) links_.push_back(link);
  if (qp.path_count > 1) {
    std::sort(links_.begin(), links_.end());
    links_.erase(std::unique(links_.begin(), links_.end()), links_.end());
  }
  count_parts(group, links_);
  return rates_.add_group(links_, parts_, of_, static_cast<double>(qp.pace_bps));
}

// parts_ by position in `links`, of of_.
void FlowGroups::count_parts(const Group& group, std::span<const uint32_t> links) {
  parts_.assign(links.size(), 0);
  const auto add_path = [&](uint32_t path) {
    for (const uint32_t link : program_.paths[path].links)
      if (link != kNone) ++parts_[static_cast<size_t>(std::find(links.begin(), links.end(), link) - links.begin())];
  };
  of_ = 0;
  if (group.spread != Spread::kOne)
    for (uint32_t i = 0; i < group.path_count; ++i) {
      const uint32_t path = program_.qp_paths[group.first_path + i];
      if (!is_live(group, path)) continue;
      ++of_;
      add_path(path);
    }
  if (of_ != 0) return;
  of_ = 1;
  add_path(group.path);
}

bool FlowGroups::is_live(const Group& group, uint32_t path) const {
  const std::vector<uint8_t>& dead = group.spread == Spread::kAllThatWork ? dead_ : known_dead_;
  if (dead.empty()) return true;
  for (const uint32_t link : program_.paths[path].links)
    if (link != kNone && dead[link] != 0) return false;
  return true;
}

// As the packet engine: stays while it can, else takes the next in turn; none left: stays.
bool FlowGroups::choose(Group& group) {
  if (is_live(group, group.path)) return false;
  for (uint32_t i = 1; i < group.path_count; ++i) {
    const uint32_t position = (group.position + i) % group.path_count;
    const uint32_t path = program_.qp_paths[group.first_path + position];
    if (!is_live(group, path)) continue;
    group.position = position;
    group.path = path;
    return true;
  }
  return false;
}

void FlowGroups::set_dead(uint32_t link, bool dead, bool physically, std::vector<uint32_t>& moved) {
  std::vector<uint8_t>& state = physically ? dead_ : known_dead_;
  if (state.empty()) {
    uint32_t highest = link;
    for (const PathLinks& path : program_.paths)
      for (const uint32_t used : path.links)
        if (used != kNone) highest = std::max(highest, used);
    state.resize(highest + 1);
  }
  if (link >= state.size()) state.resize(link + 1);
  state[link] = dead;
  for (uint32_t id = 0; id < groups_.size(); ++id) {
    Group& group = groups_[id];
    if (group.path_count == 1 || (group.spread == Spread::kAllThatWork) != physically) continue;
    const auto links = rates_.links(id);
    if (std::find(links.begin(), links.end(), link) == links.end()) continue;
    if (choose(group) || group.spread != Spread::kOne) moved.push_back(id);
  }
}

void FlowGroups::give_parts(uint32_t id) {
  count_parts(groups_[id], rates_.links(id));
  rates_.set_parts(id, parts_, of_);
}

size_t FlowGroups::bytes() const {
  return groups_.capacity() * sizeof(Group) + group_of_.capacity() * sizeof(uint32_t);
}

}  // namespace orrery::sim
