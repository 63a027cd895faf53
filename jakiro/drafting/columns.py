"""What a trained head knew at every node of its tree, as columns of the trace. Runs outside the timed part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from jakiro.tree import DraftTree


@dataclass(frozen=True, slots=True)
class Places:
    """Where each of n nodes stands in a table of r draft distributions. None: nowhere."""

    hung: list[int | None]  # [n], the row that proposed the node; None at the root
    own: list[int | None]  # [n], the row that the node itself was expanded by; None where it was not


def common(
    tree: DraftTree, picks: list[int], rows: Places, logprobs: Tensor, cutoff: float, pool: Tensor
) -> dict[str, list]:
    """Columns of every head, from draft log-probabilities [r, vocab] and the score of the last node kept.

    `pool` [r, w] are the tokens that are candidates, or could be: the others rank after them.
    """
    [(rank, logprob)], [(pick_rank, pick_logprob)] = _placed(tree, picks, rows, logprobs[None], pool)
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
    tree: DraftTree, picks: list[int], routed: Places, experts: Tensor, weights: Tensor, best: Tensor
) -> dict[str, list]:
    """Columns of N experts: own log-probabilities [N, s, vocab] and the router's weights [r, N].

    An expert proposes its likeliest tokens, `best` [N, s, k], but none in the rows after s: there one feature of all
    experts proposes. Who proposed a node is told of two experts only, as published heads have them: views of a trace
    know no more.
    """
    asked = range(experts.shape[1])
    rows = Places(*([row if row in asked else None for row in one] for one in (routed.hung, routed.own)))
    apart = {
        "overlap": spread(overlap(best).tolist(), rows.hung),
        "js": spread(_divergence(experts).tolist(), rows.hung),
    }
    if len(experts) != 2:
        return apart
    [(rank0, logprob0), (rank1, logprob1)], [(pick0, _), (pick1, _)] = _placed(tree, picks, rows, experts, best)
    return {
        "expert0_logprob": logprob0,
        "expert1_logprob": logprob1,
        "expert0_rank": rank0,
        "expert1_rank": rank1,
        "source": [_source(pair, best.shape[-1]) for pair in zip(rank0, rank1, strict=True)],
        "pick_expert0_rank": pick0,
        "pick_expert1_rank": pick1,
        "gate0": spread(weights[:, 0].tolist(), routed.hung),
        "gate1": spread(weights[:, 1].tolist(), routed.hung),
        **apart,
    }


Placed = list[tuple[list, list]]  # for each of t tables: rank and log-probability of n nodes' tokens


def _placed(tree: DraftTree, picks: list[int], rows: Places, tables: Tensor, pool: Tensor) -> tuple[Placed, Placed]:
    """Where the tokens of a tree stand in the rows that they hang under, and the target's picks in the nodes' own."""
    found = place(tables, [*rows.hung, *rows.own], [*tree.tokens, *picks], pool)
    count = len(tree)
    return (
        [(ranks[:count], logprobs[:count]) for ranks, logprobs in found],
        [(ranks[count:], logprobs[count:]) for ranks, logprobs in found],
    )


def place(tables: Tensor, rows: Sequence[int | None], tokens: Sequence[int], pool: Tensor) -> Placed:
    """Rank and log-probability of each token in its row of each table, [t, r, vocab].

    Ranks count from 0; ties go to the smaller token id, and tokens that are not in the row's `pool`, [t, r, w] or one
    of all tables [r, w], come last. A pool may have a token twice.
    """
    known = [node for node, row in enumerate(rows) if row is not None]
    at, ids = (
        torch.tensor([values[node] for node in known], dtype=torch.long, device=tables.device)
        for values in (rows, tokens)
    )
    laws = tables.index_select(1, at)  # [t, m, vocab]
    ids = ids.expand(len(tables), -1)[..., None]
    values = laws.gather(-1, ids)
    ranks = _before(laws, ids, values)
    some = pool.expand(len(tables), -1, -1).index_select(1, at).sort(-1).values
    first = torch.ones_like(some, dtype=torch.bool)
    first[..., 1:] = some[..., 1:] != some[..., :-1]
    theirs = laws.gather(-1, some)
    ahead = (theirs > values) | (theirs == values) & (some < ids)
    inside = (ahead & first).sum(-1)
    ranks = torch.where((some == ids).any(-1), inside, first.sum(-1) + ranks - inside)
    found: Placed = [([None] * len(rows), [None] * len(rows)) for _ in tables]
    for (rank, logprob), some_ranks, some_values in zip(found, ranks.tolist(), values[..., 0].tolist(), strict=True):
        for node, one, value in zip(known, some_ranks, some_values, strict=True):
            rank[node], logprob[node] = one, value
    return found


def _before(laws: Tensor, ids: Tensor, values: Tensor) -> Tensor:
    """How many tokens of each row [t, m, vocab] come before the token of `ids` [t, m, 1], which has that value."""
    above, least = (beats(laws, values, out=torch.empty_like(laws)).sum(-1).long() for beats in (torch.gt, torch.ge))
    tied = (least - above > 1).nonzero(as_tuple=True)
    if len(tied[0]):  # few, if any: only these are looked at token by token
        smaller = torch.arange(laws.shape[-1], device=laws.device) < ids[tied]
        above[tied] += (smaller & (laws[tied] == values[tied])).sum(-1)
    return above


def spread(values: Sequence[Any], rows: Sequence[int | None]) -> list:
    """A value for each row as a value for each node."""
    return [None if row is None else values[row] for row in rows]


def _source(ranks: tuple[int | None, int | None], width: int) -> int | None:
    """0 or 1: the one expert that proposes the token; 2: both; 3: neither, only their mixture does."""
    if ranks[0] is None:
        return None
    first, second = (rank < width for rank in ranks)
    return 2 if first and second else 0 if first else 1 if second else 3


def overlap(best: Tensor) -> Tensor:
    """Share of the likeliest tokens [N, r, k] that two experts both have, [r]; of more, the mean over all pairs."""
    pairs = combinations(best, 2)  # each [r, k]
    shares = [(first[:, :, None] == second[:, None, :]).any(-1).float().mean(-1) for first, second in pairs]
    return torch.stack(shares).mean(0)


def _divergence(experts: Tensor) -> Tensor:
    """Jensen-Shannon divergence of N experts in nats, [r]: 0 if they agree, log N if they share nothing."""
    shares = experts.exp()
    middle = shares.mean(0).clamp_min(torch.finfo(shares.dtype).tiny).log()
    return (experts - middle).mul_(shares).sum(-1).mean(0).clamp_min(0.0)
