#!/usr/bin/python3 -B
"""Runs in the guest: hostnccl over soft-RoCE across a leaf-spine fabric; its tests, its options and its pattern on the wire."""
import json
import os
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
from roce_capture import Capture  # noqa: E402

ROOT = os.path.realpath(os.path.join(HERE, "..", "..", ".."))
BUILD = os.environ["ORRERY_BUILD_DIR"]
BENCH = os.path.join(BUILD, "bin", "orrery-bench")
HOSTS = 6
TIMEOUT_S = 150
HEADER_BYTES = 24  # before each operation's data
FIRST_HOST = "10.1.1.2"
# NET=IB: falling back to sockets would be a failure. One retransmission timeout is about a second, which nothing here
# needs unless the guest is starved.
ENVIRONMENT = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "IB", "NCCL_IB_TIMEOUT": "18", "NCCL_DEBUG": "WARN"}


def environment(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NCCL_", "HOSTNCCL_"))}
    return {**kept, **ENVIRONMENT, **more}


def start_bench(ranks, *arguments, **settings):
    """One process per rank; rank r on device r + 1."""
    shared = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT="29400", WORLD_SIZE=str(ranks), **settings)
    return [subprocess.Popen([BENCH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env={**shared, "RANK": str(rank), "NCCL_IB_HCA": f"=r{rank + 1}"}) for rank in range(ranks)]


def finish(processes):
    """[(exit code, output)] in order of rank."""
    results = []
    for process in processes:
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            for other in processes:
                other.kill()
            output = process.communicate()[0] + "\n(timed out)"
        results.append((process.returncode, output))
    return results


class Programs(unittest.TestCase):
    """The tests that hostnccl passes over TCP, with its ranks on the fabric's devices."""

    def run_program(self, name, *arguments, **settings):
        devices = ",".join(f"r{host + 1}" for host in range(HOSTS))
        result = subprocess.run([os.path.join(BUILD, "test", name), *arguments], capture_output=True, text=True,
                                env=environment(ORRERY_TEST_HCAS=devices, ORRERY_TEST_SLOWER="5", **settings),
                                timeout=2 * TIMEOUT_S, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_collectives(self):
        self.run_program("hostnccl_collective_test")

    def test_groups_and_messages(self):
        self.run_program("hostnccl_group_test")

    def test_life_and_death(self):
        self.run_program("hostnccl_lifecycle_test")

    def test_groups_on_divided_queue_pairs(self):
        self.run_program("hostnccl_group_test", NCCL_IB_QPS_PER_CONNECTION="3", NCCL_IB_SPLIT_DATA_ON_QPS="1",
                         NCCL_IB_ADAPTIVE_ROUTING="1", HOSTNCCL_FLUSH="1")


class Options(unittest.TestCase):
    """Every combination moves the right data: orrery-bench checks every element."""

    def check(self, collective, ranks, **settings):
        with self.subTest(collective=collective, ranks=ranks, **settings):
            for code, output in finish(start_bench(ranks, collective, "--min-bytes", "200K", "--iterations", "2",
                                                   "--warmup", "0", "--datatype", "int32", **settings)):
                self.assertEqual(code, 0, output)

    def test_queue_pairs_in_turn_and_divided(self):
        for pairs in ("1", "2", "4"):
            for split in ("0", "1"):
                self.check("all-reduce", 2, NCCL_IB_QPS_PER_CONNECTION=pairs, NCCL_IB_SPLIT_DATA_ON_QPS=split)

    def test_adaptive_routing_and_flush(self):
        for split in ("0", "1"):
            for flush in ("0", "1"):
                self.check("all-to-all", 4, NCCL_IB_QPS_PER_CONNECTION="2", NCCL_IB_SPLIT_DATA_ON_QPS=split,
                           NCCL_IB_ADAPTIVE_ROUTING="1", NCCL_IB_AR_THRESHOLD="1000", HOSTNCCL_FLUSH=flush)

    def test_without_inline_and_relaxed_ordering_with_channels(self):
        self.check("all-gather", 4, NCCL_IB_USE_INLINE="0", NCCL_IB_PCI_RELAXED_ORDERING="0", NCCL_MIN_NCHANNELS="2")

    def test_a_poll_policy_that_only_sleeps_and_one_that_only_yields(self):
        self.check("all-reduce", 2, HOSTNCCL_POLL_SPINS="0", HOSTNCCL_POLL_YIELDS="0", HOSTNCCL_POLL_SLEEP_US="1000")
        self.check("all-reduce", 2, HOSTNCCL_POLL_SPINS="0", HOSTNCCL_POLL_YIELDS="1000000000")


class Wire(unittest.TestCase):
    """The writes that the first host sends in one operation."""
    BYTES = 65536

    def capture(self, collective, ranks=2, **settings):
        with Capture("h1") as capture:
            results = finish(start_bench(ranks, collective, "--min-bytes", str(self.BYTES), "--iterations", "1",
                                         "--warmup", "0", **settings))
        for code, output in results:
            self.assertEqual(code, 0, output)
        writes = [write for write in capture.writes if write.source == FIRST_HOST]
        self.assertTrue(writes, "nothing was captured")
        cleared = [write for write in writes if write.immediate is None and write.payload in (64, 128)]
        return [write for write in writes if write not in cleared], cleared

    def test_one_immediate_value_a_message_and_one_slot_a_request(self):
        data, cleared = self.capture("all-reduce")
        self.assertTrue(all(write.immediate == write.payload for write in data), data)
        self.assertEqual(sum(write.payload for write in data), HEADER_BYTES + self.BYTES)
        self.assertEqual(len(cleared), len(data))  # the ring is symmetric: as many messages come as go
        self.assertEqual({write.payload for write in cleared}, {64})
        self.assertEqual(len({write.queue_pair for write in data}), 1)

    def test_payload_and_immediate_are_apart_with_adaptive_routing(self):
        data, _ = self.capture("all-reduce", NCCL_IB_ADAPTIVE_ROUTING="1", NCCL_IB_AR_THRESHOLD="1000")
        header = [write for write in data if write.immediate == HEADER_BYTES]
        self.assertEqual([write.payload for write in header], [HEADER_BYTES])
        payloads = [write.payload for write in data if write.immediate is None]
        markers = [write for write in data if write.immediate not in (None, HEADER_BYTES)]
        self.assertEqual(sum(payloads), self.BYTES)
        self.assertEqual([write.immediate for write in markers], payloads)
        self.assertEqual({write.payload for write in markers}, {0})

    def test_a_message_is_divided_between_all_queue_pairs(self):
        data, _ = self.capture("all-reduce", NCCL_IB_QPS_PER_CONNECTION="4", NCCL_IB_SPLIT_DATA_ON_QPS="1")
        self.assertEqual(len({write.queue_pair for write in data}), 4)
        self.assertEqual(sum(write.payload for write in data), HEADER_BYTES + self.BYTES)
        self.assertEqual(sum(write.immediate for write in data), 4 * (HEADER_BYTES + self.BYTES))
        self.assertEqual([write.payload % 128 for write in data if write.payload != HEADER_BYTES], [0] * (len(data) - 1))

    def test_requests_take_the_queue_pairs_in_turn(self):
        data, _ = self.capture("all-reduce", NCCL_IB_QPS_PER_CONNECTION="4")
        self.assertEqual(len({write.queue_pair for write in data}), 4)
        self.assertTrue(all(write.immediate == write.payload for write in data), data)

    def test_header_and_body_of_a_message_share_a_request(self):
        data, cleared = self.capture("send-recv")
        sizes = [write for write in data if write.immediate is not None]
        self.assertEqual([(write.payload, write.immediate) for write in sizes], [(8, 0)] * len(sizes))
        self.assertEqual(len(data), 3 * len(sizes))
        self.assertEqual(sum(write.payload for write in data) - 8 * len(sizes), len(sizes) * HEADER_BYTES + self.BYTES)
        self.assertTrue(all(write.payload == 128 for write in cleared), cleared)

    def test_data_and_slots_have_their_traffic_classes(self):
        data, cleared = self.capture("all-reduce", NCCL_IB_TC="96", NCCL_IB_FIFO_TC="184")
        self.assertEqual({write.traffic_class for write in data}, {96})
        self.assertEqual({write.traffic_class for write in cleared}, {184})


class QueuePairs(unittest.TestCase):
    def count(self, **settings):
        processes = start_bench(2, "all-reduce", "--min-bytes", "64K", "--iterations", "1000000", "--duration-s", "3",
                                "--check", "off", **settings)
        most = 0
        while all(process.poll() is None for process in processes):
            shown = subprocess.run(["rdma", "-j", "resource", "show", "qp", "link", "r1"], capture_output=True, text=True,
                                   check=True)
            most = max(most, sum(entry["type"] == "RC" for entry in json.loads(shown.stdout)))
            time.sleep(0.1)
        for code, output in finish(processes):
            self.assertEqual(code, 0, output)
        return most

    def test_a_connection_has_its_queue_pairs_and_one_for_flushes(self):
        self.assertEqual(self.count(NCCL_IB_QPS_PER_CONNECTION="3"), 6)
        self.assertEqual(self.count(NCCL_IB_QPS_PER_CONNECTION="3", HOSTNCCL_FLUSH="1"), 7)


class Failures(unittest.TestCase):
    def wait_for_packets(self):
        counter = "/sys/class/infiniband/r1/ports/1/hw_counters/sent_pkts"

        def sent():
            with open(counter, encoding="ascii") as file:
                return int(file.read())

        begin, deadline = sent(), time.monotonic() + TIMEOUT_S
        while sent() < begin + 100:
            self.assertLess(time.monotonic(), deadline, "no operation began")
            time.sleep(0.1)

    def test_a_path_that_dies_is_named_with_its_queue_pairs_and_a_cure(self):
        processes = start_bench(2, "all-reduce", "--min-bytes", "64K", "--iterations", "1000000", "--duration-s", "60",
                                "--check", "off", NCCL_IB_TIMEOUT="16", NCCL_IB_RETRY_CNT="1")
        self.wait_for_packets()
        self.assertEqual([process.poll() for process in processes], [None, None])
        subprocess.run(["ip", "-n", "leaf1", "route", "add", "blackhole", "10.1.2.2/32"], check=True)
        try:
            results = finish(processes)
        finally:
            subprocess.run(["ip", "-n", "leaf1", "route", "del", "blackhole", "10.1.2.2/32"], check=True)
        outputs = "".join(output for _, output in results)
        self.assertTrue(all(code not in (0, None) for code, _ in results), outputs)
        self.assertRegex(outputs, r"lost rank [01] .*r[12]:1/RoCE queue pair 0x[0-9a-f]+ towards 10\.1\.[12]\.2 queue pair "
                                  r"0x[0-9a-f]+: retries exhausted \(status 12\): .*NCCL_IB_TIMEOUT")

    def test_a_device_that_does_not_exist_is_refused_with_those_that_do(self):
        (code, output), = finish([subprocess.Popen([BENCH, "all-reduce"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                                   text=True, env=environment(NCCL_IB_HCA="=r99"))])
        self.assertNotEqual(code, 0, output)
        self.assertIn("no device matches NCCL_IB_HCA==r99 (there are: r1, r2", output)


if __name__ == "__main__":
    subprocess.run([os.path.join(ROOT, "tests/vm/guest/rxe_fabric.sh"), "2", "2", str(HOSTS)], check=True)
    unittest.main(verbosity=2)
