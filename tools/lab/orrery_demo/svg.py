"""SVG and HTML elements as text. Everything that is not an element is escaped."""

import html


class Markup(str):
    """Text that is markup already."""


def element(tag, attributes=None, *children):
    """`attributes`: names with _ for -, and class_ for class; None leaves one out."""
    words = [tag]
    for name, value in (attributes or {}).items():
        if value is not None:
            words.append(f'{name.rstrip("_").replace("_", "-")}="{html.escape(number(value))}"')
    inner = "".join(c if isinstance(c, Markup) else html.escape(str(c), quote=False) for c in children)
    return Markup(f"<{' '.join(words)}>{inner}</{tag}>")


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def join(parts):
    return Markup("".join(parts))


def text(x, y, content, class_="label", anchor=None):
    return element("text", {"x": x, "y": y, "class_": class_, "text_anchor": anchor}, content)


def line(x1, y1, x2, y2, class_, title=None):
    return element("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class_": class_}, *([element("title", None, title)] if title else []))


def rect(x, y, width, height, class_, title=None, radius=2):
    return element("rect", {"x": x, "y": y, "width": width, "height": height, "rx": radius, "class_": class_},
                   *([element("title", None, title)] if title else []))


def figure(width, height, *children, label):
    return element("svg", {"viewBox": f"0 0 {number(width)} {number(height)}", "role": "img", "aria_label": label}, *children)


def ticks(top, count=5):
    """Round axis marks from 0 to at least `top`."""
    if top <= 0:
        return [0, 1]
    step = top / count
    magnitude = 1.0
    while magnitude > step:
        magnitude /= 10
    while magnitude * 10 <= step:
        magnitude *= 10
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= step)
    marks = [0.0]
    while marks[-1] < top - 1e-9:
        marks.append(marks[-1] + step)
    return marks
