"""A race as files to take away: the traces themselves, the metrics, every node as a table row, and a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from jakiro import metrics, trace
from jakiro.analysis.tables import RACE, nodes_table
from jakiro.trace import Trace
from jakiro.traces import traces_json
from jakiro.ui import offline
from jakiro.ui.replay import keys


def traces_file(traces: Sequence[Trace], facts: Mapping[str, Any]) -> str:
    """A JSON list of the traces."""
    return traces_json(traces)


def traces_ndjson(traces: Sequence[Trace], facts: Mapping[str, Any]) -> str:
    """One trace a line."""
    return "".join(trace.to_json(one) + "\n" for one in traces)


def metrics_json(traces: Sequence[Trace], facts: Mapping[str, Any]) -> str:
    """One object a lane with its totals, and its speed-up where vanilla was asked the same on the same device.

    Whether it has the first one's text is said where it was asked the same; null: as far as the shorter one went.
    """
    lanes = zip(keys(traces), traces, strict=True)
    rows = [{"lane": lane, "method": one.method} | metrics.totals(one) for lane, one in lanes]
    for row, one in zip(rows, traces, strict=True):
        vanilla = metrics.baseline(one, traces)
        base, speed = None if vanilla is None else rows[vanilla]["tokens_per_second"], row["tokens_per_second"]
        row["speedup"] = speed / base if base and speed is not None else None
        if metrics.comparable([traces[0], one]):
            same, whole = metrics.divergence(traces[0], one) is None, len(traces[0].tokens) == len(one.tokens)
            row["identical_to_first"] = None if same and not whole else same
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"


def nodes_csv(traces: Sequence[Trace], facts: Mapping[str, Any]) -> str:
    """Every node of every tree of every lane as one row."""
    lanes = zip(keys(traces), traces, strict=True)
    table = pd.concat([nodes_table(one).assign(lane=lane, method=one.method) for lane, one in lanes], ignore_index=True)
    table = table[[*RACE, *(name for name in table if name not in RACE)]]
    return table.to_csv(index=False, lineterminator="\r\n")  # RFC 4180; a text that is a lone "\r" is quoted by it


# name in the address -> (media type, the function of the traces and of what the library says of the race)
EXPORTS: dict[str, tuple[str, Callable[[Sequence[Trace], Mapping[str, Any]], str]]] = {
    "replay.html": ("text/html", offline.page),
    "traces.json": ("application/json", traces_file),
    "traces.ndjson": ("application/x-ndjson", traces_ndjson),
    "metrics.json": ("application/json", metrics_json),
    "nodes.csv": ("text/csv", nodes_csv),
}
