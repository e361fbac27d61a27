"""orrery-bench over RDMA: the same NCCL program, its library told to use one soft-RoCE device per rank."""

from .workload_nccl import CONNECTIONS_PER_PEER, NcclWorkload

# The proxy thread polls for completions. A processor that all ranks have in common is better left to the one that has something to do.
POLL_SETTINGS = {"HOSTNCCL_POLL_SPINS": "1", "HOSTNCCL_POLL_YIELDS": "0", "HOSTNCCL_POLL_SLEEP_US": "20000"}


class RoceWorkload(NcclWorkload):
    sample_every_s = 2.0
    ask_every_s = 10.0

    def __init__(self, options, programs, hosts):
        super().__init__(options, programs, hosts)
        self.limit_s = 120 + 60 * options.rounds

    def _environment(self, lab, scheme, rank, host):
        environment = super()._environment(lab, scheme, rank, host)
        environment.pop("NCCL_NSOCKS_PERTHREAD", None)
        environment.update({"NCCL_NET": "IB", "NCCL_IB_HCA": "=" + lab.sites.rdma_device(host),
                            "NCCL_SOCKET_IFNAME": lab.sites.interface(host, host.ports[0]), **POLL_SETTINGS})
        if scheme == "ecmp_multi":
            environment["NCCL_IB_QPS_PER_CONNECTION"] = str(CONNECTIONS_PER_PEER)
        return environment

