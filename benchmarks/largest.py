"""A large race on the page: what it takes to prepare, to show and to hold. Part of load.py."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from benchmarks.browsing import Browser, first_screen, open_page, served, tree_trace, vanilla_trace, wait_for_tree
from jakiro.machine import peak_bytes, reset_peak
from jakiro.trace import Trace
from jakiro.ui import recorded
from jakiro.ui.library import Library

RACE = "largest"


def largest(chromium: Browser | None, rounds: int, nodes: int, visits: int) -> dict[str, Any]:
    """A made-up race of vanilla and two heads with `rounds` rounds each; `shown` is None without a browser."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            "rounds": rounds,
            "nodes": nodes,
            "trace_bytes": _save(Path(folder), rounds, nodes),
            "prepared": _prepared(Library(folder)),
            "shown": chromium and _shown(chromium, Path(folder), visits),
        }


def _save(folder: Path, rounds: int, nodes: int) -> int:
    """Write a small race, which the page opens with, and the large one; the bytes of the latter's files."""
    lanes = made_up(rounds, nodes)
    recorded.save(folder, "small", "Small", "made up", [vanilla_trace(lanes[0].tokens[:4])])
    race = recorded.save(folder, RACE, "Largest", "made up", lanes)
    return sum((folder / name).stat().st_size for name in race.traces)


def made_up(rounds: int, nodes: int) -> list[Trace]:
    """Vanilla's run and two heads' with that many rounds."""
    run = tree_trace(rounds, nodes)
    return [vanilla_trace(run.tokens), tree_trace(rounds, nodes, experts=False), run]


def _prepared(library: Library) -> dict[str, Any]:
    """Seconds to read the race and to make its text for the browser, and this process's memory."""
    device = torch.device("cpu")
    before = common.resident_bytes()
    reset_peak(device)
    start = time.perf_counter()
    text = library.text(RACE)
    seconds, peak = time.perf_counter() - start, peak_bytes(device)
    memory = {"before": before, "peak": peak, "after": common.resident_bytes()}
    return {"seconds": seconds, "text_bytes": len(text.encode()), "resident_bytes": memory}


def _shown(chromium: Browser, folder: Path, visits: int) -> dict[str, Any]:
    """Visits to a server that has not prepared the race before, and its memory."""
    with served(folder) as address:
        before = common.resident_bytes()
        found = [_visit(chromium, address) for _ in range(visits)]
        return {"resident_bytes": {"before": before, "after": common.resident_bytes()}, "visits": found}


def _visit(chromium: Browser, address: str) -> dict[str, Any]:
    """First screen, and bytes of the browser's heap once the tree is drawn and garbage is collected."""
    tab, trouble = open_page(chromium, address, f"?race={RACE}&method=jakiro&round=0")
    wait_for_tree(tab)
    first = first_screen(tab)
    client = tab.context.new_cdp_session(tab)
    client.send("HeapProfiler.collectGarbage")
    heap = client.send("Runtime.getHeapUsage")["usedSize"]
    tab.context.close()
    assert not trouble, trouble
    return {"first_ms": first, "js_heap_bytes": heap}
