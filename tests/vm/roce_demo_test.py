"""tools/demo --transport roce as a user runs it: a job over real RDMA in the virtual machine, planned by source ports and by switch rules,
and a path that changes under it."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
DEMO = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tools", "demo")
NO_VM = 77


class RoceDemo(unittest.TestCase):
    def _results(self, *more):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")
            done = subprocess.run([DEMO, "--transport", "roce", "--quick", "--build", os.environ["ORRERY_BUILD_DIR"], "--json", path, *more],
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(path, encoding="utf-8") as saved:
                return json.load(saved)

    def _check(self, results):
        self.assertEqual((results["schema"], results["options"]["transport"]), (1, "roce"))
        self.assertEqual(set(results["runs"]), {"ecmp", "ecmp_multi", "orrery"})
        for run in results["runs"].values():
            self.assertTrue(run["verified"])
        # Where packets go is not a matter of time: each spine link carries its share.
        self.assertLess(results["spread"]["orrery"], 0.3)
        self.assertLess(results["spread"]["orrery"], results["spread"]["ecmp"])
        self.assertTrue(results["plan"]["flows"])
        move = results["live_move"]
        self.assertEqual(move["problem"], "")
        self.assertTrue(move["verified"])
        self.assertGreater(move["rerouted_queue_pairs"], 0)
        return move

    def test_source_ports_set_when_queue_pairs_get_ready_carry_the_plan_out_and_change_while_they_run(self):
        move = self._check(self._results())
        self.assertGreater(move["moved_queue_pairs"], 0)
        self.assertGreater(move["deferred_sends"], 0)

    def test_rules_in_the_switches_carry_the_same_plan_out(self):
        move = self._check(self._results("--driver", "ebpf"))
        self.assertEqual(move["moved_queue_pairs"], 0)


if __name__ == "__main__":
    if subprocess.run([os.path.join(HERE, "run-in-vm"), "true"], stdin=subprocess.DEVNULL, check=False).returncode == NO_VM:
        sys.exit(NO_VM)
    unittest.main()
