#include "controller/planner/teams.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace orrery::planner {
namespace {

struct Team {
  double alone_s = 0;  // what its busiest NIC needs
  bool repeats = false;
};

}  // namespace

Teams::Teams(const fabric::Graph& fabric, const std::vector<ResolvedFlow>& flows)
    : fabric_(fabric), flows_(flows), team_(flows.size()) {
  std::vector<fabric::NodeId> parent(fabric.nodes().size());
  std::iota(parent.begin(), parent.end(), fabric::NodeId{0});
  const auto root = [&](fabric::NodeId host) {
    while (parent[host] != host) host = parent[host] = parent[parent[host]];
    return host;
  };
  std::map<uint64_t, fabric::NodeId> communicators;
  for (const ResolvedFlow& flow : flows) {
    const fabric::NodeId host = root(flow.src->host);
    parent[root(flow.dst->host)] = host;
    const auto [first, fresh] = communicators.try_emplace(flow.demand->comm_id, host);
    if (!fresh && flow.demand->comm_id != 0) parent[root(first->second)] = root(host);
  }
  for (size_t index = 0; index < flows.size(); ++index) team_[index] = root(flows[index].src->host);
  one_ = std::all_of(team_.begin(), team_.end(), [this](fabric::NodeId team) { return team == team_.front(); });
}

std::vector<double> Teams::weights(std::span<const uint32_t> indices) const {
  if (one_) return {};
  std::map<fabric::LinkId, double> seconds;  // by link of a NIC
  const auto each_end = [&](uint32_t index, const auto& visit) {
    for (const fabric::LinkId link : {flows_[index].src->uplink, flows_[index].down})
      if (link != fabric::kNone) visit(link);
  };
  for (const uint32_t index : indices)
    each_end(index, [&](fabric::LinkId link) {
      const auto rate_bps = static_cast<double>(std::max<uint64_t>(1, fabric_.link(link).rate_bps));
      seconds[link] += static_cast<double>(planned_bytes(*flows_[index].demand)) * 8 / rate_bps;
    });
  std::map<fabric::NodeId, Team> teams;
  for (const uint32_t index : indices) {
    Team& team = teams[team_[index]];
    team.repeats |= flows_[index].demand->comm_id != 0;
    each_end(index, [&](fabric::LinkId link) { team.alone_s = std::max(team.alone_s, seconds[link]); });
  }
  double longest_s = 0;
  for (const auto& [host, team] : teams) longest_s = std::max(longest_s, team.repeats ? team.alone_s : 0);
  std::vector<double> weights;
  for (const uint32_t index : indices) {
    const Team& team = teams[team_[index]];
    weights.push_back(team.repeats && team.alone_s > 0 ? longest_s / team.alone_s : 1);
  }
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 1; })) weights.clear();
  return weights;
}

}  // namespace orrery::planner
