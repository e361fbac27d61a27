"""Runs every reading under every scheme and prints it beside what was published."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from orrery_demo import building
from orrery_demo.progress import Progress
from orrery_lab.errors import LabError
from orrery_lab.programs import Programs

from . import fabric, readings, table


def main(argv=None):
    progress = Progress()
    try:
        options = _parse(argv)
        programs = Programs() if options.no_build else building.prepare(progress, ["orrery-sim"])
        if options.output:
            os.makedirs(options.output, exist_ok=True)
        progress.clear()
        print("\n".join(readings.verdicts()) + "\n", flush=True)
        chosen = [r for r in readings.READINGS if not options.reading or r.name in options.reading]
        for number, reading in enumerate(chosen, 1):
            progress.step(f"reading {number} of {len(chosen)}: {reading.name}")
            document = _simulate(programs.program("orrery-sim"), reading, options)
            progress.clear()
            print(table.render(reading, document), flush=True)
        return 0
    except (LabError, OSError) as error:
        progress.clear()
        print(f"tools/experiment: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.clear()
        print("tools/experiment: interrupted", file=sys.stderr)
        return 130


def _parse(argv):
    parser = argparse.ArgumentParser(prog="tools/experiment", description="The published experiment (2 leaves, 2 spines, 2 parallel links, 32 hosts, 16 ranks, "
                                     "125 MB all-reduce, 200 KB queues) in the simulator, under several readings, beside the published numbers.")
    parser.add_argument("--rounds", type=_positive, default=3, help="iterations per seed (published: 1000) [3]")
    parser.add_argument("--seeds", type=_positive, default=3, help="runs of each scheme [3]")
    parser.add_argument("--scheme", action="append", help="may be repeated [all]")
    parser.add_argument("--reading", action="append", choices=[r.name for r in readings.READINGS], help="may be repeated [all]")
    parser.add_argument("--lossless", action="store_true", help="with PFC and deep queues; the published switches dropped packets")
    parser.add_argument("--threads", type=_positive, default=1, help="threads of the simulator; results do not depend on it [1]")
    parser.add_argument("--output", metavar="FOLDER", help="keep the topology, JSON and HTML page of each reading there")
    parser.add_argument("--no-build", action="store_true", help="take programs that are built already (ORRERY_BUILD_DIR, else build/release)")
    return parser.parse_args(argv)


def _positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _simulate(program, reading, options):
    with tempfile.TemporaryDirectory(prefix="orrery-experiment-") as scratch:
        folder = options.output or scratch
        topology, result = (os.path.join(folder, reading.name + ending) for ending in (".yaml", ".json"))
        queue = 16_000_000 if options.lossless else readings.QUEUE_BYTES
        with open(topology, "w", encoding="utf-8") as out:
            out.write(fabric.topology_yaml(reading.nic_bps, reading.uplink_bps, queue))
        _run([program, "run", "--topology", topology, "--ranks", str(readings.RANKS), "--bytes", str(readings.BYTES), "--collective", reading.collective,
              "--algorithm", reading.algorithm, "--placement", reading.placement, "--rounds", str(options.rounds), "--seeds", str(options.seeds),
              "--scheme", ",".join(options.scheme or ["all"]), "--pfc", "on" if options.lossless else "off", "--telemetry-every", "100", "--clock-error-ns", "100",
              "--threads", str(options.threads), "--output", result])
        if options.output:
            _run([program, "report", result, "--output", os.path.join(folder, reading.name + ".html")])
        with open(result, encoding="utf-8") as source:
            return json.load(source)


def _run(command):
    """Its progress is shown when our standard error is a terminal."""
    live = sys.stderr.isatty()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=None if live else subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command[:2])} failed", (done.stderr or "").strip() or "its message is above")
