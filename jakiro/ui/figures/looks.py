"""How methods look where they are compared: never like the experts (theme.SOURCES), whatever else the figure shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

Look = tuple[str, str]  # colour role, plotly symbol

LOOKS: dict[str, Look] = {
    "vanilla": ("@other", "line-ns-open"),
    "prompt_lookup": ("@lookup", "triangle-left"),
    "token_recycling": ("@recycling", "star-triangle-down"),
    "draft_model": ("@model", "star-triangle-up"),
    "eagle2": ("@eagle2", "hexagon"),
    "eagle3": ("@eagle3", "hexagon2"),
    "jakiro": ("@jakiro", "triangle-right"),
}
# A method beside itself.
AGAIN = tuple((color, "pentagon") for color in ("@text", "@bonus", "@muted", "@lookup", "@eagle3"))
# Not ours, in turn.
OTHERS = tuple(
    zip(
        ("@muted", "@bonus", "@text", "@lookup") * 3,
        ("octagon", "star-diamond", "star-square") * 4,  # those beside each other differ in both
        strict=True,
    )
)


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """The look of each method. A variant, as "EAGLE-2, 60 nodes", has the colour of the method that it begins with."""
    found: dict[str, Look] = {}
    for name in dict.fromkeys(methods):
        plain = "".join(filter(str.isalnum, name.lower()))
        own = [color for method, (color, _) in LOOKS.items() if plain.startswith(method.replace("_", ""))]
        color, symbol = OTHERS[sum(one not in LOOKS for one in found) % len(OTHERS)]
        found[name] = LOOKS.get(name) or ((own or [color])[0], symbol)
    return found


def lane_looks(methods: Sequence[str]) -> list[Look]:
    """Those of lanes, of which several may be of one method."""
    own, found, again = looks(methods), [], count()
    for lane, name in enumerate(methods):
        found.append(AGAIN[next(again) % len(AGAIN)] if name in methods[:lane] else own[name])
    return found
