"""The parts that all figures share: transparent backgrounds, quiet axes, fonts, captions of panels."""

from __future__ import annotations

import math
from typing import Any

from jakiro.ui.figures.theme import CLEAR, MONO, SANS

UNTIMED = "no times recorded"  # of a run whose seconds are all 0, as where another engine does not log them
# A dotted upright line at 1, where ratios are even.
EVEN = {"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
        "line": {"color": "@muted", "width": 1, "dash": "dot"}}  # fmt: skip


def layout(height: int, axes: dict[str, dict], **extra: Any) -> dict:
    """A layout whose zoom survives a change of data (constant `uirevision`), with the given axes."""
    base = {
        "height": height,
        "autosize": True,
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"family": SANS, "size": 12, "color": "@muted"},
        "margin": {"l": 46, "r": 12, "t": 34, "b": 36},
        "hoverlabel": {"bgcolor": "@hover", "bordercolor": "@grid", "align": "left",
                       "font": {"family": MONO, "size": 12, "color": "@text"}},
        "hovermode": "closest",
        "dragmode": "pan",
        "uirevision": "run",
        "modebar": {"bgcolor": CLEAR, "color": "@other", "activecolor": "@text"},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "bgcolor": CLEAR,
                   "itemsizing": "constant", "font": {"size": 11, "color": "@muted"}},
    }  # fmt: skip
    return base | axes | extra


def axis(domain: tuple[float, float], anchor: str, title: str = "", **extra: Any) -> dict:
    """A quiet axis over a share of the figure."""
    base = {
        "domain": list(domain),
        "anchor": anchor,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "gridcolor": "@grid",
        "tickfont": {"size": 11, "color": "@muted"},
        "title": {"text": title, "font": {"size": 11, "color": "@muted"}, "standoff": 6},
        "fixedrange": True,
    }
    return base | extra


def by_level(levels: int, first: int = 1) -> dict:
    """Range and ticks of an axis whose levels are `first`, ..., `levels`: ten ticks at most."""
    return {"range": [first - 0.6, max(levels, 1) + 0.6], "dtick": max(1, -(-levels // 10)), "showgrid": False}


def whole(most: float, ticks: int = 6) -> dict:
    """About so many ticks of an axis of whole numbers up to `most`: none between them."""
    return {"dtick": 1, "tick0": 0} if most < ticks else {"nticks": ticks}


def up_and_down(top: int, low: int, intervals: int = 6) -> dict:
    """Ticks of an axis of counts, `top` upwards and `low` downwards, that many intervals at most."""
    step = 2 ** max(0, math.ceil(math.log2(max(top + low, 1) / intervals)))
    ticks = [*range(-(low // step) * step, 0, step), *range(0, top + 1, step)]
    return {"tickvals": ticks, "ticktext": [str(abs(tick)) for tick in ticks]}


def caption(x: float, y: float, text: str, **extra: Any) -> dict:
    """A panel's caption, its lower left corner at (x, y) of the figure."""
    place = {"xref": "paper", "yref": "paper", "x": x, "y": y, "xanchor": "left", "yanchor": "bottom"}
    return place | {"text": text, "showarrow": False, "font": {"size": 11, "color": "@text"}} | extra
