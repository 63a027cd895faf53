"""How soon the page is there and how smoothly it scrubs: `python -m benchmarks.scrub [--rounds 200 --nodes 60]`.

Opens the page in headless Chromium on a made-up race, moves the playhead by one round a frame over all rounds, forth
and back, and prints JSON. From the page's first byte to the first screen (`first_ms`: lanes and timeline's slider; the
tree as a sketch; the tree as plotly draws it, with hover and zoom); from frame to frame while scrubbing (`frame_ms`),
where rounds follow one another too fast for plotly and are sketched; from the last of them to its picture by plotly
(`settled_ms`); the main thread's CPU time of an update (`work_ms`, which suffers less from other load on the machine);
whether zoom and the plot's element were kept. `recorded_first_ms` is the first screen of first visits to the recorded
races.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from benchmarks.browsing import (
    CHROMIUM,
    NO_BROWSER,
    Browser,
    browser,
    first_screen,
    open_page,
    served,
    tree_trace,
    vanilla_trace,
    versions,
    wait_for_tree,
)
from jakiro.assets import TRACES
from jakiro.ui import recorded

VISITS = 7

SCRUB = """
async (rounds) => {
  const slider = document.querySelector('[data-part=scrub]');
  const frame = () => new Promise(requestAnimationFrame);
  const order = [...Array(rounds).keys()];
  const times = [];
  await frame();
  let last = await frame();
  for (const round of [...order, ...order.reverse()]) {
    slider.value = round;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  const moved = performance.now();
  while (document.querySelector('[data-figure=tree]').dataset.drawn !== 'yes') await frame();
  return {times, settled: performance.now() - moved};
}
"""
RANGES = """
() => {
  const plot = document.querySelector('[data-figure=tree]');
  const same = plot === window.plotBefore;
  window.plotBefore = plot;
  return {same, x: plot._fullLayout.xaxis.range, y: plot._fullLayout.yaxis.range};
}
"""


def measure(chromium: Browser, rounds: int, nodes: int) -> dict[str, Any]:
    """Record, open, zoom, scrub; the numbers."""
    run = tree_trace(rounds, nodes)
    with tempfile.TemporaryDirectory() as folder:
        recorded.save(folder, "scrub", "Scrub", "made up", [vanilla_trace(run.tokens), run])
        with served(Path(folder)) as address:
            tab, trouble = open_page(chromium, address, "?race=scrub&method=jakiro&round=0")
            wait_for_tree(tab)
            first = first_screen(tab)
            tab.locator("[data-figure=tree]").hover()
            tab.locator("[data-figure=tree] [data-title='Zoom in']").click()
            zoomed = tab.evaluate(RANGES)
            client = tab.context.new_cdp_session(tab)
            client.send("Performance.enable", {"timeDomain": "threadTicks"})
            before = _busy(client)
            scrubbed = tab.evaluate(SCRUB, rounds)
            times = scrubbed["times"]
            busy = 1000 * (_busy(client) - before) / len(times)
            after = tab.evaluate(RANGES)
    return {
        **common.head("jakiro-scrub/2", torch.device("cpu"), **versions(chromium)),
        "rounds": rounds,
        "nodes": nodes,
        "first_ms": first,
        "recorded_first_ms": first_screens(chromium),
        "updates": len(times),
        "frame_ms": {"median": statistics.median(times), "p90": statistics.quantiles(times, n=10)[-1]},
        "work_ms": busy,
        "settled_ms": scrubbed["settled"],
        "zoom_kept": after == zoomed | {"same": True} and zoomed["x"][0] > 0,
        "trouble": trouble,
    }


def first_screens(chromium: Browser) -> dict[str, Any]:
    """ms to the first screen in several first visits to the recorded races."""
    found = []
    with served(TRACES) as address:
        for _ in range(VISITS):
            tab, trouble = open_page(chromium, address)
            wait_for_tree(tab)
            found.append(first_screen(tab))
            tab.context.close()
            assert not trouble, trouble
    columns = {name: [one[name] for one in found] for name in found[0]}
    return {name: {"median": statistics.median(times), "all": times} for name, times in columns.items()}


def _busy(client) -> float:
    """Seconds of CPU time that the page's main thread has used in tasks."""
    metrics = client.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Open a browser and measure."""
    if not CHROMIUM:
        raise FileNotFoundError(NO_BROWSER)
    with browser() as chromium:
        found = measure(chromium, options.rounds, options.nodes)
    return found, [[_line(found)]]


def _line(found: dict[str, Any]) -> dict[str, str]:
    first = {name: times["median"] for name, times in found["recorded_first_ms"].items()}
    return {
        "updates": str(found["updates"]),
        "frame ms": common.cell(found["frame_ms"]["median"], 1),
        "90 % below ms": common.cell(found["frame_ms"]["p90"], 1),
        "settled ms": common.cell(found["settled_ms"], 0),
        **{f"first {name} ms": common.cell(time, 0) for name, time in first.items()},
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("scrub", __doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=60)
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
