"""Colours (and one text shadow) by role for the light and the dark page. A figure says "@accepted", never "#00785A"."""

from __future__ import annotations

from typing import Any

MONO = "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
CLEAR = "rgba(0,0,0,0)"


def _halo(color: str) -> str:
    """A text shadow that covers the lines behind a label for 3 px around it."""
    offsets = ((3, 0), (-3, 0), (2, 2), (-2, 2), (2, -2), (-2, -2), (0, 3), (0, -3), (1, 0), (-1, 0), (0, 1), (0, -1))
    return ", ".join(f"{x}px {y}px 0 {color}" for x, y in offsets)


THEMES: dict[str, dict[str, str]] = {
    "light": {
        "expert0": "#0072B2",
        "expert1": "#D55E00",
        "both": "#6B7280",
        "mixture": "#8A6FBF",
        "accepted": "#00785A",
        "bonus": "#B8489B",
        "lookup": "#0E7C86",
        "recycling": "#7A4E35",
        "model": "#6B7A12",
        "eagle2": "#A8730F",
        "eagle3": "#8C2F39",
        "jakiro": "#2B3A9E",
        "text": "#15181D",
        "muted": "#5B6270",
        "faded": "#6C7382",
        "edge": "#878E9C",
        "quiet": "#BFC3CD",
        "rejected": "#5B6270",
        "grid": "#E7E9EE",
        "other": "#858D9B",
        "draft": "#4B2A86",
        "verify": "#9C80D0",
        "shade": "rgba(107,114,128,0.05)",
        "surface": "#FFFFFF",
        "halo": _halo("#FFFFFF"),
        "hover": "#FFFFFF",
    },
    "dark": {
        "expert0": "#56B4E9",
        "expert1": "#F0A45D",
        "both": "#9AA3B2",
        "mixture": "#B9A3E3",
        "accepted": "#2BC49A",
        "bonus": "#E08AC8",
        "lookup": "#45C4CE",
        "recycling": "#C9A28B",
        "model": "#B4D455",
        "eagle2": "#E3C04A",
        "eagle3": "#F2908A",
        "jakiro": "#93A0FF",
        "text": "#EDEFF3",
        "muted": "#A3AAB8",
        "faded": "#8B92A1",
        "edge": "#6F7786",
        "quiet": "#484E5B",
        "rejected": "#B4BBC8",
        "grid": "#2A2E37",
        "other": "#6F7786",
        "draft": "#D9C9F7",
        "verify": "#7257AE",
        "shade": "rgba(154,163,178,0.06)",
        "surface": "#181A1F",
        "halo": _halo("#181A1F"),
        "hover": "#23262E",
    },
}

# The phases of a round: the role of their bars, which no lane has, and of text on them.
PHASES = {"draft": ("@draft", "@surface"), "verify": ("@verify", "@text"), "overhead": ("@quiet", "@text")}

CONTRASTIVE, COPIED = 4, 5
# Who proposes a node: the values of the column `source`; without one CONTRASTIVE on that level, COPIED for what was
# copied from the text, None elsewhere.
SOURCES: dict[int | None, tuple[str, str, str]] = {  # role, plotly symbol, name
    0: ("expert0", "circle", "expert 0 alone"),
    1: ("expert1", "diamond", "expert 1 alone"),
    2: ("both", "square", "both"),
    3: ("mixture", "triangle-up", "their mixture"),
    CONTRASTIVE: ("mixture", "triangle-down", "contrastive"),
    COPIED: ("both", "cross", "copied"),
    None: ("both", "circle", "drafted"),
}

# Fourth argument of Plotly.newPlot and Plotly.react.
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "responsive": True,
    "scrollZoom": False,
    "doubleClick": "reset",
    "modeBarButtonsToRemove": ["toImage", "sendChartToCloud", "lasso2d", "select2d", "autoScale2d"],
}
