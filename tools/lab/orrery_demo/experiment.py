"""The whole comparison: one lab, every seed, every scheme, the same program each time."""

import json
import os
import signal
import sys
from dataclasses import replace

from orrery_lab import calibrate, machine, preflight, roce as roce_hosts
from orrery_lab.cli import wanted_topology
from orrery_lab.counters import Counters
from orrery_lab.daemons import orreryctl_environment
from orrery_lab.errors import LabError
from orrery_lab.lab import Lab
from orrery_lab.programs import Programs

from . import building, in_vm, link_check, live_move, options as demo_options, placement, report, results, runs, simulate, table
from .options import SCHEMES, TITLES
from .progress import Progress
from .watcher import PlanWatcher
from .workload_nccl import NcclWorkload
from .workload_roce import RoceWorkload
from .workload_torch import TorchWorkload


def main(argv=None):
    progress = Progress()
    argv = sys.argv[1:] if argv is None else argv
    _interrupt_on(signal.SIGTERM, signal.SIGHUP)
    try:
        options = demo_options.parse(argv)
        if options.simulate:
            return _simulate(options, progress)
        if options.redraw:
            document = _read_results(options.redraw)
            _check_complete(document, options.redraw)
        else:
            document = _measure(options, argv, progress)
        progress.clear()
        if not options.inside:
            print(table.render(document))
        _write_outputs(options, document, progress)
        return 0 if all(run["verified"] for run in document["runs"].values()) else 1
    except LabError as error:
        progress.clear()
        print(f"tools/demo: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        progress.clear()
        print("tools/demo: interrupted; the lab is removed, nothing is left running", file=sys.stderr)
        return 130


def _simulate(options, progress):
    programs = Programs(options.build) if options.build else building.prepare(progress, ["orrery-sim"])
    documents = []
    for path in options.simulate:
        documents.append(_read_results(path))
        _check_complete(documents[-1], path)
    found = simulate.compare(documents, programs.program("orrery-sim"), progress.step)
    progress.clear()
    print(simulate.render(found))
    if options.json:
        _write(options.json, json.dumps(found, indent=1) + "\n")
    return 0


def _interrupt_on(*numbers):
    def interrupt(*_):
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)


def _measure(options, argv, progress):
    roce = options.transport == "roce"
    if not roce or options.inside:
        preflight.require_root()
    programs = Programs(options.build) if options.build else building.prepare(progress)
    if roce and not options.inside:
        progress.step("starting the virtual machine")
        return in_vm.measure(argv, programs)
    if roce:
        roce_hosts.require_machine()
    preflight.require_machine()
    lab = Lab(options.name, programs, lambda text: progress.step(f"lab '{options.name}': {text}"))
    try:
        with lab:
            try:
                return _in_lab(lab, options, programs, progress)
            finally:
                _clean_up(lab, options, progress)
    finally:
        progress.clear()


def _clean_up(lab, options, progress):
    if options.keep and lab.is_up() and sys.exc_info()[0] is None:
        progress.line(f"lab '{lab.name}' stays up; remove it with: tools/lab/orrery-lab down --name {lab.name}")
        return
    progress.step("cleaning up")
    lab.down()


def _in_lab(lab, options, programs, progress):
    wanted = wanted_topology(programs.program("orreryctl"), options, options.transport).with_hash_seed(options.seeds[0])
    lab.up(wanted, options.transport)
    progress.step("measuring whether this machine sustains the links")
    verdict = calibrate.calibrate(lab) if options.transport == "tcp" else link_check.check(lab, options, programs)
    progress.line(verdict.sentence())
    environment = orreryctl_environment(lab)
    if not options.inside:
        progress.line("live, in another terminal while Orrery runs:  " + " ".join(f"{k}={v}" for k, v in environment.items()) +
                      f" {programs.program('orreryctl')} plan list   (or link list, watch, flow explain ID)")
    counters = Counters(lab.sites)
    try:
        done = _all_runs(lab, counters, options, programs, progress)
        move = _live_move(lab, counters, options, programs, progress) if options.transport == "roce" and options.driver != "dry-run" else None
    except LabError as error:
        folder = runs.keep_logs(lab)
        raise LabError(error.what, f"{error.cure + '; ' if error.cure else ''}all logs are kept in {folder}") from error
    finally:
        counters.close()
    return results.build(options, lab.topology, _workload(options, programs, lab.topology, options.seeds[0]), done, machine.describe(), verdict,
                         move)


def _live_move(lab, counters, options, programs, progress):
    progress.step("live move: a link fails under a running job")
    chosen = replace(options, rounds=live_move.ROUNDS)
    move = live_move.watch(lab, counters, _workload(chosen, programs, lab.topology, options.seeds[-1]), options.driver, lambda: None)
    progress.line(f"live move: {move.sentence()}")
    return move.document()


def _workload(options, programs, fabric, seed):
    hosts = placement.place(options.placement, fabric, seed)
    if options.workload == "torch":
        return TorchWorkload(options, programs, hosts)
    return (RoceWorkload if options.transport == "roce" else NcclWorkload)(options, programs, hosts)


def _all_runs(lab, counters, options, programs, progress):
    done, schemes = [], [s for s in SCHEMES if options.workload != "torch" or s != "ecmp_multi"]
    total = len(options.seeds) * len(schemes)
    for seed in options.seeds:
        if done:
            lab.change_hash_seed(seed)
        workload = _workload(options, programs, lab.topology, seed)
        for scheme in schemes:
            what = f"run {len(done) + 1} of {total}: {TITLES[scheme]}, hash seed {seed}"
            progress.step(what)
            run = _one_scheme(lab, counters, workload, scheme, seed, options, lambda launch: progress.update(f"{what}, launch {launch} of {options.launches}"))
            if done and run.outcome.losses != done[0].outcome.losses:  # torch: the same bits in every run
                run.outcome.verified = False
            done.append(run)
            mean = sum(run.outcome.times_ms) / len(run.outcome.times_ms)
            progress.line(f"{what}: mean {mean:.0f} ms, worst {max(run.outcome.times_ms):.0f} ms, "
                          f"{run.drops} drops, {run.retransmits} retransmits, data {'verified' if run.outcome.verified else 'WRONG'}")
    return done


def _one_scheme(lab, counters, workload, scheme, seed, options, progress):
    """All launches of one scheme with one hash seed, as one Run."""
    if scheme != "orrery":
        return _launches(lab, counters, workload, scheme, seed, options, lambda: None, progress)
    lab.start_orrery(options.driver)
    try:
        watcher = PlanWatcher(lab.programs.program("orreryctl"), {**os.environ, **orreryctl_environment(lab)}, workload.ask_every_s)
        run = _launches(lab, counters, workload, scheme, seed, options, watcher, progress)
        health = watcher.ask("health")
        run.plan, run.plan_hits, run.plan_misses = watcher.plan, health.get("plan_hits", 0), health.get("plan_misses", 0)
        return run
    finally:
        lab.stop_orrery()


def _launches(lab, counters, workload, scheme, seed, options, watcher, progress):
    found = []
    for launch in range(1, options.launches + 1):
        found.append(runs.execute(lab, counters, workload, scheme, seed, watcher, lambda: progress(launch), launch))
        if found[0].outcome.losses != found[-1].outcome.losses:  # torch: the same bits in every launch
            found[-1].outcome.verified = False
    return runs.merge(found, lab.topology)


def _read_results(path):
    try:
        with open(path, encoding="utf-8") as saved:
            document = json.load(saved)
    except (OSError, ValueError) as error:
        raise LabError(f"cannot read {path}: {error}", "give a file that tools/demo --json wrote") from None
    if document.get("schema") != results.SCHEMA or "runs" not in document:
        raise LabError(f"{path} holds no results of tools/demo with schema {results.SCHEMA}", "give a file that tools/demo --json wrote")
    return document


def _check_complete(document, path):
    try:
        table.render(document)
        report.render(document)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise LabError(f"{path} is not complete: {error!r}", "give a file that tools/demo --json of this version wrote") from None


def _write_outputs(options, document, progress):
    if options.json:
        _write(options.json, json.dumps(document, indent=1) + "\n")
        progress.line(f"results: {options.json}")
    if options.report:
        _write(options.report, report.render(document))
        progress.line(f"report: {options.report}")


def _write(path, text):
    try:
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}", "choose a folder that exists and can be written") from None
