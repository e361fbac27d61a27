"""Two jobs whose traffic shares the only spine: with plan.turns_enabled the plan has one wait for the other, within the cap, and says so.

`turns_test.py measure` does the same on a faster fabric, on which a wait is long beside the queues, and prints what it brings; at the test's rate
queues hold 10 ms, and TCP brings the jobs together again. How fast the machine is decides nothing.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

import lab_support as support
from orrery_lab import commands, topology
from orrery_lab.daemons import orreryctl_environment
from orrery_lab.lab import Lab
from orrery_lab.programs import Programs

HOLD_CAP_NS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Setting:
    rate_bps: int
    queue_bytes: int
    message_bytes: int
    compute_us: int
    rounds: int


SETTINGS = {"test": Setting(100_000_000, 131_072, 262_144, 40_000, 130), "measure": Setting(1_000_000_000, 524_288, 1_048_576, 25_000, 400)}
SETTING = SETTINGS["measure" if "measure" in sys.argv else "test"]


class Turns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.programs = Programs()
        shape = dataclasses.replace(topology.SHAPES["tcp"], rate_bps=SETTING.rate_bps, switch_queue_bytes=SETTING.queue_bytes)
        self.fabric = topology.generate(self.programs.program("orreryctl"), folder.name, 2, 1, 4, shape)
        self.lab = Lab(support.lab_name("w"), self.programs)
        self.addCleanup(self.lab.close)
        self.addCleanup(self.lab.down)
        self.lab.up(self.fabric)
        h1, h2, h3, h4 = self.fabric.hosts
        self.jobs = [[h1, h3], [h2, h4]]
        for number, hosts in enumerate(self.jobs):
            self._join(number, hosts)

    def _join(self, number, hosts):
        """A cable beside the fabric for the ranks' barrier, which would wait in the fabric's queues behind the other job's data. It goes with
        the namespaces."""
        first, second = (self.lab.netns(host.name) for host in hosts)
        commands.run(["ip", "-n", first, "link", "add", "beside", "type", "veth", "peer", "name", "beside", "netns", second])
        for end, netns in enumerate((first, second), start=1):
            commands.run(["ip", "-n", netns, "address", "add", f"192.168.{number}.{end}/30", "dev", "beside"])
            commands.run(["ip", "-n", netns, "link", "set", "beside", "up"])

    def _start_job(self, number, hosts):
        """{name: Popen} of a job's ranks, one on each host."""
        ranks = {}
        for rank, host in enumerate(hosts):
            name = f"rank-{number}-{rank}"
            command = [self.programs.program("orrery-bench"), "all-reduce", "--min-bytes", str(SETTING.message_bytes), "--iterations", str(SETTING.rounds), "--warmup", "1",
                       "--compute-gap-us", str(SETTING.compute_us), "--barrier", "--check", "ends", "--json", os.path.join(self.lab.log_folder, f"{name}.json")]
            environment = {"RANK": str(rank), "WORLD_SIZE": str(len(hosts)), "MASTER_ADDR": f"192.168.{number}.1", "MASTER_PORT": str(29500 + number),
                           "NCCL_SOCKET_IFNAME": host.ports[0].name, "LD_LIBRARY_PATH": os.path.dirname(self.programs.library("libnccl.so.2")),
                           "LD_PRELOAD": self.programs.library("liborrery_preload.so"), "ORRERY_AGENT_SOCKET": self.lab.agent_socket(host.name)}
            ranks[name] = self.lab.start(name, command, netns=self.lab.netns(host.name), env=environment)
        return ranks

    def _ask(self, *question):
        return subprocess.run([self.programs.program("orreryctl"), *question], env={**os.environ, **orreryctl_environment(self.lab)},
                              capture_output=True, text=True, timeout=10, check=True).stdout

    def _planned(self):
        """Release offsets of the plan, and what is said of jobs that share links."""
        flows = json.loads(self._ask("plan", "list", "--json"))["flows"]
        said = {line.strip(" -") for flow in flows for line in self._ask("flow", "explain", str(flow["flow_id"])).splitlines() if "Job 0x" in line}
        return {flow["release_offset_ns"] for flow in flows}, said

    def _run(self, *options):
        """What the rounds of both jobs took, the release offsets that were planned, what was said of them, and the longest total hold of a flow."""
        self.lab.start_orrery("ebpf", ["--plan.stagger_enabled", "false", *options])
        ranks = {name: child for number, hosts in enumerate(self.jobs) for name, child in self._start_job(number, hosts).items()}
        offsets, said, held_ns = set(), set(), 0
        deadline = time.monotonic() + 120
        while any(child.poll() is None for child in ranks.values()):
            self.assertLess(time.monotonic(), deadline, "the jobs did not end")
            more_offsets, more_said = self._planned()
            offsets |= more_offsets
            said |= more_said
            held_ns = max([held_ns, *(flow["held_ns"] for flow in json.loads(self._ask("flow", "list", "--json"))["flows"])])
            time.sleep(0.5)
        for name, child in ranks.items():
            self.assertEqual(child.wait(), 0, f"{name}: see {self.lab.log_file(name)}")
        times_ms = [ms for number in range(len(self.jobs)) for ms in self._times_ms(number)]
        self.lab.stop_orrery()
        return times_ms, offsets, said, held_ns

    def _times_ms(self, number):
        """Of the second half of a job's rounds."""
        with open(os.path.join(self.lab.log_folder, f"rank-{number}-0.json"), encoding="utf-8") as result:
            size = json.load(result)["sizes"][0]
        self.assertTrue(size["verified"])
        return size["iterations_ms"][SETTING.rounds // 2:]

    def test_of_two_jobs_that_meet_one_waits_within_the_cap_and_all_data_is_right(self):
        without, offsets_without, said_without, _ = self._run()
        self.assertEqual((offsets_without, said_without), ({0}, set()))
        with_turns, offsets, said, held_ns = self._run("--plan.turns_enabled", "true")
        print("\n".join(sorted(said)))
        for label, times in (("without turns", without), ("with turns", with_turns)):
            print(f"{label}: all-reduce {statistics.mean(times):.1f} ms on average, {max(times):.1f} ms at most, in the second half of the rounds")
        self.assertTrue(any("until they take turns: they share leaf" in sentence for sentence in said), said)
        self.assertGreater(max(offsets), 0)
        self.assertLessEqual(max(offsets), HOLD_CAP_NS)
        self.assertGreater(held_ns, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
