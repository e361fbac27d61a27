"""Runs what was asked for in the simulator, prints it beside what was published or aimed at, and keeps it."""

import argparse
import json
import math
import os
import sys
import tempfile

from orrery_demo import building
from orrery_demo.progress import Progress
from orrery_lab.errors import LabError
from orrery_lab.programs import Programs

from . import mixed, page, quality, readings, table
from .simulator import Simulator

def main(argv=None):
    progress = Progress()
    try:
        options = parse(argv)
        programs = Programs() if options.no_build else building.prepare(progress, ["orrery-sim", "orreryctl"])
        progress.clear()
        with tempfile.TemporaryDirectory(prefix="orrery-experiment-") as scratch:
            if options.output:
                os.makedirs(options.output, exist_ok=True)
            simulator = Simulator(programs.program("orrery-sim"), progress, options.output or scratch)
            study = Study(simulator, progress, programs, options)
            study.plan_quality() if options.plan_quality else study.published()
            if options.output:
                study.write()
        return 0
    except (LabError, OSError) as error:
        progress.clear()
        print(f"tools/experiment: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.clear()
        print("tools/experiment: interrupted", file=sys.stderr)
        return 130


class Study:
    """Sections for the page, and everything for programs."""

    def __init__(self, simulator, progress, programs, options):
        self._simulator, self._progress, self._programs, self._options = simulator, progress, programs, options
        self._title, self._sections, self._results = "", [], {}

    def published(self):
        self._title = "The published experiment, and ours beside it"
        options = self._options
        verdicts = readings.verdicts()
        self._tell(verdicts)
        self._sections.append(("What cannot hold", verdicts, None, None))
        chosen = [r for r in readings.READINGS if not options.reading or r.name in options.reading]
        self._tell([f"{len(chosen)} readings, {options.rounds} rounds and {options.seeds} seeds of each scheme. {readings.parameters(options)}"])
        self._simulator.plan(len(chosen))
        for number, reading in enumerate(chosen, 1):
            document = readings.run(self._simulator, reading, options, f"reading {number} of {len(chosen)}, {reading.name}")
            self._progress.clear()
            heading, notes, rows = table.reading(reading, document, options.bytes)
            self._keep(reading.name, heading, notes, rows, document)
            self._results[reading.name] = {"bound_ms": reading.bound_ms(options.bytes), "published": readings.PUBLISHED, **_figures(document)}
        if options.bytes != readings.BYTES:
            return
        rows = readings.comparison(self._results)
        self._tell(["Which reading would explain the published figures (ratio of ours to theirs; 1.00 is a match):", table.grid(rows)])
        self._sections.append(("Which reading would explain the published figures", [], rows, None))

    def plan_quality(self):
        self._title = "Plan quality at 400 Gb/s"
        options = self._options
        hosts = options.hosts or ([16] if options.quick else [1024, 8192])
        for count in hosts:
            for case, document, aims in quality.run(self._simulator, count, options):
                self._progress.clear()
                rows = table.schemes(document)
                heading = f"{case.name}, {count} hosts, {'packet by packet' if case.engine == 'packet' else 'as flows'}: {case.words}"
                self._keep(f"{case.name}-{count}", heading, [aim.sentence() for aim in aims], rows, document)
                self._results[f"{case.name}-{count}"] = {"aims": [dict(vars(aim), met=aim.met()) for aim in aims], **_figures(document)}
        if options.case and "mixed" not in options.case:
            return
        self._mixed()

    def _mixed(self):
        options = self._options
        sizes = (4, 4, 3, 3) if options.quick else mixed.SIZES
        if options.topology:
            topology = mixed.imported(self._programs.program("orreryctl"), options.topology, self._simulator.path(""))
        else:
            leaves = 4 if options.quick else 108
            topology = {"leaf_spine": {"leaves": leaves, "spines": 2, "hosts": 8 * leaves, "rate_bps": mixed.NIC_BPS, "queue_bytes": 64_000_000}}
        for placement in ("random", "contiguous"):
            found = mixed.run(self._simulator, topology, sizes, placement, options)
            self._progress.clear()
            rows = mixed.summary(found)
            notes = mixed.verdict(found)
            heading = f"mixed jobs ({len(sizes)} on {sum(sizes)} hosts, leaves 4:1 oversubscribed), placed {placement}, as flows; step time over that on a fabric that never blocks"
            self._tell([heading, *("  " + note for note in notes), table.grid(rows), ""])
            self._sections.append((heading, notes, rows, None))
            self._results[f"mixed-{placement}"] = {"inflation": found}

    def write(self):
        for name, text in (("results.json", json.dumps(self._results, indent=1) + "\n"), ("report.html", page.render(self._title, self._sections))):
            with open(self._simulator.path(name), "w", encoding="utf-8") as out:
                out.write(text)
        print(f"Kept in {self._options.output}: report.html, results.json, and scenario, JSON and page of each study.")

    def _keep(self, name, heading, notes, rows, document):
        self._tell([heading, *("  " + note for note in notes), table.grid(rows), ""])
        bars = {s["scheme"]: s["mean_ms"] for s in document["schemes"]}
        self._sections.append((heading, notes, rows, {"ideal": document["ideal_ms"], **bars} if document["ideal_ms"] else bars))

    def _tell(self, lines):
        self._progress.clear()
        print("\n".join(lines), flush=True)


def _figures(document):
    """Without what is long: that is in the study's own file."""
    return {"ideal_ms": document["ideal_ms"], "schemes": [{k: v for k, v in s.items() if k != "per_seed"} for s in document["schemes"]]}


def parse(argv):
    names = [r.name for r in readings.READINGS]
    parser = argparse.ArgumentParser(prog="tools/experiment", description="The published experiment (2 leaves, 2 spines, 2 parallel links, 32 hosts, 16 ranks, "
                                     "125 MB all-reduce, 200 KB queues) in the simulator, under several readings, beside the published numbers; or, with --plan-quality, "
                                     "how good plans are at 1024 and 8192 hosts.")
    parser.add_argument("--rounds", type=_positive, help="iterations per seed [3, and 2 with --plan-quality; published: 1000, which take some eight minutes for each scheme and seed of a reading]")
    parser.add_argument("--seeds", type=_positive, help="runs of each scheme [3; 2 with --plan-quality, 5 for mixed jobs]")
    parser.add_argument("--scheme", action="append", help="may be repeated [all]")
    parser.add_argument("--quick", action="store_true", help="small and once, to see that it works; figures mean little")
    parser.add_argument("--output", metavar="FOLDER", help="keep report.html, results.json, and scenario, JSON and page of each study there")
    parser.add_argument("--no-build", action="store_true", help="take programs that are built already (ORRERY_BUILD_DIR, else build/release)")
    published = parser.add_argument_group("published experiment")
    published.add_argument("--reading", action="append", choices=names, metavar="NAME", help=f"may be repeated: {', '.join(names)} [all]")
    published.add_argument("--bytes", type=_positive, default=readings.BYTES, help=f"of the array [{readings.BYTES}]")
    published.add_argument("--queue-bytes", type=_positive, default=readings.QUEUE_BYTES, help=f"limit of each switch queue [{readings.QUEUE_BYTES}]")
    published.add_argument("--threshold", type=_share, default=readings.THRESHOLD, help=f"use of a link, and of a queue, at which one is passed by, 0 to 1 [{readings.THRESHOLD}]")
    published.add_argument("--int-every", type=_positive, default=readings.INT_EVERY, help=f"packets for one with telemetry [{readings.INT_EVERY}]")
    published.add_argument("--clock-error-ns", type=_positive, default=readings.CLOCK_ERROR_NS, help=f"of each host, either way; published: 30 to 100 [{readings.CLOCK_ERROR_NS}]")
    published.add_argument("--stagger-us", type=_range, default=readings.STAGGER_US, metavar="MIN-MAX",
                           help="bounds of how far apart flows of a link start, or one number [%g-%g, as published]" % readings.STAGGER_US)
    published.add_argument("--lossless", action="store_true", help="with PFC and deep queues; the published switches dropped packets")
    plans = parser.add_argument_group("plan quality")
    plans.add_argument("--plan-quality", action="store_true", help="all-reduce, all-to-all, a failed spine, contiguous placement, mixed jobs")
    plans.add_argument("--hosts", type=int, action="append", choices=sorted(quality.FABRICS), help="may be repeated [1024 and 8192]")
    plans.add_argument("--case", action="append", metavar="NAME", help="may be repeated: a name from the output, or mixed [all]")
    plans.add_argument("--topology", metavar="FILE", help="of the mixed jobs: a topology file, or a list of hosts (CSV) for `orreryctl topology import` [108 leaves of 8 hosts, 2 spines]")
    options = parser.parse_args(argv)
    known = {case.name for count in quality.FABRICS for case in quality.cases(count)} | {"mixed"}
    for name in options.case or []:
        if name not in known:
            parser.error(f"argument --case: there is no '{name}'; choose from {', '.join(sorted(known))}")
    if options.quick:
        options.rounds, options.seeds = options.rounds or 1, options.seeds or 1
        options.reading = options.reading or ["fragmented-400", "random-100"]
        options.bytes = min(options.bytes, 4_000_000)
        options.case = options.case or ["all-reduce", "all-to-all", "failed-spine", "mixed"]
    return options


def _positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _range(text):
    low, _, high = text.partition("-")
    low, high = float(low), float(high or low)
    if not 0 <= low <= high < math.inf:
        raise argparse.ArgumentTypeError("two times, the shorter first")
    return low, high


def _share(text):
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError("above 0, and 1 at most")
    return value
