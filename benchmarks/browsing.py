"""The page in a browser, and made-up races to show there: what the tests have, for the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

import gradio  # noqa: E402
from playwright.sync_api import Browser, Page  # noqa: E402
from served import CHROMIUM, browser, launched, open_page, served, wait_for_tree  # noqa: E402
from synthetic import tree_trace, vanilla_trace  # noqa: E402

from jakiro.assets import PLOTLY  # noqa: E402

__all__ = [
    "CHROMIUM",
    "NO_BROWSER",
    "Browser",
    "Page",
    "browser",
    "first_screen",
    "launched",
    "open_page",
    "served",
    "tree_trace",
    "vanilla_trace",
    "versions",
    "wait_for_tree",
]

NO_BROWSER = "there is no Chromium on the PATH (Debian: apt-get install chromium)"

_FIRST = """
() => {
  const {responseStart} = performance.getEntriesByType('navigation')[0];
  const since = (name) => performance.getEntriesByName(name)[0].startTime - responseStart;
  return {lanes: since('jakiro-lanes'), tree: since('jakiro-preview'), plotly: since('jakiro-tree')};
}
"""


def first_screen(tab: Page) -> dict[str, float]:
    """ms from the page's first byte to: lanes and timeline's slider; the tree as a sketch; the tree by plotly."""
    return tab.evaluate(_FIRST)


def versions(chromium: Browser | None) -> dict[str, str]:
    """Of what the page is shown with."""
    shown = {"gradio": gradio.__version__, "plotly.js": PLOTLY.name.removesuffix(".min.js").rpartition("-")[2]}
    return shown | ({"chromium": chromium.version} if chromium else {})
