"""Prompt lookup: drafts by copying what followed the same words before. It needs no model and no training.

After Saxena's prompt lookup decoding (2023), with two differences. Of several matches the most recent one is copied,
since a text goes on more like its last lines than its first. A copy that reaches the end of the context goes on with
what it has drafted, as LZ77 does, so that a loop of any period is drafted to full depth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jakiro.drafter import Context, Drafter
from jakiro.settings import check, setting
from jakiro.target import Target
from jakiro.tree import DraftTree


@dataclass(frozen=True, slots=True)
class Settings:
    """How much must match, and how much is copied."""

    max_ngram: int = setting(3, "Longest run of tokens to look for; shorter ones are tried after it.", 1, 16)
    depth: int = setting(8, "Tokens to copy after a match.", 1, 64)

    def __post_init__(self) -> None:
        check(self)


class PromptLookupDrafter(Drafter):
    """A chain copied from the context, or only the root where nothing matches.

    There is no draft distribution, so every score is 0.0: the copy is proposed without a doubt.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.follower: dict[tuple[int, ...], int] = {}  # n-gram -> index of the token after its latest occurrence
        self.indexed = 0  # tokens whose n-grams are in `follower`

    def draft(self, context: Context) -> DraftTree:
        tokens = context.tokens
        self._index(tokens)
        start = self._match(tokens)
        depth = 0 if start is None else min(self.settings.depth, context.room)
        copied = [start + level % (len(tokens) - start) for level in range(depth)]
        return DraftTree(
            [tokens[-1], *(tokens[index] for index in copied)],
            list(range(-1, depth)),
            [0.0] * (depth + 1),
            {"copied_from": [None, *copied]},
        )

    def _index(self, tokens: list[int]) -> None:
        """Note the follower of every n-gram but the last, which nothing follows yet."""
        for end in range(self.indexed + 1, len(tokens)):
            for size in range(1, min(self.settings.max_ngram, end) + 1):
                self.follower[tuple(tokens[end - size : end])] = end
        self.indexed = len(tokens) - 1

    def _match(self, tokens: list[int]) -> int | None:
        """What followed the longest ending of the context that occurred before."""
        for size in range(min(self.settings.max_ngram, len(tokens) - 1), 0, -1):
            start = self.follower.get(tuple(tokens[-size:]))
            if start is not None:
                return start
        return None


class PromptLookup:
    """Copies from the prompt and the text so far."""

    name = "prompt_lookup"
    title = "Prompt lookup"
    summary = "Copies what followed the same tokens earlier in the text; needs no trained head."
    settings = Settings
    head = None

    def defaults(self, target: Target) -> Settings:
        return Settings()

    def unavailable(self, target: Target) -> str:
        return ""

    def load(self, target: Target) -> Callable[[Settings], PromptLookupDrafter]:
        return PromptLookupDrafter
