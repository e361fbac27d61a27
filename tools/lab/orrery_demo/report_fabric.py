"""The fabric drawn, and its load as a heat map: what each link carried, as a multiple of an even share."""

from . import svg
from .options import TITLES
from .statistics import mean

WIDTH = 560.0
BINS = (0.125, 0.4, 0.7, 0.9, 1.1, 1.4, 1.8, 2.5)  # upper bounds; beyond the last: the hottest


def heat_class(load):
    """Class of a load given as a multiple of an even share."""
    return f"heat{next((i for i, bound in enumerate(BINS) if load < bound), len(BINS))}"


def loads(results, seed_figures):
    """{port: multiple of the mean over links of its kind}; kinds: between switches, to and from hosts."""
    spine = set(results["spine_links"])
    shares = seed_figures["link_utilization"]
    average = {kind: mean([u for p, u in shares.items() if (p in spine) == kind]) for kind in (True, False)}
    return {p: u / average[p in spine] if average[p in spine] else 0.0 for p, u in shares.items()}


def drawing(results, scheme, index):
    """One scheme's fabric in one seed: hosts below, the highest tier above, each direction of a cable a line of its own."""
    figures = results["runs"][scheme]["per_seed"][index]
    load = loads(results, figures)
    fabric = results["fabric"]
    places, tiers = _places(fabric)
    height = 70.0 + 96 * (tiers - 1)
    parts = []
    for cable in fabric["links"]:
        for egress, towards in ((cable["a"], cable["b"]), (cable["b"], cable["a"])):
            x1, y1 = places[egress.partition(":")[0]]
            x2, y2 = places[towards.partition(":")[0]]
            dx, dy = _aside(x1, y1, x2, y2)
            title = f"{egress} → {towards}: {load.get(egress, 0):.2f} × an even share, {figures['link_utilization'].get(egress, 0):.0%} of its rate"
            parts.append(svg.line(x1 + dx, y1 + dy, x2 + dx, y2 + dy, "cable " + heat_class(load.get(egress, 0)), title))
    highest = min(y for _, y in places.values())
    many = len(fabric["hosts"]) > 40
    for name, (x, y) in places.items():
        host = any(h["name"] == name for h in fabric["hosts"])
        size = 4.5 if host else 9.0
        parts.append(svg.rect(x - size, y - size, 2 * size, 2 * size, "node", name, radius=size if host else 3))
        if host and not many:
            parts.append(svg.text(x, y + 20, name, "axis small", "middle"))
        elif not host:
            parts.append(svg.text(x, y - 15, name, "axis", "middle") if y == highest else svg.text(x - 15, y + 4, name, "axis", "end"))
    return svg.figure(WIDTH, height, *parts, label=f"The fabric under {TITLES[scheme]}")


def _places(fabric):
    """({node: (x, y)}, number of tiers): each tier spread evenly, hosts in the order of their leaves."""
    rows = {0: [h["name"] for h in fabric["hosts"]]}
    for switch in fabric["switches"]:
        rows.setdefault(switch["tier"], []).append(switch["name"])
    tiers = len(rows)
    places = {}
    for level, tier in enumerate(sorted(rows, reverse=True)):
        names = rows[tier]
        for i, name in enumerate(names):
            places[name] = (WIDTH * (i + 0.5) / len(names), 34.0 + 96 * level)
    return places, tiers


def _aside(x1, y1, x2, y2, distance=1.7):
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
    return -(y2 - y1) / length * distance, (x2 - x1) / length * distance


def matrix(results, index):
    """A cell per link between switches and scheme."""
    links, schemes = results["spine_links"], list(results["runs"])
    peers = {p_name: peer for s in results["fabric"]["switches"] for p_name, peer in ((f"{s['name']}:{p['name']}", p.get("peer")) for p in s["ports"])}
    groups = {}
    for link in links:
        groups.setdefault(link.partition(":")[0], []).append(link)
    rows = []
    for node, members in groups.items():
        for link in members:
            cells = [svg.element("td", {"class_": "name"}, f"{node} → {(peers.get(link) or '').partition(':')[0]}")]
            for scheme in schemes:
                figures = results["runs"][scheme]["per_seed"][index]
                load = loads(results, figures)[link]
                cells.append(svg.element("td", {"class_": "cell " + heat_class(load), "title": f"{link}: {figures['link_utilization'][link]:.0%} of its rate"},
                                         f"{load:.2f}"))
            rows.append(svg.element("tr", None, *cells))
    head = svg.element("tr", None, svg.element("th", None, "link"), *[svg.element("th", None, TITLES[s]) for s in schemes])
    half = (len(rows) + 1) // 2
    return svg.element("div", {"class_": "halves"}, *[svg.element("table", {"class_": "matrix"}, head, *part) for part in (rows[:half], rows[half:]) if part])
