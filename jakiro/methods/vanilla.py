"""Plain decoding: one token a round, by the same target, cache and loop as every other method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jakiro.drafter import Context, Drafter
from jakiro.target import Target
from jakiro.tree import DraftTree


@dataclass(frozen=True, slots=True)
class Settings:
    """Vanilla decoding has nothing to set."""


class VanillaDrafter(Drafter):
    """Proposes nothing: a tree that is only its root."""

    def draft(self, context: Context) -> DraftTree:
        return DraftTree(context.tokens[-1:], [-1], [0.0])


class Vanilla:
    """The method that all others are compared with."""

    name = "vanilla"
    title = "Vanilla"
    summary = "One pass of the target for every token, nothing drafted: the baseline."
    settings = Settings
    head = None

    def defaults(self, target: Target) -> Settings:
        return Settings()

    def unavailable(self, target: Target) -> str:
        return ""

    def load(self, target: Target) -> Callable[[Settings], VanillaDrafter]:
        return lambda settings: VanillaDrafter()
