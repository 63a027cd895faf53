"""The router: its weights at every parent of a round's tree, and over a whole run."""

from __future__ import annotations

import math

from jakiro.analysis.endings import alone
from jakiro.analysis.routing import Gate, RunRouting, round_routing, run_routing
from jakiro.trace import StepTrace, Trace
from jakiro.ui.figures.bars import bars, line, on, outlined
from jakiro.ui.figures.digits import rounded, rounded_list
from jakiro.ui.figures.labels import label
from jakiro.ui.figures.layout import axis, by_level, caption, layout, whole

ROUND_HEIGHT, RUN_HEIGHT = 340, 460
GAPS = 120  # rounds of a run whose cells are wide enough for a gap of 1 px between them
SHARES = {"range": [0, 1], "tickvals": [0, 0.5, 1]}


def round_routing_figure(trace: Trace) -> dict | None:
    """One stacked bar a parent, by depth; None for a trace without gates, or in which one expert alone proposed."""
    rounds = [round_routing(step) for step in trace.steps]
    if alone(trace) or not any(rounds):
        return None
    most = max(len(gates or []) for gates in rounds)
    axes = {
        "xaxis": axis((0, 1), "y", range=[-0.6, max(most, 8) - 0.4], showgrid=False, tickangle=-50),
        "yaxis": axis((0, 1), "x", "weight", **(SHARES | {"range": [0, 1.1]})),
    }
    hover = (
        "after <b>%{customdata.label}</b>, depth %{customdata.depth}<br>expert EXPERT weighs %{y:.3f}<extra></extra>"
    )
    weights = [
        bars([], [], "@expert0", "expert 0", showlegend=True, hovertemplate=hover.replace("EXPERT", "0")),
        bars([], [], "@expert1", "expert 1", showlegend=True, hovertemplate=hover.replace("EXPERT", "1"))
        | {"marker": outlined("@expert1")},
    ]
    walked = {"type": "scatter", "mode": "markers", "name": "on the accepted path", "hoverinfo": "skip",
              "marker": {"symbol": "triangle-down", "size": 9, "color": "@accepted"}, "cliponaxis": False}  # fmt: skip
    margin = {"l": 46, "r": 12, "t": 58, "b": 84}
    look = layout(ROUND_HEIGHT, axes, margin=margin, barmode="stack", bargap=0.18)
    look["legend"] |= {"y": 1.12, "traceorder": "normal"}
    return {
        "template": {"data": [*weights, walked], "layout": look},
        "rounds": [_round(trace, step, gates or []) for step, gates in zip(trace.steps, rounds, strict=True)],
        "height": ROUND_HEIGHT,
        "min_width": 16 * max(most, 8) + 60,
    }


def _round(trace: Trace, step: StepTrace, gates: list[Gate]) -> dict:
    gates = sorted(gates, key=lambda gate: (gate.depth, gate.parent))
    x = list(range(len(gates)))
    parents = [gate.parent for gate in gates]
    words = [label(trace.piece(step.tree.tokens[parent]), 9) for parent in parents]
    weights = [
        {"x": x, "y": rounded_list([gate.weights[expert] for gate in gates], 3), "customdata": parents}
        for expert in (0, 1)
    ]
    path = [i for i in x if gates[i].walked]
    borders = [i for i in x[1:] if gates[i].depth != gates[i - 1].depth]
    shapes = [
        {"type": "line", "yref": "paper", "x0": i - 0.5, "x1": i - 0.5, "y0": -0.02, "y1": 1.04,
         "line": {"color": "@other", "width": 1, "dash": "dot"}}
        for i in borders
    ]  # fmt: skip
    depths = [
        {"x": i - 0.4, "y": 1.1, "yref": "paper", "text": _level(gates, i), "showarrow": False, "xanchor": "left",
         "yanchor": "middle", "font": {"size": 10, "color": "@muted"}}
        for i in [*x[:1], *borders]
    ]  # fmt: skip
    captions = depths or [caption(0, 1.1, "no router ran in this round", align="left")]
    layout_patch = {"xaxis.tickvals": x, "xaxis.ticktext": words, "shapes": shapes, "annotations": captions}
    return {"data": [*weights, {"x": path, "y": [1.05] * len(path)}], "layout": layout_patch}


def _level(gates: list[Gate], i: int) -> str:
    """The caption of a level; in full where there is room for it."""
    room, contrastive = sum(gate.depth == gates[i].depth for gate in gates), gates[i].contrastive
    words = "depth " if room > (3 if contrastive else 1) else ""
    return f"{words}{gates[i].depth}{', contrastive' if contrastive else ''}"


def run_routing_figure(trace: Trace) -> dict | None:
    """Weights over rounds and depths, by depth, their entropy, and acceptance against them; None without gates."""
    run = run_routing(trace)
    if run is None:
        return None
    left, right, top, low = (0, 0.46), (0.57, 1), (0.62, 1), (0.04, 0.42)
    middles = [middle for middle, _, _ in run.acceptance]
    levels = max(run.by_depth)
    axes = {
        "xaxis": axis(left, "y", showgrid=False, **whole(len(run.root))),
        "yaxis": axis(top, "x", "depth", **by_level(levels) | {"range": [levels + 0.6, 0.4]}),
        "xaxis2": axis(right, "y2", "depth", **by_level(levels)),
        "yaxis2": axis(top, "x2", **SHARES),
        "xaxis3": axis(left, "y3", "round", showgrid=False, matches="x", **whole(len(run.root))),
        "yaxis3": axis(low, "x3", "nats", range=[0, 1.05 * math.log(2)], nticks=4),
        "xaxis4": axis(right, "y4", "weight of expert 0 where the walk stood", range=[0, 1], tickvals=middles,
                       ticktext=[f"{middle:.1f}" for middle in middles], showgrid=False),
        "yaxis4": axis(low, "x4", range=[0, 1.12], tickvals=[0, 0.5, 1], tickformat=".0%"),
    }  # fmt: skip
    share0, _ = run.dominant_share
    captions = [
        caption(0, 1.02, "who leads, by round and depth: weight of expert 0"),
        caption(0.57, 1.02, f"mean weight by depth · expert 0 leads at {share0:.0%} of parents"),
        caption(0, 0.44, f"entropy, mean of a round's parents · run {run.mean_entropy:.2f} of at most 0.69"),
        caption(0.57, 0.44, "target's choice in the tree, where it had candidates"),
    ]
    margin = {"l": 46, "r": 12, "t": 34, "b": 40}
    look = layout(RUN_HEIGHT, axes, margin=margin, barmode="stack", bargap=0.12, annotations=captions)
    data = [_map(run, levels), *_weights(run), _entropy(run), _acceptance(run)]
    told = f"Expert 0 leads at {share0:.0%} of parents; mean entropy of the weights: {run.mean_entropy:.2f} nats."
    return {"data": data, "layout": look, "min_width": 800, "told": told}


def _map(run: RunRouting, levels: int) -> dict:
    """Cells of rounds by depth, in the colour of the expert that leads and as strong as it does: an even one is pale,
    one without a router empty. `meta` says that a click shows the round."""
    depths = list(range(1, levels + 1))
    weights = [[rounded(pairs[depth][0] if depth in pairs else None) for pairs in run.by_round] for depth in depths]
    scale = {"x": 0.465, "xanchor": "left", "xpad": 0, "ypad": 0, "y": 1, "yanchor": "top", "len": 0.38, "thickness": 8,
             "outlinewidth": 0, "tickvals": [0, 0.5, 1], "tickfont": {"size": 10, "color": "@muted"}}  # fmt: skip
    gap = int(len(run.by_round) <= GAPS)
    cells = {"type": "heatmap", "x": list(range(1, len(run.by_round) + 1)), "y": depths, "z": weights,
             "zmin": 0, "zmax": 1, "colorscale": [[0, "@expert1"], [0.5, "@grid"], [1, "@expert0"]],
             "colorbar": scale, "meta": "round", "xgap": gap, "ygap": 1, "hoverongaps": False,
             "hovertemplate": "round %{x}, depth %{y}: expert 0 weighs %{z:.2f}<extra></extra>"}  # fmt: skip
    return on(1, cells)


def _weights(run: RunRouting) -> list[dict]:
    depths, found = list(run.by_depth), []
    for expert, look in ((0, {}), (1, {"marker": outlined("@expert1")})):
        color = f"@expert{expert}"
        mean = rounded_list([run.by_depth[depth][expert] for depth in depths])
        hover = f"depth %{{x}}: expert {expert} weighs %{{y:.2f}}<extra></extra>"
        found.append(on(2, bars(depths, mean, color, f"expert {expert}", hovertemplate=hover) | look))
    return found


def _entropy(run: RunRouting) -> dict:
    rounds = list(range(1, len(run.entropy) + 1))
    look = {"hovertemplate": "round %{x}: %{y:.2f} nats<extra></extra>", "meta": "round"}
    return on(3, line(rounds, rounded_list(run.entropy), "@both", "entropy", **look))


def _acceptance(run: RunRouting) -> dict:
    middles = [middle for middle, _, _ in run.acceptance]
    counts = [count for _, _, count in run.acceptance]
    hover = "%{y:.0%} of %{customdata} nodes<extra></extra>"
    rates = [rounded(rate) for _, rate, _ in run.acceptance]
    texts = [f"n={count}" if count else "" for count in counts]
    return on(4, bars(middles, rates, "@accepted", "stepped in", customdata=counts, text=texts, textposition="outside",
                      hovertemplate=hover, textfont={"size": 10, "color": "@muted"}, cliponaxis=False))  # fmt: skip
