"""What if, as the page asks it: a round of a race, what to change, and the race that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from jakiro.branch import Change, branch, parted, told
from jakiro.heed import Heed, heedless
from jakiro.methods import METHODS
from jakiro.text import continued
from jakiro.trace import Trace
from jakiro.ui.about import WHAT_IF
from jakiro.ui.library import Library
from jakiro.ui.models import Loaded, RequestError, requested
from jakiro.ui.race import number, whole
from jakiro.ui.replay import keys

LONGEST = 1000  # characters of a text that is forced
# What may be changed beside settings, which have other names -> how it is read.
FIELDS = MappingProxyType({"temperature": number, "top_p": number, "seed": whole, "rounds": whole, "token": whole})


def what_if(
    loaded: Loaded, library: Library, asked: Mapping[str, Any], heed: Heed = heedless
) -> tuple[list[Trace], dict[str, Any]]:
    """Two runs, the rounds as they were and as they would have been, and what the page is to say of them as a race.

    `asked` has race, lane and round (from 0), and what is changed: settings, temperature, top_p, seed, rounds, and what
    stands after the round's root: a token, or a text. Raises RequestError with the remedy.
    """
    race, lane, index = asked.get("race"), asked.get("lane"), asked.get("round")
    traces, [trace] = library.chosen(race, lane)
    if type(index) is not int:
        raise RequestError("name the round to decode again by its number, from 0")
    make, method = loaded.maker(name := loaded.drafting(trace)), METHODS[name]
    with requested():
        as_was, would = branch(loaded.target, method, make, trace, index, _change(loaded, asked), heed)
    back = {"race": race, "method": keys(traces)[lane], "round": index}
    before = [would.piece(one) for one in would.prompt[len(as_was.prompt) :]]
    note = " ".join(filter(None, [told(as_was, would, index, method.title), parted(trace, as_was, index)]))
    facts = {"kind": WHAT_IF, "note": note, "back": back}
    facts["before"] = ["", "".join(before)]  # of either lane: what is forced and stands before its first token
    shown = library.about(race)
    prompt = shown["lanes"][lane]["prompt"] if "lanes" in shown else shown["prompt"]
    if "written" in shown:
        facts["written"] = shown["written"]
    return [as_was, would], facts | {"prompt": prompt, "title": prompt}


def _change(loaded: Loaded, asked: Mapping[str, Any]) -> Change:
    settings = asked.get("settings") or {}
    if not isinstance(settings, Mapping):
        raise ValueError("settings must be names with values")
    given = {name: read(name, asked[name]) for name, read in FIELDS.items() if asked.get(name) is not None}
    forced = (given.pop("token"),) if "token" in given else _ids(loaded, asked.get("text") or "")
    return Change(settings=dict(settings), forced=forced, **given)


def _ids(loaded: Loaded, text: Any) -> tuple[int, ...]:
    """Of what somebody wrote."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise ValueError(f"the text that is forced must be one of at most {LONGEST} characters")
    return tuple(continued(loaded.target.tokenizer, text)) if text else ()


def descriptions() -> dict[str, list[dict[str, Any]]]:
    """For each method the fields of its settings: name, help, and what values they take."""
    return {name: [_description(one) for one in fields(method.settings)] for name, method in METHODS.items()}


def _description(one) -> dict[str, Any]:
    facts = one.metadata
    kind = "choice" if facts["choices"] else {bool: "bool", str: "text", int: "int", float: "float"}[type(one.default)]
    known = {"name": one.name, "help": facts["help"], "kind": kind, "default": one.default}
    return known | {"choices": facts["choices"], "low": facts["low"], "high": facts["high"]}
