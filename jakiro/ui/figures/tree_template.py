"""What all rounds of a run's tree figure share: the look of edges and nodes, axes, legend and hover texts."""

from __future__ import annotations

from typing import Any

from jakiro.trace import Trace
from jakiro.ui.figures.layout import layout
from jakiro.ui.figures.places import MARGIN, SPAN, STEP
from jakiro.ui.figures.theme import CLEAR, CONTRASTIVE, COPIED, MONO, SOURCES

WORDY = 8  # levels that have room for a word each
EDGE_WIDTHS = (0.8, 1.6, 2.8, 4.2)  # px
ROOT_SIZE, BONUS_SIZE = 15, 17  # px


def template(trace: Trace, sources: list[int | None], levels: int, height: int, cut: bool) -> dict:
    """The figure without a round: with `cut` the nodes that were cut, then edges by width, first rejected, accepted,
    bonus; nodes by source; legend entries."""
    drafts = any(len(step.tree) > 1 for step in trace.steps)
    lines = [line(width, "@edge") for width in EDGE_WIDTHS]
    lines += [line(1.5, "@rejected", "dot"), line(5, "@accepted"), line(2.5, "@bonus")]
    nodes = [_source_trace(source, _hover(trace, source)) for source in sources]
    figure = layout(height, tree_axes(levels), margin=MARGIN, shapes=[])
    legend = _legend(sources if drafts else [], drafts, cut)
    lines = [*_ghost_traces(), *lines] if cut else lines
    return {"data": [*lines, accepted_trace(), *nodes, _root_trace(), _bonus_trace(), *legend], "layout": figure}


def tree_axes(levels: int) -> dict:
    """x is the depth, y the row."""
    word = "depth " if levels <= WORDY else ""
    return {
        "xaxis": {"range": [-0.45 * STEP, (levels + 0.9) * STEP], "showgrid": False, "zeroline": False,
                  "tickvals": [STEP * depth for depth in range(levels + 1)],
                  "ticktext": ["root", *(f"{word}{depth}" for depth in range(1, levels + 1))],
                  "tickfont": {"size": 11, "color": "@muted"}},
        "yaxis": {"range": [1.035 * SPAN, -0.035 * SPAN], "visible": False},
    }  # fmt: skip


def line(width: float, color: str, dash: str = "solid") -> dict:
    """Lines without a legend entry."""
    look = {"width": width, "color": color, "dash": dash, "shape": "spline", "smoothing": 1.1}
    return {"type": "scatter", "mode": "lines", "line": look, "hoverinfo": "skip", "showlegend": False}


def _legend(sources: list[int | None], drafts: bool, cut: bool) -> list[dict]:
    """Traces without points that only stand in the legend, which so looks the same in every round."""
    entries = []
    if sources and sources[0] not in (CONTRASTIVE, COPIED, None):
        # no title: plotly leaves its width out when it breaks the legend into lines
        entries.append({"name": "in the top-k of:", "mode": "markers", "marker": {"color": CLEAR}})
    for source in sources:
        role, symbol, name = SOURCES[source]
        look = {"mode": "markers", "marker": {"symbol": symbol, "color": f"@{role}", "size": 10}}
        entries.append({"name": name, "legendgroup": name, **look})
    if drafts:
        entries.append({"name": "accepted", "mode": "lines", "line": {"color": "@accepted", "width": 5}})
        ring = {"symbol": "circle", "color": CLEAR, "size": 11, "line": {"color": "@rejected", "width": 1.3}}
        entries.append({"name": "rejected", "mode": "lines+markers", "marker": ring,
                        "line": {"color": "@rejected", "width": 1.5, "dash": "dot"}})  # fmt: skip
    star = {"symbol": "star", "color": "@bonus", "size": 12}
    entries.append({"name": "bonus", "mode": "markers", "marker": star})
    if cut:
        ghost = {"symbol": "circle-open", "color": "@faded", "size": 8}
        entries.append({"name": "cut", "mode": "markers", "marker": ghost})
    return [{"type": "scatter", "x": [None], "y": [None], "hoverinfo": "skip"} | entry for entry in entries]


def _ghost_traces() -> list[dict]:
    """Lines and points of nodes that were cut."""
    look = {"symbol": "circle-open", "size": 5, "color": "@faded"}
    return [line(0.8, "@edge", "dot"), text_trace("@faded", look, hovertemplate="%{hovertext}<extra></extra>")]


def _source_trace(source: int | None, hover: str) -> dict:
    role, symbol, name = SOURCES[source]
    marker = {"symbol": symbol, "color": f"@{role}", "line": {"width": 0}}
    return text_trace("@faded", marker, hovertemplate=hover, legendgroup=name)


def accepted_trace() -> dict:
    """Outlines and labels of the accepted nodes; the nodes themselves are drawn over them by their source."""
    return text_trace("@text", {"color": "@accepted", "opacity": 1, "line": {"width": 0}}, hoverinfo="skip")


def _root_trace() -> dict:
    look = {"symbol": "circle", "size": ROOT_SIZE, "color": "@text", "line": {"color": "@accepted", "width": 3}}
    hover = "<b>%{customdata.label}</b>  id %{customdata.id}<br>root: the last token of the text so far<extra></extra>"
    return text_trace("@text", look, hovertemplate=hover) | {"textposition": "bottom center"}


def _bonus_trace() -> dict:
    look = {"symbol": "star", "size": BONUS_SIZE, "color": "@bonus", "line": {"color": "@surface", "width": 1}}
    return text_trace("@text", look, hovertemplate="%{hovertext}<extra></extra>")


def text_trace(color: str, marker: dict, **extra: Any) -> dict:
    """Points with labels to their right."""
    font = {"family": MONO, "color": color, "shadow": "@halo"}
    base = {"type": "scatter", "mode": "markers+text", "marker": marker, "textposition": "middle right"}
    return base | {"textfont": font, "showlegend": False, "cliponaxis": False} | extra


def _hover(trace: Trace, source: int | None) -> str:
    """The hover text of a drafted node of a source, from the columns that the trace has."""
    trees = [step.tree for step in trace.steps]
    copies = source == COPIED or all(tree.copied for tree in trees)
    has = {name for tree in trees if tree.copied == copies for name in tree.columns}
    weighed = any(logp is not None for step in trace.steps for logp in step.target_logprobs[1:])
    shares = ["draft q %{customdata.q:.3~g}"] * (not copies) + ["target p %{customdata.p:.3~g}"] * weighed
    router, at = "router", "at its parent"
    if source == CONTRASTIVE:
        has -= {"expert0_rank", "source"}
        router, at = "weights", "of the contrastive feature"
    lines = [
        "<b>%{customdata.label}</b>  id %{customdata.id} · %{customdata.state}",
        " · ".join(shares),
        "draft rank %{customdata.rank}" if "rank" in has else "",
        "" if copies else "path log-probability %{customdata.score:.2f}",
        f"{router} %{{customdata.gate0:.2f}} / %{{customdata.gate1:.2f}} ({at})" if "gate0" in has else "",
        "alone: expert 0 ranks it %{customdata.expert0_rank}, expert 1 %{customdata.expert1_rank}"
        if {"expert0_rank", "expert1_rank"} <= has
        else "",
        "in the top-k of %{customdata.source}" if "source" in has else "",
        "%{customdata.head}" if "head" in has else "",
        "copied from position %{customdata.copied_from}" if copies else "",
    ]
    return "<br>".join(line for line in lines if line) + "<extra></extra>"
