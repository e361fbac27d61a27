#include "controller/fabric/topology_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "common/abi/ecmp_hash_abi.h"
#include "common/base/nearest_name.h"

namespace orrery::fabric {
namespace {

// A list of names for a message: the first few, then how many more.
std::string some_of(const std::vector<std::string_view>& names) {
  constexpr size_t kListed = 5;
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + std::min(names.size(), kListed), ", "));
  if (names.size() > kListed) text += fmt::format(" and {} more", names.size() - kListed);
  return text;
}

class UnionFind {
 public:
  explicit UnionFind(size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0); }
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<size_t> parent_;
};

class Checker {
 public:
  Checker(const Topology& topology, const Places& places, Mistakes& mistakes)
      : topology_(topology), places_(places), mistakes_(mistakes), planes_(topology.switches.size() + 1) {}

  void run() {
    check_name(topology_.name, places_.name, "name", kMaxNodeNameBytes);
    mtu_known_ = places_.mtu.readable && check_range(topology_.mtu_bytes, kMinMtuBytes, kMaxMtuBytes, "bytes",
                                                     places_.mtu.line, "mtu_bytes", mistakes_);
    check_count(topology_.switches.size(), kMaxSwitches, "switches");
    check_count(topology_.hosts.size(), kMaxHosts, "hosts");
    for (size_t i = 0; i < topology_.switches.size(); ++i) check_switch(i);
    for (size_t i = 0; i < topology_.hosts.size(); ++i) check_host(i);
    for (size_t i = 0; i < topology_.links.size(); ++i) check_cable(i);
    check_nics_cabled();
    check_reachable();
  }

 private:
  struct Element {  // a node by name
    bool is_host;
    size_t index;
    uint32_t line;
  };
  struct End {  // one end of a cable, resolved
    const Element* node = nullptr;
    size_t port = 0;
  };

  static std::string at_line(uint32_t line) { return line == 0 ? "" : fmt::format(" on line {}", line); }

  void check_count(size_t count, size_t most, std::string_view what) {
    if (count > most)
      mistakes_.add(0, std::string(what), fmt::format("{} of them; at most {} are supported", count, most));
  }

  bool check_name(const std::string& name, const Place& place, const std::string& key, size_t longest) {
    if (!place.readable) return false;
    const bool clean = std::all_of(name.begin(), name.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
    });
    if (name.empty() || name.size() > longest || !clean || !std::isalnum(static_cast<unsigned char>(name[0]))) {
      mistakes_.add(
          place.line, key,
          fmt::format("{} is not a usable name; use 1 to {} letters, digits, '-', '_' and '.', starting with a "
                      "letter or digit",
                      quoted(name), longest));
      return false;
    }
    return true;
  }

  void register_node(bool is_host, size_t index, const std::string& name, const Place& place, const std::string& key) {
    check_name(name, place, key + ".name", kMaxNodeNameBytes);
    if (name.empty()) return;
    const auto [known, fresh] = nodes_.emplace(name, Element{is_host, index, place.line});
    if (fresh) return;
    ambiguous_.insert(name);
    mistakes_.add(place.line, key + ".name",
                  fmt::format("the name {} is already taken by a {}{}; give every switch and host its own",
                              quoted(name), known->second.is_host ? "host" : "switch", at_line(known->second.line)));
  }

  void check_switch(size_t index) {
    const SwitchSpec& spec = topology_.switches[index];
    const NodePlaces& place = places_.switches[index];
    const std::string key = fmt::format("switches[{}]", label(spec.name, index));
    register_node(false, index, spec.name, place.name, key);
    if (place.tier.readable) check_range(spec.tier, 1, kMaxTier, "", place.tier.line, key + ".tier", mistakes_);
    if (spec.hash_function > ORRERY_HASH_MURMUR_5TUPLE)
      mistakes_.add(place.name.line, key + ".hash.function",
                    fmt::format("{} is not a hash function; use 'murmur-5tuple' or 'none'", spec.hash_function));
    check_ports(spec.ports, place, key, "ports", kMaxSwitchPorts);
  }

  void check_host(size_t index) {
    const HostSpec& spec = topology_.hosts[index];
    const NodePlaces& place = places_.hosts[index];
    const std::string key = fmt::format("hosts[{}]", label(spec.name, index));
    register_node(true, index, spec.name, place.name, key);
    check_ports(spec.nics, place, key, "nics", kMaxHostNics);
    for (size_t i = 0; i < spec.nics.size(); ++i)
      if (place.each_port[i].address.readable)
        check_address(spec.nics[i], place.each_port[i].address,
                      fmt::format("{}.nics[{}].address", key, label(spec.nics[i].name, i)),
                      spec.name + ":" + spec.nics[i].name);
  }

  void check_address(const Port& nic, const Place& place, const std::string& key, std::string owner) {
    const std::string text = nic.address.to_string();
    const auto v4 = nic.address.v4();
    const auto& bytes = nic.address.bytes();
    const bool multicast = v4 ? (*v4 >> 28) >= 0xe : bytes[0] == 0xff;
    const bool loopback = v4 ? (*v4 >> 24) == 127 : std::count(bytes.begin(), bytes.end(), 0) == 15 && bytes[15] == 1;
    if (nic.address.is_unspecified() || (v4 && (*v4 >> 24) == 0) || multicast || loopback) {
      mistakes_.add(place.line, key,
                    fmt::format("{} cannot be the address of a NIC; give it a unicast address such as 10.0.1.1", text));
      return;
    }
    const auto [known, fresh] = owners_.emplace(nic.address, std::pair(std::move(owner), place.line));
    if (!fresh)
      mistakes_.add(place.line, key,
                    fmt::format("{} is already the address of {}{}; give every NIC its own", text, known->second.first,
                                at_line(known->second.second)));
  }

  void check_ports(const std::vector<Port>& ports, const NodePlaces& place, const std::string& node_key,
                   std::string_view list, size_t most) {
    const std::string key = fmt::format("{}.{}", node_key, list);
    if (place.ports.readable && (ports.empty() || ports.size() > most))
      mistakes_.add(place.ports.line, key, fmt::format("{} of them; a node has 1 to {}", ports.size(), most));
    std::unordered_map<std::string_view, uint32_t> seen;
    for (size_t i = 0; i < ports.size(); ++i) {
      const Port& port = ports[i];
      const PortPlaces& where = place.each_port[i];
      const std::string port_key = fmt::format("{}[{}]", key, label(port.name, i));
      if (check_name(port.name, where.name, port_key + ".name", kMaxPortNameBytes)) {
        const auto [known, fresh] = seen.emplace(port.name, where.name.line);
        if (!fresh)
          mistakes_.add(where.name.line, port_key + ".name",
                        fmt::format("the name {} is already taken{} in this node; rename one", quoted(port.name),
                                    at_line(known->second)));
      }
      if (where.rate.readable)
        check_range(port.rate_bps, kMinRateBps, kMaxRateBps, "bit/s", where.rate.line, port_key + ".rate_bps",
                    mistakes_);
      if (where.queue.readable)
        check_queue(port.queue_bytes, mtu_known_ ? topology_.mtu_bytes : 0, where.queue.line, port_key + ".queue_bytes",
                    mistakes_);
    }
  }

  const std::vector<Port>& ports_of(const Element& node) const {
    return node.is_host ? topology_.hosts[node.index].nics : topology_.switches[node.index].ports;
  }
  const NodePlaces& places_of(const Element& node) const {
    return node.is_host ? places_.hosts[node.index] : places_.switches[node.index];
  }

  // Nothing when the reference leads nowhere, which is then reported.
  End resolve(const PortRef& ref, const Place& place, const std::string& key) {
    if (!place.readable) return {};
    const auto node = nodes_.find(ref.node);
    if (node == nodes_.end()) {
      mistakes_.add(place.line, key,
                    fmt::format("no switch or host is named {}{}", quoted(ref.node), node_hint(ref.node)));
      return {};
    }
    // Of two nodes of one name nobody knows which is meant; a node with too many ports is not searched: both are
    // reported.
    if (ambiguous_.contains(ref.node)) return {};
    const auto& ports = ports_of(node->second);
    if (ports.size() > kMaxSwitchPorts) return {&node->second, SIZE_MAX};
    const auto port = std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return p.name == ref.port; });
    if (port == ports.end()) {
      std::vector<std::string_view> names;
      for (const Port& p : ports) names.push_back(p.name);
      mistakes_.add(place.line, key,
                    fmt::format("{} has no port {}, only {}{}", ref.node, quoted(ref.port), some_of(names),
                                hint_or(ref.port, names, "; add the port or correct the link")));
      return {&node->second, SIZE_MAX};
    }
    return {&node->second, static_cast<size_t>(port - ports.begin())};
  }

  std::string node_hint(const std::string& wrong) {
    constexpr std::string_view kNoHint = "; define it or correct the link";
    constexpr size_t kBudget = 2'000'000;  // names compared in all: keeps a large broken file from taking minutes
    if (mistakes_.full() || hints_spent_ + nodes_.size() > kBudget) return std::string(kNoHint);
    hints_spent_ += nodes_.size();
    std::vector<std::string_view> names;
    for (const auto& [name, node] : nodes_) names.push_back(name);
    std::sort(names.begin(), names.end());
    return hint_or(wrong, names, kNoHint);
  }

  void check_cable(size_t index) {
    const Cable& cable = topology_.links[index];
    const CablePlaces& place = places_.links[index];
    const std::string key = fmt::format("links[{}]", index);
    const End a = resolve(cable.a, place.a, key);
    const End b = resolve(cable.b, place.b, key);
    const bool whole = a.node != nullptr && b.node != nullptr && a.port != SIZE_MAX && b.port != SIZE_MAX;
    use_port(a, cable.a, place.a, key);
    const bool same_port = whole && a.node == b.node && a.port == b.port;
    if (!same_port) use_port(b, cable.b, place.b, key);
    join_planes(a, b, whole);
    if (!whole) return;
    if (a.node == b.node)
      mistakes_.add(place.a.line, key, fmt::format("both ends are on {}; connect it to another node", cable.a.node));
    else if (a.node->is_host && b.node->is_host)
      mistakes_.add(place.a.line, key,
                    fmt::format("{} and {} are both hosts; connect each to a switch", cable.a.node, cable.b.node));
    check_rates(a, b, cable, place, key);
  }

  void use_port(const End& end, const PortRef& ref, const Place& place, const std::string& key) {
    if (end.node == nullptr || end.port == SIZE_MAX) return;
    const auto [known, fresh] = used_.emplace(&ports_of(*end.node)[end.port], place.line);
    if (!fresh)
      mistakes_.add(
          place.line, key,
          fmt::format("{}:{} already has a cable{}; a port takes one", ref.node, ref.port, at_line(known->second)));
  }

  void check_rates(const End& a, const End& b, const Cable& cable, const CablePlaces& place, const std::string& key) {
    if (!places_of(*a.node).each_port[a.port].rate.readable || !places_of(*b.node).each_port[b.port].rate.readable)
      return;
    const uint64_t rate_a = ports_of(*a.node)[a.port].rate_bps;
    const uint64_t rate_b = ports_of(*b.node)[b.port].rate_bps;
    if (rate_a != rate_b)
      mistakes_.add(place.a.line, key,
                    fmt::format("{}:{} runs at {} bit/s and {}:{} at {} bit/s; give both ends the same rate_bps",
                                cable.a.node, cable.a.port, rate_a, cable.b.node, cable.b.port, rate_b));
  }

  // Switches of one plane reach each other. A broken cable may have led anywhere: what it touches is joined to the
  // extra element at the end, so that its consequences are not reported as mistakes of their own.
  void join_planes(const End& a, const End& b, bool whole) {
    const size_t anywhere = topology_.switches.size();
    broken_ = broken_ || !whole;
    for (const End& end : {a, b}) {
      if (end.node == nullptr) continue;
      if (!whole && !end.node->is_host) planes_.join(end.node->index, anywhere);
    }
    if (whole && !a.node->is_host && !b.node->is_host) planes_.join(a.node->index, b.node->index);
    if (whole && a.node->is_host != b.node->is_host) {
      const End& nic = a.node->is_host ? a : b;
      edge_[&ports_of(*nic.node)[nic.port]] = a.node->is_host ? b.node->index : a.node->index;
    }
    if (!whole)
      for (const End& end : {a, b})
        if (end.node != nullptr && end.node->is_host) {
          if (end.port != SIZE_MAX) edge_[&ports_of(*end.node)[end.port]] = anywhere;
          excused_.insert(end.node->index);
        }
  }

  void check_nics_cabled() {
    if (!places_.links_complete) return;
    for (size_t h = 0; h < topology_.hosts.size(); ++h)
      for (size_t i = 0; i < topology_.hosts[h].nics.size(); ++i) {
        const Port& nic = topology_.hosts[h].nics[i];
        if (used_.contains(&nic) || excused_.contains(h) || ambiguous_.contains(topology_.hosts[h].name) ||
            !places_.hosts[h].each_port[i].name.readable)
          continue;
        mistakes_.add(places_.hosts[h].each_port[i].name.line,
                      fmt::format("hosts[{}].nics[{}]", label(topology_.hosts[h].name, h), label(nic.name, i)),
                      fmt::format("the NIC has no cable; add '[{}:{}, SWITCH:PORT]' to links", topology_.hosts[h].name,
                                  nic.name));
      }
  }

  // Two hosts reach each other when some plane has a NIC of each: hosts do not forward.
  void check_reachable() {
    if (!places_.links_complete) return;
    std::vector<std::pair<std::set<size_t>, std::vector<size_t>>> groups;  // planes -> hosts
    std::map<std::set<size_t>, size_t> group_of;
    for (size_t h = 0; h < topology_.hosts.size(); ++h) {
      std::set<size_t> planes;
      for (const Port& nic : topology_.hosts[h].nics)
        if (const auto edge = edge_.find(&nic); edge != edge_.end()) planes.insert(planes_.find(edge->second));
      if (planes.empty()) continue;  // reported as not cabled
      const auto [at, fresh] = group_of.emplace(planes, groups.size());
      if (fresh) groups.emplace_back(std::move(planes), std::vector<size_t>());
      groups[at->second].second.push_back(h);
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    const size_t anywhere = planes_.find(topology_.switches.size());
    size_t budget = 20'000'000;  // pairs of groups; a fabric that anyone cabled has a handful
    for (size_t small = 1; small < groups.size() && !mistakes_.full(); ++small)
      for (size_t large = 0; large < small && budget > 0; ++large, --budget)
        if (!meet(groups[small].first, groups[large].first, anywhere)) {
          report_unreachable(groups[small].second, groups[large].second);
          break;  // one report per group that is cut off
        }
  }

  // Whether two hosts with NICs in these planes reach each other; `anywhere` meets everything once some cable is
  // broken.
  bool meet(const std::set<size_t>& a, const std::set<size_t>& b, size_t anywhere) const {
    if (broken_ && (a.contains(anywhere) || b.contains(anywhere))) return true;
    return std::any_of(a.begin(), a.end(), [&](size_t plane) { return b.contains(plane); });
  }

  void report_unreachable(const std::vector<size_t>& cut_off, const std::vector<size_t>& others) {
    std::vector<std::string_view> names, other_names;
    for (size_t h : cut_off) names.push_back(topology_.hosts[h].name);
    for (size_t h : others) other_names.push_back(topology_.hosts[h].name);
    mistakes_.add(places_.hosts[cut_off[0]].name.line, fmt::format("hosts[{}]", names[0]),
                  fmt::format("no path between {} and {}; add links between their switches", some_of(names),
                              some_of(other_names)));
  }

  static std::string label(const std::string& name, size_t index) {
    return name.empty() || name.size() > kMaxNodeNameBytes ? fmt::format("{}", index)
                                                           : quoted(name).substr(1, name.size());
  }

  const Topology& topology_;
  const Places& places_;
  Mistakes& mistakes_;
  bool mtu_known_ = false;
  bool broken_ = false;  // some cable leads nowhere
  size_t hints_spent_ = 0;
  std::unordered_map<std::string, Element> nodes_;
  std::set<std::string> ambiguous_;                                         // names of more than one node
  std::unordered_map<IpAddress, std::pair<std::string, uint32_t>> owners_;  // address -> "host:nic", line
  std::unordered_map<const Port*, uint32_t> used_;                          // port -> line of its cable
  std::unordered_map<const Port*, size_t> edge_;                            // NIC -> its switch
  std::set<size_t> excused_;                                                // hosts named by a cable that leads nowhere
  UnionFind planes_;
};

}  // namespace

bool check_range(uint64_t value, uint64_t low, uint64_t high, std::string_view unit, uint32_t line, std::string key,
                 Mistakes& mistakes) {
  if (value >= low && value <= high) return true;
  const std::string_view space = unit.empty() ? "" : " ";
  mistakes.add(line, std::move(key),
               fmt::format("{}{}{} is out of range; give a value from {} to {}", value, space, unit, low, high));
  return false;
}

bool check_queue(uint64_t bytes, uint32_t mtu_bytes, uint32_t line, std::string key, Mistakes& mistakes) {
  const uint64_t packet = mtu_bytes + kEthernetHeaderBytes;
  if (mtu_bytes == 0 || bytes >= packet)
    return check_range(bytes, 1, kMaxQueueBytes, "bytes", line, std::move(key), mistakes);
  mistakes.add(line, std::move(key),
               fmt::format("a queue of {} bytes cannot hold one packet of {} bytes; give it at least that, better {}",
                           bytes, packet, 16 * packet));
  return false;
}

std::string hint_or(std::string_view wrong, std::span<const std::string_view> valid, std::string_view otherwise) {
  const std::string hint = did_you_mean(wrong.substr(0, kMaxNodeNameBytes), valid);
  return hint.empty() ? std::string(otherwise) : hint;
}

Places places_without_file(const Topology& topology) {
  Places places;
  for (const SwitchSpec& spec : topology.switches) places.switches.emplace_back().each_port.resize(spec.ports.size());
  for (const HostSpec& spec : topology.hosts) places.hosts.emplace_back().each_port.resize(spec.nics.size());
  places.links.resize(topology.links.size());
  return places;
}

void check_topology(const Topology& topology, const Places& places, Mistakes& mistakes) {
  Checker(topology, places, mistakes).run();
}

Status validate(const Topology& topology) {
  Mistakes mistakes("topology");
  check_topology(topology, places_without_file(topology), mistakes);
  if (!mistakes.empty()) return mistakes.to_error();
  return {};
}

}  // namespace orrery::fabric
