#include "controller/planner/clos_colouring.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "controller/planner/colouring.h"

namespace orrery::planner {
namespace {

using fabric::Graph;
using fabric::kNone;
using fabric::Link;
using fabric::LinkId;
using fabric::NodeId;

class DenseIds {
 public:
  uint32_t operator()(NodeId node) { return ids_.try_emplace(node, static_cast<uint32_t>(ids_.size())).first->second; }

 private:
  std::unordered_map<NodeId, uint32_t> ids_;
};

// Switches above the leaves that links join, each set known by the least of them: the planes, or single spines.
class Planes {
 public:
  explicit Planes(const Graph& fabric) : above_(fabric.nodes().size()) {
    std::iota(above_.begin(), above_.end(), 0u);
    for (const Link& link : fabric.links())
      if (link.usable() && fabric.node(link.from).tier > 1 && fabric.node(link.to).tier > 1) join(link.from, link.to);
  }
  NodeId of(NodeId node) {
    while (above_[node] != node) node = above_[node] = above_[above_[node]];
    return node;
  }

 private:
  void join(NodeId a, NodeId b) {
    a = of(a), b = of(b);
    above_[std::max(a, b)] = std::min(a, b);
  }
  std::vector<NodeId> above_;
};

// What one core passes through. `top` is the core switch, kNone where two leaves of one pod meet below it.
struct Way {
  NodeId plane = kNone;
  NodeId top = kNone;
  uint32_t core = 0;
  NodeId rising = kNone;   // the plane's switch in the source's pod
  NodeId falling = kNone;  // and in the destination's
  auto place() const { return std::tuple(plane, top); }
};

// The ways of one pair of leaves, by plane and core switch.
using Ways = std::vector<Way>;

std::vector<NodeId> distinct(std::vector<NodeId> nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

uint32_t index_in(const std::vector<NodeId>& nodes, NodeId node) {
  return static_cast<uint32_t>(std::lower_bound(nodes.begin(), nodes.end(), node) - nodes.begin());
}

class ClosColouring {
 public:
  explicit ClosColouring(const Problem& problem)
      : problem_(problem), fabric_(*problem.fabric), planes_(fabric_), choice_(problem.items.size(), 0) {}

  std::optional<Choice> run() {
    if (!read()) return std::nullopt;
    if (items_.empty()) return choice_;
    const std::vector<uint32_t> plane_of = colour_planes();
    std::vector<std::vector<uint32_t>> crossing(plane_names_.size());  // by plane: items that pass a core switch
    for (size_t at = 0; at < items_.size(); ++at) {
      const uint32_t item = items_[at];
      const Way* way = first_way(item, plane_names_[plane_of[at]]);
      choice_[item] = way == nullptr ? kNoChoice : way->core;
      if (way != nullptr && way->top != kNone) crossing[plane_of[at]].push_back(item);
    }
    for (size_t plane = 0; plane < crossing.size(); ++plane)
      if (!crossing[plane].empty()) colour_tops(plane_names_[plane], crossing[plane]);
    return std::move(choice_);
  }

 private:
  // False: it is no such problem.
  bool read() {
    uint64_t weight = 0;
    for (uint32_t index = 0; index < problem_.items.size(); ++index) {
      const Item& item = problem_.items[index];
      if (item.cores->front().empty()) continue;
      if (weight == 0) weight = item.weight;
      if (item.weight != weight) return false;
      const auto [entry, fresh] = ways_.try_emplace(item.cores);
      if (fresh && !read_ways(*item.cores, entry->second)) return false;
      items_.push_back(index);
    }
    for (const auto& [plane, tops] : tops_) plane_names_.push_back(plane);
    plane_names_ = distinct(std::move(plane_names_));
    for (auto& [plane, tops] : tops_) tops = distinct(std::move(tops));
    return true;
  }

  bool read_ways(const std::vector<Core>& cores, Ways& ways) {
    for (uint32_t index = 0; index < cores.size(); ++index) {
      const Core& core = cores[index];
      if ((core.size() != 2 && core.size() != 4) || core.size() != cores.front().size()) return false;
      for (size_t hop = 0; hop < core.size(); ++hop)
        if (!plain(core[hop], core.size() == 4 && (hop == 1 || hop == 2))) return false;
      Way way{.core = index, .rising = fabric_.link(core.front()).to, .falling = fabric_.link(core.back()).from};
      way.plane = planes_.of(way.rising);
      if (core.size() == 4) way.top = fabric_.link(core[1]).to;
      ways.push_back(way);
      std::vector<NodeId>& tops = tops_[way.plane];
      if (way.top != kNone) tops.push_back(way.top);
    }
    std::sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.place() < b.place(); });
    for (size_t at = 1; at < ways.size(); ++at) {
      const Way &before = ways[at - 1], &way = ways[at];
      if (before.place() == way.place()) return false;
      if (before.plane == way.plane && (before.rising != way.rising || before.falling != way.falling)) return false;
    }
    return true;
  }

  bool plain(LinkId link, bool upper) {
    const uint64_t rate = fabric_.link(link).rate_bps;
    if (rate_[upper] == 0) rate_[upper] = rate;
    return rate == rate_[upper] && problem_.fixed_bytes[link] == 0;
  }

  std::vector<uint32_t> colour_planes() {
    DenseIds sources, destinations;
    std::vector<Edge> edges;
    for (const uint32_t item : items_) {
      const Item& what = problem_.items[item];
      Edge edge{sources(fabric_.link(what.up).to), destinations(fabric_.link(what.down).from)};
      if (const Way* way = preferred_way(item)) edge.preferred = index_in(plane_names_, way->plane);
      edges.push_back(edge);
    }
    return colour_edges(edges, static_cast<uint32_t>(plane_names_.size()), problem_.phase);
  }

  void colour_tops(NodeId plane, const std::vector<uint32_t>& items) {
    const std::vector<NodeId>& tops = tops_.at(plane);
    DenseIds rising, falling;
    std::vector<Edge> edges;
    for (const uint32_t item : items) {
      const Way* any = first_way(item, plane);
      Edge edge{rising(any->rising), falling(any->falling)};
      if (const Way* way = preferred_way(item); way != nullptr && way->plane == plane)
        edge.preferred = index_in(tops, way->top);
      edges.push_back(edge);
    }
    const std::vector<uint32_t> top_of = colour_edges(edges, static_cast<uint32_t>(tops.size()), problem_.phase);
    for (size_t at = 0; at < items.size(); ++at) {
      const Ways& ways = ways_.at(problem_.items[items[at]].cores);
      const auto found =
          std::find_if(ways.begin(), ways.end(),
                       [place = std::tuple(plane, tops[top_of[at]])](const Way& way) { return way.place() == place; });
      choice_[items[at]] = found == ways.end() ? kNoChoice : found->core;
    }
  }

  const Way* first_way(uint32_t item, NodeId plane) const {
    const Ways& ways = ways_.at(problem_.items[item].cores);
    const auto found = std::find_if(ways.begin(), ways.end(), [&](const Way& way) { return way.plane == plane; });
    return found == ways.end() ? nullptr : &*found;
  }
  const Way* preferred_way(uint32_t item) const {
    const Item& what = problem_.items[item];
    const uint32_t core = what.current != kNoChoice ? what.current : what.home;
    if (core == kNoChoice) return nullptr;
    const Ways& ways = ways_.at(problem_.items[item].cores);
    const auto found = std::find_if(ways.begin(), ways.end(), [&](const Way& way) { return way.core == core; });
    return found == ways.end() ? nullptr : &*found;
  }

  const Problem& problem_;
  const Graph& fabric_;
  Planes planes_;
  Choice choice_;
  std::vector<uint32_t> items_;                              // that have a choice to make
  std::unordered_map<const std::vector<Core>*, Ways> ways_;  // by pair of leaves
  std::unordered_map<NodeId, std::vector<NodeId>> tops_;     // by plane: its core switches, ascending
  std::vector<NodeId> plane_names_;                          // ascending
  uint64_t rate_[2] = {0, 0};                                // at leaves, and above
};

}  // namespace

std::optional<Choice> colour_clos(const Problem& problem) {
  return ClosColouring(problem).run();
}

}  // namespace orrery::planner
