"""What a round costs as texts grow: at published shapes beside published figures, and beside attention's own growth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jakiro.ui.figures.bars import curve
from jakiro.ui.figures.digits import rounded_list
from jakiro.ui.figures.layout import axis, caption, layout
from jakiro.ui.figures.looks import looks

Rows = list[dict[str, Any]]


def shapes_figure(report: dict[str, Any], titles: Mapping[str, str]) -> dict:
    """A round over a step of vanilla by tokens of context; `report` is the data of `jakiro-shapes/1`."""
    published = (report["published"] or {}).get("round_over_step", {})
    data = []
    for name, color, rows in _lines(report):
        if name == "vanilla":
            continue
        title, lengths = titles.get(name, name), [row["context"] for row in rows]
        ratios = rounded_list([row["round_over_step"] for row in rows])
        hover = f"{title} at %{{x}} tokens: a round is %{{y:.2f}} steps<extra></extra>"
        data.append(curve(lengths, ratios, color, title, showlegend=True, hovertemplate=hover))
        if name in published:
            label = f"{title}, published ({report['published']['gpu']}, prefill included)"
            data.append(_dashed(lengths, [published[name]] * len(lengths), color, label))
    return _figure(data, "a round over a step of vanilla", "steps")


def long_text_figure(report: dict[str, Any], titles: Mapping[str, str]) -> dict:
    """Milliseconds of a round by tokens of context, and what attention alone adds, where that was measured; `report` is
    the data of `jakiro-long-text/1`."""
    data = []
    for name, color, rows in _lines(report):
        title, lengths = titles.get(name, name), [row["context"] for row in rows]
        spent = rounded_list([1000 * row["round_s"] for row in rows])
        hover = f"{title} at %{{x}} tokens: %{{y:.1f}} ms a round<extra></extra>"
        data.append(curve(lengths, spent, color, title, showlegend=True, hovertemplate=hover))
        if rows[0]["attention_growth_s"] is not None:
            alone = rounded_list([1000 * (rows[0]["round_s"] + row["attention_growth_s"]) for row in rows])
            data.append(_dashed(lengths, alone, color, f"{title}, if only attention grew"))
    return _figure(data, "a round as the text grows", "ms")


def _lines(report: dict[str, Any]) -> list[tuple[str, str, Rows]]:
    """Each method, its colour, and its rows by tokens of context."""
    rows = sorted(report["rows"], key=lambda row: row["context"])
    found = looks(row["method"] for row in report["rows"])
    return [(name, color, [row for row in rows if row["method"] == name]) for name, (color, _) in found.items()]


def _dashed(x: list, y: list, color: str, name: str) -> dict:
    line = {"color": color, "width": 1.5, "dash": "dash"}
    hover = f"{name}: %{{y:.2f}}<extra></extra>"
    return curve(x, y, color, name, mode="lines", line=line, showlegend=True, hovertemplate=hover)


def _figure(data: list[dict], title: str, unit: str) -> dict:
    axes = {
        "xaxis": axis((0, 1), "y", "tokens of context", showgrid=False, rangemode="tozero"),
        "yaxis": axis((0, 0.92), "x", unit, rangemode="tozero", nticks=6),
    }
    margin = {"l": 56, "r": 12, "t": 30, "b": 120}
    look = layout(380, axes, margin=margin, annotations=[caption(0, 0.95, title)])
    look["legend"] |= {"orientation": "v", "y": -0.2, "yanchor": "top", "traceorder": "normal"}
    return {"data": data, "layout": look, "min_width": 560}
