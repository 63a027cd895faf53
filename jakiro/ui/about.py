"""What the page says of a race: where its runs are from, and what they were asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jakiro.methods import METHODS
from jakiro.trace import Trace
from jakiro.ui.replay import payload

PROMPT = 100_000  # characters of a prompt that is put together from its tokens
LIVE = MappingProxyType({"kind": "live"})
OPENED = MappingProxyType({"kind": "opened", "written": False})  # its prompt is known as tokens only, not as written
WHAT_IF = "what if"  # a kind, too: its lanes are no race, their texts may differ


def method_titles() -> dict[str, str]:
    """What the page calls each method."""
    return {name: method.title for name, method in METHODS.items()}


def method_summaries() -> dict[str, str]:
    """A sentence on each method."""
    return {name: method.summary for name, method in METHODS.items()}


def about(id: str, prompt: str, traces: Sequence[Trace], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says of a race, and of each lane where they differ.

    Kinds: recorded (with the project), live, opened (from a file), what if. `written` is False where the prompt is put
    together from its tokens, the chat template's among them: nobody wrote that, and it is no prompt to run again.
    """
    asked = facts.get("prompt", prompt)
    lanes = [
        {"model": one.target, "device": one.device, "date": one.recorded[:10]}
        | {"prompt": asked if "prompt" in facts or one.prompt == traces[0].prompt else prompt_of(one)}
        for one in traces
    ]
    several = {} if all(one == lanes[0] for one in lanes) else {"lanes": lanes}
    return {"id": id, "title": prompt} | lanes[0] | several | facts


def prepared(facts: Mapping[str, Any], traces: Sequence[Trace]) -> str:
    """What the browser draws a race from, given what `about` says of it."""
    return f'{{"about":{json.dumps(facts, ensure_ascii=False)},"replay":{payload(traces, method_titles())}}}'


def prompt_of(trace: Trace) -> str:
    """The beginning of the prompt as far as a trace has it: its tokens' texts, the chat template's among them."""
    found, room = [], PROMPT
    for token in trace.prompt[:PROMPT]:
        if room == 0:
            break
        found.append(trace.piece(token)[:room])
        room -= len(found[-1])
    return "".join(found)
