"""Shows that the machine sustains the emulated links: every host sends to a neighbour under its own leaf at once, for a second or two.

Such a flow shares no link with another, so each must reach the line rate; if one does not, the processors are the bottleneck and every
number measured in this lab would be about them.
"""

import os
import sys
import time
from dataclasses import dataclass

from . import machine
from .errors import LabError

NEEDED_SHARE = 0.97
TCP_IP_HEADER_BYTES = 52   # IPv4 20, TCP 20, timestamps 12
ETHERNET_HEADER_BYTES = 14
TRAFFIC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "traffic.py")
PORT = 5999


@dataclass
class Verdict:
    slowest_share: float  # of the line rate, payload headers counted in
    mean_share: float
    cpu_busy: float
    flows: int
    rate_bps: int
    needed_share: float = NEEDED_SHARE

    @property
    def sustained(self):
        return self.slowest_share >= self.needed_share

    def sentence(self):
        measured = (f"{self.flows} hosts sending at once reach {100 * self.slowest_share:.1f} % of the line rate or more "
                    f"({self.rate_bps / 1e6:g} Mbit/s each) with the processors {100 * self.cpu_busy:.0f} % busy")
        if self.sustained:
            caution = "; little is left for the workload: end what else runs here" if self.cpu_busy > machine.BUSY_LIMIT else ""
            return "the machine sustains the links: " + measured + caution
        return ("THE MACHINE DOES NOT SUSTAIN THE LINKS: " + measured + ". The figures below would be about the processors; "
                "use a topology with a lower rate_bps, or fewer hosts, or end what else runs here")


def line_share(payload_bytes, seconds, rate_bps, mtu_bytes):
    frame = mtu_bytes + ETHERNET_HEADER_BYTES
    return payload_bytes / seconds * 8 * frame / (mtu_bytes - TCP_IP_HEADER_BYTES) / rate_bps


def neighbours(topology):
    """(sender, receiver) pairs under one leaf: each host sends once and receives once where its leaf has two hosts or more."""
    by_leaf = {}
    for host in topology.hosts:
        by_leaf.setdefault(topology.leaf_of(host), []).append(host)
    return [(hosts[i], hosts[(i + 1) % len(hosts)]) for hosts in by_leaf.values() if len(hosts) > 1 for i in range(len(hosts))]


def calibrate(lab, seconds=1.5):
    pairs = neighbours(lab.topology)
    if not pairs:
        raise LabError("no leaf has two hosts, so the links cannot be checked", "use a topology with two hosts or more under a leaf")
    receivers = [_start(lab, "receive", to, [str(PORT), str(seconds)]) for _, to in pairs]
    time.sleep(0.4)
    senders = [_start(lab, "send", source, [to.ports[0].address, str(PORT), str(seconds + 1.0)]) for source, to in pairs]
    meter, deadline = None, time.monotonic() + seconds + 10
    started = time.monotonic()
    while any(child.poll() is None for child in receivers):
        if meter is None and time.monotonic() - started > 0.6:
            meter = machine.CpuMeter()
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    meter = meter or machine.CpuMeter()
    meter.sample(0)
    for child in receivers + senders:
        child.kill()
        child.wait()
    shares = [_share(lab, to) for _, to in pairs]
    lab.stop("traffic-")
    return Verdict(min(shares), sum(shares) / len(shares), meter.mean_and_max()[0], len(pairs), pairs[0][0].ports[0].rate_bps)


def _start(lab, role, host, arguments):
    name = f"traffic-{role}-{host.name}"
    return lab.start(name, [sys.executable, "-I", "-S", TRAFFIC, role, *arguments], netns=lab.netns(host.name))


def _share(lab, host):
    try:
        with open(lab.log_file(f"traffic-receive-{host.name}"), encoding="ascii") as log:
            payload, seconds = log.read().split()
    except (OSError, ValueError):
        raise LabError(f"the link check got no answer from {host.name}",
                       f"see {lab.log_file('traffic-receive-' + host.name)}; is orrery-switch forwarding?") from None
    nic = host.ports[0]
    return line_share(int(payload), float(seconds), nic.rate_bps, lab.topology.mtu_bytes)
