#include "controller/fabric/graph.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

#include "common/abi/ecmp_hash_abi.h"
#include "controller/fabric/topology.h"

namespace orrery::fabric {
namespace {

struct GroupHash {
  size_t operator()(const std::vector<LinkId>& group) const noexcept {
    uint64_t hash = group.size();
    for (LinkId link : group) hash = (hash ^ link) * 0x9e3779b97f4a7c15ull, hash ^= hash >> 29;
    return hash;
  }
};

// Links between the switches of `nodes` and `target`, by node; kNone where there is no way. Hosts do not forward.
std::vector<uint32_t> hops_to(NodeId target, std::span<const Node> nodes, std::span<const Link> links) {
  std::vector<uint32_t> hops(nodes.size(), kNone);
  std::vector<NodeId> frontier{target};
  hops[target] = 0;
  for (size_t next = 0; next < frontier.size(); ++next) {
    const NodeId at = frontier[next];
    for (LinkId id : nodes[at].egress) {
      const NodeId neighbour = links[id].to;
      if (nodes[neighbour].kind != NodeKind::kSwitch || hops[neighbour] != kNone) continue;
      hops[neighbour] = hops[at] + 1;
      frontier.push_back(neighbour);
    }
  }
  return hops;
}

}  // namespace

Graph Graph::build(const Topology& topology) {
  Graph graph;
  graph.add_nodes(topology);
  graph.add_links(topology);
  graph.build_groups();
  return graph;
}

void Graph::add_nodes(const Topology& topology) {
  for (const SwitchSpec& spec : topology.switches) {
    Node node;
    node.name = spec.name;
    node.tier = spec.tier;
    node.hash_seed = spec.hash_seed;
    node.hash_function = spec.hash_function;
    node_by_name_.emplace(spec.name, static_cast<NodeId>(nodes_.size()));
    nodes_.push_back(std::move(node));
  }
  for (const HostSpec& spec : topology.hosts) {
    Node node;
    node.name = spec.name;
    node.kind = NodeKind::kHost;
    node_by_name_.emplace(spec.name, static_cast<NodeId>(nodes_.size()));
    nodes_.push_back(std::move(node));
  }
}

void Graph::add_links(const Topology& topology) {
  const auto port_of = [&](NodeId node, const std::string& name) -> const Port& {
    const bool is_host = nodes_[node].kind == NodeKind::kHost;
    const auto& ports = is_host ? topology.hosts[node - topology.switches.size()].nics : topology.switches[node].ports;
    const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
    if (found == ports.end()) std::abort();  // the topology was not validated
    return *found;
  };
  const auto add = [&](const PortRef& from, const PortRef& to) {
    Link link;
    link.from = node_by_name_.at(from.node);
    link.to = node_by_name_.at(to.node);
    link.port = from.port;
    link.peer_port = to.port;
    const Port& port = port_of(link.from, from.port);
    link.rate_bps = port.rate_bps;
    link.queue_bytes = port.queue_bytes;
    const LinkId id = static_cast<LinkId>(links_.size());
    link.reverse = id ^ 1;  // the two directions of a cable are neighbours
    link_by_name_.emplace(from.node + ":" + from.port, id);
    links_.push_back(std::move(link));
  };
  for (const Cable& cable : topology.links) {
    add(cable.a, cable.b);
    add(cable.b, cable.a);
  }
  const auto attach = [&](NodeId node, const std::vector<Port>& ports) {
    for (const Port& port : ports)
      if (const auto link = link_by_name_.find(nodes_[node].name + ":" + port.name); link != link_by_name_.end())
        nodes_[node].egress.push_back(link->second);
  };
  NodeId node = 0;
  for (const SwitchSpec& spec : topology.switches) attach(node++, spec.ports);
  for (const HostSpec& spec : topology.hosts) {
    attach(node, spec.nics);
    for (const Port& nic : spec.nics) {
      nic_by_address_.emplace(nic.address, static_cast<uint32_t>(nics_.size()));
      nics_.push_back({node, nic.name, nic.address, link_by_name_.at(spec.name + ":" + nic.name)});
    }
    ++node;
  }
}

void Graph::build_groups() {
  switch_index_.assign(nodes_.size(), kNone);
  edge_index_.assign(nodes_.size(), kNone);
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (nodes_[id].kind == NodeKind::kSwitch) switch_index_[id] = static_cast<uint32_t>(switch_count_++);
  std::vector<NodeId> edges;
  for (const Nic& nic : nics_) {
    const NodeId edge = links_[nic.uplink].to;
    if (edge_index_[edge] != kNone) continue;
    edge_index_[edge] = static_cast<uint32_t>(edges.size());
    edges.push_back(edge);
  }
  groups_.assign(1, {});
  group_of_.assign(edges.size() * switch_count_, 0);
  std::unordered_map<std::vector<LinkId>, uint32_t, GroupHash> known{{{}, 0}};
  std::vector<LinkId> group;
  for (size_t row = 0; row < edges.size(); ++row) {
    const std::vector<uint32_t> hops = hops_to(edges[row], nodes_, links_);
    for (NodeId at = 0; at < nodes_.size(); ++at) {
      if (switch_index_[at] == kNone || hops[at] == kNone || hops[at] == 0) continue;
      group.clear();
      for (LinkId id : nodes_[at].egress)
        if (hops[links_[id].to] != kNone && hops[links_[id].to] + 1 == hops[at]) group.push_back(id);
      const auto [entry, fresh] = known.emplace(group, static_cast<uint32_t>(groups_.size()));
      if (fresh) groups_.push_back(group);
      group_of_[row * switch_count_ + switch_index_[at]] = entry->second;
    }
  }
}

std::optional<NodeId> Graph::find_node(std::string_view name) const {
  const auto found = node_by_name_.find(std::string(name));
  return found == node_by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<LinkId> Graph::find_link(std::string_view egress_port) const {
  const auto found = link_by_name_.find(std::string(egress_port));
  return found == link_by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::string Graph::link_name(LinkId id) const {
  return nodes_[links_[id].from].name + ":" + links_[id].port;
}

const Nic* Graph::find_nic(const IpAddress& address) const {
  const auto found = nic_by_address_.find(address);
  return found == nic_by_address_.end() ? nullptr : &nics_[found->second];
}

std::vector<std::string> Graph::path_names(const Path& path) const {
  std::vector<std::string> names;
  for (LinkId id : path) names.push_back(link_name(id));
  return names;
}

Path Graph::reversed(const Path& path) const {
  Path back;
  for (auto id = path.rbegin(); id != path.rend(); ++id) back.push_back(links_[*id].reverse);
  return back;
}

std::span<const LinkId> Graph::next_hops(NodeId at, const Nic& nic) const {
  const Link& uplink = links_[nic.uplink];
  if (at == uplink.to) return {&uplink.reverse, 1};
  if (switch_index_[at] == kNone) return {};
  return groups_[group_of_[edge_index_[uplink.to] * switch_count_ + switch_index_[at]]];
}

std::vector<Path> Graph::paths(const Nic& src, const Nic& dst, size_t limit) const {
  std::vector<Path> found;
  if (src.uplink == dst.uplink || !links_[src.uplink].usable() || limit == 0) return found;
  struct Step {
    NodeId at;
    size_t next;  // member of the group at `at` to try next
    bool led_on;  // some member led to the destination
  };
  Path path{src.uplink};
  std::vector<Step> stack{{links_[src.uplink].to, 0, false}};
  std::unordered_set<NodeId>
      dead;  // switches no usable way leads on from: keeps failed fabrics from costing every combination
  while (!stack.empty() && found.size() < limit) {
    Step& step = stack.back();
    const auto group = next_hops(step.at, dst);
    if (step.next == group.size()) {
      const bool led_on = step.led_on;
      if (!led_on) dead.insert(step.at);
      stack.pop_back();
      path.pop_back();
      if (led_on && !stack.empty()) stack.back().led_on = true;
      continue;
    }
    const LinkId id = group[step.next++];
    if (!links_[id].usable() || dead.contains(links_[id].to)) continue;
    path.push_back(id);
    if (links_[id].to == dst.host) {
      step.led_on = true;
      found.push_back(path);
      path.pop_back();
    } else {
      stack.push_back({links_[id].to, 0, false});
    }
  }
  return found;
}

std::optional<Path> Graph::ecmp_path(const FiveTuple& tuple) const {
  const auto src_v4 = tuple.src.v4(), dst_v4 = tuple.dst.v4();
  const Nic* src = find_nic(tuple.src);
  const Nic* dst = find_nic(tuple.dst);
  if (!src_v4 || !dst_v4 || src == nullptr || dst == nullptr || src == dst || !links_[src->uplink].up)
    return std::nullopt;
  Path path{src->uplink};
  for (NodeId at = links_[src->uplink].to; at != dst->host; at = links_[path.back()].to) {
    const Node& node = nodes_[at];
    const auto group = next_hops(at, *dst);
    if (group.empty() || (group.size() > 1 && node.hash_function != ORRERY_HASH_MURMUR_5TUPLE)) return std::nullopt;
    uint64_t live = 0;
    for (size_t i = 0; i < group.size(); ++i) live |= static_cast<uint64_t>(links_[group[i]].up) << i;
    const uint32_t hash =
        orrery_ecmp_hash(node.hash_seed, *src_v4, *dst_v4, tuple.src_port, tuple.dst_port, tuple.protocol);
    const uint32_t member = orrery_ecmp_live_member(hash, static_cast<uint32_t>(group.size()), live);
    if (member == ORRERY_ECMP_NO_MEMBER) return std::nullopt;
    path.push_back(group[member]);
  }
  return path;
}

}  // namespace orrery::fabric
