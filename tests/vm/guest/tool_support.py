"""Runs RDMA tools in the guest, as pairs of server and client over two soft-RoCE devices, with and without the preload library."""
import collections
import json
import os
import re
import signal
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
BUILD = os.environ["ORRERY_BUILD_DIR"]
LIBRARY = os.path.join(BUILD, "lib", "liborrery_preload.so")
RECORDER = os.path.join(BUILD, "test", "agent_recorder")
SERVER_ADDRESS, CLIENT_ADDRESS = "10.9.0.1", "10.9.0.2"
SERVER_DEVICE, CLIENT_DEVICE = "rxe0", "rxe1"
ROCE_PORT = 4791
TOOL_TIMEOUT_S = 60

Told = collections.namedtuple("Told", "status output")
Pair = collections.namedtuple("Pair", "server client report packets")


def bring_up_devices():
    subprocess.run([os.path.join(HERE, "rxe_pair.sh")], check=True)


class Recorder:
    """The stand-in for the agent; its report is there after stop()."""

    def __init__(self, plan=()):
        self.socket = tempfile.mktemp(prefix="orrery-agent-", suffix=".sock")
        self.report = None
        self._process = subprocess.Popen([RECORDER, self.socket, *plan], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self._process.stdout.readline() != "READY\n":
            raise RuntimeError("agent_recorder did not start")

    def stop(self):
        output, _ = self._process.communicate(timeout=TOOL_TIMEOUT_S)
        os.unlink(self.socket)
        self.report = json.loads(output)
        return self.report

    def environment(self):
        return {"LD_PRELOAD": LIBRARY, "ORRERY_AGENT_SOCKET": self.socket}


class Capture:
    """The RoCE packets that leave an interface: (seconds since boot, source address, source port, destination, bytes of the IP packet)."""

    PACKET = re.compile(r"^(\d+\.\d+) IP (\d+\.\d+\.\d+\.\d+)\.(\d+) > (\d+\.\d+\.\d+\.\d+)\.4791: UDP, length (\d+)$")

    def __init__(self, interface):
        self._file = tempfile.NamedTemporaryFile(prefix="orrery-", suffix=".pcap")
        self._process = subprocess.Popen(
            ["tcpdump", "-i", interface, "-Q", "out", "-s", "64", "-B", "16384", "-Z", "root", "-U", "-w", self._file.name, "udp", "dst", "port", str(ROCE_PORT)],
            stderr=subprocess.PIPE, text=True)
        line = self._process.stderr.readline()
        while line and "listening on" not in line:
            line = self._process.stderr.readline()

    def stop(self):
        time.sleep(0.3)
        self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=TOOL_TIMEOUT_S)
        dropped = re.search(r"(\d+) packets dropped by kernel", said)
        if dropped is None or int(dropped.group(1)) != 0:
            raise RuntimeError(f"the capture lost packets: {said}")
        listing = subprocess.run(["tcpdump", "-n", "-tt", "-q", "-r", self._file.name], capture_output=True, text=True, check=True).stdout
        self._file.close()
        matches = filter(None, map(self.PACKET.match, listing.splitlines()))
        return [(float(when), source, int(port), target, int(size)) for when, source, port, target, size in map(re.Match.groups, matches)]


def listens(port):
    with open("/proc/net/tcp", encoding="ascii") as v4, open("/proc/net/tcp6", encoding="ascii") as v6:
        return any(f":{port:04X} " in line and " 0A " in line for line in [*v4, *v6])


def run_pair(server, client, port, environment):
    """Told of both; the server is up when it listens on a TCP port."""
    merged = {**os.environ, **environment}
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(server, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=merged) as serving:
        try:
            deadline = time.monotonic() + TOOL_TIMEOUT_S
            while not listens(port) and serving.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            done = subprocess.run(client, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=merged, timeout=TOOL_TIMEOUT_S, check=False)
            serving.wait(TOOL_TIMEOUT_S)
        finally:
            if serving.poll() is None:
                serving.kill()
        said.seek(0)
        return Told(serving.returncode, said.read()), Told(done.returncode, done.stdout + done.stderr)


def run_recorded(server, client, port, plan=(), capture=None, environment=None):
    """A pair under the library with an agent, and what agent and wire saw."""
    recorder = Recorder(plan)
    try:
        wire = Capture(capture) if capture else None
        told = run_pair(server, client, port, {**recorder.environment(), **(environment or {})})
        packets = wire.stop() if wire else []
    finally:
        report = recorder.stop()
    return Pair(*told, report, packets)


def shape(output):
    """What stays the same from run to run: the words, without numbers, and with runs of blanks as one."""
    lines = (re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+|\b[0-9a-f]*[0-9][0-9a-f.]*(?=\b|[a-z:])", "N", line)).strip() for line in output.splitlines())
    return [line for line in lines if line]


def qp_flows(report, local):
    """The queue pairs of the process at one address."""
    return [flow for flow in report["flows"] if flow["protocol"] == "udp" and flow["local"] == local]


def total(flows, counter):
    """Of a counter over flows; `tx_bytes` and the like are the flow's, all others the queue pair's."""
    return sum(flow[counter] if counter in flow else (flow["qp"] or {}).get(counter, 0) for flow in flows)
