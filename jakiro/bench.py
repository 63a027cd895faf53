"""The benchmark: methods interleaved prompt by prompt on one target, in one process, against vanilla in the same run.

Definitions, for a row (task, method, temperature): `tokens` counts generated tokens, the first one of each prompt
(which prefill gives) included; `tau` is tokens after the first over rounds; `tokens_per_s` is tokens after the first
over the seconds of the rounds, so prefill is not in it; `speedup` is tokens_per_s over vanilla's in the same run, None
where the run has no vanilla; `identical` is the share of prompts whose ids equal vanilla's. A head's first pass over
the prompt is part of its first round, hence of draft_s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tqdm import tqdm

from jakiro import metrics
from jakiro.assets import PROMPTS
from jakiro.engine import record
from jakiro.machine import machine
from jakiro.methods import METHODS
from jakiro.settings import build
from jakiro.target import Target
from jakiro.text import encode
from jakiro.trace import Trace
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

    Raises OSError or ValueError, naming the file and the line.
    """
    prompts = []
    for path in paths:
        lines = path.read_text(encoding="utf-8").splitlines()[:limit]
        for number, line in enumerate(lines, start=1):
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


def load_methods(target: Target, names: Sequence[str], changes: dict[str, str]) -> dict[str, tuple[Callable, Any]]:
    """Name -> (make, settings). `changes` go to every method that has the setting.

    Raises ValueError for an unknown or unavailable method and for a setting that none of them has.
    """
    loaded, used = {}, set()
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
    return loaded


def run(
    target: Target,
    prompts: Sequence[Prompt],
    methods: dict[str, tuple[Callable, Any]],
    max_new_tokens: int,
    sampling: Sampling,
    peers: dict[str, Callable[[list[int], int], Generated]] | None = None,
) -> dict[str, Any]:
    """The whole benchmark as JSON-able data. `peers` are other decoders: (prompt ids, budget) -> Generated."""
    traces: dict[tuple[str, str], list[Trace]] = {}
    others: dict[tuple[str, str], list[Generated]] = {}
    same: dict[tuple[str, str], list[bool]] = {}
    work = list(_warmed(prompts))
    for prompt, counts in tqdm(work, desc="bench", unit="prompt", dynamic_ncols=True):
        ids = encode(target.tokenizer, prompt.text)
        reference = None
        for name, (make, settings) in methods.items():
            trace = record(target, make(settings), ids, max_new_tokens, sampling, name, settings, inspect=False)
            reference = trace.tokens if name == "vanilla" else reference
            if counts:
                traces.setdefault((prompt.task, name), []).append(trace)
                same.setdefault((prompt.task, name), []).append(trace.tokens == reference)
        for name, generate in (peers or {}).items():
            result = generate(ids, max_new_tokens)
            if counts:
                others.setdefault((prompt.task, name), []).append(result)
                same.setdefault((prompt.task, name), []).append(result.ids == reference)
    rows = [_row(task, name, sampling, found) for (task, name), found in traces.items()]
    rows += [_peer_row(task, name, sampling, found) for (task, name), found in others.items()]
    for row in rows:
        base = next((r["tokens_per_s"] for r in rows if (r["task"], r["method"]) == (row["task"], "vanilla")), None)
        row["speedup"] = row["tokens_per_s"] / base if base and row["tokens_per_s"] else None
        found = same[row["task"], row["method"]]
        row["identical"] = sum(found) / len(found) if "vanilla" in methods else None
    return {
        "schema": SCHEMA,
        "target": target.name,
        "dtype": str(target.dtype).removeprefix("torch."),
        "max_new_tokens": max_new_tokens,
        "sampling": asdict(sampling),
        "settings": {name: asdict(settings) for name, (_, settings) in methods.items()},
        "machine": machine(target.device),
        "versions": next(iter(traces.values()))[0].versions,
        "rows": sorted(rows, key=lambda row: row["task"]),
    }


def means(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Method -> mean of tau, tokens_per_s, speedup and identical over the tasks."""
    table: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(row["method"] for row in report["rows"]):
        mine = [row for row in report["rows"] if row["method"] == name]
        for key in ("tau", "tokens_per_s", "speedup", "identical"):
            values = [row[key] for row in mine if row[key] is not None]
            if values:
                table.setdefault(name, {})[key] = sum(values) / len(values)
    return table


def as_markdown(report: dict[str, Any]) -> str:
    """Speed-up and tau, one line a task, one column a method, and their means."""
    names = list(dict.fromkeys(row["method"] for row in report["rows"]))
    cells = {(row["task"], row["method"]): row for row in report["rows"]}
    cells |= {("mean", name): values for name, values in means(report).items()}
    lines = ["| task | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    for task in dict.fromkeys(task for task, _ in cells):
        lines.append(f"| {task} | " + " | ".join(_cell(cells[task, name]) for name in names) + " |")
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    speed = "" if row.get("speedup") is None else f"{row['speedup']:.2f}×"
    tau = "" if row.get("tau") is None else f"τ {row['tau']:.2f}"
    return ", ".join(part for part in (speed, tau) if part)


def _warmed(prompts: Sequence[Prompt]) -> Iterator[tuple[Prompt, bool]]:
    yield from ((prompt, False) for prompt in prompts[:WARM_UP])
    yield from ((prompt, True) for prompt in prompts)


def _row(task: str, method: str, sampling: Sampling, traces: list[Trace]) -> dict[str, Any]:
    rounds = sum(len(trace.steps) for trace in traces)
    decoded = sum(len(trace.tokens) - 1 for trace in traces)
    parts = [metrics.seconds(trace) for trace in traces]
    spent = {f"{phase}_s": sum(part[phase] for part in parts) for phase in parts[0]}
    seconds = sum(spent.values())
    deepest = max(metrics.max_depth(trace) for trace in traces)
    reached = [
        sum(len(step.accepted) >= depth for trace in traces for step in trace.steps) for depth in range(1, deepest + 1)
    ]
    return {
        "task": task,
        "method": method,
        "temperature": sampling.temperature,
        "prompts": len(traces),
        "tokens": sum(len(trace.tokens) for trace in traces),
        "rounds": rounds,
        "tau": decoded / rounds if rounds else None,
        "acceptance_rate_per_position": [count / rounds for count in reached],
        "tokens_per_s": decoded / seconds if seconds else None,
        "prefill_s": sum(trace.prefill_s for trace in traces),
        **spent,
    }


def _peer_row(task: str, name: str, sampling: Sampling, found: list[Generated]) -> dict[str, Any]:
    decoded, seconds = sum(len(one.ids) - one.first for one in found), sum(one.decode_s for one in found)
    return {
        "task": task,
        "method": name,
        "temperature": sampling.temperature,
        "prompts": len(found),
        "tokens": sum(len(one.ids) for one in found),
        "rounds": None,
        "tau": None,
        "acceptance_rate_per_position": None,
        "tokens_per_s": decoded / seconds if seconds else None,
        "prefill_s": sum(one.prefill_s for one in found),
        "draft_s": None,
        "verify_s": None,
        "overhead_s": None,
    }
