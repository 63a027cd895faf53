"""How methods look where they are compared: never like the experts (theme.SOURCES), whatever else the figure shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Look = tuple[str, str]  # colour role, plotly symbol

LOOKS: dict[str, Look] = {
    "vanilla": ("@other", "line-ns-open"),
    "prompt_lookup": ("@lookup", "triangle-left"),
    "draft_model": ("@model", "star-triangle-up"),
    "eagle2": ("@eagle2", "hexagon"),
    "eagle3": ("@eagle3", "hexagon2"),
    "jakiro": ("@jakiro", "triangle-right"),
}
# A method beside itself.
AGAIN: tuple[Look, ...] = (("@text", "pentagon"), ("@bonus", "pentagon"), ("@muted", "pentagon"))
# Not ours, in turn.
OTHERS: tuple[Look, ...] = (
    *((color, "octagon") for color in ("@muted", "@bonus", "@text", "@other")),
    *((color, "star-diamond") for color in ("@lookup", "@eagle3", "@jakiro", "@eagle2")),
    *((color, "star-square") for color in ("@muted", "@bonus", "@text", "@accepted")),
)


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """The look of each method."""
    found: dict[str, Look] = {}
    for name in dict.fromkeys(methods):
        strange = sum(one not in LOOKS for one in found)
        found[name] = LOOKS.get(name) or OTHERS[strange % len(OTHERS)]
    return found


def lane_looks(methods: Sequence[str]) -> list[Look]:
    """Those of lanes, of which several may be of one method."""
    own, found = looks(methods), []
    for lane, name in enumerate(methods):
        before = methods[:lane].count(name)
        found.append(AGAIN[(before - 1) % len(AGAIN)] if before else own[name])
    return found
