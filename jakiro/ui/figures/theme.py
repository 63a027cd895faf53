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


ROLES = {  # light, dark
    "expert0": ("#0072B2", "#56B4E9"),
    "expert1": ("#D55E00", "#F0A45D"),
    "both": ("#6B7280", "#9AA3B2"),
    "mixture": ("#8A6FBF", "#B9A3E3"),
    "accepted": ("#00785A", "#2BC49A"),
    "bonus": ("#B8489B", "#E08AC8"),
    "lookup": ("#0E7C86", "#45C4CE"),
    "recycling": ("#7A4E35", "#C9A28B"),
    "model": ("#6B7A12", "#B4D455"),
    "eagle2": ("#A8730F", "#E3C04A"),
    "eagle3": ("#8C2F39", "#F2908A"),
    "jakiro": ("#2B3A9E", "#93A0FF"),
    "text": ("#15181D", "#EDEFF3"),
    "muted": ("#5B6270", "#A3AAB8"),
    "faded": ("#6C7382", "#8B92A1"),
    "edge": ("#878E9C", "#6F7786"),
    "quiet": ("#BFC3CD", "#484E5B"),
    "rejected": ("#5B6270", "#B4BBC8"),
    "grid": ("#E7E9EE", "#2A2E37"),
    "other": ("#858D9B", "#6F7786"),
    "draft": ("#4B2A86", "#D9C9F7"),
    "verify": ("#9C80D0", "#7257AE"),
    "shade": ("rgba(107,114,128,0.05)", "rgba(154,163,178,0.06)"),
    "surface": ("#FFFFFF", "#181A1F"),
    "halo": (_halo("#FFFFFF"), _halo("#181A1F")),  # of the surface
    "hover": ("#FFFFFF", "#23262E"),
}
THEMES = {name: {role: pair[at] for role, pair in ROLES.items()} for at, name in enumerate(("light", "dark"))}

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
