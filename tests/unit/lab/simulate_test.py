import json
import os
import stat
import tempfile
import unittest

import support
from orrery_demo import options, results, simulate
from orrery_demo.runs import merge
from orrery_lab.errors import LabError

MACHINE = {"processors": 2, "model": "a machine", "memory_bytes": 1, "kernel": "6", "system": "Debian"}
PAIRS = [["10.0.1.1:40000", "10.0.2.1:5000"], ["10.0.2.1:41000", "10.0.1.1:5001"]]


def document(ecmp_ms=(300, 500), connections=True, **changed):
    launches = []
    for time in ecmp_ms:
        launch = support.run("ecmp", 1, [time, time])
        launch.outcome.connections = PAIRS if connections else []
        launches.append(launch)
    found = results.build(options.parse(["--seeds", "1"]), support.topology(), support.Workload(),
                          [merge(launches, support.topology()), support.run("orrery", 1, [200])], MACHINE, None)
    found["options"].update(changed)
    return found


class Simulate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = os.path.join(folder.name, "orrery-sim")
        self.asked = os.path.join(folder.name, "asked")

    def simulator(self, script):
        """A program that keeps what it is asked, one scenario a line, and answers by `script`."""
        with open(self.program, "w", encoding="ascii") as out:
            out.write(f"#!/bin/sh\ntr -d '\\n' < \"$2\" >> {self.asked}; echo >> {self.asked}\n{script}\n")
        os.chmod(self.program, stat.S_IRWXU)

    def scenarios(self):
        with open(self.asked, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def test_every_launch_is_simulated_with_its_connections_and_the_plan_once(self):
        self.simulator('case "$(cat "$2")" in *orrery*) ms=200;; *) ms=410;; esac; '
                       'echo "{\\"schemes\\":[{\\"mean_ms\\":$ms,\\"unfinished\\":0}]}"')
        found = simulate.compare([document()], self.program)
        ecmp, orrery = found["schemes"]["ecmp"], found["schemes"]["orrery"]
        self.assertEqual(([x["lab_ms"] for x in ecmp["launches"]], ecmp["lab_ms"], ecmp["simulator_ms"]), ([300, 500], 400, 410))
        self.assertEqual((orrery["lab_ms"], orrery["simulator_ms"]), (200, 200))
        ratio = found["ratios"]["ecmp"]
        self.assertAlmostEqual(ratio["lab"], 2.0)
        self.assertAlmostEqual(ratio["difference"], 0.025)
        asked = self.scenarios()
        self.assertEqual([s["schemes"] for s in asked], [["ecmp"]] * 3 + [["orrery"]] * 2)
        self.assertEqual(asked[0]["five_tuples"][0], {"from": "10.0.1.1:40000", "to": "10.0.2.1:5000", "protocol": "tcp"})
        self.assertNotIn("five_tuples", asked[2])  # random ports
        self.assertEqual(asked[2]["seeds"], simulate.RANDOM_SEEDS)
        self.assertEqual(asked[0]["jobs"][0]["hosts"], ["h1", "h3", "h2", "h4"])  # interleaved, as the lab's ranks
        self.assertIn("+2.5%", simulate.render(found))

    def test_a_simulation_that_fails_or_does_not_end_is_told(self):
        self.simulator("echo no luck >&2; exit 1")
        with self.assertRaisesRegex(LabError, "no luck"):
            simulate.compare([document()], self.program)
        self.simulator('echo "{\\"schemes\\":[{\\"mean_ms\\":1,\\"unfinished\\":1}]}"')
        with self.assertRaisesRegex(LabError, "did not end"):
            simulate.compare([document()], self.program)

    def test_results_that_cannot_be_simulated_are_refused(self):
        for changed in ({"workload": "torch"}, {"transport": "roce"}, {"collective": "all-to-all"}):
            with self.assertRaisesRegex(LabError, "only all-reduce over TCP"):
                simulate.compare([document(**changed)], self.program)
        with self.assertRaisesRegex(LabError, "which connections"):
            simulate.compare([document(connections=False)], self.program)


if __name__ == "__main__":
    unittest.main()
