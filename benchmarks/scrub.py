"""How soon the page is there and how smoothly it scrubs: `python benchmarks/scrub.py [--rounds 200 --nodes 60]`.

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
import json
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

import plotly  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402
from served import browser, open_page, served, wait_for_tree  # noqa: E402
from synthetic import tree_trace, vanilla_trace  # noqa: E402

from jakiro.assets import TRACES  # noqa: E402
from jakiro.ui import recorded  # noqa: E402

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
FIRST = """
() => {
  const {responseStart} = performance.getEntriesByType('navigation')[0];
  const since = (name) => performance.getEntriesByName(name)[0].startTime - responseStart;
  return {lanes: since('jakiro-lanes'), tree: since('jakiro-preview'), plotly: since('jakiro-tree')};
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
            first = tab.evaluate(FIRST)
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
        "schema": "jakiro-scrub/1",
        "machine": {"processor": platform.processor() or platform.machine(), "chromium": chromium.version},
        "plotly": plotly.__version__,
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
            found.append(tab.evaluate(FIRST))
            tab.context.close()
            assert not trouble, trouble
    columns = {name: [one[name] for one in found] for name in found[0]}
    return {name: {"median": statistics.median(times), "all": times} for name, times in columns.items()}


def _busy(client) -> float:
    """Seconds of CPU time that the page's main thread has used in tasks."""
    metrics = client.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    with browser() as chromium:
        text = json.dumps(measure(chromium, options.rounds, options.nodes), indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
