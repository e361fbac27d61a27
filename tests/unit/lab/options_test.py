import contextlib
import io
import unittest

import support  # noqa: F401  (the import path)
from orrery_demo import options
from orrery_lab.errors import LabError


class Options(unittest.TestCase):
    def test_sizes_are_read_with_their_unit(self):
        self.assertEqual(options.parse(["--bytes", "512K"]).message_bytes, 512 << 10)
        self.assertEqual(options.parse(["--bytes", "4MiB"]).message_bytes, 4 << 20)
        self.assertEqual(options.parse(["--bytes", "12345"]).message_bytes, 12345)

    def test_seeds_are_a_count_or_a_list(self):
        self.assertEqual(options.parse(["--seeds", "3"]).seeds, [1, 2, 3])
        self.assertEqual(options.parse(["--seeds", "7,3"]).seeds, [7, 3])

    def test_quick_does_less_unless_told_otherwise(self):
        self.assertLess(len(options.parse(["--quick"]).seeds), len(options.parse([]).seeds))
        self.assertEqual(options.parse(["--quick", "--rounds", "33"]).rounds, 33)

    def test_what_makes_no_sense_is_refused(self):
        for wrong in (["--bytes", "0"], ["--bytes", "many"], ["--seeds", "0"], ["--seeds", "a,b"], ["--rounds", "0"], ["--driver", "magic"]):
            with self.assertRaises(SystemExit) as refused, contextlib.redirect_stderr(io.StringIO()):
                options.parse(wrong)
            self.assertEqual(refused.exception.code, 2)
        with self.assertRaises(LabError):
            options.parse(["--workload", "torch", "--bytes", "4M"])


if __name__ == "__main__":
    unittest.main()
