// Hosts by name, and where jobs are before they are placed.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "common/base/nearest_name.h"
#include "tools/planning/placement/place.h"
#include "tools/sim/workload/input.h"

namespace orrery::planning {
namespace {

Error wrong(std::string text) {
  return {ErrorCode::kInvalidArgument, std::move(text)};
}

// NICs of "h1" (all) or "h1:eth0" (one); empty when there is no such.
std::vector<uint32_t> nics_named(const fabric::Graph& graph, const std::string& name) {
  const size_t colon = name.find(':');
  const auto node = graph.find_node(name.substr(0, colon));
  std::vector<uint32_t> nics;
  for (uint32_t i = 0; node && i < graph.nics().size(); ++i)
    if (graph.nics()[i].host == *node && (colon == std::string::npos || graph.nics()[i].name == name.substr(colon + 1)))
      nics.push_back(i);
  return nics;
}

Error unknown(const fabric::Graph& graph, const std::string& name) {
  std::vector<std::string_view> names;
  for (const fabric::Nic& nic : graph.nics()) names.push_back(graph.node(nic.host).name);
  return wrong(fmt::format("the fabric has no host {}{}", sim::shown(name),
                           did_you_mean(std::string_view(name).substr(0, 64), names)));
}

}  // namespace

Result<uint32_t> nic_of_name(const fabric::Graph& graph, const std::string& name) {
  const std::vector<uint32_t> nics = nics_named(graph, name);
  if (nics.empty()) return unknown(graph, name);
  if (nics.size() == 1) return nics[0];
  return wrong(
      fmt::format("host {} has {} NICs; name one, such as {}:{}", name, nics.size(), name, graph.nics()[nics[0]].name));
}

Result<std::vector<uint32_t>> nics_of_list(const fabric::Graph& graph, const std::string& text,
                                           const std::string& file) {
  std::unordered_map<std::string, std::vector<uint32_t>> by_name;
  for (uint32_t i = 0; i < graph.nics().size(); ++i) {
    const std::string& host = graph.node(graph.nics()[i].host).name;
    by_name[host].push_back(i);
    by_name[host + ":" + graph.nics()[i].name].push_back(i);
  }
  std::vector<uint32_t> nics;
  uint64_t number = 0;
  for (size_t position = 0; position < text.size();) {
    ++number;
    std::string line(sim::next_line(text, position));
    line.resize(std::min(line.size(), line.find('#')));
    std::replace(line.begin(), line.end(), ',', ' ');
    for (const std::string_view word : sim::words_of(line)) {
      const auto found = by_name.find(std::string(word));
      if (found == by_name.end()) return sim::line_error(file, number, unknown(graph, std::string(word)).message);
      nics.insert(nics.end(), found->second.begin(), found->second.end());
    }
  }
  return nics;
}

Result<Assignment> assign_before(const fabric::Graph& graph, const std::vector<Demand>& demands,
                                 const std::vector<bool>& free, sim::Placement kind, uint64_t seed, uint32_t together) {
  for (const Demand& demand : demands)
    if (demand.slots % together != 0)
      return wrong(
          fmt::format("job {}: {} hosts do not divide into servers of {}", demand.name, demand.slots, together));
  std::vector<bool> left = free;
  Assignment assignment(demands.size());
  for (size_t job = 0; job < demands.size(); ++job)
    for (const std::string& name : demands[job].host_names) {
      const auto nic = nic_of_name(graph, name);
      if (!nic) return wrong(fmt::format("job {}: {}", demands[job].name, nic.error().message));
      if (!left[*nic])
        return wrong(fmt::format("job {}: host {} is not free, or two jobs name it", demands[job].name, name));
      left[*nic] = false;
      assignment[job].push_back(*nic);
    }
  const auto all = static_cast<uint32_t>(graph.nics().size());
  ORRERY_ASSIGN(const auto order, sim::place(graph, {all}, kind, seed));
  size_t next = 0;
  for (size_t job = 0; job < demands.size(); ++job) {
    if (!demands[job].host_names.empty()) continue;
    for (; next < order[0].size() && assignment[job].size() < demands[job].slots; ++next) {
      const uint32_t nic = order[0][next];
      if (nic % together != 0 || nic + together > all) continue;
      bool whole = true;
      for (uint32_t i = 0; i < together; ++i) whole = whole && left[nic + i];
      for (uint32_t i = 0; whole && i < together; ++i) assignment[job].push_back(nic + i);
    }
    if (assignment[job].size() < demands[job].slots)
      return Error{ErrorCode::kExhausted,
                   fmt::format("job {} needs {} hosts and {} are left of the {} that are free; free some, or place "
                               "fewer jobs",
                               demands[job].name, demands[job].slots, assignment[job].size(),
                               std::count(free.begin(), free.end(), true))};
  }
  return assignment;
}

}  // namespace orrery::planning
