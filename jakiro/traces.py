"""Several traces in one file, which anyone may have written: read whole, checked, held within what can be shown.

A file holds one trace, a JSON list of traces (as the page exports them), or one trace a line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from jakiro.trace import Trace, TraceError, from_dict, to_json

MAX_BYTES = 64 * 2**20  # of a file
MAX_NODES = 150_000  # of all trees together: they are sent to the browser and kept for a while
MAX_RUNS = 8
MAX_LEVELS = 64  # of a tree
MAX_TEXT = 1_000  # characters of a token's text or of a name


def traces_json(traces: Sequence[Trace]) -> str:
    """A JSON list of traces (`jakiro-trace/1`)."""
    return "[" + ",\n".join(map(to_json, traces)) + "]\n"


def load_traces(path: Path) -> list[Trace]:
    """The runs of a file. Raises OSError, or TraceError naming the file and what is wrong with it."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TraceError(f"{path.stat().st_size:,} bytes, and {MAX_BYTES:,} can be read: record fewer runs")
        return read_traces(path.read_text(encoding="utf-8"))
    except (TraceError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error


def read_traces(text: str) -> list[Trace]:
    """The runs in a text. Raises TraceError."""
    runs = _parsed(text)
    if not 1 <= len(runs) <= MAX_RUNS:
        raise TraceError(f"{len(runs)} runs, and 1 to {MAX_RUNS} can be shown side by side: split the file")
    traces = [_one(run, index, len(runs)) for index, run in enumerate(runs)]
    nodes = sum(len(step.tree) for trace in traces for step in trace.steps)
    if nodes > MAX_NODES:
        raise TraceError(f"{nodes:,} nodes, and {MAX_NODES:,} can be shown: record fewer rounds or smaller trees")
    return traces


def _parsed(text: str) -> list:
    try:
        try:
            data = json.loads(text)
        except json.JSONDecodeError:
            lines = [line for line in text.split("\n") if line.strip()]  # JSON may hold other line ends as they are
            if len(lines) < 2:
                raise
            return [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:  # the latter: brackets within brackets without end
        raise TraceError(f"not a trace: the file is not JSON ({error}); export it again") from error
    return data if isinstance(data, list) else [data]


def _one(run: object, index: int, count: int) -> Trace:
    try:
        trace = from_dict(run)
        _check(trace)
    except TraceError as error:
        raise TraceError(f"run {index + 1}: {error}" if count > 1 else str(error)) from error
    return trace


def _check(trace: Trace) -> None:
    """Nothing in it is too long to be shown."""
    names = [trace.method, trace.target, trace.device, trace.dtype, trace.recorded]
    names += [str(item) for pairs in (trace.settings, trace.versions) for pair in pairs.items() for item in pair]
    names += [name for step in trace.steps for name in step.tree.columns]
    if long := next((name for name in names if len(name) > MAX_TEXT), None):
        raise TraceError(f"{long[:40]!r} has {len(long):,} characters, {MAX_TEXT:,} can be shown: shorten it")
    levels = max((max(step.tree.depths()) for step in trace.steps), default=0)
    if levels > MAX_LEVELS:
        raise TraceError(f"a tree has {levels:,} levels, {MAX_LEVELS} can be shown: record with a lower depth")
    for token, piece in trace.pieces.items():
        if len(piece) > MAX_TEXT:
            raise TraceError(
                f"trace.pieces[{token}] has {len(piece):,} characters, {MAX_TEXT:,} can be shown: shorten it"
            )
