// orreryctl topology import: a site's list of hosts made into a topology file.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ostream>

#include "tools/ctl/command.h"
#include "tools/ctl/table.h"
#include "tools/planning/fabric/host_list.h"

namespace orrery::ctl {
namespace {

struct ImportOptions {
  std::string file;
  std::string output;
  planning::HostListOptions list;
};

std::string summary(const planning::Clos& clos) {
  std::string text = fmt::format("{}: {} hosts, {} leaves with {} x {} upwards, {} pods of {} spines", clos.name,
                                 clos.hosts.size(), clos.leaves.size(), clos.spines * clos.cables_per_spine,
                                 human_rate(clos.uplink_bps), clos.pods.size(), clos.spines);
  if (clos.cores != 0)
    text += fmt::format(" with {} x {} upwards, {} cores", clos.cores * clos.cables_per_core, human_rate(clos.core_bps),
                        clos.spines * clos.cores);
  return text + "\n";
}

Status import_list(Console& console, const ImportOptions& options) {
  ORRERY_ASSIGN(const planning::Clos clos, planning::load_host_list(options.file, options.list));
  ORRERY_ASSIGN(const fabric::Topology topology, planning::topology_of(clos));
  ORRERY_ASSIGN(const std::string text, planning::topology_file(topology));
  ORRERY_TRY(write_text(options.output, text, console.out));
  if (!options.output.empty() && options.output != "-") console.out << summary(clos);
  return {};
}

}  // namespace

void add_topology_import(Session& session, CLI::App& topology) {
  CLI::App* app = topology.add_subcommand(
      "import", "Write a topology file for a list of hosts: a CSV with columns such as ip, DSW, PSW and ASW");
  auto options = std::make_shared<ImportOptions>();
  planning::HostListOptions& list = options->list;
  app->add_option("FILE", options->file, "CSV with a header and a line per host: its leaf (ASW), pod (PSW), core (DSW)")
      ->required();
  app->add_option("--name", list.name, "Name of the fabric")->capture_default_str();
  app->add_option("--nics", list.nics, "NICs of each host, all to its leaf")
      ->check(CLI::Range(size_t{1}, fabric::kMaxHostNics))
      ->capture_default_str();
  add_rate(*app, "--nic-rate", list.nic_bps, "Rate of every NIC, bit/s (k, M, G, T) [100G]");
  add_ratio(*app, "--oversubscription", list.oversubscription,
            "Most that the fullest leaf's NICs bring for each bit/s of its uplinks, as 4:1 [1:1]");
  add_rate(*app, "--uplink-rate", list.uplink_bps, "Rate of every leaf-to-spine cable [as --nic-rate]");
  app->add_option("--spines", list.spines, "Spines of each pod, which share a leaf's uplinks; 0: one for each uplink")
      ->capture_default_str();
  add_ratio(*app, "--core-oversubscription", list.core_oversubscription,
            "The same for the spines of the largest pod [1:1]");
  add_rate(*app, "--core-rate", list.core_bps, "Rate of every spine-to-core cable [as --uplink-rate]");
  app->add_option("--mtu-bytes", list.mtu_bytes, "Largest IP packet")->capture_default_str();
  app->add_option("--hash-seed", list.hash_seed, "Seed that each switch's ECMP seed is derived from")
      ->capture_default_str();
  app->add_option("--output,-o", options->output, "File to write instead of standard output");
  on_command(session, *app, [&session, options] { return import_list(session.console, *options); });
}

}  // namespace orrery::ctl
