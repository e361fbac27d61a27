"""Whether this machine can run a lab: every missing thing is named with its cure, all of them at once."""

import ctypes
import os
import platform
import shutil

from .commands import succeeds
from .errors import LabError

TOOLS = ("ip", "tc", "ethtool", "nstat")
SYS_BPF = {"x86_64": 321, "aarch64": 280}
BPF_MAP_CREATE = 0


def require_root():
    if os.geteuid() != 0:
        raise LabError("the lab needs root: it makes network namespaces, queues and BPF programs",
                       "run it again with sudo; it changes nothing outside its own namespaces and /run/orrery")


def require_machine():
    """Raises LabError with one line per missing tool or kernel feature."""
    require_root()
    missing = [f"{tool} is not installed: run tools/setup" for tool in TOOLS if not shutil.which(tool)]
    if not missing:
        missing = _missing_kernel_features()
    if missing:
        raise LabError("this machine cannot run the lab:\n  " + "\n  ".join(missing),
                       f"kernel options are those of the running kernel {platform.release()}; a Debian 12 kernel has them all")


def _missing_kernel_features():
    name = f"orrprobe{os.getpid()}"
    if not succeeds(["ip", "netns", "add", name]):
        return ["network namespaces cannot be made: CONFIG_NET_NS, or CAP_SYS_ADMIN when this is a container"]
    try:
        ip, tc = ["ip", "-n", name], ["tc", "-n", name]
        if not succeeds(ip + ["link", "add", "pa", "type", "veth", "peer", "name", "pb"]):
            return ["virtual Ethernet pairs cannot be made: CONFIG_VETH"]
        probes = [
            (tc + "qdisc add dev pa root handle 1: htb default 1".split(), "no HTB queueing discipline: CONFIG_NET_SCH_HTB"),
            (tc + "class add dev pa parent 1: classid 1:1 htb rate 1mbit".split(), "no HTB classes: CONFIG_NET_SCH_HTB"),
            (tc + "qdisc add dev pa parent 1:1 bfifo limit 10000".split(), "no byte FIFO: CONFIG_NET_SCH_FIFO"),
            (ip + "link set pa up".split(), "a virtual Ethernet port cannot be switched on: CONFIG_VETH"),
            (ip + "route add 10.9.9.9 dev pa congctl cubic".split(), "no cubic congestion control: CONFIG_TCP_CONG_CUBIC, or modprobe tcp_cubic"),
            (tc + "qdisc add dev pb clsact".split(), "no clsact for BPF on ports: CONFIG_NET_CLS_ACT and CONFIG_NET_SCH_INGRESS"),
        ]
        missing = [cure for command, cure in probes if not succeeds(command)]
    finally:
        succeeds(["ip", "netns", "delete", name])
    if not _has_bpf():
        missing.append("the bpf system call is refused: CONFIG_BPF_SYSCALL, or CAP_BPF when this is a container")
    return missing


def _has_bpf():
    number = SYS_BPF.get(platform.machine())
    if number is None:
        return True  # unknown machine: orrery-switch will say
    map_type_array, key, value, entries = 2, 4, 4, 1
    attributes = (ctypes.c_uint32 * 20)(map_type_array, key, value, entries)
    descriptor = ctypes.CDLL(None).syscall(number, BPF_MAP_CREATE, attributes, ctypes.sizeof(attributes))
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True
