#include "tools/planning/fabric/design.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "controller/fabric/graph.h"

namespace orrery::planning {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

SwitchModel model(const std::string& text) {
  const auto parsed = parse_switch_model(text);
  REQUIRE(parsed);
  return *parsed;
}

DesignInput input_of(uint32_t hosts, const std::string& leaf, const std::string& spine) {
  DesignInput input{.hosts = hosts, .leaf = model(leaf), .spine = model(spine), .spare = 0};
  input.core = input.spine;
  return input;
}

std::string error_of(const DesignInput& input) {
  const auto made = design(input);
  return made ? "" : made.error().message;
}

// "p3.2" -> "p3": what sits in the switch.
std::set<std::string> physical_ports(const fabric::SwitchSpec& spec) {
  std::set<std::string> ports;
  for (const fabric::Port& port : spec.ports) ports.insert(port.name.substr(0, port.name.find('.')));
  return ports;
}

uint64_t count_of(const std::vector<BillItem>& items, const std::string& begin) {
  for (const BillItem& item : items)
    if (item.item.starts_with(begin)) return item.count;
  return 0;
}

// Whatever is promised about a design is true of the fabric that is made of it.
void check_against_fabric(const Design& made) {
  const DesignInput& input = made.input;
  const auto topology = topology_of(clos_of(made, "planned"));
  INFO((topology ? "" : topology.error().message));
  REQUIRE(topology);
  std::map<uint32_t, uint64_t> used;
  std::map<std::string, std::pair<double, double>> rates;  // from below, from above
  for (const fabric::SwitchSpec& spec : topology->switches) {
    const SwitchModel& switch_model = spec.tier == 1 ? input.leaf : spec.tier == 2 ? input.spine : input.core;
    const size_t ports = physical_ports(spec).size();
    CHECK(ports <= switch_model.all_ports());
    used[spec.tier] += ports;
  }
  std::map<std::string, uint32_t> tier_of;
  for (const fabric::SwitchSpec& spec : topology->switches) tier_of[spec.name] = spec.tier;
  const fabric::Graph graph = fabric::Graph::build(*topology);
  uint64_t leaf_spine = 0, spine_core = 0;
  for (const fabric::Link& link : graph.links()) {
    const fabric::Node& from = graph.node(link.from);
    const fabric::Node& to = graph.node(link.to);
    if (to.tier > from.tier) {
      if (from.tier > 0) rates[from.name].second += static_cast<double>(link.rate_bps);
      rates[to.name].first += static_cast<double>(link.rate_bps);
      leaf_spine += from.tier == 1;
      spine_core += from.tier == 2;
    }
  }
  for (const auto& [name, rate] : rates) {
    const uint32_t tier = tier_of[name];
    if (tier == 1 && made.tiers > 1) CHECK(rate.first <= rate.second * input.oversubscription * (1 + 1e-9));
    if (tier == 2 && made.tiers > 2) CHECK(rate.first <= rate.second * input.core_oversubscription * (1 + 1e-9));
  }
  const PortsUsed told = ports_used(made);
  CHECK(told.leaf == used[1]);
  CHECK(told.spine == used[2]);
  CHECK(told.core == used[3]);
  const auto items = bill(made);
  CHECK(count_of(items, "leaf switch") + count_of(items, "spine switch") + count_of(items, "core switch") ==
        topology->switches.size());
  if (made.leaf.up_split == 1 && made.spine.down_split == 1)
    CHECK(count_of(items, "cable leaf to spine") == leaf_spine);
  if (made.spine.up_split == 1 && made.core.down_split == 1)
    CHECK(count_of(items, "cable spine to core") == spine_core);
  CHECK(topology->hosts.size() == input.hosts);
  CHECK(made.seats >= input.hosts * (1 + input.spare) - 1e-6);
  for (size_t i = 1; i < graph.nics().size(); i += 1 + graph.nics().size() / 7)
    CHECK_FALSE(graph.paths(graph.nics()[0], graph.nics()[i]).empty());
}

}  // namespace

TEST_CASE("hosts that fit under one leaf get one leaf") {
  const auto made = design(input_of(32, "32x400G", "32x400G"));
  REQUIRE(made);
  CHECK(made->tiers == 1);
  CHECK(made->leaf.switches == 1);
  check_against_fabric(*made);
}

TEST_CASE("two tiers of switches with p ports reach p * p / 2 hosts at 1:1, three reach p * p * p / 4") {
  CHECK(design(input_of(128, "16x400G", "16x400G"))->tiers == 2);
  CHECK(design(input_of(129, "16x400G", "16x400G"))->tiers == 3);
  const auto largest = design(input_of(1024, "16x400G", "16x400G"));
  REQUIRE(largest);
  // The fat tree of 16 ports: 16 pods of 8 leaves and 8 spines, 64 cores.
  CHECK(largest->leaf.switches == 128);
  CHECK(largest->spine.switches == 128);
  CHECK(largest->core.switches == 64);
  CHECK(largest->pods == 16);
  CHECK(error_of(input_of(1025, "16x400G", "16x400G")) != "");
}

TEST_CASE("what cannot be met is told with how far it goes and what would do") {
  DesignInput input = input_of(4096, "32x400G", "32x400G");
  input.tiers = 2;
  CHECK_THAT(error_of(input), Contains("need three tiers: two reach 512 hosts; give --tiers 3"));
  input = input_of(100'000, "32x400G", "32x400G");
  CHECK_THAT(error_of(input), Contains("three tiers reach, which is 8192") && Contains("would do"));
  input = input_of(10, "32x400G", "32x400G");
  input.nics = 40;
  CHECK_THAT(error_of(input), Contains("--rails"));
  input.nics = 1;
  input.nic_bps = 800'000'000'000;
  CHECK_THAT(error_of(input), Contains("a NIC of 800G does not fit into a leaf port of 400G"));
  input = input_of(40, "32x400G", "32x400G");
  input.tiers = 1;
  CHECK_THAT(error_of(input), Contains("need two tiers: one reaches 32 hosts"));
}

TEST_CASE("the cure that a refusal names does") {
  DesignInput input = input_of(10'000, "32x400G", "32x400G");
  const std::string text = error_of(input);
  CHECK_THAT(text, Contains("an oversubscription of 1.5:1") && Contains("switches of 64 ports would do"));
  DesignInput other = input;
  other.oversubscription = other.core_oversubscription = 1.5;
  CHECK(design(other));
  other = input;
  other.leaf = other.spine = other.core = model("64x400G");
  CHECK(design(other));
}

TEST_CASE("spare hosts have ports that no cable needs to be moved for") {
  DesignInput input = input_of(100, "64x400G", "64x400G");
  input.spare = 0.2;
  const auto made = design(input);
  REQUIRE(made);
  CHECK(made->seats == 120);
  const auto topology = topology_of(clos_of(*made, "planned"));
  // 25 of 30 seats are taken; uplinks begin behind the thirtieth port.
  CHECK(topology->switches[0].ports[24].name == "p25");
  CHECK(topology->switches[0].ports[25].name == "p31");
}

TEST_CASE("more spines make a lost one cost less") {
  DesignInput input = input_of(128, "32x400G", "32x400G");
  const auto few = design(input);
  input.min_spines = 16;
  const auto many = design(input);
  REQUIRE((few && many));
  CHECK(losses(*few)[2].part == "one spine");
  CHECK(losses(*few)[2].lost == Approx(1.0 / few->spine.switches));
  CHECK(losses(*many)[2].lost == Approx(1.0 / 16));
  CHECK(losses(*many)[2].oversubscription == Approx(16.0 / 15));
  CHECK(losses(*many)[2].left_bps == 15 * 400'000'000'000ull);
}

TEST_CASE("more uplinks than an equal-cost group holds are told, with cures that do") {
  DesignInput input = input_of(2'000, "256x100G", "256x100G");
  input.nic_bps = 100'000'000'000;
  const Design wide = design(input).value();
  REQUIRE(wide.leaf.up > 64);
  const std::vector<std::string> told = cautions(wide);
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], Contains(fmt::format("a leaf has {} uplinks in one equal-cost group", wide.leaf.up)));
  CHECK_THAT(told[0], Contains("hash over 64 at most and would leave"));
  CHECK_THAT(told[0], Contains(fmt::format("take uplinks of {}G or more", 100.0 * wide.leaf.up / 64)));
  // The cures: the oversubscription that it names, and uplinks as fast as it says.
  const std::string option = "--oversubscription of about ";
  const size_t at = told[0].find(option);
  REQUIRE(at != std::string::npos);
  DesignInput fewer = input;
  fewer.oversubscription = std::stod(told[0].substr(at + option.size()));
  CHECK(cautions(design(fewer).value()).empty());
  DesignInput faster = input;
  faster.leaf = model("128x100G+64x200G");
  faster.spine = model("128x200G");
  CHECK(cautions(design(faster).value()).empty());
  CHECK(cautions(design(input_of(1'000, "64x400G", "64x400G")).value()).empty());
}

TEST_CASE("with rails a lost leaf costs a host one NIC, without it costs all") {
  DesignInput input = input_of(64, "64x400G", "64x400G");
  input.nics = 8;
  CHECK(losses(*design(input))[0].lost == 1);
  input.rails = true;
  const auto made = design(input);
  REQUIRE(made);
  CHECK(losses(*made)[0].lost == Approx(1.0 / 8));
  const auto topology = topology_of(clos_of(*made, "planned"));
  CHECK(topology->links[3].b.node == "group1-rail4");
  check_against_fabric(*made);
}

TEST_CASE("fast ports are split between slower NICs and uplinks") {
  DesignInput input = input_of(100, "64x800G", "64x800G");
  const auto made = design(input);
  REQUIRE(made);
  CHECK(made->leaf.down_split == 2);
  const auto topology = topology_of(clos_of(*made, "planned"));
  CHECK(topology->switches[0].ports[1].name == "p1.2");
  CHECK(topology->switches[0].ports[2].name == "p2.1");
  const auto mixed = design(input_of(300, "48x400G+8x400G", "32x800G"));
  REQUIRE(mixed);
  CHECK(mixed->seats_per_leaf == 8);  // as many NICs as uplinks
  DesignInput oversubscribed = input_of(300, "48x400G+8x400G", "32x800G");
  oversubscribed.oversubscription = 6;
  const auto split = design(oversubscribed);
  REQUIRE(split);
  CHECK(split->spine.down_split == 2);
  CHECK(split->uplink_bps == 400'000'000'000);
  check_against_fabric(*split);
}

TEST_CASE("switches are written as their ports") {
  CHECK(name_of(model("64x400G")) == "64x400G");
  CHECK(name_of(model("48x100G+8x400G")) == "48x100G+8x400G");
  CHECK(model("128x51.2G").port_bps == 51'200'000'000);
  for (const char* wrong : {"", "64", "64x", "64x400", "x400G", "0x400G", "64x0G", "64x400G+", "64x400G+8x", "64x400Gb",
                            "2000x400G", "-4x400G", "64x400G+8x400G "})
    CHECK_FALSE(parse_switch_model(wrong));
}

TEST_CASE("every cable is in the list once, with the rate of its ports") {
  const auto topology = topology_of(clos_of(*design(input_of(20, "16x400G", "16x400G")), "planned"));
  const std::string list = cable_list(*topology);
  CHECK(static_cast<size_t>(std::count(list.begin(), list.end(), '\n')) == topology->links.size() + 1);
  CHECK_THAT(list, Contains("h1,eth0,leaf1,p1,400000000000,host-leaf\n"));
  CHECK_THAT(list, EndsWith(",leaf-spine\n"));
}

TEST_CASE("whatever is asked for, the fabric is what the design says it is, and a topology file") {
  std::mt19937 random(7);
  const auto one_of = [&](const auto& list) { return *(list.begin() + random() % list.size()); };
  int built = 0;
  for (int i = 0; i < 400; ++i) {
    DesignInput input;
    input.hosts = 1 + random() % 300;
    input.nics = one_of(std::initializer_list<uint32_t>{1, 2, 4, 8});
    input.nic_bps = one_of(std::initializer_list<uint64_t>{100'000'000'000, 200'000'000'000, 400'000'000'000});
    const auto any = [&] {
      return model(one_of(std::initializer_list<const char*>{"16x400G", "32x400G", "64x400G", "64x800G",
                                                             "48x400G+8x800G", "32x400G+32x400G", "24x800G"}));
    };
    input.leaf = any();
    input.spine = any();
    input.core = any();
    input.oversubscription = one_of(std::initializer_list<double>{1, 1.5, 3, 4});
    input.core_oversubscription = one_of(std::initializer_list<double>{1, 2});
    input.spare = one_of(std::initializer_list<double>{0, 0.2, 0.5});
    input.rails = random() % 2 == 1;
    input.min_spines = 1 + random() % 4;
    CAPTURE(i, input.hosts, input.nics, input.nic_bps, name_of(input.leaf), name_of(input.spine), name_of(input.core),
            input.oversubscription, input.rails);
    const auto made = design(input);
    if (!made) {
      CHECK(made.error().code == ErrorCode::kInvalidArgument);
      continue;
    }
    ++built;
    check_against_fabric(*made);
  }
  CHECK(built > 200);
}

}  // namespace orrery::planning
