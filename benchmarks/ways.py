"""Five ways to decode a prompt by the page's methods: load.py compares them.

All decode in a thread that ends with the race, as the page does. One that had run torch and lived on would keep its
OpenMP workers, and races in other threads are then slower.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gradio_client import Client

from benchmarks.browsing import Browser, open_page, wait_for_tree
from jakiro.engine import record
from jakiro.machine import use_threads
from jakiro.trace import Trace
from jakiro.ui.about import LIVE
from jakiro.ui.controls import RACERS
from jakiro.ui.library import Library
from jakiro.ui.models import Loaded
from jakiro.ui.race import Race, Request, check

GREEDY = {"temperature": 0.0, "top_p": 1.0, "seed": 0}  # what the page has at first

SETTLED = 4000  # ms after which a page that was opened is at rest: Gradio's loading sign, long gone, moves on for three
REST = 500  # ms in which the page draws a race that is over; nobody asks for the next one sooner

RUN_LIVE = """
() => new Promise((done) => {
  const root = document.querySelector('#viewer [data-models]');
  const watch = new MutationObserver(() => {
    if (root.dataset.running === 'no') { watch.disconnect(); done(); }
  });
  watch.observe(root, {attributeFilter: ['data-running']});
  document.querySelector('[data-do=run]').click();
})
"""


@dataclass(frozen=True, slots=True)
class Run:
    """A race that is over: a trace a lane, and the seconds from its start to its end."""

    traces: list[Trace]
    wall_s: float


Decode = Callable[[str], Run]  # of a prompt


class Watched(Library):
    """A library that notes the last live race."""

    latest: Run | None = None
    began = 0.0

    def begin(self, id: str, prompt: str, facts: Mapping[str, Any] = LIVE) -> None:
        super().begin(id, prompt, facts)
        self.began = time.perf_counter()

    def keep(self, id: str, traces: Sequence[Trace]) -> None:
        self.latest = Run(list(traces), time.perf_counter() - self.began)
        super().keep(id, traces)


@dataclass(frozen=True, slots=True)
class Ways:
    """Each is a context in which there is a function that decodes a prompt, with so many CPU threads."""

    loaded: Loaded
    library: Watched
    address: str
    chromium: Browser | None
    max_new_tokens: int

    @contextmanager
    def command_line(self, threads: int) -> Iterator[Decode]:
        """Each method by itself, as the command line's benchmark decodes."""
        use_threads(threads)

        def decode(asked: Request) -> Run:
            start, traces = time.perf_counter(), []
            what = (asked.ids, asked.max_new_tokens, asked.sampling)
            for name in asked.methods:
                settings = asked.settings[name]
                drafter = self.loaded.makers[name](settings)
                traces.append(record(self.loaded.target, drafter, *what, name, settings, inspect=False))
            return Run(traces, time.perf_counter() - start)

        yield lambda prompt: _in_a_thread(decode, self._request(prompt))

    @contextmanager
    def race(self, threads: int) -> Iterator[Decode]:
        """The lanes in turns, without a page."""
        use_threads(threads)

        def decode(asked: Request) -> Run:
            race, start = Race(self.loaded, asked), time.perf_counter()
            for _ in race.rounds():
                pass
            return Run(race.traces(), time.perf_counter() - start)

        yield lambda prompt: _in_a_thread(decode, self._request(prompt))

    @contextmanager
    def beside(self, threads: int) -> Iterator[Decode]:
        """As `race`, while another process keeps another core busy with next to no memory."""
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as neighbour:
            try:
                with self.race(threads) as decode:
                    yield decode
            finally:
                neighbour.kill()

    @contextmanager
    def api(self, threads: int) -> Iterator[Decode]:
        """Asked for over the public endpoint, by a client in this process."""
        use_threads(threads)
        client = Client(self.address, verbose=False)

        def decode(prompt: str) -> Run:
            client.predict(prompt, list(RACERS), self.max_new_tokens, *GREEDY.values(), api_name="/race")
            return self.library.latest

        yield decode
        client.close()

    @contextmanager
    def page(self, threads: int) -> Iterator[Decode]:
        """By Run live, in a tab of its own that is at rest, and closed while the other ways decode."""
        use_threads(threads)
        tab, trouble = open_page(self.chromium, self.address)
        tab.wait_for_selector("#viewer [data-models=ready]")
        wait_for_tree(tab)
        tab.wait_for_timeout(SETTLED)
        tab.locator("[data-do=settings]").click()
        tab.get_by_label("max_new_tokens").fill(str(self.max_new_tokens))
        tab.locator("[data-do=settings]").click()

        def decode(prompt: str) -> Run:
            self.library.latest = None
            tab.locator("#prompt textarea").fill(prompt)
            tab.evaluate(RUN_LIVE)
            if self.library.latest is None:
                raise RuntimeError(f"no race was run: {tab.locator('[data-part=notice]').text_content()}")
            tab.wait_for_selector("#viewer [data-part=stage]:not(.running)")  # its trees are there
            tab.wait_for_timeout(REST)
            return self.library.latest

        yield decode
        tab.context.close()
        assert not trouble, trouble

    def _request(self, prompt: str) -> Request:
        return check(self.loaded, prompt, RACERS, self.max_new_tokens, **GREEDY)


def _in_a_thread(decode: Callable[[Request], Run], asked: Request) -> Run:
    """What it gives or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(decode, asked).result()
