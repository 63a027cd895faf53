"""What a trained head knew at every node of its tree, as columns of the trace. Runs outside the timed part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from jakiro.tree import DraftTree


@dataclass(frozen=True, slots=True)
class Rows:
    """Where each of n nodes stands in a table of r draft distributions. None: nowhere."""

    hung: list[int | None]  # [n], the row that proposed the node; None at the root
    own: list[int | None]  # [n], the row that the node itself was expanded by; None where it was not


def common(
    tree: DraftTree, picks: list[int], rows: Rows, logprobs: Tensor, cutoff: float, eligible: Tensor | None = None
) -> dict[str, list]:
    """Columns of every head, from draft log-probabilities [r, vocab] and the score of the last node kept.

    `eligible` [r, vocab] says which tokens are candidates, or could be: the others rank after them.
    """
    rank, logprob = place(logprobs, rows.hung, tree.tokens, eligible)
    pick_rank, pick_logprob = place(logprobs, rows.own, picks, eligible)
    pairs = zip(tree.scores, pick_logprob, strict=True)
    return {
        "rank": rank,
        "logprob": logprob,
        "pick_rank": pick_rank,
        "pick_draft_logprob": pick_logprob,
        "pick_score": [None if last is None else score + last for score, last in pairs],
        "cutoff": [cutoff] * len(tree),
    }


def of_experts(
    tree: DraftTree,
    picks: list[int],
    routed: Rows,
    experts: Tensor,
    weights: Tensor,
    width: int,
    silent: Sequence[bool],
) -> dict[str, list]:
    """Columns of N experts: own log-probabilities [N, r, vocab] and the router's weights [r, N].

    An expert proposes its `width` likeliest tokens, but none in a row that is `silent` [r]: there one feature of all
    experts proposes. Who proposed a node is told of two experts only, as published heads have them: views of a trace
    know no more.
    """
    rows = Rows(*([None if row is None or silent[row] else row for row in one] for one in (routed.hung, routed.own)))
    best = experts.topk(width).indices  # [N, r, k]: of tokens that tie, those that a draft takes, too
    apart = {
        "overlap": spread(_overlap(best).tolist(), rows.hung),
        "js": spread(_divergence(experts).tolist(), rows.hung),
    }
    if len(experts) != 2:
        return apart
    proposed = torch.zeros_like(experts, dtype=torch.bool).scatter_(-1, best, True)
    both = list(zip(experts, proposed, strict=True))
    (rank0, logprob0), (rank1, logprob1) = (place(one, rows.hung, tree.tokens, first) for one, first in both)
    (pick0, _), (pick1, _) = (place(one, rows.own, picks, first) for one, first in both)
    return {
        "expert0_logprob": logprob0,
        "expert1_logprob": logprob1,
        "expert0_rank": rank0,
        "expert1_rank": rank1,
        "source": [_source(pair, width) for pair in zip(rank0, rank1, strict=True)],
        "pick_expert0_rank": pick0,
        "pick_expert1_rank": pick1,
        "gate0": spread(weights[:, 0].tolist(), routed.hung),
        "gate1": spread(weights[:, 1].tolist(), routed.hung),
        **apart,
    }


def place(
    logprobs: Tensor, rows: Sequence[int | None], tokens: Sequence[int], eligible: Tensor | None = None
) -> tuple[list, list]:
    """Rank and log-probability of each token in its row of [r, vocab].

    Ranks count from 0; ties go to the smaller token id, and tokens that are not `eligible` [r, vocab] come last.
    """
    known = [node for node, row in enumerate(rows) if row is not None]
    at = torch.tensor([rows[node] for node in known], dtype=torch.long, device=logprobs.device)
    ids = torch.tensor([tokens[node] for node in known], dtype=torch.long, device=logprobs.device)[:, None]
    table = logprobs[at]
    values = table.gather(-1, ids)
    smaller = torch.arange(table.shape[-1], device=table.device) < ids
    before = (table > values) | (smaller & (table == values))
    if eligible is not None:
        others = eligible[at]
        before = torch.where(others == others.gather(-1, ids), before, others)
    ranks = before.sum(-1)
    found: tuple[list, list] = ([None] * len(rows), [None] * len(rows))
    for node, rank, value in zip(known, ranks.tolist(), values[:, 0].tolist(), strict=True):
        found[0][node], found[1][node] = rank, value
    return found


def spread(values: Sequence[Any], rows: Sequence[int | None]) -> list:
    """A value for each row as a value for each node."""
    return [None if row is None else values[row] for row in rows]


def _source(ranks: tuple[int | None, int | None], width: int) -> int | None:
    """0 or 1: the one expert that proposes the token; 2: both; 3: neither, only their mixture does."""
    if ranks[0] is None:
        return None
    first, second = (rank < width for rank in ranks)
    return 2 if first and second else 0 if first else 1 if second else 3


def _overlap(best: Tensor) -> Tensor:
    """Share of the likeliest tokens [N, r, k] that two experts both have, [r]; of more, the mean over all pairs."""
    pairs = combinations(best, 2)  # each [r, k]
    shares = [(first[:, :, None] == second[:, None, :]).any(-1).float().mean(-1) for first, second in pairs]
    return torch.stack(shares).mean(0)


def _divergence(experts: Tensor) -> Tensor:
    """Jensen-Shannon divergence of N experts in nats, [r]: 0 if they agree, log N if they share nothing."""
    middle = experts.logsumexp(0) - math.log(len(experts))
    return (experts.exp() * (experts - middle)).sum(-1).mean(0).clamp_min(0.0)
