"""A trace as pandas tables: one row a node, one row a round."""

from __future__ import annotations

import pandas as pd

from jakiro.graph import draft_logprobs, piece, probability, states
from jakiro.metrics import clock, running_tau
from jakiro.trace import Trace, walk_positions


def nodes_table(trace: Trace) -> pd.DataFrame:
    """Every node of every tree: round, state, draft probability q, target probability p and the trace's columns."""
    frames = []
    for index, step in enumerate(trace.steps):
        tree = step.tree
        facts = {
            "round": index,
            "node": range(len(tree)),
            "parent": tree.parents,
            "depth": tree.depths(),
            "token": tree.tokens,
            "piece": [piece(trace, token) for token in tree.tokens],
            "state": states(step),
            "score": tree.scores,
            "q": [probability(value) for value in draft_logprobs(tree)],
            "p": [probability(value) for value in step.target_logprobs],
        }
        frames.append(
            pd.DataFrame(tree.columns | facts)[[*facts, *(name for name in tree.columns if name not in facts)]]
        )
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["round", "node"])


def rounds_table(trace: Trace) -> pd.DataFrame:
    """Every round: where its tokens stand in the text, what it accepted, its seconds, clock and running tau."""
    rows = [
        {
            "round": index,
            "from": start,
            "to": start + len(step.emitted),
            "nodes": len(step.tree),
            "accepted": len(step.accepted),
            "bonus": step.bonus,
            "bonus_piece": piece(trace, step.bonus),
            "draft_s": step.draft_s,
            "verify_s": step.verify_s,
            "overhead_s": step.overhead_s,
        }
        for index, (start, step) in enumerate(walk_positions(trace))
    ]
    return pd.DataFrame(rows).assign(at_s=clock(trace), tau=running_tau(trace))
