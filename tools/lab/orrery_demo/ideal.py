"""The shortest time a collective can take: its bytes over the line rate, headers counted in.

A host's link must carry `factor(n) * S` payload bytes. Each full frame carries MTU - 52 of them (IPv4 20, TCP 20, timestamps 12) and
takes MTU + 14 bytes of the line (Ethernet), as the queue of a port counts them. Acknowledgements of the other direction, connection
set-up and the steps' latencies are left out: nothing real is faster, but for the two packets a port may send at once after a pause.
"""

TCP_IP_HEADER_BYTES = 52
ETHERNET_HEADER_BYTES = 14

FACTORS = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "reduce-scatter": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "send-recv": lambda n: 1.0,
}
FORMULA = {
    "all-reduce": "2(n-1)/n * S", "all-gather": "(n-1)/n * S", "reduce-scatter": "(n-1)/n * S", "all-to-all": "(n-1)/n * S",
    "broadcast": "S", "reduce": "S", "send-recv": "S",
}


def wire_overhead(mtu_bytes):
    """Bytes on the line per payload byte."""
    return (mtu_bytes + ETHERNET_HEADER_BYTES) / (mtu_bytes - TCP_IP_HEADER_BYTES)


def ideal_ms(collective, ranks, message_bytes, rate_bps, mtu_bytes):
    return FACTORS[collective](ranks) * message_bytes * wire_overhead(mtu_bytes) * 8e3 / rate_bps


def explain(collective, ranks, message_bytes, rate_bps, mtu_bytes):
    return (f"{FORMULA[collective]} over the line rate, with n = {ranks}, S = {message_bytes} bytes, {rate_bps / 1e6:g} Mbit/s and "
            f"(MTU + 14) / (MTU - 52) = {wire_overhead(mtu_bytes):.4f} for headers at MTU {mtu_bytes}")
