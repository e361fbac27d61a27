"""Which host runs which rank."""

import random

PLACEMENTS = ("interleaved", "contiguous", "random")


def place(placement, topology, seed=0):
    """Hosts by rank. interleaved: consecutive ranks under different leaves, so that every step of a ring crosses the spine.
    contiguous: consecutive ranks under one leaf where they can be. random: shuffled by `seed`."""
    by_leaf = {}
    for host in topology.hosts:
        by_leaf.setdefault(topology.leaf_of(host), []).append(host)
    contiguous = [host for hosts in by_leaf.values() for host in hosts]
    if placement == "contiguous":
        return contiguous
    if placement == "random":
        random.Random(seed).shuffle(contiguous)
        return contiguous
    longest = max(len(hosts) for hosts in by_leaf.values())
    return [hosts[i] for i in range(longest) for hosts in by_leaf.values() if i < len(hosts)]


def crossing_share(hosts, topology):
    """Share of a ring's steps that cross the spine."""
    leaves = [topology.leaf_of(host) for host in hosts]
    return sum(leaves[i] != leaves[i - 1] for i in range(len(leaves))) / len(leaves)
