"""An experiment on draft heads: train several under the same conditions, decode with each in several ways, compare.

What is compared stands in a JSON file, so that the command is short and the file is the record of what was done:

    {"question": text, "reference": label that the others are compared with,
     "training": {a head recipe, training/heads.py},
     "variants": [{"label", "head": name in the recipe, "set": {setting: value}}],
     "parts": [{"what": in a few words, "variant": label with it, "against": label without it}],
     "tree": {"top_k", "depth", "total_tokens"}, "temperatures": [..], "max_new_tokens": n}

All heads see the same rows in the same order for as many steps; decoding goes prompt by prompt through all variants.
Confidence intervals are percentiles of a bootstrap over prompts (Efron 1979), drawn anew within each task, the same
prompts for all variants, so that a ratio of two is paired.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from jakiro import bench
from jakiro.bench import Prompt
from jakiro.diversity import run_diversity
from jakiro.engine import record
from jakiro.methods import METHODS
from jakiro.report import Sample
from jakiro.settings import build
from jakiro.target import Target
from jakiro.text import encode
from jakiro.training.head_recipe import HeadRecipe
from jakiro.verify import Sampling

DRAWS = 2000  # of the bootstrap
LEVEL = 95  # per cent of them that an interval holds
LOOKED_AT = 2  # prompts of each task whose experts are looked at


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to decode: one of the trained heads, with settings."""

    label: str
    head: str
    set: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """One thing in which two variants differ."""

    what: str
    variant: str
    against: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is compared, read from JSON."""

    question: str
    reference: str
    training: HeadRecipe
    variants: list[Variant]
    tree: dict[str, int]
    temperatures: list[float]
    max_new_tokens: int
    parts: list[Part] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """Raises OSError, or ValueError naming what is unknown or missing."""
        data = json.loads(path.read_text(encoding="utf-8"))
        try:
            training = HeadRecipe.of(data.pop("training"))
            variants = [Variant(**{"set": {}, **one}) for one in data.pop("variants")]
            parts = [Part(**one) for one in data.pop("parts", [])]
            found = cls(training=training, variants=variants, parts=parts, **data)
        except (TypeError, KeyError) as error:
            raise ValueError(f"{path} is not an experiment: {error}") from error
        for one in variants:
            if one.head not in training.heads:
                raise ValueError(f"{path}: variant {one.label!r} names head {one.head!r}, which `training` has not")
        asked = [
            ("reference", found.reference),
            *(("part's", label) for one in parts for label in (one.variant, one.against)),
        ]
        for what, label in asked:
            if label not in {one.label for one in variants}:
                raise ValueError(f"{path}: the {what} {label!r} is none of the variants")
        return found


def run(
    target: Target, experiment: Experiment, heads: dict[str, Path], prompts: Sequence[Prompt], repeats: int, out: Path
) -> dict[str, Any]:
    """Decode with every variant; a bench report (jakiro-bench/1) with `experiment` beside it.

    `heads` are the folders of the trained heads. An interrupted run goes on from the journal beside `out`.
    """
    methods = _methods(target, experiment, heads)
    samplings = [Sampling(temperature=temperature) for temperature in experiment.temperatures]
    work = (target, prompts, methods, experiment.max_new_tokens, samplings, None, repeats)
    journal = bench.open_journal(out, *work)
    report = bench.run(*work, journal)
    names = [one.label for one in experiment.variants]
    report["experiment"] = {
        "question": experiment.question,
        "reference": experiment.reference,
        "steps": experiment.training.steps,
        "tokens_a_step": experiment.training.rows * experiment.training.row,
        "variants": {one.label: _about(one, experiment, heads) for one in experiment.variants},
        "intervals": intervals(journal.samples(), names, experiment.reference),
        "parts": differences(journal.samples(), experiment.parts),
        "experts": _experts(target, experiment, methods, prompts),
    }
    journal.close()
    return report


def intervals(
    samples: Sequence[Sample], names: Sequence[str], reference: str, draws: int = DRAWS, seed: int = 0
) -> list[dict[str, Any]]:
    """For each variant and temperature: tau, mean of the tasks, and its ratio to the reference's, with intervals."""
    found = []
    for temperature in sorted({sample.temperature for sample in samples}):
        table = _counts([one for one in samples if one.temperature == temperature and one.repeat == 0], names)
        rng = np.random.default_rng(seed)
        chosen = [rng.integers(counts.shape[1], size=(draws, counts.shape[1])) for counts in table]
        real = _tau([counts[:, None] for counts in table])[:, 0]
        drawn = _tau([counts[:, rows] for counts, rows in zip(table, chosen, strict=True)])
        base = list(names).index(reference)
        for index, name in enumerate(names):
            found.append(
                {
                    "variant": name,
                    "temperature": temperature,
                    "tau": float(real[index]),
                    "tau_interval": _middle(drawn[index]),
                    "over_reference": float(real[index] / real[base]),
                    "over_reference_interval": _middle(drawn[index] / drawn[base]),
                }
            )
    return found


def differences(samples: Sequence[Sample], parts: Sequence[Part], draws: int = DRAWS) -> list[dict[str, Any]]:
    """What each part brings by temperature: its variant's tau over that of the one without it, with intervals."""
    return [
        row | asdict(part)
        for part in parts
        for row in intervals(samples, [part.against, part.variant], part.against, draws)[1::2]  # of its variant
    ]


def _counts(samples: Sequence[Sample], names: Sequence[str]) -> list[np.ndarray]:
    """For each task: tokens decoded and rounds, [variants, prompts, 2], prompts in one order for all variants."""
    table = []
    for task in dict.fromkeys(sample.task for sample in samples):
        own = {(one.method, one.prompt): one for one in samples if one.task == task}
        prompts = list(dict.fromkeys(prompt for _, prompt in own))
        rows = [[(own[name, prompt].decoded, own[name, prompt].reached[0]) for prompt in prompts] for name in names]
        table.append(np.array(rows, dtype=float))
    return table


def _tau(table: list[np.ndarray]) -> np.ndarray:
    """Mean over the tasks of tokens over rounds, [variants, draws], from [variants, draws, prompts, 2] of each task."""
    sums = [counts.sum(axis=2) for counts in table]
    return np.mean([one[..., 0] / one[..., 1] for one in sums], axis=0)


def _middle(values: np.ndarray) -> list[float]:
    edge = (100 - LEVEL) / 2
    return [float(value) for value in np.percentile(values, [edge, 100 - edge])]


def _methods(target: Target, experiment: Experiment, heads: dict[str, Path]) -> dict[str, tuple[Any, Any]]:
    vanilla = METHODS["vanilla"]
    methods = {"vanilla": (vanilla.load(target), vanilla.defaults(target))}
    makers = {}
    for name, plan in experiment.training.heads.items():
        target.heads[plan.kind] = heads[name]
        makers[name] = METHODS[plan.kind].load(target)
    for one in experiment.variants:
        method = METHODS[experiment.training.heads[one.head].kind]
        changes = {**experiment.tree, **one.set}
        methods[one.label] = makers[one.head], build(method.settings, method.defaults(target), changes)
    return methods


def _about(variant: Variant, experiment: Experiment, heads: dict[str, Path]) -> dict[str, Any]:
    from jakiro.drafting.weights import read_tensors

    plan = experiment.training.heads[variant.head]
    losses = {name: getattr(plan.losses, name) for name in plan.losses.__slots__}
    size = sum(tensor.numel() for tensor in read_tensors(heads[variant.head]).values())
    return {"head": variant.head, "kind": plan.kind, "parameters": size, "losses": losses, "set": variant.set}


def _experts(target: Target, experiment: Experiment, methods: dict, prompts: Sequence[Prompt]) -> list[dict[str, Any]]:
    """How far the experts of a variant are apart, and how often one alone has what is accepted; temperature 0."""
    some = [
        p for task in dict.fromkeys(p.task for p in prompts) for p in [p for p in prompts if p.task == task][:LOOKED_AT]
    ]
    found = []
    for one in experiment.variants:
        make, settings = methods[one.label]
        budget, ids = experiment.max_new_tokens, [encode(target.tokenizer, prompt.text) for prompt in some]
        traces = [record(target, make(settings), text, budget, Sampling(), one.label, settings) for text in ids]
        runs = [run for run in map(run_diversity, traces) if run and run.overlap]
        if runs:
            rounds = sum(len(trace.steps) for trace in traces)
            rescued = [run.rescued_rounds for run in runs if run.rescued_rounds is not None]
            found.append(
                {
                    "variant": one.label,
                    "overlap": mean(mean(run.overlap.values()) for run in runs),
                    "js": mean(mean(run.js.values()) for run in runs),
                    "rescued_rounds": sum(rescued) / rounds if rescued else None,
                }
            )
    return found
