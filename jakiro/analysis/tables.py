"""A trace's nodes as a pandas table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from jakiro.graph import draft_probabilities, probability, states
from jakiro.trace import Trace

RACE = ("lane", "method")  # what a table of a race has besides (ui/export.py)


def nodes_table(trace: Trace) -> pd.DataFrame:
    """Every node of every tree: round, state, draft probability q and target probability p given its parent (empty for
    roots, q and the score for copies too), and the trace's columns, as column.NAME where NAME is one of these or of
    RACE."""
    columns: dict[str, list] = {"round": [], "node": []}
    for index, step in enumerate(trace.steps):
        tree, count = step.tree, len(columns["round"])
        facts = {
            "round": [index] * len(tree),
            "node": range(len(tree)),
            "parent": tree.parents,
            "depth": tree.depths(),
            "token": tree.tokens,
            "piece": [trace.piece(token) for token in tree.tokens],
            "state": states(step),
            "score": [None] * len(tree) if tree.copied else tree.scores,
            "q": draft_probabilities(tree),
            "p": [None, *map(probability, step.target_logprobs[1:])],
        }
        taken = {*facts, *RACE}
        own = {f"column.{name}" if name in taken else name: values for name, values in tree.columns.items()}
        for name, values in (facts | own).items():
            columns.setdefault(name, [None] * count).extend(values)
        for values in columns.values():  # of what this round lacks
            values += [None] * (count + len(tree) - len(values))
    return pd.DataFrame({name: _whole(values) for name, values in columns.items()})


def _whole(values: list) -> Any:
    """Whole numbers as such, also where some are missing."""
    if {type(value) for value in values if value is not None} == {int}:
        return pd.array(values, dtype="Int64")
    return values
