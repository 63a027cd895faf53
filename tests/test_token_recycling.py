"""Token recycling: what is remembered of the target's logits, and the tree that grows from it."""

from __future__ import annotations

import math

import pytest
import torch

from jakiro.drafter import Context
from jakiro.engine import decode, record
from jakiro.methods.token_recycling import READ, Settings, TokenRecyclingDrafter
from jakiro.tree import DraftTree
from jakiro.verify import GREEDY

PROMPT = [5, 17, 230, 41, 5, 17]
KNOWN = {1: {2: math.log(0.6), 3: math.log(0.3)}, 2: {1: math.log(0.9), 4: math.log(0.05)}, 3: {3: math.log(0.5)}}


def drafter(target, **settings) -> TokenRecyclingDrafter:
    return TokenRecyclingDrafter(target, Settings(**settings))


def drafted(target, memory=KNOWN, room=9, **settings) -> tuple[TokenRecyclingDrafter, DraftTree]:
    """A draft under token 1, of which nothing is learnt."""
    one = drafter(target, **settings)
    one.memory = dict(memory)
    return one, one.draft(Context([9, 1], torch.zeros(1, target.hidden_size), room))


def paths(tree: DraftTree) -> dict[tuple[int, ...], float]:
    found = {0: ()}
    for node in range(1, len(tree)):
        found[node] = (*found[tree.parents[node]], tree.tokens[node])
    return {path: tree.scores[node] for node, path in found.items() if path}


def test_the_likeliest_paths_through_the_matrix_are_drafted(target):
    _, tree = drafted(target, total_tokens=6, depth=3)
    assert {path: round(math.exp(score), 4) for path, score in paths(tree).items()} == {
        (2,): 0.6, (2, 1): 0.54, (2, 1, 2): 0.324, (3,): 0.3, (2, 1, 3): 0.162,
    }  # fmt: skip


def test_a_smaller_tree_is_the_best_of_a_larger_one(target):
    largest = paths(drafted(target, total_tokens=40, depth=5)[1])
    best = sorted(largest, key=largest.get, reverse=True)
    for count in range(1, 9):
        assert set(paths(drafted(target, total_tokens=count + 1, depth=5)[1])) == set(best[:count])


@pytest.mark.parametrize(("settings", "room", "levels"), [({"depth": 2}, 9, 2), ({}, 1, 1), ({}, 0, 0)])
def test_no_level_is_below_depth_and_room(target, settings, room, levels):
    assert max(drafted(target, room=room, **settings)[1].depths()) == levels


def test_of_each_token_no_more_is_used_than_is_to_be_remembered(target):
    assert set(paths(drafted(target, remembered=1)[1])) == {(2,), (2, 1), (2, 1, 2), (2, 1, 2, 1), (2, 1, 2, 1, 2),
                                                            (2, 1, 2, 1, 2, 1)}  # fmt: skip


def test_what_did_not_fit_is_told(target):
    one, tree = drafted(target, total_tokens=3, depth=2)
    assert set(paths(tree)) == {(2,), (2, 1)}
    cut = one.cut(tree)
    assert [(parent, token, round(math.exp(score), 3)) for parent, token, score in
            zip(cut.parents, cut.tokens, cut.scores, strict=True)] == [(0, 3, 0.3), (1, 4, 0.03)]  # fmt: skip


def test_ranks_are_those_of_the_tree_and_of_the_targets_choices(target):
    one, tree = drafted(target, total_tokens=5, depth=2)
    assert tree.tokens == [1, 2, 1, 3, 3] and tree.parents == [-1, 0, 1, 0, 3]
    found = one.inspect(tree, [3, 4, 2, 7, 3])
    assert found["rank"] == [None, 0, 0, 1, 0] and found["pick_rank"] == [1, 1, None, None, None]
    assert found["logprob"][3] == math.log(0.3) and found["pick_draft_logprob"][:2] == [math.log(0.3), math.log(0.05)]


def test_rejected_nodes_are_learnt_from(target):
    """The matrix has the target's own likeliest tokens after every node of the last tree."""
    seen = []

    class Watching(TokenRecyclingDrafter):
        def draft(self, context):
            tree = super().draft(context)
            if context.tree is not None:
                seen.append((context.tree, context.logits.log_softmax(-1), dict(self.memory)))
            return tree

    trace = record(target, Watching(target, Settings(remembered=3)), PROMPT, 24, GREEDY)
    rejected = 0
    for step, (tree, logprobs, memory) in zip(trace.steps, seen, strict=False):
        assert tree.tokens == step.tree.tokens
        last = {token: node for node, token in enumerate(tree.tokens)}  # a token may stand at several nodes
        for token, node in last.items():
            best = logprobs[node].topk(3)
            assert list(memory[token]) == best.indices.tolist()
            assert list(memory[token].values()) == pytest.approx(best.values.tolist(), abs=1e-5)
        rejected += len(set(last.values()) - {0, *step.accepted})
    assert seen and rejected


def test_the_end_of_the_prompt_is_learnt_before_the_first_round(target):
    prompt = [*range(10, 10 + READ + 5)]
    one = drafter(target)
    events = decode(target, one, prompt, 9, GREEDY)
    for _ in range(2):
        next(events)
    assert set(prompt[-READ:]) <= set(one.memory) and prompt[0] not in one.memory


def test_where_nobody_tells_of_trees_the_text_is_learnt_from(target):
    """As in Compare, which drafts after every token of a text."""
    one, features = drafter(target), torch.randn(3, target.hidden_size)
    one.draft(Context([7, 8, 9], features[:2], 9))
    assert [*one.memory] == [7, 8]
    one.draft(Context([7, 8, 9, 7], features[2:], 9))
    assert [*one.memory] == [7, 8, 9]


def test_a_target_whose_features_cannot_be_read_is_learnt_from_its_logits_alone(target, monkeypatch):
    monkeypatch.setattr(target, "logit_scale", 0)
    plain = record(target, drafter(target), PROMPT, 24, GREEDY)
    assert len(plain.steps[0].tree) == 1 and any(len(step.tree) > 1 for step in plain.steps)
