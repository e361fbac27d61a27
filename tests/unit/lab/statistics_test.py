import math
import random
import unittest

import support  # noqa: F401  (the import path)
from orrery_demo import statistics


class Statistics(unittest.TestCase):
    def test_a_percentile_lies_between_its_neighbours_by_their_distance(self):
        self.assertEqual(statistics.percentile([10, 20], 50), 15)
        self.assertAlmostEqual(statistics.percentile(list(range(101)), 99), 99)
        self.assertEqual(statistics.percentile([7], 99), 7)

    def test_percentiles_ascend_and_stay_within_the_values(self):
        rng = random.Random(4)
        for _ in range(200):
            values = [rng.uniform(0, 1000) for _ in range(rng.randint(1, 40))]
            found = [statistics.percentile(values, p) for p in (0, 25, 50, 99, 100)]
            self.assertEqual(found, sorted(found))
            self.assertEqual((found[0], found[-1]), (min(values), max(values)))

    def test_the_percentile_of_nothing_is_no_number(self):
        self.assertTrue(math.isnan(statistics.percentile([], 50)))

    def test_the_spread_is_the_range_over_the_mean(self):
        self.assertEqual(statistics.spread([1, 2, 3]), 1.0)
        self.assertEqual(statistics.spread([0, 0]), 0.0)
        self.assertEqual(statistics.spread([5, 5, 5]), 0.0)

    def test_a_ratio_to_nothing_is_none(self):
        self.assertIsNone(statistics.ratio(3, 0))
        self.assertEqual(statistics.ratio(0, 4), 0)

    def test_iterations_per_second_follow_from_the_mean(self):
        self.assertEqual(statistics.times([100, 300])["iterations_per_s"], 5.0)


if __name__ == "__main__":
    unittest.main()
