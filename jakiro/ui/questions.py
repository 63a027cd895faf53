"""Questions of the page to the model about what is finished: rounds again, two lanes compared, a head examined."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import gradio as gr
from gradio.events import Dependency

from jakiro.ui.models import RequestError

LOG = logging.getLogger(__name__)


def wire(
    viewer: gr.HTML, again: Callable[..., str], compare: Callable[..., Mapping], examine: Callable[..., dict]
) -> list[Dependency]:
    """What is asked of the model about a finished race or a head. The answer is a line like those of a running one."""

    def decode_again(event: gr.EventData) -> str:
        return answered(lambda asked: {"event": "done", "race": again(asked)}, event._data)

    def compared(event: gr.EventData) -> str:
        return answered(lambda asked: {"event": "compared", **compare(asked)}, event._data)

    def examined(event: gr.EventData) -> str:
        def found(asked: Mapping[str, Any]) -> dict[str, Any]:
            return {"event": "examined", "method": asked.get("method"), **examine(asked)}

        return answered(found, event._data)

    model = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
    wired = [
        ask(answer, None, viewer, show_progress="hidden", **model)
        for ask, answer in ((viewer.branch, decode_again), (viewer.compare, compared), (viewer.doctor, examined))
    ]
    for one in wired:
        when_over(one, "over", "failed")
    return wired


def answered(work: Callable[[Mapping[str, Any]], dict[str, Any]], asked: Any) -> str:
    """What `work` found of what is asked as a line, or the line that says why it found nothing. Anybody can ask.

    A line comes with the `nonce` of what was asked, by which the page knows its answer.
    """
    if not isinstance(asked, Mapping):
        return refused("what is asked must be names with values")
    told = {"nonce": asked["nonce"]} if isinstance(asked.get("nonce"), int) else {}
    try:
        return line(work(asked) | {"time": time.time()} | told)  # never the line before
    except RequestError as error:
        return refused(str(error), told)
    except Exception as error:  # the page would wait for ever
        LOG.exception("a question failed")
        return refused(f"this failed: {error}", told)


def refused(message: str, told: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The line that says why nothing came of what was asked."""
    return line({"event": "error", "message": message, "time": time.time(), **told})  # never the line before


def when_over(asked: Dependency, over: str, failed: str) -> None:
    """Tell the viewer's Run button when Gradio is through: `then` does not come after an error. A stop brings an error,
    and then both."""
    asked.then(None, js=tell_run(over), api_visibility="private")
    asked.failure(None, js=tell_run(failed), api_visibility="private")


def tell_run(event: str) -> str:
    """A script that tells the viewer's Run button of something (assets/viewer/runs.js)."""
    return f"() => document.querySelector('#viewer [data-do=run]').dispatchEvent(new Event('{event}'))"


def line(event: dict[str, Any]) -> str:
    """An event as the viewer reads it."""
    return json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n"
