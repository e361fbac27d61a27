// Rings, chains and trees: one neighbour at a time, everybody at once.
#include <algorithm>
#include <map>

#include "tools/sim/workload/weave.h"

namespace orrery::sim {
namespace {

// In step k of a ring rank r sends part r - k, of as many parts as there are ranks. `steps` of ours are `all` of those.
uint64_t ring_bytes(uint64_t bytes, uint32_t ranks, uint32_t rank, uint64_t first, uint64_t end) {
  const uint64_t oldest = (rank + uint64_t{ranks} * 2 - (end - 1)) % ranks;
  return parts_of(bytes, ranks, static_cast<uint32_t>(oldest), static_cast<uint32_t>(end - first));
}

// `last`: what the step before sent, by rank and slice.
void ring_step(Weaver& weaver, uint32_t channel, uint64_t first, uint64_t end, std::vector<std::vector<Sent>>& last) {
  const uint32_t n = weaver.ranks();
  auto sent = last;
  for (uint32_t rank = 0; rank < n; ++rank) {
    const uint64_t bytes = ring_bytes(weaver.channel_bytes(channel), n, rank, first, end);
    const auto slices = static_cast<uint32_t>(sent[rank].size());
    for (uint32_t slice = 0; slice < slices; ++slice)
      sent[rank][slice] = weaver.send(rank, (rank + 1) % n, part_of(bytes, slices, slice), channel, 0,
                                      {last[(rank + n - 1) % n][slice].arrived});
  }
  last.swap(sent);
}

// Down a chain of ranks, chunk by chunk.
void weave_chain(Weaver& weaver, const std::vector<uint32_t>& chain) {
  for (uint32_t channel = 0; channel < weaver.options().channels; ++channel) {
    const uint64_t bytes = weaver.channel_bytes(channel);
    const uint32_t chunks = chunk_count(bytes, weaver.options());
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      Awaited arrived;
      for (size_t i = 0; i + 1 < chain.size(); ++i) {
        const Sent sent = weaver.send(chain[i], chain[i + 1], part_of(bytes, chunks, chunk), channel, 0, {arrived});
        arrived = sent.arrived;
        if (chunk + 1 < chunks) continue;
        weaver.finish(chain[i], sent.released);
        weaver.finish(chain[i + 1], sent.arrived);
      }
    }
  }
}

struct Tree {
  std::vector<uint32_t> parent;                 // by rank; kNone: the root
  std::vector<std::vector<uint32_t>> children;  // by rank
  std::vector<uint32_t> upwards;                // ranks, children before parents
};

// In-order binary tree of 1..n-1 under 0: the lowest set bit of a node is its height, and its parent lies that far away
// on the side that makes the parent higher.
uint32_t tree_parent(uint32_t node, uint32_t n) {
  const uint32_t height = node & (~node + 1);
  const uint32_t up = (node & ~height) | (height << 1);
  return up < n ? up : node & ~height;
}

// `shift`: the tree whose inner nodes are the leaves of the one without.
Tree make_tree(const Weaver& weaver, bool shift) {
  const uint32_t n = weaver.ranks();
  std::map<uint32_t, std::vector<uint32_t>> by_host;
  std::vector<uint32_t> heads, position(n);
  for (uint32_t rank = 0; rank < n; ++rank) {
    std::vector<uint32_t>& ranks = by_host[weaver.host(rank)];
    if (ranks.empty()) heads.push_back(rank);
    ranks.push_back(rank);
  }
  const auto h = static_cast<uint32_t>(heads.size());
  Tree tree{std::vector<uint32_t>(n, kNone), std::vector<std::vector<uint32_t>>(n), {}};
  for (uint32_t i = 0; i < h; ++i) {
    // Even numbers of hosts are mirrored, odd ones turned by one.
    const auto turned = [&](uint32_t node) { return !shift ? node : h % 2 == 0 ? h - 1 - node : (node + 1) % h; };
    if (i != 0) tree.parent[heads[turned(i)]] = heads[turned(tree_parent(i, h))];
  }
  for (const auto& [host, ranks] : by_host)
    for (size_t i = 1; i < ranks.size(); ++i) tree.parent[ranks[i]] = ranks[i - 1];
  for (uint32_t rank = 0; rank < n; ++rank) {
    if (tree.parent[rank] == kNone)
      tree.upwards.push_back(rank);
    else
      tree.children[tree.parent[rank]].push_back(rank);
  }
  for (size_t i = 0; i < tree.upwards.size(); ++i)
    for (const uint32_t child : std::vector<uint32_t>(tree.children[tree.upwards[i]])) tree.upwards.push_back(child);
  std::reverse(tree.upwards.begin(), tree.upwards.end());
  return tree;
}

void weave_tree_chunk(Weaver& weaver, const Tree& tree, uint64_t bytes, uint32_t channel, bool last) {
  std::vector<std::vector<Awaited>> gathered(weaver.ranks());
  for (const uint32_t rank : tree.upwards) {
    if (tree.parent[rank] == kNone) continue;
    const Sent sent = weaver.send(rank, tree.parent[rank], bytes, channel, 0, gathered[rank]);
    gathered[tree.parent[rank]].push_back(sent.arrived);
    gathered[rank].clear();
  }
  for (auto rank = tree.upwards.rbegin(); rank != tree.upwards.rend(); ++rank) {
    for (const uint32_t child : tree.children[*rank]) {
      const Sent sent = weaver.send(*rank, child, bytes, channel, 0, gathered[*rank]);
      gathered[child] = {sent.arrived};
      if (last) weaver.finish(*rank, sent.released);
    }
    if (last)
      for (const Awaited& event : gathered[*rank]) weaver.finish(*rank, event);
  }
}

}  // namespace

uint32_t ring_slices(uint64_t channel_bytes, uint32_t ranks, uint32_t all, const CommunicatorOptions& options) {
  if (options.slice_bytes == 0) return 1;
  const uint64_t merged = options.max_steps == 0 ? 1 : (all + options.max_steps - 1) / options.max_steps;
  const uint64_t step_bytes = (channel_bytes + ranks - 1) / ranks * merged;
  return static_cast<uint32_t>(std::max<uint64_t>(1, (step_bytes + options.slice_bytes - 1) / options.slice_bytes));
}

void weave_ring(Weaver& weaver, uint32_t steps) {
  const uint64_t all =
      weaver.collective().op == Op::kAllReduce ? 2 * uint64_t{weaver.ranks() - 1} : uint64_t{weaver.ranks() - 1};
  for (uint32_t channel = 0; channel < weaver.options().channels; ++channel) {
    const uint32_t slices =
        ring_slices(weaver.channel_bytes(channel), weaver.ranks(), static_cast<uint32_t>(all), weaver.options());
    std::vector<std::vector<Sent>> last(weaver.ranks(), std::vector<Sent>(slices));
    for (uint64_t step = 0; step < steps; ++step)
      ring_step(weaver, channel, step * all / steps, (step + 1) * all / steps, last);
    for (uint32_t rank = 0; rank < weaver.ranks(); ++rank) {
      weaver.finish(rank, last[rank].back().released);
      for (const Sent& sent : last[rank]) weaver.finish((rank + 1) % weaver.ranks(), sent.arrived);
    }
  }
}

void weave_broadcast(Weaver& weaver) {
  std::vector<uint32_t> chain;
  for (uint32_t i = 0; i < weaver.ranks(); ++i) chain.push_back((weaver.collective().root + i) % weaver.ranks());
  weave_chain(weaver, chain);
}

void weave_reduce(Weaver& weaver) {
  std::vector<uint32_t> chain;
  for (uint32_t i = 1; i <= weaver.ranks(); ++i) chain.push_back((weaver.collective().root + i) % weaver.ranks());
  weave_chain(weaver, chain);
}

void weave_tree(Weaver& weaver) {
  for (const bool shift : {false, true}) {
    const Tree tree = make_tree(weaver, shift);
    for (uint32_t channel = 0; channel < weaver.options().channels; ++channel) {
      const uint64_t bytes = part_of(weaver.channel_bytes(channel), 2, shift ? 1 : 0);
      const uint32_t connection = 2 * channel + (shift ? 1 : 0);  // trees do not wait for each other
      const uint32_t chunks = chunk_count(bytes, weaver.options());
      for (uint32_t chunk = 0; chunk < chunks; ++chunk)
        weave_tree_chunk(weaver, tree, part_of(bytes, chunks, chunk), connection, chunk + 1 == chunks);
    }
  }
}

}  // namespace orrery::sim
