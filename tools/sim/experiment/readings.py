"""What was published, what the publication leaves open, and what arithmetic says of both."""

from dataclasses import dataclass

RANKS, BYTES, NIC_BPS, QUEUE_BYTES = 16, 125_000_000, 100 * 10**9, 200_000

# mean and P99 of an iteration in ms, use of the busiest link, packets dropped, iterations a second
PUBLISHED = {"ecmp": (21.0, 87.0, 0.61, 2130, 3.1), "orrery": (13.0, 18.0, 0.94, 0, 5.2)}


@dataclass(frozen=True)
class Reading:
    name: str
    words: str
    placement: str = "fragmented"
    collective: str = "all-reduce"
    algorithm: str = "ring"
    nic_bps: int = NIC_BPS
    uplink_bps: int = 100 * 10**9

    def bound_ms(self):
        """No schedule is faster: what one NIC must send, or what must cross from one leaf to the other."""
        share = (RANKS - 1) / RANKS * (2 if self.collective == "all-reduce" else 1)
        nic = BYTES * share * 8 / self.nic_bps * 1e3
        if self.placement != "fragmented" or self.algorithm != "ring":
            return nic
        # Every hop of the ring crosses: the eight ranks of a leaf send everything over its four uplinks.
        crossing = BYTES * share * 8 * (RANKS / 2) / (4 * self.uplink_bps) * 1e3
        return max(nic, crossing)


READINGS = (
    Reading("fragmented-400", "ranks alternate between the leaves, uplinks of 400 Gb/s: nothing but hashing can block", uplink_bps=400 * 10**9),
    Reading("fragmented-100", "ranks alternate between the leaves, uplinks of 100 Gb/s: two flows per uplink at best"),
    Reading("random-100", "ranks anywhere, uplinks of 100 Gb/s", placement="random"),
    Reading("contiguous-100", "all ranks on one leaf: no path to choose", placement="contiguous"),
    Reading("halving-400", "halving-doubling in place of the ring, uplinks of 400 Gb/s", algorithm="halving_doubling", uplink_bps=400 * 10**9),
    Reading("reduce-scatter-100", "the bytes move once (a reduce-scatter, half of an all-reduce), random placement, uplinks of 100 Gb/s", placement="random",
            collective="reduce-scatter"),
    Reading("two-nics-400", "hosts with two 100 Gb/s NICs used as one, uplinks of 400 Gb/s", nic_bps=200 * 10**9, uplink_bps=400 * 10**9),
)


def verdicts():
    """What of the publication cannot hold, a sentence a line."""
    least = 2 * (RANKS - 1) / RANKS * BYTES * 8 / NIC_BPS * 1e3
    ecmp, planned = PUBLISHED["ecmp"], PUBLISHED["orrery"]
    gap = 1e3 / ecmp[4] - 1e3 / planned[4]
    count = gap / (ecmp[0] - planned[0])
    return [
        f"An all-reduce of {BYTES / 1e6:.0f} MB over {RANKS} ranks moves 2*{RANKS - 1}/{RANKS}*{BYTES / 1e6:.0f} MB out of every host: {least:.2f} ms at {NIC_BPS / 1e9:.0f} Gb/s, "
        f"headers aside. The published planned mean of {planned[0]:.0f} ms and P99 of {planned[1]:.0f} ms are below that: they cannot hold for such an all-reduce over one such NIC.",
        f"A mean of {planned[0]:.0f} ms fits the bytes moved once ({least / 2:.2f} ms at least: a reduce-scatter or an all-gather), or two NICs per host ({least / 2:.2f} ms). "
        "No placement and no algorithm that reduces in hosts does it over one NIC: what a host must send does not depend on them.",
        f"{ecmp[4]} and {planned[4]} iterations a second differ by {gap:.0f} ms an iteration, {count:.0f} times the {ecmp[0] - planned[0]:.0f} ms that one all-reduce gained; but {count:.0f} of "
        f"{planned[0]:.0f} ms are {count * planned[0]:.0f} ms, more than the {1e3 / planned[4]:.0f} ms of a planned iteration. No number of all-reduces per iteration gives both means.",
        f"{planned[2]:.0%} of a link cannot be its use over an iteration of {1e3 / planned[4]:.0f} ms in which it is busy for {planned[0]:.0f}: it must be the use while the collective runs.",
    ]
