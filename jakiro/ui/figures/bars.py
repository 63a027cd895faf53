"""Small builders for the panels of the analysis figures."""

from __future__ import annotations

from typing import Any

POINT = 6  # px
OUTLINE = {"width": 1.5, "color": "@text"}  # not a pattern: those refer to the page's address, which changes


def bars(x: list, y: list, color: str, name: str, **extra: Any) -> dict:
    """Bars in one colour."""
    look = {"color": color, "line": {"width": 0}}
    return {"type": "bar", "x": x, "y": y, "name": name, "marker": look, "showlegend": False} | extra


def whiskers(middles: list, edges: list, color: str, **look: Any) -> dict:
    """Error bars of points, from the lower and the upper end of each."""
    ends = list(zip(middles, edges, strict=True))
    up, down = [high - x for x, (_, high) in ends], [x - low for x, (low, _) in ends]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "color": color} | look


def curve(x: list, y: list, color: str, name: str, **extra: Any) -> dict:
    """A line with points."""
    line, marker = {"color": color, "width": 2}, {"color": color, "size": POINT}
    base = {"type": "scatter", "mode": "lines+markers", "x": x, "y": y, "name": name, "line": line, "marker": marker}
    return base | {"showlegend": False} | extra


def line(x: list, y: list, color: str, name: str, **extra: Any) -> dict:
    """A line without points, but for values that have no neighbour: of them nothing would be seen."""
    known = [False, *(value is not None for value in y), False]
    alone = [here and not (known[at] or known[at + 2]) for at, here in enumerate(known[1:-1])]
    dots = {"color": color, "size": [POINT * one for one in alone], "opacity": 1, "line": {"width": 0}}
    return curve(x, y, color, name, **({"marker": dots} if any(alone) else {"mode": "lines"}), **extra)


def on(panel: int, trace: dict) -> dict:
    """The trace on the axes of a panel (1, 2, ...)."""
    suffix = "" if panel == 1 else str(panel)
    return trace | {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}


def outlined(color: str) -> dict:
    """A bar's look that is told from a plain one without colour: expert 1 beside expert 0."""
    return {"color": color, "line": OUTLINE}
