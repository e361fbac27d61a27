"""One self-contained page from the results document: nothing is fetched, the same document always gives the same page."""

from . import report_charts, report_fabric, table
from .options import TITLES
from .report_style import SCRIPT, STYLE
from .svg import Markup, element, join

HEAT_KEY = ((0, "idle"), (2, "half"), (4, "even share"), (6, "1.6 ×"), (8, "2.5 × and more"))


def render(results):
    title = f"Orrery: {_workload(results)}"
    body = element("main", None, _head(results), _tiles(results), _figures(results), _distribution(results), _fabric(results), _plan(results),
                   _live_move(results), _seeds(results), _method(results))
    return ("<!doctype html>\n" + element(
        "html", {"lang": "en"},
        element("head", None, Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
                element("title", None, title), element("style", None, Markup(STYLE))),
        element("body", None, body, element("script", None, Markup(SCRIPT)))) + "\n")


def _workload(results):
    o = results["options"]
    hosts = len(results["fabric"]["hosts"])
    if o["workload"] == "torch":
        return f"PyTorch DistributedDataParallel on {hosts} hosts"
    size = f"{o['bytes'] / 2**20:g} MiB" if o["bytes"] >= 1 << 20 else f"{o['bytes'] / 1024:g} KiB"
    return f"{o['collective']} of {size} on {hosts} hosts"


def _head(results):
    o, fabric = results["options"], results["fabric"]
    rate = fabric["hosts"][0]["nics"][0]["rate_bps"] / 1e6
    lead = (f"The same unmodified program on the same fabric of {len(fabric['switches'])} switches and {len(fabric['hosts'])} hosts "
            f"({rate:g} Mbit/s links): packets routed by hash, and packets routed by plan.")
    if table.transport(results) == "roce":
        lead += " RDMA over RoCEv2, between soft-RoCE devices."
    small = f"Placement {o['placement']}, driver {o['driver']}; for each of {len(o['seeds'])} hash seeds {o['launches']} launches of {o['rounds']} timed iterations."
    return join([element("h1", None, _workload(results)), element("p", {"class_": "lead"}, lead), element("p", {"class_": "quiet"}, small)])


def _tiles(results):
    r, runs = results["ratios"], results["runs"]
    tiles = []
    if r.get("mean"):
        tiles += [(f"{r['mean']:.2f} ×", "faster iterations than ECMP, mean"), (f"{r['p99']:.2f} ×", "faster at P99")]
    if "orrery_mean_to_ideal" in r:
        tiles.append((f"{r['orrery_mean_to_ideal']:.3f} ×", "the ideal time, mean under Orrery"))
    if "ecmp" in runs and "orrery" in runs:
        lost = [runs[s]["drops"] + runs[s]["retransmits"] for s in ("ecmp", "orrery")]
        tiles.append((f"{lost[0]} → {lost[1]}", "drops and retransmits, ECMP → Orrery"))
    return element("div", {"class_": "tiles"}, *[element("div", {"class_": "tile"}, element("b", None, b), element("span", None, s)) for b, s in tiles])


def _section(title, quiet, *children):
    return element("section", None, element("h2", None, title), element("p", {"class_": "quiet"}, quiet), *children)


def _schemes_key(results):
    items = [element("span", None, element("i", {"class_": s}), TITLES[s]) for s in results["runs"]]
    if results["ideal_ms"]:
        items.append(element("span", None, f"dashed: the ideal, {results['ideal_ms']:.0f} ms"))
    return element("div", {"class_": "key"}, *items)


def _figures(results):
    runs, ideal = results["runs"], results["ideal_ms"]
    head = element("tr", None, element("th", None, ""), *[element("th", {"class_": s}, TITLES[s]) for s in runs], *([element("th", None, "ideal")] if ideal else []))
    rows = [element("tr", None, element("th", {"scope": "row"}, title), *[element("td", {"class_": s}, table.cell(run[key], form)) for s, run in runs.items()],
                    *([element("td", None, table.ideal_cell(key, ideal))] if ideal else [])) for title, key, form in table.rows(results)]
    grid = element("table", {"class_": "figures"}, element("thead", None, head), element("tbody", None, *rows))
    return _section("Figures", "All iterations of all seeds together. Every run's data was compared with the right answer.", element("div", {"class_": "scroll"}, grid))


def _distribution(results):
    return _section("How long an iteration takes", "Share of iterations that took at most so long. Further left is faster; steeper is steadier.",
                    _schemes_key(results), report_charts.cdf(results))


def _fabric(results):
    runs = results["runs"]
    seeds = [s["seed"] for s in next(iter(runs.values()))["per_seed"]]
    worst = max(range(len(seeds)), key=lambda i: max(next(iter(runs.values()))["per_seed"][i]["launch_means_ms"]))
    key = element("div", {"class_": "key"}, *[element("span", None, element("i", {"class_": f"box heat{i}"}), name) for i, name in HEAT_KEY])
    choices = element("div", {"class_": "choices"}, *[
        element("button", {"type": "button", "data_choice": i, "aria_pressed": "true" if i == worst else "false"}, f"seed {seed}") for i, seed in enumerate(seeds)])
    before_after = [s for s in ("ecmp", "orrery") if s in runs]
    parts = []
    for index in range(len(seeds)):
        drawings = [element("div", None, element("h3", None, f"{TITLES[s]}: {max(runs[s]['per_seed'][index]['launch_means_ms']):.0f} ms an iteration"), report_fabric.drawing(results, s, index))
                    for s in before_after if index < len(runs[s]["per_seed"])]
        parts.append(element("div", {"data_seed": index, **({} if index == worst else {"hidden": "hidden"})},
                             element("div", {"class_": "pair"}, *drawings), element("p", {"class_": "quiet"}, ""), report_fabric.matrix(results, index)))
    return _section("What each link carried", "Bytes of a link as a multiple of an even share, each direction by itself. A link above 1 holds everyone up; one below 1 "
                    "was paid for and left idle. Each scheme's slowest launch with that seed.", key, choices, *parts)


def _plan(results):
    chart = report_charts.plan(results)
    if chart is None:
        return Markup("")
    p = results["plan"]
    words = f"One round of the first seed as orreryctl showed it while it ran; each bar is named after the switch its flow crosses. Method: {p.get('method', 'unknown')}"
    if p.get("lower_bound_bytes"):
        words += f"; the busiest link carries {p['max_load_bytes'] / 2**20:.2f} MiB a round, and no assignment can do better than {p['lower_bound_bytes'] / 2**20:.2f} MiB"
    return _section("The plan", words + ".", chart)


def _live_move(results):
    text = table.live_move(results)
    if not text:
        return Markup("")
    return _section("A path that changes under a running job", "One more run under Orrery, in whose midst a link of the fabric is switched off.",
                    *[element("p", None, line) for line in text.splitlines()])


def _seeds(results):
    return _section("Every iteration of every seed", "A hash seed is the luck of one day: other seeds, other collisions. A plan does not depend on it.",
                    _schemes_key(results), report_charts.seeds(results))


def _method(results):
    sender = "RDMA writes of soft-RoCE" if table.transport(results) == "roce" else "jumbo frames, TCP cubic"
    return _section("Machine and method", f"Packets and queues are real: network namespaces, virtual Ethernet, HTB with a finite queue at every port, {sender}.",
                    *[element("p", None, line) for line in table.notes(results)])
