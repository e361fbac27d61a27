#include "tools/sim/cli/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "tools/sim/runner/summary.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

constexpr size_t kMostRows = 64;
constexpr size_t kMostNics = 64;

class Levels {
 public:
  Levels(const fabric::Graph& graph, const RunResult& result)
      : graph_(graph), result_(result), slice_(result.waveforms.front().slice) {
    for (const Waveform& wave : result.waveforms) {
      slice_ = std::max(slice_, wave.slice);
      slices_ = std::max(slices_, wave.bytes.size());
    }
  }

  size_t slices() const { return slices_; }
  Time slice() const { return slice_; }

  // As shares of the link's rate. The last slice ends with the run.
  std::vector<double> of(fabric::LinkId link) const {
    std::vector<double> use(slices_);
    const auto& bytes = result_.waveforms[link].bytes;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const Time begin = i * slice_, end = std::min(begin + slice_, std::max(result_.end, begin + slice_ / 8));
      use[i] = share(bytes[i], link, end - begin);
    }
    return use;
  }
  double over_all(fabric::LinkId link) const { return share(result_.links[link].sent_bytes, link, result_.end); }

 private:
  double share(uint64_t bytes, fabric::LinkId link, Time time) const {
    const double most = static_cast<double>(graph_.link(link).rate_bps) / 8e12 * static_cast<double>(time);
    return most > 0 ? static_cast<double>(bytes) / most : 0;
  }

  const fabric::Graph& graph_;
  const RunResult& result_;
  Time slice_;
  size_t slices_ = 0;
};

std::string encode(const std::vector<double>& use) {
  std::string text;
  for (const double share : use)
    text += fmt::format("{:02x}", static_cast<uint32_t>(std::clamp(std::lround(share * kFullUse), 0l, 255l)));
  return text;
}

struct Band {
  std::string name;
  std::vector<fabric::LinkId> links;
};

json band_of(const Levels& levels, const Band& band) {
  std::vector<double> mean(levels.slices()), fullest(levels.slices());
  for (const fabric::LinkId link : band.links) {
    const std::vector<double> use = levels.of(link);
    for (size_t i = 0; i < use.size(); ++i) {
      mean[i] += use[i] / static_cast<double>(band.links.size());
      fullest[i] = std::max(fullest[i], use[i]);
    }
  }
  return {{"name", band.name}, {"links", band.links.size()}, {"mean", encode(mean)}, {"fullest", encode(fullest)}};
}

std::string tier_name(uint32_t tier) {
  constexpr const char* kNames[] = {"hosts", "leaves", "spines", "cores"};
  return tier < std::size(kNames) ? kNames[tier] : fmt::format("tier {}", tier);
}

std::vector<Band> tiers_of(const fabric::Graph& graph) {
  std::map<std::pair<uint32_t, uint32_t>, Band> bands;
  for (fabric::LinkId id = 0; id < graph.links().size(); ++id) {
    const uint32_t from = graph.node(graph.link(id).from).tier, to = graph.node(graph.link(id).to).tier;
    Band& band = bands[{from, to}];
    band.name = tier_name(from) + " to " + tier_name(to);
    band.links.push_back(id);
  }
  std::vector<Band> result;
  for (auto& [key, band] : bands) result.push_back(std::move(band));
  return result;
}

// A row per link between switches; of larger fabrics one per switch and direction, or per several switches.
std::vector<Band> rows_of(const fabric::Graph& graph) {
  const std::vector<fabric::LinkId> core = core_links(graph);
  std::vector<Band> rows;
  if (core.size() <= kMostRows) {
    for (const fabric::LinkId link : core)
      rows.push_back({graph.link_name(link) + " to " + graph.node(graph.link(link).to).name, {link}});
    return rows;
  }
  std::map<std::pair<uint32_t, uint32_t>, std::map<fabric::NodeId, Band>> by_direction;
  size_t all = 0;
  for (const fabric::LinkId link : core) {
    const fabric::NodeId from = graph.link(link).from;
    const uint32_t to = graph.node(graph.link(link).to).tier;
    auto& switches = by_direction[{graph.node(from).tier, to}];
    all += !switches.contains(from);
    Band& band = switches[from];
    band.name = graph.node(from).name + " to " + tier_name(to);
    band.links.push_back(link);
  }
  const size_t each = (all + kMostRows - 1) / kMostRows;
  for (auto& [direction, switches] : by_direction) {
    size_t in_row = each;
    for (auto& [node, band] : switches) {
      if (in_row++ < each) {
        Band& row = rows.back();
        row.links.insert(row.links.end(), band.links.begin(), band.links.end());
        row.name = fmt::format("{} .. {}", row.name.substr(0, row.name.find(' ')), band.name);
      } else {
        rows.push_back(std::move(band));
        in_row = 1;
      }
    }
  }
  return rows;
}

json queue_times(const char* name, const QueueTimes& times) {
  const double all = static_cast<double>(std::accumulate(times.port_ns.begin(), times.port_ns.end(), uint64_t{0}));
  json bytes = json::array(), share = json::array();
  double sum = 0;
  for (size_t i = 0; i < times.port_ns.size(); ++i) {
    if (times.port_ns[i] == 0) continue;
    sum += static_cast<double>(times.port_ns[i]);
    bytes.push_back(QueueTimes::most_in(i));
    share.push_back(sum / all);
  }
  return {{"name", name}, {"bytes", bytes}, {"share", share}};
}

// All, or as many of every rank from the busiest to the idlest.
json nics_of(const fabric::Graph& graph, const RunResult& result, const Levels& levels) {
  std::vector<uint32_t> order(graph.nics().size());
  std::iota(order.begin(), order.end(), 0u);
  const auto sent = [&](uint32_t nic) { return result.links[graph.nics()[nic].uplink].sent_bytes; };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return sent(a) > sent(b); });
  json nics = json::array();
  const size_t count = std::min(kMostNics, order.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t rank = count == 1 ? 0 : i * (order.size() - 1) / (count - 1);
    const fabric::Nic& nic = graph.nics()[order[rank]];
    nics.push_back({{"name", graph.node(nic.host).name + ":" + nic.name},
                    {"rank", rank + 1},
                    {"bytes", sent(order[rank])},
                    {"use", encode(levels.of(nic.uplink))}});
  }
  return nics;
}

}  // namespace

std::vector<uint32_t> nics_by_switch(const fabric::Graph& graph) {
  std::vector<uint32_t> order(graph.nics().size());
  std::iota(order.begin(), order.end(), 0u);
  const auto leaf = [&](uint32_t nic) { return graph.link(graph.nics()[nic].uplink).to; };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return leaf(a) < leaf(b); });
  return order;
}

json history_of(const fabric::Graph& graph, const RunResult& result, uint64_t seed) {
  if (result.waveforms.empty() || result.end == 0) return {};
  const Levels levels(graph, result);
  json tiers = json::array(), rows = json::array(), queues = json::array();
  for (const Band& band : tiers_of(graph)) tiers.push_back(band_of(levels, band));
  for (const Band& band : rows_of(graph)) rows.push_back(band_of(levels, band));
  if (!result.core_queues.port_ns.empty()) {
    queues.push_back(queue_times("between switches", result.core_queues));
    queues.push_back(queue_times("towards hosts", result.edge_queues));
  }
  std::vector<double> sent, received;
  for (const uint32_t nic : nics_by_switch(graph)) {
    const fabric::LinkId uplink = graph.nics()[nic].uplink;
    sent.push_back(levels.over_all(uplink));
    received.push_back(levels.over_all(graph.link(uplink).reverse));
  }
  return {{"seed", seed},
          {"slice_ms", static_cast<double>(levels.slice()) / static_cast<double>(kPerMs)},
          {"end_ms", static_cast<double>(result.end) / static_cast<double>(kPerMs)},
          {"slices", levels.slices()},
          {"tiers", tiers},
          {"rows", rows},
          {"queues", queues},
          {"nics", nics_of(graph, result, levels)},
          {"sent", encode(sent)},
          {"received", encode(received)}};
}

}  // namespace orrery::sim
