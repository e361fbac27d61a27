// The fabric as a graph: hosts, switches and directed links. What the planner, the drivers, the lab and the simulator
// share.
//
// A Link is one direction of a cable, that is, one egress port: `leaf1:p5` names the link that leaves leaf1 by port p5.
// Ids are dense indices, stable for the life of the Graph. The shape never changes after build(); link state (up,
// drained, rate) does. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"

namespace orrery::fabric {

struct Topology;  // topology.h: the parsed file

using NodeId = uint32_t;
using LinkId = uint32_t;
inline constexpr uint32_t kNone = 0xffffffff;

enum class NodeKind : uint8_t { kHost, kSwitch };

struct Node {
  std::string name;
  NodeKind kind = NodeKind::kSwitch;
  uint32_t tier = 0;           // 0 host, 1 leaf, 2 spine, ...
  uint32_t hash_seed = 0;      // switches
  uint8_t hash_function = 0;   // enum orrery_hash_function
  std::vector<LinkId> egress;  // in the order of the ports in the topology file: the order of ECMP group members
};

struct Link {
  NodeId from = kNone;
  NodeId to = kNone;
  LinkId reverse = kNone;
  std::string port;       // name of the egress port on `from`
  std::string peer_port;  // name of the port on `to`
  uint64_t rate_bps = 0;
  uint64_t queue_bytes = 0;  // of the egress queue
  bool up = true;
  bool drained = false;  // by the operator: not used for new plans
  bool usable() const { return up && !drained; }
};

struct Nic {
  NodeId host = kNone;
  std::string name;
  IpAddress address;
  LinkId uplink = kNone;  // host -> leaf
};

// Links from the source host's NIC to the destination host, in order.
using Path = std::vector<LinkId>;

class Graph {
 public:
  // Precondition: `topology` passed validate().
  static Graph build(const Topology& topology);

  const std::string& name() const { return name_; }  // of the topology file
  // Of names, cables, rates and addresses, not of link state: the same number, the same fabric.
  uint64_t fingerprint() const;
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Link> links() const { return links_; }
  std::span<const Nic> nics() const { return nics_; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  const Link& link(LinkId id) const { return links_[id]; }
  std::optional<NodeId> find_node(std::string_view name) const;
  // "leaf1:p5"
  std::optional<LinkId> find_link(std::string_view egress_port) const;
  std::string link_name(LinkId id) const;
  const Nic* find_nic(const IpAddress& address) const;
  std::vector<std::string> path_names(const Path& path) const;
  // The way back over the same cables: what the ACKs of a flow on `path` take when they are planned with it.
  Path reversed(const Path& path) const;

  void set_link_up(LinkId id, bool up) { links_[id].up = up; }
  void set_link_drained(LinkId id, bool drained) { links_[id].drained = drained; }
  // For what-if questions: not limited as rates of files are. Precondition: not 0.
  void set_link_rate(LinkId id, uint64_t rate_bps) { links_[id].rate_bps = rate_bps; }

  // Equal-cost group of switch `at` towards `nic`, in member order, whatever the state of its links (shortest paths of
  // the full topology, as the switch's route table has them). Empty when there is no way.
  std::span<const LinkId> next_hops(NodeId at, const Nic& nic) const;

  // All shortest paths of the full topology between two NICs whose links are all usable(), at most `limit`, in a fixed
  // order (that of the group members at each switch, first hop first). Empty when there is none, and from a NIC to
  // itself.
  std::vector<Path> paths(const Nic& src, const Nic& dst, size_t limit = 1024) const;

  // The path an unplanned flow takes by ECMP, given seeds and link state (up; drained links still carry what nobody
  // planned); nothing when an address is unknown, some group has no live member, or a switch with a choice hashes by no
  // known function. IPv4 only: nothing for IPv6, as orrery-switch routes IPv4.
  std::optional<Path> ecmp_path(const FiveTuple& tuple) const;

 private:
  void add_nodes(const Topology& topology);
  void add_links(const Topology& topology);
  void build_groups();

  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<Nic> nics_;
  std::unordered_map<std::string, NodeId> node_by_name_;
  std::unordered_map<std::string, LinkId> link_by_name_;
  std::unordered_map<IpAddress, uint32_t> nic_by_address_;
  // Equal-cost groups per destination edge switch, not per host, and each distinct group stored once: tens of thousands
  // of hosts fit.
  std::vector<uint32_t> edge_index_;    // by NodeId: row of a switch that has hosts, else kNone
  std::vector<uint32_t> switch_index_;  // by NodeId: column of a switch, else kNone
  size_t switch_count_ = 0;
  std::vector<uint32_t> group_of_;           // [row * switch_count_ + column] -> groups_
  std::vector<std::vector<LinkId>> groups_;  // [0] is empty
};

}  // namespace orrery::fabric
