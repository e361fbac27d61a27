import unittest

import support
from orrery_lab import calibrate


class Calibrate(unittest.TestCase):
    def test_every_host_sends_once_and_receives_once_under_its_own_leaf(self):
        fabric = support.topology(leaves=4, spines=4, hosts=16)
        pairs = calibrate.neighbours(fabric)
        self.assertEqual(len(pairs), 16)
        self.assertEqual(len({a.name for a, _ in pairs}), 16)
        self.assertEqual(len({b.name for _, b in pairs}), 16)
        self.assertTrue(all(fabric.leaf_of(a) == fabric.leaf_of(b) for a, b in pairs))

    def test_a_leaf_with_one_host_has_no_neighbours(self):
        self.assertEqual(calibrate.neighbours(support.topology(leaves=2, spines=1, hosts=2)), [])

    def test_the_line_rate_in_payload_counts_as_all_of_it(self):
        payload = 12_500_000 * 8948 / 9014
        self.assertAlmostEqual(calibrate.line_share(payload, 1.0, 100_000_000, 9000), 1.0)

    def test_a_slow_flow_is_called_out_and_a_busy_machine_is_cautioned_about(self):
        good = calibrate.Verdict(0.99, 0.995, 0.4, 16, 100_000_000)
        self.assertTrue(good.sentence().startswith("the machine sustains the links"))
        self.assertNotIn("little is left", good.sentence())
        self.assertIn("little is left", calibrate.Verdict(0.99, 0.995, 0.99, 16, 100_000_000).sentence())
        self.assertIn("DOES NOT SUSTAIN", calibrate.Verdict(0.80, 0.9, 0.4, 16, 100_000_000).sentence())


if __name__ == "__main__":
    unittest.main()
