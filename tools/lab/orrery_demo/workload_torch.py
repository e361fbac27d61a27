"""PyTorch with DistributedDataParallel on Gloo, exactly as Debian ships it."""

import json
import os

from orrery_lab.errors import LabError

from .ideal import ideal_ms
from .runs import SAMPLE_EVERY_S, Outcome
from .watcher import ASK_EVERY_S
from .workload_nccl import rank_name

MASTER_PORT = 29400
WARM_UP_ROUNDS = 2
PARAMETER_BYTES = 4 * (4 * (512 * 512 + 512) + 512 * 16 + 16)
PYTHON = "/usr/bin/python3"  # Debian's python3-torch is for this one
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "torch_ddp.py")


class TorchWorkload:
    sample_every_s = SAMPLE_EVERY_S
    ask_every_s = ASK_EVERY_S

    def __init__(self, options, programs, hosts):
        self._options = options
        self._hosts = hosts
        self._preload = programs.library("liborrery_preload.so")
        self.limit_s = 120 + 30 * options.rounds

    @property
    def ranks(self):
        return len(self._hosts)

    def ideal(self, topology):
        nic = topology.hosts[0].ports[0]
        shortest = ideal_ms("all-reduce", self.ranks, PARAMETER_BYTES, nic.rate_bps, topology.mtu_bytes)
        return shortest, (f"all-reduce of the gradients alone, 2(n-1)/n * S over the line rate with n = {self.ranks}, S = {PARAMETER_BYTES} bytes; "
                          "computing is not in it")

    def start(self, lab, launch, scheme):
        return {name: lab.start(name, [PYTHON, SCRIPT, "--rounds", str(self._options.rounds), "--warmup", str(WARM_UP_ROUNDS), "--json",
                                       self._result_file(lab, launch)],
                                netns=lab.netns(host.name), env=self._environment(lab, scheme, rank, host))
                for rank, host in enumerate(self._hosts) for name in [rank_name(rank, launch)]}

    def _result_file(self, lab, launch):
        return os.path.join(lab.log_folder, f"torch-{launch}.json")

    def _environment(self, lab, scheme, rank, host):
        environment = {"RANK": str(rank), "WORLD_SIZE": str(self.ranks), "MASTER_ADDR": self._hosts[0].ports[0].address,
                       "MASTER_PORT": str(MASTER_PORT), "GLOO_SOCKET_IFNAME": host.ports[0].name, "OMP_NUM_THREADS": "1"}
        if scheme == "orrery":
            environment["LD_PRELOAD"] = self._preload
            environment["ORRERY_AGENT_SOCKET"] = lab.agent_socket(host.name)
        return environment

    def outcome(self, lab, launch):
        path = self._result_file(lab, launch)
        try:
            with open(path, encoding="utf-8") as saved:
                result = json.load(saved)
        except (OSError, ValueError) as error:
            raise LabError(f"torch_ddp.py left no readable result in {path}: {error}") from None
        return Outcome([t * 1e3 for t in result["times_s"]], True, result["started_s"], result["ended_s"], result["losses"])
