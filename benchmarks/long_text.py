"""Cost and memory of a round as the text grows: `python -m benchmarks.long_text [--lengths 64 ... 1900]`.

Two measurements on one target, whose end-of-text tokens are ignored so that rounds go on.

Cost: medians of draft, verify and overhead a round at several lengths of context, methods and lengths interleaved.
Beside them `attention_s`, what the target's attention alone takes there (`jakiro/models/attention.py`) in all layers,
a tree's rows against the context, with the target's heads and a mask where the tree has more than one node. Growth is
against the shortest length in the same turn, and of all turns the median, for a machine's speed drifts; what is beyond
attention is what else depends on the length: masks and the head's own attention. Where passes are recorded (CUDA
graphs) there is no such column: a pass then sees padded rows.

Memory: each method decodes whole contexts one after another, a fresh drafter over the same head each time, until the
asked number of rounds is done. After each run garbage is collected, and read are the bytes of this process that are in
RAM, the objects that Python's collector knows of, and the bytes of tensors on a GPU. The first run warms up: growth is
from its end.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import cycle, islice
from operator import sub
from pathlib import Path
from statistics import median
from typing import Any

import torch
from tqdm import tqdm

from benchmarks import common
from jakiro.assets import TARGET
from jakiro.bench import Methods, load_methods
from jakiro.commands.arguments import at_least, positive
from jakiro.drafter import Drafter
from jakiro.engine import Prefill, decode
from jakiro.measuring.limits import timed
from jakiro.measuring.prompts import examples
from jakiro.models.attention import sdpa
from jakiro.target import Target
from jakiro.text import encode
from jakiro.trace import StepTrace
from jakiro.verify import GREEDY

SCHEMA = "jakiro-long-text/1"
LENGTHS = (64, 256, 512, 1024, 1536, 1900)
CALLS = 5  # of attention in a turn
SHORT = 16  # tokens of the prompts whose contexts are filled

Turn = tuple[list[StepTrace], list[float]]  # the rounds of a run, and seconds of attention alone


def text(target: Target, length: int) -> list[int]:
    """The page's example prompts again and again, cut to so many ids."""
    ids = [id for prompt in examples() for id in encode(target.tokenizer, prompt.text)]
    return list(islice(cycle(ids), length))


def costs(target: Target, methods: Methods, lengths: Sequence[int], count: int, repeats: int) -> list[dict[str, Any]]:
    """One row for each method and length, from `repeats` runs of `count` rounds each."""
    attention = None if target.graphs else Attention(target, max(lengths) + 1)
    turns: dict[tuple[str, int], list[Turn]] = {(name, n): [] for name in methods for n in lengths}
    for repeat in tqdm(range(-1, repeats), desc="cost", unit="turn", dynamic_ncols=True):
        for (name, length), found in turns.items():
            make, settings = methods[name]
            run = common.rounds(target, make(settings), text(target, length), count, getattr(settings, "depth", 0))
            times = attention.seconds(max(len(step.tree) for step in run), length, CALLS) if attention else []
            if repeat >= 0:  # the first turn warms up
                found.append((run, times))
    return [_row(name, length, found, turns[name, min(lengths)]) for (name, length), found in turns.items()]


def _row(method: str, length: int, turns: list[Turn], shortest: list[Turn]) -> dict[str, Any]:
    """`shortest` are the turns of the shortest length."""
    steps, alone = ([one for turn in turns for one in turn[part]] for part in (0, 1))
    rounds = _growths([median(step.seconds for step in run) for run, _ in part] for part in (turns, shortest))
    attention = _growths([median(times) for _, times in part] for part in (turns, shortest)) if alone else None
    return {
        **common.cost(method, length, steps),
        "attention_s": median(alone) if alone else None,
        "growth_s": median(rounds),
        "growth_of_turns_s": rounds,
        "attention_growth_s": median(attention) if attention else None,
        "growth_beyond_attention_s": median(map(sub, rounds, attention)) if attention else None,
    }


def _growths(both: Iterable[list[float]]) -> list[float]:
    """Turn by turn, seconds at a length less those at the shortest."""
    return list(map(sub, *both))


class Attention:
    """The target's attention and nothing else, on random rows of its own shapes."""

    def __init__(self, target: Target, context: int) -> None:
        """For contexts of up to that many tokens."""
        config = target.model.config.get_text_config(decoder=True)
        self.heads = config.num_attention_heads
        self.shared = getattr(config, "num_key_value_heads", None) or self.heads
        self.width = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.target, self.layers = target, config.num_hidden_layers
        self.module = next(one for one in target.model.modules() if hasattr(one, "num_key_value_groups"))
        self._context = self._random(2, self.layers, 1, self.shared, context, self.width)  # keys, then values

    @torch.inference_mode()
    def seconds(self, nodes: int, length: int, calls: int) -> list[float]:
        """Of all layers together, for each of `calls`: the rows of a tree against `length` rows and its own."""
        query = self._random(1, self.heads, nodes, self.width)
        fresh = self._random(2, self.layers, 1, self.shared, nodes, self.width)
        rows = torch.cat([self._context[..., :length, :], fresh], dim=-2)
        mask = None
        if nodes > 1:
            seen = torch.ones(nodes, length + nodes, dtype=torch.bool, device=self.target.device)
            mask = self.target.mask(seen.tril(length))

        def layers() -> None:
            for keys, values in zip(*rows, strict=True):
                sdpa(self.module, query, keys, values, mask, scaling=self.module.scaling)

        return timed(self.target.device, layers, calls)

    def _random(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=self.target.dtype, device=self.target.device)


def memory(target: Target, methods: Methods, count: int) -> list[dict[str, Any]]:
    """For each method, readings after a first run and after each of those that make up at least `count` rounds."""
    rows = []
    for name, (make, settings) in methods.items():
        fill_context(target, make(settings))
        readings = [_reading(target, 0)]
        with tqdm(total=count, desc=f"memory, {name}", unit="round", dynamic_ncols=True) as bar:
            while (done := readings[-1]["rounds"]) < count:
                fresh = fill_context(target, make(settings))
                readings.append(_reading(target, done + fresh))
                bar.update(fresh)
        rows.append({"method": name, "rounds": done, **_growth(readings), "readings": readings})
    return rows


def fill_context(target: Target, drafter: Drafter) -> int:
    """Decode until the context is full, the inspector's columns included as on the page; the number of rounds."""
    made = decode(target, drafter, text(target, SHORT), target.context, GREEDY)
    return sum(not isinstance(event, Prefill) for event in made)


def _reading(target: Target, rounds: int) -> dict[str, Any]:
    resident = common.resident_bytes()  # collects garbage
    on_gpu = torch.cuda.memory_allocated(target.device) if target.device.type == "cuda" else None
    return {"rounds": rounds, "resident_bytes": resident, "objects": len(gc.get_objects()), "gpu_bytes": on_gpu}


def _growth(readings: list[dict[str, Any]]) -> dict[str, Any]:
    first, last = readings[0], readings[-1]
    known = first["resident_bytes"] is not None
    return {
        "resident_growth_bytes": last["resident_bytes"] - first["resident_bytes"] if known else None,
        "object_growth": last["objects"] - first["objects"],
    }


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Load and measure."""
    target = Target.load(options.target, options.device, options.dtype)
    target.ends = frozenset()
    methods = load_methods(target, options.methods.split(","), {})
    lengths = sorted(set(options.lengths))
    rows = costs(target, methods, lengths, options.rounds, options.repeats)
    held = memory(target, methods, options.memory_rounds) if options.memory_rounds else []
    head = common.head(SCHEMA, target.device) | {
        "target": target.name,
        "dtype": options.dtype,
        "context": target.context,
        "settings": {name: asdict(settings) for name, (_, settings) in methods.items()},
    }
    tables = [[_line(row) for row in rows], [_held(row) for row in held]]
    return head | {"rows": rows, "memory": held}, [table for table in tables if table]


def _line(row: dict[str, Any]) -> dict[str, str]:
    extra = {"growth": "growth_s", "of it attention": "attention_growth_s"}
    return {
        **common.cells(row),
        "attention alone ms": common.cell(row["attention_s"], scale=1000),
        **{f"{title} ms": common.cell(row[name], scale=1000) for title, name in extra.items()},
    }


def _held(row: dict[str, Any]) -> dict[str, str]:
    first, last = row["readings"][0], row["readings"][-1]
    return {
        "method": row["method"],
        "rounds": str(row["rounds"]),
        "MiB after warm-up": common.cell(first["resident_bytes"], 1, 2**-20),
        "MiB at the end": common.cell(last["resident_bytes"], 1, 2**-20),
        "growth MiB": common.cell(row["resident_growth_bytes"], 2, 2**-20),
        "objects after warm-up": str(first["objects"]),
        "growth of objects": str(row["object_growth"]),
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("long_text", __doc__)
    common.add_device(parser)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id of a target with its heads")
    parser.add_argument("--methods", default="vanilla,eagle2,jakiro", help="comma-separated (default: %(default)s)")
    parser.add_argument("--lengths", type=positive, nargs="+", default=LENGTHS, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=positive, default=12, help="of a run (default: %(default)s)")
    runs = "runs of each method and length (default: %(default)s)"
    parser.add_argument("--repeats", type=positive, default=5, help=runs)
    parser.add_argument("--memory-rounds", type=at_least(0), default=10_000, help="0: leave out (default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
