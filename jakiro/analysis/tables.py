"""A trace's nodes as a pandas table."""

from __future__ import annotations

import pandas as pd

from jakiro.graph import draft_probabilities, probability, states
from jakiro.trace import Trace


def nodes_table(trace: Trace) -> pd.DataFrame:
    """Every node of every tree: round, state, draft probability q and target probability p given its parent (empty for
    roots, q for copies too), and the trace's columns."""
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
        frames.append(
            pd.DataFrame(tree.columns | facts)[[*facts, *(name for name in tree.columns if name not in facts)]]
        )
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["round", "node"])
