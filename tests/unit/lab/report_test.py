import json
import os
import re
import unittest
import xml.etree.ElementTree as xml

import results_test
import support
from orrery_demo import report, report_fabric, svg, table

PLAN = {"method": "edge-colouring", "max_load_bytes": 1000, "lower_bound_bytes": 1000, "flows": [
    {"src_host": "h1", "dst_host": "h3", "path": ["h1:eth0", "leaf1:p3", "spine1:p2", "leaf2:p1"], "bytes_per_round": 1000, "release_offset_ns": 5000},
    {"src_host": "h1", "dst_host": "h2", "path": ["h1:eth0", "leaf1:p2"], "bytes_per_round": 1000, "release_offset_ns": 0}]}


def page(plan=None):
    runs = results_test.three_schemes()
    runs[2].plan = plan or {}
    return report.render(results_test.document(runs))


class Report(unittest.TestCase):
    def test_the_page_fetches_nothing(self):
        self.assertEqual(re.findall(r"(?:src|href)=|@import|url\(", page(PLAN)), [])

    def test_a_recorded_run_gives_its_table_and_its_page(self):
        with open(os.path.join(support.REPOSITORY, "tests", "fixtures", "demo_results.json"), encoding="utf-8") as saved:
            recorded = json.load(saved)
        drawn = report.render(recorded)
        for drawing in re.findall(r"<svg.*?</svg>", drawn, re.DOTALL):
            xml.fromstring(drawing)
        self.assertIn("h16 → h1", drawn)
        self.assertIn(f"{recorded['ratios']['mean']:.2f} ×", drawn)
        self.assertIn(f"takes {recorded['ratios']['mean']:.2f} times as long", table.render(recorded))

    def test_every_drawing_is_well_formed(self):
        drawings = re.findall(r"<svg.*?</svg>", page(PLAN), re.DOTALL)
        self.assertGreaterEqual(len(drawings), 2 + 2 * 2)
        for drawing in drawings:
            xml.fromstring(drawing)

    def test_the_same_results_give_the_same_page(self):
        self.assertEqual(page(PLAN), page(PLAN))

    def test_the_plan_is_drawn_when_there_is_one_and_left_out_otherwise(self):
        self.assertIn("h1 → h3", page(PLAN))
        self.assertIn("spine1", page(PLAN))
        self.assertNotIn("The plan of one round", page())

    def test_names_from_the_topology_cannot_become_markup(self):
        plan = {**PLAN, "flows": [{**PLAN["flows"][0], "src_host": "<script>alert(1)</script>"}]}
        self.assertNotIn("<script>alert", page(plan))

    def test_an_even_share_is_neutral_and_overload_is_hot(self):
        classes = [report_fabric.heat_class(load) for load in (0, 0.5, 1.0, 1.5, 4)]
        self.assertEqual(classes, sorted(classes))
        self.assertEqual((classes[0], classes[2], classes[4]), ("heat0", "heat4", "heat8"))

    def test_axis_marks_are_round_and_reach_the_top(self):
        for top in (0.3, 1, 7, 99, 634, 2500):
            marks = svg.ticks(top)
            self.assertEqual(marks[0], 0)
            self.assertGreaterEqual(marks[-1], top - 1e-9)
            self.assertLessEqual(len(marks), 8)


if __name__ == "__main__":
    unittest.main()
