"""Every race that the page can show, by id: recorded ones from files, live ones for as long as they are kept."""

from __future__ import annotations

import gzip
import secrets
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jakiro.trace import Trace
from jakiro.traces import weight
from jakiro.ui import recorded
from jakiro.ui.about import LIVE, OPENED, about, prepared, prompt_of
from jakiro.ui.models import RequestError

KEPT = 256  # live races, and texts prepared for the browser: as a rule their bytes are too many first
KEPT_BYTES = 500_000_000  # of the live races' traces, all together, about
KEPT_TEXT_BYTES = 100_000_000  # of the prepared texts, all together, compressed; and of comparisons, which are not
PATIENCE = 30.0  # seconds to wait for a race that is being stopped
WAITERS = 8  # requests that may wait at once: each holds a thread of the web server


class StillRunning(RequestError):
    """The race is there, but not over."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A race that is not among the recorded ones."""

    prompt: str
    traces: list[Trace]
    facts: Mapping[str, Any]  # kind, and what else the page is to say of it
    bytes: int  # of memory, about


class Library:
    """Traces and what the browser gets of them, both bounded: the least recently used goes first. Safe in threads."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.recorded = {race.id: race for race in recorded.read(folder)}
        self._live: OrderedDict[str, Kept] = OrderedDict()
        self._packed: OrderedDict[str, bytes] = OrderedDict()
        self._compared: OrderedDict[tuple[str, int, int], str] = OrderedDict()  # race, lane and other -> JSON text
        self._waiting = 0
        self._running: dict[str, tuple[str, Mapping[str, Any]]] = {}  # id -> prompt, facts
        self._preparing: set[str] = set()  # ids whose text is being made
        self._changed = threading.Condition()

    def opening(self) -> list[str]:
        """The id of the race that the page opens on; empty without recorded ones."""
        return list(self.recorded)[:1]

    def add(self, traces: Sequence[Trace], facts: Mapping[str, Any] = OPENED) -> str:
        """Keep runs that were not raced here; `facts` say what they are. Their id is as hard to guess as a live one."""
        id = self.new_id().replace("live", "kept")
        self.begin(id, prompt_of(traces[0]), facts)
        self.keep(id, traces)
        return id

    @staticmethod
    def new_id() -> str:
        """An id for a live race. Not to be guessed: a race is seen by those who were given its address."""
        return f"live-{secrets.token_hex(6)}"

    def begin(self, id: str, prompt: str, facts: Mapping[str, Any] = LIVE) -> None:
        """A live race has started; who asks for it waits until it is kept."""
        with self._changed:
            self._running[id] = prompt, facts

    def keep(self, id: str, traces: Sequence[Trace]) -> None:
        """A live race is over. Without a single trace it is forgotten."""
        held = sum(map(weight, traces))
        with self._changed:
            prompt, facts = self._running.pop(id, ("", LIVE))
            if traces:
                kept = Kept(prompt, list(traces), facts, held)
                for other in _put(self._live, id, kept, lambda one: one.bytes, KEPT_BYTES, _opened):
                    self._forget(other)
            self._changed.notify_all()

    def traces(self, id: str) -> list[Trace]:
        """The traces of a race. Raises RequestError where it is not there, StillRunning where it is not over."""
        if id in self.recorded:
            return recorded.load(self.folder, self.recorded[id])
        return self._kept(id).traces

    def about(self, id: str) -> dict[str, Any]:
        """What is shown: id, title, prompt, model, device, date, and where it is from. Raises RequestError."""
        if id in self.recorded:
            facts = asdict(self.recorded[id])
            del facts["traces"]
            return facts | {"kind": "recorded"}
        kept = self._kept(id)
        return about(id, kept.prompt, kept.traces, kept.facts)

    def chosen(self, id: Any, *lanes: Any) -> tuple[list[Trace], list[Trace]]:
        """All traces of a race, and those of some of its lanes, whatever a visitor named. Raises RequestError."""
        if not isinstance(id, str) or any(type(lane) is not int for lane in lanes):
            raise RequestError("name a race, which is text, and its lanes by their numbers, from 0")
        traces = self.traces(id)
        if wrong := [lane for lane in lanes if not 0 <= lane < len(traces)]:
            raise RequestError(f"there is no lane {wrong[0] + 1!s:.40}: this race has {len(traces)}")
        return traces, [traces[lane] for lane in lanes]

    def text(self, id: str) -> str:
        """What the browser draws the race from: {"about": .., "replay": .. (replay.py)}. Raises RequestError."""
        return gzip.decompress(self.packed(id)).decode()

    def packed(self, id: str, quiet: Callable[[], AbstractContextManager] = nullcontext) -> bytes:
        """That text, compressed, made within `quiet` where it has to be made. Raises RequestError."""
        if packed := self.made(id):
            return packed
        facts, traces = self.about(id), self.traces(id)
        with self._changed:  # of many who ask, as after a live race, one makes it
            self._wait(lambda: id not in self._preparing)
            if packed := self.made(id):
                return packed
            if id in self._preparing:
                raise StillRunning("this race is being prepared for others, too: open it in a moment")
            self._preparing.add(id)
        try:
            with quiet():
                packed = pack(prepared(facts, traces))
            with self._changed:
                if id in self.recorded or id in self._live:
                    _put(self._packed, id, packed, len, KEPT_TEXT_BYTES)
        finally:
            with self._changed:
                self._preparing.discard(id)
                self._changed.notify_all()
        return packed

    def made(self, id: str) -> bytes | None:
        """That text, where it has been made and is kept."""
        with self._changed:
            if id in self._packed:
                self._packed.move_to_end(id)
            return self._packed.get(id)

    def keep_comparison(self, race: str, lane: int, other: int, text: str) -> None:
        """Keep what came of comparing two lanes of a race."""
        with self._changed:
            _put(self._compared, (race, lane, other), text, sys.getsizeof, KEPT_TEXT_BYTES)

    def comparison(self, race: str, lane: int, other: int) -> str:
        """What was kept. Raises RequestError where it is not there (any more)."""
        with self._changed:
            found = self._compared.get((race, lane, other))
        if found is None:
            raise RequestError("these lanes have not been compared, or not of late: compare them again")
        return found

    def comparisons(self, race: str) -> dict[str, str]:
        """All that are kept of a race: "lane/other" -> JSON text."""
        with self._changed:
            return {f"{lane}/{other}": text for (id, lane, other), text in self._compared.items() if id == race}

    def _forget(self, id: str) -> None:
        """What was made of a race goes with it."""
        self._packed.pop(id, None)
        for key in [key for key in self._compared if key[0] == id]:
            del self._compared[key]

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Until something is so, unless too many wait already: each has a thread of the web server."""
        if ready() or self._waiting >= WAITERS:
            return
        self._waiting += 1
        try:
            self._changed.wait_for(ready, PATIENCE)
        finally:
            self._waiting -= 1

    def _kept(self, id: str) -> Kept:
        with self._changed:
            self._wait(lambda: id not in self._running)
            if id in self._running:
                raise StillRunning("this race is still running: open it when it is over")
            if id not in self._live:
                raise RequestError(f"the race {id[:40]!r} is not kept any more: run it again, or choose a recorded one")
            self._live.move_to_end(id)
            return self._live[id]


def pack(text: str) -> bytes:
    """For who takes gzip, as browsers do."""
    return gzip.compress(text.encode(), compresslevel=5)


def _opened(kept: Kept) -> bool:
    """Whether it is of a file, of which anyone can send many: who sent it has it still."""
    return kept.facts.get("kind") == OPENED["kind"]


def _put(
    shelf: OrderedDict,
    key: Hashable,
    value: Any,
    size: Callable[[Any], int],
    most: int,
    soon: Callable[[Any], bool] = lambda value: False,
) -> list[Any]:
    """Put a value on a shelf of KEPT values of `most` together, but always the last one; the keys of what has to go:
    those that go `soon` before others."""
    shelf[key] = value
    shelf.move_to_end(key)
    gone = []
    while len(shelf) > KEPT or (len(shelf) > 1 and sum(map(size, shelf.values())) > most):
        others = list(shelf)[:-1]
        gone.append(next((other for other in others if soon(shelf[other])), others[0]))
        del shelf[gone[-1]]
    return gone
