// orreryctl topology generate|check|show: needs no controller.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <unordered_map>

#include "controller/fabric/topology.h"
#include "tools/ctl/command.h"
#include "tools/ctl/table.h"

namespace orrery::ctl {
namespace {

using fabric::Topology;

// Pre-condition: none of the sizes are wrong; the topology passed its checks.
std::string summary(const Topology& topology) {
  return fmt::format("{}: {} switches, {} hosts, {} links, MTU {}", topology.name, topology.switches.size(),
                     topology.hosts.size(), topology.links.size(), topology.mtu_bytes);
}

int generate(Console& console, const fabric::LeafSpine& shape, const std::string& output) {
  const auto topology = fabric::generate_leaf_spine(shape);
  if (!topology) return report(console, topology.error());
  if (const auto written = write_text(output, fabric::to_yaml(*topology), console.out); !written)
    return report(console, written.error());
  return kOk;
}

int check(Console& console, const std::vector<std::string>& files) {
  int worst = kOk;
  for (const std::string& file : files) {
    const auto topology = fabric::load_topology(file);
    if (topology)
      console.out << file << ": " << toned("good", Tone::kGood, console.colour) << ": " << summary(*topology) << "\n";
    else
      worst = std::max(worst, report(console, topology.error()));
  }
  return worst;
}

std::string show_text(const Topology& topology, bool colour) {
  std::unordered_map<std::string, std::string> peers;
  for (const fabric::Cable& cable : topology.links) {
    const std::string a = cable.a.node + ":" + cable.a.port, b = cable.b.node + ":" + cable.b.port;
    peers[a] = b;
    peers[b] = a;
  }
  Table table({{"NODE"}, {"KIND"}, {"PORT"}, {"PEER"}, {"RATE", Align::kRight}, {"QUEUE", Align::kRight}, {"ADDRESS"}});
  const auto add = [&](const std::string& node, const std::string& kind, const fabric::Port& port,
                       std::string address) {
    const auto peer = peers.find(node + ":" + port.name);
    table.add_row({node, kind, port.name, peer == peers.end() ? "-" : peer->second, human_rate(port.rate_bps),
                   human_bytes(port.queue_bytes), std::move(address)});
  };
  for (const auto& spec : topology.switches)
    for (const auto& port : spec.ports) add(spec.name, fmt::format("tier {}", spec.tier), port, "");
  for (const auto& spec : topology.hosts)
    for (const auto& nic : spec.nics) add(spec.name, "host", nic, nic.address.to_string());
  return summary(topology) + "\n\n" + table.to_string(colour);
}

int show(Console& console, const std::string& file, bool json) {
  const auto topology = fabric::load_topology(file);
  if (!topology) return report(console, topology.error());
  console.out << (json ? fabric::to_json(*topology) + "\n" : show_text(*topology, console.colour));
  return kOk;
}

void add_generate(Session& session, CLI::App& topology) {
  CLI::App* generate_app = topology.add_subcommand("generate", "Write a topology file for a regular fabric");
  generate_app->require_subcommand(1);
  CLI::App* app = generate_app->add_subcommand("leaf-spine", "Two tiers: every leaf has one cable to every spine");
  auto shape = std::make_shared<fabric::LeafSpine>();
  auto output = std::make_shared<std::string>();
  app->add_option("--leaves", shape->leaves, "Leaf switches")->capture_default_str();
  app->add_option("--spines", shape->spines, "Spine switches")->capture_default_str();
  app->add_option("--hosts", shape->hosts, "Hosts in all, dealt evenly to the leaves")->capture_default_str();
  app->add_option("--rate-bps", shape->rate_bps, "Rate of every host link, bit/s")->capture_default_str();
  app->add_option("--uplink-rate-bps", shape->uplink_rate_bps,
                  "Rate of every leaf-to-spine link, bit/s; 0: as --rate-bps")
      ->capture_default_str();
  app->add_option("--queue-bytes", shape->queue_bytes, "Bytes that each egress queue holds")->capture_default_str();
  app->add_option("--mtu-bytes", shape->mtu_bytes, "Largest IP packet")->capture_default_str();
  app->add_option("--hash-seed", shape->hash_seed, "Seed that each switch's ECMP seed is derived from")
      ->capture_default_str();
  app->add_option("--output,-o", *output, "File to write instead of standard output");
  app->callback([&session, shape, output] {
    session.action = [&session, shape, output] { return generate(session.console, *shape, *output); };
  });
}

}  // namespace

void add_topology_commands(Session& session) {
  CLI::App* topology =
      session.app.add_subcommand("topology", "Write, check and show topology files (no controller needed)");
  topology->require_subcommand(1);
  add_generate(session, *topology);
  add_topology_import(session, *topology);
  add_topology_plan(session, *topology);

  CLI::App* check_app =
      topology->add_subcommand("check", "Report every mistake in topology files, each with line, key and cure");
  auto files = std::make_shared<std::vector<std::string>>();
  check_app->add_option("FILE", *files, "Topology files")->required();
  check_app->callback(
      [&session, files] { session.action = [&session, files] { return check(session.console, *files); }; });

  CLI::App* show_app = topology->add_subcommand("show", "Show what a topology file describes");
  auto file = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  show_app->add_option("FILE", *file, "Topology file")->required();
  show_app->add_flag("--json", *json, "Print JSON for programs, with peers and MAC addresses resolved");
  show_app->callback([&session, file, json] {
    session.action = [&session, file, json] { return show(session.console, *file, *json); };
  });
}

}  // namespace orrery::ctl
