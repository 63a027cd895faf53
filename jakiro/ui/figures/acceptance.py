"""A run's acceptance: how many tokens a round accepted, how deep, and where the time went."""

from __future__ import annotations

from jakiro.metrics import (
    acceptance_by_depth,
    acceptance_histogram,
    conditional_acceptance_by_depth,
    reached,
    running_tau,
    time_shares,
    tried,
)
from jakiro.trace import Trace, walk_positions
from jakiro.ui.figures.bars import bars, curve, line, on
from jakiro.ui.figures.digits import rounded, rounded_list
from jakiro.ui.figures.layout import UNTIMED, axis, by_level, caption, layout, whole
from jakiro.ui.figures.theme import PHASES

ROOM = 0.1  # of the bar: less has no room for its name


def acceptance_figure(trace: Trace) -> dict:
    """Histogram of accepted tokens; acceptance by depth, of all rounds, of those that got there and of those that had
    candidates there; tau so far along the text; time shares."""
    histogram, rates = acceptance_histogram(trace), acceptance_by_depth(trace)
    accepted, depths = list(range(len(histogram))), list(range(1, len(rates) + 1))
    drafted = {"visible": bool(rates)}
    axes = {
        "xaxis": axis((0, 0.19), "y", "accepted in a round", **by_level(len(histogram) - 1, 0)),
        "yaxis": axis((0, 0.9), "x", "rounds", **whole(max(histogram), 4)),
        "xaxis2": axis((0.25, 0.56), "y2", "depth", **by_level(len(rates)), **drafted),
        "yaxis2": axis((0, 0.9), "x2", **drafted, range=[0, 1.05], tickformat=".0%", nticks=4),
        "xaxis3": axis((0.62, 0.83), "y3", "tokens so far", showgrid=False, **whole(len(trace.tokens))),
        "yaxis3": axis((0, 0.9), "x3", rangemode="tozero", nticks=4),
        "xaxis4": axis((0.88, 1), "y4", showgrid=False, showticklabels=False),
        "yaxis4": axis((0, 0.9), "x4", range=[0, 1], showticklabels=False, showgrid=False),
    }
    captions = [
        caption(0, 0.94, "accepted tokens"),
        caption(0.25, 0.94, "share of rounds accepted, by depth" if rates else "nothing was drafted"),
        caption(0.62, 0.94, "tau so far"),
        caption(0.88, 0.94, "time of the rounds" if time_shares(trace) or not trace.steps else UNTIMED),
    ]
    hover = "%{x} accepted in %{y} rounds<extra></extra>"
    data = [on(1, bars(accepted, histogram, "@accepted", "rounds", hovertemplate=hover))]
    hover = "depth %{x}: %{y:.1%} %{fullData.name}<extra></extra>"
    conditional = rounded_list(conditional_acceptance_by_depth(trace))
    told = {"showlegend": bool(rates), "hovertemplate": hover}
    data.append(on(2, bars(depths, rounded_list(rates), "@accepted", "of all rounds", **told)))
    data.append(on(2, curve(depths, conditional, "@bonus", "of those that got there", **told)))
    counts = zip(reached(trace)[1:], tried(trace), strict=True)
    chances = rounded_list([here / had if had else None for here, had in counts])
    data.append(on(2, curve(depths, chances, "@text", "of those with candidates there", mode="markers", **told)))
    ends = [start + len(step.emitted) for start, step in walk_positions(trace)]
    hover = "%{y:.2f} tokens a pass after %{x} tokens<extra></extra>"
    data.append(on(3, line(ends, rounded_list(running_tau(trace)), "@accepted", "tau so far", hovertemplate=hover)))
    data += _time(trace)
    margin = {"l": 46, "r": 12, "t": 30, "b": 104}
    look = layout(360, axes, margin=margin, barmode="stack", bargap=0.2, annotations=captions)
    look["legend"] |= {"orientation": "v", "x": 0.25, "y": -0.19, "yanchor": "top", "traceorder": "normal"}
    deep = ", ".join(f"{rate:.0%}" for rate in rates)
    said = f"Share of rounds that accepted at least 1, 2, ... tokens: {deep}." if rates else "Nothing was drafted."
    return {"data": data, "layout": look, "min_width": 900, "told": said}


def _time(trace: Trace) -> list[dict]:
    shares = time_shares(trace)
    found = []
    for phase, (color, written) in PHASES.items():
        share = shares.get(phase)
        text = "" if share is None or share < ROOM else f"{phase} {share:.0%}"
        found.append(on(4, bars([0], [rounded(share)], color, phase, text=[text], textposition="inside", textangle=0,
                                insidetextanchor="middle", textfont={"color": written, "size": 11},
                                hovertemplate=f"{phase} %{{y:.1%}}<extra></extra>")))  # fmt: skip
    return found
