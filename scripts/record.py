"""Record the races that the page opens with: `python -m scripts.record`. Every example, three methods, one target.

The traces are what the embedded models really do on the machine at hand, made by the same loop as a live race. Those
that ship have larger trees than a CPU's default, so that there is more to see (`--set depth=3 --set total_tokens=10`).
One race of other lanes: `--only Story --title "Own candidates" --lane jakiro --lane jakiro,candidates=decoupled`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jakiro.assets import TRACES
from jakiro.bench import load_methods
from jakiro.commands.arguments import MEASURED, at_least, how_to_load, model_options
from jakiro.commands.checks import check_folder, in_words
from jakiro.commands.decoding import pairs
from jakiro.drafter import Drafter
from jakiro.engine import record
from jakiro.measuring.prompts import examples
from jakiro.methods import changed, meet, with_heads
from jakiro.target import Target
from jakiro.text import encode
from jakiro.trace import Trace
from jakiro.ui import recorded
from jakiro.verify import GREEDY

Lane = tuple[str, Callable[[Any], Drafter], Any]  # method, what makes its drafter from settings, settings
RUNS = 5  # of each method, in turns; the one that took the median time is kept


def main(argv: Sequence[str] | None = None) -> int:
    """Bad input prints one line that says what to do, and returns 2."""
    parser = argparse.ArgumentParser(description=__doc__, parents=[model_options()])
    parser.add_argument("--out", type=Path, default=TRACES)
    parser.add_argument("--max-new-tokens", type=at_least(2), default=128)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="settings, as of bench")
    lanes = f"repeatable (default: {', '.join(MEASURED)}, and those of --head)"
    parser.add_argument("--lane", action="append", metavar="METHOD[,NAME=VALUE...]", help=lanes)
    parser.add_argument("--only", metavar="EXAMPLE", help="one of the page's examples, as its button says")
    parser.add_argument("--title", help="of the race, with --only (default: the example's)")
    options = parser.parse_args(argv)
    try:
        record_races(options)
    except (ValueError, OSError) as error:
        print(f"python -m scripts.record: {in_words(error)}", file=sys.stderr)
        return 2
    return 0


def record_races(options: argparse.Namespace) -> None:
    check_folder(options.out)
    if options.title and not options.only:
        raise ValueError("--title is of one race: name its example with --only")
    asked = [example for example in examples() if options.only in (None, example.id)]
    if not asked:
        raise ValueError(f"there is no example {options.only!r}; there are {', '.join(one.id for one in examples())}")
    titles = [options.title or example.id for example in asked]
    names = [re.sub("[^a-z0-9]+", "-", title.lower()).strip("-") for title in titles]
    if not all(names):
        raise ValueError("--title names the files, too: give it a letter from a to z or a digit")
    heads = pairs(options.head, "--head")
    meet(heads)
    target = Target.load(options.target, heads=heads, **how_to_load(options))
    lanes = lanes_of(target, options.lane or with_heads(MEASURED, heads), options.set)
    for example, title, name in zip(asked, titles, names, strict=True):
        ids = encode(target.tokenizer, example.text)
        runs = [  # the first of a method pays for what torch sets up
            [
                record(target, make(settings), ids, options.max_new_tokens, GREEDY, method, settings)
                for method, make, settings in lanes
            ]
            for _ in range(1 + RUNS)
        ]
        traces = [sorted(own, key=decode_seconds)[RUNS // 2] for own in zip(*runs[1:], strict=True)]
        race = recorded.save(options.out, name, title, example.text, traces)
        print(race.id, len(traces[0].tokens), "tokens")


def lanes_of(target: Target, asked: Sequence[str], common: Sequence[str]) -> list[Lane]:
    """The lanes asked for; settings in `common` go to every one that has them. Raises ValueError."""
    shared = changed([one.partition(",")[0] for one in asked], pairs(common, "--set"))
    found = []
    for one in asked:
        name, *own = one.split(",")
        changes = shared[name] | pairs(own, f"--lane {name}")
        found.append((name, *load_methods(target, [name], changes)[name]))
    return found


def decode_seconds(trace: Trace) -> float:
    return sum(step.seconds for step in trace.steps)


if __name__ == "__main__":
    sys.exit(main())
