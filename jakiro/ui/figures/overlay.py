"""Two draft trees at one prefix laid over one another: what both propose, what one alone does, and the text itself."""

from __future__ import annotations

from typing import Any

import networkx as nx

from jakiro.graph import draft_logprobs, place, probability
from jakiro.trace import StepTrace, Trace
from jakiro.ui.figures.labels import label, percent
from jakiro.ui.figures.layout import layout
from jakiro.ui.figures.looks import Look
from jakiro.ui.figures.places import MARGIN, curved, fitted, points, row_count
from jakiro.ui.figures.tree_template import accepted_trace, line, text_trace, tree_axes

FIRST, SECOND, BOTH, TEXT, ROOT = "first", "second", "both", "text", "root"
OWNERS = (FIRST, SECOND, BOTH)
DASHES = ("dash", "dot", "solid")  # of their edges
SHARED: Look = ("@both", "square")
MIN_ROWS = 13


def overlay_figure(
    trace: Trace, pairs: list[tuple[StepTrace, StepTrace]], names: tuple[str, str], looks: tuple[Look, Look]
) -> dict:
    """The pairs of trees over a run's text: {"template", "rounds", "height", "min_width"}, as for trees (replay.py).

    `names` stand in the legend as they are, so they come escaped.
    """
    graphs = [overlay(trace, *pair) for pair in pairs]
    rows = max(map(row_count, graphs), default=1)
    levels = max((max(nx.get_node_attributes(graph, "depth").values()) for graph in graphs), default=1)
    height = min(max(17 * rows + MARGIN["t"] + MARGIN["b"], 380), 760)
    return {
        "template": _template(levels, height, names, looks),
        "rounds": [_patch(graph, height) for graph in graphs],
        "height": height,
        "min_width": 60 + 112 * (levels + 1),
    }


def overlay(trace: Trace, first: StepTrace, second: StepTrace) -> nx.DiGraph:
    """The union of two trees with one root: nodes with piece, depth, owner, q (of either, None where it has not the
    node; of the sides that are `copied` it means nothing), p, on (along the text), score, x and y. The token that
    follows the longer path is the node "next"."""
    graph = nx.DiGraph(copied=(first.tree.copied, second.tree.copied))
    graph.add_node(0, piece=trace.piece(first.tree.tokens[0]), depth=0, owner=ROOT, q=[None, None], on=False, score=0.0)
    known: dict[tuple[int, int], int] = {}  # (parent in the union, token) -> node
    for side, step in enumerate((first, second)):
        tree, here, logq = step.tree, [0], draft_logprobs(step.tree)
        for node in range(1, len(tree)):
            above, token = key = here[tree.parents[node]], tree.tokens[node]
            if key not in known:
                known[key] = len(graph)
                facts = {"piece": trace.piece(token), "depth": graph.nodes[above]["depth"] + 1}
                facts |= {"score": tree.scores[node], "owner": (FIRST, SECOND)[side], "q": [None, None], "on": False}
                graph.add_node(known[key], **facts, p=probability(step.target_logprobs[node]))
                graph.add_edge(above, known[key])
            elif side:
                graph.nodes[known[key]]["owner"] = BOTH
            here.append(known[key])
            facts = graph.nodes[here[node]]
            facts["q"][side] = probability(logq[node])
            facts["on"] |= node in step.accepted
    _add_next(graph, trace, max((first, second), key=lambda step: len(step.accepted)))
    place(graph)
    return graph


def _add_next(graph: nx.DiGraph, trace: Trace, longer: StepTrace) -> None:
    stop = max(
        (node for node in graph if graph.nodes[node]["on"]), default=0, key=lambda node: graph.nodes[node]["depth"]
    )
    depth = graph.nodes[stop]["depth"] + 1
    graph.add_node("next", piece=trace.piece(longer.bonus), depth=depth, owner=TEXT, on=True, score=float("-inf"))
    graph.add_edge(stop, "next")


def _template(levels: int, height: int, names: tuple[str, str], looks: tuple[Look, Look]) -> dict:
    owners = list(zip((*looks, SHARED), DASHES, strict=True))
    lines = [*(line(1.6, color, dash) for (color, _), dash in owners), line(5, "@accepted"), line(2.5, "@bonus")]
    nodes = [_nodes(look) for look, _ in owners]
    root = text_trace("@text", {"symbol": "circle", "size": 15, "color": "@text"}, hoverinfo="skip")
    star = text_trace(
        "@text", {"symbol": "star", "size": 17, "color": "@bonus"}, hovertemplate="%{hovertext}<extra></extra>"
    )
    titles = (f"{names[0]} alone", f"{names[1]} alone", "both")
    legend = [_entry(title, look, dash) for title, (look, dash) in zip(titles, owners, strict=True)]
    path = {"name": "along the text", "mode": "lines", "line": {"color": "@accepted", "width": 5}}
    root["textposition"] = "bottom center"
    data = [*lines, accepted_trace(), *nodes, root, star, *legend, _nothing() | path]
    return {"data": data, "layout": layout(height, tree_axes(levels), margin=MARGIN, shapes=[])}


def _nodes(look: Look) -> dict:
    return text_trace("@faded", _marker(look) | {"line": {"width": 0}}, hovertemplate="%{hovertext}<extra></extra>")


def _entry(name: str, look: Look, dash: str) -> dict:
    style = {"color": look[0], "width": 1.6, "dash": dash}
    return _nothing() | {"name": name, "mode": "lines+markers", "marker": _marker(look), "line": style}


def _marker(look: Look) -> dict[str, Any]:
    return {"symbol": look[1], "color": look[0], "size": 10}


def _nothing() -> dict:
    return {"type": "scatter", "x": [None], "y": [None], "hoverinfo": "skip"}


def _patch(graph: nx.DiGraph, height: int) -> dict:
    places, pixels = fitted(graph, height, MIN_ROWS)
    font = round(min(max(0.78 * pixels, 7.5), 11.5), 1)
    facts = graph.nodes

    def edges(wanted) -> dict:
        return curved([(places[a], places[b]) for a, b in graph.edges if wanted(b)])

    lines = [edges(lambda node, own=owner: facts[node]["owner"] == own and not facts[node]["on"]) for owner in OWNERS]
    on = [node for node in graph if facts[node]["on"] and node != "next"]
    data = [*lines, edges(lambda node: node in on), edges(lambda node: node == "next")]
    bold = [f"<b>{label(facts[node]['piece'], 9)} {percent(facts[node]['p'])}</b>" for node in on]
    data.append(_still(points(on, places)) | {"text": bold, "marker.size": 16, "textfont.size": font + 1})
    for owner in OWNERS:
        mine = [node for node in graph if facts[node]["owner"] == owner]
        text = ["" if facts[node]["on"] else label(facts[node]["piece"], 11) for node in mine]
        hover = [_hover(facts[node], graph.graph["copied"]) for node in mine]
        data.append(_still(points(mine, places)) | {"text": text, "hovertext": hover, "textfont.size": font})
    for node in (0, "next"):
        text = {"text": [f"<b>{label(facts[node]['piece'], 9)}</b>"], "textfont.size": font + 1}
        data.append(_still(points([node], places)) | text)
    data[-1] |= {"hovertext": ["the token of the text that follows"]}
    return {"data": [*data, {}, {}, {}, {}], "layout": {}}


def _still(found: dict) -> dict:
    """Points that belong to no node of the round shown."""
    return found | {"customdata": [-1] * len(found["x"])}


def _hover(facts: dict[str, Any], copied: tuple[bool, bool]) -> str:
    """A node in words. What was copied has no q."""
    kinds = zip(facts["q"], copied, strict=True)
    given = ["no node" if q is None else "a copy" if copy else f"q {q:.3g}" for q, copy in kinds]
    return f"<b>{label(facts['piece'])}</b><br>drafts give it {' and '.join(given)}<br>target p {facts['p']:.3g}"
