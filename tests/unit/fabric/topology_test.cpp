#include "controller/fabric/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "common/abi/ecmp_hash_abi.h"

namespace orrery::fabric {
namespace {

// One key per line where tests change something, so that lines can be checked.
constexpr std::string_view kGood = R"(schema: 1
name: small
mtu_bytes: 9000
defaults: {rate_bps: 100000000, queue_bytes: 262144}
switches:
  - name: leaf1
    tier: 1
    hash: {function: murmur-5tuple, seed: 7}
    ports: [{name: p1}, {name: p2}, {name: p3}]
  - name: leaf2
    tier: 1
    hash: {function: murmur-5tuple, seed: 8}
    ports: [{name: p1}, {name: p2}, {name: p3}]
hosts:
  - name: h1
    nics: [{name: eth0, address: 10.0.1.1}]
  - name: h2
    nics: [{name: eth0, address: 10.0.2.1}]
links:
  - [h1:eth0, leaf1:p1]
  - [h2:eth0, leaf2:p1]
  - [leaf1:p2, leaf2:p2]
)";

std::string replaced(std::string_view from, std::string_view to, std::string text = std::string(kGood)) {
  const size_t at = text.find(from);
  if (at == std::string::npos) FAIL("the good file has no '" << from << "'");
  return text.replace(at, from.size(), to);
}

// The lines of the error message; empty when the file is good.
std::vector<std::string> mistakes_in(std::string_view yaml) {
  const auto topology = parse_topology(yaml, "f.yaml");
  std::vector<std::string> lines;
  if (topology) return lines;
  CHECK(topology.error().code == ErrorCode::kInvalidArgument);
  std::istringstream stream(topology.error().message);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct OneMistake {
  std::string_view title, from, to, message;
};

const OneMistake kMistakes[] = {
    {"two switches of one name", "- name: leaf2", "- name: leaf1",
     "f.yaml:10: switches[leaf1].name: the name 'leaf1' is already taken by a switch on line 6; give every switch and "
     "host its own"},
    {"a host named as a switch", "- name: h2", "- name: leaf2",
     "f.yaml:17: hosts[leaf2].name: the name 'leaf2' is already taken by a switch on line 10"},
    {"two ports of one name", "ports: [{name: p1}, {name: p2}, {name: p3}]",
     "ports: [{name: p1}, {name: p2}, {name: p2}]",
     "f.yaml:9: switches[leaf1].ports[p2].name: the name 'p2' is already taken on line 9 in this node; rename one"},
    {"two NICs of one name", "nics: [{name: eth0, address: 10.0.1.1}]",
     "nics: [{name: eth0, address: 10.0.1.1}, {name: eth0, address: 10.0.1.2}]",
     "f.yaml:16: hosts[h1].nics[eth0].name: the name 'eth0' is already taken"},
    {"a link to an unknown node", "leaf2:p2]", "laef2:p2]",
     "f.yaml:22: links[2]: no switch or host is named 'laef2', did you mean 'leaf2'?"},
    {"a link to a node that resembles nothing", "leaf2:p2]", "zzzzzzzz:p2]",
     "f.yaml:22: links[2]: no switch or host is named 'zzzzzzzz'; define it or correct the link"},
    {"a link to an unknown port", "leaf2:p2]", "leaf2:q2]",
     "f.yaml:22: links[2]: leaf2 has no port 'q2', only p1, p2, p3, did you mean 'p2'?"},
    {"a port used twice", "leaf2:p2]", "leaf2:p1]",
     "f.yaml:22: links[2]: leaf2:p1 already has a cable on line 21; a port takes one"},
    {"a cable from a switch to itself", "- [leaf1:p2, leaf2:p2]", "- [leaf1:p2, leaf2:p2]\n  - [leaf1:p3, leaf1:p3]",
     "f.yaml:23: links[3]: both ends are on leaf1; connect it to another node"},
    {"unequal rates on one link", "ports: [{name: p1}, {name: p2}, {name: p3}]",
     "ports: [{name: p1}, {name: p2, rate_bps: 400000000}, {name: p3}]",
     "f.yaml:22: links[2]: leaf1:p2 runs at 400000000 bit/s and leaf2:p2 at 100000000 bit/s; give both ends the same "
     "rate_bps"},
    {"an address used twice", "10.0.2.1", "10.0.1.1",
     "f.yaml:18: hosts[h2].nics[eth0].address: 10.0.1.1 is already the address of h1:eth0 on line 16; give every NIC "
     "its own"},
    {"an address that is none", "10.0.2.1", "10.0.2",
     "f.yaml:18: hosts[h2].nics[eth0].address: '10.0.2' is not an IPv4 or IPv6 address"},
    {"a multicast address", "10.0.2.1", "239.1.1.1",
     "f.yaml:18: hosts[h2].nics[eth0].address: 239.1.1.1 cannot be the address of a NIC"},
    {"a loopback address", "10.0.2.1", "'::1'",
     "f.yaml:18: hosts[h2].nics[eth0].address: ::1 cannot be the address of a NIC"},
    {"an address of no network", "10.0.2.1", "0.0.0.0",
     "f.yaml:18: hosts[h2].nics[eth0].address: 0.0.0.0 cannot be the address of a NIC"},
    {"hosts with no path between them", "  - [leaf1:p2, leaf2:p2]\n", "",
     "f.yaml:17: hosts[h2]: no path between h2 and h1; add links between their switches"},
    {"a NIC without a cable", "  - [h2:eth0, leaf2:p1]\n", "",
     "f.yaml:18: hosts[h2].nics[eth0]: the NIC has no cable; add '[h2:eth0, SWITCH:PORT]' to links"},
    {"two hosts cabled to each other", "  - [h1:eth0, leaf1:p1]\n  - [h2:eth0, leaf2:p1]\n", "  - [h1:eth0, h2:eth0]\n",
     "f.yaml:20: links[0]: h1 and h2 are both hosts; connect each to a switch"},
    {"an unknown key", "mtu_bytes: 9000", "mtu_byte: 9000",
     "f.yaml:3: unknown key 'mtu_byte'; the keys here are schema, name, mtu_bytes, "},
    {"an unknown key further in", "seed: 7", "sede: 7",
     "f.yaml:8: switches[leaf1].hash: unknown key 'sede'; the keys here are function, seed, did you mean 'seed'?"},
    {"an address on a switch port", "ports: [{name: p1}", "ports: [{name: p1, address: 10.0.0.1}",
     "f.yaml:9: switches[leaf1].ports[p1]: unknown key 'address'"},
    {"a key given twice", "mtu_bytes: 9000", "mtu_bytes: 9000\nmtu_bytes: 1500",
     "f.yaml:4: mtu_bytes: appears twice, first on line 3; remove one"},
    {"text for a number", "seed: 7", "seed: seven",
     "f.yaml:8: switches[leaf1].hash.seed: 'seven' is not a whole number"},
    {"a quoted number", "mtu_bytes: 9000", "mtu_bytes: '9000'",
     "f.yaml:3: mtu_bytes: must be a whole number without quotes, but is the text '9000'"},
    {"a fraction for a number", "mtu_bytes: 9000", "mtu_bytes: 9e3",
     "f.yaml:3: mtu_bytes: '9e3' is not a whole number"},
    {"a list for a number", "mtu_bytes: 9000", "mtu_bytes: [9000]",
     "f.yaml:3: mtu_bytes: must be a whole number without quotes, but is a list"},
    {"a negative number", "seed: 7", "seed: -7", "f.yaml:8: switches[leaf1].hash.seed: '-7' is not a whole number"},
    {"a number above 64 bits", "rate_bps: 100000000,", "rate_bps: 100000000000000000000000,",
     "f.yaml:4: defaults.rate_bps: '100000000000000000000000' is out of range"},
    {"a map for a name", "name: small", "name: {a: b}", "f.yaml:2: name: must be text, but is a map; name the fabric"},
    {"a map for a list", "hosts:\n", "hosts: {}\nspare:\n",
     "f.yaml:14: hosts: must be a list, but is a map; list the hosts"},
    {"a text for a switch", "  - name: leaf1\n    tier: 1", "  - leaf0\n  - name: leaf1\n    tier: 1",
     "f.yaml:6: switches[0]: must be a map with the keys name, tier, hash, ports, but is a single value"},
    {"a text for a link", "- [leaf1:p2, leaf2:p2]", "- leaf1:p2 leaf2:p2",
     "f.yaml:22: links[2]: must be two ports as [host1:eth0, leaf1:p1], but is a single value"},
    {"a link of three ports", "leaf2:p2]", "leaf2:p2, leaf2:p3]",
     "f.yaml:22: links[2]: must be two ports as [host1:eth0, leaf1:p1], but is a list of 3"},
    {"a link end without a port", "leaf2:p2]", "leaf2]",
     "f.yaml:22: links[2]: 'leaf2' is not a port; write NODE:PORT, such as leaf1:p1"},
    {"rate 0", "{name: p3}", "{name: p3, rate_bps: 0}",
     "f.yaml:9: switches[leaf1].ports[p3].rate_bps: 0 bit/s is out of range; give a value from 1000 to 10000000000000"},
    {"a default rate of 0", "rate_bps: 100000000", "rate_bps: 0",
     "f.yaml:4: defaults.rate_bps: 0 bit/s is out of range"},
    {"an MTU that is too small", "mtu_bytes: 9000", "mtu_bytes: 100",
     "f.yaml:3: mtu_bytes: 100 bytes is out of range; give a value from 576 to 9216"},
    {"an MTU that is too large", "mtu_bytes: 9000", "mtu_bytes: 65535",
     "f.yaml:3: mtu_bytes: 65535 bytes is out of range"},
    {"a queue that holds no packet", "{name: p3}", "{name: p3, queue_bytes: 9013}",
     "f.yaml:9: switches[leaf1].ports[p3].queue_bytes: a queue of 9013 bytes cannot hold one packet of 9014 bytes; "
     "give it at least that"},
    {"a default queue that holds no packet", "queue_bytes: 262144", "queue_bytes: 1500",
     "f.yaml:4: defaults.queue_bytes: a queue of 1500 bytes cannot hold one packet"},
    {"a queue of absurd size", "{name: p3}", "{name: p3, queue_bytes: 99999999999}",
     "f.yaml:9: switches[leaf1].ports[p3].queue_bytes: 99999999999 bytes is out of range"},
    {"tier 0", "tier: 1", "tier: 0", "f.yaml:7: switches[leaf1].tier: 0 is out of range; give a value from 1 to 15"},
    {"a switch without ports", "  - name: leaf2", "  - {name: spare, ports: []}\n  - name: leaf2",
     "f.yaml:10: switches[spare].ports: is empty; list the ports"},
    {"a missing schema", "schema: 1\n", "", "f.yaml:1: schema: is missing; write 'schema: 1'"},
    {"a missing name", "name: small\n", "", "f.yaml:1: name: is missing; name the fabric"},
    {"a missing port name", "{name: p3}", "{rate_bps: 100000000}",
     "f.yaml:9: switches[leaf1].ports[2].name: is missing; name the port, such as p1"},
    {"a missing NIC address", "{name: eth0, address: 10.0.1.1}", "{name: eth0}",
     "f.yaml:16: hosts[h1].nics[eth0].address: is missing; give the NIC an address, such as 10.0.1.1"},
    {"missing links", "links:\n  - [h1:eth0, leaf1:p1]\n  - [h2:eth0, leaf2:p1]\n  - [leaf1:p2, leaf2:p2]\n", "",
     "f.yaml:1: links: is missing; list the cables"},
    {"empty hosts", "hosts:\n", "hosts: []\nhostz:\n", "f.yaml:14: hosts: is empty; list the hosts"},
    {"an unsupported schema", "schema: 1", "schema: 2",
     "f.yaml:1: schema: 2 is not supported; this release reads schema 1"},
    {"an unknown hash function", "function: murmur-5tuple", "function: murmur-5tupel",
     "f.yaml:8: switches[leaf1].hash.function: unknown hash function 'murmur-5tupel'; use 'murmur-5tuple', or 'none' "
     "when it is not known, did you mean 'murmur-5tuple'?"},
    {"a name with a blank", "name: small", "name: my fabric",
     "f.yaml:2: name: 'my fabric' is not a usable name; use 1 to 63 letters"},
    {"a name with a slash", "- name: h2", "- name: ../h2",
     "f.yaml:17: hosts[../h2].name: '../h2' is not a usable name"},
    {"a port name longer than an interface name", "{name: p3}", "{name: port-number-three}",
     "f.yaml:9: switches[leaf1].ports[port-number-three].name: 'port-number-three' is not a usable name; use 1 to 15"},
    {"an open bracket", "[h1:eth0, leaf1:p1]", "[h1:eth0, leaf1:p1", "f.yaml:"},
    {"a tab as indentation", "    tier: 1", "\ttier: 1", "f.yaml:"},
    {"an anchor", "{name: p3}", "&port {name: p3}",
     "f.yaml:9: not YAML that can be read here: anchors (&) and aliases (*) are not accepted; write the value out"},
    {"a second document", "- [leaf1:p2, leaf2:p2]\n", "- [leaf1:p2, leaf2:p2]\n---\nname: two\n",
     "f.yaml:24: a second YAML document; keep one per file"},
};

std::string read_fixture(const std::string& name) {
  std::ifstream file(std::string(ORRERY_FIXTURES) + "/topologies/" + name);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A valid topology of random shape: a random connected graph of switches, hosts with one or two NICs, random rates.
Topology random_topology(std::mt19937& random) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Topology topology;
  topology.name = fmt::format("random-{}", below(1000));
  topology.mtu_bytes = 576 + below(8000);
  const uint32_t switches = 1 + below(8);
  const auto port = [&](SwitchSpec& spec, uint64_t rate) {
    spec.ports.push_back(
        {fmt::format("p{}", spec.ports.size() + 1), rate, topology.mtu_bytes + 14 + below(1'000'000), {}});
    return PortRef{spec.name, spec.ports.back().name};
  };
  for (uint32_t i = 0; i < switches; ++i) {
    SwitchSpec spec;
    spec.name = fmt::format("{}{}", below(2) ? "sw" : "Null.", i);
    spec.tier = 1 + below(15);
    spec.hash_function = static_cast<uint8_t>(below(2));
    spec.hash_seed = static_cast<uint32_t>(random());
    topology.switches.push_back(std::move(spec));
  }
  const auto cable_switches = [&](uint32_t a, uint32_t b) {
    const uint64_t rate = 1000 + random() % 1'000'000'000'000ull;
    const PortRef from = port(topology.switches[a], rate), to = port(topology.switches[b], rate);
    topology.links.push_back({from, to});
  };
  for (uint32_t i = 1; i < switches; ++i) cable_switches(i, below(i));
  for (uint32_t i = below(6); switches > 1 && i > 0; --i) {
    const uint32_t a = below(switches);
    cable_switches(a, (a + 1 + below(switches - 1)) % switches);
  }
  for (uint32_t h = 0; h < 1 + below(10); ++h) {
    HostSpec host{fmt::format("h{}", h), {}};
    for (uint32_t n = 0; n < 1 + below(2); ++n) {
      const uint64_t rate = 1000 + random() % 1'000'000'000ull;
      std::string address =
          below(2) ? fmt::format("10.{}.{}.{}", h, n, 1 + below(250)) : fmt::format("fd00::{:x}:{:x}", h + 1, n + 1);
      host.nics.push_back(
          {fmt::format("eth{}", n), rate, topology.mtu_bytes + 14 + below(100'000), IpAddress::parse(address).value()});
      topology.links.push_back({{host.name, host.nics.back().name}, port(topology.switches[below(switches)], rate)});
    }
    topology.hosts.push_back(std::move(host));
  }
  for (SwitchSpec& spec : topology.switches)
    if (spec.ports.empty()) port(spec, 1000);
  std::shuffle(topology.links.begin(), topology.links.end(), random);
  return topology;
}

}  // namespace

TEST_CASE("a good file is read as it says") {
  const Topology topology = parse_topology(kGood, "f.yaml").value();
  CHECK(topology.name == "small");
  CHECK(topology.mtu_bytes == 9000);
  REQUIRE(topology.switches.size() == 2);
  CHECK(topology.switches[1].hash_seed == 8);
  CHECK(topology.switches[1].hash_function == ORRERY_HASH_MURMUR_5TUPLE);
  CHECK(topology.switches[0].ports[2] == Port{"p3", 100'000'000, 262'144, {}});
  CHECK(topology.hosts[1].nics[0] == Port{"eth0", 100'000'000, 262'144, IpAddress::from_v4(0x0a000201)});
  CHECK(topology.links[2] == Cable{{"leaf1", "p2"}, {"leaf2", "p2"}});
}

TEST_CASE("every kind of mistake is reported once, with file, line, key and cure") {
  REQUIRE(mistakes_in(kGood).empty());
  for (const OneMistake& mistake : kMistakes) {
    INFO(mistake.title);
    const auto lines = mistakes_in(replaced(mistake.from, mistake.to));
    INFO(fmt::format("{}", fmt::join(lines, "\n")));
    const auto reported = std::count_if(lines.begin(), lines.end(),
                                        [&](const std::string& line) { return line.starts_with(mistake.message); });
    CHECK(reported == 1);
  }
}

TEST_CASE("mistakes that do not follow from each other come alone") {
  // Kinds whose file has, by construction, just the one mistake: nothing that merely follows from it may be reported.
  for (const OneMistake& mistake : kMistakes) {
    const std::string_view title = mistake.title;
    if (title.starts_with("missing ") || title.starts_with("two ") || title.starts_with("a map for a list") ||
        title.starts_with("empty") || title.starts_with("a host named") || title.starts_with("a name with a slash"))
      continue;
    INFO(title);
    const auto lines = mistakes_in(replaced(mistake.from, mistake.to));
    INFO(fmt::format("{}", fmt::join(lines, "\n")));
    CHECK(lines.size() == 1);
  }
}

TEST_CASE("all mistakes of one bad file are reported together, in the order of its lines") {
  std::string text(kGood);
  text = replaced("mtu_bytes: 9000", "mtu_bytes: 100", text);
  text = replaced("seed: 7", "seed: x", text);
  text = replaced("ports: [{name: p1}, {name: p2}, {name: p3}]", "ports: [{name: p1}, {name: p2}, {name: p2}]", text);
  text = replaced("10.0.2.1", "10.0.1.1", text);
  text = replaced("leaf2:p2]", "leaf3:p2]", text);
  const auto lines = mistakes_in(text);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].starts_with("f.yaml:3: mtu_bytes: "));
  CHECK(lines[1].starts_with("f.yaml:8: switches[leaf1].hash.seed: "));
  CHECK(lines[2].starts_with("f.yaml:9: switches[leaf1].ports[p2].name: "));
  CHECK(lines[3].starts_with("f.yaml:18: hosts[h2].nics[eth0].address: "));
  CHECK(lines[4].starts_with("f.yaml:22: links[2]: "));
}

TEST_CASE("the bad fixtures each report what their first line says, the good ones nothing") {
  CHECK(parse_topology(read_fixture("leaf-spine-4x4x16.yaml"), "f").value() == generate_leaf_spine({}).value());
  CHECK(parse_topology(read_fixture("leaf-spine-2x2x4.yaml"), "f").value().hosts.size() == 4);
  CHECK(mistakes_in(read_fixture("bad-names.yaml")).size() == 8);
  CHECK(mistakes_in(read_fixture("bad-links.yaml")).size() == 8);
  CHECK(mistakes_in(read_fixture("bad-values.yaml")).size() == 11);
  CHECK(mistakes_in(read_fixture("bad-partition.yaml")).size() == 1);
  CHECK(mistakes_in(read_fixture("bad-syntax.yaml")).size() == 1);
}

TEST_CASE("what is written is read back equal, for generated and for random topologies") {
  std::mt19937 random(3);
  std::vector<Topology> topologies{generate_leaf_spine({}).value()};
  LeafSpine shape{
      .leaves = 8, .spines = 3, .hosts = 40, .rate_bps = 25'000'000'000, .uplink_rate_bps = 100'000'000'000};
  topologies.push_back(generate_leaf_spine(shape).value());
  for (int i = 0; i < 200; ++i) topologies.push_back(random_topology(random));
  for (const Topology& topology : topologies) {
    const Status valid = validate(topology);
    INFO((valid ? "" : valid.error().message) << "\n" << to_yaml(topology));
    REQUIRE(valid);
    const auto back = parse_topology(to_yaml(topology), "f");
    INFO((back ? "" : back.error().message));
    REQUIRE(back);
    CHECK(*back == topology);
  }
}

TEST_CASE("a topology that came from no file is held to the same rules") {
  Topology topology = generate_leaf_spine({}).value();
  topology.hosts[3].nics[0].address = topology.hosts[2].nics[0].address;
  topology.switches[0].ports[0].rate_bps = 0;
  const Status status = validate(topology);
  REQUIRE_FALSE(status);
  CHECK(status.error().message.find(
            "topology: hosts[h4].nics[eth0].address: 10.0.1.3 is already the address of h3:eth0") != std::string::npos);
  CHECK(status.error().message.find("topology: switches[leaf1].ports[p1].rate_bps: 0 bit/s is out of range") !=
        std::string::npos);
}

TEST_CASE("a switch of 1025 ports is one too many") {
  std::string ports = "ports: [";
  for (int i = 1; i <= 1025; ++i) ports += fmt::format("{}{{name: p{}}}", i == 1 ? "" : ", ", i);
  const auto lines = mistakes_in(replaced("ports: [{name: p1}, {name: p2}, {name: p3}]", ports + "]"));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "f.yaml:9: switches[leaf1].ports: 1025 of them; a node has 1 to 1024");
}

TEST_CASE("planes that never meet are good when every pair of hosts shares one") {
  // Rail-optimised: NIC 0 of every host in one plane, NIC 1 in another.
  constexpr std::string_view kRails = R"(schema: 1
name: rails
defaults: {rate_bps: 1000000, queue_bytes: 262144}
switches:
  - {name: rail0, ports: [{name: p1}, {name: p2}]}
  - {name: rail1, ports: [{name: p1}, {name: p2}]}
hosts:
  - {name: h1, nics: [{name: eth0, address: 10.0.0.1}, {name: eth1, address: 10.1.0.1}]}
  - {name: h2, nics: [{name: eth0, address: 10.0.0.2}, {name: eth1, address: 10.1.0.2}]}
links:
  - [h1:eth0, rail0:p1]
  - [h2:eth0, rail0:p2]
  - [h1:eth1, rail1:p1]
  - [h2:eth1, rail1:p2]
)";
  CHECK(mistakes_in(kRails).empty());
}

TEST_CASE("hostile files are refused with the limit that they break") {
  CHECK(mistakes_in(std::string(33u << 20, ' '))[0].find("a topology file has at most 33554432") != std::string::npos);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "- ";
  CHECK(mistakes_in(deep)[0].find("nested deeper than 16 levels") != std::string::npos);
  CHECK(mistakes_in("\n" + std::string(70'000, '['))[0] == "f.yaml:2: a line of more than 65536 bytes; break it");
  std::string unclosed = "# [ in a comment\nlinks: [\n";
  for (int i = 0; i < 600'000; ++i) unclosed += "[\n";
  CHECK(mistakes_in(unclosed)[0].starts_with("f.yaml:2: a bracket not closed within 1048576 bytes; close it"));
  // Ways to hide that a bracket stays open.
  for (const char* unit : {"[\"]\",\n", "[' ]',\n", "[#]\n", "a #[\n[ #]\n", "[!<]> a,\n", "[\n%]\n", "[ # \r]\n",
                           "[a'b]'c,\n", "[\"\\\"]\",\n"}) {
    std::string text = "links: [\n";
    while (text.size() < (2u << 20)) text += unit;
    INFO(unit);
    const auto lines = mistakes_in(text);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("not YAML that can be read here") == std::string::npos);  // yaml-cpp has not seen it
  }
  CHECK(mistakes_in(std::string("\xff\xfe[\0", 4))[0] ==
        "f.yaml: not plain text in UTF-8; convert it, for example with iconv -t UTF-8");
  CHECK(mistakes_in("a: !!str b")[0] == "f.yaml:1: tags (!) are not accepted; remove it");
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'j'; ++c)
    bomb += fmt::format("{}: &{} [*{}, *{}, *{}, *{}]\n", c, c, c - 1, c - 1, c - 1, c - 1);
  CHECK(mistakes_in(bomb)[0].find("anchors (&) and aliases (*) are not accepted") != std::string::npos);
  CHECK(mistakes_in("name: " + std::string(5000, 'x'))[0].find("a text of 5000 bytes; the limit is 4096") !=
        std::string::npos);
  CHECK(mistakes_in("")[0] == "f.yaml: is empty; write one with 'orreryctl topology generate leaf-spine'");
  CHECK(mistakes_in("just text")[0].find("must be a map") != std::string::npos);
}

TEST_CASE("a file of very many mistakes reports a bounded number of them and how many more there are") {
  std::string text(kGood);
  for (int i = 0; i < 5000; ++i) text += fmt::format("  - [nowhere{}:p1, leaf1:p{}]\n", i, i + 10);
  const auto lines = mistakes_in(text);
  CHECK(lines.size() == 201);
  CHECK(lines.back() == "f.yaml: 9800 more mistakes not shown; correct these first");
}

TEST_CASE("control characters of a file do not reach the terminal") {
  const auto lines = mistakes_in(replaced("name: small", "name: \x1b[31mred"));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find('\x1b') == std::string::npos);
}

TEST_CASE("a missing file is not found, a folder cannot be read") {
  const auto missing = load_topology("/nonexistent/t.yaml");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message.find("/nonexistent/t.yaml") != std::string::npos);
  CHECK(load_topology("/").error().code == ErrorCode::kSystem);
  CHECK(load_topology(std::string(ORRERY_FIXTURES) + "/topologies/leaf-spine-4x4x16.yaml").value() ==
        generate_leaf_spine({}).value());
}

TEST_CASE("the generated leaf-spine has every leaf on every spine, hosts dealt in order and distinct seeds") {
  LeafSpine shape;
  shape.uplink_rate_bps = 400'000'000;
  const Topology topology = generate_leaf_spine(shape).value();
  CHECK(topology.name == "leaf-spine-4x4x16");
  CHECK(topology.hosts[4].name == "h5");
  CHECK(topology.links[4] == Cable{{"h5", "eth0"}, {"leaf2", "p1"}});
  CHECK(topology.hosts[4].nics[0].address.to_string() == "10.0.2.1");
  CHECK(topology.links[16] == Cable{{"leaf1", "p5"}, {"spine1", "p1"}});
  CHECK(topology.switches[0].ports[4].rate_bps == 400'000'000);
  CHECK(topology.switches[0].ports[3].rate_bps == 100'000'000);
  std::set<uint32_t> seeds;
  for (const auto& spec : topology.switches) seeds.insert(spec.hash_seed);
  CHECK(seeds.size() == topology.switches.size());
  shape.hash_seed = 2;
  CHECK(generate_leaf_spine(shape).value().switches[0].hash_seed != topology.switches[0].hash_seed);
}

TEST_CASE("a shape that cannot be built is refused with what to take instead") {
  const auto refusal = [](LeafSpine shape) {
    const auto topology = generate_leaf_spine(shape);
    REQUIRE_FALSE(topology);
    CHECK(topology.error().code == ErrorCode::kInvalidArgument);
    return topology.error().message;
  };
  CHECK(refusal({.hosts = 18}) == "18 hosts do not divide evenly over 4 leaves; take 16 or 20");
  CHECK(refusal({.leaves = 0}).find("at least one leaf") != std::string::npos);
  CHECK(refusal({.leaves = 1025, .hosts = 1025}).find("at most 1024") != std::string::npos);
  CHECK(refusal({.leaves = 1, .spines = 4, .hosts = 1024}).find("take more leaves") != std::string::npos);
  CHECK(refusal({.rate_bps = 1}).find("1 bit/s is out of range") != std::string::npos);
  CHECK(refusal({.queue_bytes = 100}).find("cannot hold one packet") != std::string::npos);
  CHECK(refusal({.hosts = 0xffffffff}).find("divide") != std::string::npos);
}

TEST_CASE("JSON resolves peers and MAC addresses, the same from both ends") {
  const auto json = nlohmann::json::parse(to_json(generate_leaf_spine({}).value()));
  CHECK(json["name"] == "leaf-spine-4x4x16");
  CHECK(json["mtu_bytes"] == 9000);
  CHECK(json["switches"][0]["hash"]["function"] == "murmur-5tuple");
  const auto& port = json["switches"][0]["ports"][0];
  const auto& nic = json["hosts"][0]["nics"][0];
  CHECK(port["peer"] == "h1:eth0");
  CHECK(nic["peer"] == "leaf1:p1");
  CHECK(nic["mac"] == port["peer_mac"]);
  CHECK(nic["peer_mac"] == port["mac"]);
  CHECK(nic["address"] == "10.0.1.1");
  CHECK(json["links"].size() == 32);
  CHECK(json["links"][0] == nlohmann::json{{"a", "h1:eth0"}, {"b", "leaf1:p1"}, {"rate_bps", 100'000'000}});
  const auto spare = nlohmann::json::parse(to_json(parse_topology(kGood, "f").value()))["switches"][0]["ports"][2];
  CHECK(spare["peer"] == "");
  CHECK(spare["peer_mac"] == "");
}

TEST_CASE("port MAC addresses are stable, unicast, locally administered and distinct") {
  CHECK(port_mac("leaf1", "p1") == "d2:7a:99:54:15:d2");
  std::set<std::string> seen;
  for (int node = 0; node < 100; ++node)
    for (int port = 0; port < 64; ++port) {
      const std::string mac = port_mac(fmt::format("leaf{}", node), fmt::format("p{}", port));
      CHECK((std::stoi(mac.substr(0, 2), nullptr, 16) & 3) == 2);
      seen.insert(mac);
    }
  CHECK(seen.size() == 6400);
}

TEST_CASE("the example of the reference page is a good file") {
  std::ifstream page(ORRERY_TOPOLOGY_PAGE);
  REQUIRE(page);
  std::string text{std::istreambuf_iterator<char>(page), {}};
  const size_t start = text.find("```yaml\n");
  REQUIRE(start != std::string::npos);
  text = text.substr(start + 8, text.find("```", start + 8) - start - 8);
  const auto topology = parse_topology(text, "docs/reference/topology.md");
  INFO((topology ? "" : topology.error().message));
  CHECK(topology);
}

}  // namespace orrery::fabric
