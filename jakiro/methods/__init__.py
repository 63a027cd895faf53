"""The methods, in the order in which the page shows them. A new one is a file here and a line in `METHODS`."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

from jakiro.drafter import Drafter
from jakiro.drafting.sizes import TreeSettings
from jakiro.drafting.weights import read_config
from jakiro.models import hub, loading
from jakiro.settings import build
from jakiro.target import Target
from jakiro.trace import kind_of

from .draft_model import DraftModel, check_tokens
from .eagle2 import Eagle2
from .eagle3 import Eagle3
from .jakiro import Jakiro
from .prompt_lookup import PromptLookup
from .token_recycling import TokenRecycling
from .vanilla import Vanilla


class Method(Protocol):
    """A way to draft, as the page and the command line see it."""

    name: str  # key in METHODS, traces and commands
    title: str  # what people call it
    summary: str  # one sentence
    settings: type  # a frozen dataclass; each field becomes one control
    head: type | None  # of the trained head or the model that it needs, which `--head name=DIR` gives; or None

    def defaults(self, target: Target) -> Any:
        """Settings that suit the target, its device and the method's head, for a target that is not `unavailable`."""

    def unavailable(self, target: Target) -> str:
        """Why it cannot run on this target, with the remedy; empty if it can."""

    def load(self, target: Target) -> Callable[[Any], Drafter]:
        """Read what it needs, once. The result makes a fresh drafter, from settings, for every run."""


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Vanilla(),
        PromptLookup(),
        TokenRecycling(),
        DraftModel(),
        Eagle2(),
        Eagle3(),
        Jakiro(),
    )
}
DRAFT_MODEL = DraftModel.name  # whose model `bench --peers` assists the target with, too


def on_heads(kind: type | tuple[type, ...] = object) -> list[str]:
    """Names of the methods on a trained head or model, or on one of that kind or of one of those."""
    return [name for name, method in METHODS.items() if method.head is not None and issubclass(method.head, kind)]


def with_trees() -> list[str]:
    """Names of the methods that draft a dynamic tree: those whose settings have its sizes."""
    return [name for name, method in METHODS.items() if issubclass(method.settings, TreeSettings)]


def check_known(name: str) -> None:
    """Raise ValueError where no method has the name."""
    if name not in METHODS:
        raise ValueError(f"unknown method {name[:40]!r}; known: {', '.join(METHODS)}")


def changed(names: Sequence[str], changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of each method those changes that are of its settings.

    Raises ValueError for an unknown method, a setting that none of them has, and a value that a method does not take.
    """
    for name in names:
        check_known(name)
    known = {name: [one.name for one in fields(METHODS[name].settings)] for name in names}
    if unknown := changes.keys() - {one for own in known.values() for one in own}:
        those = ", ".join(sorted({one for own in known.values() for one in own})) or "none"
        raise ValueError(f"no method here has the setting {', '.join(sorted(unknown))}; known: {those}")
    found = {name: {one: value for one, value in changes.items() if one in known[name]} for name in names}
    for name, own in found.items():
        try:
            build(METHODS[name].settings, None, own)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return found


def meet(names: Iterable[str]) -> None:
    """Know the methods of these heads: "eagle2-mine" is eagle2 with another head, and becomes a method of its own.

    Raises ValueError for a head of no method, which would be left aside silently.
    """
    for name in names:
        kind, dash, label = name.partition("-")
        if dash and kind in on_heads() and name not in METHODS:
            if not re.fullmatch(r"[A-Za-z0-9_.]{1,24}", label):
                told = f"after {kind}- write up to 24 letters, digits, _ and ."
                raise ValueError(f"--head {name[:40]!r} names no second head of {kind}: {told}")
            other = METHODS[name] = copy.copy(METHODS[kind])
            other.name, other.title = name, f"{other.title} ({label})"
            order = [*METHODS]
            beside = sorted(METHODS.items(), key=lambda item: order.index(kind_of(item[0])))
            METHODS.clear()
            METHODS.update(beside)
        if name not in on_heads():
            known = ", ".join(on_heads())
            raise ValueError(f"--head {name}: no method with a head is called {name!r}; known: {known}")


def check_fit(target: str | Path, heads: Mapping[str, str | Path]) -> None:
    """Raise OSError or ValueError, before a target's weights are read, for a head that is not there or whose
    config.json says that it was made for a target of other sizes, and for a draft model with other tokens."""
    hub.check(folder := hub.local(target))
    found, sizes = hub.heads(folder, heads), loading.sizes(folder)
    for name in heads:
        if kind := getattr(METHODS[name].head, "Config", None):
            read_config(found[name], sizes, kind)
        elif kind_of(name) == DRAFT_MODEL:
            check_tokens(found[name], loading.read_tokenizer(folder), hub.title(target))


def with_heads(names: Sequence[str], heads: Iterable[str]) -> list[str]:
    """The names and those of heads that were given, which are meant too, in the order of the methods."""
    return [name for name in METHODS if name in {*names, *heads}]


def check_tree(name: str) -> None:
    """Raise ValueError for an unknown method, and for one whose draft has no sizes to tune."""
    check_known(name)
    if name not in with_trees():
        raise ValueError(f"{name} has no draft tree to tune; those that have one: {', '.join(with_trees())}")
