"""One run: the workload's ranks started on their hosts, watched, and what the fabric did meanwhile."""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field

from orrery_lab.counters import Samples
from orrery_lab.errors import LabError
from orrery_lab.machine import CpuMeter
from orrery_lab.processes import last_lines

SAMPLE_EVERY_S = 0.25


@dataclass
class Outcome:
    """What a workload says of itself."""
    times_ms: list
    verified: bool
    started_s: float = 0.0    # wall clock of the timed part
    ended_s: float = 0.0
    losses: list = field(default_factory=list)
    starts_s: list = field(default_factory=list)  # wall clock of each timed iteration
    connections: list = field(default_factory=list)  # ["10.0.1.1:40000", "10.0.2.1:5000"] of each that carried data, where known


@dataclass
class Run:
    """All launches of the program under one scheme with one hash seed."""
    scheme: str
    seed: int
    outcome: Outcome
    utilization: dict         # egress port -> share of its rate over the iterations' time (the pauses between them left out)
    sent_bytes: dict          # egress port -> bytes in the timed part
    drops: int
    retransmits: int
    cpu_max: float
    cpu_mean: float
    plan: dict = field(default_factory=dict)
    plan_hits: int = 0
    plan_misses: int = 0
    launches: list = field(default_factory=list)  # Runs; one launch stands for itself

    @property
    def each_launch(self):
        return self.launches or [self]

    @property
    def slowest_launch(self):
        return max(self.each_launch, key=lambda r: sum(r.outcome.times_ms) / len(r.outcome.times_ms))


def merge(runs, topology):
    """One Run of the launches of one scheme and seed."""
    times = [t for r in runs for t in r.outcome.times_ms]
    sent = {port: sum(r.sent_bytes[port] for r in runs) for port in runs[0].sent_bytes}
    outcome = Outcome(times, all(r.outcome.verified for r in runs), runs[0].outcome.started_s, runs[-1].outcome.ended_s, runs[0].outcome.losses)
    return Run(runs[0].scheme, runs[0].seed, outcome, _utilization(topology, sent, sum(times) / 1e3), sent, sum(r.drops for r in runs),
               sum(r.retransmits for r in runs), max(r.cpu_max for r in runs), sum(r.cpu_mean for r in runs) / len(runs),
               launches=runs)


class RunFailed(LabError):
    """A rank failed; `logs` is where its and everyone's output was kept."""


def execute(lab, counters, workload, scheme, seed, watcher, progress, launch=1):
    """Launches `workload` once under `scheme`; `watcher` is called now and then meanwhile."""
    drops_before, retransmits_before = counters.drops(), counters.retransmits()
    samples, meter = Samples(counters), CpuMeter()
    samples.append()
    ranks = workload.start(lab, f"{scheme}-seed{seed}-{launch}", scheme)
    try:
        _watch(lab, workload, ranks, samples, meter, watcher, progress)
    finally:
        lab.stop("rank-")
        for child in ranks.values():
            child.wait()
    samples.append()
    outcome = workload.outcome(lab, f"{scheme}-seed{seed}-{launch}")
    cpu_mean, cpu_max = meter.mean_and_max(outcome.started_s, outcome.ended_s)
    sent = samples.between(outcome.started_s, outcome.ended_s)
    return Run(scheme, seed, outcome, _utilization(lab.topology, sent, sum(outcome.times_ms) / 1e3), sent,
               _difference(counters.drops(), drops_before), counters.retransmits() - retransmits_before, cpu_max, cpu_mean)


def _watch(lab, workload, ranks, samples, meter, watcher, progress):
    deadline = time.monotonic() + workload.limit_s
    while True:
        states = {name: child.poll() for name, child in ranks.items()}
        failed = [name for name, code in states.items() if code]
        if failed:
            time.sleep(0.3)  # the first to fail is not always the first to be seen: let the others' words arrive
            raise _failure(lab, failed[0], f"ended with status {states[failed[0]]}")
        if all(code == 0 for code in states.values()):
            return
        if time.monotonic() > deadline:
            running = [name for name, code in states.items() if code is None]
            raise _failure(lab, running[0], f"did not end within {workload.limit_s} s")
        samples.append()
        meter.sample()
        watcher()
        progress()
        time.sleep(workload.sample_every_s)


def _failure(lab, name, what):
    words = last_lines(lab.log_file(name))
    return RunFailed(f"{name} {what}; its last words:\n    " + "\n    ".join(words or ["(none)"]))


def keep_logs(lab):
    """Copies the lab's logs to a folder that outlives it, and returns that folder."""
    folder = tempfile.mkdtemp(prefix="orrery-demo-logs-")
    if os.path.isdir(lab.log_folder):
        shutil.copytree(lab.log_folder, folder, dirs_exist_ok=True)
    return folder


def _difference(after, before):
    return sum(after.values()) - sum(before.values())


def _utilization(topology, sent, seconds):
    shares = {}
    for port, count in sent.items():
        rate = topology.port(port).rate_bps
        shares[port] = count * 8 / rate / seconds if seconds > 0 else 0.0
    return shares
