"""Questions of the page to the model about what is finished: rounds again, two lanes compared, a head examined."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr

from jakiro.ui.models import RequestError


def wire(
    viewer: gr.HTML, again: Callable[..., str], compare: Callable[..., Mapping], examine: Callable[..., dict]
) -> None:
    """What is asked of the model about a finished race or a head. The answer is a line like those of a running one."""

    def decode_again(event: gr.EventData) -> str:
        return _answer(lambda: {"event": "done", "race": again(event._data)})

    def compared(event: gr.EventData) -> str:
        return _answer(lambda: {"event": "compared", **compare(event._data)})

    def examined(event: gr.EventData) -> str:
        return _answer(lambda: {"event": "examined", "method": event._data["method"], **examine(event._data)})

    model = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
    viewer.branch(decode_again, None, viewer, show_progress="hidden", **model)
    viewer.compare(compared, None, viewer, show_progress="hidden", **model)
    viewer.doctor(examined, None, viewer, show_progress="hidden", **model)


def _answer(work: Callable[[], dict[str, Any]]) -> str:
    try:
        return line(work() | {"time": time.time()})  # never the line before
    except RequestError as error:
        return line({"event": "error", "message": str(error), "time": time.time()})


def line(event: dict[str, Any]) -> str:
    """An event as the viewer reads it."""
    return json.dumps(event, ensure_ascii=False) + "\n"
