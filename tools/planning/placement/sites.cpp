#include "tools/planning/placement/sites.h"

#include <unordered_map>

namespace orrery::planning {
namespace {

constexpr uint8_t kFar = 16;

// Along any one of the shortest paths.
uint8_t cables_between(const fabric::Graph& graph, fabric::NodeId from, const fabric::Nic& to) {
  const fabric::NodeId end = graph.link(to.uplink).to;
  uint8_t count = 0;
  for (fabric::NodeId at = from; at != end; ++count) {
    const auto hops = graph.next_hops(at, to);
    if (hops.empty() || count == kFar) return kFar;
    at = graph.link(hops[0]).to;
  }
  return count;
}

}  // namespace

Sites::Sites(const fabric::Graph& graph) {
  std::unordered_map<fabric::NodeId, uint32_t> leaf_of_node;
  std::vector<fabric::NodeId> nodes;
  std::vector<const fabric::Nic*> first;
  for (const fabric::Nic& nic : graph.nics()) {
    const fabric::NodeId leaf = graph.link(nic.uplink).to;
    const auto [known, fresh] = leaf_of_node.emplace(leaf, static_cast<uint32_t>(nodes.size()));
    if (fresh) {
      nodes.push_back(leaf);
      first.push_back(&nic);
    }
    leaf_of_.push_back(known->second);
    host_of_.push_back(nic.host);
  }
  cables_.resize(nodes.size() * nodes.size());
  for (size_t a = 0; a < nodes.size(); ++a)
    for (size_t b = 0; b < nodes.size(); ++b)
      cables_[a * nodes.size() + b] = cables_between(graph, nodes[a], *first[b]);
  constexpr uint32_t kUnset = 0xffffffff;
  pod_of_.assign(nodes.size(), kUnset);
  for (uint32_t a = 0; a < nodes.size(); ++a) {
    if (pod_of_[a] != kUnset) continue;
    for (uint32_t b = a; b < nodes.size(); ++b)
      if (pod_of_[b] == kUnset && cables(a, b) <= 2) pod_of_[b] = pods_;
    ++pods_;
  }
}

Sites Sites::of_every(uint32_t n) const {
  Sites out = *this;
  out.leaf_of_.clear();
  out.host_of_.clear();
  for (uint32_t nic = 0; nic + n <= nics(); nic += n) {
    out.leaf_of_.push_back(leaf_of_[nic]);
    out.host_of_.push_back(host_of_[nic]);
  }
  return out;
}

}  // namespace orrery::planning
