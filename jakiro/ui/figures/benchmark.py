"""A benchmark's report as figures: speed-up by task, where a round's time goes, acceptance by depth, the limits."""

from __future__ import annotations

from typing import Any

from jakiro.report import PHASES, means, method_totals, temperatures
from jakiro.ui.figures.bars import bars, curve, on
from jakiro.ui.figures.layout import axis, caption, layout

LOOKS = {  # method -> colour, symbol; others take turns of OTHERS
    "vanilla": ("@other", "line-ns-open"),
    "prompt_lookup": ("@mixture", "triangle-up"),
    "eagle2": ("@expert0", "circle"),
    "jakiro": ("@expert1", "diamond"),
}
OTHERS = (("@both", "square-open"), ("@both", "x-thin-open"), ("@bonus", "triangle-up-open"), ("@bonus", "cross-open"))
PHASE_COLOURS = dict(zip(PHASES, ("@both", "@other", "@edge"), strict=True))
ROW, TALL = 34, 90  # px of a line of the figure, and of what is around them


def speed_figure(report: dict[str, Any], temperature: float) -> dict:
    """Speed-up of every method on every task and in the mean, with its spread over the repeats."""
    rows = [row for row in report["rows"] if row["temperature"] == temperature and row["speedup"] is not None]
    tasks = [*dict.fromkeys(row["task"] for row in rows), "mean"]
    averages = means(report, temperature)
    data = []
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        own.append({"task": "mean", "speedup": averages[name]["speedup"], "tau": averages[name].get("tau")})
        data.append(_dots(name, own, _look(name, report)))
    axes = {
        "xaxis": axis((0, 1), "y", "speed-up over vanilla in the same run", ticksuffix="×"),
        "yaxis": axis((0, 1), "x", categoryorder="array", categoryarray=tasks[::-1], gridcolor="@grid", showgrid=True),
    }
    even = {"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    shapes = [even | {"line": {"color": "@muted", "width": 1, "dash": "dot"}}]
    margin = {"l": 86, "r": 12, "t": 46, "b": 44}
    look = layout(TALL + ROW * len(tasks), axes, margin=margin, shapes=shapes)
    return {"data": data, "layout": look, "min_width": 560}


def _dots(name: str, rows: list[dict[str, Any]], look: tuple[str, str]) -> dict:
    color, symbol = look
    spreads = [row.get("speedup_spread") or [row["speedup"]] * 2 for row in rows]
    up = [high - row["speedup"] for row, (_, high) in zip(rows, spreads, strict=True)]
    down = [row["speedup"] - low for row, (low, _) in zip(rows, spreads, strict=True)]
    bars_ = {
        "type": "data",
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "color": color,
        "thickness": 1.2,
        "width": 0,
    }
    hover = [f"tau {row['tau']:.2f}" if row.get("tau") is not None else "" for row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [round(row["speedup"], 4) for row in rows],
        "y": [row["task"] for row in rows],
        "marker": {"color": color, "symbol": symbol, "size": 11, "line": {"width": 2, "color": color}},
        "error_x": bars_,
        "customdata": hover,
        "hovertemplate": f"{name} on %{{y}}: %{{x:.2f}}× %{{customdata}}<extra></extra>",
    }


def rounds_figure(report: dict[str, Any], temperature: float) -> dict:
    """Milliseconds of a round by phase, and the share of rounds that accepted at least d tokens."""
    lines = [line for line in method_totals(report) if line["temperature"] == temperature][::-1]
    names = [line["method"] for line in lines]
    data = []
    for at, phase in enumerate(PHASES):
        spent = [round(1000 * line["round_s"] * line["shares"][at], 3) for line in lines]
        hover = f"%{{y}}: {phase} %{{x:.2f}} ms a round<extra></extra>"
        extra = {"orientation": "h", "showlegend": True, "hovertemplate": hover}
        data.append(on(1, bars(spent, names, PHASE_COLOURS[phase], phase, **extra)))
    for line in lines[::-1]:
        rates = line["acceptance_rate_per_position"]
        if rates:
            color, symbol = _look(line["method"], report)
            hover = f"{line['method']} depth %{{x}}: %{{y:.1%}}<extra></extra>"
            dots = curve(list(range(1, 1 + len(rates))), rates, color, line["method"], hovertemplate=hover)
            data.append(on(2, dots | {"marker": {"color": color, "symbol": symbol, "size": 8}, "showlegend": True}))
    axes = {
        "xaxis": axis((0, 0.42), "y", "ms a round"),
        "yaxis": axis((0, 0.92), "x"),
        "xaxis2": axis((0.56, 1), "y2", "depth", dtick=1, showgrid=False),
        "yaxis2": axis((0, 0.92), "x2", range=[0, 1.02], tickformat=".0%", nticks=4),
    }
    captions = [
        caption(0, 0.94, "where a round's time goes"),
        caption(0.56, 0.94, "rounds that accepted at least d tokens"),
    ]
    legend = {"orientation": "h", "x": 0, "y": -0.3, "yanchor": "top"}
    margin = {"l": 96, "r": 12, "t": 28, "b": 84}
    look = layout(320, axes, barmode="stack", bargap=0.4, annotations=captions, margin=margin)
    look["legend"] |= legend
    return {"data": data, "layout": look, "min_width": 760}


def limits_figure(report: dict[str, Any]) -> dict | None:
    """A round as measured, of its bare networks alone, and as the device's rates allow. None: not measured."""
    found = (report.get("limits") or {}).get("methods")
    if not found:
        return None
    names = list(found)[::-1]
    parts = (
        ("round_s", "round", "@both"),
        ("ideal_round_s", "bare networks alone", "@accepted"),
        ("round_floor_s", "device's floor", "@edge"),
    )
    data = []
    for key, label, color in parts[::-1]:
        if any(found[name][key] is None for name in names):
            continue  # a mixture of experts has no floor
        spent = [round(1000 * found[name][key], 3) for name in names]
        hover = f"%{{y}}: {label} %{{x:.2f}} ms<extra></extra>"
        data.append(bars(spent, names, color, label, orientation="h", showlegend=True, hovertemplate=hover))
    axes = {"xaxis": axis((0, 1), "y", "ms"), "yaxis": axis((0, 1), "x")}
    look = layout(
        TALL + 2 * ROW * len(names), axes, barmode="group", bargap=0.3, margin={"l": 96, "r": 12, "t": 40, "b": 44}
    )
    look["legend"] |= {"traceorder": "reversed"}
    return {"data": data, "layout": look, "min_width": 560}


def figures(report: dict[str, Any]) -> list[dict]:
    """All of them, each with its `title`."""
    found = []
    heats = temperatures(report)
    for heat in heats:
        at = f" at temperature {heat:g}" if len(heats) > 1 or heat else ""
        found.append({"title": f"Speed-up by task{at}", **speed_figure(report, heat)})
        found.append({"title": f"Rounds{at}", **rounds_figure(report, heat)})
    if limits := limits_figure(report):
        found.append({"title": "Against the limit", **limits})
    return found


def _look(name: str, report: dict[str, Any]) -> tuple[str, str]:
    strange = [one for one in dict.fromkeys(row["method"] for row in report["rows"]) if one not in LOOKS]
    return LOOKS[name] if name in LOOKS else OTHERS[strange.index(name) % len(OTHERS)]
