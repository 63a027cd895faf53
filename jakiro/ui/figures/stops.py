"""Where a run's rounds stopped: one bar a way, with what might have brought a token more there."""

from __future__ import annotations

from jakiro.analysis.stops import COPY, FULL, PARTED, STOPS, Stopped, stops
from jakiro.metrics import max_depth
from jakiro.trace import Trace
from jakiro.ui.figures.bars import bars, outlined
from jakiro.ui.figures.layout import axis, caption, layout, whole

ROW = 26  # px a bar
ROOM = 0.7  # for words beside the longest bar, of its length
ALONE = "one expert alone had the target's choice in its top-k"


def stops_figure(trace: Trace) -> dict | None:
    """None for a run that drafted nothing."""
    if not max_depth(trace):
        return None
    found = stops(trace)
    ways = [STOPS[one.where] for one in found]
    names = [way.name for way in ways]
    rescuable = [(one.alone or 0) if one.where in PARTED else 0 for one in found]
    rest = [one.rounds - alone for one, alone in zip(found, rescuable, strict=True)]
    look = {"orientation": "h", "hovertext": [_hover(one, len(trace.steps)) for one in found]}
    look["hovertemplate"] = "%{hovertext}<br>click: to the first of them<extra></extra>"
    look |= {"customdata": [one.where for one in found], "meta": "stop"}
    colors = ["@accepted" if one.where in (FULL, COPY) else "@other" for one in found]
    data = [bars(rest, names, "@other", "rounds", **look, marker={"color": colors, "line": {"width": 0}})]
    if any(one.alone is not None for one in found):
        look |= {"marker": outlined("@quiet"), "showlegend": True}
        data.append(
            bars([alone or None for alone in rescuable], names, "@quiet", f"{ALONE}, and it was not proposed", **look)
        )
    counts = [f" {one.rounds}" + (f" · {way.more}" if way.more else "") for one, way in zip(found, ways, strict=True)]
    numbers = {"mode": "text", "textposition": "middle right", "hoverinfo": "skip", "showlegend": False}
    ends = [one.rounds for one in found]
    above = 18 if len(data) > 1 else 0  # px of the legend
    data.append({"type": "scatter", "x": ends, "y": names, "text": counts, "textfont": {"color": "@text"}} | numbers)
    axes = {
        "xaxis": axis((0, 1), "y", "rounds", range=[0, (1 + ROOM) * max(ends)], **whole(max(ends))),
        "yaxis": axis((0, 1), "x", autorange="reversed", showgrid=False, ticklabelstandoff=6),
    }
    title = caption(0, 1, "where rounds stopped, and what might have brought more", yshift=4 + above)
    margin = {"l": 150, "r": 12, "t": 34 + above, "b": 44}
    height = 78 + above + ROW * len(found)
    figure = layout(height, axes, margin=margin, barmode="stack", bargap=0.3, annotations=[title])
    figure["legend"]["y"] = 1
    counted = [f"{way.name} {one.rounds}" for one, way in zip(found, ways, strict=True)]
    return {"data": data, "layout": figure, "min_width": 560, "told": f"Rounds stopped: {', '.join(counted)}."}


def _hover(one: Stopped, rounds: int) -> str:
    """What a bar says."""
    way = STOPS[one.where]
    text = f"{way.name}: {one.rounds} of {rounds} rounds ({one.rounds / rounds:.0%})<br>{way.remedy}"
    if one.where in PARTED and one.alone is not None:
        text += f"<br>in {one.alone} of them {ALONE}"
    return text
