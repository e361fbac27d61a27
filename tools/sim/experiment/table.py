"""The results as people read them."""

from .readings import PUBLISHED


def grid(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def render(reading, document):
    rows = [["scheme", "mean ms", "P99 ms", "worst ms", "x ideal", "busiest link", "spread", "drops", "resent", "published: mean", "P99", "link", "drops"]]
    ideal = document.get("ideal_ms")
    if ideal:
        rows.append(["ideal", f"{ideal:.2f}", "", "", "1.000"] + [""] * 8)
    for s in document["schemes"]:
        published = PUBLISHED.get(s["scheme"])
        theirs = [f"{published[0]:.0f}", f"{published[1]:.0f}", f"{published[2]:.0%}", str(published[3])] if published else [""] * 4
        rows.append([s["scheme"], f"{s['mean_ms']:.2f}", f"{s['p99_ms']:.2f}", f"{s['worst_ms']:.2f}", f"{s['slowdown']:.3f}" if s["slowdown"] else "-",
                     f"{s['max_core_utilisation']:.0%}", f"{s['core_spread']:.2f}", str(s["drops"]), str(s["retransmits"])] + theirs)
    runs = document["schemes"][0]
    head = f"{reading.name}: {reading.words}\n  cannot be faster than {reading.bound_ms():.2f} ms; {runs['iterations']} iterations of each scheme\n"
    unfinished = sum(s["unfinished"] for s in document["schemes"])
    return head + grid(rows) + (f"\nWARNING: {unfinished} iterations did not end and are in no figure" if unfinished else "") + ratio(document) + "\n"


def ratio(document):
    by_name = {s["scheme"]: s for s in document["schemes"]}
    if not {"ecmp", "orrery"} <= by_name.keys() or not by_name["orrery"]["mean_ms"]:
        return ""
    ecmp, orrery = by_name["ecmp"], by_name["orrery"]
    published = PUBLISHED["ecmp"][0] / PUBLISHED["orrery"][0], PUBLISHED["ecmp"][1] / PUBLISHED["orrery"][1]
    return (f"\nECMP / Orrery: mean {ecmp['mean_ms'] / orrery['mean_ms']:.2f} (published {published[0]:.2f}), "
            f"P99 {ecmp['p99_ms'] / orrery['p99_ms']:.2f} (published {published[1]:.2f})")
