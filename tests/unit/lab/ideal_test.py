import unittest

import support  # noqa: F401  (the import path)
from orrery_demo.ideal import FACTORS, FORMULA, explain, ideal_ms, wire_overhead


class Ideal(unittest.TestCase):
    def test_an_all_reduce_moves_its_bytes_almost_twice(self):
        # 2 * 15/16 * 4 MiB = 7 864 320 bytes, by 9014/8948, at 12.5 MB/s
        self.assertAlmostEqual(ideal_ms("all-reduce", 16, 4 << 20, 100_000_000, 9000), 7_864_320 * 9014 / 8948 / 12_500, places=6)

    def test_smaller_packets_cost_more_headers(self):
        self.assertGreater(wire_overhead(1500), wire_overhead(9000))
        self.assertAlmostEqual(wire_overhead(1500), 1514 / 1448)

    def test_twice_the_rate_is_half_the_time(self):
        self.assertAlmostEqual(ideal_ms("broadcast", 4, 1 << 20, 2e8, 9000) * 2, ideal_ms("broadcast", 4, 1 << 20, 1e8, 9000))

    def test_every_collective_has_its_formula_in_words(self):
        self.assertEqual(set(FACTORS), set(FORMULA))
        for collective in FACTORS:
            self.assertIn(FORMULA[collective], explain(collective, 16, 1024, 1e8, 9000))


if __name__ == "__main__":
    unittest.main()
