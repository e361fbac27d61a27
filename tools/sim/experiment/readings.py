"""What was published, what the publication leaves open, and what arithmetic says of both."""

import json
import math
from dataclasses import dataclass

from . import fabric

RANKS, BYTES, NIC_BPS, QUEUE_BYTES = 16, 125_000_000, 100 * 10**9, 200_000
THRESHOLD, INT_EVERY, CLOCK_ERROR_NS, STAGGER_US = 0.85, 100, 100, (2.0, 5.0)

# mean and P99 of an iteration in ms, use of the busiest link, packets dropped, iterations a second
PUBLISHED = {"ecmp": (21.0, 87.0, 0.61, 2130, 3.1), "orrery": (13.0, 18.0, 0.94, 0, 5.2)}


@dataclass(frozen=True)
class Reading:
    name: str
    words: str
    placement: str = "fragmented"
    collective: str = "all-reduce"
    algorithm: str = "ring"
    nic_bps: int = NIC_BPS
    uplink_bps: int = 100 * 10**9

    def bound_ms(self, size=BYTES):
        """No schedule is faster: what one NIC must send, or what must cross from one leaf to the other."""
        share = (RANKS - 1) / RANKS * (2 if self.collective == "all-reduce" else 1)
        nic = size * share * 8 / self.nic_bps * 1e3
        if self.placement != "fragmented" or self.algorithm != "ring":
            return nic
        # Every hop of the ring crosses: the eight ranks of a leaf send everything over its four uplinks.
        crossing = size * share * 8 * (RANKS / 2) / (4 * self.uplink_bps) * 1e3
        return max(nic, crossing)


def _readings():
    gb = 10**9
    for rate in (25, 50, 100, 200, 400):
        held = "nothing but hashing can block" if rate >= 200 else f"they hold {4 * rate} of the 800 Gb/s that a leaf's ranks can send"
        yield Reading(f"fragmented-{rate}", f"ranks alternate between the leaves, uplinks of {rate} Gb/s: {held}", uplink_bps=rate * gb)
    for rate in (25, 50, 100, 200, 400):
        yield Reading(f"random-{rate}", f"ranks anywhere, uplinks of {rate} Gb/s", placement="random", uplink_bps=rate * gb)
    yield Reading("contiguous-100", "all ranks on one leaf: no path to choose", placement="contiguous")
    for rate in (100, 400):
        yield Reading(f"halving-{rate}", f"halving-doubling in place of the ring, uplinks of {rate} Gb/s", algorithm="halving_doubling", uplink_bps=rate * gb)
    yield Reading("tree-400", "a double binary tree in place of the ring, uplinks of 400 Gb/s", algorithm="tree", uplink_bps=400 * gb)
    yield Reading("reduce-scatter-100", "the bytes move once (a reduce-scatter, half of an all-reduce), random placement, uplinks of 100 Gb/s", placement="random",
                  collective="reduce-scatter")
    yield Reading("two-nics-400", "hosts with two 100 Gb/s NICs used as one, uplinks of 400 Gb/s", nic_bps=200 * gb, uplink_bps=400 * gb)


READINGS = tuple(_readings())


def scenario(reading, options, topology):
    """A scenario file; JSON is YAML. Marking begins inside the queues."""
    kmax = options.queue_bytes * 4 // 5
    engine = {"for_rate_bps": reading.nic_bps, "telemetry": {"sample_every": options.int_every}}
    if not options.lossless:
        engine |= {"pfc": {"enabled": False}, "ecn": {"kmin_bytes": kmax // 4, "kmax_bytes": kmax}, "paths": {"repath_level": repath_level(options)}}
    return json.dumps({
        "topology": {"file": topology},
        "placement": {"kind": reading.placement},
        "schemes": options.scheme or "all",
        "threshold": options.threshold,
        "seeds": options.seeds or 3,
        "clock_error_ns": options.clock_error_ns,
        "min_stagger_us": options.stagger_us[0],
        "max_stagger_us": options.stagger_us[1],
        "jobs": [{"name": reading.name, "hosts": RANKS, "iterations": options.rounds or 3,
                  "steps": [{"op": reading.collective.replace("-", "_"), "algorithm": reading.algorithm, "bytes": options.bytes}]}],
        "engine": engine,
    })


def repath_level(options):
    """Telemetry tells queues as powers of two of KiB: the one that holds the threshold's share of a queue."""
    return max(1, math.floor(math.log2(options.threshold * options.queue_bytes / 1024)) + 1)


def parameters(options):
    """What is set, and what follows from it."""
    drain_us = options.queue_bytes * 8 / NIC_BPS * 1e6
    kib = 2 ** (repath_level(options) - 1)
    return (f"{options.bytes / 1e6:g} MB, queues of {options.queue_bytes / 1e3:g} KB; telemetry in one of {options.int_every} packets, clocks wrong by up to {options.clock_error_ns} ns. "
            f"Threshold {options.threshold:.0%}: first-fit passes by a link that would be fuller, and a burst takes another path from a queue of {kib} KiB on. "
            f"Stagger: a queue's drain time over the flows on the link, at 100 Gb/s {drain_us:.0f} us / n, held within {options.stagger_us[0]:g} and {options.stagger_us[1]:g} us "
            "(published: 2 to 5 us).")


def run(simulator, reading, options, words):
    topology, file = simulator.path(reading.name + "-topology.yaml"), simulator.path(reading.name + ".yaml")
    with open(topology, "w", encoding="utf-8") as out:
        out.write(fabric.topology_yaml(reading.nic_bps, reading.uplink_bps, 16_000_000 if options.lossless else options.queue_bytes))
    with open(file, "w", encoding="utf-8") as out:
        out.write(scenario(reading, options, f"{reading.name}-topology.yaml"))
    return simulator.study(reading.name, words, [file])


def comparison(results):
    """Ours over theirs, the nearest reading first: by the mean of how many times each figure is off."""
    head = ["reading", "ECMP mean", "P99", "link", "it/s", "planned mean", "P99", "link", "it/s", "off by"]
    rows = []
    for name, result in results.items():
        schemes = {s["scheme"]: s for s in result["schemes"]}
        if not {"ecmp", "orrery"} <= schemes.keys() or not all(schemes[s]["mean_ms"] for s in ("ecmp", "orrery")):
            continue
        ratios = []
        for scheme in ("ecmp", "orrery"):
            mean, p99, link, _, per_s = PUBLISHED[scheme]
            ours = schemes[scheme]
            ratios += [ours["mean_ms"] / mean, ours["p99_ms"] / p99, ours["max_core_utilisation"] / link, ours["iterations_per_s"] / per_s]
        used = [r for r in ratios if r > 0]
        off = math.exp(sum(abs(math.log(r)) for r in used) / len(used))
        rows.append((off, [name, *(f"{r:.2f}" for r in ratios), f"{off:.2f}"]))
    return [head, *(row for _, row in sorted(rows, key=lambda pair: pair[0]))]


def verdicts():
    """What of the publication cannot hold, a sentence a line."""
    least = 2 * (RANKS - 1) / RANKS * BYTES * 8 / NIC_BPS * 1e3
    ecmp, planned = PUBLISHED["ecmp"], PUBLISHED["orrery"]
    gap = 1e3 / ecmp[4] - 1e3 / planned[4]
    count = gap / (ecmp[0] - planned[0])
    return [
        f"An all-reduce of {BYTES / 1e6:.0f} MB over {RANKS} ranks moves 2*{RANKS - 1}/{RANKS}*{BYTES / 1e6:.0f} MB out of every host: {least:.2f} ms at {NIC_BPS / 1e9:.0f} Gb/s, "
        f"headers aside. The published planned mean of {planned[0]:.0f} ms and P99 of {planned[1]:.0f} ms are below that: they cannot hold for such an all-reduce over one such NIC.",
        f"A mean of {planned[0]:.0f} ms fits the bytes moved once ({least / 2:.2f} ms at least: a reduce-scatter or an all-gather), or two NICs per host ({least / 2:.2f} ms). "
        "No placement and no algorithm that reduces in hosts does it over one NIC: what a host must send does not depend on them.",
        f"{ecmp[4]} and {planned[4]} iterations a second differ by {gap:.0f} ms an iteration, {count:.0f} times the {ecmp[0] - planned[0]:.0f} ms that one all-reduce gained; but {count:.0f} of "
        f"{planned[0]:.0f} ms are {count * planned[0]:.0f} ms, more than the {1e3 / planned[4]:.0f} ms of a planned iteration. No number of all-reduces per iteration gives both means.",
        f"{planned[2]:.0%} of a link cannot be its use over an iteration of {1e3 / planned[4]:.0f} ms in which it is busy for {planned[0]:.0f}: it must be the use while the collective runs.",
    ]
