"""How sure tau is: confidence intervals of variants that decoded the same prompts, and of ratios of two.

Intervals are percentiles of a bootstrap over prompts (Efron 1979), drawn anew within each task, the same prompts for
all variants, so that a ratio of two is paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jakiro.measuring.report import Sample

DRAWS = 20_000  # of the bootstrap: an edge is known to about 0.5 % of its interval, by 2,000 to 1.5 %
LEVEL = 95  # per cent of them that an interval holds


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
    """For each variant and temperature: tau, mean of the tasks, and its ratio to the reference's, with intervals.

    A text that ends with its first token has no round, and nothing to say of tau: such prompts are left out, and tasks
    of which they leave a single one. Raises ValueError where nothing is left.
    """
    found = []
    for temperature in sorted({sample.temperature for sample in samples}):
        table = _counts([one for one in samples if one.temperature == temperature and one.repeat == 0], names)
        if not table:
            few = "no task has two texts that go on after their first token"
            raise ValueError(f"at temperature {temperature:g} {few}: try other prompts")
        rng = np.random.default_rng(0)
        drawings = [_drawings(rng, draws, counts.shape[1]) for counts in table]
        real = _tau([counts.sum(axis=1) for counts in table])
        drawn = _tau([np.tensordot(counts, times, (1, 1)) for counts, times in zip(table, drawings, strict=True)])
        base = list(names).index(reference)
        for index, name in enumerate(names):
            found.append(
                {
                    "variant": name,
                    "reference": reference,
                    "temperature": temperature,
                    "tau": float(real[index]),
                    "tau_interval": _middle(drawn[index]),
                    "over_reference": float(real[index] / real[base]),
                    "over_reference_interval": _middle(drawn[index] / drawn[base]),
                }
            )
    return found


def differences(samples: Sequence[Sample], parts: Sequence[Part]) -> list[dict[str, Any]]:
    """What each part brings by temperature: its variant's tau over that of the one without it, with intervals."""
    return [
        row | asdict(part)
        for part in parts
        for row in intervals(samples, [part.against, part.variant], part.against)[1::2]  # of its variant
    ]


def _counts(samples: Sequence[Sample], names: Sequence[str]) -> list[np.ndarray]:
    """For each task: tokens decoded and rounds, [variants, prompts, 2], prompts in one order for all variants.

    Prompts without a round are left out, and tasks with fewer than two others.
    """
    table = []
    for task in dict.fromkeys(sample.task for sample in samples):
        own = {(one.method, one.prompt): one for one in samples if one.task == task}
        prompts = list(dict.fromkeys(prompt for _, prompt in own))
        rows = [[(own[name, prompt].decoded, own[name, prompt].reached[0]) for prompt in prompts] for name in names]
        counts = np.array(rows, dtype=float)
        table.append(counts[:, (counts[..., 1] > 0).all(axis=0)])
    return [counts for counts in table if counts.shape[1] > 1]


def _drawings(rng: np.random.Generator, draws: int, prompts: int) -> np.ndarray:
    """How often each prompt of a task is drawn, [draws, prompts]: in every row as many as there are."""
    places = rng.integers(prompts, size=(draws, prompts)) + prompts * np.arange(draws)[:, None]
    return np.bincount(places.ravel(), minlength=places.size).reshape(places.shape)


def _tau(sums: list[np.ndarray]) -> np.ndarray:
    """Mean over the tasks of tokens over rounds, [variants, ...], from [variants, 2, ...] of each task."""
    return np.mean([one[:, 0] / one[:, 1] for one in sums], axis=0)


def _middle(values: np.ndarray) -> list[float]:
    edge = (100 - LEVEL) / 2
    return [float(value) for value in np.percentile(values, [edge, 100 - edge])]
