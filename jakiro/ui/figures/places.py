"""Where the nodes and edges of a tree are drawn: STEP x units a level, rows of y units that the figure chooses."""

from __future__ import annotations

import networkx as nx

STEP = 3  # x units of a level: edges bend at whole units
SPAN = 1000  # y units from the top of a figure to its bottom
MARGIN = {"l": 8, "r": 8, "t": 42, "b": 42}  # below, the names of levels and plotly's buttons


def row_count(graph: nx.DiGraph) -> int:
    """Rows of the tidy layout."""
    return 1 + round(max(nx.get_node_attributes(graph, "y").values()))


def fitted(graph: nx.DiGraph, height: float, least: int) -> tuple[dict, float]:
    """Node -> (x, y) in a figure of `height` pixels that has room for `least` rows, the tree in its middle; and the
    pixels of a row."""
    rows = row_count(graph)
    unit = SPAN / max(rows, least)
    top = (SPAN - unit * (rows - 1)) / 2
    places = {node: (STEP * facts["x"], round(top + unit * facts["y"])) for node, facts in graph.nodes(data=True)}
    return places, (height - MARGIN["t"] - MARGIN["b"]) / max(rows, least)


def curved(edges: list[tuple]) -> dict:
    """Edges as curves that leave and arrive level, with gaps between them."""
    xs: list = []
    ys: list = []
    for (x0, y0), (x1, y1) in edges:
        rise = y1 - y0
        xs += [x0, x0 + 1, x0 + 2, x1, None] if rise else [x0, x1, None]
        ys += [y0, round(y0 + 0.26 * rise), round(y0 + 0.74 * rise), y1, None] if rise else [y0, y1, None]
    return {"x": xs[:-1], "y": ys[:-1]}


def points(nodes: list, places: dict) -> dict:
    """Points of nodes that know their node."""
    return {"x": [places[node][0] for node in nodes], "y": [places[node][1] for node in nodes], "customdata": [*nodes]}
