"""Questions of the page to the model about what is finished: rounds again, two lanes compared, a head examined."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any

import gradio as gr
from gradio.events import Dependency

from jakiro.heed import Heed
from jakiro.memory import out_of_memory
from jakiro.ui.models import Left, RequestError
from jakiro.ui.stream import FREE, flushed, line

LOG = logging.getLogger(__name__)
Asked = Mapping[str, Any]


def wire(
    viewer: gr.HTML,
    again: Callable[[Asked, Heed], str],
    compare: Callable[[Asked, Heed], Mapping],
    examine: Callable[[Asked, Heed], dict],
) -> list[Dependency]:
    """What is asked of the model about a finished race or a head. The answer is a line like those of a running one."""

    def asking(ask: Callable[..., Dependency], work: Callable[[Asked, Heed], dict[str, Any]]) -> Dependency:
        def answer(event: gr.EventData) -> Iterator[str]:
            yield from lines(work, event._data)

        model = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
        asked = ask(answer, None, viewer, show_progress="hidden", **model)
        when_over(asked, "over", "failed")
        return asked

    return [
        asking(viewer.branch, lambda asked, heed: {"event": "done", "race": again(asked, heed)}),
        asking(viewer.compare, lambda asked, heed: {"event": "compared", **compare(asked, heed)}),
        asking(
            viewer.doctor,
            lambda asked, heed: {"event": "examined", "method": asked.get("method"), **examine(asked, heed)},
        ),
    ]


def lines(work: Callable[[Asked, Heed], dict[str, Any]], asked: Any) -> Iterator[str]:
    """The line of an answer, once it is there; until then again and again how far the work is, or nothing before it
    has begun: so that whoever asked can stop, or go away, and the work ends with them."""
    left, share = threading.Event(), 0.0

    def heed(done: float) -> None:
        nonlocal share
        share = done
        if left.is_set():
            raise Left

    with closing(flushed((answered(work, one, heed) for one in [asked]), left, FREE)) as texts:
        for text in texts:
            yield text or (line({"event": "progress", "done": round(share, 2)} | _told(asked)) if share else "")


def answered(work: Callable[[Asked, Heed], dict[str, Any]], asked: Any, heed: Heed) -> dict[str, Any]:
    """What `work` found of what is asked as an event, or the one that says why it found nothing. Anybody can ask.

    An event comes with the `nonce` of what was asked, by which the page knows its answer.
    """
    if not isinstance(asked, Mapping):
        return refusal("what is asked must be names with values")
    told = _told(asked)
    try:
        return work(asked, heed) | {"time": time.time()} | told  # never the line before
    except Left:
        return refusal("stopped", told)
    except RequestError as error:
        return refusal(str(error), told)
    except Exception as error:  # the page would wait for ever
        LOG.exception("a question failed")
        return refusal(failure("this", error), told)


def _told(asked: Any) -> dict[str, int]:
    """What an event says of the question that it belongs to."""
    nonce = asked.get("nonce") if isinstance(asked, Mapping) else None
    return {"nonce": nonce} if isinstance(nonce, int) else {}


def failure(what: str, error: Exception) -> str:
    """What the page says where `what` ended in an error that nobody foresaw, or for want of memory."""
    if out_of_memory(error):
        less = "ask for fewer max_new_tokens or a smaller total_tokens"
        return f"the memory does not suffice: {less}, or start the page with another --dtype or --device"
    return f"{what} failed: {error}"


def refusal(message: str, told: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """The event that says why nothing came of what was asked."""
    return {"event": "error", "message": message, "time": time.time(), **told}  # never the line before


def refused(message: str) -> str:
    """The line of `refusal`."""
    return line(refusal(message))


def when_over(asked: Dependency, over: str, failed: str) -> None:
    """Tell the viewer's Run button when Gradio is through: `then` does not come after an error. A stop brings an error,
    and then both."""
    asked.then(None, js=tell_run(over), api_visibility="private")
    asked.failure(None, js=tell_run(failed), api_visibility="private")


def tell_run(event: str) -> str:
    """A script that tells the viewer's Run button of something (assets/viewer/runs.js)."""
    return f"() => document.querySelector('#viewer [data-do=run]').dispatchEvent(new Event('{event}'))"
