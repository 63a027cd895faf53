"""How sure tau and speeds are: confidence intervals of variants that decoded the same prompts, and of ratios of two.

Intervals are percentiles of a bootstrap over prompts (Efron 1979), drawn anew within each task, the same prompts for
all variants, so that a ratio of two is paired. Of n prompts n - 1 are drawn, since n would spread less than prompts do,
by a factor of (n - 1) / n of the variance (Rao and Wu 1988), which counts where tasks have few. A speed is known as
well as its prompts' seconds are: what made a whole run quicker or slower is in no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jakiro.measuring.report import Sample

DRAWS = 20_000  # of the bootstrap: an edge is known to about 0.5 % of its interval, by 2,000 to 1.5 %
LEVEL = 95  # per cent of them that an interval holds
FEW = 10  # prompts, of fewer of which 95 % intervals hold the truth in less than 90 % (tests/test_experiment.py)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing in which two variants differ."""

    what: str
    variant: str
    against: str


def check_tasks(tasks: Sequence[str]) -> None:
    """Raise ValueError where a task has one prompt alone: drawn again and again, it always gives the same tau.

    `tasks` has one entry a prompt.
    """
    if alone := [task for task in tasks if tasks.count(task) == 1]:
        raise ValueError(
            f"task {alone[0]!r} has one prompt, from which no interval can be drawn: "
            "measure at least two of each file (--limit 2 or more)"
        )


def intervals(
    samples: Sequence[Sample], names: Sequence[str], reference: str, draws: int = DRAWS
) -> list[dict[str, Any]]:
    """For each variant and temperature tau, mean of the tasks, and its ratio to the reference's; tokens/s over the
    reference's and, where that was measured, over vanilla's (`speedup`), as report.py has it. All with intervals.

    A text that ends with its first token has no round, and nothing to say: such prompts are left out, and tasks of
    which they leave a single one. Raises ValueError where nothing is left.
    """
    every = [*names, *(["vanilla"] if any(one.method == "vanilla" for one in samples) else [])]
    bases = every.index(reference), every.index("vanilla") if "vanilla" in every else None
    found = []
    for temperature in sorted({sample.temperature for sample in samples}):
        table = _counts([one for one in samples if one.temperature == temperature], every)
        if not table:
            few = "no task has two texts that go on after their first token"
            raise ValueError(f"at temperature {temperature:g} {few}: try other prompts")
        rng = np.random.default_rng(0)
        prompts = sum(counts.shape[1] for counts in table)
        drawings = [_drawings(rng, draws, counts.shape[1]) for counts in table]
        real = _told([counts.sum(axis=1) for counts in table], *bases)
        drawn = [np.tensordot(counts, times, (1, 1)) for counts, times in zip(table, drawings, strict=True)]
        edges = {f"{what}_interval": values for what, values in _told(drawn, *bases).items()}
        for index, name in enumerate(names):
            row = {"variant": name, "reference": reference, "temperature": temperature, "prompts": prompts}
            row |= {what: float(values[index]) for what, values in real.items()}
            found.append(row | {what: _middle(values[index]) for what, values in edges.items()})
    return found


def note_of_few(rows: Sequence[dict[str, Any]]) -> str:
    """How far to trust rows of `intervals` of few prompts; else empty, also for older ones, which have no count."""
    few = min(row.get("prompts", FEW) for row in rows)
    return f"Of {few} prompts in all, intervals are too narrow: measure {FEW} or more." if few < FEW else ""


def differences(samples: Sequence[Sample], parts: Sequence[Part]) -> list[dict[str, Any]]:
    """What each part brings by temperature: its variant's tau over that of the one without it, with intervals."""
    return [
        row | asdict(part)
        for part in parts
        for row in intervals(samples, [part.against, part.variant], part.against)[1::2]  # of its variant
    ]


def _counts(samples: Sequence[Sample], names: Sequence[str]) -> list[np.ndarray]:
    """For each task, prompts in one order for all variants: rounds, and of each repeat tokens decoded and their
    seconds, [variants, prompts, 1 + 2 * repeats].

    Prompts without a round are left out, and tasks with fewer than two others.
    """
    table, repeats = [], range(1 + max(sample.repeat for sample in samples))
    for task in dict.fromkeys(sample.task for sample in samples):
        own = {(one.method, one.prompt, one.repeat): one for one in samples if one.task == task}
        prompts = list(dict.fromkeys(prompt for _, prompt, _ in own))
        runs = [[[own[name, prompt, repeat] for repeat in repeats] for prompt in prompts] for name in names]
        spent = np.array([[[(one.decoded, one.decode_s) for one in all] for all in line] for line in runs], dtype=float)
        rounds = np.array([[[first.reached[0]] for first, *_ in line] for line in runs], dtype=float)
        counts = np.concatenate([rounds, spent.reshape(*rounds.shape[:2], -1)], axis=2)
        table.append(counts[:, (rounds[..., 0] > 0).all(axis=0)])
    return [counts for counts in table if counts.shape[1] > 1]


def _drawings(rng: np.random.Generator, draws: int, prompts: int) -> np.ndarray:
    """How often each prompt of a task is drawn, [draws, prompts]: in every row one fewer than there are."""
    places = rng.integers(prompts, size=(draws, prompts - 1)) + prompts * np.arange(draws)[:, None]
    return np.bincount(places.ravel(), minlength=draws * prompts).reshape(draws, prompts)


def _told(sums: list[np.ndarray], base: int, vanilla: int | None) -> dict[str, np.ndarray]:
    """What is told of each variant, [variants, ...], from the prompts' sums of each task, [variants, 1 + 2 * repeats,
    ...]. `base` and `vanilla` are places among the variants."""
    tau = np.mean([one[:, 1] / one[:, 0] for one in sums], axis=0)
    found = {"tau": tau, "over_reference": tau / tau[base], "speed_over_reference": _quicker(sums, base)}
    return found if vanilla is None else found | {"speedup": _quicker(sums, vanilla)}


def _quicker(sums: list[np.ndarray], base: int) -> np.ndarray:
    """Tokens/s over those of the variant `base`, the median of the repeats, and of these the mean of the tasks."""
    speeds = [one[:, 1::2] / one[:, 2::2] for one in sums]
    return np.mean([np.median(one / one[base], axis=1) for one in speeds], axis=0)


def _middle(values: np.ndarray) -> list[float]:
    edge = (100 - LEVEL) / 2
    return [float(value) for value in np.percentile(values, [edge, 100 - edge])]
