"""The benchmark: methods interleaved prompt by prompt on one target, in one process, against vanilla in the same run.

What the columns of its rows mean is in report.py. A head's first pass over the prompt is part of its first round, hence
of draft_s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tqdm import tqdm

from jakiro import graphs, hub, metrics, report
from jakiro.assets import PROMPTS
from jakiro.engine import record
from jakiro.journal import Journal
from jakiro.machine import machine, peak_bytes, reset_peak, versions
from jakiro.methods import METHODS
from jakiro.report import Sample
from jakiro.settings import build
from jakiro.target import Target
from jakiro.text import encode
from jakiro.trace import Trace
from jakiro.tuning import Tuner
from jakiro.verify import Sampling

SCHEMA = "jakiro-bench/1"
WARM_UP = 2  # prompts that each method decodes before anything is counted


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question of a task; only the first turn of a conversation is asked."""

    task: str
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Generated:
    """What another decoder made of a prompt."""

    ids: list[int]  # new tokens
    first: int  # how many of them its first step gave, which prefill_s is the time of
    prefill_s: float
    decode_s: float


def read_prompts(paths: Sequence[Path], limit: int | None = None) -> list[Prompt]:
    """The first `limit` prompts of each JSONL file, whose lines have `turns`; the file's name is the task.

    Blank lines are passed over. Raises OSError or ValueError, naming the file and the line.
    """
    prompts = []
    for path in paths:
        lines = enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        for number, line in [(number, line) for number, line in lines if line.strip()][:limit]:
            try:
                record_ = json.loads(line)
                prompts.append(Prompt(path.stem, str(record_.get("id", number)), record_["turns"][0]))
            except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
                raise ValueError(f'{path}, line {number}: expected {{"turns": ["question"]}} ({error!r})') from error
    if not prompts:
        raise ValueError("the prompt files hold no prompts")
    return prompts


def examples(limit: int | None = None) -> list[Prompt]:
    """The page's examples, as one task."""
    found = json.loads(PROMPTS.read_text(encoding="utf-8"))[:limit]
    return [Prompt("examples", example["label"], example["prompt"]) for example in found]


def load_methods(
    target: Target, names: Sequence[str], changes: dict[str, str], tuner: Tuner | None = None
) -> dict[str, tuple[Callable, Any]]:
    """Name -> (make, settings). `changes` go to every method that has the setting.

    What is auto is measured here, with a tuner of the target's own if None is given, and is a number in the result.
    Raises ValueError for an unknown or unavailable method and for a setting that none of them has.
    """
    loaded, used, tuner = {}, set(), tuner or Tuner(target)
    for name in names:
        if name not in METHODS:
            raise ValueError(f"unknown method {name!r}; known: {', '.join(METHODS)}")
        method = METHODS[name]
        if reason := method.unavailable(target):
            raise ValueError(f"{name} cannot run: {reason}")
        own = {key: value for key, value in changes.items() if key in {field.name for field in fields(method.settings)}}
        used |= own.keys()
        loaded[name] = method.load(target), build(method.settings, method.defaults(target), own)
    if unknown := changes.keys() - used:
        known = sorted({field.name for name in names for field in fields(METHODS[name].settings)})
        raise ValueError(f"no method here has the setting {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return {name: (make, tuner.resolved(name, make, settings)) for name, (make, settings) in loaded.items()}


def run(
    target: Target,
    prompts: Sequence[Prompt],
    methods: dict[str, tuple[Callable, Any]],
    max_new_tokens: int,
    samplings: Sequence[Sampling],
    peers: Callable[[Sampling], dict[str, Callable]] | None = None,
    repeats: int = 1,
    journal: Journal | None = None,
) -> dict[str, Any]:
    """The whole benchmark as JSON-able data.

    `peers` gives other decoders, name -> ((prompt ids, budget) -> Generated). What the journal already has is not
    measured again.
    """
    others = {sampling: peers(sampling) if peers else {} for sampling in samplings}
    bench = _Bench(target, methods, max_new_tokens, others)
    journal = Journal() if journal is None else journal
    work = [
        (str((sampling.temperature, repeat, at)), sampling, repeat, prompt)
        for sampling in samplings
        for repeat in range(repeats)
        for at, prompt in enumerate(prompts)
    ]
    left = [one for one in work if one[0] not in journal]
    for _, sampling, _, prompt in left[:WARM_UP]:
        bench.group(prompt, sampling, 0)
    for key, sampling, repeat, prompt in tqdm(left, desc="bench", unit="prompt", dynamic_ncols=True):
        journal.add(key, bench.group(prompt, sampling, repeat))
    rows = report.rows(journal.samples())
    return {
        "schema": SCHEMA,
        "target": target.name,
        "dtype": str(target.dtype).removeprefix("torch."),
        "max_new_tokens": max_new_tokens,
        "sampling": [asdict(sampling) for sampling in samplings],
        "settings": {name: asdict(settings) for name, (_, settings) in methods.items()},
        "machine": machine(target.device),
        "graphs": target.graphs,
        "versions": versions(),
        "rows": sorted(rows, key=lambda row: (row["temperature"], row["task"])),
    }


def open_journal(out: Path, target, prompts, methods, max_new_tokens, samplings, peers, repeats) -> Journal:
    """The journal beside the report `out` of a benchmark with these arguments. Raises ValueError for another's."""
    plan = {
        "target": target.name,
        "files": {name: hub.weights(folder) for name, folder in _folders(target).items()},
        "dtype": str(target.dtype),
        "machine": machine(target.device),
        "graphs": target.graphs,
        "prompts": [asdict(prompt) for prompt in prompts],
        "methods": {name: asdict(settings) for name, (_, settings) in methods.items()},
        "max_new_tokens": max_new_tokens,
        "samplings": [asdict(sampling) for sampling in samplings],
        "peers": peers is not None,
        "repeats": repeats,
    }
    return Journal(out.with_name(f"{out.name}.partial"), plan)


def _folders(target: Target) -> dict[str, Path]:
    """Of the target, unless it was made in memory, and of its heads."""
    return target.heads if target.path is None else {"target": target.path, **target.heads}


@dataclass(frozen=True, slots=True)
class _Bench:
    """What is measured with."""

    target: Target
    methods: dict[str, tuple[Callable, Any]]
    budget: int
    peers: dict[Sampling, dict[str, Callable]]

    def group(self, prompt: Prompt, sampling: Sampling, repeat: int) -> list[Sample]:
        """Every decoder on one prompt, one after the other."""
        ids = encode(self.target.tokenizer, prompt.text)
        where = {"task": prompt.task, "prompt": prompt.id, "temperature": sampling.temperature, "repeat": repeat}
        samples, reference = [], None
        for name in sorted(self.methods, key=lambda name: name != "vanilla"):  # the others are held against it
            make, settings = self.methods[name]
            reset_peak(self.target.device)
            before = graphs.recording_seconds()
            trace = record(self.target, make(settings), ids, self.budget, sampling, name, settings, inspect=False)
            counts = _counted(trace) | {"recording_s": graphs.recording_seconds() - before}
            reference = trace.tokens if name == "vanilla" else reference
            same = trace.tokens == reference if "vanilla" in self.methods else None
            samples.append(Sample(method=name, identical=same, peak_bytes=self._peak(), **where, **counts))
        for name, generate in self.peers[sampling].items():
            reset_peak(self.target.device)
            found = generate(ids, self.budget)
            same = found.ids == reference if reference and not sampling.temperature else None
            counts = {"tokens": len(found.ids), "decoded": len(found.ids) - found.first}
            times = {"prefill_s": found.prefill_s, "decode_s": found.decode_s}
            samples.append(Sample(method=name, identical=same, peak_bytes=self._peak(), **where, **counts, **times))
        return samples

    def _peak(self) -> int | None:
        return peak_bytes(self.target.device)


def _counted(trace: Trace) -> dict[str, Any]:
    spent = metrics.seconds(trace)
    phases = [spent[phase] for phase in report.PHASES]
    accepted = [len(step.accepted) for step in trace.steps]
    return {
        "tokens": len(trace.tokens),
        "decoded": len(trace.tokens) - 1,
        "prefill_s": trace.prefill_s,
        "decode_s": sum(phases),
        "reached": [sum(count >= depth for count in accepted) for depth in range(metrics.max_depth(trace) + 1)],
        "phases": phases,
    }
