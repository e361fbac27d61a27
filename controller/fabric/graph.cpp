#include "controller/fabric/graph.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <unordered_set>

#include "common/abi/ecmp_hash_abi.h"
#include "common/base/digest.h"
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

// Cables between switches only, by switch_index: what route tables follow from.
class SwitchMesh {
 public:
  struct Way {
    uint32_t to;
    LinkId link;
  };

  SwitchMesh(std::span<const Node> nodes, std::span<const Link> links, std::span<const uint32_t> switch_index) {
    for (const Node& node : nodes) {
      if (node.kind != NodeKind::kSwitch) continue;
      first_.push_back(ways_.size());
      for (const LinkId id : node.egress)
        if (const uint32_t to = switch_index[links[id].to]; to != kNone) ways_.push_back({to, id});
    }
    first_.push_back(ways_.size());
  }

  size_t size() const { return first_.size() - 1; }
  // In the order of the ports.
  std::span<const Way> ways(uint32_t at) const { return {ways_.data() + first_[at], first_[at + 1] - first_[at]}; }

  // Links between each switch and `target`; kNone where there is no way. Hosts do not forward.
  void hops_to(uint32_t target, std::vector<uint32_t>& hops) const {
    hops.assign(size(), kNone);
    std::vector<uint32_t> frontier{target};
    hops[target] = 0;
    for (size_t next = 0; next < frontier.size(); ++next)
      for (const Way& way : ways(frontier[next])) {
        if (hops[way.to] != kNone) continue;
        hops[way.to] = hops[frontier[next]] + 1;
        frontier.push_back(way.to);
      }
  }

 private:
  std::vector<size_t> first_;  // into ways_
  std::vector<Way> ways_;
};

constexpr uint32_t kSecondDraw = 0x9e3779b9;  // of a flow whose member is down: orrery_ecmp_live_member()

// orrery_ecmp_live_member(), also for groups larger than its masks hold.
LinkId live_member(uint32_t hash, std::span<const LinkId> group, std::span<const Link> links) {
  const LinkId first = group[orrery_ecmp_member(hash, static_cast<uint32_t>(group.size()))];
  if (links[first].up) return first;
  std::vector<LinkId> live;
  std::copy_if(group.begin(), group.end(), std::back_inserter(live), [&](LinkId link) { return links[link].up; });
  if (live.empty()) return kNone;
  return live[orrery_ecmp_member(orrery_hash_round(hash, kSecondDraw), static_cast<uint32_t>(live.size()))];
}

}  // namespace

Graph Graph::build(const Topology& topology) {
  Graph graph;
  graph.name_ = topology.name;
  graph.add_nodes(topology);
  graph.add_links(topology);
  graph.build_groups();
  return graph;
}

uint64_t Graph::fingerprint() const {
  Digest digest;
  for (const Node& node : nodes_) digest.add(node.name);
  for (const Link& link : links_) {
    digest.add(uint64_t{link.from} << 32 | link.to);
    digest.add(link.port);
    digest.add(link.rate_bps);
  }
  for (const Nic& nic : nics_) digest.add(nic.address.to_string());
  return digest.value();
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
  std::vector<size_t> next_port(nodes_.size());  // cables mostly come in the order of the ports
  const auto port_of = [&](NodeId node, const std::string& name) -> const Port& {
    const bool is_host = nodes_[node].kind == NodeKind::kHost;
    const auto& ports = is_host ? topology.hosts[node - topology.switches.size()].nics : topology.switches[node].ports;
    size_t& next = next_port[node];
    for (size_t tried = 0; tried < ports.size(); ++tried, ++next) {
      if (next >= ports.size()) next = 0;
      if (ports[next].name == name) return ports[next++];
    }
    std::abort();  // the topology was not validated
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
  const SwitchMesh mesh(nodes_, links_, switch_index_);
  std::unordered_map<std::vector<LinkId>, uint32_t, GroupHash> known{{{}, 0}};
  std::vector<LinkId> group;
  std::vector<uint32_t> hops;
  for (size_t row = 0; row < edges.size(); ++row) {
    mesh.hops_to(switch_index_[edges[row]], hops);
    for (uint32_t at = 0; at < mesh.size(); ++at) {
      if (hops[at] == kNone || hops[at] == 0) continue;
      group.clear();
      for (const SwitchMesh::Way& way : mesh.ways(at))
        if (hops[way.to] + 1 == hops[at]) group.push_back(way.link);
      auto entry = known.find(group);
      if (entry == known.end()) {
        entry = known.emplace(group, static_cast<uint32_t>(groups_.size())).first;
        groups_.push_back(group);
      }
      group_of_[row * switch_count_ + at] = entry->second;
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
    const uint32_t hash =
        orrery_ecmp_hash(node.hash_seed, *src_v4, *dst_v4, tuple.src_port, tuple.dst_port, tuple.protocol);
    const LinkId link = live_member(hash, group, links_);
    if (link == kNone) return std::nullopt;
    path.push_back(link);
  }
  return path;
}

}  // namespace orrery::fabric
