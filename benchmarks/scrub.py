"""How soon the page is there and how smoothly it scrubs: `python -m benchmarks.scrub [--rounds 200 --nodes 60]`.

Opens the page in headless Chromium on a made-up race, moves the playhead by one round a frame over all rounds, forth
and back, and prints JSON. From the page's first byte to the first screen (`first_ms`: lanes and timeline's slider; the
tree as a sketch; the tree as plotly draws it, with hover and zoom); from frame to frame while scrubbing (`frame_ms`),
where rounds follow one another too fast for plotly and are sketched; from the last of them to its picture by plotly
(`settled_ms`); the main thread's CPU time of an update (`work_ms`, which suffers less from other load on the machine);
whether zoom and the plot's element were kept. `view_frame_ms` are the frames with the other views of a round open
instead of the tree, whose figures plotly draws a few times a second meanwhile; Compare's race is a real one, of the
embedded model with as many nodes. `recorded_first_ms` is the first screen of first visits to the recorded races.
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
    Page,
    browser,
    first_screen,
    open_page,
    served,
    tree_trace,
    vanilla_trace,
    versions,
    wait_for_tree,
)
from jakiro.assets import TARGET, TRACES
from jakiro.commands.arguments import positive
from jakiro.engine import record
from jakiro.methods import METHODS
from jakiro.target import Target
from jakiro.text import encode
from jakiro.ui import recorded
from jakiro.verify import GREEDY

VISITS = 7
VIEWS = {  # tab -> what is there when it is drawn
    "outline": "[data-view=outline] [aria-current=true]",
    "routing": "[data-figure=run_routing][data-drawn=yes]",
    "diversity": "[data-figure=run_diversity][data-drawn=yes]",
    "run": "[data-figure=classes][data-drawn=yes]",
    "table": "[data-view=table] tr",
}
PROMPT = "Write a short story about a small boat and the sea."

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


def measure(chromium: Browser, target: Target, rounds: int, nodes: int) -> dict[str, Any]:
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
            views = {name: _frames(_scrub_view(tab, name, rounds)) for name in VIEWS}
    return {
        **common.head("jakiro-scrub/3", torch.device("cpu"), **versions(chromium)),
        "rounds": rounds,
        "nodes": nodes,
        "first_ms": first,
        "recorded_first_ms": first_screens(chromium),
        "updates": len(times),
        "frame_ms": _frames(times),
        "view_frame_ms": views | {"compare": _frames(compared(chromium, target, nodes))},
        "work_ms": busy,
        "settled_ms": scrubbed["settled"],
        "zoom_kept": after == zoomed | {"same": True} and zoomed["x"][0] > 0,
        "trouble": trouble,
    }


def _scrub_view(tab: Page, name: str, rounds: int) -> list[float]:
    tab.locator(f"[data-tab={name}]").click()
    tab.wait_for_selector(VIEWS[name])
    return tab.evaluate(SCRUB, rounds)["times"]


def compared(chromium: Browser, target: Target, nodes: int) -> list[float]:
    """ms from frame to frame while scrubbing over two heads' drafts along one text."""
    tree, ids = {"total_tokens": nodes, "top_k": 10, "depth": 6}, encode(target.tokenizer, PROMPT)
    runs = []
    for name in ("eagle2", "jakiro"):
        settings = METHODS[name].settings(**tree)
        runs.append(record(target, METHODS[name].load(target)(settings), ids, 96, GREEDY, name, settings))
    with tempfile.TemporaryDirectory() as folder:
        recorded.save(folder, "pair", "Pair", PROMPT, runs)
        with served(Path(folder), target) as address:
            tab, trouble = open_page(chromium, address, "?race=pair&method=jakiro&against=eagle2&round=0")
            wait_for_tree(tab)
            tab.wait_for_selector("[data-models=ready]")
            tab.locator("[data-tab=compare]").click()
            tab.locator("[data-view=compare] .primary").click()
            tab.wait_for_selector("[data-figure=reach][data-drawn=yes]")
            times = tab.evaluate(SCRUB, len(runs[1].steps))["times"]
            assert not trouble, trouble
    return times


def _frames(times: list[float]) -> dict[str, float]:
    return {"median": statistics.median(times), "p90": statistics.quantiles(times, n=10)[-1]}


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
        found = measure(chromium, Target.load(options.target), options.rounds, options.nodes)
    return found, [[_line(found)]]


def _line(found: dict[str, Any]) -> dict[str, str]:
    first = {name: times["median"] for name, times in found["recorded_first_ms"].items()}
    return {
        "updates": str(found["updates"]),
        "frame ms": common.cell(found["frame_ms"]["median"], 1),
        "90 % below ms": common.cell(found["frame_ms"]["p90"], 1),
        **{f"{name} ms": common.cell(times["median"], 1) for name, times in found["view_frame_ms"].items()},
        "settled ms": common.cell(found["settled_ms"], 0),
        **{f"first {name} ms": common.cell(time, 0) for name, time in first.items()},
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("scrub", __doc__)
    parser.add_argument("--rounds", type=positive, default=200)
    parser.add_argument("--nodes", type=positive, default=60)
    parser.add_argument("--target", type=Path, default=TARGET, help="whose heads Compare is measured with")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
