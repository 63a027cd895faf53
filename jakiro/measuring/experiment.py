"""An experiment on draft heads: train several under the same conditions, decode with each in several ways, compare.

What is compared stands in a JSON file, so that the command is short and the file is the record of what was done:

    {"question": text, "reference": label that the others are compared with,
     "training": {a head recipe, training/head_recipe.py},
     "variants": [{"label", "head": name in the recipe, "set": {setting: value}}],
     "parts": [{"what": in a few words, "variant": label with it, "against": label without it}],
     "tree": {"top_k", "depth", "total_tokens"}, "temperatures": [..], "max_new_tokens": n}

All heads see the same rows in the same order for as many steps; decoding goes prompt by prompt through all variants.
Confidence intervals are those of bootstrap.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

from jakiro import bench
from jakiro.analysis.diversity import run_diversity
from jakiro.drafting.weights import read_tensors
from jakiro.engine import record
from jakiro.measuring.bootstrap import Part, differences, intervals
from jakiro.measuring.prompts import Prompt
from jakiro.measuring.variants import Variant, asked_for
from jakiro.methods import METHODS
from jakiro.settings import autos, build
from jakiro.target import Target
from jakiro.text import encode
from jakiro.training import history, recipe_file
from jakiro.training.head_recipe import HeadRecipe
from jakiro.verify import GREEDY, Sampling

LOOKED_AT = 2  # prompts of each task whose experts are looked at


@dataclass(frozen=True, slots=True)
class HeadVariant:
    """A way to decode: one of the trained heads, with settings."""

    label: str
    head: str
    set: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is compared, read from JSON."""

    question: str
    reference: str
    training: HeadRecipe
    variants: list[HeadVariant]
    tree: dict[str, int]
    temperatures: list[float]
    max_new_tokens: int
    parts: list[Part] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """Raises OSError, or ValueError naming what is unknown or missing."""
        return recipe_file.read(path, cls.of, "an experiment")

    @classmethod
    def of(cls, data: dict[str, Any]) -> Experiment:
        """From JSON's types. Raises TypeError, KeyError or ValueError naming what is unknown, missing or wrong."""
        data = dict(data)
        training = HeadRecipe.of(data.pop("training"))
        variants = [recipe_file.made(HeadVariant, one, "a variant") for one in data.pop("variants")]
        parts = [recipe_file.made(Part, one, "one of `parts`") for one in data.pop("parts", [])]
        own = {"training": training, "variants": variants, "parts": parts}
        found = recipe_file.made(cls, data | own, "the experiment")
        found._check_labels()
        found._check_decoding()
        return found

    def only(self, names: Sequence[str]) -> Experiment:
        """The same on some of its heads: their variants, and the comparisons that need no other.

        Raises ValueError naming what it has not, or what it cannot do without.
        """
        heads = self.training.heads
        if missing := [name for name in names if name not in heads]:
            raise ValueError(f"no head is called {missing[0]!r}; use some of {', '.join(heads)}")
        variants = [one for one in self.variants if one.head in names]
        labels = {one.label for one in variants}
        if self.reference not in labels:
            needed = next(one.head for one in self.variants if one.label == self.reference)
            raise ValueError(f"the others are compared with {self.reference!r}: name its head {needed!r} as well")
        parts = [one for one in self.parts if {one.variant, one.against} <= labels]
        training = replace(self.training, heads={name: plan for name, plan in heads.items() if name in names})
        found = replace(self, training=training, variants=variants, parts=parts)
        found._check_labels()
        return found

    def _check_labels(self) -> None:
        labels, parts = [one.label for one in self.variants], [one.what for one in self.parts]
        bench.check_labels(labels)
        if twice := [what for what in parts if parts.count(what) > 1]:
            raise ValueError(
                f"two `parts` are called {twice[0]!r}: each is a line of the page, and needs its own `what`"
            )
        for one in self.variants:
            if one.head not in self.training.heads:
                raise ValueError(f"variant {one.label!r} names head {one.head!r}, which `training` has not")
        if len(labels) < 2:
            raise ValueError("an experiment compares at least two variants")
        asked = [("part's", label) for one in self.parts for label in (one.variant, one.against)]
        for what, label in [("reference", self.reference), *asked]:
            if label not in labels:
                raise ValueError(f"the {what} {label!r} is none of the variants")

    def _check_decoding(self) -> None:
        """Whether every variant can be decoded with, so that this is said before heads are trained."""
        for one in self.variants:
            try:
                chosen = build(METHODS[self.training.heads[one.head].kind].settings, None, {**self.tree, **one.set})
            except ValueError as error:
                raise ValueError(f"variant {one.label!r}: {error}") from error
            if found := autos(chosen):
                raise ValueError(f"variant {one.label!r}: {found[0]} is auto; variants are compared with fixed trees")
        heats = [Sampling(temperature=heat).temperature for heat in self.temperatures]
        if not heats or len(set(heats)) < len(heats):
            raise ValueError(f"`temperatures` are {heats}: name at least one, and none twice")
        if not isinstance(self.max_new_tokens, int) or self.max_new_tokens < 2:
            raise ValueError("`max_new_tokens` must be a whole number of at least 2: the first token is no round's")


def run(
    target: Target, experiment: Experiment, heads: dict[str, Path], prompts: Sequence[Prompt], repeats: int, out: Path
) -> tuple[dict[str, Any], bench.Journal]:
    """Decode with every variant; a bench report (jakiro-bench/1) with `experiment` beside it.

    `heads` are the folders of the trained heads. An interrupted run goes on from the journal beside `out`, which is
    to be closed once the report is written. Raises ValueError where no prompt has a round.
    """
    own = {one.label: heads[one.head] for one in experiment.variants}
    methods = asked_for(target, _asked(experiment), own)
    samplings = [Sampling(temperature=temperature) for temperature in experiment.temperatures]
    work = bench.Benchmark(target, prompts, methods, experiment.max_new_tokens, samplings, repeats=repeats)
    journal = work.open_journal(out, own)
    report = work.run(journal)
    names = [one.label for one in experiment.variants]
    report["experiment"] = {
        "question": experiment.question,
        "reference": experiment.reference,
        "training": json.loads((next(iter(heads.values())) / "recipe.json").read_text(encoding="utf-8")),
        "steps": experiment.training.steps,
        "tokens_a_step": experiment.training.rows * experiment.training.row,
        "distinct_tokens": max(history.read(folder)[-1]["distinct"] for folder in heads.values()),
        "variants": {one.label: _about(one, experiment, heads) for one in experiment.variants},
        "intervals": intervals(journal.samples(), names, experiment.reference),
        "parts": differences(journal.samples(), experiment.parts),
        "experts": _experts(target, experiment, methods, prompts),
    }
    return report, journal


def _asked(experiment: Experiment) -> list[Variant]:
    """The variants as those of a benchmark."""
    kinds = {name: plan.kind for name, plan in experiment.training.heads.items()}
    return [Variant(one.label, kinds[one.head], set={**experiment.tree, **one.set}) for one in experiment.variants]


def _about(variant: HeadVariant, experiment: Experiment, heads: dict[str, Path]) -> dict[str, Any]:
    plan = experiment.training.heads[variant.head]
    tensors = read_tensors(heads[variant.head]).values()
    size = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())  # else a table of token ids
    return {
        "head": variant.head,
        "kind": plan.kind,
        "parameters": size,
        "losses": asdict(plan.losses),
        "set": variant.set,
    }


def _experts(target: Target, experiment: Experiment, methods: dict, prompts: Sequence[Prompt]) -> list[dict[str, Any]]:
    """How far the experts of a variant are apart, and how often one alone has what is accepted; temperature 0."""
    tasks: dict[str, list[list[int]]] = {}
    for prompt in prompts:
        tasks.setdefault(prompt.task, []).append(encode(target.tokenizer, prompt.text))
    texts, budget = [ids for task in tasks.values() for ids in task[:LOOKED_AT]], experiment.max_new_tokens
    found = []
    for one in experiment.variants:
        make, settings = methods[one.label]
        traces = [record(target, make(settings), ids, budget, GREEDY, one.label, settings) for ids in texts]
        runs = [run for run in map(run_diversity, traces) if run and run.overlap]
        if runs:
            rounds = sum(len(trace.steps) for trace in traces)
            rescued = [run.rescued_rounds for run in runs if run.rescued_rounds is not None]
            found.append(
                {
                    "variant": one.label,
                    "prompts": len(runs),
                    "overlap": mean(mean(run.overlap.values()) for run in runs),
                    "js": mean(mean(run.js.values()) for run in runs),
                    "rescued_rounds": sum(rescued) / rounds if rescued else None,
                }
            )
    return found
