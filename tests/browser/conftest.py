"""The page and the browsers of the browser tests."""

from __future__ import annotations

import re
from contextlib import ExitStack
from functools import cache

import pytest
import synthetic
from playwright.sync_api import sync_playwright
from served import CHROMIUM, FLAGS, HOSTILE, SCREENS, SHELL, WIDE, served, visit

from jakiro.ui import page, recorded

PROGRAM = SHELL or CHROMIUM


@pytest.fixture(scope="package")
def playwright():
    """Not for the whole session: its event loop would be in the way of tests that run one of their own."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="package")
def chromium(playwright):
    """A browser whose tabs know nothing of each other."""
    started = playwright.chromium.launch(executable_path=PROGRAM, args=FLAGS)
    yield started
    started.close()


@pytest.fixture(scope="package")
def profile(playwright, tmp_path_factory):
    """A browser that keeps the scripts that it has compiled, so that the page opens in half the time."""
    folder = tmp_path_factory.mktemp("profile")
    started = playwright.chromium.launch_persistent_context(folder, executable_path=PROGRAM, args=FLAGS)
    yield started
    started.close()


@pytest.fixture(scope="package")
def page_of(target, tmp_path_factory):
    """The address of a page with two recorded races, one hostile, and a tiny target, by how long live races are."""
    folder = tmp_path_factory.mktemp("traces")
    run = synthetic.tree_trace(12, nodes=24)
    vanilla, eagle = synthetic.vanilla_trace(run.tokens), synthetic.tree_trace(16, nodes=20, experts=False, skill=0.5)
    recorded.save(folder, "question", "Question", "Why?", [vanilla, eagle, run])
    for trace in (vanilla, run):
        trace.pieces.update(dict.fromkeys(trace.tokens[:4], HOSTILE))
    recorded.save(folder, "hostile", "Hostile", HOSTILE, [vanilla, run])
    with ExitStack() as stack:

        @cache
        def page_of(new_tokens: int) -> str:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(page, "NEW_TOKENS", new_tokens)
                return stack.enter_context(served(folder, target))

        yield page_of


@pytest.fixture(scope="module")
def address(request, page_of):
    """The page's. A module can say how long live races are."""
    return page_of(getattr(request.module, "NEW_TOKENS", page.NEW_TOKENS))


@pytest.fixture
def show(request, profile, address):
    """Opens the page, on the screen that the test names, with `routes` (handlers of requests by pattern) and after a
    `script`. At the end nothing may have gone wrong in the browser but what `expected`, a regular expression, is found
    in."""
    screen = SCREENS[getattr(request, "param", "light")]
    opened = []

    def open_one(path: str = "", routes=(), script: str = "", expected: str = "(?!)", **context):
        context = {"viewport": WIDE} | screen | context
        tab = profile.new_page()
        tab.set_viewport_size(context.pop("viewport"))
        tab.emulate_media(**context)
        tab.add_init_script(script)
        for pattern, handler in dict(routes).items():
            tab.route(pattern, handler)
        opened.append((tab, visit(tab, address, path), expected))
        return tab

    yield open_one
    for tab, trouble, _ in opened:
        if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
            trouble.append("the page scrolls sideways")
        tab.evaluate("localStorage.clear()")  # the next test is a newcomer, however this one ends
        tab.close()
    assert [one for _, trouble, expected in opened for one in trouble if not re.search(expected, one)] == []
