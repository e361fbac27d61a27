"""A lab: up, down, its daemons, and programs run on its hosts. Whoever builds it closes it; what it made outlives it until down()."""

import glob
import os
import shutil
import signal
import subprocess

from . import daemons, namespace, network, processes, roce, topology
from .errors import LabError
from .sites import Sites, netns_name
from .state import State, read

DEFAULT_NAME = "lab"
STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Lab:
    def __init__(self, name, programs, progress=lambda text: None):
        self.name = name
        self.programs = programs
        self.topology = None
        self._progress = progress
        self._children = []  # Popen of what this Lab started, to be reaped
        self._state = State(name)
        if self._state.data and self._state.data.get("topology"):
            self.topology = topology.Topology(self._state.data["topology"])
        self.transport = (self._state.data or {}).get("transport", "tcp")

    def close(self):
        self._state.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def folder(self):
        return self._state.folder

    @property
    def topology_file(self):
        return os.path.join(self.folder, "topology.yaml")

    @property
    def log_folder(self):
        return os.path.join(self.folder, "log")

    def is_up(self):
        return bool(self._state.data and self._state.data.get("ready"))

    @property
    def sites(self):
        return Sites(self.name, self.topology, self.transport)

    def netns(self, node):
        """None: the first namespace."""
        return self.sites.netns(self.topology.node(node))

    def agent_socket(self, host):
        return os.path.join(self.folder, host, "agent.sock")

    # -- up and down ---------------------------------------------------------------------------------------------------------------

    def up(self, wanted, transport="tcp"):
        """Removes what an earlier lab of this name left, then builds `wanted` and starts its switches. On failure nothing is left."""
        self.down()
        self.topology, self.transport = wanted, transport
        self._state.data = {"schema": 1, "name": self.name, "topology": wanted.document, "transport": transport, "processes": [], "ready": False}
        self._state.save()
        try:
            self._write_topology()
            network.create(self.sites, self._progress)
            self.start_switches()
            self._state.data["ready"] = True
            self._state.save()
        except BaseException:
            self.down()
            raise

    def down(self):
        """Ends every process, deletes every namespace and file of this lab; a signal meanwhile waits. Returns whether there was anything."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            return self._remove()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _remove(self):
        leftovers = namespace.names(netns_name(self.name, ""))
        had_any = bool(leftovers or self._state.data or os.path.exists(self.folder))
        recorded = [(p["pid"], p["start"]) for p in (self._state.data or {}).get("processes", [])]
        processes.end(recorded)
        processes.end_inside(leftovers)
        self._reap()
        network.delete(leftovers)
        if self.topology and self.sites.hosts_share:
            roce.remove_rules(self.sites)
        for pin in glob.glob(f"/sys/fs/bpf/orrery/{self.name}*"):
            shutil.rmtree(pin, ignore_errors=True)
        self._state.remove()
        self.topology = None
        return had_any

    # -- daemons -------------------------------------------------------------------------------------------------------------------

    def start_switches(self):
        self._progress("switches")
        for switch in self.topology.switches:
            self.start(f"switch-{switch.name}", daemons.switch_command(self, switch), netns=self.netns(switch.name))
        daemons.wait_for_ready(self, "switch-")

    def change_hash_seed(self, seed):
        """Every switch forgets its ECMP choices: the fabric an operator would have had with other luck."""
        self.stop("switch-")
        self.topology = self.topology.with_hash_seed(seed)
        self._state.data["topology"] = self.topology.document
        self._state.save()
        self._write_topology()
        self.start_switches()

    def start_orrery(self, driver, controller_options=()):
        """Controller and one agent per host; returns when they have found each other."""
        self._progress(f"controller and agents ({driver})")
        if os.path.exists(daemons.state_file(self)):
            os.unlink(daemons.state_file(self))  # nothing learned in an earlier run
        self.start("controller", [*daemons.controller_command(self, driver), *controller_options])
        for host in self.topology.hosts:
            os.makedirs(os.path.dirname(self.agent_socket(host.name)), exist_ok=True)
            self.start(f"agent-{host.name}", daemons.agent_command(self, host), netns=self.netns(host.name))
        daemons.wait_for_orrery(self)

    def stop_orrery(self):
        self.stop("agent-")
        self.stop("controller")

    # -- processes -----------------------------------------------------------------------------------------------------------------

    def start(self, name, argv, netns=None, env=None):
        """Starts a process that belongs to the lab; its output goes to log/<name>.log. Returns the Popen."""
        os.makedirs(self.log_folder, exist_ok=True)
        if os.path.exists(self.log_file(name)):
            os.replace(self.log_file(name), self.log_file(name) + ".old")
        child = processes.spawn(argv, self.log_file(name), netns, {**_clean_environment(), **(env or {})})
        self._children.append(child)
        self._state.data["processes"].append({"name": name, "pid": child.pid, "start": processes.start_time(child.pid)})
        self._state.save()
        return child

    def processes(self):
        return list(self._state.data["processes"])

    def log_file(self, name):
        return os.path.join(self.log_folder, name + ".log")

    def stop(self, prefix):
        """Ends the lab's processes whose name starts with `prefix`."""
        chosen = [p for p in self._state.data["processes"] if p["name"].startswith(prefix)]
        processes.end([(p["pid"], p["start"]) for p in chosen])
        self._reap()
        self._state.data["processes"] = [p for p in self._state.data["processes"] if p not in chosen]
        self._state.save()

    def _reap(self):
        self._children = [child for child in self._children if child.poll() is None]

    def process(self, name):
        """(pid, start time) of a running process of the lab."""
        for entry in self._state.data["processes"]:
            if entry["name"] == name and processes.is_alive(entry["pid"], entry["start"]):
                return entry["pid"], entry["start"]
        raise LabError(f"{name} does not run in lab '{self.name}'", f"its log: {self.log_file(name)}")

    def _write_topology(self):
        with open(self.topology_file, "w", encoding="utf-8") as out:
            out.write(self.topology.file_text())


def _clean_environment():
    """The caller's, less what would make one of Orrery's parts, or a program without it, behave in another way than the lab means."""
    return {key: value for key, value in os.environ.items() if not key.startswith("ORRERY_") and key != "LD_PRELOAD"}


def namespace_of(name, node):
    """Name of the network namespace of `node` in lab `name`."""
    saved = read(name)
    if not saved:
        raise LabError(f"lab '{name}' is not up", "start it: tools/lab/orrery-lab up")
    found = Sites(name, topology.Topology(saved["topology"]), saved.get("transport", "tcp"))
    netns = found.netns(found.topology.node(node))
    if netns is None:
        raise LabError(f"{node} of lab '{name}' is in the machine's own namespace", "run the program without orrery-lab exec")
    return netns


def execute(name, node, argv):
    """Runs `argv` in a node's namespace, with that namespace's /sys, as a person would; returns its exit status."""
    return subprocess.run(["ip", "netns", "exec", namespace_of(name, node), *argv], check=False).returncode


def status(name):
    """{"name","up","nodes","links","processes":[{"name","pid","alive"}],"namespaces"} of a lab, or None when there is none."""
    saved = read(name)
    found = namespace.names(netns_name(name, ""))
    if not saved:
        return {"name": name, "up": False, "namespaces": len(found), "processes": []} if found else None
    document = saved.get("topology") or {"switches": [], "hosts": [], "links": []}
    return {"name": name, "up": saved.get("ready", False), "namespaces": len(found), "switches": len(document["switches"]),
            "hosts": len(document["hosts"]), "links": len(document["links"]),
            "processes": [{"name": p["name"], "pid": p["pid"], "alive": processes.is_alive(p["pid"], p["start"])}
                          for p in saved["processes"]]}
