"""Counters of a lab's namespaces, read so cheaply that sampling does not disturb what is measured.

Files under /proc/net show the namespace they were opened in for as long as they are open: each is opened once and read again and again.
"""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from .commands import run
from .namespace import Entered
from .network import netns_name


class Counters:
    """Owns the open files until close(). For one thread."""

    def __init__(self, lab, topology):
        self._lab = lab
        self._topology = topology
        self._device_files = {}
        self._snmp_files = {}
        for node in topology.nodes:
            with Entered(netns_name(lab, node.name)):
                self._device_files[node.name] = os.open("/proc/thread-self/net/dev", os.O_RDONLY)
                if node.is_host:
                    self._snmp_files[node.name] = os.open("/proc/thread-self/net/snmp", os.O_RDONLY)

    def close(self):
        for descriptor in (*self._device_files.values(), *self._snmp_files.values()):
            os.close(descriptor)
        self._device_files, self._snmp_files = {}, {}

    def sent_bytes(self):
        """{"leaf1:p5": bytes sent by that port since the lab came up}, for hosts too; with Ethernet headers, without dropped packets."""
        return {f"{node}:{port}": sent for node, file in self._device_files.items() for port, sent in _device_bytes(_read(file))}

    def retransmits(self):
        """TCP segments sent again, summed over all hosts."""
        return sum(_retransmitted(_read(file)) for file in self._snmp_files.values())

    def drops(self):
        """{"leaf1:p5": packets its queue refused}. Starts one tc per node: for before and after a run, not for sampling."""
        with ThreadPoolExecutor(4) as pool:
            results = pool.map(lambda node: (node.name, _queue_drops(netns_name(self._lab, node.name))), self._topology.nodes)
            return {f"{node}:{port}": count for node, ports in results for port, count in ports.items()}


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
    for queue in json.loads(run(["tc", "-n", netns, "-j", "-s", "qdisc", "show"]) or "[]"):
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
