"""Builds the wires: namespaces, veth pairs, rate and finite queue of every port, addresses and kernel settings.

Every port gets an HTB class at the port's rate with a byte FIFO of the port's queue bytes below it. Segmentation offload is off, so
that queues hold packets and not 64 KiB blobs. Switches have no addresses: they forward by orrery-switch alone.
"""

from . import roce
from .commands import ip_batch, run, tc_batch
from .namespace import Entered

GATEWAY = "169.254.1.1"
CONGESTION_CONTROL = "cubic"  # set per route: the sysctl may refuse it in a namespace (tcp_allowed_congestion_control)
ETHERNET_HEADER_BYTES = 14
OFFLOADS_OFF = ["tso", "off", "gso", "off", "gro", "off", "sg", "on", "tx-udp-segmentation", "off"]

# The same for every scheme that is compared.
HOST_SETTINGS = {
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_rmem": "4096 262144 4194304",
    "net/ipv4/tcp_wmem": "4096 262144 4194304",
    "net/ipv4/ip_local_port_range": "32768 60999",
}
NODE_SETTINGS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
}


def create(sites, progress=lambda text: None):
    """Everything but the daemons. The caller removes what was made when this raises."""
    topology = sites.topology
    progress("namespaces")
    own = [name for name, _ in sites.namespaces() if name]
    ip_batch([f"netns add {name}" for name in own])
    for name in own:
        with Entered(name):
            _write_settings(NODE_SETTINGS)
    if sites.hosts_share:
        roce.prepare()
    progress("links")
    ip_batch([_veth(sites, a, b) for a, b in topology.links])
    progress("queues and addresses")
    for node in topology.nodes:
        _configure(sites, node)
    if sites.hosts_share:
        progress("RDMA devices")
        for host in topology.hosts:
            roce.add_device(sites.rdma_device(host), sites.interface(host, host.ports[0]))


def _veth(sites, a, b):
    return f"link add {_end(sites, a)} type veth peer name {_end(sites, b)}"


def _end(sites, reference):
    node, port = sites.topology.node(reference.partition(":")[0]), sites.topology.port(reference)
    where = f"netns {sites.netns(node)} " if sites.netns(node) else ""
    return f"{sites.interface(node, port)} {where}address {port.mac} mtu {sites.topology.mtu_bytes}"


def _configure(sites, node):
    netns, mtu_bytes = sites.netns(node), sites.topology.mtu_bytes
    plugged = [(sites.interface(node, p), p) for p in node.ports if p.peer]
    tc_batch([line for name, port in plugged for line in _shaper(name, port, mtu_bytes)], netns)
    with Entered(netns):
        for name, _ in plugged:
            run(["ethtool", "-K", name, *OFFLOADS_OFF])
        if node.is_host and netns:
            _write_settings(HOST_SETTINGS)
        elif node.is_host:
            roce.allow_own_addresses(plugged[0][0])
    lines = ["link set lo up"] if node.is_host and netns else []
    for name, _ in plugged:
        lines.append(f"link set {name} gso_max_segs 1 up")
    if node.is_host and netns:
        lines += _addresses(plugged[0][1])
    elif node.is_host:
        lines += roce.host_lines(*plugged[0], sites.routing_table(node), GATEWAY)
    ip_batch(lines, netns)


def _shaper(name, port, mtu_bytes):
    frame = mtu_bytes + ETHERNET_HEADER_BYTES
    burst = 2 * frame
    return [f"qdisc add dev {name} root handle 1: htb default 1",
            f"class add dev {name} parent 1: classid 1:1 htb rate {port.rate_bps}bit ceil {port.rate_bps}bit "
            f"burst {burst}b cburst {burst}b quantum {frame}",
            f"qdisc add dev {name} parent 1:1 handle 10: bfifo limit {port.queue_bytes}"]


def _addresses(nic):
    return [f"addr add {nic.address}/32 dev {nic.name}",
            f"route add {GATEWAY} dev {nic.name} scope link",
            f"route add default via {GATEWAY} dev {nic.name} src {nic.address} congctl {CONGESTION_CONTROL}",
            f"neigh add {GATEWAY} lladdr {nic.peer_mac} dev {nic.name} nud permanent"]


def _write_settings(settings):
    for key, value in settings.items():
        try:
            with open("/proc/sys/" + key, "w", encoding="ascii") as out:
                out.write(value)
        except FileNotFoundError:
            if not key.startswith("net/ipv6/"):  # a kernel without IPv6 has none to switch off
                raise


def delete(names):
    """Deletes namespaces; their links, queues and BPF attachments go with them."""
    for name in names:
        run(["ip", "netns", "delete", name])
