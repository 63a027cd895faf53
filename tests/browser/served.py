"""The page on a free port and a browser to look at it: for the browser tests, the scrub benchmark, the screenshots."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from jakiro.target import Target
from jakiro.ui import page
from jakiro.ui.library import Library
from jakiro.ui.models import Models

# The system's own; Playwright's download is not needed. The shell has no window, which saves a quarter of the work.
SHELL = shutil.which("chromium-headless-shell") or ""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), SHELL)
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
TIMEOUT = 180_000  # ms, for a busy machine
expect.set_options(timeout=TIMEOUT)
MISSING = not CHROMIUM and "CI" not in os.environ  # there a missing one is a failure
IN_CHROMIUM = [pytest.mark.browser, pytest.mark.skipif(MISSING, reason="needs Chromium on the PATH")]
WIDE = {"width": 1440, "height": 900}
SCREENS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}},
}
ON_EVERY_SCREEN = pytest.mark.parametrize("show", SCREENS, indirect=True)
WIDE_AND_NARROW = pytest.mark.parametrize("show", ["light", "narrow"], indirect=True)  # where colours change nothing
HOSTILE = "<img src=x onerror=window.hacked=1>"  # text of a recorded race that must stay text
FEW_FRAMES = "window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 1000);"
# A replay may be over between two looks of Playwright, so the page notes what its button says.
HEAR_THE_REPLAY = """() => {
  const play = document.querySelector('[data-part=play]');
  window.said = '';
  new MutationObserver(() => { said += play.textContent; }).observe(play, {childList: true});
}"""
REPLAYED = "/Pause.*Play/.test(said)"
# What Gradio says of its stream of events that a reload cuts off. It may still be open when a race is over.
CUT_OFF = "AbortError|errored out"
DROP = """(text) => {
  const data = new DataTransfer();
  data.items.add(new File([text], 'dropped.json'));
  document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


@contextmanager
def served(traces: Path, target: Target | None = None) -> Iterator[str]:
    """The page's address while it is up. Without a target it only shows recorded races."""
    models = Models(lambda: target if target is not None else _no_target())
    with launched(models, Library(traces)) as address:
        yield address


@contextmanager
def launched(models: Models, library: Library) -> Iterator[str]:
    """The page's address while it is up. Starts to load the models."""
    demo = page.build(models, library)
    demo.launch(**page.options(models, library), server_name="127.0.0.1", prevent_thread_lock=True)
    models.start()
    try:
        yield demo.local_url
    finally:
        demo.close(verbose=False)


@contextmanager
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


def open_page(chromium: Browser, address: str, path: str = "", **context) -> tuple[Page, list[str]]:
    """A tab with the page, drawn, as somebody sees it who was never here, and what `visit` gives."""
    tab = chromium.new_context(**({"viewport": WIDE} | context)).new_page()
    return tab, visit(tab, address, path)


def visit(tab: Page, address: str, path: str = "") -> list[str]:
    """Draw the page. The list gathers console errors, exceptions and requests to elsewhere."""
    tab.set_default_timeout(TIMEOUT)
    trouble: list[str] = []
    tab.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    own = ("data:", "blob:", address)
    tab.on("request", lambda request: None if request.url.startswith(own) else trouble.append(request.url))
    tab.goto(address + path)
    tab.wait_for_selector("[data-ready]")
    return trouble


def wait_until(tab: Page, holds: Callable[[], bool]) -> None:
    """Until something holds outside the browser, which goes on meanwhile. Fails after TIMEOUT."""
    for _ in range(TIMEOUT // 50):
        if holds():
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"what a test waits for did not come within {TIMEOUT / 1000:.0f} s")


def part(tab: Page, name: str) -> Locator:
    """A part of the viewer's template."""
    return tab.locator(f"#viewer [data-part={name}]")


def wait_for_timeline(tab: Page) -> None:
    """Until the timeline is drawn, the last figure of a page that opens: with it the lane is shown anew."""
    tab.wait_for_selector("[data-part=bars][data-drawn=yes]")


def wait_for_tree(tab: Page) -> None:
    """Until the round's tree is drawn, which a narrow screen does not begin with."""
    tab.locator("[data-tab=tree]").click()
    tab.wait_for_selector("[data-figure=tree][data-drawn=yes]")


def with_facts(about=(), lane=()):
    """A handler of requests that adds facts to a race, and to its last lane."""

    def answer(route):
        answered = route.fetch()
        race = json.loads(answered.text())
        race["about"] |= dict(about)
        race["replay"]["traces"][-1] |= dict(lane)
        route.fulfill(response=answered, json=race)

    return answer


def race_live(tab: Page, prompt: str) -> None:
    """Run a live race and wait until its first tree is drawn."""
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("#prompt textarea").fill(prompt)
    tab.locator("[data-do=run]").click()
    tab.wait_for_selector("#viewer [data-running=no]")  # the click has begun it; what is shown before may be live, too
    expect(part(tab, "kind")).to_have_text("live")
    wait_for_tree(tab)


def _no_target() -> Target:
    raise ValueError("this page was started without a model")
