"""What crosses an interface as RoCEv2: a capture of RDMA writes and their parts, without retransmissions."""
import socket
import struct
import threading
from dataclasses import dataclass

ROCE_PORT = 4791
# Opcodes of reliable connections that carry RDMA writes: (ends a message, has an address header, has an immediate value)
WRITES = {6: (False, True, False), 7: (False, False, False), 8: (True, False, False), 9: (True, False, True),
          10: (True, True, False), 11: (True, True, True)}
ADDRESS_BYTES, IMMEDIATE_BYTES, CHECKSUM_BYTES = 16, 4, 4


@dataclass
class Write:
    """One RDMA write message."""
    source: str
    queue_pair: int  # at the destination
    traffic_class: int
    payload: int = 0
    immediate: int | None = None


def parse(packet):
    """(source, destination queue pair, sequence number, opcode, traffic class, payload bytes, immediate) or None."""
    if len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != socket.IPPROTO_UDP:
        return None
    udp = 14 + (packet[14] & 15) * 4
    port, length = struct.unpack_from("!HH", packet, udp + 2)
    if port != ROCE_PORT:
        return None
    base = udp + 8
    opcode, padding = packet[base], packet[base + 1] >> 4 & 3
    if opcode not in WRITES:
        return None
    _, has_address, has_immediate = WRITES[opcode]
    extension = base + 12 + (ADDRESS_BYTES if has_address else 0)
    # In the byte order of the sender's memory, which is this machine's.
    immediate = struct.unpack_from("=I", packet, extension)[0] if has_immediate else None
    headers = 8 + extension - base + (IMMEDIATE_BYTES if has_immediate else 0)
    return (socket.inet_ntoa(packet[26:30]), int.from_bytes(packet[base + 5:base + 8], "big"),
            int.from_bytes(packet[base + 9:base + 12], "big"), opcode, packet[15],
            length - headers - padding - CHECKSUM_BYTES, immediate)


class Capture:
    """Used as a context; `writes` afterwards, in order of their last packets."""

    def __init__(self, interface):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.socket.bind((interface, 0))
        self.socket.settimeout(0.2)
        self.packets = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._read)

    def _read(self):
        while True:
            try:
                self.packets.append(self.socket.recv(128))
            except TimeoutError:
                if self.done.is_set():
                    return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.socket.close()

    @property
    def writes(self):
        finished, seen, open_writes = [], set(), {}
        for packet in self.packets:
            parsed = parse(packet)
            if not parsed or (parsed[0], parsed[1], parsed[2]) in seen:
                continue
            source, queue_pair, sequence, opcode, traffic_class, payload, immediate = parsed
            seen.add((source, queue_pair, sequence))
            ends, begins, _ = WRITES[opcode]
            write = Write(source, queue_pair, traffic_class) if begins else open_writes[source, queue_pair]
            open_writes[source, queue_pair] = write
            write.payload += payload
            if ends:
                write.immediate = immediate
                finished.append(write)
        return finished
