"""A benchmark's report as figures: speed-up by task, where a round's time goes, acceptance by depth, how sure tau
and speeds are, the limits."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from jakiro.measuring.report import MEAN, means, method_totals, temperatures
from jakiro.ui.figures.bars import bars, curve, on, whiskers
from jakiro.ui.figures.experiment import intervals_figure
from jakiro.ui.figures.labels import ITSELF, of_method
from jakiro.ui.figures.layout import EVEN, axis, caption, layout
from jakiro.ui.figures.looks import Look, looks
from jakiro.ui.figures.theme import PHASES

ROW, TALL = 34, 90  # px of a line of the figure, and of what is around them


def speed_figure(report: dict[str, Any], temperature: float, titles: Mapping[str, str] = ITSELF) -> dict:
    """Speed-up of every method on every task, with its spread over the repeats, and their means."""
    rows = [row for row in report["rows"] if row["temperature"] == temperature and row["speedup"] is not None]
    tasks = [*dict.fromkeys(row["task"] for row in rows), MEAN]
    averages = means(report, temperature)
    data = []
    for name, look in _looks(report).items():
        own = [row for row in rows if row["method"] == name]
        if not own:
            continue
        spread = [mean(edges) for edges in zip(*map(_spread, own), strict=True)]
        own.append({**averages[name], "task": MEAN, "speedup_spread": spread})
        data.append(_dots(of_method(name, titles), own, look))
    axes = {
        "xaxis": axis((0, 1), "y", "speed-up over vanilla in the same run", ticksuffix="×"),
        "yaxis": axis((0, 1), "x", categoryorder="array", categoryarray=tasks[::-1], gridcolor="@grid", showgrid=True),
    }
    margin = {"l": 86, "r": 12, "t": 46, "b": 44}
    look = layout(TALL + ROW * len(tasks), axes, margin=margin, shapes=[EVEN])
    return {"data": data, "layout": look, "min_width": 560}


def _dots(name: str, rows: list[dict[str, Any]], look: Look) -> dict:
    color, symbol = look
    hover = [f"tau {row['tau']:.2f}" if row.get("tau") is not None else "" for row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [round(row["speedup"], 4) for row in rows],
        "y": [row["task"] for row in rows],
        "marker": {"color": color, "symbol": symbol, "size": 11, "line": {"width": 2, "color": color}},
        "error_x": whiskers([row["speedup"] for row in rows], [*map(_spread, rows)], color, thickness=1.2, width=0),
        "customdata": hover,
        "hovertemplate": f"{name} on %{{y}}: %{{x:.2f}}× %{{customdata}}<extra></extra>",
    }


def _spread(row: dict[str, Any]) -> list[float]:
    return row.get("speedup_spread") or [row["speedup"]] * 2


def rounds_figure(report: dict[str, Any], temperature: float, titles: Mapping[str, str] = ITSELF) -> dict:
    """Milliseconds of a round by phase, and the share of rounds that accepted at least d tokens."""
    lines = [line for line in method_totals(report) if line["temperature"] == temperature][::-1]
    names = [of_method(line["method"], titles) for line in lines]
    data, known = [], _looks(report)
    for at, (phase, (color, _)) in enumerate(PHASES.items()):
        spent = [round(1000 * line["round_s"] * line["shares"][at], 3) for line in lines]
        hover = f"%{{y}}: {phase} %{{x:.2f}} ms a round<extra></extra>"
        extra = {"orientation": "h", "showlegend": True, "hovertemplate": hover}
        data.append(on(1, bars(spent, names, color, phase, **extra)))
    for line in lines[::-1]:
        rates = line["acceptance_rate_per_position"]
        if rates:
            color, symbol = known[line["method"]]
            name = of_method(line["method"], titles)
            hover = f"{name} depth %{{x}}: %{{y:.1%}}<extra></extra>"
            dots = curve(list(range(1, 1 + len(rates))), rates, color, name, hovertemplate=hover)
            data.append(on(2, dots | {"marker": {"color": color, "symbol": symbol, "size": 8}, "showlegend": True}))
    axes = {
        "xaxis": axis((0, 0.42), "y", "ms a round"),
        "yaxis": axis((0, 0.92), "x", automargin="left", dtick=1),
        "xaxis2": axis((0.56, 1), "y2", "depth", dtick=1, showgrid=False),
        "yaxis2": axis((0, 0.92), "x2", range=[0, 1.02], tickformat=".0%", nticks=4),
    }
    captions = [
        caption(0, 0.94, "where a round's time goes"),
        caption(0.56, 0.94, "rounds that accepted at least d tokens"),
    ]
    legend = {"orientation": "h", "x": 0, "y": -0.3, "yanchor": "top", "traceorder": "normal"}
    margin = {"l": 96, "r": 12, "t": 28, "b": 84}
    look = layout(
        max(320, 100 + 26 * len(lines)), axes, barmode="stack", bargap=0.4, annotations=captions, margin=margin
    )
    look["legend"] |= legend
    return {"data": data, "layout": look, "min_width": 760}


def limits_figure(report: dict[str, Any], titles: Mapping[str, str] = ITSELF) -> dict | None:
    """A round as measured, of its bare networks alone, and as the device's rates allow. None: not measured.

    Rounds with a full tree alone: those of a method whose trees vary in size may take less. A round and its networks
    took turns, so the networks' bar is the round's over the ratio within a turn.
    """
    found = (report.get("limits") or {}).get("methods")
    if not found:
        return None
    lines = [found[name] for name in found][::-1]
    names = [of_method(name, titles) for name in found][::-1]
    parts = (
        ("round", "@both", [line["round_s"] for line in lines]),
        ("bare networks alone", "@accepted", [line["round_s"] / line["round_over_ideal"] for line in lines]),
        ("device's floor", "@quiet", [line["round_floor_s"] for line in lines]),
    )
    ratios = [f"{line['round_over_ideal']:.2f} × its networks" for line in lines]
    inside = {"textposition": "inside", "insidetextanchor": "end", "textfont": {"size": 10, "color": "@surface"}}
    data = []
    for label, color, spent in parts[::-1]:
        if None in spent:
            continue  # a mixture of experts has no floor
        hover = f"%{{y}}: {label} %{{x:.2f}} ms<extra></extra>"
        told = {"text": ratios} | inside if label == "round" else {}
        taken = [round(1000 * one, 3) for one in spent]
        data.append(bars(taken, names, color, label, orientation="h", showlegend=True, hovertemplate=hover, **told))
    apart = "ms of rounds with a full tree, their bare networks in turn; not the table's runs"
    axes = {"xaxis": axis((0, 1), "y", apart), "yaxis": axis((0, 1), "x", automargin="left", dtick=1)}
    look = layout(
        TALL + 2 * ROW * len(names), axes, barmode="group", bargap=0.3, margin={"l": 96, "r": 12, "t": 40, "b": 44}
    )
    look["legend"] |= {"traceorder": "reversed"}
    return {"data": data, "layout": look, "min_width": 560}


def figures(report: dict[str, Any], titles: Mapping[str, str] = ITSELF) -> list[dict]:
    """All of them, each with its `title`; methods are called by `titles`."""
    found = []
    heats = temperatures(report)
    for heat in heats:
        at = f" at temperature {heat:g}" if len(heats) > 1 or heat else ""
        found.append({"title": f"Speed-up by task{at}", **speed_figure(report, heat, titles)})
        found.append({"title": f"Rounds{at}", **rounds_figure(report, heat, titles)})
    found.extend(_sure(report, titles))
    if limits := limits_figure(report, titles):
        found.append({"title": "Against the limit", **limits})
    return found


def _sure(report: dict[str, Any], titles: Mapping[str, str]) -> list[dict]:
    """Figures for each method that others are held against: in reports that do not name it, the first. Older reports
    have no intervals of speeds."""
    rows, found = report.get("intervals", []), []
    for own in dict.fromkeys(row.get("reference", rows[0]["variant"]) for row in rows):
        others = [row for row in rows if row.get("reference", own) == own != row["variant"]]
        for what, ratio in (("Tau", "over_reference"), ("Tokens/s", "speed_over_reference")):
            if ratio in others[0]:
                title = f"{what} over that of “{of_method(own, titles)}”"
                figure = intervals_figure(others, "variant", f"{title}, 95 % interval", titles, ratio)
                found.append({"title": title, **figure})
    return found


def _looks(report: dict[str, Any]) -> dict[str, Look]:
    return looks(row["method"] for row in report["rows"])
