"""Record the races that the page opens with: `python -m scripts.record`. Every example, three methods, one target.

The traces are what the embedded models really do on the machine at hand, made by the same loop as a live race. Those
that ship have larger trees than a CPU's default, so that there is more to see (`--set depth=3 --set total_tokens=10`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jakiro.assets import TARGET, TRACES
from jakiro.bench import load_methods
from jakiro.commands.arguments import at_least
from jakiro.commands.checks import check_folder
from jakiro.commands.decoding import pairs
from jakiro.engine import record
from jakiro.measuring.prompts import examples
from jakiro.target import Target
from jakiro.text import encode
from jakiro.trace import Trace
from jakiro.ui import recorded
from jakiro.verify import GREEDY

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
    options = parser.parse_args(argv)
    try:
        record_races(options)
    except (ValueError, OSError) as error:
        print(f"python -m scripts.record: {error}", file=sys.stderr)
        return 2
    return 0


def record_races(options: argparse.Namespace) -> None:
    check_folder(options.out)
    changes = pairs(options.set, "--set")
    target = Target.load(options.target, options.device, options.dtype)
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


def decode_seconds(trace: Trace) -> float:
    return sum(step.seconds for step in trace.steps)


if __name__ == "__main__":
    sys.exit(main())
