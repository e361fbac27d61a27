import unittest

import support
from orrery_demo.placement import crossing_share, place


class Placement(unittest.TestCase):
    def setUp(self):
        self.fabric = support.topology(leaves=4, spines=4, hosts=16)

    def test_interleaved_puts_every_step_of_the_ring_across_the_spine(self):
        self.assertEqual(crossing_share(place("interleaved", self.fabric), self.fabric), 1.0)

    def test_contiguous_crosses_the_spine_once_per_leaf(self):
        self.assertEqual(crossing_share(place("contiguous", self.fabric), self.fabric), 4 / 16)

    def test_random_follows_its_seed_and_only_its_seed(self):
        names = [[h.name for h in place("random", self.fabric, seed)] for seed in (1, 1, 2)]
        self.assertEqual(names[0], names[1])
        self.assertNotEqual(names[0], names[2])

    def test_every_placement_uses_every_host_once(self):
        everyone = sorted(h.name for h in self.fabric.hosts)
        for placement in ("interleaved", "contiguous", "random"):
            self.assertEqual(sorted(h.name for h in place(placement, self.fabric, 3)), everyone)


if __name__ == "__main__":
    unittest.main()
