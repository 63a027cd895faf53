"""Figures of an experiment: tau over the reference and part by part, how sure that is, how deep drafts are accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jakiro.measuring.report import method_totals, temperatures
from jakiro.ui.figures.bars import whiskers
from jakiro.ui.figures.labels import ITSELF, of_method
from jakiro.ui.figures.layout import EVEN, axis, layout

LOOKS = (("@text", "circle"), ("@muted", "circle-open"), ("@both", "square"), ("@bonus", "triangle-up"))
ROW, CLOSE, TALL = 40, 26, 90  # px of a line of the figure, of one among MANY, and of what is around them
MANY = 20


def figures(report: dict[str, Any]) -> list[dict]:
    """All of them, each with its `title`."""
    about = report["experiment"]
    others = [row for row in about["intervals"] if row["variant"] != about["reference"]]
    over = f"tau over that of “{about['reference']}”, 95 % interval"
    against = "tau with it over tau without it, 95 % interval"
    return [
        {"title": about["question"]} | intervals_figure(others, "variant", over),
        *([{"title": "Part by part"} | intervals_figure(about["parts"], "what", against)] if about["parts"] else []),
        *(depth_figure(report, heat) for heat in temperatures(report)),
    ]


def intervals_figure(
    found: list[dict[str, Any]],
    key: str,
    title: str,
    titles: Mapping[str, str] = ITSELF,
    ratio: str = "over_reference",
) -> dict:
    """A line for each of the rows' `key`, called by `titles`, a mark a temperature with the interval of their `ratio`;
    the dotted line is no change."""
    names = list(dict.fromkeys(row[key] for row in found))
    called = [of_method(name, titles) for name in names]
    heats = sorted({row["temperature"] for row in found})
    data = []
    for number, heat in enumerate(heats):
        rows = {row[key]: row for row in found if row["temperature"] == heat}
        color, symbol = LOOKS[number % len(LOOKS)]
        middle = [rows[name][ratio] for name in names]
        edges = [rows[name][f"{ratio}_interval"] for name in names]
        shift = 0.24 * (number - (len(heats) - 1) / 2)  # of a line, so that temperatures do not cover each other
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"temperature {heat:g}",
                "x": middle,
                "y": [len(names) - 1 - at - shift for at in range(len(names))],
                "marker": {"color": color, "symbol": symbol, "size": 10},
                "error_x": whiskers(middle, edges, color, thickness=1.4, width=4),
                "customdata": [[said, f"{rows[name]['tau']:.2f}"] for name, said in zip(names, called, strict=True)],
                "hovertemplate": "%{customdata[0]}<br>tau %{customdata[1]}, %{x:.3f} of the other’s<extra></extra>",
            }
        )
    axes = {
        "xaxis": axis((0, 1), "y", title, ticksuffix="×"),
        "yaxis": axis(
            (0, 1), "x", tickvals=list(range(len(names))), ticktext=called[::-1], range=[-0.6, len(names) - 0.4]
        ),
    }
    margin = {"l": 10 + 7 * max(map(len, called)), "r": 12, "t": 46, "b": 44}
    look = layout(TALL + (CLOSE if len(names) > MANY else ROW) * len(names), axes, margin=margin, shapes=[EVEN])
    return {"data": data, "layout": look, "min_width": 640}


def depth_figure(report: dict[str, Any], temperature: float) -> dict:
    """The share of rounds that accepted at least d tokens: a line a variant, a column a depth."""
    totals = {line["method"]: line for line in method_totals(report) if line["temperature"] == temperature}
    names = list(report["experiment"]["variants"])
    shares = [totals[name]["acceptance_rate_per_position"] for name in names]
    deepest = max(map(len, shares))
    cells = {
        "type": "heatmap",
        "x": list(range(1, deepest + 1)),
        "y": names,
        "z": [[round(share, 4) for share in line] + [None] * (deepest - len(line)) for line in shares],
        "zmin": 0,
        "zmax": 1.8,  # no cell so strong that text cannot be read on it
        "textfont": {"color": "@text"},
        "colorscale": [[0, "@surface"], [1, "@accepted"]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "texttemplate": "%{z:.1%}",
        "hovertemplate": "%{y}, depth %{x}: %{z:.1%} of the rounds<extra></extra>",
    }
    axes = {
        "xaxis": axis((0, 1), "y", "depth", dtick=1, showgrid=False),
        "yaxis": axis((0, 1), "x", autorange="reversed", showgrid=False),
    }
    margin = {"l": 10 + 7 * max(map(len, names)), "r": 12, "t": 8, "b": 44}
    look = layout(TALL + CLOSE * len(names), axes, margin=margin)
    title = f"Rounds that accepted at least d tokens, temperature {temperature:g}"
    return {"title": title, "data": [cells], "layout": look, "min_width": 640}
