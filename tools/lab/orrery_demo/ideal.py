"""The shortest time a collective can take: its bytes over the line rate, headers counted in.

A host's link must carry `factor(n) * S` payload bytes. Each full frame carries MTU - 52 of them (IPv4 20, TCP 20, timestamps 12) and
takes MTU + 14 bytes of the line (Ethernet), as the queue of a port counts them. Acknowledgements of the other direction, connection
set-up and the steps' latencies are left out: nothing real is faster, but for the two packets a port may send at once after a pause.
"""

TCP_IP_HEADER_BYTES = 52
ETHERNET_HEADER_BYTES = 14
ROCE_HEADER_BYTES = 58  # Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4; the first packet of a write has 16 more (RETH)
RETH_BYTES = 16

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


def wire_overhead(mtu_bytes, transport="tcp"):
    """Bytes on the line per payload byte."""
    if transport == "roce":
        return (roce_payload(mtu_bytes) + ROCE_HEADER_BYTES) / roce_payload(mtu_bytes)
    return (mtu_bytes + ETHERNET_HEADER_BYTES) / (mtu_bytes - TCP_IP_HEADER_BYTES)


def roce_payload(mtu_bytes):
    """Of a full RoCEv2 packet: the largest power of two from 256 to 4096 that fits."""
    return max(p for p in (256, 512, 1024, 2048, 4096) if p == 256 or p + ROCE_HEADER_BYTES - ETHERNET_HEADER_BYTES + RETH_BYTES <= mtu_bytes)


def ideal_ms(collective, ranks, message_bytes, rate_bps, mtu_bytes, transport="tcp"):
    return FACTORS[collective](ranks) * message_bytes * wire_overhead(mtu_bytes, transport) * 8e3 / rate_bps


def explain(collective, ranks, message_bytes, rate_bps, mtu_bytes, transport="tcp"):
    if transport == "roce":
        payload = roce_payload(mtu_bytes)
        headers = f"{payload + ROCE_HEADER_BYTES} / {payload} = {wire_overhead(mtu_bytes, transport):.4f} for RoCEv2 headers at {payload} bytes a packet"
    else:
        headers = f"(MTU + 14) / (MTU - 52) = {wire_overhead(mtu_bytes):.4f} for headers at MTU {mtu_bytes}"
    return f"{FORMULA[collective]} over the line rate, with n = {ranks}, S = {message_bytes} bytes, {rate_bps / 1e6:g} Mbit/s and {headers}"
