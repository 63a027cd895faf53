"""A race: several methods on one prompt, on one machine, each timed by itself.

The lanes take turns: one goes on until it has used TURN seconds more of its own time than another, and then the one
that has used the least is next. So all lanes advance on one virtual clock, none disturbs another's timing, and the page
can replay the race at true speed. Turns of one round would find the caches full of another lane's weights.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jakiro.engine import Prefill, as_trace, decode
from jakiro.measuring.tuning import TOTALS
from jakiro.methods import METHODS
from jakiro.settings import AUTO, build
from jakiro.text import encode
from jakiro.trace import StepTrace, Trace
from jakiro.traces import MAX_NODES, MAX_ROUNDS
from jakiro.tree import MAX_CUT
from jakiro.ui.models import Left, Loaded, RequestError, requested
from jakiro.verify import Sampling

MAX_PROMPT = 100_000  # characters; a longer one is refused before the tokenizer sees it
LARGEST = sys.float_info.max
TURN = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Request:
    """A race that can be run: everything checked."""

    prompt: str
    ids: list[int]  # of the prompt, chat template applied
    methods: list[str]
    max_new_tokens: int
    sampling: Sampling
    settings: dict[str, Any]  # method -> its settings, auto where a number is to be measured


@dataclass(slots=True)
class Lane:
    """One method's run so far."""

    method: str
    rounds: Generator[Prefill | StepTrace, None, None]
    prefill: Prefill | None = None
    steps: list[StepTrace] = field(default_factory=list)
    seconds: float = 0.0  # of its own: prefill and rounds
    running: bool = True

    def advance(self) -> Prefill | StepTrace | None:
        """Run the prefill or one round; None when the text has ended."""
        event = next(self.rounds, None)
        self.running = event is not None
        if isinstance(event, Prefill):
            self.prefill = event
        elif event is not None:
            self.steps.append(event)
        self.seconds += event.seconds if event else 0.0
        return event


class Race:
    """The lanes of a request and the rule by which they take turns. Iterate over `rounds`, `close`, read `traces`.

    Once `left` is set, measuring what is auto ends, in `rounds`, with Left; rounds end where they are not asked for.
    """

    def __init__(self, models: Loaded, request: Request) -> None:
        self.models, self.target, self.request = models, models.target, request
        self.settings = dict(request.settings)  # method -> its settings, in numbers once its lane has begun
        self.lanes = [Lane(method, self._run(method)) for method in request.methods]
        self.left = threading.Event()

    def rounds(self) -> Iterator[tuple[int, Prefill | StepTrace]]:
        """(index of the lane, what it did), a turn after the other. May be left at any time.

        Raises RequestError after more nodes than can be shown: how many a method drafts is not known of each.
        """
        nodes = cut = index = 0
        while running := [at for at, lane in enumerate(self.lanes) if lane.running]:
            behind = min(running, key=lambda at: self.lanes[at].seconds)
            if index not in running or self.lanes[index].seconds > self.lanes[behind].seconds + TURN:
                index = behind
            event = self.lanes[index].advance()
            if isinstance(event, StepTrace):
                nodes, cut = nodes + len(event.tree), cut + len(event.tree.cut)
                if max(nodes, cut) > MAX_NODES:
                    self.lanes[index].steps.pop()
                    raise RequestError(
                        f"this race ended early: more than the {MAX_NODES:,} nodes that can be shown were drafted; "
                        "lower max_new_tokens, or race fewer methods"
                    )
            if event is not None:
                yield index, event

    def close(self) -> None:
        """Let go of what the lanes decode with: caches, drafters, recorded programs. They go no further."""
        for lane in self.lanes:
            lane.rounds.close()

    def traces(self) -> list[Trace]:
        """A trace a lane, of the rounds so far; lanes that have not begun are left out."""
        return [self._trace(lane) for lane in self.lanes if lane.prefill]

    def untuned(self) -> list[str]:
        """The methods whose lanes will begin by measuring which tree suits the target."""
        tuner, sampling = self.models.tuner, self.request.sampling
        return [name for name, settings in self.settings.items() if tuner.waits(name, settings, sampling)]

    def _run(self, method: str) -> Generator[Prefill | StepTrace, None, None]:
        """What a lane does. It measures what is auto before it gives anything, so that no event's time holds that."""
        request, make = self.request, self.models.makers[method]
        asked = method, make, self.settings[method], request.sampling
        settings = self.settings[method] = self.models.tuner.resolved(*asked, self._stay)
        yield from decode(self.target, make(settings), request.ids, request.max_new_tokens, request.sampling)

    def _stay(self) -> None:
        if self.left.is_set():
            raise Left

    def _trace(self, lane: Lane) -> Trace:
        request = self.request
        what = (self.target, request.ids, request.max_new_tokens, request.sampling, lane.prefill, lane.steps)
        return as_trace(*what, lane.method, self.settings[lane.method])


def check(
    models: Loaded,
    prompt: str,
    methods: Sequence[str],
    max_new_tokens: int,
    temperature: float,
    top_p: float,
    seed: int,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Request:
    """The one place where input is checked, from the page and the API alike. Raises RequestError with the remedy.

    `changes` are settings that differ from the device's defaults: method -> name -> value.
    """
    known, changes = _methods(models, methods), _changes(changes)
    length = whole("max_new_tokens", max_new_tokens)
    if not 1 <= length <= models.target.context:
        raise RequestError(f"max_new_tokens must be from 1 to {models.target.context}, not {length!s:.40}")
    with requested():
        sampling = Sampling(number("temperature", temperature), number("top_p", top_p), whole("seed", seed))
        settings = {name: build(METHODS[name].settings, models.defaults[name], changes.get(name, {})) for name in known}
        ids = _ids(models, prompt)
    _check_size(length, list(settings.values()))
    return Request(prompt, ids, known, length, sampling, settings)


def _check_size(length: int, settings: list[Any]) -> None:
    """Refuse a race whose traces could not be shown, or opened as a file."""
    nodes = length * sum(map(_most_nodes, settings))
    cut = length * MAX_CUT * sum(hasattr(one, "total_tokens") for one in settings)
    for does, count, what, most, lower in (
        ("take", length * len(settings), "rounds", MAX_ROUNDS, "max_new_tokens"),
        ("draft", nodes, "nodes", MAX_NODES, "max_new_tokens or total_tokens"),
        ("cut", cut, "nodes", MAX_NODES, "max_new_tokens"),
    ):
        if count > most:
            raise RequestError(
                f"this race may {does} up to {count:,} {what}, and {most:,} can be shown: lower {lower}, or race fewer "
                "methods"
            )


def _most_nodes(settings: Any) -> int:
    """Nodes that a round of a method with these settings may have."""
    if not hasattr(settings, "total_tokens"):
        return 1 + getattr(settings, "depth", 0)
    return max(TOTALS) if settings.total_tokens == AUTO else settings.total_tokens


def _methods(models: Loaded, methods: Any) -> list[str]:
    if not isinstance(methods, (list, tuple)):
        raise RequestError(f"methods must be a list of names, not {type(methods).__name__}")
    if not methods:
        raise RequestError(f"choose at least one method: {', '.join(METHODS[name].title for name in models.makers)}")
    for name in methods:
        if not isinstance(name, str) or name not in METHODS:
            raise RequestError(f"unknown method {str(name)[:40]!r}; known: {', '.join(METHODS)}")
        if name in models.missing:
            raise RequestError(f"{METHODS[name].title} cannot run here: {models.missing[name]}")
    if len(set(methods)) < len(methods):
        raise RequestError("each method can race once; remove the repeated ones")
    return list(methods)


def _changes(changes: Any) -> Mapping[str, Mapping[str, Any]]:
    if changes is None:
        return {}
    if not isinstance(changes, Mapping) or not all(isinstance(one, Mapping) for one in changes.values()):
        raise RequestError('settings must be names with values for each method, as {"jakiro": {"depth": 4}}')
    for name in changes:
        if name not in METHODS:
            raise RequestError(f"settings are for an unknown method {str(name)[:40]!r}; known: {', '.join(METHODS)}")
    return changes


def _ids(models: Loaded, prompt: Any) -> list[int]:
    if not isinstance(prompt, str):
        raise RequestError(f"the prompt must be text, not {type(prompt).__name__}")
    if len(prompt) > MAX_PROMPT:
        raise RequestError(f"the prompt has {len(prompt):,} characters; shorten it to {MAX_PROMPT:,}")
    ids = encode(models.target.tokenizer, prompt)
    if len(ids) >= models.target.context:
        raise RequestError(
            f"the prompt has {len(ids):,} tokens and {models.target.name} reads {models.target.context:,} with the "
            "answer; shorten it"
        )
    return ids


def number(name: str, value: Any) -> float:
    """What somebody gave for `name`. Raises RequestError where it is no finite number."""
    if value is None:
        raise RequestError(f"{name} is empty: give a number")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        raise RequestError(f"{name} must be a finite number, not {str(value)[:40]!r}")
    return float(value)


def whole(name: str, value: Any) -> int:
    """Likewise of a whole number, which may come as a float."""
    read = value if isinstance(value, int) and not isinstance(value, bool) else number(name, value)
    if read != int(read):
        raise RequestError(f"{name} must be a whole number, not {value}")
    return int(read)
