"""Charts of the report: distribution of iteration times, seeds side by side, the plan on a time line."""

from . import svg
from .options import TITLES

WIDTH = 760.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 26.0, 16.0, 42.0


def cdf(results):
    """Share of iterations that took at most so long, one line per scheme, the ideal as a dashed line."""
    height = 320.0
    runs = {s: sorted(t for seed in run["per_seed"] for t in seed["times_ms"]) for s, run in results["runs"].items()}
    longest = max(times[-1] for times in runs.values() if times)
    marks = svg.ticks(longest * 1.02)
    plot_w, plot_h = WIDTH - LEFT - RIGHT, height - TOP - BOTTOM

    def x(ms):
        return LEFT + plot_w * ms / marks[-1]

    def y(share):
        return TOP + plot_h * (1 - share)

    parts = [svg.line(LEFT, y(s), WIDTH - RIGHT, y(s), "grid") for s in (0, 0.25, 0.5, 0.75, 1)]
    parts += [svg.text(LEFT - 8, y(s) + 4, f"{s:.0%}", "axis", "end") for s in (0, 0.25, 0.5, 0.75, 1)]
    parts += [svg.text(x(m), height - BOTTOM + 18, f"{m:g}", "axis", "middle") for m in marks]
    parts.append(svg.text(LEFT + plot_w / 2, height - 6, "iteration time, milliseconds", "axis", "middle"))
    if results["ideal_ms"]:
        parts.append(svg.line(x(results["ideal_ms"]), TOP, x(results["ideal_ms"]), TOP + plot_h, "ideal", f"ideal {results['ideal_ms']:.0f} ms"))
    for scheme, times in runs.items():
        path = "".join(f"L{x(t):.1f} {y(i / len(times)):.1f}V{y((i + 1) / len(times)):.1f}" for i, t in enumerate(times))
        parts.append(svg.element("path", {"d": f"M{x(0):.1f} {y(0):.1f}" + path + f"H{x(marks[-1]):.1f}", "class_": f"curve {scheme}"},
                                 svg.element("title", None, f"{TITLES[scheme]}: half of the iterations took at most {times[len(times) // 2]:.0f} ms")))
    return svg.figure(WIDTH, height, *parts, label="Distribution of iteration times")


def seeds(results):
    """Every seed's iterations as dots, in a row per seed and scheme: nothing is hidden in an average."""
    runs = results["runs"]
    labels = [s["seed"] for s in next(iter(runs.values()))["per_seed"]]
    row, gap = 15.0, 12.0
    height = TOP + len(labels) * (row * len(runs) + gap) + BOTTOM - gap
    marks = svg.ticks(max(t for run in runs.values() for s in run["per_seed"] for t in s["times_ms"]) * 1.02)
    left = LEFT + 30
    plot_w = WIDTH - left - RIGHT

    def x(ms):
        return left + plot_w * ms / marks[-1]

    parts = []
    for mark in marks:
        parts += [svg.line(x(mark), TOP - 6, x(mark), height - BOTTOM + 4, "grid"), svg.text(x(mark), height - BOTTOM + 20, f"{mark:g}", "axis", "middle")]
    parts.append(svg.text(left + plot_w / 2, height - 4, "iteration time, milliseconds", "axis", "middle"))
    for index, seed in enumerate(labels):
        top = TOP + index * (row * len(runs) + gap)
        parts.append(svg.text(left - 12, top + row * len(runs) / 2 + 4, f"seed {seed}", "axis", "end"))
        for line, (scheme, run) in enumerate(runs.items()):
            if index >= len(run["per_seed"]):
                continue
            y = top + row * line + row / 2
            for time in run["per_seed"][index]["times_ms"]:
                parts.append(svg.element("circle", {"cx": x(time), "cy": y, "r": 3.6, "class_": f"dot {scheme}"},
                                         svg.element("title", None, f"{TITLES[scheme]}, seed {seed}: {time:.0f} ms")))
    if results["ideal_ms"]:
        parts.append(svg.line(x(results["ideal_ms"]), TOP - 6, x(results["ideal_ms"]), height - BOTTOM + 4, "ideal"))
    return svg.figure(WIDTH, height, *parts, label="Iteration times of every seed")


def plan(results):
    """The planned flows of one round: when each is released, how long its bytes take, which spine it crosses."""
    document = results["fabric"]
    flows = _flows(results)
    if not flows:
        return None
    spines = sorted({f["via"] for f in flows if f["via"]})
    staggered = any(f["offset_us"] for f in flows)
    row, top, name_w, offset_w = 17.0, 30.0, 128.0, 150.0
    left = name_w + offset_w + 24 if staggered else name_w
    height = top + row * len(flows) + 34
    rate = min(p["rate_bps"] for h in document["hosts"] for p in h["nics"])
    ends = svg.ticks(max(f["bytes"] * 8e3 / rate for f in flows))
    offsets = svg.ticks(max(f["offset_us"] for f in flows) or 1, 3)
    plot_w = WIDTH - left - RIGHT
    parts = [svg.text(left, top - 14, "the round's bytes at line rate, ms" if staggered else
                      "the round's bytes at line rate, ms; all are released together", "axis")]
    if staggered:
        parts.append(svg.text(name_w, top - 14, "release offset, µs", "axis"))
    for mark in offsets if staggered else []:
        at = name_w + offset_w * mark / offsets[-1]
        parts += [svg.line(at, top - 6, at, height - 28, "grid"), svg.text(at, height - 12, f"{mark:g}", "axis", "middle")]
    for mark in ends:
        at = left + plot_w * mark / ends[-1]
        parts += [svg.line(at, top - 6, at, height - 28, "grid"), svg.text(at, height - 12, f"{mark:g}", "axis", "middle")]
    for index, flow in enumerate(flows):
        y = top + row * index
        kind = f"via v{spines.index(flow['via']) % 6}" if flow["via"] else "via local"
        title = f"{flow['name']}: {flow['bytes'] / 2**20:.2f} MiB a round, released {flow['offset_us']:.0f} µs after the start, by {' → '.join(flow['path'])}"
        parts.append(svg.text(name_w - 12, y + 12, flow["name"], "axis", "end"))
        if staggered:
            parts.append(svg.element("circle", {"cx": name_w + offset_w * flow["offset_us"] / offsets[-1], "cy": y + 8, "r": 3.6, "class_": kind},
                                     svg.element("title", None, title)))
        parts += [svg.rect(left, y + 2, max(2.0, plot_w * flow["bytes"] * 8e3 / rate / ends[-1]), row - 5, kind, title),
                  svg.text(left + 8, y + 12.5, flow["via"] or "under one leaf", "inside")]
    return svg.figure(WIDTH, height, *parts, label="The plan of one round")


def _flows(results):
    """Planned flows by source, those that carry bytes; `via`: the highest switch of the path."""
    tiers = {s["name"]: s["tier"] for s in results["fabric"]["switches"]}
    order = {h["name"]: i for i, h in enumerate(results["fabric"]["hosts"])}
    flows = []
    for flow in (results.get("plan") or {}).get("flows", []):
        if not flow.get("bytes_per_round"):
            continue
        switches = [port.partition(":")[0] for port in flow["path"] if port.partition(":")[0] in tiers]
        highest = max(switches, key=lambda name: tiers[name], default="")
        flows.append({"name": f"{flow['src_host']} → {flow['dst_host']}", "bytes": flow["bytes_per_round"], "path": flow["path"],
                      "offset_us": flow.get("release_offset_ns", 0) / 1e3, "via": highest if tiers.get(highest, 0) > 1 else "",
                      "order": (order.get(flow["src_host"], 0), order.get(flow["dst_host"], 0))})
    return sorted(flows, key=lambda f: f["order"])[:64]
