"""The training loop: progress bar, metrics as CSV, checkpoints, and a resume that continues the same curve.

The loop knows nothing of models or data. A `Job` gives it named states to save and does one step at a time; everything
that a step depends on is either in those states or a function of the step's number, so that an interrupted run that is
started again writes the same metrics as one that was not.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from pickle import UnpicklingError
from typing import Protocol

import torch
from tqdm import tqdm

from jakiro.files import replacing
from jakiro.training import curves


class Job(Protocol):
    """What the loop drives."""

    steps: int

    def states(self) -> dict[str, object]:
        """Name -> object with state_dict() and load_state_dict()."""
        ...

    def step(self, index: int) -> dict[str, float]:
        """Do optimizer step `index` (from 0) and return its metrics, the same names at every step."""
        ...


def run(job: Job, folder: Path, main: bool = True, save_every: int = 100, stop_after: int | None = None) -> None:
    """Do the steps that `folder` does not yet hold. Metrics go to metrics.csv and curves.html, state to checkpoint.pt.

    Of several processes all must call this, and the `main` one writes. `stop_after` ends the run after that many steps
    in all, as an interrupt would. An interrupt (Ctrl-C) loses what came after the last checkpoint; the rows of
    metrics.csv past it are dropped on resume. Raises ValueError where the files of a run do not fit together, and at a
    step whose metrics are no finite numbers, the norm of its gradient among them: what is then in the weights is in no
    checkpoint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint, metrics = folder / "checkpoint.pt", folder / "metrics.csv"
    done = _resume(job, checkpoint) if checkpoint.exists() else 0
    rows = kept_rows(metrics, done)
    if len(rows) != done:
        has = f"{metrics} has {len(rows)} of the {done} steps of {checkpoint.name}"
        raise ValueError(f"{has}: take it from a copy, or delete {folder} to train anew")
    end = min(job.steps, stop_after or job.steps)
    what = {"total": job.steps, "initial": done, "desc": folder.name, "unit": "step", "dynamic_ncols": True}
    with tqdm(**what, disable=not main) as bar:
        for index in range(done, end):
            row = job.step(index)
            if lost := [name for name, value in row.items() if not math.isfinite(value)]:
                raise ValueError(
                    f"{lost[0]} is {row[lost[0]]} in step {index + 1}, and nothing past the last checkpoint is kept: "
                    "lower the recipe's `rate`, or what else in it is extreme"
                )
            told = {name: f"{value:.{15 if float(value).is_integer() else 6}g}" for name, value in row.items()}
            rows.append({"step": index + 1, **told})
            bar.set_postfix({name: f"{value:.4g}" for name, value in row.items()})
            bar.update()
            if (index + 1) % save_every == 0 or index + 1 == end:
                states = {name: state.state_dict() for name, state in job.states().items()}  # by all processes
                if main:
                    write_rows(metrics, rows)  # before it: rows past a checkpoint are dropped on resume
                    save(states | {"step": index + 1}, checkpoint)
                    curves.draw(folder)


def _resume(job: Job, checkpoint: Path) -> int:
    saved, states = read(checkpoint), job.states()  # each state moves its own to its device
    if not isinstance(saved, dict) or not {"step", *states} <= saved.keys():
        raise ValueError(f"{checkpoint} is of another run: take it from a copy, or delete {checkpoint.parent}")
    for name, state in states.items():
        state.load_state_dict(saved[name])
    return saved["step"]


def read(file: Path) -> dict:
    """What `save` wrote, on the CPU. Raises ValueError naming a file that is damaged."""
    try:
        return torch.load(file, weights_only=True, map_location="cpu")
    except PermissionError:
        raise
    except (UnpicklingError, RuntimeError, EOFError, ValueError, OSError, LookupError) as error:  # cut off it is any
        raise ValueError(f"{file} is damaged: delete it, and what it held is made again") from error


def save(states: dict, file: Path) -> None:
    """Write tensors by name, whole or not at all."""
    with replacing(file) as new:
        torch.save(states, new)


def kept_rows(metrics: Path, done: float = math.inf) -> list[dict[str, str]]:
    """The rows of the first `done` steps of a CSV file that `write_rows` wrote; none where it is not there.

    Raises ValueError naming a file that another program has saved in its own way.
    """
    if not metrics.exists():
        return []
    try:
        with metrics.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for value in [value for row in rows for value in row.values() if value]:
            float(value)
        return [row for row in rows if int(row["step"]) <= done]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{metrics} is not as it was written ({error}): take it from a copy") from error


def write_rows(metrics: Path, rows: list[dict]) -> None:
    """A CSV file of the rows, whole or not at all. A column that a row has not is empty there."""
    with replacing(metrics) as new, new.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
