"""orrery-bench on every host: an NCCL program that knows nothing of Orrery, on host memory."""

import json
import os
import re

from orrery_lab.errors import LabError

from .ideal import FACTORS, explain, ideal_ms
from .runs import SAMPLE_EVERY_S, Outcome
from .watcher import ASK_EVERY_S

MASTER_PORT = 29500
WARM_UP_ROUNDS = 1
CONNECTIONS_PER_PEER = 4
CONNECTED = re.compile(r"NCCL INFO NET/Socket : connected (\S+) to (\S+)")


class NcclWorkload:
    sample_every_s = SAMPLE_EVERY_S
    ask_every_s = ASK_EVERY_S

    def __init__(self, options, programs, hosts):
        self._options = options
        self._hosts = hosts
        self._bench = programs.program("orrery-bench")
        self._library_folder = os.path.dirname(programs.library("libnccl.so.2"))
        self._preload = programs.library("liborrery_preload.so")
        self.limit_s = 60 + 30 * options.rounds

    @property
    def ranks(self):
        return len(self._hosts)

    def ideal(self, topology):
        """(milliseconds, how that was computed)"""
        shape = (self._options.collective, self.ranks, self._options.message_bytes, topology.hosts[0].ports[0].rate_bps, topology.mtu_bytes,
                 self._options.transport)
        return ideal_ms(*shape), explain(*shape)

    def sent_bytes(self, rounds):
        """What each rank has sent after so many rounds."""
        return rounds * FACTORS[self._options.collective](self.ranks) * self._options.message_bytes

    def start(self, lab, launch, scheme):
        """{name: Popen} of every rank; `launch` names this one among all."""
        return {name: lab.start(name, self._command(lab, name), netns=lab.netns(host.name), env=self._environment(lab, scheme, rank, host))
                for rank, host in enumerate(self._hosts) for name in [rank_name(rank, launch)]}

    def _command(self, lab, name):
        o = self._options
        return [self._bench, o.collective, "--min-bytes", str(o.message_bytes), "--iterations", str(o.rounds), "--warmup", str(WARM_UP_ROUNDS),
                "--check", "every", "--barrier", "--json", _file(lab, name, "json"), "--iterations-file", _file(lab, name, "iterations")]

    def _environment(self, lab, scheme, rank, host):
        environment = {"RANK": str(rank), "WORLD_SIZE": str(self.ranks), "MASTER_ADDR": self._hosts[0].ports[0].address,
                       "MASTER_PORT": str(MASTER_PORT), "NCCL_SOCKET_IFNAME": host.ports[0].name, "LD_LIBRARY_PATH": self._library_folder,
                       "NCCL_DEBUG": "INFO"}  # says once which connections it has
        if scheme == "ecmp_multi":
            environment["NCCL_NSOCKS_PERTHREAD"] = str(CONNECTIONS_PER_PEER)
        if scheme == "orrery":
            environment["LD_PRELOAD"] = self._preload
            environment["ORRERY_AGENT_SOCKET"] = lab.agent_socket(host.name)
        return environment

    def outcome(self, lab, launch):
        name = rank_name(0, launch)
        try:
            with open(_file(lab, name, "json"), encoding="utf-8") as result, open(_file(lab, name, "iterations"), encoding="utf-8") as iterations:
                outcome = read_outcome(json.load(result), iterations.read())
            outcome.connections = [pair for rank in range(self.ranks) for pair in self._connections(lab, rank_name(rank, launch))]
            return outcome
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise LabError(f"orrery-bench left no readable result: {error!r}", f"see {lab.log_file(name)}") from None

    def _connections(self, lab, name):
        with open(lab.log_file(name), encoding="utf-8", errors="replace") as log:
            return [list(found.groups()) for found in map(CONNECTED.search, log) if found]


def _file(lab, name, kind):
    return os.path.join(lab.log_folder, f"{name}.{kind}")


def rank_name(rank, launch):
    return f"rank-{rank:02d}-{launch}"


def read_outcome(result, iterations):
    """Outcome of the one size in orrery-bench's JSON; `iterations`: lines of bytes,index,start in Unix ns,duration in µs."""
    size = result["sizes"][0]
    lines = [[float(word) for word in line.split(",")] for line in iterations.splitlines() if line[:1].isdigit()]
    lines = [line for line in lines if line[1] >= 0]  # warm-up is numbered below 0
    return Outcome(size["iterations_ms"], bool(size["verified"]), lines[0][2] / 1e9, lines[-1][2] / 1e9 + lines[-1][3] / 1e6,
                   starts_s=[line[2] / 1e9 for line in lines])
