"""Many jobs on a production-shaped fabric with oversubscribed leaves: what sharing costs each, and what planning takes off."""

import json
import os
import statistics
import subprocess

from orrery_lab.errors import LabError

from .quality import Aim

NIC_BPS = 400 * 10**9
# Hosts of each job: nine tenths of the 847 of the published cluster.
SIZES = (192, 128, 96, 64, 64, 48, 32, 32, 32, 16, 16, 16, 16, 8, 8, 8, 8)
HORIZON_MS = 400  # of the ideal run: every job trains for about this long
RING_STEPS = 8


def jobs(sizes):
    """Data-parallel training: compute, then reduce; both differ from job to job, as do their periods."""
    made = []
    for i, hosts in enumerate(sizes):
        size = 60_000_000 + 20_000_000 * (i * 7 % 8)
        communication_ms = 2 * (hosts - 1) / hosts * size * 8 / NIC_BPS * 1e3
        compute_ms = communication_ms * (2 + i * 5 % 3)
        made.append({"name": f"job{i + 1}", "hosts": hosts, "max_steps": RING_STEPS, "jitter": 0.02, "start_us": 1000 * (i * 3 % 17),
                     "iterations": max(3, round(HORIZON_MS / (compute_ms + communication_ms))),
                     "steps": [{"compute_us": round(compute_ms * 1e3), "op": "all_reduce", "bytes": size}]})
    return made


def scenario(topology, sizes, placement, seed, schemes):
    return json.dumps({"topology": topology, "placement": {"kind": placement, "seed": seed}, "schemes": list(schemes) if schemes else "all", "seeds": [seed],
                       "jobs": jobs(sizes), "engine": {"kind": "fluid", "for_rate_bps": NIC_BPS}})


def inflations(document):
    """By scheme: how much longer than on a fabric that never blocks each job's step took, as a share."""
    ideal = [statistics.fmean(times) for times in document["ideal_job_times_ms"]]
    found = {}
    for scheme in document["schemes"]:
        found[scheme["scheme"]] = [statistics.fmean(times) / best - 1 for run in scheme["per_seed"] for times, best in zip(run["job_times_ms"], ideal) if times]
    return found


def summary(by_scheme):
    """Rows for people: ECMP on the same placement is placement alone."""
    rows = [["scheme", "median inflation", "mean", "worst job", "cut of the median", "median step beside ECMP"]]
    alone = by_scheme.get("ecmp")
    for name, values in by_scheme.items():
        median = statistics.median(values)
        cut = steps = ""
        if alone:
            cut = f"{1 - median / statistics.median(alone):.1%}" if statistics.median(alone) > 0 else "-"
            steps = f"{statistics.median((1 + mine) / (1 + theirs) for mine, theirs in zip(values, alone)):.3f}"
        rows.append([name, f"{median:.1%}", f"{statistics.fmean(values):.1%}", f"{max(values):.1%}", cut, steps])
    return rows


def median_cut(by_scheme, scheme):
    """0.1: a tenth of what sharing costs the median job is gone. Nothing where nothing was lost."""
    alone = statistics.median(by_scheme["ecmp"])
    return 1 - statistics.median(by_scheme[scheme]) / alone if alone > 0 else None


def verdict(by_scheme):
    """The aim: a tenth less of what sharing costs, at the median, than by placement alone."""
    if not {"ecmp", "orrery"} <= by_scheme.keys():
        return []
    cut = median_cut(by_scheme, "orrery")
    if cut is None:
        return ["nothing is lost on this placement"]
    return [Aim("share of the median step-time inflation that Orrery takes off placement alone (ECMP)", cut, 0.1, at_least=True).sentence()]


def imported(orreryctl, source, folder):
    """The topology file of a list of hosts (CSV), or the file itself."""
    if not source.endswith(".csv"):
        return {"file": os.path.abspath(source)}
    target = os.path.join(folder, "mixed-topology.yaml")
    done = subprocess.run([orreryctl, "topology", "import", source, "--nic-rate", "400G", "--oversubscription", "4:1", "--output", target], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise LabError(f"{source} could not be imported", done.stderr.strip())
    return {"file": os.path.abspath(target)}


def run(simulator, topology, sizes, placement, options):
    """Inflations by scheme, of all jobs and seeds; each seed places anew."""
    found = {}
    seeds = options.seeds or 5
    simulator.plan(seeds * 0.2)
    for seed in range(1, seeds + 1):
        name = f"mixed-{placement}-{seed}"
        with open(simulator.path(name + ".yaml"), "w", encoding="utf-8") as out:
            out.write(scenario(topology, sizes, placement, seed, options.scheme))
        document = simulator.study(name, f"mixed jobs placed {placement}, seed {seed} of {seeds}", [simulator.path(name + ".yaml")], 0.2)
        for scheme, values in inflations(document).items():
            found.setdefault(scheme, []).extend(values)
    return found
