"""Several traces in one file, which anyone may have written: read whole, checked, held within what can be shown.

A file holds one trace, a JSON list of traces (as the page exports them), or one trace a line. Files may be joined.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence, Sized
from pathlib import Path

from jakiro.trace import StepTrace, Trace, TraceError, as_text, from_dict, no_trace, to_json
from jakiro.tree import MAX_CUT, MAX_LEVELS, DraftTree

MAX_BYTES = 64 * 2**20  # of a file
MAX_NODES = 150_000  # of all trees together, and as many cut ones: they are sent to the browser and kept for a while
MAX_RUNS = 8
MAX_ROUNDS = 20_000  # of all runs together: a round is sent with a figure for each of its views
MAX_VALUES = 6_000_000  # of all nodes' columns together: a method of ours has some two dozen
MAX_IDS = 1_000_000  # of a prompt, and with a text: no target reads more, no vocabulary has more
MAX_NAMES = 1_000  # settings, versions, a tree's columns
MAX_TEXT = 1_000  # characters of a token's text or of a name
MAX_BRACKETS, MAX_COMMAS = 2_000_000, 16_000_000  # of a file: while one is read, which takes a second, all else waits
OTHERS = {  # kinds of this program's other files, by the first part of their schema
    "jakiro-bench": "a benchmark report",
    "jakiro-races": "an index, of traces in files beside it",
    "jakiro-tuning": "a report of tune",
    "jakiro-doctor": "a report of doctor",
}
NUMBER, LIST = 40, 200  # bytes of memory, about: a number in a list, and a list or a text with its name
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")  # between values; some editors begin a file with the last


def traces_json(traces: Sequence[Trace]) -> str:
    """A JSON list of traces (`jakiro-trace/1`)."""
    return "[" + ",\n".join(map(to_json, traces)) + "]\n"


def load_traces(path: str | Path) -> list[Trace]:
    """The runs of a file. Raises OSError, or TraceError naming the file and what is wrong with it."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)  # of a pipe, too, whose size nobody knows
        if len(content) > MAX_BYTES:
            raise TraceError(f"more than {MAX_BYTES:,} bytes, which is what can be read: record fewer runs")
        return read_traces(as_text(content))
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error


def read_traces(text: str) -> list[Trace]:
    """The runs in a text. Raises TraceError."""
    runs = _parsed(text)
    if not runs:
        raise TraceError("the list holds no runs: export a race that has some")
    if len(runs) > MAX_RUNS:
        _one(runs[0], 0, len(runs))  # that they are no runs says more
    _check_runs(len(runs))
    traces = [_one(run, index, len(runs)) for index, run in enumerate(runs)]
    check_together(traces)
    return traces


def check_together(traces: Sequence[Trace]) -> None:
    """Raise TraceError where the runs are more than can be shown side by side."""
    _check_runs(len(traces))
    sizes = [_sizes(step.tree) for trace in traces for step in trace.steps]
    for (what, most), count in zip(_limits().items(), map(sum, zip(*sizes, strict=True)), strict=False):
        if count > most:
            raise TraceError(f"{count:,} {what}, and {most:,} can be shown: record fewer rounds or smaller trees")
    names = {name for trace in traces for step in trace.steps for name in step.tree.columns}
    if (cells := len(names) * sum(size[1] for size in sizes)) > MAX_VALUES:  # of a table, gaps included
        raise TraceError(
            f"{len(names):,} columns make a table of {cells:,} cells, and {MAX_VALUES:,} can be made: leave some out"
        )


def within_limits(rounds: Iterable[StepTrace]) -> Iterator[StepTrace]:
    """The rounds of one run, up to the last with which a file of it can be read."""
    total = dict.fromkeys(_limits(), 0)
    for step in rounds:
        total = {what: total[what] + size for what, size in zip(total, _sizes(step.tree), strict=True)}
        if any(total[what] > most for what, most in _limits().items()):
            return
        yield step


def _sizes(tree: DraftTree) -> tuple[int, ...]:
    return 1, len(tree), len(tree.cut), len(tree) * len(tree.columns)


def _limits() -> dict[str, int]:
    """Of all trees together, in the order of `_sizes`."""
    nodes = {"nodes": MAX_NODES, "cut nodes": MAX_NODES}
    return {"rounds": MAX_ROUNDS, **nodes, "values in nodes' columns": MAX_VALUES}


def _check_runs(count: int) -> None:
    if count > MAX_RUNS:
        raise TraceError(f"{count} runs, and {MAX_RUNS} can be shown side by side: take fewer")


def weight(trace: Trace) -> int:
    """Bytes of memory that a trace takes, about, and rather too many."""
    trees = [step.tree for step in trace.steps]
    texts = [*trace.pieces.values(), *{name for tree in trees for name in tree.columns}]
    texts += [str(item) for pairs in (trace.settings, trace.versions) for pair in pairs.items() for item in pair]
    lists = sum(9 + len(tree.columns) for tree in trees) + len(texts)
    numbers = sum((5 + len(tree.columns)) * len(tree) + 3 * len(tree.cut) for tree in trees) + len(trace.prompt)
    return NUMBER * numbers + LIST * lists + 4 * sum(map(len, texts))


def _parsed(text: str) -> list:
    """The values of a text one after another; of a list its values."""
    if text.count("[") + text.count("{") > MAX_BRACKETS or text.count(",") > MAX_COMMAS:
        raise TraceError("more lists and numbers than the largest traces that can be shown have: record fewer runs")
    decoder, found, at = json.JSONDecoder(), [], _SPACE.match(text).end()
    try:
        while (at < len(text) and len(found) <= MAX_RUNS) or not found:  # there may be millions
            value, at = decoder.raw_decode(text, at)
            found.append(value)
            at = _SPACE.match(text, at).end()
    except (ValueError, RecursionError) as error:  # the latter: brackets within brackets without end
        raise no_trace(error) from error
    if len(found) > MAX_RUNS:
        raise TraceError(f"more than {MAX_RUNS} runs, and {MAX_RUNS} can be shown side by side: take fewer")
    return [run for value in found for run in (value if isinstance(value, list) else [value])]


def _one(run: object, index: int, count: int) -> Trace:
    schema = str(run.get("schema")) if isinstance(run, dict) else ""
    if kind := OTHERS.get(schema.partition("/")[0]):
        raise no_trace(kind=kind)
    try:
        trace = from_dict(run)
        _check(trace)
    except TraceError as error:
        raise TraceError(f"run {index + 1}: {error}" if count > 1 else str(error)) from error
    return trace


def _check(trace: Trace) -> None:
    """Nothing in it is too long to be shown."""
    names = [trace.method, trace.target, trace.device, trace.dtype, trace.recorded, trace.drafter]
    names += [str(item) for pairs in (trace.settings, trace.versions) for pair in pairs.items() for item in pair]
    names += [name for step in trace.steps for name in step.tree.columns]
    if long := next((name for name in names if len(name) > MAX_TEXT), None):
        raise TraceError(f"{long[:40]!r} has {len(long):,} characters, {MAX_TEXT:,} can be shown: shorten it")
    for name, most in (("prompt", MAX_IDS), ("pieces", MAX_IDS), ("settings", MAX_NAMES), ("versions", MAX_NAMES)):
        _few(getattr(trace, name), most, f"trace.{name}")
    for index, step in enumerate(trace.steps):
        _few(step.tree.columns, MAX_NAMES, f"steps[{index}].tree.columns")
        _few(step.tree.cut, MAX_CUT, f"steps[{index}].tree.cut")
    levels = max((_levels(step.tree) for step in trace.steps), default=0)
    if levels > MAX_LEVELS:
        raise TraceError(f"a tree has {levels:,} levels, {MAX_LEVELS} can be shown: record with a lower depth")
    for token, piece in trace.pieces.items():
        if len(piece) > MAX_TEXT:
            raise TraceError(
                f"trace.pieces[{token}] has {len(piece):,} characters, {MAX_TEXT:,} can be shown: shorten it"
            )


def _few(values: Sized, most: int, where: str) -> None:
    if len(values) > most:
        raise TraceError(f"{where} has {len(values):,} entries, {most:,} can be kept: leave some out")


def _levels(tree: DraftTree) -> int:
    """Of the tree with the nodes that were cut."""
    depths = tree.depths()
    for parent in tree.cut.parents:
        depths.append(depths[parent] + 1)
    return max(depths)
