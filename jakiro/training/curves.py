"""The curves of a training run as a page that needs no network: curves.html beside the CSV files that it draws."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from jakiro.files import refilling

SHOWN = 400  # points of a curve: longer ones are means over as many stretches
TALL = 260  # pixels of one plot


def draw(folder: Path) -> None:
    """Draw every column of metrics.csv, and of trials.csv where that is, over the steps; numbered ones share a plot."""
    from plotly.graph_objects import Scatter  # here: who only trains may have no plotly before it has something to show
    from plotly.subplots import make_subplots

    tables = [pd.read_csv(folder / name) for name in ("metrics.csv", "trials.csv") if (folder / name).exists()]
    plots: dict[str, list[tuple[str, pd.DataFrame]]] = {}
    for table in tables:
        means = table.groupby(table.index // (1 + len(table) // SHOWN)).mean()
        for name in means.columns.drop("step"):
            plots.setdefault(re.sub(r"(?<=accepted)\d+$", "", name), []).append((name, means))
    figure = make_subplots(rows=len(plots), cols=1, subplot_titles=list(plots), vertical_spacing=0.4 / len(plots))
    for row, curves in enumerate(plots.values(), start=1):
        for name, table in curves:
            figure.add_trace(Scatter(x=table["step"], y=table[name], name=name), row=row, col=1)
    figure.update_layout(height=TALL * len(plots), showlegend=False, title=folder.name, template="plotly_white")
    with refilling(folder, "curves.html") as new:  # plotly keeps a script that is there, whole or not
        figure.write_html(new / "curves.html", include_plotlyjs="directory")
