import unittest

import support  # noqa: F401  (the import path)
from orrery_demo.workload_nccl import CONNECTED, read_outcome

RESULT = {"schema": 1, "sizes": [{"bytes": 4096, "iterations_ms": [200.0, 250.5], "verified": True}]}
ITERATIONS = "bytes,index,start_ns,duration_us\n4096,-1,1600000000000000000,9.0\n4096,0,1700000000000000000,199000.0\n4096,1,1700000000300000000,250000.0\n"


class NcclOutcome(unittest.TestCase):
    def test_times_are_the_slowest_ranks_and_the_timed_part_spans_all_iterations(self):
        outcome = read_outcome(RESULT, ITERATIONS)
        self.assertEqual(outcome.times_ms, [200.0, 250.5])
        self.assertTrue(outcome.verified)
        self.assertAlmostEqual(outcome.started_s, 1700000000.0, places=3)
        self.assertAlmostEqual(outcome.ended_s, 1700000000.55, places=3)

    def test_wrong_data_is_not_verified(self):
        wrong = {"sizes": [dict(RESULT["sizes"][0], verified=False)]}
        self.assertFalse(read_outcome(wrong, ITERATIONS).verified)

    def test_connections_are_read_from_the_ranks_words(self):
        said = CONNECTED.search("h1:77:78 [0] NCCL INFO NET/Socket : connected 10.0.1.1:40000 to 10.0.2.1:5000\n")
        self.assertEqual(said.groups(), ("10.0.1.1:40000", "10.0.2.1:5000"))


if __name__ == "__main__":
    unittest.main()
