"""Acceptance by token class: of each kind of token, the share that came from the draft."""

from __future__ import annotations

from jakiro.analysis.classes import CLASSES, by_class
from jakiro.metrics import max_depth
from jakiro.trace import Trace
from jakiro.ui.figures.bars import bars
from jakiro.ui.figures.digits import rounded_list
from jakiro.ui.figures.layout import axis, caption, layout


def classes_figure(trace: Trace) -> dict | None:
    """One bar a class that occurs; None for a run that drafted nothing."""
    if not max_depth(trace):
        return None
    found = [count for count in by_class(trace) if count.tokens]
    names = [f"{count.name}<br>{count.accepted} of {count.tokens}" for count in found]
    shares = rounded_list([count.share for count in found])
    text = [f"{share:.0%}" for share in shares]
    what = [CLASSES[count.name] for count in found]
    hover = "%{x} drafted and accepted<br>%{hovertext}<extra></extra>"
    axes = {
        "xaxis": axis((0, 1), "y", showgrid=False),
        "yaxis": axis((0, 0.9), "x", range=[0, 1.15], tickformat=".0%", tickvals=[0, 0.5, 1]),
    }
    title = caption(0, 0.94, "of the text's tokens but the first, by what they are: the share drafted and accepted")
    look = layout(240, axes, margin={"l": 46, "r": 12, "t": 30, "b": 44}, bargap=0.4, annotations=[title])
    words = {"text": text, "textposition": "outside", "hovertext": what, "hovertemplate": hover}
    data = [bars(names, shares, "@accepted", "accepted", **words)]
    told = ", ".join(f"{count.accepted} of {count.tokens} {count.name}" for count in found)
    return {"data": data, "layout": look, "min_width": 560, "told": f"Drafted and accepted: {told}."}
