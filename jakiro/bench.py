"""The benchmark: methods interleaved prompt by prompt on one target, in one process, against vanilla in the same run.

On every prompt vanilla decodes first, since the others are held against its ids. They follow, other libraries' decoders
too, each time from another one on, so that places change from prompt to prompt and from repeat to repeat. What the
columns of the rows mean is in report.py. A head's first pass over the prompt is part of its first round, of draft_s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from jakiro import metrics, programs
from jakiro.drafter import Drafter
from jakiro.engine import record
from jakiro.machine import code, dtype_name, machine, peak_bytes, reset_peak, versions
from jakiro.measuring import report
from jakiro.measuring.journal import Journal
from jakiro.measuring.prompts import Prompt
from jakiro.measuring.report import Sample
from jakiro.measuring.tuning import Tuner
from jakiro.methods import METHODS, changed
from jakiro.models import hub
from jakiro.settings import build
from jakiro.target import Target
from jakiro.text import encode
from jakiro.trace import Trace
from jakiro.verify import GREEDY, Sampling

SCHEMA = "jakiro-bench/1"
WARM_UP = 2  # prompts that each method decodes at each temperature before anything is counted

Methods = dict[str, tuple[Callable[[Any], Drafter], Any]]  # name -> what makes a drafter from settings, and settings


@dataclass(frozen=True, slots=True)
class Generated:
    """What another decoder made of a prompt."""

    ids: list[int]  # new tokens
    first: int  # how many of them its first step gave, which prefill_s is the time of
    prefill_s: float
    decode_s: float


Peers = dict[str, Callable[[list[int], int, Sampling], Generated]]  # name -> what decodes ids within a budget


def load_methods(
    target: Target,
    names: Sequence[str],
    changes: dict[str, str],
    sampling: Sampling = GREEDY,
    tuner: Tuner | None = None,
) -> Methods:
    """`asked_for`, with numbers for what is auto: measured here, with a tuner of the target's own if None is given."""
    tuner, asked = tuner or Tuner(target), asked_for(target, names, changes)
    return {name: (make, tuner.resolved(name, make, settings, sampling)) for name, (make, settings) in asked.items()}


def asked_for(target: Target, names: Sequence[str], changes: dict[str, str]) -> Methods:
    """The methods with their settings, auto among them. `changes` go to every method that has the setting.

    Raises ValueError for a method that is unavailable, and where `methods.changed` does.
    """
    loaded = {}
    for name, own in changed(names, changes).items():
        method = METHODS[name]
        if reason := method.unavailable(target):
            raise ValueError(f"{name} cannot run: {reason}")
        loaded[name] = method.load(target), build(method.settings, method.defaults(target), own)
    return loaded


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is measured, and with what."""

    target: Target
    prompts: Sequence[Prompt]
    methods: Methods
    max_new_tokens: int
    samplings: Sequence[Sampling]
    peers: Peers | None = None  # other decoders, beside the methods
    repeats: int = 1

    def open_journal(self, out: Path, heads: dict[str, Path] | None = None) -> Journal:
        """The journal beside the report `out`. Raises ValueError for another benchmark's, and for a prompt that the
        target cannot read.

        Settings are compared as asked for: what auto became is in the journal (`settled`). `heads` are the folders of
        heads that the target does not name, as it names one for each method.
        """
        target = self.target
        check_lengths(target, self.prompts)
        folders = ({"target": target.path} if target.path else {}) | target.heads | (heads or {})
        plan = {
            "target": target.name,
            "files": {name: hub.weights(folder) for name, folder in folders.items()},
            "weights": {name: hub.fingerprint(folder) for name, folder in folders.items()},
            "attention": target.model.config._attn_implementation,
            "template": target.tokenizer and target.tokenizer.chat_template,
            "ends": sorted(target.ends),
            "code": code(),
            "versions": versions(),
            "dtype": str(target.dtype),
            **_made_on(target),
            "prompts": [asdict(prompt) for prompt in self.prompts],
            "methods": {name: asdict(settings) for name, (_, settings) in self.methods.items()},
            "max_new_tokens": self.max_new_tokens,
            "samplings": [asdict(sampling) for sampling in self.samplings],
            "peers": self.peers is not None,
            "repeats": self.repeats,
        }
        return Journal(out.with_name(f"{out.name}.partial"), plan)

    def settled(self, journal: Journal) -> Benchmark:
        """The same with numbers for what is auto: the journal's; where it has none yet they are measured, on a few of
        the prompts by the first of the samplings, and noted."""
        if journal.settings is None:
            tuner, sampling = Tuner(self.target, self.prompts), self.samplings[0]
            found = {name: tuner.resolved(name, *method, sampling) for name, method in self.methods.items()}
            journal.settle({name: asdict(settings) for name, settings in found.items()})
        methods = self.methods.items()
        return replace(
            self,
            methods={name: (make, type(settings)(**journal.settings[name])) for name, (make, settings) in methods},
        )

    def run(self, journal: Journal | None = None) -> dict[str, Any]:
        """The whole as JSON-able data; of no method a setting may be auto. What the journal already has is not measured
        again."""
        journal = Journal() if journal is None else journal
        work = [
            (str((sampling.temperature, repeat, at)), (prompt, sampling, repeat, repeat + at))
            for sampling in self.samplings
            for repeat in range(self.repeats)
            for at, prompt in enumerate(self.prompts)
        ]
        left = [one for one in work if one[0] not in journal]
        for sampling in self.samplings:
            for group in [group for _, group in left if group[1] == sampling][:WARM_UP]:
                self.group(*group)
        for key, group in tqdm(left, desc="bench", unit="prompt", dynamic_ncols=True):
            journal.add(key, self.group(*group))
        rows = report.rows(journal.samples())
        return {
            "schema": SCHEMA,
            "target": self.target.name,
            "dtype": dtype_name(self.target.dtype),
            "max_new_tokens": self.max_new_tokens,
            "sampling": [asdict(sampling) for sampling in self.samplings],
            "settings": {name: asdict(settings) for name, (_, settings) in self.methods.items()},
            **_made_on(self.target),
            "versions": versions(),
            **{name: journal.plan[name] for name in ("code", "weights") if name in journal.plan},
            "rows": sorted(rows, key=lambda row: (row["temperature"], row["task"])),
        }

    def group(self, prompt: Prompt, sampling: Sampling, repeat: int, turn: int) -> list[Sample]:
        """Every decoder on one prompt, one after the other; their samples come in one order on all turns."""
        ids = encode(self.target.tokenizer, prompt.text)
        where = {"task": prompt.task, "prompt": prompt.id, "temperature": sampling.temperature, "repeat": repeat}
        names, samples, reference = [*self.methods, *(self.peers or ())], {}, None
        for name in in_turn(names, turn):
            reset_peak(self.target.device)
            text, counts = (self._method if name in self.methods else self._peer)(name, ids, sampling)
            peak = peak_bytes(self.target.device)
            reference = text if name == "vanilla" else reference
            known = reference and (name in self.methods or not sampling.temperature)
            same = text == reference if known else None
            samples[name] = Sample(method=name, identical=same, peak_bytes=peak, **where, **counts)
        return [samples[name] for name in in_turn(names, 0)]

    def _method(self, name: str, ids: list[int], sampling: Sampling) -> tuple[list[int], dict[str, Any]]:
        """The text of one of ours, and what is counted of it."""
        make, settings = self.methods[name]
        before = programs.recording_seconds()
        trace = record(self.target, make(settings), ids, self.max_new_tokens, sampling, name, settings, inspect=False)
        return trace.tokens, _counted(trace) | {"recording_s": programs.recording_seconds() - before}

    def _peer(self, name: str, ids: list[int], sampling: Sampling) -> tuple[list[int], dict[str, Any]]:
        """The text of another library's, and what is counted of it."""
        found = self.peers[name](ids, self.max_new_tokens, sampling)
        counts = {"tokens": len(found.ids), "decoded": len(found.ids) - found.first}
        return found.ids, counts | {"prefill_s": found.prefill_s, "decode_s": found.decode_s}


def _made_on(target: Target) -> dict[str, Any]:
    """What decodes, and in which way."""
    ways = {"graphs": target.graphs, "tapes": target.tapes is not None, "compiled": target.compiled}
    return {"machine": machine(target.device), **ways}


def check_labels(labels: Sequence[str]) -> None:
    """Raise ValueError where what decodes in place of methods cannot be told apart, or from what is beside it."""
    if bad := [one for one in labels if one in ("", "vanilla", "target") or labels.count(one) > 1]:
        beside = "vanilla is beside them, and the weights of the target"
        raise ValueError(f"the label {bad[0]!r} is taken: each variant needs its own, and {beside}")


def check_lengths(target: Target, prompts: Sequence[Prompt]) -> None:
    """Raise ValueError for a prompt that the target cannot read."""
    for prompt in prompts if target.tokenizer else ():
        if (size := len(encode(target.tokenizer, prompt.text))) >= target.context:
            raise ValueError(
                f"prompt {prompt.id!r} of task {prompt.task!r} has {size} tokens, and {target.name} reads "
                f"{target.context} in all: shorten it, or leave it out"
            )


def in_turn(names: Sequence[str], turn: int) -> list[str]:
    """vanilla, where it is among them, and then the others, on each turn from a later one on."""
    others = [name for name in names if name != "vanilla"]
    at = turn % max(len(others), 1)
    return [name for name in names if name == "vanilla"] + others[at:] + others[:at]


def _counted(trace: Trace) -> dict[str, Any]:
    spent = metrics.seconds(trace)
    phases = [spent[phase] for phase in report.PHASES]
    return {
        "tokens": len(trace.tokens),
        "decoded": len(trace.tokens) - 1,
        "prefill_s": trace.prefill_s,
        "decode_s": sum(phases),
        "reached": metrics.reached(trace),
        "phases": phases,
    }
