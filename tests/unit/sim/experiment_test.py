"""The experiments' arithmetic, fabrics, scenarios and tables; with ORRERY_BUILD_DIR set, small ones from end to end."""
import contextlib
import io
import json
import os
import subprocess
import tempfile
import sys
import unittest

TOOLS = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..", "tools"))
sys.path[:0] = [os.path.join(TOOLS, "sim"), os.path.join(TOOLS, "lab")]

from experiment import fabric, main, mixed, page, quality, readings, simulator, table  # noqa: E402


FIGURES = {"mean_ms": 20.0, "p99_ms": 30.0, "worst_ms": 31.0, "slowdown": 1.1, "max_core_utilisation": 0.5, "core_spread": 2.0, "drops": 7, "retransmits": 8,
           "iterations": 3, "iterations_per_s": 4.0, "unfinished": 0}
DOCUMENT = {"ideal_ms": 18.9, "ideal_per_s": 50.0,
            "schemes": [dict(FIGURES, scheme="ecmp"), dict(FIGURES, scheme="spray"), dict(FIGURES, scheme="orrery", mean_ms=10.0, unfinished=2)]}


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

    def test_the_published_parameters_are_set(self):
        options = main.parse([])
        made = json.loads(readings.scenario(by_name("fragmented-100"), options, "t.yaml"))
        self.assertEqual(made["jobs"][0]["hosts"], 16)
        self.assertEqual(made["jobs"][0]["steps"][0]["bytes"], 125_000_000)
        self.assertEqual(made["threshold"], 0.85)
        self.assertEqual(made["clock_error_ns"], 100)
        self.assertEqual(made["engine"]["telemetry"], {"sample_every": 100})
        self.assertEqual(made["engine"]["paths"], {"repath_level": 8})  # 128 KiB is the power of two below 170 KB
        self.assertLess(made["engine"]["ecn"]["kmax_bytes"], readings.QUEUE_BYTES)
        self.assertEqual((made["min_stagger_us"], made["max_stagger_us"]), (2, 5))
        self.assertIn("held within 2 and 5 us", readings.parameters(options))
        self.assertEqual(main.parse(["--stagger-us", "3"]).stagger_us, (3, 3))
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            main.parse(["--stagger-us", "5-2"])

    def test_every_uplink_speed_is_a_reading(self):
        for placement in ("fragmented", "random"):
            for rate in (25, 50, 100, 200, 400):
                self.assertEqual(by_name(f"{placement}-{rate}").uplink_bps, rate * 10**9)
        self.assertAlmostEqual(by_name("fragmented-25").bound_ms(), 150)

    def test_the_table_has_published_numbers_beside_ours(self):
        heading, notes, rows = table.reading(by_name("fragmented-400"), DOCUMENT, 12_500_000)
        lines = table.grid(rows).splitlines()
        ecmp, spray = (next(line for line in lines if line.startswith(name)) for name in ("ecmp", "spray"))
        self.assertTrue(ecmp.endswith("21   87   61%   2130   3.1"), ecmp)
        self.assertTrue(spray.endswith("7       8"), spray)
        self.assertIn("ECMP / Orrery: mean 2.00 (published 1.62), P99 1.00 (published 4.83)", notes)
        self.assertTrue(notes[0].startswith("cannot be faster than 1.88 ms"), notes[0])
        self.assertTrue(any("WARNING: 2 iterations did not end" in note for note in notes))
        self.assertTrue(heading.startswith("fragmented-400: "))

    def test_readings_are_ranked_by_how_far_they_are_off(self):
        far = json.loads(json.dumps(DOCUMENT))
        for scheme in far["schemes"]:
            scheme["mean_ms"] *= 10
        rows = readings.comparison({"far": far, "near": DOCUMENT})
        self.assertEqual([row[0] for row in rows], ["reading", "near", "far"])
        self.assertEqual(rows[1][1], "0.95")  # 20 ms of 21

    def test_aims_are_met_or_missed_by_the_figures(self):
        found = {case.name: quality.aims(case, 1024, DOCUMENT) for case in quality.cases(1024)}
        self.assertEqual([aim.met() for aim in found["all-reduce"]], [True])  # 10 ms beside 18.9, and no ecmp-multi
        self.assertAlmostEqual(found["failed-spine"][0].measured, 10 / (18.9 * 32 / 31))
        slow = json.loads(json.dumps(DOCUMENT))
        slow["schemes"][2]["mean_ms"] = 20.0
        missed = quality.aims(quality.cases(1024)[0], 1024, slow)[0]
        self.assertFalse(missed.met())
        self.assertTrue(missed.sentence().startswith("MISSED"))
        self.assertTrue(quality.Aim("x", 3.0, 3.0, at_least=True).met())

    def test_a_failed_spine_is_down_and_rates_suit_the_hosts(self):
        case = next(c for c in quality.cases(8192) if c.failed)
        made = json.loads(quality.scenario(case, 8192, 1, 2))
        self.assertEqual(made["topology"]["down"], ["spine1"])
        self.assertEqual(made["topology"]["leaf_spine"]["hosts"], 8192)
        self.assertEqual(made["engine"]["for_rate_bps"], 400 * 10**9)

    def test_inflation_is_of_each_job_over_its_own_ideal(self):
        document = {"ideal_job_times_ms": [[10.0, 10.0], [20.0]],
                    "schemes": [{"scheme": "ecmp", "per_seed": [{"job_times_ms": [[20.0, 20.0], [30.0]]}]}, {"scheme": "orrery", "per_seed": [{"job_times_ms": [[15.0], [25.0]]}]}]}
        found = mixed.inflations(document)
        self.assertEqual(found, {"ecmp": [1.0, 0.5], "orrery": [0.5, 0.25]})
        self.assertEqual(mixed.median_cut(found, "orrery"), 0.5)
        self.assertTrue(mixed.verdict(found)[0].startswith("met"))
        self.assertIsNone(mixed.median_cut({"ecmp": [0.0], "orrery": [0.0]}, "orrery"))

    def test_every_job_of_the_mix_trains_for_about_as_long(self):
        for job in mixed.jobs(mixed.SIZES):
            step = job["steps"][0]
            ideal_ms = step["compute_us"] / 1e3 + 2 * (job["hosts"] - 1) / job["hosts"] * step["bytes"] * 8 / mixed.NIC_BPS * 1e3
            self.assertAlmostEqual(job["iterations"] * ideal_ms, mixed.HORIZON_MS, delta=ideal_ms)

    def test_a_page_shows_figures_and_no_markup_of_others(self):
        made = page.render("<t>", [("<h>", ["MISSED  <p>"], [["scheme", "ms"], ["<s>", "1"]], {"<s>": 1.0, "orrery": 0.5})])
        for raw in ("<t>", "<h>", "<s>", "<p>MISSED"):
            self.assertNotIn(raw, made)
        self.assertIn("class=missed", made)
        self.assertIn("&lt;s&gt;", made)

    def test_the_time_left_is_told(self):
        said = []
        shown = simulator.Simulator("x", type("P", (), {"update": lambda self, text: said.append(text)})(), ".")
        shown.plan(2)
        shown._started -= 10
        shown._show("words", 1.0, "run 2 of 2: ecmp, seed 1, 3 M packet hops")
        self.assertEqual(said, ["words: ecmp, seed 1, run 2 of 2; 0:30 left"])

    @unittest.skipUnless(os.environ.get("ORRERY_BUILD_DIR"), "ORRERY_BUILD_DIR names no build")
    def test_both_experiments_run_and_keep_their_results(self):
        with tempfile.TemporaryDirectory() as folder:
            for arguments, kept in ((["--reading", "random-100", "--bytes", "400000"], "random-100"),
                                    (["--plan-quality", "--case", "failed-spine", "--case", "mixed"], "failed-spine-16")):
                done = subprocess.run([os.path.join(TOOLS, "experiment"), "--no-build", "--quick", "--scheme", "ecmp", "--scheme", "orrery", "--output", folder, *arguments],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("Kept in " + folder, done.stdout)
                with open(os.path.join(folder, "results.json"), encoding="utf-8") as source:
                    results = json.load(source)
                self.assertEqual([s["scheme"] for s in results[kept]["schemes"]], ["ecmp", "orrery"])
                with open(os.path.join(folder, "report.html"), encoding="utf-8") as source:
                    self.assertIn("<svg", source.read())


if __name__ == "__main__":
    unittest.main()
