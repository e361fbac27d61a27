"""The results as one self-contained HTML page."""

from html import escape

STYLE = """body{font:14px/1.5 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#1c2430}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;margin:.6em 0}
td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #dde3ea;font-variant-numeric:tabular-nums}
td:first-child,th:first-child{text-align:left}th{font-weight:600}.met{color:#1b7f3b}.missed{color:#b3261e}
.bar{fill:#4c78a8}.ours{fill:#d9822b}svg text{font-size:12px}"""


def render(title, sections):
    """Sections are (heading, [paragraphs], [rows], {name: ms}); rows[0] is the head of the table."""
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>"]
    for heading, paragraphs, rows, bars in sections:
        parts.append(f"<h2>{escape(heading)}</h2>")
        parts += [f"<p{_tone(p)}>{escape(p)}</p>" for p in paragraphs]
        parts += [chart(bars) if bars else "", grid(rows) if rows else ""]
    return "\n".join(parts) + "\n</html>\n"


def _tone(paragraph):
    return " class=met" if paragraph.startswith("met ") else " class=missed" if paragraph.startswith("MISSED") else ""


def grid(rows):
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f"<table><tr>{head}</tr>{body}</table>"


def chart(bars):
    """Horizontal bars, the longest as wide as the chart."""
    longest = max(bars.values()) or 1
    lines = []
    for i, (name, value) in enumerate(bars.items()):
        kind = "ours" if name.startswith("orrery") else "bar"
        lines.append(f'<text x="118" y="{20 * i + 14}" text-anchor="end">{escape(name)}</text>'
                     f'<rect class={kind} x="126" y="{20 * i + 3}" width="{max(1, round(460 * value / longest))}" height="14"/>'
                     f'<text x="{132 + round(460 * value / longest)}" y="{20 * i + 14}">{value:.3g}</text>')
    return f'<svg width="680" height="{20 * len(bars) + 6}" role="img" aria-label="milliseconds by scheme">{"".join(lines)}</svg>'
