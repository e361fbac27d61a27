"""The results as people read them."""

from .readings import PUBLISHED


def grid(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def schemes(document):
    """Rows, the first the head: a scheme each, below the ideal."""
    rows = [["scheme", "mean ms", "P99 ms", "worst ms", "it/s", "x ideal", "busiest link", "spread", "drops", "resent"]]
    if document["ideal_ms"]:
        rows.append(["ideal", f"{document['ideal_ms']:.3f}", "", "", f"{document['ideal_per_s']:.2f}", "1.000"] + [""] * 4)
    for s in document["schemes"]:
        rows.append([s["scheme"], f"{s['mean_ms']:.3f}", f"{s['p99_ms']:.3f}", f"{s['worst_ms']:.3f}", f"{s['iterations_per_s']:.2f}", f"{s['slowdown']:.3f}" if s["slowdown"] else "-",
                     f"{s['max_core_utilisation']:.0%}", f"{s['core_spread']:.2f}", str(s["drops"]), str(s["retransmits"])])
    return rows


def reading(reading, document, size):
    """Heading, notes and rows, with the published figures at their right."""
    rows = schemes(document)
    rows[0] += ["published: mean", "P99", "link", "drops", "it/s"]
    for row in rows[1:]:
        theirs = PUBLISHED.get(row[0])
        row += [f"{theirs[0]:.0f}", f"{theirs[1]:.0f}", f"{theirs[2]:.0%}", str(theirs[3]), str(theirs[4])] if theirs else [""] * 5
    notes = [f"cannot be faster than {reading.bound_ms(size):.2f} ms; {document['schemes'][0]['iterations']} iterations of each scheme"]
    unfinished = sum(s["unfinished"] for s in document["schemes"])
    if unfinished:
        notes.append(f"WARNING: {unfinished} iterations did not end and are in no figure")
    return f"{reading.name}: {reading.words}", notes + ratio(document), rows


def ratio(document):
    by_name = {s["scheme"]: s for s in document["schemes"]}
    if not {"ecmp", "orrery"} <= by_name.keys() or not by_name["orrery"]["mean_ms"]:
        return []
    ecmp, orrery = by_name["ecmp"], by_name["orrery"]
    published = PUBLISHED["ecmp"][0] / PUBLISHED["orrery"][0], PUBLISHED["ecmp"][1] / PUBLISHED["orrery"][1]
    return [f"ECMP / Orrery: mean {ecmp['mean_ms'] / orrery['mean_ms']:.2f} (published {published[0]:.2f}), P99 {ecmp['p99_ms'] / orrery['p99_ms']:.2f} (published {published[1]:.2f})"]
