"""Soft-RoCE hosts that share one network namespace, and yet send everything to one another over the fabric.

Routing rules keep the kernel from delivering to itself: what a device sends is routed by the table of its interface, and only what came
in by an interface is local. A device cannot talk to itself under these rules. TCP between hosts (an application's bootstrap) is not bound
to an interface and stays inside the machine; all that is measured is RDMA.
"""

import os

from .commands import ip_batch, run, succeeds
from .errors import LabError

MODULES = ("veth", "rdma_rxe", "ib_uverbs", "sch_htb")
FROM_OUTSIDE, TO_OUTSIDE, LOCAL = 10, 20, 30  # preferences of the routing rules
HW_COUNTERS = "/sys/class/infiniband/{}/ports/1/hw_counters"
# Each time a sender had to go back, for a lost packet or a lost answer.
GONE_BACK = "completer_retry_err"


def require_machine():
    """It changes the machine's own routing rules, and is therefore for a guest of tests/vm/run-in-vm."""
    if "ORRERY_VM_OUT" not in os.environ:
        raise LabError("soft-RoCE hosts change the routing of the whole machine", "run it in a virtual machine: tests/vm/run-in-vm COMMAND...")
    if not succeeds(["modprobe", "-a", *MODULES]):
        raise LabError("this kernel has no soft-RoCE (rdma_rxe)", "use the one that tests/vm/prepare-kernel fetches")


def prepare():
    """Once per lab, before the first device."""
    _write("net/ipv4/conf/all/rp_filter", "0")
    for family in ("all", "default"):
        _write(f"net/ipv6/conf/{family}/disable_ipv6", "1")
    if "lookup local" in run(["ip", "rule", "show", "pref", "0"]):
        ip_batch([f"rule add pref {LOCAL} lookup local", "rule del pref 0"])


def host_lines(interface, nic, table, gateway):
    """What gives a shared host its address and routes; for `ip -batch`."""
    return [f"addr add {nic.address}/32 dev {interface} noprefixroute",
            f"rule add pref {FROM_OUTSIDE} iif {interface} lookup local",
            f"rule add pref {TO_OUTSIDE} oif {interface} lookup {table}",
            f"route add {gateway} dev {interface} scope link table {table}",
            f"route add default via {gateway} dev {interface} src {nic.address} table {table} onlink",
            f"neigh add {gateway} lladdr {nic.peer_mac} dev {interface} nud permanent"]


def allow_own_addresses(interface):
    for key, value in (("accept_local", "1"), ("rp_filter", "0"), ("arp_ignore", "1")):
        _write(f"net/ipv4/conf/{interface}/{key}", value)


def add_device(device, interface):
    run(["rdma", "link", "add", device, "type", "rxe", "netdev", interface])


def remove_rules(sites):
    """The devices go with their interfaces; the rules stay until somebody removes them."""
    for host in sites.topology.hosts:
        interface = sites.interface(host, host.ports[0])
        succeeds(["ip", "rule", "del", "pref", str(FROM_OUTSIDE), "iif", interface])
        succeeds(["ip", "rule", "del", "pref", str(TO_OUTSIDE), "oif", interface])


def times_gone_back(device):
    try:
        with open(os.path.join(HW_COUNTERS.format(device), GONE_BACK), encoding="ascii") as counter:
            return int(counter.read())
    except (OSError, ValueError):
        return 0


def _write(key, value):
    try:
        with open("/proc/sys/" + key, "w", encoding="ascii") as out:
            out.write(value)
    except FileNotFoundError:
        if not key.startswith("net/ipv6/"):
            raise
