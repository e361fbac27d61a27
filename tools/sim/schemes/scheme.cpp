#include "tools/sim/schemes/scheme.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/sim/schemes/schemes.h"

namespace orrery::sim {
namespace {

struct Name {
  Scheme scheme;
  std::string_view name;
};
constexpr std::array kNames{Name{Scheme::kEcmp, "ecmp"},
                            Name{Scheme::kEcmpMulti, "ecmp-multi"},
                            Name{Scheme::kFlowlet, "flowlet"},
                            Name{Scheme::kSpray, "spray"},
                            Name{Scheme::kRecycle, "reps"},
                            Name{Scheme::kRehash, "plb"},
                            Name{Scheme::kFirstFit, "first-fit"},
                            Name{Scheme::kOrreryPaths, "orrery-paths"},
                            Name{Scheme::kOrreryStagger, "orrery"},
                            Name{Scheme::kOrreryPhases, "orrery-phases"},
                            Name{Scheme::kOrreryRepath, "orrery-repath"}};

}  // namespace

std::span<const Scheme> all_schemes() {
  static constexpr auto schemes = [] {
    std::array<Scheme, kNames.size()> list{};
    for (size_t i = 0; i < list.size(); ++i) list[i] = kNames[i].scheme;
    return list;
  }();
  return schemes;
}

std::string_view name_of(Scheme scheme) {
  return std::find_if(kNames.begin(), kNames.end(), [&](const Name& n) { return n.scheme == scheme; })->name;
}

std::optional<Scheme> scheme_of(std::string_view name) {
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const Name& n) { return n.name == name; });
  return found != kNames.end() ? std::optional(found->scheme) : std::nullopt;
}

bool plans(Scheme scheme) {
  return scheme >= Scheme::kOrreryPaths;
}

bool reorders(Scheme scheme) {
  return scheme == Scheme::kSpray || scheme == Scheme::kRecycle;
}

std::vector<uint64_t> bytes_per_round(const Traffic& traffic) {
  std::vector<uint64_t> bytes(traffic.flows.size()), rounds(traffic.jobs.size());
  for (const Round& round : traffic.rounds) ++rounds[round.job];
  for (const Transfer& transfer : traffic.transfers) bytes[transfer.flow] += transfer.bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] /= std::max<uint64_t>(1, rounds[traffic.flows[i].job]);
  return bytes;
}

Error no_path(const Traffic& traffic, const fabric::Graph& graph, uint32_t flow) {
  const auto name = [&](uint32_t host) { return graph.node(graph.nics()[host].host).name; };
  return Error{ErrorCode::kUnavailable,
               fmt::format("flow {} from {} to {} has no usable path: mend or undrain a link between them", flow,
                           name(traffic.flows[flow].src), name(traffic.flows[flow].dst))};
}

Result<Routed> route(const Traffic& traffic, const fabric::Graph& graph, Scheme scheme, const SchemeOptions& options) {
  if (scheme == Scheme::kFirstFit) return route_first_fit(traffic, graph, options);
  if (plans(scheme)) return route_planned(traffic, graph, scheme, options);
  return route_hashed(traffic, graph, scheme, options);
}

}  // namespace orrery::sim
