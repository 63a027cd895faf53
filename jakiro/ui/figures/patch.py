"""Figures of single rounds as one template for the run and a small patch a round.

A patch is {"data": [one object a trace of the template], "layout": {...}} with dotted keys ("marker.size"). `fill` is
the reading side; the browser does the same, so tests can look at whole figures without one.
"""

from __future__ import annotations

import copy
from typing import Any

from jakiro.graph import STATES

DIGITS = 4  # significant digits of what is only drawn

# What the numbers in a node table's columns of words mean.
WORDS = {
    "state": [*STATES],
    "source": ["expert 0 alone", "expert 1 alone", "both experts", "neither alone, only their mixture"],
    "head": ["ordinary level", "contrastive level"],
}


def fill(template: dict, patch: dict, nodes: dict[str, list], labels: dict[int, str]) -> dict:
    """A whole figure: the template with the patch set into it, and node indices in `customdata` replaced by rows."""
    figure = copy.deepcopy(template)
    for trace, change in zip(figure["data"], patch["data"], strict=True):
        _set(trace, change)
        if "customdata" in trace:
            trace["customdata"] = [row(nodes, labels, node) for node in trace["customdata"]]
    _set(figure["layout"], patch["layout"])
    return figure


def row(nodes: dict[str, list], labels: dict[int, str], node: Any) -> Any:
    """What hover templates and clicks see of a node: its columns without nulls, in words where WORDS has them."""
    if not isinstance(node, int) or node < 0:
        return {"node": -1}
    known = {name: values[node] for name, values in nodes.items() if values[node] is not None}
    known |= {name: WORDS[name][int(value)] for name, value in known.items() if name in WORDS}
    return known | {"node": node, "label": labels[nodes["id"][node]]}


def rounded(value: float | None, digits: int = DIGITS) -> float | None:
    """The value with few digits, a whole one without a point, for shorter JSON; an int, like an id, as it is."""
    if value is None or isinstance(value, int):
        return value
    value = float(f"{value:.{digits}g}")
    return int(value) if value.is_integer() else value


def rounded_list(values: list, digits: int = DIGITS) -> list:
    """`rounded` for every value."""
    return [rounded(value, digits) for value in values]


def _set(target: dict, changes: dict[str, Any]) -> None:
    for dotted, value in changes.items():
        *above, last = dotted.split(".")
        place = target
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value
