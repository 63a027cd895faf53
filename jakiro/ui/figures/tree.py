"""The draft tree of a round: who proposed each candidate, what the target kept, what it chose instead.

Shape and hue say who proposes, area and edge width the draft probability; the accepted path is thick and green with
bold labels, the first rejected candidates have a dashed outline, the bonus is a star. x has STEP units a level and y
SPAN units from top to bottom in every round: short whole numbers, and one axis range for the run, so that zoom is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import networkx as nx

from jakiro.graph import ACCEPTED, BONUS, CUT, PASSED, REJECTED, UNREACHED, round_graph
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
        "rounds": [_Round.of(graph, height, least, more).patch(sources, legend, cut) for graph in graphs],
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


@dataclass(frozen=True, slots=True)
class _Round:
    """A tree as it is drawn: where its nodes are, and how large they and their labels."""

    graph: nx.DiGraph
    places: dict  # node -> (x, y)
    largest: float  # px of a node that the draft is sure of
    font: float  # px of labels; those of the path have one more
    more: int  # characters by which labels are longer

    @classmethod
    def of(cls, graph: nx.DiGraph, height: int, least: int, more: int) -> _Round:
        """With room for `least` rows, and for labels that are `more` characters longer."""
        places, pixels = fitted(graph, height, least)
        font = round(min(max(0.78 * pixels, 8.5), 12 if more else 11.5), 1)
        return cls(graph, places, min(LARGEST, 1.25 * pixels), font, more)

    def patch(self, sources: list[int | None], legend: int, cut: bool) -> dict:
        """The changes to the template, in the order of its traces."""
        nodes = [self._of_source(source) for source in sources]
        ghosts = self._ghosts() if cut else []
        data = [*ghosts, *self._edges(), self._accepted(), *nodes, *self._ends(), *([{}] * legend)]
        return {"data": data, "layout": {"shapes": [*_contrastive(self.graph), *self._dashes()]}}

    def _in(self, *states: str) -> dict[int | str, dict[str, Any]]:
        """Nodes in these states -> what is known of them."""
        return {node: facts for node, facts in self.graph.nodes(data=True) if facts["state"] in states}

    def _edges(self) -> list[dict]:
        """Edges of nodes passed over or unreached in classes of width, then the first rejected, the accepted, the
        bonus."""
        groups: list[list] = [[] for _ in range(len(EDGE_WIDTHS) + 3)]
        special = {REJECTED: len(EDGE_WIDTHS), ACCEPTED: len(EDGE_WIDTHS) + 1, BONUS: len(EDGE_WIDTHS) + 2}
        for parent, child, facts in self.graph.edges(data=True):
            if facts["state"] == CUT:
                continue
            group = special.get(facts["state"])
            if group is None:
                group = sum(facts["q"] >= limit for limit in EDGE_LIMITS)
            groups[group].append((self.places[parent], self.places[child]))
        return [curved(group) for group in groups]

    def _accepted(self) -> dict:
        """Outlines and labels of the accepted nodes."""
        nodes = self._in(ACCEPTED)
        return {
            **points([*nodes], self.places),
            "text": [self._bold(facts["piece"], facts["p"]) for facts in nodes.values()],
            "marker.symbol": [SOURCES[_source(facts)][1] for facts in nodes.values()],
            "marker.size": [self._size(facts["q"]) + OUTLINE for facts in nodes.values()],
            "textfont.size": self.font + 1,
        }

    def _of_source(self, source: int | None) -> dict:
        drafted = self._in(ACCEPTED, REJECTED, PASSED, UNREACHED)
        nodes = {node: facts for node, facts in drafted.items() if _source(facts) == source}
        return {
            **points([*nodes], self.places),
            "text": [self._faded(facts) for facts in nodes.values()],
            "marker.size": [self._size(facts["q"]) for facts in nodes.values()],
            "marker.opacity": [0.8 if facts["state"] in (PASSED, UNREACHED) else 1 for facts in nodes.values()],
            "textfont.size": self.font,
        }

    def _ghosts(self) -> list[dict]:
        """Edges and nodes that the budget left out."""
        nodes = self._in(CUT)
        edges = [(self.places[parent], self.places[node]) for node in nodes for parent in self.graph.predecessors(node)]
        hover = [
            f"<b>{label(facts['piece'])}</b>  id {facts['token']} · cut by the node budget<br>"
            f"draft q {facts['q']:.3g}<br>path log-probability {facts['score']:.2f}"
            for facts in nodes.values()
        ]
        text = [f" {label(facts['piece'], LABEL + self.more)}" for facts in nodes.values()]
        look = {"text": text, "hovertext": hover, "textfont.size": self.font}
        return [curved(edges), points([*nodes], self.places) | {"customdata": [-1] * len(nodes)} | look]

    def _ends(self) -> list[dict]:
        """The root and the bonus."""
        root, bonus = self.graph.nodes[0], self.graph.nodes[BONUS]
        share = "" if bonus["p"] is None else f"<br>target p {bonus['p']:.3g}"
        hover = f"<b>{label(bonus['piece'])}</b>  id {bonus['token']}<br>bonus: the target's own choice{share}"
        star = {"text": [self._bold(bonus["piece"], bonus["p"])], "hovertext": [hover], "customdata": [-1]}
        font = {"textfont.size": self.font + 1}
        return [
            points([0], self.places) | {"text": [self._bold(root["piece"], None)]} | font,
            points([BONUS], self.places) | star | font,
        ]

    def _dashes(self) -> list[dict]:
        """A dashed ring around every first rejected candidate, of constant size in px."""
        rings = []
        for node, facts in self._in(REJECTED).items():
            radius = round(self._size(facts["q"]) / 2 + 3)
            x, y = self.places[node]
            ring = {"type": "circle", "xsizemode": "pixel", "ysizemode": "pixel", "xanchor": x, "yanchor": y}
            ring["line"] = {"color": "@rejected", "width": 1.3, "dash": "2px,2px"}
            rings.append(ring | {"x0": -radius, "x1": radius, "y0": -radius, "y1": radius})
        return rings

    def _size(self, q: float) -> float:
        """Diameter in px, area in proportion to the draft probability down to the smallest that can be seen."""
        return round(max(self.largest * math.sqrt(q), SMALLEST), 1)

    def _bold(self, piece: str, p: float | None) -> str:
        """A label of the path with the target's probability."""
        return f"<b>{label(piece, PATH_LABEL + self.more)}{'' if p is None else f' {percent(p)}'}</b>"

    def _faded(self, facts: dict[str, Any]) -> str:
        """The label of a node off the path; accepted nodes have theirs from the outline, and a ring needs some room."""
        if facts["state"] == ACCEPTED:
            return ""
        return " " * (facts["state"] == REJECTED) + label(facts["piece"], LABEL + self.more)


def _contrastive(graph: nx.DiGraph) -> list[dict]:
    """A shade behind every level that the contrastive head proposed."""
    levels = sorted({facts["depth"] for _, facts in graph.nodes(data=True) if facts.get("head") == 1})
    caption = {"text": "contrastive level", "textposition": "top center", "font": {"size": 10, "color": "@muted"}}
    base = {"type": "rect", "layer": "below", "yref": "paper", "y0": 0, "y1": 1, "fillcolor": "@shade"}
    base |= {"label": caption, "line": {"width": 1, "dash": "dot", "color": "@other"}}
    return [base | {"x0": STEP * (depth - 0.3), "x1": STEP * (depth + 0.68)} for depth in levels]
