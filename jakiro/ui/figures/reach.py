"""Two ways of drafting along one text: how far either gets after each token, and what of the target it covers."""

from __future__ import annotations

from jakiro.analysis.pairs import Pair
from jakiro.ui.figures.bars import bars
from jakiro.ui.figures.digits import rounded_list
from jakiro.ui.figures.layout import axis, by_level, caption, layout, up_and_down
from jakiro.ui.figures.looks import Look


def reach_figure(places: list[Pair], names: tuple[str, str], looks: tuple[Look, Look]) -> dict:
    """Drafted tokens along the text after every token of it, one way above the axis, the other below."""
    at = list(range(len(places)))
    tokens = [place + 1 for place in at]
    data = []
    for side, sign in ((0, 1), (1, -1)):
        counts = [place.reach[side] for place in places]
        words = [f"after token {place + 1}: {count} along the text" for place, count in enumerate(counts)]
        extra = {"text": words, "textposition": "none", "hovertemplate": "%{text}<extra></extra>", "customdata": at}
        heights = [sign * count for count in counts]
        data.append(bars(tokens, heights, looks[side][0], names[side], **extra) | {"showlegend": True})
    top = max(max(place.reach) for place in places)
    axes = {
        "xaxis": axis((0, 1), "y", "token of the text", showgrid=False),
        "yaxis": axis((0, 0.88), "x", "tokens", **up_and_down(top, top)),
    }
    title = caption(0, 0.92, "drafted tokens along the text")
    margin = {"l": 46, "r": 12, "t": 30, "b": 40}
    look = layout(220, axes, margin=margin, barmode="relative", bargap=0.15, annotations=[title])
    return {"data": data, "layout": look, "min_width": 560}


def coverage_figure(places: list[Pair], names: tuple[str, str], looks: tuple[Look, Look]) -> dict:
    """At each place the target's probability that its text stays in either tree, level by level; a round a place."""
    levels = max(len(place.coverage()) for place in places)
    axes = {
        "xaxis": axis((0, 1), "y", "depth", **by_level(levels)),
        "yaxis": axis((0, 0.88), "x", range=[0, 1.02], tickformat=".0%", nticks=4),
    }
    title = caption(0, 0.92, "target's probability that stays in the tree, by level")
    look = layout(220, axes, margin={"l": 46, "r": 12, "t": 30, "b": 40}, barmode="group", annotations=[title])
    hover = "depth %{x}: %{y:.1%}, at temperature 1<extra></extra>"
    data = [bars([], [], looks[side][0], names[side], hovertemplate=hover) | {"showlegend": True} for side in (0, 1)]
    return {
        "template": {"data": data, "layout": look},
        "rounds": [_patch(place) for place in places],
        "height": 220,
        "min_width": 420,
    }


def _patch(place: Pair) -> dict:
    found = place.coverage()
    depths = list(range(1, len(found) + 1))
    return {"data": [{"x": depths, "y": rounded_list([one[side] for one in found])} for side in (0, 1)], "layout": {}}
