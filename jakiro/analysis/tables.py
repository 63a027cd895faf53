"""A trace's nodes as a pandas table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from jakiro.graph import draft_probabilities, probability, states
from jakiro.trace import Trace

RACE = ("lane", "method")  # what a table of a race has besides (ui/export.py)


def nodes_table(trace: Trace) -> pd.DataFrame:
    """Every node of every tree: round, state, draft probability q and target probability p given its parent (empty for
    roots, q for copies too), and the trace's columns, as column.NAME where NAME is one of these or of RACE."""
    frames = []
    for index, step in enumerate(trace.steps):
        tree = step.tree
        facts = {
            "round": index,
            "node": range(len(tree)),
            "parent": tree.parents,
            "depth": tree.depths(),
            "token": tree.tokens,
            "piece": [trace.piece(token) for token in tree.tokens],
            "state": states(step),
            "score": tree.scores,
            "q": draft_probabilities(tree),
            "p": [None, *map(probability, step.target_logprobs[1:])],
        }
        taken = {*facts, *RACE}
        own = {f"column.{name}" if name in taken else name: values for name, values in tree.columns.items()}
        frames.append(pd.DataFrame({name: _whole(values) for name, values in (facts | own).items()}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["round", "node"])


def _whole(values: Any) -> Any:
    """Whole numbers as such, also where some are missing."""
    if isinstance(values, list) and all(value is None or type(value) is int for value in values):
        return pd.array(values, dtype="Int64")
    return values
