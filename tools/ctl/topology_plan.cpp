// orreryctl topology plan: how many switches, ports and cables a fabric takes.
#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "tools/ctl/command.h"
#include "tools/ctl/quantity.h"
#include "tools/ctl/ranges.h"
#include "tools/ctl/render.h"
#include "tools/ctl/table.h"
#include "tools/planning/fabric/design.h"

namespace orrery::ctl {
namespace {

using planning::Design;
using planning::DesignInput;
using planning::SwitchModel;
using planning::TierShape;

struct PlanOptions {
  DesignInput input;
  std::string leaf = "64x400G", spine, core;  // empty: as the tier below
  double spare_percent = 20;
  std::string name = "planned";
  std::string emit, cables;
  bool json = false;
};

// A tier of the design, lowest first.
struct TierRow {
  const char* name;
  const SwitchModel* model;
  const TierShape* shape;
  uint64_t used;
  double oversubscription;  // 0: nothing above
};

std::vector<TierRow> tiers_of(const Design& design) {
  const planning::PortsUsed used = planning::ports_used(design);
  std::vector<TierRow> rows{{"leaf", &design.input.leaf, &design.leaf, used.leaf, design.oversubscription}};
  if (design.tiers > 1)
    rows.push_back({"spine", &design.input.spine, &design.spine, used.spine, design.core_oversubscription});
  if (design.tiers > 2) rows.push_back({"core", &design.input.core, &design.core, used.core, 0});
  return rows;
}

std::string ratio_text(double ratio) {
  return ratio > 0 ? fmt::format("{:.3g}:1", ratio) : "-";
}

uint64_t ports_of(const TierRow& row) {
  return uint64_t{row.shape->switches} * row.model->all_ports();
}

std::string headline(const Design& design) {
  const DesignInput& input = design.input;
  return fmt::format(
      "{} hosts with {} NIC{} of {} under {} leaves{}{}; room for {} more\n", human_count(input.hosts), input.nics,
      input.nics == 1 ? "" : "s", human_rate(input.nic_bps), human_count(design.leaf.switches),
      input.rails ? fmt::format(" in {} groups, a leaf per rail", design.groups()) : "",
      design.tiers == 3 ? fmt::format(", {} pods of {} spines", design.pods, design.spines_per_pod()) : "",
      human_count(design.seats - input.hosts));
}

std::string text_of(const Design& design, bool colour) {
  Table tiers({{"TIER"},
               {"SWITCHES", Align::kRight},
               {"MODEL"},
               {"DOWN", Align::kRight},
               {"UP", Align::kRight},
               {"OVERSUBSCRIPTION", Align::kRight},
               {"PORTS", Align::kRight},
               {"USED", Align::kRight},
               {"LEFT", Align::kRight}});
  for (const TierRow& row : tiers_of(design))
    tiers.add_row({row.name, human_count(row.shape->switches), planning::name_of(*row.model),
                   std::to_string(row.shape->down), std::to_string(row.shape->up), ratio_text(row.oversubscription),
                   human_count(ports_of(row)), human_count(row.used), human_count(ports_of(row) - row.used)});
  Table losses({{"LOST"},
                {"AFFECTED"},
                {"LOSES", Align::kRight},
                {"LEFT TO EACH", Align::kRight},
                {"OVERSUBSCRIPTION THEN", Align::kRight}});
  for (const planning::Loss& loss : planning::losses(design))
    losses.add_row({loss.part, loss.affected, human_percent(loss.lost), human_rate(loss.left_bps),
                    ratio_text(loss.oversubscription)});
  Table bill({{"COUNT", Align::kRight}, {"ITEM"}});
  for (const planning::BillItem& item : planning::bill(design)) bill.add_row({human_count(item.count), item.item});
  std::string warnings;
  for (const std::string& caution : planning::cautions(design))
    warnings += "\n" + toned("WARNING: " + caution, Tone::kBad, colour) + "\n";
  return headline(design) + "\n" + tiers.to_string(colour) +
         "\nDOWN, UP: cables of one switch to the tier below, with every seat taken, and above; a split port has "
         "several.\nUSED, LEFT: ports of all switches of the tier, with the hosts that were asked for.\n\n" +
         losses.to_string(colour) + "\n" + bill.to_string(colour) + warnings;
}

Json json_of(const Design& design) {
  Json json;
  json["tiers"] = design.tiers;
  json["hosts"] = design.input.hosts;
  json["seats"] = design.seats;
  json["pods"] = design.pods;
  json["uplink_bps"] = design.uplink_bps;
  json["core_bps"] = design.core_bps;
  json["cables_per_spine"] = design.cables_per_spine;
  json["cables_per_core"] = design.cables_per_core;
  json["switches"] = Json::array();
  for (const TierRow& row : tiers_of(design))
    json["switches"].push_back({{"tier", row.name},
                                {"count", row.shape->switches},
                                {"model", planning::name_of(*row.model)},
                                {"down", row.shape->down},
                                {"up", row.shape->up},
                                {"oversubscription", row.oversubscription},
                                {"ports", ports_of(row)},
                                {"ports_used", row.used}});
  json["losses"] = Json::array();
  for (const planning::Loss& loss : planning::losses(design))
    json["losses"].push_back({{"part", loss.part},
                              {"affected", loss.affected},
                              {"lost", loss.lost},
                              {"left_bps", loss.left_bps},
                              {"oversubscription", loss.oversubscription}});
  json["bill"] = Json::array();
  for (const planning::BillItem& item : planning::bill(design))
    json["bill"].push_back({{"item", item.item}, {"count", item.count}});
  json["warnings"] = planning::cautions(design);
  return json;
}

Status plan(Console& console, PlanOptions options) {
  DesignInput& input = options.input;
  ORRERY_ASSIGN(input.leaf, planning::parse_switch_model(options.leaf));
  ORRERY_ASSIGN(input.spine, planning::parse_switch_model(options.spine.empty() ? options.leaf : options.spine));
  input.core = input.spine;
  if (!options.core.empty()) {
    ORRERY_ASSIGN(input.core, planning::parse_switch_model(options.core));
  }
  input.spare = options.spare_percent / 100;
  ORRERY_ASSIGN(const Design design, planning::design(input));
  if (!options.emit.empty() || !options.cables.empty()) {
    ORRERY_ASSIGN(const fabric::Topology topology, planning::topology_of(planning::clos_of(design, options.name)));
    if (!options.cables.empty()) ORRERY_TRY(write_text(options.cables, planning::cable_list(topology), console.out));
    if (!options.emit.empty()) {
      ORRERY_ASSIGN(const std::string text, planning::topology_file(topology));
      ORRERY_TRY(write_text(options.emit, text, console.out));
    }
  }
  console.out << (options.json ? json_text(json_of(design)) : text_of(design, console.colour));
  return {};
}

}  // namespace

void add_topology_plan(Session& session, CLI::App& topology) {
  CLI::App* app = topology.add_subcommand(
      "plan", "Say what a fabric takes: switches, ports, cables, and what a lost part costs; write its topology file");
  auto options = std::make_shared<PlanOptions>();
  DesignInput& input = options->input;
  app->add_option("--hosts", input.hosts, "Hosts")->required()->check(CLI::Range(size_t{1}, fabric::kMaxHosts));
  app->add_option("--nics", input.nics, "NICs of each host")
      ->check(CLI::Range(size_t{1}, fabric::kMaxHostNics))
      ->capture_default_str();
  add_rate(*app, "--nic-rate", input.nic_bps, "Rate of every NIC, bit/s (k, M, G, T) [400G]");
  app->add_option("--leaf", options->leaf,
                  "Ports of a leaf, as 64x400G, or 48x100G+8x400G: the latter for uplinks only")
      ->capture_default_str();
  app->add_option("--spine", options->spine, "Ports of a spine [as --leaf]");
  app->add_option("--core", options->core, "Ports of a core switch [as --spine]");
  add_ratio(*app, "--oversubscription", input.oversubscription,
            "Most that a leaf's NICs bring for each bit/s of its uplinks, as 3:1 [1:1]");
  add_ratio(*app, "--core-oversubscription", input.core_oversubscription, "The same for a spine's uplinks [1:1]");
  app->add_option("--spare", options->spare_percent,
                  "Percent of hosts more that there is room for without moving a cable: switches and uplinks are "
                  "there, ports empty")
      ->check(within(0, 1000))
      ->capture_default_str();
  app->add_option("--tiers", input.tiers, "1, 2 or 3 tiers of switches; 0: as few as it takes")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  app->add_option("--min-spines", input.min_spines,
                  "Spines of a pod at least, where leaves have the ports: the more, the less a lost one costs")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app->add_flag("--rails", input.rails, "Rail-optimised: NIC i of a group of hosts under leaf i of the group");
  app->add_option("--name", options->name, "Name of the fabric in the topology file")->capture_default_str();
  app->add_option("--emit", options->emit, "Topology file to write");
  app->add_option("--cables", options->cables, "Cable list to write: CSV with both ends, rate and tier of each cable");
  app->add_flag("--json", options->json, "Print JSON for programs");
  on_command(session, *app, [&session, options] { return plan(session.console, *options); });
}

}  // namespace orrery::ctl
