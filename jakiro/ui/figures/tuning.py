"""Why a tree has the size it has: what the target's pass costs by nodes, and what trees of each size bring."""

from __future__ import annotations

from typing import Any

from jakiro.ui.figures.bars import curve, on
from jakiro.ui.figures.digits import rounded, rounded_list
from jakiro.ui.figures.layout import axis, caption, layout

HEIGHT = 280


def tuning_figure(tuning: dict[str, Any]) -> dict:
    """The cost of verifying n nodes over that of one; the best expected speed at each size, the chosen tree marked.

    `tuning` is the data of `jakiro-tuning/1`. Trees count that were tried on as many texts as the chosen one.
    """
    chosen, best = tuning["chosen"], _best_by_size(tuning)
    nodes, seconds = zip(*tuning["verify"], strict=True)
    axes = {
        "xaxis": axis((0, 0.46), "y", "nodes", showgrid=False, rangemode="tozero"),
        "yaxis": axis((0, 0.9), "x", rangemode="tozero", nticks=5, ticksuffix="×"),
        "xaxis2": axis((0.56, 1), "y2", "total_tokens", showgrid=False, rangemode="tozero"),
        "yaxis2": axis((0, 0.9), "x2", nticks=5),
    }
    captions = [
        caption(0, 0.94, "a pass of the target over that of one node"),
        caption(0.56, 0.94, "expected tokens/s, best top_k and depth at each size"),
    ]
    hover = "%{x} nodes cost %{y:.2f} times one<extra></extra>"
    cost = curve([*nodes], rounded_list([one / seconds[0] for one in seconds]), "@other", "cost", hovertemplate=hover)
    sizes, speeds = [one["total_tokens"] for one in best], rounded_list([one["tokens_per_s"] for one in best])
    points = {"text": [_words(one) for one in best], "hovertemplate": "%{text}<extra></extra>"}
    speed = curve(sizes, speeds, "@accepted", "expected tokens/s", mode="markers", **points)
    look = layout(HEIGHT, axes, margin={"l": 46, "r": 12, "t": 30, "b": 44}, annotations=captions)
    return {"data": [on(1, cost), on(2, speed), on(2, _star(chosen))], "layout": look, "min_width": 720}


def _best_by_size(tuning: dict[str, Any]) -> list[dict[str, Any]]:
    """The quickest point of each total_tokens, small to large."""
    best: dict[int, dict[str, Any]] = {}
    for one in tuning["points"]:
        size, known = one["total_tokens"], best.get(one["total_tokens"])
        if one["texts"] == tuning["chosen"]["texts"] and (not known or one["tokens_per_s"] > known["tokens_per_s"]):
            best[size] = one
    return [best[size] for size in sorted(best)]


def _star(chosen: dict[str, Any]) -> dict:
    marker = {"symbol": "star", "color": "@bonus", "size": 15, "line": {"color": "@surface", "width": 1}}
    place = {"x": [chosen["total_tokens"]], "y": [rounded(chosen["tokens_per_s"])], "marker": marker}
    words = {"text": [f"chosen: {_words(chosen)}"], "hovertemplate": "%{text}<extra></extra>"}
    return {"type": "scatter", "mode": "markers", "name": "chosen", "showlegend": False} | place | words


def _words(point: dict[str, Any]) -> str:
    size = f"{point['total_tokens']} nodes, top_k {point['top_k']}, depth {point['depth']}"
    return f"{size}<br>tau {point['tau']:.2f} in {1000 * point['seconds']:.1f} ms: {point['tokens_per_s']:.0f} tokens/s"
