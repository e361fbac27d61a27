"""Counters of a lab's namespaces, read so cheaply that sampling does not disturb what is measured.

Files under /proc/net show the namespace they were opened in for as long as they are open: each is opened once and read again and again.
"""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from . import roce
from .commands import run
from .namespace import Entered


class Counters:
    """Owns the open files until close(). For one thread."""

    def __init__(self, sites):
        self._sites = sites
        self._topology = sites.topology
        self._device_files = []  # (descriptor, {interface: "leaf1:p5"})
        self._snmp_files = []
        for netns, nodes in sites.namespaces():
            with Entered(netns):
                self._device_files.append((os.open("/proc/thread-self/net/dev", os.O_RDONLY), self._ports(nodes)))
                if nodes[0].is_host and netns:
                    self._snmp_files.append(os.open("/proc/thread-self/net/snmp", os.O_RDONLY))

    def _ports(self, nodes):
        return {self._sites.interface(node, port): f"{node.name}:{port.name}" for node in nodes for port in node.ports}

    def close(self):
        for descriptor in (*(file for file, _ in self._device_files), *self._snmp_files):
            os.close(descriptor)
        self._device_files, self._snmp_files = [], []

    def sent_bytes(self):
        """{"leaf1:p5": bytes sent by that port since the lab came up}, for hosts too; with Ethernet headers, without dropped packets."""
        return {ports[name]: sent for file, ports in self._device_files for name, sent in _device_bytes(_read(file)) if name in ports}

    def retransmits(self):
        """Summed over all hosts. TCP: segments sent again. RoCE: times a sender went back and repeated what followed."""
        if self._sites.hosts_share:
            return sum(roce.times_gone_back(self._sites.rdma_device(host)) for host in self._topology.hosts)
        return sum(_retransmitted(_read(file)) for file in self._snmp_files)

    def drops(self):
        """{"leaf1:p5": packets its queue refused}. Starts one tc per namespace: for before and after a run, not for sampling."""
        with ThreadPoolExecutor(4) as pool:
            results = pool.map(lambda entry: (self._ports(entry[1]), _queue_drops(entry[0])), self._sites.namespaces())
            return {ports[name]: count for ports, queues in results for name, count in queues.items() if name in ports}


def _read(descriptor):
    text = b""
    while chunk := os.pread(descriptor, 65536, len(text)):  # the kernel hands out a page or so at a time
        text += chunk
    return text.decode()


def _device_bytes(text):
    for line in text.splitlines()[2:]:
        name, _, fields = line.partition(":")
        name = name.strip()
        if name != "lo":
            yield name, int(fields.split()[8])


def _retransmitted(text):
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


def _queue_drops(netns):
    drops = {}
    for queue in json.loads(run(["tc", *(["-n", netns] if netns else []), "-j", "-s", "qdisc", "show"]) or "[]"):
        if queue.get("kind") == "bfifo":
            drops[queue["dev"]] = drops.get(queue["dev"], 0) + queue.get("drops", 0)
    return drops


class Samples:
    """A time line of sent_bytes(): append() now and then, ask at() for any moment between."""

    def __init__(self, counters):
        self._counters = counters
        self.points = []  # (wall clock in seconds, {port: bytes}), ascending

    def append(self):
        self.points.append((time.time(), self._counters.sent_bytes()))

    def at(self, moment):
        """Bytes per port at `moment`, by straight lines between the samples around it."""
        before = after = self.points[0]
        for point in self.points:
            if point[0] <= moment:
                before = point
            after = point
            if point[0] >= moment:
                break
        span = after[0] - before[0]
        share = min(1.0, max(0.0, (moment - before[0]) / span)) if span > 0 else 0.0
        return {port: sent + (after[1][port] - sent) * share for port, sent in before[1].items()}

    def between(self, start, end):
        first, last = self.at(start), self.at(end)
        return {port: last[port] - first[port] for port in first}
