// Topology files: YAML tree -> Topology. Judges form (keys, types); topology_check.cpp judges the content.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>

#include "common/abi/ecmp_hash_abi.h"
#include "common/base/unique_fd.h"
#include "controller/fabric/topology.h"
#include "controller/fabric/topology_check.h"
#include "controller/fabric/yaml_tree.h"

namespace orrery::fabric {
namespace {

using Kind = YamlNode::Kind;

// The keys of one map: reports those unknown, repeated or missing.
class Fields {
 public:
  Fields(const YamlNode& map, std::string key, std::span<const std::string_view> known, Mistakes& mistakes)
      : map_(map), key_(std::move(key)), known_(known), found_(known.size(), nullptr), mistakes_(mistakes) {
    is_map_ = map.kind == Kind::kMap;
    if (!is_map_) {
      mistakes.add(map.line, key_,
                   fmt::format("must be a map with the keys {}, but is {}", fmt::join(known, ", "), kind_name(map)));
      return;
    }
    for (size_t i = 0; i < map.keys.size(); ++i) take(map.keys[i], map.items[i]);
  }

  bool is_map() const { return is_map_; }
  std::string key_of(std::string_view name) const {
    return key_.empty() ? std::string(name) : fmt::format("{}.{}", key_, name);
  }
  uint32_t line() const { return map_.line; }

  // Null when the key is absent.
  const YamlNode* find(std::string_view name) const {
    for (size_t i = 0; i < known_.size(); ++i)
      if (known_[i] == name) return found_[i];
    return nullptr;
  }
  const YamlNode* require(std::string_view name, std::string_view cure) const {
    const YamlNode* node = find(name);
    if (node == nullptr && is_map_) mistakes_.add(map_.line, key_of(name), fmt::format("is missing; {}", cure));
    return node;
  }

 private:
  void take(const YamlNode& key, const YamlNode& value) {
    for (size_t i = 0; i < known_.size(); ++i) {
      if (key.text != known_[i] || key.kind != Kind::kScalar) continue;
      if (found_[i] != nullptr)
        mistakes_.add(key.line, key_of(key.text),
                      fmt::format("appears twice, first on line {}; remove one", found_[i]->line));
      else
        found_[i] = &value;
      return;
    }
    mistakes_.add(key.line, key_,
                  fmt::format("unknown key {}; the keys here are {}{}", quoted(key.text), fmt::join(known_, ", "),
                              hint_or(key.text, known_, "")));
  }

  const YamlNode& map_;
  std::string key_;
  std::span<const std::string_view> known_;
  std::vector<const YamlNode*> found_;
  bool is_map_ = false;
  Mistakes& mistakes_;
};

class Reader {
 public:
  Reader(Topology& topology, Places& places, Mistakes& mistakes)
      : topology_(topology), places_(places), mistakes_(mistakes) {}

  // Whether what was read can be judged.
  bool read(const YamlNode& root) {
    static constexpr std::string_view kKeys[] = {"schema",   "name",  "mtu_bytes", "defaults",
                                                 "switches", "hosts", "links"};
    if (root.kind == Kind::kNull) {
      mistakes_.add(0, "", "is empty; write one with 'orreryctl topology generate leaf-spine'");
      return false;
    }
    const Fields fields(root, "", kKeys, mistakes_);
    if (!fields.is_map() || !read_schema(fields)) return false;
    places_.name = read_text(fields, "name", "name the fabric", topology_.name);
    places_.mtu.line = root.line;
    if (const YamlNode* node = fields.find("mtu_bytes"))
      places_.mtu = read_number(*node, "mtu_bytes", UINT32_MAX,
                                [&](uint64_t v) { topology_.mtu_bytes = static_cast<uint32_t>(v); });
    read_defaults(fields);
    for_each(fields, "switches", "list the switches", [&](const YamlNode& node, size_t i) { read_switch(node, i); });
    for_each(fields, "hosts", "list the hosts", [&](const YamlNode& node, size_t i) { read_host(node, i); });
    const Place links = for_each(fields, "links", "list the cables as [host:nic, switch:port]",
                                 [&](const YamlNode& node, size_t i) { read_link(node, i); });
    if (!links.readable) places_.links_complete = false;
    return true;
  }

 private:
  // A later schema may mean anything: nothing else of the file is judged by this one's rules.
  bool read_schema(const Fields& fields) {
    const YamlNode* node = fields.require("schema", "write 'schema: 1'");
    if (node == nullptr) return true;
    uint64_t schema = 0;
    if (!read_number(*node, "schema", UINT64_MAX, [&](uint64_t v) { schema = v; }).readable) return true;
    if (schema == 1) return true;
    mistakes_.add(node->line, "schema", fmt::format("{} is not supported; this release reads schema 1", schema));
    return false;
  }

  template <typename Set>
  Place read_number(const YamlNode& node, const std::string& key, uint64_t most, Set set) {
    Place place{node.line, false};
    if (node.kind != Kind::kScalar || node.was_quoted) {
      mistakes_.add(
          node.line, key,
          fmt::format("must be a whole number without quotes, but is {}",
                      node.kind == Kind::kScalar ? "the text " + quoted(node.text) : std::string(kind_name(node))));
      return place;
    }
    uint64_t value = 0;
    const char* end = node.text.data() + node.text.size();
    const auto [stop, error] = std::from_chars(node.text.data(), end, value);
    if (stop != end || error == std::errc::invalid_argument)
      mistakes_.add(node.line, key,
                    fmt::format("{} is not a whole number; write digits only, such as 100000000", quoted(node.text)));
    else if (error != std::errc() || value > most)
      mistakes_.add(node.line, key, fmt::format("{} is out of range; give a value up to {}", quoted(node.text), most));
    else
      place.readable = true;
    if (place.readable) set(value);
    return place;
  }

  Place read_text(const Fields& fields, std::string_view name, std::string_view cure, std::string& text) {
    const YamlNode* node = fields.require(name, cure);
    if (node == nullptr) return {fields.line(), false};
    if (node->kind != Kind::kScalar) {
      mistakes_.add(node->line, fields.key_of(name),
                    fmt::format("must be text, but is {}; {}", kind_name(*node), cure));
      return {node->line, false};
    }
    text = node->text;
    return {node->line, true};
  }

  template <typename Read>
  Place for_each(const Fields& fields, std::string_view name, std::string_view cure, Read read) {
    const YamlNode* list = fields.require(name, cure);
    if (list == nullptr) return {fields.line(), false};
    if (list->kind != Kind::kList) {
      mistakes_.add(list->line, fields.key_of(name),
                    fmt::format("must be a list, but is {}; {}", kind_name(*list), cure));
      return {list->line, false};
    }
    if (list->items.empty()) {
      mistakes_.add(list->line, fields.key_of(name), fmt::format("is empty; {}", cure));
      return {list->line, false};
    }
    for (size_t i = 0; i < list->items.size(); ++i) read(list->items[i], i);
    return {list->line, true};
  }

  void read_defaults(const Fields& fields) {
    static constexpr std::string_view kKeys[] = {"rate_bps", "queue_bytes"};
    const YamlNode* node = fields.find("defaults");
    if (node == nullptr) return;
    const Fields defaults(*node, "defaults", kKeys, mistakes_);
    default_rate_known_ = default_queue_known_ = !defaults.is_map();
    if (const YamlNode* rate = defaults.find("rate_bps")) {
      default_rate_known_ = true;
      if (read_number(*rate, "defaults.rate_bps", UINT64_MAX, [&](uint64_t v) { default_rate_ = v; }).readable &&
          !check_range(default_rate_, kMinRateBps, kMaxRateBps, "bit/s", rate->line, "defaults.rate_bps", mistakes_))
        default_rate_ = 0;
    }
    if (const YamlNode* queue = defaults.find("queue_bytes")) {
      default_queue_known_ = true;
      if (read_number(*queue, "defaults.queue_bytes", UINT64_MAX, [&](uint64_t v) { default_queue_ = v; }).readable)
        check_default_queue(*queue);
    }
  }

  void check_default_queue(const YamlNode& node) {
    const bool mtu_known = places_.mtu.readable && topology_.mtu_bytes <= kMaxMtuBytes;
    if (!check_queue(default_queue_, mtu_known ? topology_.mtu_bytes : 0, node.line, "defaults.queue_bytes", mistakes_))
      default_queue_ = 0;
  }

  static std::string label(const YamlNode& node, size_t index) {
    if (node.kind == Kind::kMap)
      for (size_t i = 0; i < node.keys.size(); ++i)
        if (node.keys[i].text == "name" && node.items[i].kind == Kind::kScalar &&
            node.items[i].text.size() <= kMaxNodeNameBytes)
          return quoted(node.items[i].text).substr(1, node.items[i].text.size());
    return fmt::format("{}", index);
  }

  void read_switch(const YamlNode& node, size_t index) {
    static constexpr std::string_view kKeys[] = {"name", "tier", "hash", "ports"};
    const Fields fields(node, fmt::format("switches[{}]", label(node, index)), kKeys, mistakes_);
    if (!fields.is_map()) return;
    SwitchSpec& spec = topology_.switches.emplace_back();
    NodePlaces& place = places_.switches.emplace_back();
    place.name = read_text(fields, "name", "name the switch", spec.name);
    place.tier.line = node.line;
    if (const YamlNode* tier = fields.find("tier"))
      place.tier = read_number(*tier, fields.key_of("tier"), UINT32_MAX,
                               [&](uint64_t v) { spec.tier = static_cast<uint32_t>(v); });
    if (const YamlNode* hash = fields.find("hash")) read_hash(*hash, fields.key_of("hash"), spec);
    place.ports = for_each(fields, "ports", "list the ports as {name: p1}", [&](const YamlNode& port, size_t i) {
      read_port(port, fmt::format("{}[{}]", fields.key_of("ports"), label(port, i)), false, spec.ports,
                place.each_port);
    });
  }

  void read_hash(const YamlNode& node, const std::string& key, SwitchSpec& spec) {
    static constexpr std::string_view kKeys[] = {"function", "seed"};
    static constexpr std::string_view kFunctions[] = {"none", "murmur-5tuple"};  // by enum orrery_hash_function
    const Fields fields(node, key, kKeys, mistakes_);
    if (const YamlNode* seed = fields.find("seed"))
      read_number(*seed, fields.key_of("seed"), UINT32_MAX,
                  [&](uint64_t v) { spec.hash_seed = static_cast<uint32_t>(v); });
    if (fields.find("function") == nullptr) return;
    std::string name;
    const Place place = read_text(fields, "function", "use 'murmur-5tuple' or 'none'", name);
    if (!place.readable) return;
    for (uint8_t i = 0; i < std::size(kFunctions); ++i)
      if (name == kFunctions[i]) {
        spec.hash_function = i;
        return;
      }
    mistakes_.add(place.line, fields.key_of("function"),
                  fmt::format("unknown hash function {}; use 'murmur-5tuple', or 'none' when it is not known{}",
                              quoted(name), hint_or(name, kFunctions, "")));
  }

  void read_host(const YamlNode& node, size_t index) {
    static constexpr std::string_view kKeys[] = {"name", "nics"};
    const Fields fields(node, fmt::format("hosts[{}]", label(node, index)), kKeys, mistakes_);
    if (!fields.is_map()) return;
    HostSpec& spec = topology_.hosts.emplace_back();
    NodePlaces& place = places_.hosts.emplace_back();
    place.name = read_text(fields, "name", "name the host", spec.name);
    place.ports = for_each(
        fields, "nics", "list the NICs as {name: eth0, address: 10.0.1.1}", [&](const YamlNode& nic, size_t i) {
          read_port(nic, fmt::format("{}[{}]", fields.key_of("nics"), label(nic, i)), true, spec.nics, place.each_port);
        });
  }

  void read_port(const YamlNode& node, const std::string& key, bool is_nic, std::vector<Port>& ports,
                 std::vector<PortPlaces>& places) {
    static constexpr std::string_view kKeys[] = {"name", "rate_bps", "queue_bytes", "address"};
    const Fields fields(node, key, std::span(kKeys).first(is_nic ? 4 : 3), mistakes_);
    if (!fields.is_map()) return;
    Port& port = ports.emplace_back();
    PortPlaces& place = places.emplace_back();
    place.name =
        read_text(fields, "name", is_nic ? "name the NIC, such as eth0" : "name the port, such as p1", port.name);
    port.rate_bps = default_rate_;
    place.rate = read_with_default(fields, "rate_bps", default_rate_known_, default_rate_, port.rate_bps);
    place.queue = read_with_default(fields, "queue_bytes", default_queue_known_, default_queue_, port.queue_bytes);
    if (!is_nic) return;
    std::string text;
    place.address = read_text(fields, "address", "give the NIC an address, such as 10.0.1.1", text);
    if (!place.address.readable) return;
    if (const auto address = IpAddress::parse(text); address && text.find('\0') == std::string::npos) {
      port.address = *address;
      return;
    }
    place.address.readable = false;
    mistakes_.add(
        place.address.line, fields.key_of("address"),
        fmt::format("{} is not an IPv4 or IPv6 address; write it as 10.0.1.1, without a prefix length", quoted(text)));
  }

  // A default that is itself wrong is 0 here, and reported where it stands.
  Place read_with_default(const Fields& fields, std::string_view name, bool default_known, uint64_t default_value,
                          uint64_t& value) {
    if (const YamlNode* node = fields.find(name))
      return read_number(*node, fields.key_of(name), UINT64_MAX, [&](uint64_t v) { value = v; });
    if (!default_known)
      mistakes_.add(fields.line(), fields.key_of(name),
                    fmt::format("is missing; give it here or as defaults.{}", name));
    value = default_value;
    return {fields.line(), default_known && default_value != 0};
  }

  void read_link(const YamlNode& node, size_t index) {
    const std::string key = fmt::format("links[{}]", index);
    if (node.kind != Kind::kList || node.items.size() != 2) {
      mistakes_.add(node.line, key,
                    fmt::format("must be two ports as [host1:eth0, leaf1:p1], but is {}",
                                node.kind == Kind::kList ? fmt::format("a list of {}", node.items.size())
                                                         : std::string(kind_name(node))));
      places_.links_complete = false;
      return;
    }
    Cable& cable = topology_.links.emplace_back();
    CablePlaces& place = places_.links.emplace_back();
    place.a = read_port_ref(node.items[0], key, cable.a);
    place.b = read_port_ref(node.items[1], key, cable.b);
    if (!place.a.readable || !place.b.readable) places_.links_complete = false;
  }

  Place read_port_ref(const YamlNode& node, const std::string& key, PortRef& ref) {
    const size_t colon = node.text.find(':');
    if (node.kind != Kind::kScalar || colon == std::string::npos) {
      mistakes_.add(node.line, key,
                    fmt::format("{} is not a port; write NODE:PORT, such as leaf1:p1",
                                node.kind == Kind::kScalar ? quoted(node.text) : std::string(kind_name(node))));
      return {node.line, false};
    }
    ref.node = node.text.substr(0, colon);
    ref.port = node.text.substr(colon + 1);
    return {node.line, true};
  }

  Topology& topology_;
  Places& places_;
  Mistakes& mistakes_;
  bool default_rate_known_ = false;
  bool default_queue_known_ = false;
  uint64_t default_rate_ = 0;
  uint64_t default_queue_ = 0;
};

Result<std::string> read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    Error error = system_error(fmt::format("cannot read the topology file {}", path), errno);
    if (errno == ENOENT) error.code = ErrorCode::kNotFound;
    return error;
  }
  std::string text;
  char chunk[65536];
  while (text.size() <= kYamlMaxBytes) {
    const ssize_t count = ::read(fd.get(), chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(fmt::format("cannot read the topology file {}", path), errno);
    if (count == 0) break;
    text.append(chunk, static_cast<size_t>(count));
  }
  return text;
}

}  // namespace

Result<Topology> parse_topology(std::string_view yaml, const std::string& file_name) {
  Mistakes mistakes(file_name);
  const YamlNode root = parse_yaml(yaml, mistakes);
  Topology topology;
  Places places;
  if (mistakes.empty() && Reader(topology, places, mistakes).read(root)) check_topology(topology, places, mistakes);
  if (!mistakes.empty()) return mistakes.to_error();
  return topology;
}

Result<Topology> load_topology(const std::string& path) {
  ORRERY_ASSIGN(const std::string text, read_file(path));
  return parse_topology(text, path);
}

}  // namespace orrery::fabric
