"""The command lines of the lab's daemons, and how to know that they are ready.

The lab's management network is ZeroMQ over ipc: sockets in the lab's folder, which every namespace sees.
"""

import json
import os
import subprocess
import time

from .errors import LabError
from .processes import is_alive, last_lines

READY_LIMIT_S = 20.0


def endpoint(lab, service):
    return f"ipc://{os.path.join(lab.folder, service + '.ipc')}"


def switch_command(lab, switch):
    return [lab.programs.program("orrery-switch"), "--topology", lab.topology_file, "--switch", switch.name,
            "--controller", endpoint(lab, "switches")]


def wait_for_ready(lab, prefix):
    """Until every daemon whose name starts with `prefix` has said READY; an early end is an error with its last words."""
    waiting = {p["name"]: (p["pid"], p["start"]) for p in lab.processes() if p["name"].startswith(prefix)}
    deadline = time.monotonic() + READY_LIMIT_S
    while waiting:
        waiting = {name: process for name, process in waiting.items() if not _said_ready(lab.log_file(name))}
        dead = [name for name, process in waiting.items() if not is_alive(*process)]
        if dead or (waiting and time.monotonic() > deadline):
            name = dead[0] if dead else next(iter(waiting))
            words = "\n    ".join(last_lines(lab.log_file(name)) or ["(none)"])
            raise LabError(f"{name} {'ended at start' if dead else f'was not ready within {READY_LIMIT_S:.0f} s'}; its last words:\n    {words}",
                           f"its log: {lab.log_file(name)}")
        time.sleep(0.02)


def _said_ready(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return any(line.startswith("READY ") for line in log)
    except OSError:
        return False
