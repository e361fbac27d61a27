"""tools/demo as a user runs it: its JSON, its report, its manners when interrupted or when something fails."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import lab_support as support
from orrery_lab.programs import Programs

RUN_KEYS = {"mean_ms", "p50_ms", "p99_ms", "max_ms", "iterations_per_s", "max_link_utilization", "mean_link_utilization", "drops", "retransmits",
            "plan_hit_rate", "verified", "per_seed"}


class Demo(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.name = support.lab_name("d")
        self.addCleanup(lambda: self.assertEqual(support.traces(self.name), []))

    def _path(self, name):
        return os.path.join(self._folder.name, name)

    def _arguments(self, *more):
        return [support.DEMO, "--build", Programs().build_folder, "--name", self.name, "--hosts", "4", "--leaves", "2", "--spines", "2", "--bytes", "512K",
                "--rounds", "12", "--launches", "1", "--seeds", "2", *more]

    def _run(self, *more, expected=0):
        done = subprocess.run(self._arguments(*more), capture_output=True, text=True, timeout=150, check=False)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done

    def test_results_have_the_promised_names_and_can_be_redrawn(self):
        done = self._run("--json", self._path("r.json"), "--report", self._path("r.html"))
        with open(self._path("r.json"), encoding="utf-8") as saved:
            results = json.load(saved)
        self.assertEqual(results["schema"], 1)
        self.assertGreater(results["ideal_ms"], 0)
        self.assertEqual(set(results["runs"]), {"ecmp", "ecmp_multi", "orrery"})
        for run in results["runs"].values():
            self.assertLessEqual(RUN_KEYS, set(run))
            self.assertTrue(run["verified"])
            self.assertEqual([len(s["times_ms"]) for s in run["per_seed"]], [12, 12])
            self.assertGreater(run["mean_ms"], 0.9 * results["ideal_ms"])  # two packets of burst count in so short a run
        self.assertLessEqual({"mean", "p99", "drops"}, set(results["ratios"]))
        self.assertTrue(results["plan"]["flows"])
        self.assertIn("iteration mean", done.stdout)
        self.assertIn("orreryctl", done.stderr)
        again = subprocess.run([support.DEMO, "--redraw", self._path("r.json"), "--report", self._path("again.html")], capture_output=True, text=True,
                               timeout=30, check=True)
        self.assertEqual(again.stdout, done.stdout)
        with open(self._path("r.html"), encoding="utf-8") as first, open(self._path("again.html"), encoding="utf-8") as second:
            self.assertEqual(first.read(), second.read())

    def test_source_ports_alone_also_carry_out_the_plan(self):
        self._run("--driver", "entropy", "--seeds", "1")

    def test_dry_run_changes_nothing_and_says_so(self):
        self.assertIn("none was applied", self._run("--driver", "dry-run", "--seeds", "1").stdout)

    def test_an_interrupt_cleans_up_and_says_so(self):
        for delay in (1.0, 6.0):
            with subprocess.Popen(self._arguments("--rounds", "40"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
                support.wait_for_traces(self.name, child)
                time.sleep(delay)
                child.send_signal(signal.SIGINT)
                _, words = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 130, words)
            self.assertIn("interrupted", words)
            self.assertEqual(support.traces(self.name), [])

    def test_after_kill_9_the_next_demo_removes_the_remains(self):
        with subprocess.Popen(self._arguments("--rounds", "40"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            support.wait_for_traces(self.name, child, "process")
            child.kill()
        self.assertNotEqual(support.traces(self.name), [])
        self._run("--seeds", "1")

    def test_a_rank_that_fails_is_reported_with_its_words_and_the_logs_are_kept(self):
        build = self._path("build")
        for folder in ("bin", "lib"):
            os.makedirs(os.path.join(build, folder))
            for entry in os.listdir(os.path.join(Programs().build_folder, folder)):
                os.symlink(os.path.join(Programs().build_folder, folder, entry), os.path.join(build, folder, entry))
        bench = os.path.join(build, "bin", "orrery-bench")
        os.unlink(bench)
        with open(bench, "w", encoding="ascii") as out:
            out.write("#!/bin/sh\necho rank $RANK has no luck\nexit 5\n")
        os.chmod(bench, 0o755)
        arguments = [build if a == Programs().build_folder else a for a in self._arguments("--seeds", "1")]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no luck", done.stderr)
        kept = done.stderr.rpartition("kept in ")[2].strip()
        self.assertTrue(os.path.isdir(kept), done.stderr)
        subprocess.run(["rm", "-r", kept], check=True)

    def test_results_that_are_none_are_refused(self):
        with open(self._path("x.json"), "w", encoding="ascii") as out:
            out.write("{}")
        done = subprocess.run([support.DEMO, "--redraw", self._path("x.json")], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds no results", done.stderr)


if __name__ == "__main__":
    unittest.main()
