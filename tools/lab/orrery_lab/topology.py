"""The fabric as the lab needs it: read from the topology file through orreryctl, which validates it."""

import json
import os
from dataclasses import dataclass

from .commands import run
from .errors import LabError

MAX_INTERFACE_NAME = 15  # IFNAMSIZ less its zero byte

# Of a fabric the lab makes up itself. A switch port holds 14 jumbo packets, between three and four times what is under way on a path
# across the spine; a host queues in its own memory and is held back there, it does not lose its own packets.
SWITCH_QUEUE_BYTES = 131072
HOST_QUEUE_BYTES = 1 << 20


@dataclass(frozen=True)
class Shape:
    """Of the links of a fabric that the lab makes up."""
    rate_bps: int
    switch_queue_bytes: int
    mtu_bytes: int


# RoCE runs in software emulation: rates that its processor sustains, and packets of 4096 bytes and headers.
SHAPES = {"tcp": Shape(100_000_000, SWITCH_QUEUE_BYTES, 9000), "roce": Shape(3_000_000, 4 * SWITCH_QUEUE_BYTES, 4200)}


@dataclass(frozen=True)
class Port:
    name: str
    rate_bps: int
    queue_bytes: int
    mac: str
    peer: str       # "leaf1:p1", "" when nothing is plugged in
    peer_mac: str
    address: str    # NICs only, else ""


@dataclass(frozen=True)
class Node:
    name: str
    tier: int       # 0 host, 1 leaf, 2 spine, ...
    ports: tuple
    hash_function: str
    hash_seed: int

    @property
    def is_host(self):
        return self.tier == 0


class Topology:
    """Immutable. `document` is the JSON of `orreryctl topology show FILE --json`."""

    def __init__(self, document):
        self.document = document
        self.name = document["name"]
        self.mtu_bytes = document["mtu_bytes"]
        self.switches = tuple(_switch(s) for s in document["switches"])
        self.hosts = tuple(_host(h) for h in document["hosts"])
        self.nodes = self.switches + self.hosts
        self._by_name = {n.name: n for n in self.nodes}
        self.links = tuple((link["a"], link["b"]) for link in document["links"])
        _check(self)

    def node(self, name):
        if name not in self._by_name:
            raise LabError(f"no node is named {name}", "nodes are: " + ", ".join(self._by_name))
        return self._by_name[name]

    def port(self, reference):
        node, _, port = reference.partition(":")
        return next(p for p in self.node(node).ports if p.name == port)

    def leaf_of(self, host):
        return host.ports[0].peer.partition(":")[0]

    def fabric_ports(self):
        """Egress ports between switches, as "leaf1:p5": the links that ECMP and plans choose among."""
        names = {s.name for s in self.switches}
        return [f"{s.name}:{p.name}" for s in self.switches for p in s.ports if p.peer.partition(":")[0] in names]

    def with_hash_seed(self, seed):
        """The same fabric with every switch's ECMP seed derived from `seed`."""
        document = json.loads(json.dumps(self.document))
        for index, switch in enumerate(document["switches"]):
            switch["hash"]["seed"] = (seed * 1000 + index + 1) & 0xFFFFFFFF
        return Topology(document)

    def file_text(self):
        """A topology file (JSON is YAML) that says the same; what the daemons of the lab read."""
        def port(p):
            return {"name": p.name, "rate_bps": p.rate_bps, "queue_bytes": p.queue_bytes}

        return json.dumps({
            "schema": 1, "name": self.name, "mtu_bytes": self.mtu_bytes,
            "switches": [{"name": s.name, "tier": s.tier, "hash": {"function": s.hash_function, "seed": s.hash_seed},
                          "ports": [port(p) for p in s.ports]} for s in self.switches],
            "hosts": [{"name": h.name, "nics": [dict(port(p), address=p.address) for p in h.ports]} for h in self.hosts],
            "links": [list(link) for link in self.links]}, indent=1) + "\n"


def _port(document):
    return Port(document["name"], int(document["rate_bps"]), int(document["queue_bytes"]), document["mac"],
                document.get("peer") or "", document.get("peer_mac") or "", document.get("address", ""))


def _switch(document):
    hash_settings = document["hash"]
    return Node(document["name"], int(document["tier"]), tuple(_port(p) for p in document["ports"]),
                hash_settings["function"], int(hash_settings["seed"]))


def _host(document):
    return Node(document["name"], 0, tuple(_port(p) for p in document["nics"]), "", 0)


def _check(topology):
    """What the file may say but this lab cannot build."""
    for node in topology.nodes:
        for port in node.ports:
            if len(port.name) > MAX_INTERFACE_NAME:
                raise LabError(f"{node.name}:{port.name}: the kernel takes interface names of at most {MAX_INTERFACE_NAME} characters",
                               "shorten the port's name in the topology file")
    for host in topology.hosts:
        if len(host.ports) != 1:
            raise LabError(f"{host.name} has {len(host.ports)} NICs; a host of the lab has one", "split it into hosts with one NIC each")
        if ":" in host.ports[0].address:
            raise LabError(f"{host.name} has the IPv6 address {host.ports[0].address}; the lab's switches forward IPv4", "give it an IPv4 address")


def load(orreryctl, path):
    text = run([orreryctl, "topology", "show", path, "--json"])
    return Topology(json.loads(text))


def generate(orreryctl, folder, leaves, spines, hosts, shape=SHAPES["tcp"]):
    """A leaf-spine fabric of one shape and the lab's host queues; `folder` is for a file in passing."""
    path = os.path.join(folder, "leaf-spine.yaml")
    run([orreryctl, "topology", "generate", "leaf-spine", "--leaves", str(leaves), "--spines", str(spines), "--hosts", str(hosts),
         "--rate-bps", str(shape.rate_bps), "--queue-bytes", str(shape.switch_queue_bytes), "--mtu-bytes", str(shape.mtu_bytes), "--output", path])
    document = load(orreryctl, path).document
    for host in document["hosts"]:
        for nic in host["nics"]:
            nic["queue_bytes"] = HOST_QUEUE_BYTES
    return Topology(document)
