"""A link fails under a running job, and its queue pairs go over other spines from then on without losing a byte: what a plan can do for
a flow that exists already. With driver entropy they take other source ports while they run, with driver ebpf the switches get other rules."""

import os
import time
from dataclasses import dataclass, field

from orrery_lab.commands import run
from orrery_lab.daemons import orreryctl_environment

from . import runs
from .watcher import PlanWatcher
from .workload_nccl import WARM_UP_ROUNDS

LAUNCH = "live-move"
ROUNDS = 6
ROUNDS_BEFORE = 2  # timed ones, before the link fails
MUCH_SENT = 64 * 1024  # less is control traffic


@dataclass
class LiveMove:
    """What happened; `document` for the results."""
    failed_link: str = ""
    failed_s: float = 0.0           # wall clock
    moved: int = 0                  # queue pairs that took another source port while they ran
    rerouted: int = 0               # queue pairs whose path is another one, by whatever means
    seconds: float = 0.0            # from the failure until all were seen on their new paths
    deferred_sends: int = 0
    held_ns: int = 0
    verified: bool = False
    before_ms: list = field(default_factory=list)
    after_ms: list = field(default_factory=list)
    problem: str = ""

    def sentence(self):
        if self.problem:
            return self.problem
        return (f"{self.failed_link} failed; {self.rerouted} queue pairs got another path, {self.moved} of them by another source port while they ran; all "
                f"were seen there {self.seconds:.1f} s later, data {'verified' if self.verified else 'WRONG'}")

    def document(self):
        return {"failed_link": self.failed_link, "moved_queue_pairs": self.moved, "rerouted_queue_pairs": self.rerouted, "seconds_to_move": round(self.seconds, 3),
                "deferred_sends": self.deferred_sends, "held_ms": round(self.held_ns / 1e6, 3), "verified": self.verified,
                "before_ms": [round(t, 3) for t in self.before_ms], "after_ms": [round(t, 3) for t in self.after_ms], "problem": self.problem}


class _Episode:
    """Called now and then while the job runs: waits until its flows are planned and busy, fails a link, watches them leave it."""

    def __init__(self, lab, watcher, move, bytes_before):
        self._lab, self._watcher, self._move, self._bytes_before = lab, watcher, move, bytes_before
        self._paths = {}  # of each queue pair when the link failed

    def __call__(self):
        move = self._move
        pairs = [f for f in self._watcher.ask("flow", "list").get("flows", []) if f["queue_pair"] and f["tx_bytes"] >= MUCH_SENT]
        if not move.failed_link:
            planned = all(f["on_path"] == "yes" for f in pairs) and len(pairs) >= len(self._lab.topology.hosts)
            if planned and min(f["tx_bytes"] for f in pairs) >= self._bytes_before:
                self._fail(pairs)
            return
        # At the end of the job its queue pairs are gone from the list: what was seen counts.
        move.moved = max(move.moved, sum(f["queue_pair"]["moves"] for f in pairs))
        move.deferred_sends = max(move.deferred_sends, sum(f["queue_pair"]["deferred_sends"] for f in pairs))
        move.held_ns = max(move.held_ns, sum(f["held_ns"] for f in pairs))
        move.rerouted = max(move.rerouted, sum(f["path"] != self._paths.get(_name(f), f["path"]) for f in pairs))
        there = move.rerouted and pairs and all(f["on_path"] == "yes" and move.failed_link not in f["path"] for f in pairs)
        if there and not move.seconds:
            move.seconds = time.time() - move.failed_s

    def _fail(self, pairs):
        """The uplink of the leaf that carries the busiest queue pair."""
        port = max(pairs, key=lambda f: f["tx_bytes"])["path"][1]
        set_link(self._lab, port, "down")
        self._paths = {_name(f): f["path"] for f in pairs}
        self._move.failed_link, self._move.failed_s = port, time.time()


def _name(flow):
    return flow["src_host"], flow["queue_pair"]["qpn"]


def set_link(lab, port, state):
    node, _, name = port.partition(":")
    run(["ip", "-n", lab.netns(node), "link", "set", name, state])


def watch(lab, counters, workload, driver, progress):
    """Runs the job once under Orrery, fails a link in its midst, and tells what came of it."""
    move = LiveMove()
    lab.start_orrery(driver)
    try:
        watcher = PlanWatcher(lab.programs.program("orreryctl"), {**os.environ, **orreryctl_environment(lab)})
        episode = _Episode(lab, watcher, move, workload.sent_bytes(WARM_UP_ROUNDS + ROUNDS_BEFORE + 0.3))
        done = runs.execute(lab, counters, workload, "orrery", LAUNCH, episode, progress)
    finally:
        if move.failed_link:
            set_link(lab, move.failed_link, "up")
        lab.stop_orrery()
    move.verified = done.outcome.verified
    _divide(move, done.outcome)
    if not move.failed_link:
        move.problem = "the flows were not seen on their planned paths before the job ended, so no link was failed"
    elif not move.rerouted:
        move.problem = "no queue pair got another path"
    elif driver == "entropy" and not move.moved:
        move.problem = "no queue pair took another source port"
    elif not move.seconds:
        move.problem = "not every queue pair was seen on its new path before the job ended"
    return move


def _divide(move, outcome):
    """Iterations that ended before the failure, and those that began after it; the one in between is neither."""
    for duration_ms, start_s in zip(outcome.times_ms, outcome.starts_s):
        if not move.failed_link or start_s + duration_ms / 1e3 <= move.failed_s:
            move.before_ms.append(duration_ms)
        elif start_s >= move.failed_s:
            move.after_ms.append(duration_ms)
