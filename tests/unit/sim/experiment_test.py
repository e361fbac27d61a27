"""The published experiment's arithmetic, its fabric, and its table."""
import os
import sys
import unittest

TOOLS = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..", "tools"))
sys.path[:0] = [os.path.join(TOOLS, "sim"), os.path.join(TOOLS, "lab")]

from experiment import fabric, readings, table  # noqa: E402


def by_name(name):
    return next(r for r in readings.READINGS if r.name == name)


class ExperimentTest(unittest.TestCase):
    def test_bounds_are_those_of_the_nic_or_of_the_uplinks(self):
        self.assertAlmostEqual(by_name("fragmented-400").bound_ms(), 18.75)
        self.assertAlmostEqual(by_name("fragmented-100").bound_ms(), 37.5)
        self.assertAlmostEqual(by_name("contiguous-100").bound_ms(), 18.75)
        self.assertAlmostEqual(by_name("reduce-scatter-100").bound_ms(), 9.375)
        self.assertAlmostEqual(by_name("two-nics-400").bound_ms(), 9.375)

    def test_what_cannot_hold_is_said(self):
        said = " ".join(readings.verdicts())
        for part in ("18.75 ms", "cannot hold", "9.38 ms", "130 ms an iteration", "No number of all-reduces"):
            self.assertIn(part, said)

    def test_the_fabric_has_two_parallel_links_between_every_leaf_and_spine(self):
        lines = fabric.topology_yaml(10**11, 4 * 10**11, 200_000).splitlines()
        cables = [line for line in lines if line.startswith("  - [leaf")]
        self.assertEqual(len(cables), 8)
        pairs = [(c.split("[")[1].split(":")[0], c.split(", ")[1].split(":")[0]) for c in cables]
        self.assertEqual({p: pairs.count(p) for p in pairs}, {(f"leaf{leaf}", f"spine{spine}"): 2 for leaf in (1, 2) for spine in (1, 2)})
        self.assertEqual(len({end for c in cables for end in c.strip(" -[]").split(", ")}), 16)
        self.assertEqual(sum(line.startswith("  - [h") for line in lines), 32)

    def test_the_table_has_published_numbers_beside_ours(self):
        figures = {"mean_ms": 20.0, "p99_ms": 30.0, "worst_ms": 31.0, "slowdown": 1.1, "max_core_utilisation": 0.5, "core_spread": 2.0, "drops": 7, "retransmits": 8,
                   "iterations": 3, "unfinished": 0}
        document = {"ideal_ms": 18.9, "schemes": [dict(figures, scheme="ecmp"), dict(figures, scheme="spray"), dict(figures, scheme="orrery", mean_ms=10.0, unfinished=2)]}
        text = table.render(by_name("fragmented-400"), document)
        ecmp, spray = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("ecmp", "spray"))
        self.assertTrue(ecmp.endswith("21   87   61%   2130"), ecmp)
        self.assertTrue(spray.endswith("7       8"), spray)
        self.assertIn("ECMP / Orrery: mean 2.00 (published 1.62), P99 1.00 (published 4.83)", text)
        self.assertIn("WARNING: 2 iterations did not end", text)


if __name__ == "__main__":
    unittest.main()
