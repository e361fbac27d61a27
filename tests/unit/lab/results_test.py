import unittest

import support
from orrery_demo import options, results, table
from orrery_demo.runs import merge

KEYS = {"mean_ms", "p50_ms", "p99_ms", "max_ms", "iterations_per_s", "max_link_utilization", "mean_link_utilization", "drops", "retransmits",
        "plan_hit_rate", "verified", "per_seed"}
MACHINE = {"processors": 2, "model": "a machine", "memory_bytes": 1, "kernel": "6", "system": "Debian"}


def document(runs, *arguments):
    return results.build(options.parse(list(arguments)), support.topology(), support.Workload(), runs, MACHINE, None)


def three_schemes():
    return [support.run("ecmp", 1, [300, 300], drops=90, retransmits=10, uneven={"leaf1:p3": 1.0, "leaf1:p4": 0.0}),
            support.run("ecmp_multi", 1, [200, 200], drops=10, retransmits=10),
            support.run("orrery", 1, [100, 110], drops=1, plan_hits=9, plan_misses=1),
            support.run("ecmp", 2, [100, 500], drops=0), support.run("ecmp_multi", 2, [150, 150]),
            support.run("orrery", 2, [100, 90], plan_hits=10)]


class Results(unittest.TestCase):
    def test_the_document_has_the_names_it_promises(self):
        found = document(three_schemes())
        self.assertEqual(found["schema"], 1)
        self.assertEqual(set(found["runs"]), {"ecmp", "ecmp_multi", "orrery"})
        for run in found["runs"].values():
            self.assertLessEqual(KEYS, set(run))
            self.assertEqual([s["seed"] for s in run["per_seed"]], [1, 2])
        self.assertLessEqual({"mean", "p99", "drops"}, set(found["ratios"]))

    def test_iterations_of_all_seeds_are_pooled(self):
        ecmp = document(three_schemes())["runs"]["ecmp"]
        self.assertEqual((ecmp["mean_ms"], ecmp["max_ms"], ecmp["drops"]), (300, 500, 90))

    def test_ratios_say_how_much_longer_ecmp_takes(self):
        ratios = document(three_schemes())["ratios"]
        self.assertAlmostEqual(ratios["mean"], 300 / 100)
        self.assertAlmostEqual(ratios["drops"], 1 / 100)
        self.assertAlmostEqual(ratios["orrery_mean_to_ideal"], 1.0)

    def test_the_hit_rate_counts_hits_over_all_seeds_and_is_none_without_plans(self):
        runs = document(three_schemes())["runs"]
        self.assertAlmostEqual(runs["orrery"]["plan_hit_rate"], 19 / 20)
        self.assertIsNone(runs["ecmp"]["plan_hit_rate"])

    def test_the_spread_is_the_worst_seeds(self):
        spread = document(three_schemes())["spread"]
        self.assertGreater(spread["ecmp"], 1.0)
        self.assertEqual(spread["orrery"], 0.0)

    def test_one_wrong_run_makes_the_scheme_unverified(self):
        runs = three_schemes()
        runs[4].outcome.verified = False
        found = document(runs)["runs"]
        self.assertFalse(found["ecmp_multi"]["verified"])
        self.assertTrue(found["ecmp"]["verified"])

    def test_launches_are_pooled_and_the_worst_of_them_gives_spread_and_drawing(self):
        even, uneven = support.run("ecmp", 1, [100, 100], drops=1), support.run("ecmp", 1, [300], drops=2, uneven={"leaf1:p3": 0.9, "leaf1:p4": 0.0})
        seed = document([merge([even, uneven], support.topology())])["runs"]["ecmp"]["per_seed"][0]
        self.assertEqual((seed["times_ms"], seed["launch_means_ms"], seed["drops"]), ([100, 100, 300], [100, 300], 3))
        self.assertEqual((seed["link_utilization"]["leaf1:p3"], seed["max_link_utilization"]), (0.9, 0.9))
        self.assertGreater(seed["spine_spread"], 1.0)

    def test_connections_are_kept_by_launch_where_every_launch_knows_them(self):
        launches = [support.run("ecmp", 1, [100]), support.run("ecmp", 1, [100])]
        launches[0].outcome.connections = [["10.0.1.1:40000", "10.0.2.1:5000"]]

        def seed():
            return document([merge(launches, support.topology())])["runs"]["ecmp"]["per_seed"][0]

        self.assertNotIn("connections", seed())
        launches[1].outcome.connections = [["10.0.1.1:40001", "10.0.2.1:5000"]]
        self.assertEqual(seed()["connections"], [[["10.0.1.1:40000", "10.0.2.1:5000"]], [["10.0.1.1:40001", "10.0.2.1:5000"]]])

    def test_no_drops_anywhere_leave_the_drop_ratio_open(self):
        self.assertIsNone(document([support.run("ecmp", 1, [300]), support.run("orrery", 1, [100])])["ratios"]["drops"])


class Table(unittest.TestCase):
    def test_every_scheme_is_a_column_and_wrong_data_stands_out(self):
        runs = three_schemes()
        runs[0].outcome.verified = False
        text = table.render(document(runs))
        head = text.splitlines()[0]
        for title in options.TITLES.values():
            self.assertIn(title, head)
        self.assertIn("NO", next(line for line in text.splitlines() if line.startswith("data verified")))

    def test_a_contiguous_placement_says_that_nothing_is_to_be_gained(self):
        self.assertIn("next to nothing to gain", table.render(document(three_schemes(), "--placement", "contiguous")))

    def test_a_busy_machine_is_warned_about(self):
        self.assertIn("WARNING", table.render(document([support.run("ecmp", 1, [1], cpu_mean=0.97), support.run("orrery", 1, [1])])))

    def test_dry_run_says_that_no_plan_was_applied(self):
        self.assertIn("none was applied", table.render(document(three_schemes(), "--driver", "dry-run")))


if __name__ == "__main__":
    unittest.main()
