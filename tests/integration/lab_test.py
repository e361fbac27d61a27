"""The lab comes up, carries packets, and leaves no trace, whatever happens to it."""

import os
import signal
import subprocess
import tempfile
import time
import unittest

import lab_support as support
from orrery_lab import calibrate
from orrery_lab.counters import Counters
from orrery_lab.errors import LabError
from orrery_lab.lab import Lab, status
from orrery_lab.programs import Programs


class LabUpAndDown(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.name = support.lab_name("l")
        self.addCleanup(self._remove)
        self.fabric, self.file = support.small_fabric(self._folder.name)

    def _remove(self):
        with Lab(self.name, Programs()) as lab:
            lab.down()

    def _command(self, *arguments, **more):
        return subprocess.run([support.LAB, *arguments], capture_output=True, text=True, timeout=60, check=False, **more)

    def _up(self, *arguments):
        done = self._command("up", "--name", self.name, "--topology", self.file, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def _ping(self, source, address):
        return self._command("exec", "--name", self.name, source, "--", "ping", "-q", "-c", "2", "-i", "0.2", "-W", "1", address).returncode

    def test_every_host_reaches_every_other_and_down_leaves_no_trace(self):
        links_before = support.link_count()
        self._up()
        for source in self.fabric.hosts:
            for target in self.fabric.hosts:
                self.assertEqual(self._ping(source.name, target.ports[0].address), 0, f"{source.name} to {target.name}")
        self.assertNotEqual(support.traces(self.name), [])
        self.assertEqual(self._command("down", "--name", self.name).returncode, 0)
        self.assertEqual(support.traces(self.name), [])
        self.assertEqual(support.link_count(), links_before)

    def test_a_second_up_removes_what_a_killed_lab_left(self):
        self._up()
        with Lab(self.name, Programs()) as lab:
            for process in lab.processes():
                os.kill(process["pid"], signal.SIGKILL)
        os.unlink(f"/run/orrery/lab/{self.name}/state.json")
        self._up()
        self.assertEqual(self._ping("h1", self.fabric.hosts[-1].ports[0].address), 0)

    def test_packets_flow_on_when_every_switch_process_is_killed(self):
        self._up()
        with Lab(self.name, Programs()) as lab:
            for process in lab.processes():
                os.kill(process["pid"], signal.SIGKILL)
        time.sleep(0.3)
        self.assertEqual(self._ping("h1", self.fabric.hosts[-1].ports[0].address), 0)
        self.assertFalse(any(p["alive"] for p in status(self.name)["processes"]))

    def test_an_interrupted_up_leaves_no_trace(self):
        for delay in (0.1, 0.25, 0.5):
            with subprocess.Popen([support.LAB, "up", "--name", self.name, "--topology", self.file, "--check"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as child:
                support.wait_for_traces(self.name, child)
                time.sleep(delay)
                child.send_signal(signal.SIGINT)
                self.assertEqual(child.wait(60), 130)
            self.assertEqual(support.traces(self.name), [])

    def test_a_switch_that_cannot_start_fails_the_up_with_its_words_and_leaves_no_trace(self):
        with tempfile.TemporaryDirectory() as build:
            os.mkdir(os.path.join(build, "bin"))
            os.symlink(Programs().program("orreryctl"), os.path.join(build, "bin", "orreryctl"))
            broken = os.path.join(build, "bin", "orrery-switch")
            with open(broken, "w", encoding="ascii") as out:
                out.write("#!/bin/sh\necho no such luck; exit 3\n")
            os.chmod(broken, 0o755)
            done = self._command("up", "--name", self.name, "--topology", self.file, "--build", build)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such luck", done.stderr)
        self.assertEqual(support.traces(self.name), [])

    def test_a_wrong_topology_is_refused_before_anything_is_made(self):
        with open(self.file, encoding="utf-8") as file:
            text = file.read()
        with open(self.file, "w", encoding="utf-8") as out:
            out.write(text.replace('"schema": 1', '"schema": 1, "nonsense": 1, "foolishness": 2'))
        done = self._command("up", "--name", self.name, "--topology", self.file)
        self.assertEqual(done.returncode, 1)
        for mistake in ("nonsense", "foolishness"):
            self.assertIn(mistake, done.stderr)
        self.assertEqual(support.traces(self.name), [])

    def test_two_labs_do_not_meet(self):
        other = support.lab_name("m")
        with Lab(other, Programs()) as second:
            try:
                second.up(self.fabric)
                self._up()
                self.assertEqual(self._command("down", "--name", self.name).returncode, 0)
                self.assertEqual(sum(p["alive"] for p in status(other)["processes"]), len(self.fabric.switches))
                with self.assertRaises(LabError):
                    Lab(other, Programs())
            finally:
                second.down()

    def test_a_queue_is_finite_and_its_drops_are_counted(self):
        with Lab(self.name, Programs()) as lab:
            lab.up(self.fabric)
            counters = Counters(lab.sites)
            self.addCleanup(counters.close)
            before = counters.sent_bytes()["h1:eth0"]
            verdict = calibrate.calibrate(lab, seconds=1.0)
            self.assertGreater(verdict.slowest_share, 0)
            self.assertGreater(counters.sent_bytes()["h1:eth0"], before + 1_000_000)
            self.assertEqual(set(counters.drops()), {f"{n.name}:{p.name}" for n in self.fabric.nodes for p in n.ports})
            lab.down()


if __name__ == "__main__":
    unittest.main()
