"""Prompt lookup: drafts by copying what followed the same words before. It needs no model and no training.

After Saxena's prompt lookup decoding (2023), with two differences. Of several matches the most recent one is copied,
since a text goes on more like its last lines than its first. A copy that reaches the end of the context goes on with
what it has drafted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jakiro.drafter import Context, Drafter
from jakiro.drafting.copying import Repeats
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
    """A chain copied from the context, or only the root where nothing matches."""

    def __init__(self, settings: Settings) -> None:
        self._depth, self._text = settings.depth, Repeats(1, settings.max_ngram)

    def draft(self, context: Context) -> DraftTree:
        return self._text.chain(context.tokens, min(self._depth, context.room))


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
