"""Where the nodes of a lab are on this machine: in which network namespace, and under which interface names.

Transport "tcp": each node in a namespace of its own. Transport "roce": switches likewise, but all hosts in the first namespace, because
that is the only one the soft-RoCE driver listens in (kernel 6.1); a host is then its interface and its RDMA device.
"""

TRANSPORTS = ("tcp", "roce")
FIRST_ROUTING_TABLE = 1000


class Sites:
    def __init__(self, lab, topology, transport="tcp"):
        self.lab = lab
        self.topology = topology
        self.transport = transport

    def netns(self, node):
        """Name of the node's namespace; None: the first one."""
        return None if self.hosts_share and node.is_host else netns_name(self.lab, node.name)

    def interface(self, node, port):
        return node.name if self.hosts_share and node.is_host else port.name

    @property
    def hosts_share(self):
        return self.transport == "roce"

    def rdma_device(self, host):
        return f"rxe_{host.name}"

    def routing_table(self, host):
        return FIRST_ROUTING_TABLE + self.topology.hosts.index(host)

    def namespaces(self):
        """(namespace, nodes in it), the shared one once."""
        found = {}
        for node in self.topology.nodes:
            found.setdefault(self.netns(node), []).append(node)
        return list(found.items())


def netns_name(lab, node):
    return f"orr-{lab}-{node}"
