"""What the heads say of every node, against a naive recomputation."""

from __future__ import annotations

import math

import naive
import pytest
import torch
from test_drafting import MODES, PROMPT, drafter_for, oracle_for, rounds
from torch import Tensor

from jakiro.drafter import Context
from jakiro.drafting.columns import Places, of_experts, place
from jakiro.drafting.drafter import HeadDrafter
from jakiro.drafting.sizes import TreeSettings
from jakiro.methods.jakiro import blend
from jakiro.tree import DraftTree

HEADS = ["eagle2", *(mode for mode in MODES if mode.startswith(("eagle2,", "mixture", "decoupled", "two", "one")))]


class Kept:
    """A drafter whose third tree is inspected as soon as it is drawn, since inspection speaks of the last draft."""

    def __init__(self, drafter, room: int) -> None:
        self.drafter, self.settings, self.count, self.room = drafter, drafter.settings, 0, room

    def draft(self, context: Context) -> DraftTree:
        tree = self.drafter.draft(context)
        self.count += 1
        if self.count == 3:
            self.tokens = list(context.tokens)
            nodes = sum(depth <= self.room for depth in tree.depths())  # what is left of it where the text ends soon
            self.tree = DraftTree(tree.tokens[:nodes], tree.parents[:nodes], tree.scores[:nodes])
            self.cutoff = min(tree.scores)
            self.picks = [(7 * node + 3) % 300 for node in range(nodes)]
            self.columns = self.drafter.inspect(self.tree, self.picks)
        return tree


def rank(logprobs: Tensor, token: int, eligible: set[int] | None = None) -> int:
    """Of the token among all; where only some can be candidates, these come first."""
    if eligible is None:
        return sum(float(other) > float(logprobs[token]) for other in logprobs)
    group = [one for one in range(len(logprobs)) if (one in eligible) == (token in eligible)]
    ahead = 0 if token in eligible else len(eligible)
    return ahead + sum(float(logprobs[one]) > float(logprobs[token]) for one in group)


def close(found: float | None, expected: float) -> bool:
    return found == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize("room", [9, 2])
@pytest.mark.parametrize("mode", HEADS)
def test_columns_are_the_naive_ones(target, mode: str, room: int) -> None:
    head, drafter = drafter_for(target, mode)
    kept = Kept(drafter, room)
    rounds(target, kept)
    settings, tree, columns = drafter.settings, kept.tree, kept.columns
    oracle = oracle_for(head, target, kept.tokens, settings)
    frontiers = expanded(oracle, settings)
    assert all(len(column) == len(tree) for column in columns.values())
    assert columns["rank"][0] is None and columns["logprob"][0] is None
    for node, depth in enumerate(tree.depths()):
        path = tree.paths()[node][1:]
        assert close(columns["cutoff"][node], kept.cutoff)
        if node:
            answer, logprobs = asked(oracle, settings, frontiers, depth, path[:-1])
            assert close(columns["logprob"][node], logprobs[path[-1]])
            assert columns["rank"][node] == rank(logprobs, path[-1], proposed(answer, logprobs, settings))
            check_experts(columns, node, answer, path[-1], settings, depth)
        pick = kept.picks[node]
        if depth < settings.depth and path in frontiers[depth]:
            answer, logprobs = asked(oracle, settings, frontiers, depth + 1, path)
            assert columns["pick_rank"][node] == rank(logprobs, pick, proposed(answer, logprobs, settings))
            assert close(columns["pick_draft_logprob"][node], logprobs[pick])
            assert close(columns["pick_score"][node], tree.scores[node] + float(logprobs[pick]))
            for i in range(2 if answer.experts is not None else 0):
                silent = settings.contrastive and depth == settings.depth - 1
                assert columns[f"pick_expert{i}_rank"][node] == (None if silent else rank(answer.experts[i], pick))
        else:
            assert all(columns[name][node] is None for name in columns if name.startswith("pick_"))


@pytest.mark.parametrize("mode", ["eagle2", "mixture", "decoupled", "two levels"])
def test_what_was_proposed_ranks_among_the_first_however_ties_went(target, mode, monkeypatch):
    """In half precision many log-probabilities are equal, and `topk` takes any of them: here the largest ids."""
    coarse, topk = HeadDrafter.logprobs, torch.Tensor.topk
    monkeypatch.setattr(HeadDrafter, "logprobs", lambda *given: (coarse(*given) / 2).round())

    def last(values, width):
        found, ids = topk(values.flip(-1), width)
        return torch.return_types.topk((found, values.shape[-1] - 1 - ids))

    _, drafter = drafter_for(target, mode)
    kept = Kept(drafter, 9)
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "topk", last)
        rounds(target, kept)
    columns = kept.columns
    if mode == "decoupled":  # an expert has proposed each, and what is ranked after all of them was not
        assert all(source in (None, 0, 1, 2) for source in columns["source"])
        assert max(columns["rank"][1:]) < 2 * drafter.settings.top_k
    else:
        assert all(rank < drafter.settings.top_k for rank in columns["rank"][1:])


def proposed(answer: naive.Answer, logprobs: Tensor, settings) -> set[int] | None:
    """What the experts propose, each for itself; None where candidates come from one distribution."""
    if getattr(settings, "candidates", "") != "decoupled" or logprobs is answer.ahead:
        return None
    return {token for one in answer.experts for token in one.topk(settings.top_k).indices.tolist()}


def expanded(oracle: naive.Oracle, settings) -> list[list[tuple[int, ...]]]:
    """The frontier's paths of each level, from the whole pool drafted naively."""
    frontiers: list[list[tuple[int, ...]]] = [[()]]
    for depth in range(1, settings.depth):  # none of these levels is ever a contrastive one
        tree = naive.draft(oracle, 0, TreeSettings(settings.top_k, depth, 512))
        last = [node for node, at in enumerate(tree.depths()) if at == depth]
        best = sorted(last, key=lambda node: (-tree.scores[node], node))[: settings.top_k]
        frontiers.append([tree.paths()[node][1:] for node in best])
    return frontiers


def asked(oracle, settings, frontiers, depth: int, parent: tuple[int, ...]) -> tuple[naive.Answer, Tensor]:
    """Who answered for the children, at `depth`, of a node: its own pass, or the contrastive row that it was given."""
    if not (getattr(settings, "contrastive", False) and depth == settings.depth):
        answer = oracle(parent)
        return answer, answer.logprobs
    giver = parent[:-1] if settings.aligned else frontiers[depth - 2][frontiers[depth - 1].index(parent)]
    answer = oracle(giver)
    return answer, answer.ahead


def check_experts(columns: dict, node: int, answer: naive.Answer, token: int, settings, depth: int) -> None:
    if answer.experts is None:
        assert "gate0" not in columns and "source" not in columns
        return
    contrastive = settings.contrastive and depth == settings.depth
    gates = (answer.gates[2:] if contrastive else answer.gates[:2]).softmax(0)
    assert columns["head"][node] == int(contrastive)
    assert all(close(columns[f"gate{i}"][node], gates[i]) for i in (0, 1))
    if contrastive:  # one feature of both proposes
        alone = ("expert0_rank", "expert1_rank", "expert0_logprob", "expert1_logprob", "source", "overlap", "js")
        assert all(columns[name][node] is None for name in alone)
        return
    ranks = [rank(one, token) for one in answer.experts]
    for i, one in enumerate(answer.experts):
        assert close(columns[f"expert{i}_logprob"][node], one[token])
        assert columns[f"expert{i}_rank"][node] == ranks[i]
    first, second = (place < settings.top_k for place in ranks)
    assert columns["source"][node] == {(1, 1): 2, (1, 0): 0, (0, 1): 1, (0, 0): 3}[first, second]
    tops = [set(one.topk(settings.top_k).indices.tolist()) for one in answer.experts]
    assert close(columns["overlap"][node], len(tops[0] & tops[1]) / settings.top_k)
    p0, p1 = answer.experts.double().exp()
    middle = (p0 + p1) / 2
    js = sum(float((p * (p / middle).log()).sum()) for p in (p0, p1)) / 2
    assert close(columns["js"][node], js) and 0 < js < math.log(2)


def test_of_four_experts_only_how_far_they_are_apart_is_told() -> None:
    torch.manual_seed(0)
    experts = torch.randn(4, 1, 50).log_softmax(-1)
    tree = DraftTree([7, 8, 9], [-1, 0, 0], [0.0, -1.0, -2.0])
    rows, best = Places([None, 0, 0], [0, None, None]), experts.topk(5).indices
    columns = of_experts(tree, [8, 1, 1], rows, experts, torch.full((1, 4), 0.25), best)
    assert columns.keys() == {"overlap", "js"}
    tops = [set(one[0].topk(5).indices.tolist()) for one in experts]
    shares = [len(a & b) / 5 for i, a in enumerate(tops) for b in tops[i + 1 :]]
    p = experts[:, 0].exp()
    js = float((p * (p / p.mean(0)).log()).sum()) / 4
    assert columns["overlap"][0] is None and close(columns["overlap"][1], sum(shares) / 6)
    assert close(columns["js"][2], js) and 0 < js < math.log(4)


def test_ranks_count_larger_ones_and_give_ties_to_the_smaller_id() -> None:
    logprobs = torch.tensor([[-1.0, -0.5, -1.0, -2.0], [-3.0, -3.0, -3.0, -3.0]])
    other = torch.tensor([[-1.0, -0.5, -2.0, -2.0], [-3.0, -4.0, -4.0, -5.0]])
    both = place(torch.stack([logprobs, other]), [0, 0, None, 1, 0], [0, 2, 1, 3, 1], torch.arange(4).expand(2, 4))
    assert both[0] == ([1, 2, None, 3, 0], [-1.0, -1.0, None, -3.0, -0.5])
    assert both[1] == ([1, 2, None, 3, 0], [-1.0, -2.0, None, -5.0, -0.5])


def test_of_equally_likely_tokens_that_are_not_proposed_the_smaller_id_ranks_first() -> None:
    logprobs = torch.tensor([[0.4, 0.2, 0.2, 0.2]]).log()
    [(ranks, _)] = place(logprobs[None], [0] * 4, [0, 1, 2, 3], torch.tensor([[0]]))
    assert ranks == [0, 1, 2, 3]


def test_a_token_that_no_expert_proposes_ranks_after_those_that_one_does() -> None:
    """Third with both experts, it is first in their blend, and still never drafted."""
    experts = torch.tensor([[0.35, 0.33, 0.32, 0.0, 0.0], [0.0, 0.0, 0.32, 0.35, 0.33]])[:, None].clamp_min(1e-6).log()
    logprobs = blend(experts, torch.tensor([[0.5, 0.5]]))
    pool = torch.cat([*experts.topk(2).indices], dim=-1)
    whole = torch.arange(5)[None]
    assert sorted(pool[0].tolist()) == [0, 1, 3, 4]
    assert place(logprobs[None], [0], [2], whole) == [([0], [logprobs[0, 2]])]
    for some in (pool, pool.repeat(1, 2)):  # a token that is there twice counts once
        [(ranks, values)] = place(logprobs[None], [0] * 5, [0, 1, 2, 3, 4], some)
        assert ranks == [0, 2, 4, 1, 3] and values == logprobs[0].tolist()


@pytest.mark.parametrize("mode", ["decoupled", "decoupled, contrastive"])
def test_what_experts_propose_has_the_first_ranks(target, mode: str) -> None:
    """Every token as every node's pick: a rank below top_k is that of a candidate, and of nothing else."""
    torch.manual_seed(0)
    _, drafter = drafter_for(target, mode)
    tree, width = drafter.draft(Context(PROMPT, torch.randn(len(PROMPT) - 1, 32), room=9)), drafter.settings.top_k
    overtaken = 0
    found = [drafter.inspect(tree, [token] * len(tree)) for token in range(300)]
    for node, depth in enumerate(tree.depths()):
        columns = [{name: values[node] for name, values in one.items() if name.startswith("pick")} for one in found]
        if columns[0]["pick_rank"] is None or depth == drafter.settings.depth - 1:  # the last level may be contrastive
            continue
        ours = [min(one["pick_expert0_rank"], one["pick_expert1_rank"]) < width for one in columns]
        assert [one["pick_rank"] < sum(ours) for one in columns] == ours
        likeliest = sorted(range(300), key=lambda token: -columns[token]["pick_draft_logprob"])
        overtaken += {token for token in range(300) if ours[token]} != set(likeliest[: sum(ours)])
    assert overtaken, "somewhere the blend prefers a token of neither expert"
