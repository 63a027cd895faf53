"""Record the races that the page opens with: `python -m scripts.record`. Every example, three methods, one target.

The traces are what the embedded models really do on the machine at hand, made by the same loop as a live race. Those
that ship have larger trees than a CPU's default, so that there is more to see (`--set depth=3 --set total_tokens=10`).
With `--only-cut` the target's races that are there keep all they have, times above all, and get the nodes that the
budget cut, from the same races decoded again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from jakiro.assets import TARGET, TRACES
from jakiro.bench import load_methods
from jakiro.commands.arguments import at_least
from jakiro.commands.checks import check_folder
from jakiro.commands.decoding import pairs
from jakiro.engine import record
from jakiro.measuring.prompts import examples
from jakiro.methods import METHODS
from jakiro.settings import build
from jakiro.target import Target
from jakiro.text import encode
from jakiro.trace import StepTrace, Trace
from jakiro.ui import recorded
from jakiro.verify import GREEDY, Sampling

LANES = ("vanilla", "eagle2", "jakiro")
RUNS = 5  # of each method, in turns; the one that took the median time is kept


def main(argv: Sequence[str] | None = None) -> int:
    """Bad input prints one line that says what to do, and returns 2."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, default=TARGET)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--out", type=Path, default=TRACES)
    parser.add_argument("--max-new-tokens", type=at_least(2), default=128)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="settings, as of bench")
    parser.add_argument("--only-cut", action="store_true", help="add cut nodes to the races that are in --out")
    options = parser.parse_args(argv)
    try:
        record_races(options)
    except (ValueError, OSError) as error:
        print(f"python -m scripts.record: {error}", file=sys.stderr)
        return 2
    return 0


def record_races(options: argparse.Namespace) -> None:
    if options.only_cut and options.set:
        raise ValueError("--only-cut decodes with the settings that the races have: leave --set out")
    check_folder(options.out)
    changes = pairs(options.set, "--set")
    target = Target.load(options.target, options.device, options.dtype)
    if options.only_cut:
        races = [race for race in recorded.read(options.out) if race.model == target.name]
        if not races:
            raise ValueError(f"{options.out} has no races of {target.name}: record them without --only-cut")
        for race in races:
            traces = [with_cut(target, one, options.max_new_tokens) for one in recorded.load(options.out, race)]
            recorded.save(options.out, race.id, race.title, race.prompt, traces)
            print(race.id, sum(len(step.tree.cut) for one in traces for step in one.steps), "cut nodes")
        return
    methods = load_methods(target, LANES, changes)
    for example in examples():
        ids = encode(target.tokenizer, example.text)
        runs = [  # the first of a method pays for what torch sets up
            [
                record(target, make(settings), ids, options.max_new_tokens, GREEDY, name, settings)
                for name, (make, settings) in methods.items()
            ]
            for _ in range(1 + RUNS)
        ]
        traces = [sorted(own, key=decode_seconds)[RUNS // 2] for own in zip(*runs[1:], strict=True)]
        race = recorded.save(options.out, example.id.lower(), example.id, example.text, traces)
        print(race.id, len(traces[0].tokens), "tokens")


def with_cut(target: Target, trace: Trace, max_new_tokens: int) -> Trace:
    """The trace with the cut nodes of the same run decoded again, up to its own length cap where that is known.

    Raises ValueError naming the round in which the run is another, since cut nodes hang on the nodes of its tree.
    """
    method = METHODS[trace.method]
    make, settings = method.load(target), build(method.settings, None, trace.settings)
    sampling = Sampling(trace.temperature, trace.top_p, trace.seed)
    budget = trace.max_new_tokens or (len(trace.tokens) if trace.stop == "length" else max_new_tokens)
    again = record(target, make(settings), trace.prompt, budget, sampling, trace.method, settings)
    steps = []
    for number, (old, new) in enumerate(zip_longest(trace.steps, again.steps), start=1):
        if not (old and new and same(old, new)):
            raise ValueError(f"{trace.method} drafts otherwise in round {number}: record the races anew")
        steps.append(replace(old, tree=replace(old.tree, cut=new.tree.cut)))
    return replace(trace, steps=steps, pieces=again.pieces | trace.pieces)


def same(old: StepTrace, new: StepTrace) -> bool:
    """Whether two rounds drafted the same tree, by tokens and by scores to a thousandth, and kept the same of it."""
    exact = [(step.tree.tokens, step.tree.parents, step.accepted, step.bonus) for step in (old, new)]
    near = all(abs(a - b) < 1e-3 for a, b in zip(old.tree.scores, new.tree.scores, strict=False))
    return exact[0] == exact[1] and near


def decode_seconds(trace: Trace) -> float:
    return sum(step.seconds for step in trace.steps)


if __name__ == "__main__":
    sys.exit(main())
