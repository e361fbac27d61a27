"""One TCP flow for calibrate.py. `receive PORT SECONDS` prints payload bytes and seconds, its first moments left out; `send ADDRESS PORT SECONDS`."""

import socket
import sys
import time

SETTLE_S = 0.4
CHUNK = 262144


def receive(port, seconds):
    server = socket.create_server(("", port))
    server.settimeout(seconds + 8)
    connection, _ = server.accept()
    buffer = bytearray(CHUNK)
    settled = time.monotonic() + SETTLE_S
    while time.monotonic() < settled:
        connection.recv_into(buffer)
    start, total = time.monotonic(), 0
    while time.monotonic() < start + seconds - SETTLE_S:
        total += connection.recv_into(buffer)
    print(total, time.monotonic() - start)


def send(address, port, seconds):
    connection = socket.create_connection((address, port), timeout=5)
    end, chunk = time.monotonic() + seconds, bytes(CHUNK)
    try:
        while time.monotonic() < end:
            connection.sendall(chunk)
    except OSError:
        pass  # the receiver has measured enough


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]), float(sys.argv[3]))
    else:
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
