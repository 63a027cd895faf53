"""A run round by round: what each round accepted, where its time went, and how the router leaned at its root.

Another method's rounds hang below the axis, stretched so that they stand under the same text: a wide bar there brought
in one pass what took this method several.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

from jakiro.analysis.routing import run_routing
from jakiro.metrics import time_shares
from jakiro.trace import Trace, walk_positions
from jakiro.ui.figures.digits import rounded_list
from jakiro.ui.figures.layout import UNTIMED, axis, caption, layout, up_and_down
from jakiro.ui.figures.theme import CLEAR, PHASES

GAP = 0.12  # of a round, between two bars
SMALL = {"size": 11, "color": "@muted"}


def timeline_figure(trace: Trace, index: int, title: str) -> dict:
    """A run above the axis, alone, with its time and its router underneath.

    x is its round, from 0; `customdata` of a bar is its round, `meta` the `index` of its run. The title stands in the
    figure as it is, so it comes escaped.
    """
    routing = run_routing(trace)
    bottom = 0.54 if routing else 0.46
    strip = (0.22, bottom - 0.12) if routing else (0.04, bottom - 0.15)
    data = [_tokens(trace, index, title, _own(trace), 1, "@accepted"), *(phases := _time(trace, index))]
    axes = {
        "xaxis": axis((0, 1), "y", range=[-0.5, max(len(trace.steps), 1) - 0.5], showgrid=False, showticklabels=False),
        "yaxis": axis((bottom, 1), "x", "tokens", zeroline=True, zerolinecolor="@other", **_counts(_most(trace))),
        "yaxis2": axis(strip, "x", "ms", tickvals=_from_zero(phases), rangemode="tozero"),
    }
    timed = time_shares(trace) or not trace.steps
    captions = [] if timed else [caption(0, strip[0] + 0.05, UNTIMED, font=SMALL)]
    if routing:
        data += _router(trace, index, routing.root)
        axes["yaxis3"] = axis((0.0, 0.1), "x", range=[0, 1], showgrid=False, showticklabels=False)
        captions.append(caption(1, 0.1, "root's router: expert 0 below, 1 above", font=SMALL, xanchor="right"))
    margin = {"l": 50, "r": 8, "t": 32, "b": 4}  # the legend has room above the playhead
    look = layout(180 if routing else 136, axes, margin=margin, barmode="relative", bargap=0, annotations=captions)
    legend = {"orientation": "h", "x": 1, "xanchor": "right", "y": (bottom + strip[1]) / 2, "yanchor": "middle"}
    look["legend2"] = legend | {"bgcolor": CLEAR, "itemsizing": "constant", "traceorder": "normal", "font": SMALL}
    return {"data": data, "layout": look}


def below(trace: Trace, other: Trace, index: int, title: str) -> dict:
    """Another run upside down, for the timeline of `trace`: its `bars`, each over the stretch of that run's rounds that
    holds the same tokens of the text, by number where their texts differ, and what becomes of the `yaxis`."""
    edges = [start for start, _ in walk_positions(trace)] + [len(trace.tokens)]
    ahead = len(other.prompt) - len(trace.prompt) if trace.branch else 0  # what a What if was given to begin with
    places = []
    for start, step in walk_positions(other):
        start += ahead
        left, right = _round_at(edges, start), _round_at(edges, start + len(step.emitted))
        places.append(((left + right) / 2 - 0.5, right - left))
    over = "the same text" if _alike(trace, other) else "another text"
    bars = _tokens(other, index, f"{title}, over {over}", places, -1, "@other")
    return {"bars": bars, "yaxis": _counts(_most(trace), _most(other))}


def _alike(*traces: Trace) -> bool:
    """Whether two runs read and wrote the same as far as both went."""
    return all(a == b for a, b in zip(*([*one.prompt, *one.tokens] for one in traces), strict=False))


def _counts(top: int, low: int = 0) -> dict:
    return {"range": [-low - 0.2, top + 0.2], **up_and_down(top, low, 4)}


def _most(trace: Trace) -> int:
    """Tokens that a round brought at most."""
    return max((len(step.emitted) for step in trace.steps), default=1)


def _own(trace: Trace) -> list[tuple[float, float]]:
    """The places of a run's rounds on its own axis."""
    return [(float(index), 1.0) for index in range(len(trace.steps))]


def _round_at(edges: list[int], token: int) -> float:
    """Where a token index falls on the axis of rounds, whose borders in the text are `edges`; the ends hold it."""
    token = min(max(token, edges[0]), edges[-1])
    left = min(bisect_right(edges, token) - 1, len(edges) - 2)
    return left + (token - edges[left]) / (edges[left + 1] - edges[left]) if left >= 0 else 0.0


def _tokens(trace: Trace, index: int, title: str, places: list[tuple[float, float]], sign: int, color: str) -> dict:
    counts = [len(step.accepted) for step in trace.steps]
    bars = _bars(places, index, [sign * (count + 1) for count in counts], color)
    words = [f"round {index + 1}: {count} accepted and the bonus" for index, count in enumerate(counts)]
    hover = {"text": words, "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    return bars | hover | {"name": title, "showlegend": True}


def _time(trace: Trace, index: int) -> list[dict]:
    places, found = _own(trace), []
    for phase, (role, _) in PHASES.items():
        spent = rounded_list([1000 * getattr(step, f"{phase}_s") for step in trace.steps])
        hover = f"{phase} %{{y:.1f}} ms<extra></extra>"
        extra = {"yaxis": "y2", "hovertemplate": hover, "name": phase, "showlegend": True, "legend": "legend2"}
        found.append(_bars(places, index, spent, role) | extra)
    return found


def _from_zero(phases: list[dict]) -> list[float]:
    """Two ticks of bars that are stacked: 0, and what the highest reaches with one digit."""
    top = max(map(sum, zip(*(one["y"] for one in phases), strict=True)), default=0)
    unit = 10 ** math.floor(math.log10(top)) if top else 1
    return rounded_list([0, top // unit * unit])


def _router(trace: Trace, index: int, root: list[tuple[float, float] | None]) -> list[dict]:
    places, found = _own(trace), []
    for expert in (0, 1):
        share = rounded_list([None if pair is None else pair[expert] for pair in root])
        hover = f"expert {expert} weighs %{{y:.2f}}<extra></extra>"
        extra = {"yaxis": "y3", "hovertemplate": hover, "name": f"expert {expert}"}
        found.append(_bars(places, index, share, f"@expert{expert}") | extra)
    return found


def _bars(places: list[tuple[float, float]], index: int, heights: list, color: str) -> dict[str, Any]:
    """Bars at (middle, width) that know their round and their run."""
    middles, widths = [middle for middle, _ in places], [width * (1 - GAP) for _, width in places]
    rounds, marker = list(range(len(heights))), {"color": color, "line": {"width": 0}}
    base = {"type": "bar", "x": rounded_list(middles, 7), "width": rounded_list(widths, 7), "y": heights}
    return base | {"customdata": rounds, "meta": index, "marker": marker, "showlegend": False}
