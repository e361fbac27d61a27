"""Runs RDMA tools in the guest, as pairs of server and client over two soft-RoCE devices, with and without the preload library."""
import collections
import ipaddress
import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
BUILD = os.environ["ORRERY_BUILD_DIR"]
LIBRARY = os.path.join(BUILD, "lib", "liborrery_preload.so")
MPI_EXCHANGE = os.path.join(BUILD, "test", "mpi_exchange")
RECORDER = os.path.join(BUILD, "test", "agent_recorder")
SERVER_ADDRESS, CLIENT_ADDRESS = "10.9.0.1", "10.9.0.2"
SERVER_ADDRESS6, CLIENT_ADDRESS6 = "fe80::ff:fe00:901", "fe80::ff:fe00:902"
SERVER_DEVICE, CLIENT_DEVICE = "rxe0", "rxe1"
CLIENT_INTERFACE = "v1"
ROCE_PORT = 4791
TOOL_TIMEOUT_S = 240  # a tool that hangs; others take seconds, or minutes where the guest gets little of a processor

Told = collections.namedtuple("Told", "status output")
Pair = collections.namedtuple("Pair", "server client report traffic")


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


class QueuePairTraffic:
    """What the wire carried from an address to a queue pair, each packet once however often it was sent again."""

    def __init__(self):
        self.messages, self.bytes, self.reads = 0, 0, 0
        self.ports, self.times, self._seen = set(), [], set()

    def add(self, when, port, opcode, sequence, payload):
        self.ports.add(port)
        if sequence in self._seen:
            return
        self._seen.add(sequence)
        self.times.append(when)
        self.messages += opcode in RC_LAST
        self.reads += opcode == RC_READ_REQUEST
        self.bytes += payload


# InfiniBand opcodes of reliable connections (IBTA volume 1, table 38): where a SEND or RDMA WRITE ends, and the bytes of the headers
# that follow the transport header.
RC_LAST = {0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0a, 0x0b}
RC_READ_REQUEST = 0x0c
RC_HEADERS = {0x00: 0, 0x01: 0, 0x02: 0, 0x03: 4, 0x04: 0, 0x05: 4, 0x06: 16, 0x07: 0, 0x08: 0, 0x09: 4, 0x0a: 16, 0x0b: 20, RC_READ_REQUEST: 16}
TRANSPORT_HEADER, CHECKSUM = 12, 4


class Capture:
    """The requests of reliable connections that cross an interface, in both directions: {(source address, queue pair): QueuePairTraffic}."""

    def __init__(self, interface):
        self._file = tempfile.NamedTemporaryFile(prefix="orrery-", suffix=".pcap")
        self._process = subprocess.Popen(
            ["tcpdump", "--immediate-mode", "-i", interface, "-s", "128", "-B", "32768", "-Z", "root", "-U", "-w", self._file.name,
             "udp", "dst", "port", str(ROCE_PORT)],
            stderr=subprocess.PIPE, text=True)
        line = self._process.stderr.readline()
        while line and "listening on" not in line:
            line = self._process.stderr.readline()

    def stop(self):
        self._wait_for_the_last()
        self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=TOOL_TIMEOUT_S)
        dropped = re.search(r"(\d+) packets dropped by kernel", said)
        if dropped is None or int(dropped.group(1)) != 0:
            raise RuntimeError(f"the capture lost packets: {said}")
        traffic = collections.defaultdict(QueuePairTraffic)
        for when, frame in self._frames():
            self._add(traffic, when, frame)
        self._file.close()
        return traffic

    def _wait_for_the_last(self):
        """tcpdump leaves what it has not read yet when it is told to stop."""
        size, still = -1, 0
        while still < 5:
            time.sleep(0.2)
            before, size = size, os.path.getsize(self._file.name)
            still = still + 1 if size == before else 0

    def _frames(self):
        self._file.seek(24)
        while len(header := self._file.read(16)) == 16:
            seconds, microseconds, captured, _ = struct.unpack("=IIII", header)
            yield seconds + microseconds / 1e6, self._file.read(captured)

    @staticmethod
    def _add(traffic, when, frame):
        if frame[12:14] == b"\x86\xdd":
            source, udp = frame[22:38], 54
        else:
            source, udp = frame[26:30], 14 + (frame[14] & 15) * 4
        port, _, length = struct.unpack_from(">HHH", frame, udp)
        opcode, flags = frame[udp + 8], frame[udp + 9]
        if opcode not in RC_HEADERS:
            return
        queue_pair, sequence = (int.from_bytes(frame[start:start + 3], "big") for start in (udp + 13, udp + 17))
        payload = length - 8 - TRANSPORT_HEADER - RC_HEADERS[opcode] - (flags >> 4 & 3) - CHECKSUM
        traffic[str(ipaddress.ip_address(source)), queue_pair].add(when, port, opcode, sequence, payload)


def listens(port):
    with open("/proc/net/tcp", encoding="ascii") as v4, open("/proc/net/tcp6", encoding="ascii") as v6:
        return any(f":{port:04X} " in line and " 0A " in line for line in [*v4, *v6])


def run_pair(server, client, port, environment):
    """Told of both; the server is up when it listens on a TCP port. No server: nothing told of it."""
    merged = {**os.environ, **environment}
    if not server:
        done = subprocess.run(client, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=merged, timeout=TOOL_TIMEOUT_S, check=False)
        return Told(done.returncode, ""), Told(done.returncode, done.stdout + done.stderr)
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


def run_recorded(server, client, port, plan=()):
    """A pair under the library with an agent, and what agent and wire saw."""
    recorder = Recorder(plan)
    try:
        wire = Capture(CLIENT_INTERFACE)
        told = run_pair(server, client, port, recorder.environment())
        traffic = wire.stop()
    finally:
        report = recorder.stop()
    return Pair(*told, report, traffic)


def shape(output):
    """What stays the same from run to run: the words, without numbers, and with runs of blanks as one."""
    lines = (re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+|\b[0-9a-f]*[0-9][0-9a-f.]*(?=\b|[a-z:])", "N", line)).strip() for line in output.splitlines())
    return [line for line in lines if line]


def qp_flows(report, local):
    """The queue pairs of the process at one address, without those that lead to itself."""
    return [flow for flow in report["flows"] if flow["protocol"] == "udp" and flow["local"] == local != flow["remote"]]


def total(flows, counter):
    """Of a counter over flows; `tx_bytes` and the like are the flow's, all others the queue pair's."""
    return sum(flow[counter] if counter in flow else (flow["qp"] or {}).get(counter, 0) for flow in flows)
