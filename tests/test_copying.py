"""Copies in place of drafts: where they are made, and that the other drafter misses nothing of the text."""

from __future__ import annotations

from collections import Counter

import pytest

from jakiro.compare import along
from jakiro.engine import record
from jakiro.methods import METHODS, with_trees
from jakiro.trace import walk_positions
from jakiro.verify import Sampling

PROMPT = [5, 17, 3, 250, 99]
TREE = {"top_k": 4, "depth": 3, "total_tokens": 8}


def drafter(target, name, **settings):
    method = METHODS[name]
    return method.load(target)(method.settings(**settings))


def naive(text: list[int], least: int, count: int) -> list[int]:
    """The tokens after the longest match of at most two tokens more than have to match, of several after the last."""
    for size in (least + 2, least + 1, least):
        for end in range(len(text) - 1, size - 1, -1):
            if text[end - size : end] == text[-size:]:
                period = len(text) - end
                return [text[end + at % period] for at in range(count)]
    return []


@pytest.mark.parametrize(("temperature", "lookup"), [(0.0, 1), (0.8, 1)])
@pytest.mark.parametrize("name", with_trees())
def test_a_round_is_a_copy_where_the_text_repeats_itself_and_else_what_it_was(target, name, temperature, lookup):
    asked = PROMPT, 60, Sampling(temperature, 1.0, 3)
    trace = record(target, drafter(target, name, lookup=lookup, **TREE), *asked)
    assert trace.tokens == record(target, drafter(target, "vanilla"), *asked).tokens
    plain, kinds = along(target, drafter(target, name, **TREE), trace), Counter()
    for start, own in list(walk_positions(trace))[:-1]:  # the last one has less room
        copy = naive(trace.prompt + trace.tokens[:start], lookup, min(7, 60 - start - 1))
        kinds[bool(copy)] += 1
        if copy:
            assert own.tree.tokens[1:] == copy and own.tree.parents == [*range(-1, len(copy))]
            assert "rank" not in own.tree.columns and len(own.tree.columns["copied_from"]) == len(own.tree)
        else:
            there = plain[start - 1].tree
            assert (own.tree.tokens, own.tree.parents) == (there.tokens, there.parents)
            assert own.tree.scores == pytest.approx(there.scores, abs=1e-3)
            assert own.tree.columns["rank"] == there.columns["rank"] and own.tree.cut.tokens == there.cut.tokens
    assert kinds[True] > 2 and kinds[False] > 2


def test_a_copy_has_as_many_nodes_as_a_tree_and_no_more_levels_than_one_may_have(target):
    looping = [7, 8] * 20
    for total, nodes in ((8, 8), (512, 65)):
        found = record(target, drafter(target, "eagle2", lookup=2, total_tokens=total), looping, 99, Sampling())
        copied = [step.tree for step in found.steps if "copied_from" in step.tree.columns]
        assert max(map(len, copied)) == nodes
