"""The results document (--json): stable names, all seeds pooled, every seed beside it. The table and the report are made from it alone."""

from . import statistics
from .options import SCHEMES

SCHEMA = 1


def build(options, topology, workload, runs, machine, verdict, live_move=None):
    ideal, ideal_text = workload.ideal(topology)
    spine = topology.fabric_ports()
    schemes = [s for s in SCHEMES if any(r.scheme == s for r in runs)]
    summary = {s: _scheme([r for r in runs if r.scheme == s], spine) for s in schemes}
    document = {"schema": SCHEMA, "ideal_ms": ideal, "runs": summary, "ratios": _ratios(summary, ideal),
                "spread": {s: summary[s]["spine_spread"] for s in schemes},
                "ideal_formula": ideal_text, "options": options.as_document(), "machine": dict(machine, **_cpu(runs, verdict)),
                "fabric": topology.document, "spine_links": spine, "plan": _plan(runs)}
    if live_move:
        document["live_move"] = live_move
    return document


def _scheme(runs, spine):
    pooled = [t for r in runs for t in r.outcome.times_ms]
    loads = [launch.utilization[p] for r in runs for launch in r.each_launch for p in spine]
    return {**statistics.times(pooled), "max_link_utilization": max(loads, default=0.0), "mean_link_utilization": statistics.mean(loads),
            "drops": sum(r.drops for r in runs), "retransmits": sum(r.retransmits for r in runs), "plan_hit_rate": _hit_rate(runs),
            "verified": all(r.outcome.verified for r in runs), "spine_spread": max(_spread(r, spine) for r in runs),
            "per_seed": [_seed(r, spine) for r in runs]}


def _seed(run, spine):
    loads = [launch.utilization[p] for launch in run.each_launch for p in spine]
    document = {"seed": run.seed, **statistics.times(run.outcome.times_ms), "max_link_utilization": max(loads, default=0.0),
                "mean_link_utilization": statistics.mean(loads), "drops": run.drops, "retransmits": run.retransmits,
                "plan_hit_rate": _hit_rate([run]), "verified": run.outcome.verified, "spine_spread": _spread(run, spine),
                "cpu_max": run.cpu_max, "launch_means_ms": [round(statistics.mean(launch.outcome.times_ms), 3) for launch in run.each_launch],
                "times_ms": [round(t, 3) for t in run.outcome.times_ms],
                "link_utilization": {p: round(u, 4) for p, u in run.slowest_launch.utilization.items()}}
    if all(launch.outcome.connections for launch in run.each_launch):
        document["connections"] = [launch.outcome.connections for launch in run.each_launch]
    if run.outcome.losses:
        document["losses"] = run.outcome.losses
    return document


def _spread(run, spine):
    """Of the launch where it is worst."""
    return max(statistics.spread([launch.sent_bytes[p] for p in spine]) for launch in run.each_launch)


def _hit_rate(runs):
    """None where no plan was there to be hit."""
    hits, misses = sum(r.plan_hits for r in runs), sum(r.plan_misses for r in runs)
    return statistics.ratio(hits, hits + misses)


def _ratios(summary, ideal):
    ratios = {}
    orrery = summary.get("orrery")
    if not orrery:
        return ratios
    for scheme, suffix in (("ecmp", ""), ("ecmp_multi", "_multi")):
        if scheme in summary:
            ratios["mean" + suffix] = statistics.ratio(summary[scheme]["mean_ms"], orrery["mean_ms"])
            ratios["p99" + suffix] = statistics.ratio(summary[scheme]["p99_ms"], orrery["p99_ms"])
            ratios["drops" + suffix] = statistics.ratio(orrery["drops"] + orrery["retransmits"], summary[scheme]["drops"] + summary[scheme]["retransmits"])
    if ideal:
        ratios["orrery_mean_to_ideal"] = orrery["mean_ms"] / ideal
    ratios["orrery_p99_to_mean"] = statistics.ratio(orrery["p99_ms"], orrery["mean_ms"])
    return ratios


def _cpu(runs, verdict):
    busiest = max((r.cpu_max for r in runs), default=0.0)
    document = {"cpu_busy_max": busiest, "cpu_busy_mean": statistics.mean([r.cpu_mean for r in runs]),
                "cpu_busy_worst_run": max((launch.cpu_mean for r in runs for launch in r.each_launch), default=0.0)}
    if verdict:
        document["links_sustained"] = verdict.sustained
        document["links_check"] = verdict.sentence()
    return document


def _plan(runs):
    """The plan of the first seed that has one, as orreryctl showed it during the run."""
    return next((r.plan for r in runs if r.plan), None)
