"""orreryctl against a real orrery-controller (driver dry-run, no agents): every command answers, and says when the controller is gone."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BIN = os.path.join(os.environ.get("ORRERY_BUILD_DIR", os.path.join(ROOT, "build", "dev")), "bin")
TOPOLOGY = os.path.join(ROOT, "tests", "fixtures", "topologies", "leaf-spine-2x2x4.yaml")
LISTS = {"plan list": "flows", "link list": "links", "job list": "jobs", "host list": "hosts", "switch list": "switches", "forecast list": "forecasts"}


class Controller:
    def __init__(self, folder, more=()):
        self.endpoint = f"ipc://{folder}/control.sock"
        settings = {"controller.topology_file": TOPOLOGY, "controller.driver": "dry-run", "state.file": "", "metrics.listen_address": "",
                    "controller.control_endpoint": self.endpoint}
        for name in ("intents", "agents", "switches"):
            settings[f"controller.{name}_endpoint"] = f"ipc://{folder}/{name}.sock"
        command = [os.path.join(BIN, "orrery-controller")]
        for key, value in settings.items():
            command += [f"--{key}", value]
        command += more
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("READY"):
            self.stop()
            raise RuntimeError(f"orrery-controller said {line!r} instead of READY")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def ctl(endpoint, *words):
    return subprocess.run([os.path.join(BIN, "orreryctl"), "--controller", endpoint, *words], capture_output=True, text=True, timeout=30)


class CtlTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="orrery-ctl-")
        self.addCleanup(folder.cleanup)
        self.controller = Controller(folder.name)
        self.addCleanup(self.controller.stop)

    def test_every_list_answers_as_text_and_json(self):
        for command, key in LISTS.items():
            with self.subTest(command):
                text = ctl(self.controller.endpoint, *command.split())
                self.assertEqual((text.returncode, text.stderr), (0, ""))
                self.assertTrue(text.stdout)
                structured = ctl(self.controller.endpoint, *command.split(), "--json")
                self.assertIsInstance(json.loads(structured.stdout)[key], list)

    def test_the_topology_is_the_one_of_the_file(self):
        links = json.loads(ctl(self.controller.endpoint, "link", "list", "--json").stdout)["links"]
        self.assertEqual(len(links), 16)
        self.assertIn("leaf1:p3", {link["port"] for link in links})
        hosts = json.loads(ctl(self.controller.endpoint, "host", "list", "--json").stdout)["hosts"]
        self.assertEqual([host["host"] for host in hosts], ["h1", "h2", "h3", "h4"])

    def test_health_says_that_no_agent_is_there_and_exits_with_1(self):
        health = ctl(self.controller.endpoint, "health")
        self.assertEqual(health.returncode, 1)
        self.assertIn("h1", health.stdout)

    def test_a_flow_that_is_not_there_is_a_failure_in_the_controllers_words(self):
        answer = ctl(self.controller.endpoint, "flow", "explain", "3")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("3", answer.stderr)

    def test_watch_prints_as_many_lines_as_asked_for(self):
        watched = ctl(self.controller.endpoint, "watch", "--count", "2", "--interval", "0.1")
        self.assertEqual(watched.returncode, 0)
        self.assertEqual(len(watched.stdout.splitlines()), 2)

    def test_a_killed_controller_is_reported_as_unreachable(self):
        self.controller.process.kill()
        self.controller.process.wait()
        answer = ctl(self.controller.endpoint, "health", "--timeout", "0.2")
        self.assertEqual(answer.returncode, 3)
        self.assertIn("check that the controller runs", answer.stderr)


class PredictionTest(unittest.TestCase):
    """What orrery-sim wrote, read by a controller, beside what orreryctl shows."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="orrery-ctl-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.waves = os.path.join(self.folder, "waves.bin")
        command = [os.path.join(BIN, "orrery-sim"), "run", "--topology", TOPOLOGY, "--bytes", "1M", "--rounds", "3", "--engine", "fluid", "--scheme", "ecmp,orrery",
                   "--waveforms", self.waves]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def test_forecasts_show_every_nic_with_what_was_predicted(self):
        controller = Controller(self.folder, ["--forecast.waveforms_file", self.waves])
        self.addCleanup(controller.stop)
        endpoint = controller.endpoint
        answer = json.loads(ctl(endpoint, "forecast", "list", "--json").stdout)
        self.assertEqual([nic["host"] for nic in answer["nics"]], ["h1", "h2", "h3", "h4"])
        self.assertTrue(answer["prediction"]["same_fabric"])
        period = answer["prediction"]["jobs"][0]["period_ns"]
        for nic in answer["nics"]:  # 2 * 3/4 of 1 MB in each iteration
            self.assertEqual(nic["bytes_per_iteration"], 1_500_000)
            self.assertAlmostEqual(nic["predicted_bps"], 1_500_000 * 8e9 / period, delta=2)
            self.assertEqual(nic["observed_bps"], 0)
        text = ctl(endpoint, "forecast", "list").stdout
        self.assertIn("Predicted on leaf-spine-2x2x4 by orrery, fluid engine", text)
        self.assertIn("h4:eth0", text)

    def test_a_controller_starts_without_what_it_cannot_read_and_says_what_to_do(self):
        for spoil in (lambda file: os.truncate(file, 64), os.remove):
            spoil(self.waves)
            controller = Controller(self.folder, ["--forecast.waveforms_file", self.waves])
            try:
                health = ctl(controller.endpoint, "health").stdout
                forecasts = json.loads(ctl(controller.endpoint, "forecast", "list", "--json").stdout)
            finally:
                controller.stop()
            self.assertIn(f"forecast.waveforms_file: {self.waves}: ", health)
            self.assertIn("write it again with orrery-sim run --waveforms", health)
            self.assertIsNone(forecasts["prediction"])


if __name__ == "__main__":
    for program in ("orreryctl", "orrery-controller", "orrery-sim"):
        if not os.path.exists(os.path.join(BIN, program)):
            print(f"{program} is not built in {BIN}")
            sys.exit(77)
    unittest.main()
