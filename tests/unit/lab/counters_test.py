import unittest

import support  # noqa: F401  (the import path)
from orrery_lab import counters

DEVICES = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     500       5    0    0    0     0          0         0      500       5    0    0    0     0       0          0
    p1: 1000 10 0 0 0 0 0 0 2222 20 0 0 0 0 0 0
    p2:1 1 0 0 0 0 0 0 3333 1 0 0 0 0 0 0
"""
SNMP = """Ip: Forwarding DefaultTTL
Ip: 2 64
Tcp: RtoAlgorithm RtoMin OutSegs RetransSegs InErrs
Tcp: 1 200 1000 37 0
"""


class FakeCounters:
    def __init__(self, *readings):
        self._readings = list(readings)

    def sent_bytes(self):
        return self._readings.pop(0)


class Counters(unittest.TestCase):
    def test_bytes_sent_are_read_per_port_without_the_loopback(self):
        self.assertEqual(dict(counters._device_bytes(DEVICES)), {"p1": 2222, "p2": 3333})

    def test_retransmitted_segments_are_found_by_name(self):
        self.assertEqual(counters._retransmitted(SNMP), 37)

    def test_samples_are_joined_by_straight_lines(self):
        samples = counters.Samples(FakeCounters())
        samples.points = [(10.0, {"p": 0}), (12.0, {"p": 200}), (14.0, {"p": 1000})]
        self.assertEqual(samples.at(11.0), {"p": 100})
        self.assertEqual(samples.at(13.0), {"p": 600})
        self.assertEqual(samples.between(11.0, 13.0), {"p": 500})

    def test_moments_outside_the_samples_take_the_nearest(self):
        samples = counters.Samples(FakeCounters())
        samples.points = [(10.0, {"p": 5}), (12.0, {"p": 200})]
        self.assertEqual(samples.at(1.0), {"p": 5})
        self.assertEqual(samples.at(99.0), {"p": 200})


if __name__ == "__main__":
    unittest.main()
