"""The target and the methods that run on it, loaded once and in the background, so that the page opens without them."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from jakiro.doctor.visit import patients
from jakiro.drafter import Drafter
from jakiro.engine import record
from jakiro.heed import Heed
from jakiro.machine import machine, settle, versions
from jakiro.measuring.tuning import Tuner
from jakiro.memory import out_of_memory
from jakiro.methods import METHODS, on_heads
from jakiro.target import Target
from jakiro.trace import Trace, kind_of, same_drafter
from jakiro.verify import GREEDY

LOG = logging.getLogger(__name__)
WARM_UP_TOKENS = 8
LOOK = 0.2  # seconds between two looks whether anybody still waits for what waits for the models
QUIET = 5.0  # seconds that other work waits for what runs on the models, at most
TOO_LARGE = "the memory does not suffice: take another --dtype or --device, or a smaller --target"


class RequestError(ValueError):
    """Something that the user can put right; the message says what and how."""


@contextmanager
def requested() -> Iterator[None]:
    """What is wrong with what a user asked for, as a RequestError."""
    try:
        yield
    except ValueError as error:
        raise RequestError(str(error)) from error


class Left(Exception):
    """Nobody waits any more for what was asked of the models."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a race needs."""

    target: Target
    makers: dict[str, Callable[[Any], Drafter]]  # method -> settings -> a fresh drafter, for the methods that can run
    defaults: dict[str, Any]  # method -> settings that suit the target's device and the head
    missing: dict[str, str]  # method -> why it cannot run here, with the remedy
    tuner: Tuner  # measures what is auto in their settings
    busy: threading.Lock = field(default_factory=threading.Lock)  # held by what runs on them: the queue lets go sooner

    def maker(self, method: str) -> Callable[[Any], Drafter]:
        """What makes its drafters. Raises RequestError where it is not known or cannot run here."""
        if method not in self.makers:
            why = self.missing.get(method, f"known are {', '.join(METHODS)}")
            raise RequestError(f"{method[:40]} cannot run here: {why}")
        return self.makers[method]

    def drafting(self, trace: Trace) -> str:
        """The method that drafts here as a run did: of those with heads of its kind the one that has its head; else the
        one of its name, or of its kind where that is another head's that is not here."""
        kind, heads = kind_of(trace.method), self.target.heads
        for name in (trace.method, *heads):  # first its own: an older trace knows no weights
            known = name in self.makers and name in heads and kind_of(name) == kind
            if known and same_drafter(self.target.drafters.get(heads[name], ""), trace.drafter):
                return name
        return kind if trace.method not in self.makers and kind in self.makers else trace.method

    def wanted(self) -> list[str]:
        """The missing methods that a user would look for: not those for which no head was given, if others have one."""
        headless = {name for name in on_heads() if name not in self.target.heads}
        return [name for name in self.missing if name not in headless or self.makers.keys().isdisjoint(on_heads())]

    @contextmanager
    def held(self, heed: Heed) -> Iterator[None]:
        """The models, for what is asked of them alone. While it waits it heeds what may end it (`Left`)."""
        while not self.busy.acquire(timeout=LOOK):
            heed(0.0)
        try:
            yield
        finally:
            self.busy.release()

    def settle(self) -> None:
        """Collect garbage, unless that would stop what runs on them in the middle of a round."""
        if self.busy.acquire(blocking=False):
            try:
                settle()
            finally:
                self.busy.release()


def load(target: Target) -> Loaded:
    """Load every method that the target allows, and warm each up, so that the first race is timed like the others."""
    makers, defaults, missing = {}, {}, {}
    for name, method in METHODS.items():
        if why := method.unavailable(target):
            missing[name] = why
            continue
        try:
            make, settings = method.load(target), method.defaults(target)
            _warm_up(target, make(settings))
            makers[name], defaults[name] = make, settings
        except (ValueError, OSError) as error:  # a damaged or foreign head: the other methods still race
            missing[name] = str(error)
            LOG.warning("%s cannot run: %s", name, error)
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}"
            LOG.exception("%s cannot run", name)
    return Loaded(target, makers, defaults, missing, Tuner(target))


class Models:
    """Loads in a thread of its own; `get` waits for it."""

    def __init__(self, read: Callable[[], Target]) -> None:
        self._read = read
        self._done = threading.Event()
        self._loaded: Loaded | None = None
        self._error = ""
        if hasattr(os, "register_at_fork"):  # as a host that lends GPUs does for each call
            os.register_at_fork(after_in_child=partial(_forked, weakref.ref(self)))

    def start(self) -> None:
        """Begin to load. Returns at once."""
        threading.Thread(target=self._work, name="models", daemon=True).start()

    def get(self) -> Loaded:
        """The models, as soon as they are there. Raises RequestError if they could not be loaded."""
        self._done.wait()
        if self._loaded is None:
            raise RequestError(f"no model to run: {self._error}")
        return self._loaded

    def settle(self) -> None:
        """`Loaded.settle`, once there is something that could run."""
        if self._loaded is not None:
            self._loaded.settle()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """For work that takes the processor without the models: while it goes on no round is timed, whose seconds would
        be longer for it. After QUIET seconds it is not kept waiting any longer."""
        busy = self._loaded.busy if self._loaded else None
        free = busy is not None and busy.acquire(timeout=QUIET)
        try:
            yield
        finally:
            if free:
                busy.release()

    def tunings(self) -> list[dict[str, Any]]:
        """What was measured here for settings that are auto, each as `python -m jakiro tune --out` writes it."""
        if self._loaded is None:
            return []
        target, found = self._loaded.target, list(self._loaded.tuner.found.values())
        about = {"machine": machine(target.device), "versions": versions(), "command": "a race of this page, with auto"}
        return [asdict(one) | about for one in found]

    def status(self) -> dict[str, Any]:
        """What the page says about them: state is loading, ready or failed."""
        if not self._done.is_set():
            return {"state": "loading", "text": "The models are loading."}
        if self._loaded is None:
            return {"state": "failed", "text": f"Live runs are off: {self._error}"}
        name = self._loaded.target.name
        heads = [method for method in patients() if method in self._loaded.makers]
        told = {"missing": self._loaded.missing, "target": name, "heads": heads}
        return {"state": "ready", "text": f"{name} is ready.", **told}

    def _work(self) -> None:
        try:
            self._loaded = load(self._read())
            settle()
        except (ValueError, OSError) as error:  # says what to do; the page stays useful for recorded traces
            LOG.warning("live runs are off: %s", error)
            self._error = str(error)
        except Exception as error:
            LOG.exception("live runs are off")
            self._error = TOO_LARGE if out_of_memory(error) else f"{type(error).__name__}: {error}"
        finally:
            self._done.set()


def _forked(parent: weakref.ref[Models]) -> None:
    """In a process of its own nobody else is at work: who held the models stayed behind."""
    if (models := parent()) is not None and models._loaded is not None:
        models._loaded = replace(models._loaded, busy=threading.Lock())


def _warm_up(target: Target, drafter: Drafter) -> None:
    """A few tokens, thrown away: first calls pay for kernels and threads."""
    record(target, drafter, [0, 1, 2, 3], WARM_UP_TOKENS, GREEDY)
