"""The page and the browsers of the browser tests."""

from __future__ import annotations

import re
from contextlib import ExitStack
from functools import cache

import pytest
import synthetic
from playwright.sync_api import sync_playwright
from served import CHROMIUM, FLAGS, HOSTILE, SCREENS, SHELL, WIDE, launched, visit, wait_for_tree

from jakiro.ui import panel, recorded
from jakiro.ui.controls import RACERS
from jakiro.ui.library import Library
from jakiro.ui.live import live_races
from jakiro.ui.models import Models

PROGRAM = SHELL or CHROMIUM
PROMPT = "the an the"
TOO_WIDE = """() => {
  // what ends right of the window, where that makes the page scroll
  if (document.documentElement.scrollWidth <= innerWidth) return '';
  const wide = [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > innerWidth);
  return wide.slice(0, 5).map((one) => one.cloneNode().outerHTML).join(' ') || 'nothing any more';
}"""


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
    """A browser that keeps the scripts that it has compiled, in memory too, so that the page opens in a third of the
    time."""
    folder = tmp_path_factory.mktemp("profile")
    args = [*FLAGS, "--renderer-process-limit=1"]
    started = playwright.chromium.launch_persistent_context(folder, executable_path=PROGRAM, args=args)
    yield started
    started.close()


@pytest.fixture(scope="package")
def page_of(target, tmp_path_factory):
    """A page with two recorded races, one hostile, and a tiny target, by how long live races are: its address, its
    models, its library."""
    folder = tmp_path_factory.mktemp("traces")
    run = synthetic.tree_trace(12, nodes=24)
    vanilla, eagle = synthetic.vanilla_trace(run.tokens), synthetic.tree_trace(16, nodes=20, experts=False, skill=0.5)
    recorded.save(folder, "question", "Question", "Why?", [vanilla, eagle, run])
    for trace in (vanilla, run):
        trace.pieces.update(dict.fromkeys(trace.tokens[:4], HOSTILE))
    recorded.save(folder, "hostile", "Hostile", HOSTILE, [vanilla, run])
    with ExitStack() as stack:

        @cache
        def page_of(new_tokens: int) -> tuple[str, Models, Library]:
            models, library = Models(lambda: target), Library(folder)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(panel, "NEW_TOKENS", new_tokens)
                return stack.enter_context(launched(models, library)), models, library

        yield page_of


@pytest.fixture(scope="module")
def new_tokens(request):
    """How long live races are. A module can say it."""
    return getattr(request.module, "NEW_TOKENS", panel.NEW_TOKENS)


@pytest.fixture(scope="module")
def address(page_of, new_tokens):
    """The page's."""
    return page_of(new_tokens)[0]


@pytest.fixture(scope="module")
def decoded(page_of, new_tokens):
    """The traces of a live race."""
    _, models, library = page_of(new_tokens)
    id = Library.new_id()
    for _ in live_races(models, library, None)(id, PROMPT, RACERS, new_tokens, 0, 1, 0):
        pass
    return library.traces(id)


@pytest.fixture
def show_live(show, page_of, new_tokens, decoded):
    """Opens the page on a live race that is over, of which nothing has been asked yet."""
    _, _, library = page_of(new_tokens)

    def open_one(**more):
        library.begin(id := Library.new_id(), PROMPT)
        library.keep(id, decoded)
        tab = show(f"?race={id}&method=jakiro&motion=0", **more)
        tab.wait_for_selector("#viewer [data-models=ready]")
        wait_for_tree(tab)
        return tab

    return open_one


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
        if wide := tab.evaluate(TOO_WIDE):
            trouble.append(f"the page scrolls sideways for {wide}")
        if tab.evaluate("Boolean(Date.isFake)"):  # it stays for all later tabs, and lets Gradio's events overtake
            trouble.append("a test that installs a clock needs a tab of its own, from `open_page`")
        tab.evaluate("localStorage.clear()")  # the next test is a newcomer, however this one ends
        tab.close()
    assert [one for _, trouble, expected in opened for one in trouble if not re.search(expected, one)] == []
