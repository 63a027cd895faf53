"""What the browser does with figures (figures.js), for tests that look at whole ones without it."""

from __future__ import annotations

import copy
from typing import Any

from jakiro.ui.figures.theme import THEMES
from jakiro.ui.replay import WORDS


def fill(template: dict, patch: dict, nodes: dict[str, list], labels: dict[int, str]) -> dict:
    """A whole figure: the template with the patch set into it, and node indices in `customdata` replaced by rows."""
    figure = copy.deepcopy(template)
    for trace, change in zip(figure["data"], patch["data"], strict=True):
        _set(trace, change)
        if "customdata" in trace:
            trace["customdata"] = [row(nodes, labels, node) for node in trace["customdata"]]
    _set(figure["layout"], patch["layout"])
    return figure


def hung(timeline: dict, below: dict) -> dict:
    """The timeline with another run's bars below its axis."""
    first, *rest = timeline["data"]
    axis = timeline["layout"]["yaxis"] | below["yaxis"]
    return {"data": [first, below["bars"], *rest], "layout": timeline["layout"] | {"yaxis": axis}}


def row(nodes: dict[str, list], labels: dict[int, str], node: Any) -> Any:
    """What hover templates and clicks see of a node: its columns without nulls, in words where WORDS has them."""
    if not isinstance(node, int) or node < 0:
        return {"node": -1}
    known = {name: values[node] for name, values in nodes.items() if values[node] is not None}
    known |= {name: WORDS[name][int(value)] for name, value in known.items() if name in WORDS}
    return known | {"node": node, "label": labels[nodes["id"][node]]}


def _set(target: dict, changes: dict[str, Any]) -> None:
    for dotted, value in changes.items():
        *above, last = dotted.split(".")
        place = target
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value


def paint(figure: Any, theme: str) -> Any:
    """The figure with every colour role replaced by the theme's colour. Raises KeyError for a role it does not have.

    The browser does the same: any string value that starts with "@". Text from a model is never such a value, since
    `labels.label` escapes a leading "@".
    """
    if isinstance(figure, dict):
        return {key: paint(value, theme) for key, value in figure.items()}
    if isinstance(figure, list):
        return [paint(value, theme) for value in figure]
    if isinstance(figure, str) and figure.startswith("@"):
        return THEMES[theme][figure[1:]]
    return figure


def strings(value: Any) -> list[str]:
    """All texts within a value, names of fields left out."""
    if isinstance(value, dict):
        return [found for item in value.values() for found in strings(item)]
    if isinstance(value, list):
        return [found for item in value for found in strings(item)]
    return [value] if isinstance(value, str) else []
