"""The draft tree of a round: who proposed each candidate, what the target kept, what it chose instead.

Shape and hue say who proposes, area and edge width the draft probability; the accepted path is thick and green with
bold labels, the first rejected candidates have a dashed outline, the bonus is a star. x has STEP units a level and y
SPAN units from top to bottom in every round: short whole numbers, and one axis range for the run, so that zoom is kept.
"""

from __future__ import annotations

import math
from typing import Any

import networkx as nx

from jakiro.graph import ACCEPTED, BONUS, CUT, PASSED, REJECTED, ROOT, UNREACHED, round_graph
from jakiro.trace import Trace
from jakiro.ui.figures.labels import label, percent
from jakiro.ui.figures.places import MARGIN, STEP, curved, fitted, points, row_count
from jakiro.ui.figures.theme import CONTRASTIVE, COPIED, SOURCES
from jakiro.ui.figures.tree_template import EDGE_WIDTHS, template

LEVEL_WIDTH = 112  # px of a level below which labels would run into the next one
LABEL, PATH_LABEL = 11, 9  # characters that fit into it, the latter with a percentage behind
FEW, MORE, WIDER = 4, 4, 38  # so few levels have room for so many characters more, in so many px more
MIN_ROWS = 7, 13  # a smaller tree keeps this pitch instead of filling the height: of a run of small trees, of another
PROPOSED_BY = ("source", "head", "copied_from")  # columns that tell
PROPOSERS = range(CONTRASTIVE)  # values of the first
EDGE_LIMITS = (0.05, 0.2, 0.5)  # draft probabilities between the widths of edges
LARGEST, SMALLEST, OUTLINE = 20, 4, 5  # px: nodes, and what an accepted node's outline adds


def tree_figure(trace: Trace, cut: bool = False) -> dict:
    """The trees of a run: {"template", "rounds", "height", "min_width"} (replay.py says how it becomes a figure).

    With `cut` the nodes that the budget left out are drawn too, as empty circles on dotted lines.
    """
    graphs = [round_graph(trace, index, cut) for index in range(len(trace.steps))]
    rows = max((row_count(graph) for graph in graphs), default=1)
    levels = max((max(nx.get_node_attributes(graph, "depth").values()) for graph in graphs), default=1)
    height = _height(rows)
    least, more = min(max(rows, MIN_ROWS[0]), MIN_ROWS[1]), MORE * (levels <= FEW)
    sources = _sources(trace)
    base = template(trace, sources, levels, height, cut)
    legend = sum("name" in entry for entry in base["data"])
    return {
        "template": base,
        "rounds": [_patch(graph, sources, height, least, more, legend, cut) for graph in graphs],
        "height": height,
        "min_width": 60 + (LEVEL_WIDTH + WIDER * bool(more)) * (levels + 1),
    }


def _height(rows: int) -> int:
    """In px: rows as far apart as one likes to read, but no more of it than a screen has, or than labels need."""
    around = MARGIN["t"] + MARGIN["b"]
    return min(max(17 * rows + around, 330), max(760, 11 * rows + around), 1600)


def _sources(trace: Trace) -> list[int | None]:
    """The keys of SOURCES that occur, in their order."""
    found = set()
    for step in trace.steps:
        nothing = [None] * len(step.tree)
        columns = (step.tree.columns.get(name, nothing)[1:] for name in PROPOSED_BY)
        found |= {_proposer(*pair) for pair in zip(*columns, strict=True)}
    return [source for source in SOURCES if source in found] or [None]


def _source(facts: dict[str, Any]) -> int | None:
    """Who proposes a node, as a key of SOURCES."""
    return _proposer(*map(facts.get, PROPOSED_BY))


def _proposer(source: int | None, head: int | None, copied_from: int | None) -> int | None:
    if source in PROPOSERS:
        return source
    return COPIED if copied_from is not None else CONTRASTIVE if head == 1 else None


def _patch(
    graph: nx.DiGraph, sources: list[int | None], height: int, least: int, more: int, legend: int, cut: bool
) -> dict:
    """A round's tree, with room for `least` rows and labels that are `more` characters longer."""
    places, pixels = fitted(graph, height, least)
    largest = min(LARGEST, 1.25 * pixels)
    font = round(min(max(0.78 * pixels, 8.5), 12 if more else 11.5), 1)
    accepted = _accepted_patch(graph, places, largest, font + 1, more)
    nodes = [_source_patch(graph, source, places, largest, font, more) for source in sources]
    shapes = [*_contrastive(graph), *_dashes(graph, places, largest)]
    ghosts = _ghosts(graph, places, font, more) if cut else []
    ends = _ends(graph, places, font + 1, more)
    data = [*ghosts, *_edges(graph, places), accepted, *nodes, *ends, *([{}] * legend)]
    return {"data": data, "layout": {"shapes": shapes}}


def _edges(graph: nx.DiGraph, places: dict) -> list[dict]:
    """Edges of nodes passed over or unreached in classes of width, then the first rejected, the accepted, the bonus."""
    groups: list[list] = [[] for _ in range(len(EDGE_WIDTHS) + 3)]
    special = {REJECTED: len(EDGE_WIDTHS), ACCEPTED: len(EDGE_WIDTHS) + 1, BONUS: len(EDGE_WIDTHS) + 2}
    for parent, child, facts in graph.edges(data=True):
        if facts["state"] == CUT:
            continue
        group = special.get(facts["state"])
        if group is None:
            group = sum(facts["q"] >= limit for limit in EDGE_LIMITS)
        groups[group].append((places[parent], places[child]))
    return [curved(group) for group in groups]


def _accepted_patch(graph: nx.DiGraph, places: dict, largest: float, font: float, more: int) -> dict:
    facts = graph.nodes
    nodes = [node for node in graph if facts[node]["state"] == ACCEPTED]
    return {
        **points(nodes, places),
        "text": [_bold(facts[node]["piece"], facts[node]["p"], more) for node in nodes],
        "marker.symbol": [SOURCES[_source(facts[node])][1] for node in nodes],
        "marker.size": [_size(facts[node]["q"], largest) + OUTLINE for node in nodes],
        "textfont.size": font,
    }


def _source_patch(graph: nx.DiGraph, source: int | None, places: dict, largest: float, font: float, more: int) -> dict:
    facts = graph.nodes
    nodes = [
        node for node in graph if facts[node]["state"] not in (ROOT, BONUS, CUT) and _source(facts[node]) == source
    ]
    return {
        **points(nodes, places),
        "text": [_faded_label(facts[node], more) for node in nodes],
        "marker.size": [_size(facts[node]["q"], largest) for node in nodes],
        "marker.opacity": [0.8 if facts[node]["state"] in (PASSED, UNREACHED) else 1 for node in nodes],
        "textfont.size": font,
    }


def _faded_label(facts: dict[str, Any], more: int) -> str:
    """The label of a node off the path; accepted nodes have theirs from the outline, and a ring needs some room."""
    if facts["state"] == ACCEPTED:
        return ""
    return " " * (facts["state"] == REJECTED) + label(facts["piece"], LABEL + more)


def _ghosts(graph: nx.DiGraph, places: dict, font: float, more: int) -> list[dict]:
    """Edges and nodes that the budget left out."""
    facts = graph.nodes
    nodes = [node for node in graph if facts[node]["state"] == CUT]
    edges = [(places[parent], places[node]) for node in nodes for parent in graph.predecessors(node)]
    hover = [
        f"<b>{label(facts[node]['piece'])}</b>  id {facts[node]['token']} · cut by the node budget<br>"
        f"draft q {facts[node]['q']:.3g}<br>path log-probability {facts[node]['score']:.2f}"
        for node in nodes
    ]
    text = [f" {label(facts[node]['piece'], LABEL + more)}" for node in nodes]
    look = {"text": text, "hovertext": hover, "textfont.size": font}
    return [curved(edges), points(nodes, places) | {"customdata": [-1] * len(nodes)} | look]


def _ends(graph: nx.DiGraph, places: dict, font: float, more: int) -> list[dict]:
    """The root and the bonus."""
    root, bonus = graph.nodes[0], graph.nodes[BONUS]
    share = "" if bonus["p"] is None else f"<br>target p {bonus['p']:.3g}"
    hover = f"<b>{label(bonus['piece'])}</b>  id {bonus['token']}<br>bonus: the target's own choice{share}"
    star = {"text": [_bold(bonus["piece"], bonus["p"], more)], "hovertext": [hover], "customdata": [-1]}
    return [
        points([0], places) | {"text": [_bold(root["piece"], None, more)], "textfont.size": font},
        points([BONUS], places) | star | {"textfont.size": font},
    ]


def _bold(piece: str, p: float | None, more: int) -> str:
    """A label of the path with the target's probability."""
    return f"<b>{label(piece, PATH_LABEL + more)}{'' if p is None else f' {percent(p)}'}</b>"


def _size(q: float, largest: float) -> float:
    """Diameter in px, area in proportion to the draft probability down to the smallest that can be seen."""
    return round(max(largest * math.sqrt(q), SMALLEST), 1)


def _dashes(graph: nx.DiGraph, places: dict, largest: float) -> list[dict]:
    """A dashed ring around every first rejected candidate, of constant size in px."""
    rings = []
    for node, facts in graph.nodes(data=True):
        if facts["state"] == REJECTED:
            radius = round(_size(facts["q"], largest) / 2 + 3)
            x, y = places[node]
            ring = {"type": "circle", "xsizemode": "pixel", "ysizemode": "pixel", "xanchor": x, "yanchor": y}
            ring["line"] = {"color": "@rejected", "width": 1.3, "dash": "2px,2px"}
            rings.append(ring | {"x0": -radius, "x1": radius, "y0": -radius, "y1": radius})
    return rings


def _contrastive(graph: nx.DiGraph) -> list[dict]:
    """A shade behind every level that the contrastive head proposed."""
    levels = sorted({facts["depth"] for _, facts in graph.nodes(data=True) if facts.get("head") == 1})
    caption = {"text": "contrastive level", "textposition": "top center", "font": {"size": 10, "color": "@muted"}}
    base = {"type": "rect", "layer": "below", "yref": "paper", "y0": 0, "y1": 1, "fillcolor": "@shade"}
    base |= {"label": caption, "line": {"width": 1, "dash": "dot", "color": "@other"}}
    return [base | {"x0": STEP * (depth - 0.3), "x1": STEP * (depth + 0.68)} for depth in levels]
