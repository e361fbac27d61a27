"""Command line of tools/lab/orrery-lab."""

import argparse
import json
import signal
import sys
import tempfile

from . import calibrate, lab as labs, preflight, state, topology
from .errors import LabError
from .programs import Programs

EXAMPLES = """examples:
  tools/lab/orrery-lab up                                  4 leaves, 4 spines, 16 hosts at 100 Mbit/s
  tools/lab/orrery-lab up --topology fabric.yaml --name b  another fabric beside it
  tools/lab/orrery-lab exec h1 -- ping -c 3 10.0.2.1
  tools/lab/orrery-lab status
  tools/lab/orrery-lab down
"""


def parser():
    top = argparse.ArgumentParser(prog="orrery-lab", description="A leaf-spine fabric of network namespaces on this machine.",
                                  epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, help_text):
        sub = commands.add_parser(name, help=help_text, description=help_text[0].upper() + help_text[1:] + ".")
        sub.add_argument("--name", default=labs.DEFAULT_NAME, help="which lab (default: %(default)s)")
        return sub

    up = command("up", "build the fabric and start its switches; what an earlier lab of this name left is removed first")
    up.add_argument("--topology", metavar="FILE", help="topology file (orreryctl topology generate makes one)")
    up.add_argument("--leaves", type=int, default=4)
    up.add_argument("--spines", type=int, default=4)
    up.add_argument("--hosts", type=int, default=16, help="hosts in all")
    up.add_argument("--hash-seed", type=int, metavar="N", help="derive every switch's ECMP seed from N")
    up.add_argument("--build", metavar="FOLDER", help="build folder with the programs (default: build/release)")
    up.add_argument("--check", action="store_true", help="also measure that this machine sustains the links")
    up.add_argument("--controller", choices=("ebpf", "entropy", "dry-run"), metavar="DRIVER",
                    help="also start a controller with this driver (ebpf, entropy or dry-run) and an agent on every host")
    command("down", "end everything of the lab and leave no trace")
    status = command("status", "show what runs")
    status.add_argument("--json", action="store_true")
    execute = command("exec", "run a program on a host or switch of the lab")
    execute.add_argument("node", metavar="HOST")
    execute.usage = "orrery-lab exec [--name NAME] HOST -- CMD ..."
    netns = command("netns", "print the name of a node's network namespace")
    netns.add_argument("node", metavar="HOST")
    return top


def main(argv=None):
    argv = list(sys.argv[1:] if argv is None else argv)
    at = argv.index("--") if "--" in argv else len(argv)
    options = parser().parse_args(argv[:at])
    options.argv = argv[at + 1:]
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        return globals()["_" + options.command](options) or 0
    except LabError as error:
        print(f"orrery-lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("orrery-lab: interrupted; what this command had made is removed", file=sys.stderr)
        return 130


def _say(text):
    print(f"  {text} ...", file=sys.stderr, flush=True)


def wanted_topology(orreryctl, options, transport="tcp"):
    """The topology that --topology, or --leaves, --spines and --hosts, ask for."""
    if options.topology:
        return topology.load(orreryctl, options.topology)
    with tempfile.TemporaryDirectory(prefix="orrery-lab-") as folder:
        return topology.generate(orreryctl, folder, options.leaves, options.spines, options.hosts, topology.SHAPES[transport])


def _up(options):
    preflight.require_machine()
    programs = Programs(options.build)
    wanted = wanted_topology(programs.program("orreryctl"), options)
    if options.hash_seed is not None:
        wanted = wanted.with_hash_seed(options.hash_seed)
    with labs.Lab(options.name, programs, _say) as lab:
        lab.up(wanted)
        try:
            if options.check:
                _say("measuring whether the machine sustains the links")
                print(calibrate.calibrate(lab).sentence())
            if options.controller:
                lab.start_orrery(options.controller)
        except BaseException:
            lab.down()
            raise
        print(f"lab '{lab.name}' is up: {len(wanted.switches)} switches, {len(wanted.hosts)} hosts, {len(wanted.links)} links; "
              f"its files are in {lab.folder}")


def _down(options):
    preflight.require_root()
    with labs.Lab(options.name, None) as lab:
        print(f"lab '{options.name}' is gone" if lab.down() else f"there was no lab '{options.name}'")


def _status(options):
    found = [s for s in map(labs.status, sorted({options.name, *state.lab_names()})) if s]
    if options.json:
        print(json.dumps({"schema": 1, "labs": found}, indent=1))
        return
    if not found:
        print("no lab is up; start one with: tools/lab/orrery-lab up")
    for lab in found:
        if not lab["up"]:
            print(f"{lab['name']}: remains of a lab that did not end well ({lab['namespaces']} namespaces); "
                  f"remove them with: tools/lab/orrery-lab down --name {lab['name']}")
            continue
        dead = [p["name"] for p in lab["processes"] if not p["alive"]]
        print(f"{lab['name']}: up, {lab['switches']} switches, {lab['hosts']} hosts, {lab['links']} links, "
              f"{len(lab['processes']) - len(dead)} processes" + (f"; NOT running: {', '.join(dead)}" if dead else ""))


def _exec(options):
    preflight.require_root()
    if not options.argv:
        raise LabError("no program to run", "write it after two dashes: orrery-lab exec h1 -- ip address")
    return labs.execute(options.name, options.node, options.argv)


def _netns(options):
    print(labs.namespace_of(options.name, options.node))
