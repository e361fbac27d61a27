"""orrery-bench from the outside: its table, JSON, exit codes and messages."""
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["ORRERY_BUILD_DIR"]
PROGRAM = os.path.join(BUILD, "bin", "orrery-bench")
CORRUPTING = os.path.join(BUILD, "lib", "libcorrupting_nccl.so")
TIMEOUT_S = 60


def free_port():
    """Below those that the kernel gives away: no connection of somebody else's has it by the time rank 0 takes it."""
    while True:
        port = random.randrange(15000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def run(arguments, ranks=1, **environment):
    """Runs the ranks; returns [(exit code, stdout, stderr)] in order of rank."""
    base = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    base.update(NCCL_SOCKET_IFNAME="lo", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(ranks))
    processes = [subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**base, "RANK": str(rank), **environment}) for rank in range(ranks)]
    results = []
    try:
        for process in processes:
            out, error = process.communicate(timeout=TIMEOUT_S)
            results.append((process.returncode, out, error))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return results


class OrreryBench(unittest.TestCase):
    def test_json_has_the_documented_shape(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            lines = os.path.join(folder, "iterations.csv")
            results = run(["all-reduce", "--min-bytes", "1K", "--max-bytes", "64K", "--step-factor", "8", "--iterations", "4",
                           "--json", path, "--iterations-file", lines], ranks=3)
            self.assertEqual([code for code, _, _ in results], [0, 0, 0], results)
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            with open(lines, encoding="utf-8") as file:
                iterations = [line.split(",") for line in file.read().splitlines()]
        self.assertEqual(document["schema"], 1)
        self.assertEqual(document["collective"], "all-reduce")
        self.assertEqual((document["nranks"], document["memory"], document["nccl_version"]), (3, "host", 21806))
        self.assertEqual([size["bytes"] for size in document["sizes"]], [1024, 8192, 65536])
        for size in document["sizes"]:
            self.assertEqual(len(size["iterations_ms"]), 4)
            self.assertLessEqual(size["p50_ms"], size["p99_ms"])
            self.assertEqual(size["max_ms"], max(size["iterations_ms"]))
            self.assertAlmostEqual(size["mean_ms"], sum(size["iterations_ms"]) / 4)
            self.assertAlmostEqual(size["busbw_gbps"], size["algbw_gbps"] * 4 / 3)
            self.assertEqual((size["wrong"], size["verified"]), (0, True))
        self.assertEqual([(row[0], row[1]) for row in iterations], [(size, str(i)) for size in ("1024", "8192", "65536") for i in range(4)])

    def test_only_rank_0_prints_the_table(self):
        results = run(["all-gather", "--min-bytes", "4K", "--iterations", "2"], ranks=2)
        self.assertIn("all-gather: 2 ranks", results[0][1])
        self.assertIn("4096          512      float    none", results[0][1])
        self.assertIn("# wrong elements: 0 OK", results[0][1])
        self.assertEqual(results[1][1], "")

    def test_every_collective_and_type_verifies(self):
        kinds = ["all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "send-recv"]
        types = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"]
        cases = [(kind, types[i % len(types)], ["sum", "prod", "max", "min", "avg"][i % 5]) for i, kind in enumerate(kinds * 2)]
        cases += [("all-reduce", datatype, "avg") for datatype in types]
        for i, (kind, datatype, op) in enumerate(cases):
            with self.subTest(kind=kind, datatype=datatype, op=op):
                extra = ["--in-place"] if i % 2 and kind not in ("all-to-all", "send-recv") else []
                results = run([kind, "--datatype", datatype, "--op", op, "--root", "1", "--min-bytes", "50000", "--iterations", "2",
                               "--warmup", "1", *extra], ranks=3)
                self.assertEqual([code for code, _, _ in results], [0, 0, 0], results)

    def test_wrong_usage_exits_with_2_and_says_why(self):
        cases = [([], "collective"), (["all-scatter"], "all-reduce"), (["all-reduce", "--iterations", "none"], "--iterations"),
                 (["all-reduce", "--datatype", "floaty"], "--datatype"), (["all-reduce", "--frobnicate"], "--frobnicate"),
                 (["all-reduce", "--min-bytes", "4M", "--max-bytes", "1M"], "--max-bytes"),
                 (["all-to-all", "--in-place"], "--in-place"), (["reduce", "--root", "3"], "--root 3")]
        for arguments, word in cases:
            with self.subTest(arguments=arguments):
                code, _, error = run(arguments)[0]
                self.assertEqual(code, 2, error)
                self.assertIn(word, error)

    def test_a_wrong_placement_exits_with_2(self):
        code, _, error = run(["all-reduce"], WORLD_SIZE="2", RANK="2")[0]
        self.assertEqual(code, 2)
        self.assertIn("WORLD_SIZE", error)

    def test_a_rank_that_does_not_come_is_named(self):
        code, _, error = run(["all-reduce", "--timeout-s", "1"], WORLD_SIZE="3")[0]
        self.assertEqual(code, 3)
        self.assertIn("1, 2", error)

    def test_wrong_data_exits_with_1_on_every_rank(self):
        results = run(["all-reduce", "--min-bytes", "4K", "--iterations", "2"], ranks=2, LD_PRELOAD=CORRUPTING)
        self.assertEqual([code for code, _, _ in results], [1, 1], results)
        self.assertIn("FAILED", results[0][1])

    def test_a_duration_bounds_the_iterations(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            code, _, error = run(["all-reduce", "--iterations", "100000", "--duration-s", "0.2", "--compute-gap-us", "10000",
                                  "--json", path])[0]
            self.assertEqual(code, 0, error)
            with open(path, encoding="utf-8") as file:
                self.assertLessEqual(len(json.load(file)["sizes"][0]["iterations_ms"]), 20)


if __name__ == "__main__":
    if "asan" in os.path.basename(BUILD) or "tsan" in os.path.basename(BUILD):
        print("a preloaded sanitized library needs its runtime first; the unsanitized builds run this")
        sys.exit(77)
    unittest.main()
