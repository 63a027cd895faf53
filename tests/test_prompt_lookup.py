"""What prompt lookup copies."""

from __future__ import annotations

import pytest
import torch

from jakiro.drafter import Context
from jakiro.methods.prompt_lookup import PromptLookupDrafter, Settings


def draft(tokens: list[int], room: int = 99, **settings):
    return PromptLookupDrafter(Settings(**settings)).draft(Context(tokens, torch.empty(0), room))


@pytest.mark.parametrize(
    ("tokens", "copied"),
    [
        ([1, 2, 3, 9, 1, 2], [2, 3, 4, 5]),
        ([1, 2, 7, 1, 2, 8, 1, 2], [5, 6, 7, 5]),  # the most recent of two, going on with what it drafts
        ([1, 2, 7, 5, 2, 8, 1, 2], [2, 3, 4, 5]),  # the longer match wins over the more recent
        ([4, 4], [1, 1, 1, 1]),
        ([6, 1, 2, 1, 2], [3, 4, 3, 4]),
        ([1, 2, 3], []),
        ([1], []),
    ],
)
def test_copies(tokens, copied):
    tree = draft(tokens, depth=4)
    assert tree.columns["copied_from"] == [None, *copied]
    assert tree.tokens == [tokens[-1], *(tokens[index] for index in copied)]
    assert tree.parents == list(range(-1, len(copied)))
    assert tree.scores == [0.0] * len(tree)


def test_minds_depth_room_and_ngram():
    tokens = [1, 2, 3, 4, 1, 2]
    assert len(draft(tokens, depth=3)) == 4
    assert len(draft(tokens, room=2)) == 3
    assert len(draft(tokens, room=0)) == 1
    assert draft([1, 2, 7, 5, 2, 8, 1, 2], max_ngram=1, depth=1).columns["copied_from"] == [None, 5]


def test_indexes_what_came_since():
    """One drafter over a growing text says what a fresh one says of it."""
    text = [3, 1, 2, 3, 1, 5, 2, 3, 1, 2, 2, 3, 1]
    drafter = PromptLookupDrafter(Settings())
    for length in (2, 3, 6, 7, 11, 13):
        tree = drafter.draft(Context(text[:length], torch.empty(0), 9))
        assert tree == draft(text[:length], room=9)
