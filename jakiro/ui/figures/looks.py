"""How methods look where they are compared: never like the experts (theme.SOURCES), whatever else the figure shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle

from jakiro.trace import kind_of

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
# A method beside itself, in turn: what is nobody's, then what is of methods that are not there.
AGAIN = (("@text", "pentagon"), ("@bonus", "octagon"), ("@muted", "star-square"), *[*LOOKS.values()][1:])
# Not ours, in turn: in colours of methods only where those are not there.
OTHERS = tuple(
    zip(
        ("@muted", "@lookup", "@bonus", "@model", "@text") * 3,
        ("star-diamond", "octagon", "star-square") * 5,  # those beside each other differ in both
        strict=True,
    )
)
# Of variants of a method, in turn: those beside each other are least alike.
MARKS = ("star-diamond", "star", "triangle-left", "star-square", "star-triangle-up", "triangle-right")
MARKS += ("star-triangle-down", "octagon")  # the last is nearest to EAGLE's own


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """The look of each method. A variant, as "EAGLE-2, 60 nodes", has the colour of the method that it begins with, and
    a shape that no other of that colour has, as far as MARKS go."""
    names = dict.fromkeys(methods)
    found = {name: LOOKS[name] for name in names if name in LOOKS}
    ours = {color for color, _ in found.values()}
    strangers = cycle([look for look in OTHERS if look[0] not in ours])
    for name in names:
        plain = "".join(filter(str.isalnum, name.lower()))
        own = [look for method, look in LOOKS.items() if plain.startswith(method.replace("_", ""))]
        if name not in found and not own:
            found[name] = next(strangers)
        elif name not in found:
            [(color, symbol)] = own
            taken = [mark for hue, mark in found.values() if hue == color]
            found[name] = color, min((symbol, *MARKS), key=taken.count)
    return {name: found[name] for name in names}


def lane_looks(methods: Sequence[str]) -> list[Look]:
    """Those of lanes, of which several may be of one method: no two have a colour or a shape in common, as far as
    those go."""
    own, kinds = looks(methods), [*map(kind_of, methods)]
    alone = [kind not in kinds[:lane] for lane, kind in enumerate(kinds)]
    taken = {part for name, first in zip(methods, alone, strict=True) if first for part in own[name]}
    again = cycle([look for look in AGAIN if not taken & {*look}] or AGAIN)
    return [own[name] if first else next(again) for name, first in zip(methods, alone, strict=True)]
