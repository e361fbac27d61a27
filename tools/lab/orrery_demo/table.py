"""The results as a table for people."""

from .options import TITLES
from orrery_lab.machine import BUSY_LIMIT

RETRANSMITS = {"tcp": "TCP retransmits", "roce": "RDMA repeats"}
ROWS = (
    ("iteration mean", "mean_ms", "{:.0f} ms"), ("iteration P50", "p50_ms", "{:.0f} ms"), ("iteration P99", "p99_ms", "{:.0f} ms"),
    ("iteration max", "max_ms", "{:.0f} ms"), ("iterations per second", "iterations_per_s", "{:.2f}"),
    ("busiest spine link", "max_link_utilization", "{:.0%}"), ("mean spine link", "mean_link_utilization", "{:.0%}"),
    ("spread of spine links", "spine_spread", "{:.0%}"), ("packets dropped", "drops", "{:d}"), ("", "retransmits", "{:d}"),
    ("plan hit rate", "plan_hit_rate", "{:.1%}"), ("data verified", "verified", "{}"),
)


def render(results):
    """The whole text: figures, ratios, seeds, machine."""
    sections = [_figures(results), _ratios(results), live_move(results), _seeds(results), "\n".join(notes(results))]
    return "\n\n".join(s for s in sections if s)


def transport(results):
    return results["options"].get("transport", "tcp")


def rows(results):
    """(title, key, form) of every line of the table."""
    return [(title or RETRANSMITS[transport(results)], key, form) for title, key, form in ROWS]


def cell(value, form):
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return form.format(value)


def grid(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join([row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _figures(results):
    runs, ideal = results["runs"], results["ideal_ms"]
    lines = [[""] + [TITLES[s] for s in runs] + (["ideal"] if ideal else [])]
    for title, key, form in rows(results):
        lines.append([title] + [cell(run[key], form) for run in runs.values()] + ([ideal_cell(key, ideal)] if ideal else []))
    return grid(lines)


def ideal_cell(key, ideal):
    if key.endswith("_ms"):
        return f"{ideal:.0f} ms"
    return f"{1000 / ideal:.2f}" if key == "iterations_per_s" else ""


def _ratios(results):
    r = results["ratios"]
    sentences = []
    for suffix, other in (("", "ECMP"), ("_multi", "ECMP with 4 connections per peer")):
        if r.get("mean" + suffix):
            sentence = f"{other} takes {r['mean' + suffix]:.2f} times as long as Orrery on average, {r['p99' + suffix]:.2f} times at P99"
            if r["drops" + suffix] is not None:
                sentence += f"; Orrery has {r['drops' + suffix]:.3f} times its drops and retransmits"
            sentences.append(sentence + ".")
    if "orrery_mean_to_ideal" in r:
        sentences.append(f"Orrery's mean is {r['orrery_mean_to_ideal']:.3f} times the ideal; its P99 {r['orrery_p99_to_mean']:.3f} times its mean.")
    return "\n".join(sentences)


def live_move(results):
    move = results.get("live_move")
    if not move:
        return ""
    if move["problem"]:
        return f"Live move: {move['problem']}."
    before, after = (f"{sum(move[key]) / len(move[key]):.0f} ms" if move[key] else "-" for key in ("before_ms", "after_ms"))
    return (f"Live move: {move['failed_link']} failed under a running job. {move['rerouted_queue_pairs']} queue pairs got another path, "
            f"{move['moved_queue_pairs']} of them by another source port while they ran; {move['seconds_to_move']:.1f} s later all were seen there.\n"
            f"Iteration mean {before} before, {after} after on one link less; {move['deferred_sends']} sends deferred, {move['held_ms']:.1f} ms together; "
            f"data {'verified' if move['verified'] else 'WRONG'}.")


def _seeds(results):
    runs = results["runs"]
    seeds = [s["seed"] for s in next(iter(runs.values()))["per_seed"]]
    rows = [["hash seed"] + [TITLES[s] for s in runs]]
    for index, seed in enumerate(seeds):
        rows.append([str(seed)] + [_seed_cell(run["per_seed"], index) for run in runs.values()])
    return "mean / max iteration, drops + retransmits, by seed:\n" + grid(rows)


def _seed_cell(per_seed, index):
    if index >= len(per_seed):
        return "-"
    s = per_seed[index]
    return f"{s['mean_ms']:.0f} / {s['max_ms']:.0f} ms, {s['drops'] + s['retransmits']}"


def notes(results):
    """What must be known to read the figures, a sentence a line."""
    machine, options = results["machine"], results["options"]
    lines = []
    if results["ideal_ms"]:
        lines.append("ideal: " + results["ideal_formula"])
    if options["placement"] == "contiguous":
        lines.append("placement contiguous: consecutive ranks share a leaf, so a ring hardly crosses the spine and there is next to nothing to gain.")
    if options["workload"] == "torch":
        same = all(run["verified"] for run in results["runs"].values())
        lines.append("losses of every rank and step are bit-identical in all runs, with and without Orrery." if same else
                     "LOSSES DIFFER between runs: see per_seed[].losses in the --json file.")
        if options["driver"] == "entropy":
            lines.append("driver entropy: connections that no NCCL announces exist before they can be planned, and source ports cannot be changed then.")
    if transport(results) == "roce":
        lines.append("RoCEv2 packets of soft-RoCE devices in a virtual machine of software emulation, forwarded by orrery-switch; repeats: times a queue pair "
                     "went back and sent again what followed a lost packet.")
    if options["driver"] == "dry-run":
        lines.append("driver dry-run: plans were made and shown, none was applied; Orrery's column is ECMP once more.")
    lines.append(f"machine: {machine['processors']} processors ({machine['model']}), kernel {machine['kernel']}; "
                 f"busy {machine['cpu_busy_mean']:.0%} on average during the runs, {machine['cpu_busy_worst_run']:.0%} in the worst run, {machine['cpu_busy_max']:.0%} in the worst second.")
    if machine["cpu_busy_worst_run"] > BUSY_LIMIT:
        lines.append(f"WARNING: above {BUSY_LIMIT:.0%} over a run the processors, not the links, may have set the pace; use lower rates (rate_bps in a "
                     "topology file) or end what else runs on this machine.")
    if "links_check" in machine:
        lines.append(machine["links_check"])
    return lines
