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
# In a guest ten times slower than the machine, where all nodes share one processor: windows are longer and counters are told less often,
# so that what they cost stays a small share of it.
SHARED_HOST = ["--agent.only_interface", "true", "--window.length_ms", "500", "--window.idle_ms", "500", "--window.quiet_ms", "300",
               "--window.progress_ms", "1000"]
SLOW_SWITCH = ["--switch.telemetry_ms", "1000"]


def endpoint(lab, service):
    return f"ipc://{os.path.join(lab.folder, service + '.ipc')}"


def switch_command(lab, switch):
    return [lab.programs.program("orrery-switch"), "--topology", lab.topology_file, "--switch", switch.name,
            "--controller", endpoint(lab, "switches"), *(SLOW_SWITCH if lab.sites.hosts_share else [])]


def controller_command(lab, driver):
    endpoints = [word for service in ("intents", "agents", "switches", "control") for word in (f"--controller.{service}_endpoint", endpoint(lab, service))]
    return [lab.programs.program("orrery-controller"), "--controller.topology_file", lab.topology_file, "--controller.driver", driver, *endpoints,
            "--state.file", state_file(lab), "--metrics.listen_address", ""]


def state_file(lab):
    return os.path.join(lab.folder, "controller.db")


def agent_command(lab, host):
    return [lab.programs.program("orrery-agent"), "--agent.host", host.name, "--agent.socket_path", lab.agent_socket(host.name),
            "--agent.interface", lab.sites.interface(host, host.ports[0]), "--controller.intents_endpoint", endpoint(lab, "intents"),
            "--controller.agents_endpoint", endpoint(lab, "agents"), "--metrics.listen_address", "",
            *(SHARED_HOST if lab.sites.hosts_share else [])]


def orreryctl_environment(lab):
    """What makes orreryctl ask this lab's controller."""
    return {"ORRERY_CONTROLLER": endpoint(lab, "control")}


def wait_for_orrery(lab):
    """Until the controller has heard of every host and every switch."""
    wait_for_ready(lab, "controller")
    deadline = time.monotonic() + READY_LIMIT_S
    while True:
        health = ask_health(lab)
        if health and health["hosts_connected"] >= len(lab.topology.hosts) and health["switches_connected"] >= len(lab.topology.switches):
            return
        dead = [p["name"] for p in lab.processes() if p["name"].startswith(("agent-", "controller")) and not is_alive(p["pid"], p["start"])]
        if dead or time.monotonic() > deadline:
            name = dead[0] if dead else "controller"
            words = "\n    ".join(last_lines(lab.log_file(name)) or ["(none)"])
            seen = f"; the controller sees {health['hosts_connected']} hosts and {health['switches_connected']} switches" if health else ""
            raise LabError(f"{name} {'ended at start' if dead else 'was not joined by all in time'}{seen}; its last words:\n    {words}",
                           f"its log: {lab.log_file(name)}")
        time.sleep(0.05)


def ask_health(lab):
    """`orreryctl health --json`, or None while the controller does not answer."""
    try:
        done = subprocess.run([lab.programs.program("orreryctl"), "health", "--json"], env={**os.environ, **orreryctl_environment(lab)},
                              capture_output=True, text=True, timeout=3, check=False)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


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
