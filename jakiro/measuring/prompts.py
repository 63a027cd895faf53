"""What a benchmark asks: prompts of files, or the page's examples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jakiro.assets import PROMPTS
from jakiro.measuring.report import MEAN
from jakiro.text import half


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question of a task; only the first turn of a conversation is asked."""

    task: str
    id: str
    text: str


def _prompt(line: str, task: str, number: int) -> Prompt:
    try:
        read: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({error})") from error
    if not isinstance(read, dict) or "turns" not in read:
        raise ValueError("has no 'turns'")
    turns = read["turns"]
    if not isinstance(turns, list) or not turns or not isinstance(turns[0], str) or not turns[0].strip():
        raise ValueError("has no question at the beginning of its 'turns'")
    if half(turns[0]):
        raise ValueError("has half a character (a lone surrogate) in its question")
    given = read.get("id")
    return Prompt(task, str(number if given is None else given), turns[0])


def read_prompts(paths: Sequence[Path] | None, limit: int | None = None) -> list[Prompt]:
    """The first `limit` prompts of each JSONL file, whose lines have `turns`; the file's name is the task. Without
    files the page's examples.

    Blank lines are passed over; a line without an `id` has its number. Raises OSError or ValueError, naming the file
    and the line, also for a second prompt of the same task and id, and for a task called MEAN.
    """
    if not paths:
        return examples(limit)
    prompts, places = [], {}
    for path in paths:
        if path.stem == MEAN:
            raise ValueError(f"{path}: a task cannot be called {MEAN}, as all tasks together are; rename the file")
        try:
            lines = enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text ({error}): write it again as UTF-8") from error
        asked = [(number, line) for number, line in lines if line.strip()][:limit]
        if not asked:
            raise ValueError(f"{path} holds no prompts: leave it out")
        for number, line in asked:
            place = f"{path}, line {number}"
            try:
                one = _prompt(line, path.stem, number)
            except ValueError as error:
                raise ValueError(f'{place} {error}: write {{"turns": ["question"]}}') from error
            if other := places.get((one.task, one.id)):
                raise ValueError(
                    f"{place}: task {one.task!r} has a prompt {one.id!r} already ({other}); rename the file or the id"
                )
            places[one.task, one.id] = place
            prompts.append(one)
    return prompts


def examples(limit: int | None = None) -> list[Prompt]:
    """The page's examples, as one task."""
    found = json.loads(PROMPTS.read_text(encoding="utf-8"))[:limit]
    return [Prompt("examples", example["label"], example["prompt"]) for example in found]


def spread(prompts: Sequence[Prompt], most: int) -> list[Prompt]:
    """At most so many of the prompts, evenly from first to last."""
    count = min(most, len(prompts))
    return [prompts[at * len(prompts) // count] for at in range(count)]
