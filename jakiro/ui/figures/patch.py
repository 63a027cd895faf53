"""Figures of single rounds as one template for the run and a small patch a round.

A patch is {"data": [one object a trace of the template], "layout": {...}} with dotted keys ("marker.size"). The
browser sets it in (replay.py).
"""

from __future__ import annotations

from jakiro.graph import STATES

DIGITS = 4  # significant digits of what is only drawn

# What the numbers in a node table's columns of words mean.
WORDS = {
    "state": [*STATES],
    "source": ["expert 0 alone", "expert 1 alone", "both experts", "neither alone, only their mixture"],
    "head": ["ordinary level", "contrastive level"],
}


def rounded(value: float | None, digits: int = DIGITS) -> float | None:
    """The value with few digits, a whole one without a point, for shorter JSON; an int, like an id, as it is."""
    if value is None or isinstance(value, int):
        return value
    value = float(f"{value:.{digits}g}")
    return int(value) if value.is_integer() else value


def rounded_list(values: list, digits: int = DIGITS) -> list:
    """`rounded` for every value."""
    return [rounded(value, digits) for value in values]
