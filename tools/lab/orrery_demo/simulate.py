"""The lab beside the simulator: every launch of earlier results again in orrery-sim, with the connections that it had.

The switches' hash is one function in both, so ECMP's luck is the same and what differs is the model: links, queues, transport. The mean
that other luck would give is simulated too, from random source ports.

TCP's control of congestion is not modelled. Where connections share a port of the lab it loses packets and sends them again, but the port always
has others to send, so losses cost next to no time: the simulator's queues hold what a window of each connection can put there.
"""

import json
import os
import subprocess
import tempfile

from orrery_lab.errors import LabError
from orrery_lab.topology import Topology

from . import placement, statistics
from .ideal import ETHERNET_HEADER_BYTES, TCP_IP_HEADER_BYTES
from .options import TITLES
from .table import grid
from .workload_nccl import CONNECTIONS_PER_PEER

SCHEMES = {"ecmp": "ecmp", "ecmp_multi": "ecmp-multi", "orrery": "orrery"}
SLICE_BYTES = 16384     # hostnccl's
WINDOW_BYTES = 131072
QUEUE_BYTES = 16 << 20   # nothing is lost,
RETRANSMIT_US = 10**7    # nor taken for lost
PROPAGATION_NS = 20_000  # a veth pair and orrery-switch
RANDOM_SEEDS = 200


def compare(documents, program, progress=lambda text: None):
    """{"schemes": {scheme: {"lab_ms","simulator_ms","random_ms","launches":[{"seed","lab_ms","simulator_ms"}]}}, "ratios": {...}}"""
    for document in documents:
        _check(document)
    schemes = {}
    for scheme in [s for s in SCHEMES if all(s in d["runs"] for d in documents)]:
        launches = []
        for document in documents:
            for seed in document["runs"][scheme]["per_seed"]:
                progress(f"simulating {TITLES[scheme]}, hash seed {seed['seed']}")
                launches += _seed(program, document, scheme, seed)
        progress(f"simulating {TITLES[scheme]} with random source ports")
        first = documents[0]
        random = _simulate(program, scenario(first, first["options"]["seeds"][0], scheme, [], RANDOM_SEEDS if scheme != "orrery" else 1))
        schemes[scheme] = {"lab_ms": statistics.mean([x["lab_ms"] for x in launches]), "random_ms": random,
                           "simulator_ms": statistics.mean([x["simulator_ms"] for x in launches]), "launches": launches}
    return {"schema": 1, "schemes": schemes, "ratios": _ratios(schemes)}


def _ratios(schemes):
    """How much longer than Orrery, in the lab and in the simulator, and how far the second is off."""
    found = {}
    for scheme in schemes:
        if scheme == "orrery" or "orrery" not in schemes:
            continue
        lab, simulator, random = (schemes[scheme][key] / schemes["orrery"][key] for key in ("lab_ms", "simulator_ms", "random_ms"))
        found[scheme] = {"lab": lab, "simulator": simulator, "random": random, "difference": simulator / lab - 1}
    return found


def _seed(program, document, scheme, seed):
    """One entry per launch. Where a scheme hashes, each launch has its own connections; a plan is the same for all."""
    lab = seed["launch_means_ms"]
    if scheme == "orrery":
        planned = _simulate(program, scenario(document, seed["seed"], scheme, [], 1))
        return [{"seed": seed["seed"], "lab_ms": time, "simulator_ms": planned} for time in lab]
    return [{"seed": seed["seed"], "lab_ms": time, "simulator_ms": _simulate(program, scenario(document, seed["seed"], scheme, connections, 1))}
            for time, connections in zip(lab, seed["connections"])]


def _check(document):
    options = document["options"]
    if options["workload"] != "nccl" or options.get("transport", "tcp") != "tcp" or options["collective"] != "all-reduce":
        raise LabError("only all-reduce over TCP by orrery-bench can be simulated beside the lab", "give results of tools/demo with its defaults")
    hashed = [seed for scheme in ("ecmp", "ecmp_multi") if scheme in document["runs"] for seed in document["runs"][scheme]["per_seed"]]
    if any(len(seed.get("connections", [])) != len(seed["launch_means_ms"]) for seed in hashed):
        raise LabError("the results do not say which connections the launches had", "measure again with this version of tools/demo --json")


def scenario(document, seed, scheme, connections, seeds):
    """The scenario file, less its topology, and the topology."""
    options = document["options"]
    topology = Topology(document["fabric"]).with_hash_seed(seed)
    hosts = placement.place(options["placement"], topology, seed)
    return topology, {
        "schemes": [SCHEMES[scheme]], "connections": CONNECTIONS_PER_PEER, "seeds": seeds,
        "five_tuples": [{"from": source, "to": to, "protocol": "tcp"} for source, to in connections],
        "jobs": [{"name": "lab", "hosts": [host.name for host in hosts], "slice_bytes": SLICE_BYTES,
                  "steps": [{"op": "all_reduce", "bytes": options["bytes"]}]}],
        "engine": {"propagation_ns": PROPAGATION_NS, "switch": {"port_limit_bytes": QUEUE_BYTES},
                   "ecn": {"enabled": False}, "pfc": {"enabled": False}, "dcqcn": {"enabled": False},
                   "transport": {"payload_bytes": topology.mtu_bytes - TCP_IP_HEADER_BYTES,
                                 "header_bytes": TCP_IP_HEADER_BYTES + ETHERNET_HEADER_BYTES,
                                 "control_bytes": TCP_IP_HEADER_BYTES + ETHERNET_HEADER_BYTES, "ack_every": 2, "window_bytes": WINDOW_BYTES,
                                 "retransmit_timeout_us": RETRANSMIT_US}}}


def _simulate(program, what):
    """Mean iteration, milliseconds."""
    topology, document = what
    document = {key: value for key, value in document.items() if value != []}
    with tempfile.TemporaryDirectory(prefix="orrery-demo-simulate-") as folder:
        path = os.path.join(folder, "scenario.yaml")
        with open(os.path.join(folder, "topology.yaml"), "w", encoding="utf-8") as out:
            out.write(topology.file_text())
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"topology": {"file": "topology.yaml"}, **document}, out)
        done = subprocess.run([program, "run", path, "--json", "--no-ideal"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"orrery-sim failed: {done.stderr.strip()}")
    figures = json.loads(done.stdout)["schemes"][0]
    if figures["unfinished"]:
        raise LabError("a simulated iteration did not end", "report it with the results file")
    return figures["mean_ms"]


def render(found):
    """A table for people."""
    rows = [["iteration mean", "lab", "simulator, same connections", "difference", "simulator, random ports"]]
    for scheme, figures in found["schemes"].items():
        rows.append([TITLES[scheme], f"{figures['lab_ms']:.1f} ms", f"{figures['simulator_ms']:.1f} ms",
                     f"{figures['simulator_ms'] / figures['lab_ms'] - 1:+.1%}", f"{figures['random_ms']:.1f} ms"])
    for scheme, ratio in found["ratios"].items():
        rows.append([f"{TITLES[scheme]} / Orrery", f"{ratio['lab']:.3f}", f"{ratio['simulator']:.3f}", f"{ratio['difference']:+.1%}", f"{ratio['random']:.3f}"])
    lines = [grid(rows), ""]
    for scheme, figures in found["schemes"].items():
        worst = max(figures["launches"], key=lambda x: abs(x["simulator_ms"] / x["lab_ms"] - 1))
        lines.append(f"{TITLES[scheme]}: of {len(figures['launches'])} launches the farthest off took {worst['lab_ms']:.0f} ms in the lab and "
                     f"{worst['simulator_ms']:.0f} ms in the simulator (hash seed {worst['seed']}).")
    return "\n".join(lines)
