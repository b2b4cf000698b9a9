# SPDX-License-Identifier: Apache-2.0
"""Chart data of a matplotlib figure, in the form that E2B's code interpreter returns it

chart_of(figure) returns a dict, or None for a figure that shows nothing.  The dict has
"type" (line, scatter, bar, pie, box_and_whisker, superchart or unknown), "title" and
"elements"; the tests compare it with what the package e2b-charts extracts from the same
figures.  Nothing here imports matplotlib until there is a figure.

The build puts this file in front of runner.py, so it starts no program of its own.
"""
import re
from decimal import Decimal, localcontext


def chart_of(figure):
    axes = figure.get_axes()
    if not any(ax.has_data() for ax in axes):
        return None
    if len(axes) > 1:
        return {"type": "superchart", "title": figure.get_suptitle(), "elements": [chart_of_axes(ax) for ax in axes]}
    return chart_of_axes(axes[0])


def chart_of_axes(ax):
    kind = kind_of(ax)
    chart = {"type": kind, "title": ax.get_title() or None, "elements": []}
    if kind in ("line", "scatter"):
        chart |= labels_of(ax) | ticks_of(ax)
        chart["elements"] = line_elements(ax) if kind == "line" else scatter_elements(ax)
    elif kind == "bar":
        chart |= labels_of(ax)
        chart["elements"] = bar_elements(ax, chart)
    elif kind == "box_and_whisker":
        chart |= labels_of(ax)
        chart["elements"] = box_elements(ax, chart)
    elif kind == "pie":
        chart["elements"] = [{"label": w.get_label(), "angle": abs(float(rounded(Decimal(float(w.theta2)) - Decimal(float(w.theta1))))),
                              "radius": float(w.r)} for w in ax.patches]
    return chart


def kind_of(ax):
    """Only the artists tell what was drawn: each kind of chart leaves its own classes in the axes."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch, Rectangle, Wedge
    from matplotlib.text import Text

    drawn = [a for a in ax._children if not isinstance(a, Text)]
    if all(isinstance(a, Line2D) for a in drawn):
        return "line"
    if all(isinstance(a, (PathPatch, Line2D)) for a in drawn):
        return "box_and_whisker"
    drawn = [a for a in drawn if not (isinstance(a, Line2D) and is_straight(a))]
    for kind, artist in (("scatter", PathCollection), ("pie", Wedge), ("bar", Rectangle)):
        if all(isinstance(a, artist) for a in drawn):
            return kind
    return "unknown"


def is_straight(line):
    """A horizontal or vertical line between two points: axhline, axvline, a grid; not data."""
    x, y = line.get_xdata(), line.get_ydata()
    return len(x) == 2 and len(y) == 2 and bool(x[0] == x[1] or y[0] == y[1])


def labels_of(ax):
    """The labels of both axes; the unit stands in brackets: "Time (s)", "Length [m]"."""
    found = {}
    for axis, label in (("x", ax.get_xlabel() or None), ("y", ax.get_ylabel() or None)):
        unit = re.search(r"\s\((.*?)\)|\[(.*?)\]", label or "")
        found[f"{axis}_label"] = label
        found[f"{axis}_unit"] = (unit[1] or unit[2]) if unit else None
    return found


def turn(chart):
    """Bars and boxes that lie: x and y change places, so that x is always what is compared."""
    for what in ("label", "unit"):
        chart[f"x_{what}"], chart[f"y_{what}"] = chart[f"y_{what}"], chart[f"x_{what}"]


def ticks_of(ax):
    from matplotlib.dates import _SwitchableDateConverter, num2date

    found = {}
    for name, axis, scale in (("x", ax.xaxis, ax.get_xscale()), ("y", ax.yaxis, ax.get_yscale())):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        dates = isinstance(converter, _SwitchableDateConverter)
        ticks = [num2date(t).isoformat() if dates else float(t) for t in axis.get_ticklocs()]
        if dates:
            scale = "datetime"
        elif scale == "linear" and all(t == i and str(i) != label for i, (t, label) in enumerate(zip(ticks, labels))):
            scale = "categorical"  # ticks 0, 1, 2, … with other words on them
        found |= {f"{name}_ticks": ticks, f"{name}_tick_labels": labels, f"{name}_scale": scale}
    return found


def point(value):
    """One coordinate: a date as ISO 8601 text, a category as its text, else a number."""
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return str(value.astype("datetime64[s]"))
    return float(value)


def line_elements(ax):
    found = []
    for line in ax.get_lines():
        if not is_straight(line):
            label = line.get_label()
            if label.startswith("_child"):  # matplotlib's name for a line without one
                label = f"Line {int(label[6:])}"
            found.append({"label": label, "points": [[point(x), point(y)] for x, y in zip(line.get_xdata(), line.get_ydata())]})
    return found


def scatter_elements(ax):
    return [{"label": c.get_label(), "points": [[point(x), point(y)] for x, y in c.get_offsets()]} for c in ax.collections]


def bar_elements(ax, chart):
    found = []
    for container in ax.containers:
        group = container.get_label()
        if group.startswith("_container"):
            group = f"Group {int(group[10:])}"
        values = [bar.get_height() for bar in container]
        labels = ax.get_xticklabels()
        if all(value == values[0] for value in values):  # all of one height: they lie
            turn(chart)
            values, labels = [bar.get_width() for bar in container], ax.get_yticklabels()
        found += [{"label": label.get_text(), "group": group, "value": float(value)} for label, value in zip(labels, values)]
    return found


def rounded(number):
    """A Decimal with about eight digits after the leading one, so that edges drawn alike compare equal."""
    number = Decimal(str(number))
    with localcontext() as context:
        context.prec = max(1, 8 - number.adjusted())
        return +number


def box_elements(ax, chart):
    """A box is a patch; whiskers, medians and outliers are lines that belong to the box above or below them."""
    boxes = []
    for label, patch in zip(ax.get_xticklabels(), ax.patches):
        x, y = ([rounded(v) for v in patch.get_path().vertices[:, i]] for i in (0, 1))
        boxes.append({"label": label.get_text(), "x": (min(x), max(x)), "y": (min(y), max(y)), "outliers": []})
    lying = all(b["y"][1] - b["y"][0] == boxes[0]["y"][1] - boxes[0]["y"][0] for b in boxes)
    if lying:
        turn(chart)
        for b in boxes:
            b["x"], b["y"] = b["y"], b["x"]
    for line in ax.lines:
        x, y = ([rounded(v) for v in data] for data in (line.get_xdata(), line.get_ydata()))
        if lying:
            x, y = y, x
        if len(x) not in (1, 2):
            continue
        box = next((b for b in boxes if b["x"][0] <= x[0] <= x[-1] <= b["x"][1]), None)
        if box and len(x) == 1:
            box["outliers"].append(float(y[0]))
        elif box and y[0] == y[1] and box["y"][0] <= y[0] <= box["y"][1]:
            box["median"] = y[0]
        elif box and max(y) == box["y"][0]:
            box["min"] = min(y)
        elif box and min(y) == box["y"][1]:
            box["max"] = max(y)
    return [{"label": b["label"], "min": float(b["min"]), "first_quartile": float(b["y"][0]), "median": float(b["median"]),
             "third_quartile": float(b["y"][1]), "max": float(b["max"]), "outliers": b["outliers"]} for b in boxes]
