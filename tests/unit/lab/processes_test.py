import os
import subprocess
import sys
import tempfile
import unittest

import support  # noqa: F401  (the import path)
from orrery_lab import processes
from orrery_lab.errors import LabError

STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"


class Processes(unittest.TestCase):
    def test_a_process_that_ignores_the_request_to_end_is_killed(self):
        with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            processes.end([(child.pid, processes.start_time(child.pid))], grace_s=0.1)
            self.assertEqual(child.wait(), -9)

    def test_a_process_number_used_again_by_another_is_left_alone(self):
        with subprocess.Popen(["sleep", "60"]) as child:
            processes.end([(child.pid, processes.start_time(child.pid) - 1)])
            self.assertIsNone(child.poll())
            child.kill()

    def test_output_goes_to_the_log_and_its_end_can_be_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            processes.spawn(["sh", "-c", "for i in 1 2 3; do echo line $i; done"], log).wait()
            self.assertEqual(processes.last_lines(log, 2), ["line 2", "line 3"])

    def test_a_program_that_is_not_there_is_named(self):
        with self.assertRaises(LabError) as refused:
            processes.spawn(["/nonexistent/program"], os.devnull)
        self.assertIn("/nonexistent/program", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
