"""What the page does with the model: live races, rounds decoded again, lanes compared along a text, heads examined.

Where a host has GPUs to lend (ZeroGPU), a decorator runs the part that uses the model in a process of its own, whose
memory is lost: its traces come out as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import gradio as gr

from jakiro.doctor.visit import as_json, visit
from jakiro.heed import Heed, heedless
from jakiro.methods import METHODS
from jakiro.traces import read_traces, traces_json
from jakiro.ui.comparing import compare
from jakiro.ui.library import Library
from jakiro.ui.models import Loaded, Models, RequestError, requested
from jakiro.ui.questions import Asked
from jakiro.ui.race import Race, check
from jakiro.ui.stream import events, flushed, pace
from jakiro.ui.whatif import what_if

Decorator = Callable[[Callable], Callable]
T = TypeVar("T")


def live_races(models: Models, library: Library, gpu: Decorator | None) -> Callable[..., Iterator[str]]:
    """The generator that runs a race and keeps its traces: lines of JSON so far, again and again."""

    def here(id: str, *arguments: Any) -> Iterator[str]:
        loaded = models.get()
        race = Race(loaded, check(loaded, *arguments))
        library.begin(id, race.request.prompt)
        if titles := [METHODS[name].title for name in race.untuned()]:
            what = f"which draft tree suits machine and temperature, for {' and '.join(titles)}"
            gr.Info(f"Measuring {what}: some seconds, once.", duration=6)
        yield from flushed(run(race, id), race.left, pace(race.target.device))

    def run(race: Race, id: str) -> Iterator[dict[str, Any]]:
        try:
            with race.models.busy:
                yield from events(race, id)
        finally:
            race.close()  # so that its caches go now, and not with a later collection of garbage
            library.keep(id, race.traces())  # a race that was stopped can be looked at as far as it went
            race.models.settle()

    if gpu is None:
        return here

    @gpu
    def elsewhere(id: str, *arguments: Any) -> Iterator[str]:
        yield from here(id, *arguments)
        yield traces_json(library.traces(id))

    def live(id: str, *arguments: Any) -> Iterator[str]:
        check(models.get(), *arguments)  # here: another process waits in vain for models, and loses an error's words
        for text in elsewhere(id, *arguments):
            if text.startswith("["):
                traces = read_traces(text)
                library.begin(id, arguments[0])
                library.keep(id, traces)
                models.get().settle()
            else:
                yield text

    return live


def branches(models: Models, library: Library, gpu: Decorator | None) -> Callable[[Asked, Heed], str]:
    """The function that decodes rounds again, as asked, and gives the id of the race that comes of it."""

    def here(loaded: Loaded, asked: Asked, heed: Heed) -> tuple[str, dict[str, Any]]:
        traces, facts = what_if(loaded, library, asked, heed)
        return traces_json(traces), facts

    decode = _lent(here, models, gpu)

    def again(asked: Asked, heed: Heed) -> str:
        text, facts = decode(asked, heed)
        id = library.add(read_traces(text), facts)
        models.get().settle()
        return id

    return again


def comparisons(models: Models, library: Library, gpu: Decorator | None) -> Callable[[Asked, Heed], dict[str, Any]]:
    """The function that compares two lanes, as asked, and keeps the result under race, lane and other."""

    run = _lent(lambda loaded, asked, heed: compare(loaded, library, asked, heed), models, gpu)

    def compared(asked: Asked, heed: Heed) -> dict[str, Any]:
        text = run(asked, heed)
        found = {name: asked[name] for name in ("race", "lane", "other")}
        library.keep_comparison(**found, text=text)
        return found

    return compared


def examinations(
    models: Models, prompts: Sequence[str], gpu: Decorator | None
) -> Callable[[Asked, Heed], dict[str, Any]]:
    """The function that has the doctor examine the head of a method, as asked, on the target's answers to `prompts`."""

    def here(loaded: Loaded, asked: Asked, heed: Heed) -> dict[str, Any]:
        with requested():
            return as_json(visit(loaded.target, str(asked.get("method")), prompts, heed))

    return _lent(here, models, gpu)


def _lent(
    work: Callable[[Loaded, Asked, Heed], T], models: Models, gpu: Decorator | None
) -> Callable[[Asked, Heed], T]:
    """`work` on the models while it alone has them, with a GPU where a host lends them: in its process it heeds
    nothing, and an error would lose its words."""

    def alone(asked: Asked, heed: Heed) -> T:
        loaded = models.get()
        with loaded.held(heed):
            return work(loaded, asked, heed)

    if gpu is None:
        return alone

    @gpu
    def there(asked: Asked) -> tuple[T | None, str]:
        try:
            return alone(asked, heedless), ""
        except RequestError as error:
            return None, str(error)

    def run(asked: Asked, heed: Heed) -> T:
        found, why = there(asked)
        if why:
            raise RequestError(why)
        return found

    return run
