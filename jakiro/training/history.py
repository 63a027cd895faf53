"""What a model has been trained on so far: training.json beside its weights. The card tells it, and `--start` reads it.

A target's entries are its stages, {"stage": fields of Stage, "tokens": seen, "loss": mean of the last 50 steps}; a
head's are its runs, {"steps", "tokens" of a step, "passes", "distinct" tokens of all rows, padding not counted,
"temperatures" of the target's answers or null, "top1": share of positions, mean of the last 100 steps, "note", "apart":
whether texts of one row saw nothing of one another, which older ones do not say}.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jakiro.files import write_text
from jakiro.models.hub import weight_files
from jakiro.training.loop import kept_rows

FILE = "training.json"
WRITTEN = ("config.json", "generation_config.json", "recipe.json", "tokenizer.json", "tokenizer_config.json")


def check_own(folder: Path, field: str) -> None:
    """Raise ValueError where a folder has weights or a model's JSON files that training did not write, or not for a
    model of that kind (`read`), and would write over."""
    if (folder / FILE).exists():
        read(folder, field)
        return
    if there := [*weight_files(folder), *(folder / name for name in WRITTEN if (folder / name).exists())]:
        raise ValueError(f"{there[0]} was not written by training here, and would be written over: name another --out")


def read(folder: Path, field: str = "") -> list[dict[str, Any]]:
    """Entries of the model in `folder`, the oldest first.

    Raises ValueError where there is no such file or a damaged one, or where an entry has no such field: a target's have
    "stage", a head's "steps".
    """
    file = folder / FILE
    if not file.is_file():
        raise ValueError(f"{folder} has no {FILE}, so it cannot be gone on with: name a folder that `train` wrote")
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}): take it from a copy, or train anew") from error
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{file} is damaged (it lists no entries): take it from a copy, or train anew")
    if field and not all(field in entry for entry in entries):
        other = {"stage": "a target", "steps": "a head"}[field]
        raise ValueError(f"{file} has entries without {field!r}: name the folder of {other} that `train` wrote")
    return entries


def write(folder: Path, entries: list[dict[str, Any]]) -> None:
    """Write the entries beside the weights."""
    write_text(folder / FILE, "[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")


def begin(folder: Path, entries: list[dict[str, Any]]) -> None:
    """Write the entries where there are none, before the weights: who is interrupted between them may go on there."""
    if not (folder / FILE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, entries)


def metrics(run: Path) -> list[dict[str, float]]:
    """The rows of metrics.csv in the folder of a run or a stage, each with what was told of its step.

    Raises ValueError where it has none, or was saved in another way.
    """
    kept = kept_rows(run / "metrics.csv")
    rows = [{name: float(value) for name, value in row.items() if value} for row in kept]
    if not rows:
        raise ValueError(f"{run / 'metrics.csv'} is empty: take it from a copy, or delete {run} to train anew")
    return rows


def late(rows: list[dict[str, float]], name: str, steps: int) -> float:
    """Mean of a metric over the last steps."""
    last = [row[name] for row in rows[-steps:]]
    return sum(last) / len(last)
