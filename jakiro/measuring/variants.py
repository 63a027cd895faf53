"""Variants for one benchmark: heads and settings of one's own, side by side under labels, with confidence intervals.

    [{"label": "mine", "method": "jakiro", "head": "heads/mine", "set": {"depth": 4}}, ...]

`head` is a folder or hub id, without it the one that the target names; `set` has settings, the others are the defaults
of target and head. The first variant is what the others are held against; vanilla decodes beside them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jakiro import bench
from jakiro.bench import Methods
from jakiro.measuring.bootstrap import LEVEL, note_of_few
from jakiro.measuring.tables import ranged, table
from jakiro.methods import METHODS, check_known, on_heads
from jakiro.models import hub
from jakiro.settings import build
from jakiro.target import Target
from jakiro.trace import kind_of
from jakiro.training import recipe_file


@dataclass(frozen=True, slots=True)
class Variant:
    """One of them."""

    label: str  # what the report calls it
    method: str
    head: str = ""
    set: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        recipe_file.check_types(self)
        check_known(self.method)
        if self.head and self.method not in on_heads():
            raise ValueError(f"{self.method} takes no head: leave `head` out")
        build(METHODS[self.method].settings, None, self.set)


def read(path: Path) -> list[Variant]:
    """The variants of a file. Raises OSError, or ValueError saying what is wrong with it."""
    try:
        given = json.loads(path.read_text(encoding="utf-8-sig"))
        if not isinstance(given, list):
            raise ValueError('write [{"label": "mine", "method": "jakiro"}, ...]')
        found = [recipe_file.made(Variant, one, f"variant {number}") for number, one in enumerate(given, start=1)]
        bench.check_labels([one.label for one in found])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no list of variants: {error}") from error
    if len(found) < 2:
        raise ValueError(f"{path} has {len(found)} variants: name at least two, of which the first is the reference")
    return found


def folders(target: Target, variants: Sequence[Variant]) -> dict[str, Path]:
    """Label -> folder of its head: its own, fetched from the hub where it is named by id, or the one that the target
    names."""
    given = {head: hub.local(head) for head in dict.fromkeys(one.head for one in variants) if head}
    heads = {one.label: given.get(one.head) or target.heads.get(one.method) for one in variants}
    return {label: folder for label, folder in heads.items() if folder}


def asked_for(target: Target, variants: Sequence[Variant], own: dict[str, Path]) -> Methods:
    """vanilla and the variants by label, as `bench.asked_for` gives methods; `own` are their `folders`.

    Raises ValueError where one cannot run on the target, naming it.
    """
    named = dict(target.heads)
    loaded, made = bench.asked_for(target, ["vanilla"], {}), {}
    for one in variants:
        method, head = METHODS[one.method], (one.method, own.get(one.label))
        try:
            target.heads.update({one.method: own[one.label]} if one.label in own else {})
            if reason := method.unavailable(target):
                raise ValueError(reason)
            made[head] = made.get(head) or method.load(target)  # once for all variants that draft with it
            loaded[one.label] = made[head], build(method.settings, method.defaults(target), one.set)
        except (ValueError, OSError) as error:
            raise ValueError(f"variant {one.label!r}: {error}") from error
        finally:
            target.heads.clear()
            target.heads.update(named)
    return loaded


def of_one_kind(report: dict[str, Any]) -> list[list[str]]:
    """Of a benchmark's methods those that differ in their heads, as [["eagle2", "eagle2-mine"]], where an interval can
    be drawn from every task: from two texts that go on after their first token."""
    kinds = [[name for name in report["settings"] if kind_of(name) == kind] for kind in on_heads()]
    few = {row["method"] for row in report["rows"] if sum(map(bool, row["by_prompt"]["rounds"])) < 2}
    return [names for names in kinds if len(names) > 1 and few.isdisjoint(names)]


def as_markdown(rows: Sequence[dict[str, Any]], reference: str) -> str:
    """A table of `bootstrap.intervals`: tau and tokens/s, and both over the reference's, by which 1 % can be told; of
    few prompts how far to trust it."""
    head = ["variant", "temperature", f"tau, {LEVEL} % interval", f"over {reference}"]
    head += ["speed-up", f"tokens/s over {reference}"]
    shown = (("tau", 2), ("over_reference", 3), ("speedup", 2), ("speed_over_reference", 3))
    lines = (
        [row["variant"], f"{row['temperature']:g}", *(ranged(row, name, digits) for name, digits in shown)]
        for row in rows
    )
    return "\n\n".join(filter(None, [table(head, lines), note_of_few(rows)]))
