"""Command line of tools/demo."""

import argparse
import re
from dataclasses import dataclass, field

from orrery_lab.errors import LabError
from orrery_lab.sites import TRANSPORTS

from .ideal import FACTORS
from .placement import PLACEMENTS

SCHEMES = ("ecmp", "ecmp_multi", "orrery")
TITLES = {"ecmp": "ECMP", "ecmp_multi": "ECMP, 4 per peer", "orrery": "Orrery"}
DRIVERS = ("ebpf", "entropy", "dry-run")
WORKLOADS = ("nccl", "torch")

EXAMPLES = """examples:
  sudo tools/demo                              the full comparison, about 5 minutes once it is built
  sudo tools/demo --quick                      a look, under a minute
  sudo tools/demo --driver entropy             nothing changed in any switch: source ports choose the paths
  sudo tools/demo --placement contiguous       a placement where the spine is hardly used: no gain to be had
  tools/demo --transport roce                  RDMA between soft-RoCE devices, in a virtual machine; about 10 minutes
  sudo tools/demo --workload torch             PyTorch DistributedDataParallel on Gloo
  sudo tools/demo --json r.json --report r.html

While it runs, orreryctl shows the plan live; the demo prints the command to use.
"""


@dataclass
class Options:
    topology: str = ""
    collective: str = "all-reduce"
    message_bytes: int = 2 << 20
    rounds: int = 3
    launches: int = 6
    seeds: list = field(default_factory=lambda: [1, 2, 3, 4, 5])
    placement: str = "interleaved"
    quick: bool = False
    driver: str = "ebpf"
    workload: str = "nccl"
    json: str = ""
    report: str = ""
    redraw: str = ""
    simulate: list = field(default_factory=list)
    keep: bool = False
    name: str = "demo"
    build: str = ""
    leaves: int = 4
    spines: int = 4
    hosts: int = 16
    transport: str = "tcp"
    inside: bool = False

    def as_document(self):
        return {"topology": self.topology or f"leaf-spine {self.leaves}x{self.spines}x{self.hosts}", "workload": self.workload,
                "collective": self.collective, "bytes": self.message_bytes, "rounds": self.rounds, "launches": self.launches, "seeds": self.seeds,
                "placement": self.placement, "driver": self.driver, "quick": self.quick, "transport": self.transport}


def _size(text):
    match = re.fullmatch(r"(\d+)\s*([kKmMgG]?)(i?[bB])?", text)
    if not match or int(match.group(1)) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; write bytes, or 512K, 4M, 1G")
    return int(match.group(1)) << {"": 0, "k": 10, "m": 20, "g": 30}[match.group(2).lower()]


def _seeds(text):
    """A count, or the seeds themselves with commas."""
    if not re.fullmatch(r"\d+(,\d+)*", text) or text == "0":
        raise argparse.ArgumentTypeError(f"'{text}': write how many seeds (5), or which (3,7,11)")
    return list(dict.fromkeys(int(s) for s in text.split(","))) if "," in text else list(range(1, int(text) + 1))


def _positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}': write a number above 0")
    return int(text)


def _parser():
    p = argparse.ArgumentParser(prog="tools/demo", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
                                description="Runs the same unmodified program on a leaf-spine fabric on this machine under plain ECMP, under ECMP with\n"
                                "several connections per peer, and under Orrery, and prints them side by side.")
    fabric = p.add_argument_group("the fabric")
    fabric.add_argument("--topology", metavar="FILE", default="", help="topology file instead of a generated leaf-spine")
    fabric.add_argument("--leaves", type=_positive, default=None, help="(default: 4; roce: 2)")
    fabric.add_argument("--spines", type=_positive, default=4)
    fabric.add_argument("--hosts", type=_positive, default=None, help="in all (default: 16; roce: 8)")
    fabric.add_argument("--seeds", type=_seeds, default=None, metavar="N|A,B,..", help="ECMP hash seeds: how many, or which (default: 5; torch: 3; --quick: 2, roce: 1)")
    fabric.add_argument("--transport", choices=TRANSPORTS, default="tcp",
                        help="what carries the collectives: TCP, or RDMA over RoCEv2 between soft-RoCE devices in a virtual machine (tests/vm)")
    work = p.add_argument_group("the workload")
    work.add_argument("--workload", choices=WORKLOADS, default="nccl", help="nccl: orrery-bench on host memory; torch: DistributedDataParallel on Gloo")
    work.add_argument("--collective", choices=tuple(FACTORS), default="all-reduce")
    work.add_argument("--bytes", type=_size, default=None, metavar="SIZE", help="message size (default: 2M; roce: 768K)")
    work.add_argument("--rounds", type=_positive, default=None, help="timed iterations of a launch (default: 3; torch: 8; roce: 2, --quick: 1)")
    work.add_argument("--launches", type=_positive, default=None,
                      help="starts of the program per seed and scheme: new connections, new luck with ECMP (default: 6; --quick: 2; torch and roce: 1)")
    work.add_argument("--placement", choices=PLACEMENTS, default="interleaved", help="which host runs which rank (default: interleaved)")
    orrery = p.add_argument_group("Orrery")
    orrery.add_argument("--driver", choices=DRIVERS, default=None, help="(default: ebpf; roce: entropy) ebpf: rules in the switches; entropy: source ports only; dry-run: plans, applies nothing")
    out = p.add_argument_group("output")
    out.add_argument("--json", metavar="FILE", default="", help="write the results there")
    out.add_argument("--report", metavar="FILE", default="", help="write a self-contained HTML page there")
    out.add_argument("--redraw", metavar="RESULTS", default="", help="run nothing: make the table and --report from an earlier --json file")
    out.add_argument("--simulate", metavar="RESULTS", nargs="+", default=[], help="run nothing in a lab: simulate every launch of earlier --json files, with the "
                     "connections it had, and show lab and simulator side by side")
    out.add_argument("--quick", action="store_true", help="fewer seeds and rounds: under a minute from a built tree")
    out.add_argument("--keep", action="store_true", help="leave the lab up at the end (tools/lab/orrery-lab down --name demo removes it)")
    out.add_argument("--name", default="demo", help="name of the lab, to run several at once (default: demo)")
    out.add_argument("--build", metavar="FOLDER", default="", help="use the programs of this build folder; install and build nothing")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # this is the demo's second half, in the virtual machine
    return p


@dataclass(frozen=True)
class _Defaults:
    """Of one kind of run; the second of a pair is for --quick."""
    leaves: int
    hosts: int
    message_bytes: int
    rounds: tuple
    launches: tuple
    seeds: tuple
    driver: str


_DEFAULTS = {"tcp": _Defaults(4, 16, 2 << 20, (3, 3), (6, 2), (5, 2), "ebpf"),
             "torch": _Defaults(4, 16, 2 << 20, (8, 8), (1, 1), (3, 2), "ebpf"),
             "roce": _Defaults(2, 8, 768 << 10, (2, 1), (1, 1), (5, 1), "entropy")}


def parse(argv):
    given = _parser().parse_args(argv)
    torch = given.workload == "torch"
    default = _DEFAULTS["torch" if torch else given.transport]
    quick = 1 if given.quick else 0
    options = Options(topology=given.topology, collective=given.collective, message_bytes=given.bytes or default.message_bytes,
                      rounds=given.rounds or default.rounds[quick], launches=given.launches or default.launches[quick],
                      seeds=given.seeds or list(range(1, default.seeds[quick] + 1)), placement=given.placement, quick=given.quick,
                      driver=given.driver or default.driver, workload=given.workload, json=given.json, report=given.report, redraw=given.redraw, simulate=given.simulate,
                      keep=given.keep, name=given.name, build=given.build, leaves=given.leaves or default.leaves, spines=given.spines,
                      hosts=given.hosts or default.hosts, transport=given.transport, inside=given.inside)
    if given.transport == "roce" and torch:
        raise LabError("PyTorch's Gloo sends over TCP only", "leave --transport roce or --workload torch out")
    if given.transport == "roce" and given.keep:
        raise LabError("the lab ends with its virtual machine", "leave --keep out")
    if torch and given.bytes:
        raise LabError("--bytes says how much a collective moves; with --workload torch the model decides", "leave --bytes out")
    if torch and given.collective != "all-reduce":
        raise LabError("--workload torch does all-reduce only", "leave --collective out")
    return options
