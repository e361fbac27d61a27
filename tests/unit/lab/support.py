"""What the tests of the lab and the demo share: the import path, a small fabric, made-up runs."""

import os
import sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "lab"))

from orrery_demo.runs import Outcome, Run  # noqa: E402
from orrery_lab.topology import Topology  # noqa: E402

RATE = 100_000_000


def fabric(leaves=2, spines=2, hosts=4):
    """As `orreryctl topology show --json` prints it."""
    per_leaf = hosts // leaves
    cables = [(f"h{h + 1}:eth0", f"leaf{h // per_leaf + 1}:p{h % per_leaf + 1}") for h in range(hosts)]
    cables += [(f"leaf{l + 1}:p{per_leaf + s + 1}", f"spine{s + 1}:p{l + 1}") for l in range(leaves) for s in range(spines)]
    peers = {**dict(cables), **{b: a for a, b in cables}}

    def port(node, name, **more):
        return {"name": name, "rate_bps": RATE, "queue_bytes": 262144, "peer": peers[f"{node}:{name}"], "mac": "02:00:00:00:00:01",
                "peer_mac": "02:00:00:00:00:02", **more}

    def switch(name, tier, ports):
        return {"name": name, "tier": tier, "hash": {"function": "murmur-5tuple", "seed": 7}, "ports": [port(name, f"p{i + 1}") for i in range(ports)]}

    return {"name": "test", "mtu_bytes": 9000,
            "switches": [switch(f"leaf{i + 1}", 1, per_leaf + spines) for i in range(leaves)] + [switch(f"spine{i + 1}", 2, leaves) for i in range(spines)],
            "hosts": [{"name": f"h{h + 1}", "nics": [port(f"h{h + 1}", "eth0", address=f"10.0.{h // per_leaf + 1}.{h % per_leaf + 1}")]} for h in range(hosts)],
            "links": [{"a": a, "b": b, "rate_bps": RATE} for a, b in cables]}


def topology(**shape):
    return Topology(fabric(**shape))


class Workload:
    def ideal(self, _topology):
        return 100.0, "a formula"


def run(scheme, seed, times_ms, load=0.5, **more):
    """A run whose ports all carried `load`; `uneven`: {port: load} for others."""
    loads = {f"{n.name}:{p.name}": load for n in topology().nodes for p in n.ports}
    loads.update(more.pop("uneven", {}))
    figures = {"drops": 0, "retransmits": 0, "cpu_max": 0.5, "cpu_mean": 0.4, **more}
    return Run(scheme, seed, Outcome(times_ms, figures.pop("verified", True), losses=figures.pop("losses", [])), loads,
               {p: u * 1e6 for p, u in loads.items()}, **figures)
