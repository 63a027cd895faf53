"""A race as the page sees it while it runs: append-only lines of JSON.

    {"event": "start", "race": id, "prompt", "target", "device", "lanes": [{"method", "title"}]}
    {"event": "tokens", "lane": index, "id": [..], "text": [..], "drafted": accepted ones, they come first,
     "nodes": of the tree, "at": seconds on the lane's own clock, "draft", "verify", "overhead": seconds}
                                            # the first of a lane is its prefill, which has no nodes and no phases
    {"event": "done", "race": id}           # its traces can be asked for now

The race runs in a thread of its own, which nothing but the race uses: a web server's handlers change threads from call
to call, and torch sets its own threads up again in each.
"""

from __future__ import annotations

import json
import math
import queue
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from joblib import cpu_count

from jakiro.engine import Prefill
from jakiro.machine import device_name
from jakiro.methods import METHODS
from jakiro.text import pieces
from jakiro.trace import StepTrace
from jakiro.ui.race import Race

IDLE = 0.5  # seconds without news after which what there is is given again, at least


class Pace(NamedTuple):
    """How a race leaves time to the browser, on whose cores it may run."""

    period: float  # seconds between two flushes, each of which is drawn
    first: float  # seconds between the first, which announces the lanes, and the first round
    rest: float = 0.0  # between another and the next round: none is timed while the browser draws


FREE, CROWDED = Pace(0.25, 0.0), Pace(0.5, 0.15, 0.05)


def events(race: Race, name: str) -> Iterator[dict[str, Any]]:
    """Run the race; one JSON-able dictionary a line."""
    target = race.target
    yield {
        "event": "start",
        "race": name,
        "prompt": race.request.prompt,
        "target": target.name,
        "device": device_name(target.device),
        "lanes": [{"method": lane.method, "title": METHODS[lane.method].title} for lane in race.lanes],
    }
    for index, event in race.rounds():
        tokens, facts = _facts(event)
        text = pieces(target.tokenizer, tokens)
        news = {"event": "tokens", "lane": index, "id": tokens, "text": [text[token] for token in tokens]}
        yield news | facts | {"at": race.lanes[index].seconds}


def line(event: dict[str, Any]) -> str:
    """An event as the viewer reads it."""
    return json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n"


def pace(device: torch.device) -> Pace:
    """Of a race that computes on `device`: on all cores of a CPU or not."""
    return CROWDED if device.type == "cpu" and torch.get_num_threads() >= cpu_count() else FREE


def flushed(source: Iterator[dict[str, Any]], left: threading.Event, pace: Pace) -> Iterator[str]:
    """Everything that `source` gave so far as lines of JSON, again and again while there is more, at this pace; without
    news, too, at once and then now and again: Gradio can close an iterator only between two answers, and loses one
    that is stopped before its first.

    `source` runs in its own thread, and its exception is raised here. When this iterator is closed, `left` is set, and
    `source` is closed at its next event, in its own thread, too: the one that closes this may be a web server's loop
    and does not wait.
    """
    box: queue.SimpleQueue = queue.SimpleQueue()
    due = threading.Event()
    worker = threading.Thread(target=_work, args=(source, box, due, left, pace), name="race", daemon=True)
    worker.start()
    text, more = "", True
    try:
        yield text
        while more:
            due.wait(max(IDLE, 2 * pace.period))
            due.clear()
            lines, more = _drain(box)
            text += lines
            if lines or more:
                yield text
    finally:
        left.set()


def _work(
    source: Iterator[dict[str, Any]], box: queue.SimpleQueue, due: threading.Event, left: threading.Event, pace: Pace
) -> None:
    rest, flushed_at = pace.first, -math.inf
    try:
        for event in source:
            box.put(event)
            if left.is_set():
                break
            if time.monotonic() >= flushed_at + pace.period:
                due.set()
                time.sleep(rest)
                rest, flushed_at = pace.rest, time.monotonic()
    except Exception as error:  # raised again in the thread that reads, without the caches that it was raised over
        traceback.clear_frames(error.__traceback__)
        box.put(error)
    finally:
        source.close()
        box.put(None)
        due.set()


def _drain(box: queue.SimpleQueue) -> tuple[str, bool]:
    """What has gathered since the last call, and whether more will come."""
    found = []
    while not box.empty():  # nobody else reads
        found.append(box.get())
    for event in found:
        if isinstance(event, Exception):
            raise event
    return "".join(line(event) for event in found if event is not None), None not in found


def _facts(event: Prefill | StepTrace) -> tuple[list[int], dict[str, Any]]:
    if isinstance(event, Prefill):
        return [event.first], {"drafted": 0}
    times = {"draft": event.draft_s, "verify": event.verify_s, "overhead": event.overhead_s}
    return event.emitted, {"drafted": len(event.accepted), "nodes": len(event.tree), **times}
