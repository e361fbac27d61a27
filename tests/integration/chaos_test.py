"""Kill -9 of any part in the middle of a run: the workload ends with the right data, and what died can be started again."""

import os
import signal
import tempfile
import time
import unittest

import lab_support as support
from orrery_demo import options, placement, runs
from orrery_demo.workload_nccl import NcclWorkload
from orrery_lab.counters import Counters
from orrery_lab.lab import Lab
from orrery_lab.programs import Programs


class Chaos(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        fabric, _ = support.small_fabric(folder.name)
        programs = Programs()
        self.lab = Lab(support.lab_name("c"), programs)
        self.addCleanup(self.lab.close)
        self.addCleanup(self.lab.down)
        self.lab.up(fabric)
        self.lab.start_orrery("ebpf")
        self.counters = Counters(self.lab.sites)
        self.addCleanup(self.counters.close)
        chosen = options.parse(["--bytes", "1M", "--rounds", "20"])
        self.workload = NcclWorkload(chosen, programs, placement.place("interleaved", fabric))

    def _run_and_kill(self, *victims):
        """Runs the workload and kills the victims once it has moved real data."""
        self._killed = []
        start = sum(self.counters.sent_bytes().values())

        def watch():
            if not self._killed and sum(self.counters.sent_bytes().values()) - start > 8_000_000:
                for victim in victims:
                    pid, _ = self.lab.process(victim)
                    os.kill(pid, signal.SIGKILL)
                    self._killed.append(victim)

        run = runs.execute(self.lab, self.counters, self.workload, "orrery", 1, watch, lambda: None)
        self.assertEqual(self._killed, list(victims), "the run ended before anything was killed")
        self.assertTrue(run.outcome.verified)
        self.assertEqual(len(run.outcome.times_ms), 20)

    def test_the_run_ends_well_when_an_agent_is_killed(self):
        self._run_and_kill("agent-h1")

    def test_the_run_ends_well_when_the_controller_is_killed(self):
        self._run_and_kill("controller")

    def test_the_run_ends_well_when_switch_control_processes_are_killed(self):
        self._run_and_kill("switch-leaf1", "switch-spine1")

    def test_the_run_ends_well_when_everything_of_orrery_is_killed_at_once(self):
        self._run_and_kill("controller", *[f"agent-{h.name}" for h in self.lab.topology.hosts], *[f"switch-{s.name}" for s in self.lab.topology.switches])

    def test_a_run_that_starts_without_controller_and_agents_is_simply_unmanaged(self):
        self.lab.stop_orrery()
        run = runs.execute(self.lab, self.counters, self.workload, "orrery", 1, lambda: None, lambda: None)
        self.assertTrue(run.outcome.verified)

    def test_a_restarted_controller_and_agents_plan_the_next_run(self):
        self._run_and_kill("controller", "agent-h1")
        self.lab.stop_orrery()
        time.sleep(0.2)
        self.lab.start_orrery("ebpf")
        run = runs.execute(self.lab, self.counters, self.workload, "orrery", 2, lambda: None, lambda: None)
        self.assertTrue(run.outcome.verified)


if __name__ == "__main__":
    unittest.main()
