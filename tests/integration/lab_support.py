"""What the tests that need a lab share: programs of this build, a small fabric, and a picture of the machine before and after."""

import os
import subprocess
import sys
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "lab"))

if os.geteuid() != 0:
    print("needs root: sudo tools/test")
    sys.exit(77)

from orrery_lab import topology  # noqa: E402
from orrery_lab.programs import Programs  # noqa: E402

DEMO = os.path.join(REPOSITORY, "tools", "demo")
LAB = os.path.join(REPOSITORY, "tools", "lab", "orrery-lab")


def lab_name(test):
    """Unique among tests that run at once."""
    return f"t{test}{os.getpid()}"[:16]


def small_fabric(folder, leaves=2, spines=2, hosts=4):
    """A Topology and its file."""
    fabric = topology.generate(Programs().program("orreryctl"), folder, leaves, spines, hosts)
    path = os.path.join(folder, "fabric.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(fabric.file_text())
    return fabric, path


def traces(name):
    """Everything on this machine that belongs to lab `name`: namespaces, links, sockets and files, processes."""
    found = [f"namespace {n}" for n in os.listdir("/run/netns") if f"-{name}-" in n] if os.path.isdir("/run/netns") else []
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    found += [f"link {line}" for line in links.splitlines() if name in line]
    found += [f"file {path}" for path in (f"/run/orrery/lab/{name}", f"/run/orrery/lab/.{name}.lock") if os.path.exists(path)]
    if os.path.isdir("/sys/fs/bpf"):
        found += [f"pin {p}" for p in os.listdir("/sys/fs/bpf") if name in p]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                command = line.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(pid) != os.getpid() and f"/lab/{name}/" in command:
            found.append(f"process {pid}: {command}")
    return found


def wait_for_traces(name, child, kind=""):
    """Until lab `name`, which the process `child` brings up, shows on this machine: by a trace of that kind. How long a program takes to begin is up to
    the machine."""
    while not any(trace.startswith(kind) for trace in traces(name)):
        if child.poll() is not None:
            raise RuntimeError(f"it ended with {child.returncode} before lab {name} was seen")
        time.sleep(0.02)


def bpf_program_count():
    """Loaded programs of orrery-switch on the whole machine."""
    shown = subprocess.run(["bpftool", "prog", "show"], capture_output=True, text=True, check=True).stdout
    return sum("orrery" in line or "switch_" in line for line in shown.splitlines())


def link_count():
    return len(subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout.splitlines())
