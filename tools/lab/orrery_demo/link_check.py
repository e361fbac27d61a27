"""Shows that the machine sustains the links of a RoCE lab: the workload itself on a ring of neighbours, in which no two flows share a link.

With consecutive ranks under one leaf, each host sends to its neighbour, and one flow leaves each leaf and one enters it: whatever hash
they meet, each has all its links for itself and must reach the line rate.
"""

import time
from dataclasses import replace

from orrery_lab import calibrate
from orrery_lab.errors import LabError
from orrery_lab.machine import CpuMeter

from . import placement
from .workload_roce import RoceWorkload

LAUNCH = "link-check"
ROUNDS = 2
# Timed from the call to the slowest rank's end, so that the latency of the ring's steps counts, which a stream timed in its midst does not show.
NEEDED_SHARE = 0.85


def check(lab, options, programs):
    """A calibrate.Verdict."""
    hosts = placement.place("contiguous", lab.topology)
    workload = RoceWorkload(replace(options, collective="all-reduce", rounds=ROUNDS), programs, hosts)
    meter, ranks = CpuMeter(), workload.start(lab, LAUNCH, "ecmp")
    try:
        _wait(lab, ranks, meter, workload.limit_s)
    finally:
        lab.stop("rank-")
        for child in ranks.values():
            child.wait()
    outcome = workload.outcome(lab, LAUNCH)
    shares = [workload.ideal(lab.topology)[0] / time_ms for time_ms in outcome.times_ms]
    cpu = meter.mean_and_max(outcome.started_s, outcome.ended_s)[0]
    return calibrate.Verdict(min(shares), sum(shares) / len(shares), cpu, len(hosts), hosts[0].ports[0].rate_bps, needed_share=NEEDED_SHARE)


def _wait(lab, ranks, meter, limit_s):
    deadline = time.monotonic() + limit_s
    while any(child.poll() is None for child in ranks.values()) and time.monotonic() < deadline:
        meter.sample()
        time.sleep(0.5)
    failed = [name for name, child in ranks.items() if child.poll() != 0]
    if failed:
        raise LabError(f"the link check failed: {failed[0]} ended with status {ranks[failed[0]].poll()}", f"see {lab.log_file(failed[0])}")
