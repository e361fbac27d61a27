#!/usr/bin/python3 -B
"""How much slower RDMA tools are when the library records, against the noise of the same runs without it: in each turn each tool runs twice
without (A/A) and once with. Runs in the guest; prints figures as the benchmarks do."""
import json
import re
import statistics
import sys

import tool_support as support
from tools_test import perftest, ucx_perftest

TURNS = 7


def column(output, pattern):
    match = re.search(pattern, output, re.M)
    if match is None:
        sys.exit(f"no figure in:\n{output}")
    return float(match.group(1))


# Name, command, what to read from the client's words (lower is better).
TOOLS = (
    # bytes, iterations, t_min, t_max, t_typical
    ("ib_send_lat", perftest("ib_send_lat", "-s", "64", "-n", "1000", "-e"), lambda said: column(said, r"^ *64 +1000 +\S+ +\S+ +(\S+)")),
    # the last of "Final:" is messages a second
    ("ucx_perftest", ucx_perftest("-t", "tag_bw", "-s", "4096", "-n", "1500"), lambda said: 1 / column(said, r"^Final:.* (\d+)\s*$")),
)


def run(command, read, environment):
    server, client = support.run_pair(*command, environment)
    if (server.status, client.status) != (0, 0):
        sys.exit(server.output + client.output)
    return read(client.output)


def figure(name, value, target=None, baseline=None):
    return {"name": name, "value": value, "unit": "x", "better": "lower", "target": target, "baseline": baseline}


def measure(name, command, read, recorder):
    slowdowns, noises = [], []
    for _ in range(TURNS):
        first, recording, second = (run(command, read, environment) for environment in ({}, recorder.environment(), {}))
        slowdowns.append(recording / ((first + second) / 2))
        noises.append(second / first)
    noise = max(abs(ratio - 1) for ratio in noises)
    return [figure(f"{name}_slowdown", statistics.median(slowdowns), 1 + noise, statistics.median(noises)), figure(f"{name}_aa_noise", 1 + noise)]


def main():
    support.bring_up_devices()
    recorder = support.Recorder()
    figures = [line for tool in TOOLS for line in measure(*tool, recorder)]
    report = recorder.stop()
    recorded = sum(flow["qp"]["sends"] for flow in report["flows"] if flow["qp"])
    if recorded < TURNS * (1000 + 1500):
        sys.exit(f"only {recorded} sends were recorded, so nothing was measured")
    print(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
