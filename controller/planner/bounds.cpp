#include "controller/planner/bounds.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace orrery::planner {
namespace {

using fabric::LinkId;
using LinkSet = std::vector<LinkId>;  // sorted, distinct

constexpr size_t kMaxSizes = 24;    // distinct flow sizes that the counting argument tries per cut
constexpr size_t kMaxSubsets = 64;  // distinct link sets that are tried as cuts of their own within one component

uint64_t sum(std::span<const uint64_t> values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

// Flows of at least `size` bytes that fit into the bins by `time`, at most `enough`.
uint64_t fitting(std::span<const Bin> bins, uint64_t size, uint64_t time, uint64_t enough) {
  uint64_t count = 0;
  for (const Bin& bin : bins) {
    const auto sent = static_cast<unsigned __int128>(time) * bin.rate_bps / 8'000'000'000u;
    if (sent <= bin.fixed_bytes) continue;
    count += static_cast<uint64_t>(std::min<unsigned __int128>((sent - bin.fixed_bytes) / size, enough));
    if (count >= enough) return enough;
  }
  return count;
}

// Least time by which `count` flows of `size` bytes fit into the bins.
uint64_t count_bound_ns(std::span<const Bin> bins, uint64_t size, uint64_t count, uint64_t at_least) {
  if (fitting(bins, size, at_least, count) >= count) return at_least;
  uint64_t low = at_least, high = std::max<uint64_t>(at_least, 1);
  while (high < UINT64_MAX / 2 && fitting(bins, size, high, count) < count) high *= 2;
  while (low + 1 < high) {
    const uint64_t middle = low + (high - low) / 2;
    (fitting(bins, size, middle, count) >= count ? high : low) = middle;
  }
  return high;
}

// Flows between one pair of switches, heaviest first.
struct Group {
  const std::vector<Core>* cores = nullptr;
  std::vector<uint64_t> weights;
};

class BoundFinder {
 public:
  explicit BoundFinder(const Problem& problem) : problem_(problem) {
    std::map<const std::vector<Core>*, size_t> group_of;
    // Groups are numbered by first occurrence, so that nothing depends on addresses in memory.
    for (const Item& item : problem.items) {
      const auto [entry, fresh] = group_of.try_emplace(item.cores, groups_.size());
      if (fresh) groups_.push_back({item.cores, {}});
      groups_[entry->second].weights.push_back(item.weight);
    }
  }

  Bounds find() {
    bounds_.whole_ns = bounds_.fluid_ns = max_drain_ns(*problem_.fabric, unavoidable_load());
    size_t longest = 0;
    for (const Group& group : groups_)
      if (!group.cores->empty()) longest = std::max(longest, group.cores->front().size());
    for (size_t hop = 0; hop < (longest + 1) / 2; ++hop) {
      use_hop(hop, /*from_end=*/false);
      use_hop(hop, /*from_end=*/true);
    }
    return bounds_;
  }

 private:
  std::vector<uint64_t> unavoidable_load() const {
    std::vector<uint64_t> bytes = problem_.fixed_bytes;
    for (const Item& item : problem_.items) {
      bytes[item.up] += item.weight;
      bytes[item.down] += item.weight;
      if (item.cores->size() != 1) continue;
      for (LinkId link : item.cores->front()) bytes[link] += item.weight;
    }
    return bytes;
  }

  // Links by which a group can make its hop; empty when its paths are shorter or of several lengths.
  static LinkSet links_at(const Group& group, size_t hop, bool from_end) {
    std::set<LinkId> links;
    const size_t length = group.cores->front().size();
    for (const Core& core : *group.cores) {
      if (core.size() != length || hop >= length) return {};
      links.insert(from_end ? core[length - 1 - hop] : core[hop]);
    }
    return {links.begin(), links.end()};
  }

  // Cuts at one hop: all links that groups share directly or through others, and each distinct choice of links inside.
  void use_hop(size_t hop, bool from_end) {
    std::map<LinkSet, std::vector<const Group*>> by_set;
    for (const Group& group : groups_)
      if (LinkSet links = links_at(group, hop, from_end); !links.empty()) by_set[links].push_back(&group);
    std::map<LinkId, LinkId> parent;
    const std::function<LinkId(LinkId)> root = [&](LinkId link) {
      LinkId& above = parent.try_emplace(link, link).first->second;
      return above == link ? link : above = root(above);
    };
    for (const auto& [links, groups] : by_set)
      for (LinkId link : links) parent[root(link)] = root(links.front());
    std::map<LinkId, std::vector<const LinkSet*>> components;
    for (const auto& [links, groups] : by_set) components[root(links.front())].push_back(&links);
    for (const auto& [unused, sets] : components) use_component(sets, by_set);
  }

  void use_component(const std::vector<const LinkSet*>& sets,
                     const std::map<LinkSet, std::vector<const Group*>>& by_set) {
    std::set<LinkId> all;
    for (const LinkSet* links : sets) all.insert(links->begin(), links->end());
    std::set<LinkSet> cuts{LinkSet(all.begin(), all.end())};
    if (sets.size() <= kMaxSubsets)
      for (const LinkSet* links : sets) cuts.insert(*links);
    for (const LinkSet& cut : cuts) {
      std::vector<uint64_t> weights;
      for (const LinkSet* links : sets)
        if (std::includes(cut.begin(), cut.end(), links->begin(), links->end()))
          for (const Group* group : by_set.at(*links))
            weights.insert(weights.end(), group->weights.begin(), group->weights.end());
      use_cut(cut, std::move(weights));
    }
  }

  void use_cut(const LinkSet& cut, std::vector<uint64_t> weights) {
    std::vector<Bin> bins;
    uint64_t rate = 0, bytes = sum(weights);
    for (LinkId link : cut) {
      bins.push_back({problem_.fabric->link(link).rate_bps, problem_.fixed_bytes[link]});
      rate += bins.back().rate_bps;
      bytes += bins.back().fixed_bytes;
    }
    std::sort(weights.begin(), weights.end(), std::greater<>());
    bounds_.fluid_ns = std::max(bounds_.fluid_ns, drain_ns(bytes, rate));
    bounds_.cores_ns = std::max(bounds_.cores_ns, cut_bound_ns(bins, weights));
    bounds_.whole_ns = std::max(bounds_.whole_ns, bounds_.cores_ns);
  }

  const Problem& problem_;
  std::vector<Group> groups_;
  Bounds bounds_;
};

}  // namespace

uint64_t cut_bound_ns(std::span<const Bin> bins, std::span<const uint64_t> weights) {
  if (weights.empty() || bins.empty()) return 0;
  uint64_t rate = 0, fastest = 0, bytes = sum(weights);
  bool alike = true;
  for (const Bin& bin : bins) {
    rate += bin.rate_bps;
    fastest = std::max(fastest, bin.rate_bps);
    bytes += bin.fixed_bytes;
    alike = alike && bin.rate_bps == bins.front().rate_bps && bin.fixed_bytes == 0;
  }
  uint64_t bound = std::max(drain_ns(bytes, rate), drain_ns(weights.front(), fastest));
  if (alike) {
    // Of the j*m + 1 heaviest flows, some j + 1 share one of m links: at best the j + 1 lightest of them.
    const size_t links = bins.size();
    std::vector<uint64_t> before(weights.size() + 1);  // sums of the heaviest flows
    std::partial_sum(weights.begin(), weights.end(), before.begin() + 1);
    for (size_t j = 1; j * links < weights.size(); ++j)
      bound = std::max(bound, drain_ns(before[j * links + 1] - before[j * links - j], fastest));
    return bound;
  }
  size_t tried = 0;
  for (size_t index = weights.size(); index-- > 0 && tried < kMaxSizes;) {
    if (weights[index] == 0 || (index + 1 < weights.size() && weights[index] == weights[index + 1])) continue;
    bound = count_bound_ns(bins, weights[index], index + 1, bound);
    ++tried;
  }
  return bound;
}

Bounds lower_bounds(const Problem& problem) {
  return BoundFinder(problem).find();
}

}  // namespace orrery::planner
