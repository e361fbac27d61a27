"""Builds the wires: namespaces, veth pairs, rate and finite queue of every port, addresses and kernel settings.

Every port gets an HTB class at the port's rate with a byte FIFO of the port's queue bytes below it. Segmentation offload is off, so
that queues hold packets and not 64 KiB blobs. Switches have no addresses: they forward by orrery-switch alone.
"""

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


def netns_name(lab, node):
    return f"orr-{lab}-{node}"


def create(lab, topology, progress=lambda text: None):
    """Everything but the daemons. The caller removes what was made when this raises."""
    progress("namespaces")
    ip_batch([f"netns add {netns_name(lab, n.name)}" for n in topology.nodes])
    for node in topology.nodes:
        with Entered(netns_name(lab, node.name)):
            _write_settings(NODE_SETTINGS)
    progress("links")
    ip_batch([_veth(lab, topology, a, b) for a, b in topology.links])
    progress("queues and addresses")
    for node in topology.nodes:
        _configure(netns_name(lab, node.name), node, topology.mtu_bytes)


def _veth(lab, topology, a, b):
    node_a, port_a = a.split(":")
    node_b, port_b = b.split(":")
    return (f"link add {port_a} netns {netns_name(lab, node_a)} address {topology.port(a).mac} mtu {topology.mtu_bytes} type veth "
            f"peer name {port_b} netns {netns_name(lab, node_b)} address {topology.port(b).mac} mtu {topology.mtu_bytes}")


def _configure(netns, node, mtu_bytes):
    plugged = [p for p in node.ports if p.peer]
    tc_batch([line for port in plugged for line in _shaper(port, mtu_bytes)], netns)
    with Entered(netns):
        for port in plugged:
            run(["ethtool", "-K", port.name, *OFFLOADS_OFF])
        if node.is_host:
            _write_settings(HOST_SETTINGS)
    lines = ["link set lo up"] if node.is_host else []
    for port in plugged:
        lines.append(f"link set {port.name} gso_max_segs 1 up")
    if node.is_host:
        lines += _addresses(plugged[0])
    ip_batch(lines, netns)


def _shaper(port, mtu_bytes):
    frame = mtu_bytes + ETHERNET_HEADER_BYTES
    burst = 2 * frame
    return [f"qdisc add dev {port.name} root handle 1: htb default 1",
            f"class add dev {port.name} parent 1: classid 1:1 htb rate {port.rate_bps}bit ceil {port.rate_bps}bit "
            f"burst {burst}b cburst {burst}b quantum {frame}",
            f"qdisc add dev {port.name} parent 1:1 handle 10: bfifo limit {port.queue_bytes}"]


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
