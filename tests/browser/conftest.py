"""One page and one browser for all browser tests."""

from __future__ import annotations

import pytest
import synthetic
from served import CHROMIUM, HOSTILE, SCREENS, SHELL, browser, open_page, served

from jakiro.ui import recorded


@pytest.fixture(scope="module")
def chromium():
    with browser(SHELL or CHROMIUM) as started:
        yield started


@pytest.fixture(scope="module")
def address(target, tmp_path_factory):
    """A page with two recorded races, one of them hostile, and a tiny target for live ones."""
    folder = tmp_path_factory.mktemp("traces")
    run = synthetic.tree_trace(12, nodes=24)
    vanilla, eagle = synthetic.vanilla_trace(run.tokens), synthetic.tree_trace(16, nodes=20, experts=False, skill=0.5)
    recorded.save(folder, "question", "Question", "Why?", [vanilla, eagle, run])
    for trace in (vanilla, run):
        trace.pieces.update(dict.fromkeys(trace.tokens[:4], HOSTILE))
    recorded.save(folder, "hostile", "Hostile", HOSTILE, [vanilla, run])
    with served(folder, target) as address:
        yield address


@pytest.fixture
def show(request, chromium, address):
    """Opens the page, on the screen that the test names; at its end nothing may have gone wrong in the browser."""
    screen = SCREENS[getattr(request, "param", "light")]
    opened = []

    def open_one(path: str = "", **context):
        tab, trouble = open_page(chromium, address, path, **screen | context)
        opened.append((tab, trouble))
        return tab

    yield open_one
    for tab, trouble in opened:
        if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
            trouble.append("the page scrolls sideways")
        tab.context.close()
        assert trouble == []
