"""What Gradio would let a client do to all others: fill its queue or its memory, or stop it, or write into the log.

What is refused is said to who asked, in a line. Gradio would log it whole, with a traceback.
"""

from __future__ import annotations

import json
import time
from collections import deque
from typing import Any

import gradio as gr
from fastapi.exceptions import RequestValidationError
from gradio.block_function import BlockFunction
from gradio.data_classes import PredictBodyInternal
from gradio.queueing import Event, Queue
from gradio.route_utils import FnIndexInferError
from gradio.server_messages import EventMessage, ProcessCompletedMessage
from starlette.requests import Request
from starlette.responses import Response

NAME = 100  # characters of the name that a client gives its session: Gradio keeps each for good, of any length
KEPT = 600.0  # seconds after a race for which its answer waits for who asked for it
SAID = 200  # characters of why something is refused


async def _unreadable(request: Request, error: RequestValidationError) -> Response:
    """What is wrong and where; FastAPI would send all that was asked back, and fail over what is no JSON."""
    return _refusal(422, [{"loc": one["loc"], "msg": one["msg"]} for one in error.errors()])


async def _unknown(request: Request, error: Exception) -> Response:
    """A name or a number of no function, or arguments that are not its own; other errors of these types stay so."""
    if not isinstance(error, FnIndexInferError) and not {"run", "api", "v2"}.intersection(request.url.path.split("/")):
        raise error
    return _refusal(422 if isinstance(error, TypeError) else 404, f"this cannot be run: {error}"[:SAID])


def _refusal(status: int, detail: Any) -> Response:
    return Response(json.dumps({"detail": detail}), status, media_type="application/json")


REFUSALS = {RequestValidationError: _unreadable, FnIndexInferError: _unknown, KeyError: _unknown, TypeError: _unknown}


def guard(demo: gr.Blocks) -> None:
    """Guard its queue, and refuse values that no function of the page takes in a line, to who sent them."""
    read = demo.preprocess_data

    async def given(function: BlockFunction, inputs: list[Any], *rest: Any, **more: Any) -> list[Any]:
        try:
            return await read(function, inputs, *rest, **more)
        except Exception as error:
            why = str(getattr(error, "message", error)).partition("\n")[0]
            raise gr.Error(why[:SAID], print_exception=False) from error

    demo.preprocess_data = given
    _guard(demo._queue)


def _guard(queue: Queue) -> None:
    """No client fills Gradio's queue for good, with the name of its session or with answers that it does not fetch, or
    stops it for all, without a name. What waits in it is what runs on the model."""
    push, send = queue.push, queue.send_message
    over: deque[tuple[float, Event]] = deque()

    async def pushed(body: PredictBodyInternal, **rest: Any) -> tuple:
        if len(body.session_hash or "") > NAME:
            return False, f"session_hash may have {NAME} characters: shorten it", "error"
        if (function := queue.blocks.fns.get(body.fn_index)) is None or not function.queue:
            return False, "nothing of this number waits in the queue", "error"
        return await push(body=body, **rest)

    def told(event: Event, message: EventMessage) -> None:
        if event.session_hash not in queue.pending_messages_per_session:
            event.alive = False  # nobody can hear it: Gradio's KeyError would end the loop that starts whatever waits
            return
        send(event, message)
        if isinstance(message, ProcessCompletedMessage):
            over.append((time.monotonic(), event))
        while over and time.monotonic() - over[0][0] > KEPT:
            forget(over.popleft()[1])

    def forget(event: Event) -> None:
        messages = queue.pending_messages_per_session.get(event.session_hash)
        if messages is not None and event._id in queue.pending_event_ids_session.get(event.session_hash, ()):
            late = {"error": f"this was not fetched for {KEPT / 60:g} minutes, and is forgotten: ask for it again"}
            for message in [messages.get_nowait() for _ in range(messages.qsize())]:
                if message.event_id != event._id:  # of another event of the session
                    messages.put_nowait(message)
            messages.put_nowait(ProcessCompletedMessage(output=late, success=False, event_id=event._id))

    queue.push, queue.send_message = pushed, told
