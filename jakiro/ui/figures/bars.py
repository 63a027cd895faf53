"""Small builders for the panels of the analysis figures."""

from __future__ import annotations

from typing import Any

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
    line, marker = {"color": color, "width": 2}, {"color": color, "size": 6}
    base = {"type": "scatter", "mode": "lines+markers", "x": x, "y": y, "name": name, "line": line, "marker": marker}
    return base | {"showlegend": False} | extra


def on(panel: int, trace: dict) -> dict:
    """The trace on the axes of a panel (1, 2, ...)."""
    suffix = "" if panel == 1 else str(panel)
    return trace | {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}


def outlined(color: str) -> dict:
    """A bar's look that is told from a plain one without colour: expert 1 beside expert 0."""
    return {"color": color, "line": OUTLINE}
