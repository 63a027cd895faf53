"""How often the target chose a candidate against how likely the draft had it."""

from __future__ import annotations

from jakiro.analysis.calibration import BINS, calibration, error
from jakiro.trace import Trace
from jakiro.ui.figures.bars import bars
from jakiro.ui.figures.digits import rounded_list
from jakiro.ui.figures.layout import axis, caption, layout

ABOVE = 1.08  # where the counts stand: above the dotted line


def calibration_figure(trace: Trace) -> dict | None:
    """One bar a part of q, and the line on which a calibrated draft is; None for a run without draft probabilities."""
    found = calibration(trace)
    if not found:
        return None
    q = {"range": [-0.01, 1.01], "tickformat": ".0%", "dtick": 0.2, "showgrid": False}
    axes = {
        "xaxis": axis((0, 1), "y", "draft probability q", **q),
        "yaxis": axis((0, 0.9), "x", range=[0, 1.15], tickformat=".0%", tickvals=[0, 0.5, 1]),
    }
    title = f"candidates that were chosen · dotted: as often as q says · mean distance {error(found):.2f}"
    even = {"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "line": {"color": "@text", "width": 1, "dash": "dot"}}
    margin = {"l": 46, "r": 12, "t": 30, "b": 44}
    look = layout(260, axes, margin=margin, bargap=0.2, annotations=[caption(0, 0.94, title)], shapes=[even])
    words = {
        "width": 0.8 / BINS,
        "customdata": [[one.q, one.candidates] for one in found],
        "hovertemplate": "mean q %{customdata[0]:.1%}: %{y:.1%} of %{customdata[1]} chosen<extra></extra>",
    }
    middles, chosen = [one.middle for one in found], rounded_list([one.chosen for one in found])
    counts = {"type": "scatter", "mode": "text", "x": middles, "y": [ABOVE] * len(found), "hoverinfo": "skip"}
    counts |= {"text": [f"n={one.candidates}" for one in found], "showlegend": False}
    told = [f"{one.chosen:.0%} of {one.candidates} with a mean q of {one.q:.0%}" for one in found]
    return {"data": [bars(middles, chosen, "@accepted", "chosen", **words), counts], "layout": look, "min_width": 640,
            "told": f"Share of candidates that were chosen: {', '.join(told)}."}  # fmt: skip
