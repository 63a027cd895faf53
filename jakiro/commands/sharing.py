"""The commands on recorded runs: `python -m jakiro validate | explain | replay`."""

from __future__ import annotations

import argparse
import sys

from jakiro.commands.checks import check_begins, check_writable, in_words
from jakiro.trace import Trace, TraceError
from jakiro.traces import check_together, load_traces

ROUNDING = 1e-3  # of path scores, in nats


def validate(options: argparse.Namespace) -> int:
    """Say of each file whether it holds sound traces; 1 if one does not."""
    from jakiro.metrics import tau
    from jakiro.ui.figures.labels import counted

    status = 0
    for file in options.files:
        try:
            traces = load_traces(file)
        except (TraceError, OSError) as error:
            print(in_words(error), file=sys.stderr)
            status = 1
            continue
        for trace in traces:
            rate = f"tau {tau(trace):.2f}" if trace.steps else "no rounds"
            names = _printable(f"{trace.method} on {trace.target}")
            print(f"{file}: {names}, {counted(len(trace.steps), 'round')}, {rate}")
            if (number := _rising(trace)) is not None:
                print(
                    f"{file}: in round {number} a node scores above its parent, though a score is the log-probability "
                    "of a whole path: did each token's own get written there?",
                    file=sys.stderr,
                )
            if _certain(trace):
                print(
                    f"{file}: every score is 0, as if each token were drafted with a probability of 1: where that is "
                    "not known, give every tree the column copied_from, of nulls",
                    file=sys.stderr,
                )
    return status


def _rising(trace: Trace) -> int | None:
    """The first round with a node that is likelier than its parent, from 1."""
    for number, step in enumerate(trace.steps, 1):
        scores, parents = step.tree.scores, step.tree.parents
        if any(score > scores[above] + ROUNDING for score, above in zip(scores[1:], parents[1:], strict=True)):
            return number
    return None


def _certain(trace: Trace) -> bool:
    """Whether every draft claims to be sure of all its tokens: its probabilities were not known, and 0 was written."""
    drafts = [step.tree for step in trace.steps if len(step.tree) > 1]
    return bool(drafts) and not any(tree.copied or any(tree.scores) for tree in drafts)


def _printable(text: str) -> str:
    """A file's words without what a terminal would obey."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def explain(options: argparse.Namespace) -> int:
    """Say of each run what its drafts brought, where its rounds stopped, and what would have brought more."""
    from jakiro.analysis.stops import PARTED, STOPS, stops
    from jakiro.ui.headline import headline

    for file in options.files:
        for trace in load_traces(file):
            print(f"{file}: {_printable(headline(trace, trace.method, None))}\n")
            print("| rounds stopped | rounds | share | one expert alone had it | what would have brought more |")
            print("|---|--:|--:|--:|---|")
            for one in stops(trace):
                way = STOPS[one.where]
                share = one.rounds / len(trace.steps)
                alone = f"{one.alone}" if one.where in PARTED and one.alone is not None else ""
                print(f"| {way.name} | {one.rounds} | {100 * share:.0f} % | {alone} | {way.remedy} |")
            print()
    return 0


def replay(options: argparse.Namespace) -> int:
    """Write the runs of all files side by side into one HTML file."""
    from jakiro.files import write_text
    from jakiro.ui import offline
    from jakiro.ui.figures.labels import counted

    check_writable(options.out, *options.files)
    check_begins(options.out, offline.BEGINNING, "page")
    traces = [trace for file in options.files for trace in load_traces(file)]
    check_together(traces)
    write_text(options.out, offline.page(traces))
    print(f"{options.out}: {counted(len(traces), 'run')}, {options.out.stat().st_size / 1e6:.1f} MB")
    return 0
