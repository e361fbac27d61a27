// Rounds in which partners change: halving and doubling, PAT, all-to-all, send/recv.
#include <algorithm>
#include <bit>
#include <functional>
#include <map>

#include "tools/sim/workload/weave.h"

namespace orrery::sim {
namespace {

struct HalvingDoubling {
  Weaver& weaver;
  uint32_t channel;
  uint32_t power;  // ranks below it take part, the others have a partner who does
  uint32_t levels;
  std::vector<Awaited> last;  // by rank: after all that has arrived

  // Each rank below `power` exchanges with rank ^ distance. `sends_own`: the block that holds its own part (doubling),
  // else the partner's (halving).
  void step(uint32_t distance, bool sends_own) {
    const uint64_t bytes = weaver.channel_bytes(channel);
    const auto round = static_cast<uint32_t>(std::bit_width(distance) - 1);
    std::vector<Awaited> next(weaver.ranks());
    for (uint32_t rank = 0; rank < power; ++rank) {
      const uint32_t partner = rank ^ distance, block = (sends_own ? rank : partner) & ~(distance - 1);
      const Sent sent =
          weaver.send(rank, partner, parts_of(bytes, power, block, distance), channel, round, {last[rank]});
      next[partner] = sent.arrived;
      weaver.finish(rank, sent.released);
    }
    for (uint32_t rank = 0; rank < power; ++rank) last[rank] = with(rank, next[rank]);
  }
  // What a rank sends is made of all that has come so far, not of the last part alone.
  Awaited with(uint32_t rank, const Awaited& arrived) {
    if (last[rank].kind == Awaited::Kind::kNothing) return arrived;
    const Awaited both[] = {last[rank], arrived};
    return weaver.join(rank, both);
  }
  void fold() {
    for (uint32_t rank = power; rank < weaver.ranks(); ++rank)
      last[rank - power] = weaver.send(rank, rank - power, weaver.channel_bytes(channel), channel, levels, {}).arrived;
  }
  void unfold() {
    for (uint32_t rank = power; rank < weaver.ranks(); ++rank) {
      const Sent sent =
          weaver.send(rank - power, rank, weaver.channel_bytes(channel), channel, levels + 1, {last[rank - power]});
      weaver.finish(rank - power, sent.released);
      last[rank] = sent.arrived;
    }
  }
};

// Bytes that rank sends over `distance` when the parts of all ranks are broadcast down binomial trees, far steps first:
// part q stands at q + x for multiples x of 2 * distance, and goes on to q + x + distance where that is still a rank.
uint64_t pat_bytes(uint64_t bytes, uint32_t n, uint32_t rank, uint32_t distance, bool scatter) {
  uint64_t sum = 0;
  for (uint64_t x = 0; x + distance < n; x += 2 * uint64_t{distance}) {
    const uint64_t back = scatter ? x + distance : x;
    sum += part_of(bytes, n, static_cast<uint32_t>((rank + n - back) % n));
  }
  return sum;
}

// All-to-all among equals: member i of a group sends to member i + r in round r, rounds `width` at a time, each group
// of rounds after the one before has come and gone.
struct Rounds {
  Weaver& weaver;
  uint32_t channel;
  std::function<uint64_t(uint32_t from, uint32_t to)> bytes;

  void run(const std::vector<std::vector<uint32_t>>& groups, uint32_t first_phase,
           std::vector<std::vector<Awaited>>& last) {
    const uint32_t width = std::max(1u, weaver.options().round_width);
    const auto members = static_cast<uint32_t>(groups[0].size());
    weaver.at_once(width > 1 && weaver.collective().split_phases);
    for (uint32_t first = 1; first < members; first += width) {
      std::vector<std::vector<Awaited>> events(weaver.ranks());
      for (uint32_t round = first; round < std::min(first + width, members); ++round)
        for (const auto& group : groups)
          for (uint32_t i = 0; i < members; ++i) {
            const uint32_t from = group[i], to = group[(i + round) % members];
            const Sent sent =
                weaver.send(from, to, bytes(from, to), channel, first_phase + (first - 1) / width, last[from]);
            events[from].push_back(sent.released);
            events[to].push_back(sent.arrived);
          }
      for (const auto& group : groups)
        for (const uint32_t rank : group) {
          if (width > 1) events[rank] = {weaver.join(rank, events[rank])};
          last[rank].swap(events[rank]);
        }
    }
  }
};

void finish_all(Weaver& weaver, const std::vector<std::vector<Awaited>>& last) {
  for (uint32_t rank = 0; rank < weaver.ranks(); ++rank)
    for (const Awaited& event : last[rank]) weaver.finish(rank, event);
}

std::vector<std::vector<uint32_t>> ranks_by_host(const Weaver& weaver) {
  std::map<uint32_t, size_t> group_of;
  std::vector<std::vector<uint32_t>> groups;
  for (uint32_t rank = 0; rank < weaver.ranks(); ++rank) {
    const auto [group, added] = group_of.try_emplace(weaver.host(rank), groups.size());
    if (added) groups.emplace_back();
    groups[group->second].push_back(rank);
  }
  return groups;
}

// What hosts[h][i] holds for the ranks hosts[..][i], by i: the rows turned to columns.
std::vector<std::vector<uint32_t>> columns(const std::vector<std::vector<uint32_t>>& rows) {
  std::vector<std::vector<uint32_t>> columns(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) columns[i].push_back(row[i]);
  return columns;
}

}  // namespace

void weave_halving_doubling(Weaver& weaver) {
  const uint32_t power = std::bit_floor(weaver.ranks()), levels = log2_up(power);
  const Op op = weaver.collective().op;
  for (uint32_t channel = 0; channel < weaver.options().channels; ++channel) {
    HalvingDoubling parts{weaver, channel, power, levels, std::vector<Awaited>(weaver.ranks())};
    parts.fold();
    if (op != Op::kAllGather)
      for (uint32_t distance = power / 2; distance > 0; distance /= 2) parts.step(distance, false);
    if (op != Op::kReduceScatter)
      for (uint32_t distance = 1; distance < power; distance *= 2) parts.step(distance, true);
    parts.unfold();
    for (uint32_t rank = 0; rank < weaver.ranks(); ++rank) weaver.finish(rank, parts.last[rank]);
  }
}

void weave_pat(Weaver& weaver) {
  const uint32_t n = weaver.ranks(), levels = log2_up(n);
  const bool scatter = weaver.collective().op == Op::kReduceScatter;
  for (uint32_t channel = 0; channel < weaver.options().channels; ++channel) {
    std::vector<std::vector<Awaited>> arrived(n);
    for (uint32_t i = 0; i < levels; ++i) {
      const uint32_t level = scatter ? i : levels - 1 - i, distance = 1u << level;
      std::vector<Awaited> next(n);
      for (uint32_t rank = 0; rank < n; ++rank) {
        const uint32_t to = (rank + (scatter ? n - distance : distance)) % n;
        const uint64_t bytes = pat_bytes(weaver.channel_bytes(channel), n, rank, distance, scatter);
        const Sent sent = weaver.send(rank, to, bytes, channel, level, arrived[rank]);
        next[to] = sent.arrived;
        if (i + 1 == levels) weaver.finish(rank, sent.released);
      }
      for (uint32_t rank = 0; rank < n; ++rank) arrived[rank].push_back(next[rank]);
    }
    for (uint32_t rank = 0; rank < n; ++rank)
      for (const Awaited& event : arrived[rank]) weaver.finish(rank, event);
  }
}

void weave_pairwise(Weaver& weaver) {
  std::vector<std::vector<uint32_t>> all(1);
  for (uint32_t rank = 0; rank < weaver.ranks(); ++rank) all[0].push_back(rank);
  for (uint32_t channel = 0; channel < weaver.options().channels; ++channel) {
    std::vector<std::vector<Awaited>> last(weaver.ranks());
    Rounds{weaver, channel,
           [&](uint32_t, uint32_t to) { return part_of(weaver.channel_bytes(channel), weaver.ranks(), to); }}
        .run(all, 0, last);
    finish_all(weaver, last);
  }
}

void weave_hierarchical(Weaver& weaver) {
  const auto hosts = ranks_by_host(weaver), rails = columns(hosts);
  std::vector<uint32_t> rail_of(weaver.ranks());
  for (uint32_t i = 0; i < rails.size(); ++i)
    for (const uint32_t rank : rails[i]) rail_of[rank] = i;
  const uint32_t width = std::max(1u, weaver.options().round_width);
  for (uint32_t channel = 0; channel < weaver.options().channels; ++channel) {
    const uint64_t bytes = weaver.channel_bytes(channel);
    std::vector<uint64_t> for_rail(rails.size());
    for (size_t i = 0; i < rails.size(); ++i)
      for (const uint32_t rank : rails[i]) for_rail[i] += part_of(bytes, weaver.ranks(), rank);
    std::vector<std::vector<Awaited>> last(weaver.ranks());
    Rounds{weaver, channel, [&](uint32_t, uint32_t to) { return for_rail[rail_of[to]]; }}.run(hosts, 0, last);
    const auto inside = static_cast<uint32_t>((rails.size() - 1 + width - 1) / width);
    Rounds{weaver, channel, [&](uint32_t, uint32_t to) { return part_of(bytes, weaver.ranks(), to) * rails.size(); }}
        .run(rails, inside, last);
    finish_all(weaver, last);
  }
}

void weave_direct(Weaver& weaver) {
  const Collective& collective = weaver.collective();
  const bool shift = collective.peer == kNone;
  for (uint32_t channel = 0; channel < weaver.options().channels; ++channel)
    for (uint32_t i = 0; i < (shift ? weaver.ranks() : 1); ++i) {
      const uint32_t from = shift ? i : collective.root, to = shift ? (i + 1) % weaver.ranks() : collective.peer;
      if (from == to) continue;
      const Sent sent = weaver.send(from, to, weaver.channel_bytes(channel), channel, 0, {});
      weaver.finish(from, sent.released);
      weaver.finish(to, sent.arrived);
    }
}

}  // namespace orrery::sim
