"""Plan quality: how near plans come to a fabric that never blocks, and what hashing loses, at 1024 and 8192 hosts."""

import json
from dataclasses import dataclass

RATE_BPS = 400 * 10**9
FABRICS = {16: (4, 4), 1024: (32, 32), 8192: (128, 64)}  # hosts: leaves, spines
GROUP = 32  # ranks of an all-to-all: expert parallelism
SOME = ("ecmp", "ecmp-multi", "spray", "orrery")


@dataclass(frozen=True)
class Case:
    name: str
    words: str
    engine: str = "packet"
    schemes: tuple = ("all",)
    placement: str = "fragmented"
    op: str = "all_reduce"
    bytes: int = 8_000_000
    steps: int = 8  # of the ring, merged
    failed: int = 0  # spines
    path_limit: int = 64


@dataclass(frozen=True)
class Aim:
    words: str
    measured: float
    bound: float
    at_least: bool = False

    def met(self):
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    def sentence(self):
        return f"{'met   ' if self.met() else 'MISSED'}  {self.words}: {self.measured:.3f} ({'at least' if self.at_least else 'at most'} {self.bound:.3f})"


def cases(hosts):
    """What is run: packet by packet where that takes seconds a run, as flows elsewhere and beside it."""
    large = hosts > 1024
    ring = dict(bytes=2_000_000, steps=4) if large else {}
    group = min(GROUP, hosts // 2)
    exchange = dict(op="all_to_all", bytes=4_000_000 if large else 16_000_000, path_limit=16 if large else 64)
    some = dict(schemes=SOME) if large else {}
    flows = dict(engine="fluid", bytes=32_000_000, steps=16)
    every = [
        Case("all-reduce", "ring all-reduce, ranks fragmented", **ring, **some),
        Case("all-reduce-flows", "the same, as flows", **flows),
        Case("all-to-all", f"all-to-all in groups of {group}, ranks fragmented", **exchange, **some),
        Case("failed-spine", "ring all-reduce, ranks fragmented, one spine failed", failed=1, **ring, **some),
        Case("failed-spine-flows", "the same, as flows", failed=1, **flows),
        Case("contiguous", "ring all-reduce, ranks leaf by leaf", placement="contiguous", **ring, **some),
    ]
    if large:
        every.insert(3, Case("all-to-all-flows", "the same, as flows", **dict(exchange, bytes=16_000_000), engine="fluid"))
        every.append(Case("contiguous-flows", "the same, as flows", placement="contiguous", **flows))
    return every


def scenario(case, hosts, rounds, seeds, schemes=None):
    """A scenario file; JSON is YAML."""
    leaves, spines = FABRICS[hosts]
    step = {"op": case.op, "bytes": case.bytes}
    if case.op == "all_to_all":
        step["group"] = {"size": min(GROUP, hosts // 2)}
    topology = {"leaf_spine": {"leaves": leaves, "spines": spines, "hosts": hosts, "rate_bps": RATE_BPS, "queue_bytes": 64_000_000}}
    if case.failed:
        topology["down"] = [f"spine{i + 1}" for i in range(case.failed)]
    chosen = schemes or case.schemes
    return json.dumps({
        "topology": topology,
        "placement": {"kind": case.placement},
        "schemes": "all" if "all" in chosen else list(chosen),
        "path_limit": case.path_limit,
        "seeds": seeds,
        "jobs": [{"name": case.name, "hosts": hosts, "iterations": rounds, "max_steps": case.steps, "round_width": 4, "steps": [step]}],
        "engine": {"kind": case.engine, "for_rate_bps": RATE_BPS},
    })


def aims(case, hosts, document):
    """What the case was to show, where the schemes that show it were run."""
    schemes = {s["scheme"]: s for s in document["schemes"]}
    orrery, multi, ideal = schemes.get("orrery"), schemes.get("ecmp-multi"), document["ideal_ms"]
    if not orrery or not orrery["mean_ms"] or not ideal:
        return []
    spines = FABRICS[hosts][1]
    if case.failed:
        left = spines / (spines - case.failed)
        return [Aim(f"Orrery beside the ideal with {spines - case.failed} of {spines} spines' capacity", orrery["mean_ms"] / (ideal * left), 1.05)]
    beside = orrery["mean_ms"] / ideal
    if case.op == "all_to_all":
        return [Aim("Orrery beside the ideal", beside, 1.05)]
    if case.placement == "contiguous":
        return [Aim("Orrery beside the ideal", beside, 1.01)] + ([Aim("Orrery beside ECMP", orrery["mean_ms"] / schemes["ecmp"]["mean_ms"], 1.001)] if "ecmp" in schemes else [])
    found = [Aim("Orrery beside the ideal", beside, 1.03)]
    if multi and multi["mean_ms"]:
        found += [Aim("ECMP with 4 connections beside Orrery, mean", multi["mean_ms"] / orrery["mean_ms"], 1.4, at_least=True),
                  Aim("ECMP with 4 connections beside Orrery, P99", multi["p99_ms"] / orrery["p99_ms"], 3.0, at_least=True)]
    return found


def run(simulator, hosts, options):
    """Yields (case, document, aims) as they come."""
    chosen = [case for case in cases(hosts) if not options.case or case.name in options.case]
    simulator.plan(sum(map(weight, chosen)))
    for case in chosen:
        name = f"{case.name}-{hosts}"
        with open(simulator.path(name + ".yaml"), "w", encoding="utf-8") as out:
            out.write(scenario(case, hosts, options.rounds or 2, options.seeds or 2, options.scheme))
        document = simulator.study(name, f"{case.name}, {hosts} hosts", [simulator.path(name + ".yaml")], weight(case))
        yield case, document, aims(case, hosts, document)


def weight(case):
    return 1.0 if case.engine == "packet" else 0.1
