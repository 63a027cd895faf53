"""Compare, as the page asks it: two lanes of a race drafting after every token of one of its texts.

{"schema": "jakiro-compare/1", "names": [title, title], "summary": text, "telling": [place],
 "tokens": [id], "pieces": {id: text},                           # of the text; place i has tokens[i] as its root
 "reach": [[..], [..]], "drafted": [[..], [..]], "shared": [..], # tokens, one entry a place
 "why": [[text], [text]],                                       # why either lane gets no further, likewise
 "figures": {"overlay": RoundFigure, "coverage": RoundFigure,         # as in replay.py, a round a place
             "reach": Figure, "diversity": Figure | null}}            # of the whole text
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from jakiro.analysis.diversity import run_diversity
from jakiro.analysis.pairs import Pair, telling
from jakiro.compare import along
from jakiro.files import compact
from jakiro.heed import Heed, heedless
from jakiro.methods import METHODS
from jakiro.settings import build, check_numbers
from jakiro.text import pieces
from jakiro.trace import Trace, same_drafter
from jakiro.ui.about import method_titles
from jakiro.ui.figures.diversity import run_diversity_figure
from jakiro.ui.figures.labels import escape, quote
from jakiro.ui.figures.looks import Look, lane_looks
from jakiro.ui.figures.overlay import overlay_figure
from jakiro.ui.figures.reach import coverage_figure, reach_figure
from jakiro.ui.library import Library
from jakiro.ui.models import Loaded, RequestError, requested
from jakiro.ui.replay import titled
from jakiro.ui.why import whys

SCHEMA = "jakiro-compare/1"


def compare(loaded: Loaded, library: Library, asked: Mapping[str, Any], heed: Heed = heedless) -> str:
    """The comparison of lanes `lane` and `other` of `race` along the first one's text, as JSON text.

    Raises RequestError with the remedy.
    """
    lanes = asked.get("lane"), asked.get("other")
    traces, chosen = library.chosen(asked.get("race"), *lanes)
    titles = [titled(traces, method_titles())[lane] for lane in lanes]
    text, found, learnt = chosen[0], [], ""
    for side, trace in enumerate(chosen):
        make = loaded.maker(name := loaded.drafting(trace))
        with requested():
            settings = build(METHODS[name].settings, None, trace.settings)
            check_numbers(settings)
            share = partial(lambda side, done: heed((side + done) / 2), side)
            drafter = make(settings)
            if drafter.memory is not None:
                learnt += f" {titles[side]} knows here what the text taught it, not what its rejected drafts did."
            found.append(along(loaded.target, drafter, text, heed=share))
    places = [Pair(pair) for pair in zip(*found, strict=True)]
    if not places:
        raise RequestError("this text has a single token: there is nothing to draft")
    whole = _with_pieces(loaded, text, places)
    names = (escape(titles[0]), escape(titles[1]))
    runs = [
        replace(whole, method=trace.method, settings=trace.settings, steps=steps, stop="stopped")
        for trace, steps in zip(chosen, found, strict=True)
    ]
    every = lane_looks([trace.method for trace in traces])  # as they look elsewhere
    looks = tuple(every[lane] for lane in lanes)
    data = {
        "schema": SCHEMA,
        "names": titles,
        "summary": summary(places, titles, len(text.tokens) - 1) + learnt + _other_heads(chosen, titles, loaded),
        "telling": telling(places),
        "tokens": text.tokens[: len(places)],
        "pieces": {token: whole.piece(token) for token in text.tokens},
        "reach": [[place.reach[side] for place in places] for side in (0, 1)],
        "drafted": [[len(place.steps[side].tree) - 1 for place in places] for side in (0, 1)],
        "shared": [place.shared for place in places],
        "why": [_whys(run, math.inf if text.stop == "stopped" else len(text.tokens)) for run in runs],
        "figures": {
            "overlay": overlay_figure(whole, [place.steps for place in places], names, looks),
            "coverage": coverage_figure(places, names, looks),
            "reach": reach_figure(places, names, looks),
            "diversity": _diversity(runs, names, looks),
        },
    }
    return compact(data)


def _other_heads(traces: list[Trace], titles: list[str], loaded: Loaded) -> str:
    """Which lanes were recorded with another head than the one that drafts here, where that is known."""
    found = ""
    for trace, title in zip(traces, titles, strict=True):
        name = loaded.drafting(trace)
        own = loaded.target.drafters.get(loaded.target.heads.get(name), "")
        if trace.drafter and not same_drafter(trace.drafter, own):
            found += f" {title} was recorded with {trace.drafter}, and drafts with {own} here."
    return found


def _whys(run: Trace, count: float) -> list[str]:
    """Why a lane gets no further at each place of a text of `count` tokens: where its path fills it, the text ends."""
    found = whys(run)
    for place, step in enumerate(run.steps):
        if len(step.accepted) == count - 2 - place:
            last = quote(run.piece(step.bonus))
            found[place] = f"The text ends there: its last token {last} can only be the target's own."
    return found


def _diversity(runs: list[Trace], names: tuple[str, str], looks: tuple[Look, Look]) -> dict | None:
    """Both lanes' candidates after the same tokens; None where one of them drafts nothing."""
    found = [run_diversity(run) for run in runs]
    colors = [color for color, _ in looks]
    return run_diversity_figure(list(zip(names, colors, found, strict=True)), "place") if all(found) else None


def _with_pieces(loaded: Loaded, text: Trace, places: list[Pair]) -> Trace:
    """The text's trace, knowing all that was drafted along it."""
    seen = {token for place in places for step in place.steps for token in (*step.tree.tokens, step.bonus)}
    return replace(text, pieces=text.pieces | pieces(loaded.target.tokenizer, seen))


def summary(places: list[Pair], names: list[str], count: int) -> str:
    """Where either gets further, on the whole; `count` places has the text, of which the first are compared."""
    further = [sum(place.reach[side] > place.reach[1 - side] for place in places) for side in (0, 1)]
    means = [sum(place.reach[side] for place in places) / len(places) for side in (0, 1)]
    shared = sum(place.shared for place in places) / len(places)
    sizes = [sum(len(place.steps[side].tree) - 1 for place in places) / len(places) for side in (0, 1)]
    first = "the first " if len(places) < count else ""
    told = f"each of {first}{len(places)} tokens" if len(places) > 1 else f"{first or 'the only '}token"
    return (
        f"After {told} of one text, {names[0]} would have got further at {further[0]} and "
        f"{names[1]} at {further[1]}; on average {means[0]:.2f} and {means[1]:.2f} drafted tokens lie along it. "
        f"Of {sizes[0]:.1f} and {sizes[1]:.1f} drafted tokens they share {shared:.1f}."
    )
