"""How different the candidates are and what it bought: of one round, and of a run against other methods' runs."""

from __future__ import annotations

import math
from collections import Counter
from html import unescape
from textwrap import wrap

from jakiro.analysis.diversity import RoundDiversity, RunDiversity, round_diversity
from jakiro.metrics import max_depth
from jakiro.trace import StepTrace, Trace
from jakiro.ui.figures.bars import OUTLINE, bars, curve, on
from jakiro.ui.figures.digits import rounded_list
from jakiro.ui.figures.labels import counted
from jakiro.ui.figures.layout import axis, by_level, caption, layout
from jakiro.ui.figures.theme import SOURCES

ROUND_HEIGHT, RUN_HEIGHT = 320, 480
FEW = 4  # lanes, above whose bars a number has room
PANEL, WORD, LINES = 54, 8, 2  # characters below a panel of bars, and below one at least; lines there
PERCENT = {"range": [-0.03, 1.06], "tickvals": [0, 0.5, 1], "tickformat": ".0%"}
APART = math.log(2)  # nats: divergence of two experts that share nothing; of more it may be larger
NAMES = ["● expert 0", "◆ expert 1", "■ both", "▲ mixture"]  # of the values of `source`
DASHES = ("solid", "dash", "dot", "dashdot")


def round_diversity_figure(trace: Trace) -> dict | None:
    """Covered target mass by level and, where recorded, the experts' overlap and divergence; None without drafts."""
    if not (levels := max_depth(trace)):
        return None
    rounds = [round_diversity(trace, step) for step in trace.steps]
    experts = any(found.experts for found in rounds)
    domains = [(0, 0.28), (0.37, 0.64), (0.73, 1)] if experts else [(0, 1)]
    depths = by_level(levels)
    axes = {"xaxis": axis(domains[0], "y", "depth", **depths), "yaxis": axis((0, 0.9), "x", **PERCENT)}
    hover = "depth %{x}: %{y:.1%} of the target's mass, at temperature 1, is in the tree<extra></extra>"
    data = [bars([], [], "@accepted", "covered", hovertemplate=hover)]
    if experts:
        most = max([APART, *(node.js for found in rounds for node in found.experts if node.js is not None)])
        axes |= {"xaxis2": axis(domains[1], "y2", "depth", **depths), "yaxis2": axis((0, 0.9), "x2", **PERCENT),
                 "xaxis3": axis(domains[2], "y3", "depth", **depths),
                 "yaxis3": axis((0, 0.9), "x3", "nats", range=[-0.02, round(most + 0.04, 2)], nticks=4)}  # fmt: skip
        after = "after <b>%{customdata.label}</b>, depth %{x:.0f}"
        data += [
            on(2, _points(after + "<br>%{y:.0%} of the top-k shared<extra></extra>")),
            on(3, _points(after + "<br>divergence %{y:.3f} nats<extra></extra>")),
        ]
    look = layout(ROUND_HEIGHT, axes, margin={"l": 46, "r": 12, "t": 40, "b": 44})
    return {
        "template": {"data": data, "layout": look},
        "rounds": [_round(step, found, experts, domains) for step, found in zip(trace.steps, rounds, strict=True)],
        "height": ROUND_HEIGHT,
        "min_width": 720 if experts else 360,
    }


def _points(hover: str) -> dict:
    """One point a parent; those on the accepted path are filled green, the rest hollow."""
    marker = {"size": 9, "color": "@surface", "line": {"width": 1.6, "color": "@both"}}
    return {"type": "scatter", "mode": "markers", "marker": marker, "hovertemplate": hover, "showlegend": False}


def _round(step: StepTrace, found: RoundDiversity, experts: bool, domains: list[tuple[float, float]]) -> dict:
    depths = list(range(1, len(found.coverage) + 1))
    data = [{"x": depths, "y": rounded_list(found.coverage, 3)}]
    mass = "target mass in the tree" if found.coverage else "target mass: the trace does not know it"
    told = f"{mass} · {found.unique} different tokens in {found.drafted}"
    notes = [told if found.drafted else "nothing was drafted in this round"]
    if experts:
        walked = {0, *step.accepted}
        spread = _spread([node.depth for node in found.experts])
        looks = ["@accepted" if node.parent in walked else "@surface" for node in found.experts]
        for values in ([node.overlap for node in found.experts], [node.js for node in found.experts]):
            data.append({"x": spread, "y": rounded_list(values, 3), "marker.color": looks,
                         "customdata": [node.parent for node in found.experts]})  # fmt: skip
        rescued = "" if found.rescues is None else f",<br>{found.rescues} rescued by one expert"
        notes = [f"{mass}{rescued}" if found.drafted else notes[0]]
        notes += ["experts' top-k in common<br>(● accepted path)", "experts' divergence"]
    captions = [caption(domain[0], 0.93, note, align="left") for domain, note in zip(domains, notes, strict=True)]
    return {"data": data, "layout": {"annotations": captions}}


def _spread(depths: list[int]) -> list[float]:
    """x places beside each other for the parents of one depth."""
    counts = Counter(depths)
    seen = dict.fromkeys(counts, 0)
    places = []
    for depth in depths:
        offset = (seen[depth] + 0.5) / counts[depth] - 0.5
        places.append(round(depth + 0.6 * offset, 2))
        seen[depth] += 1
    return places


def run_diversity_figure(runs: list[tuple[str, str, RunDiversity]], unit: str = "round") -> dict:
    """Covered mass by level and unique tokens of a run, the first, against others; its experts where recorded.

    Of each run its name and its colour. `unit`: what its drafts are, where they are no rounds.
    """
    mine = runs[0][-1]
    experts = bool(mine.overlap or mine.js)
    left, right = (0, 0.46), (0.57, 1)
    top, low = ((0.62, 1), (0.04, 0.42)) if experts else ((0, 1), (0, 0))
    axes = {
        "xaxis": axis(left, "y", "depth", **by_level(max(len(run.coverage) for *_, run in runs))),
        "yaxis": axis(top, "x", **PERCENT),
        "xaxis2": axis(right, "y2", showgrid=False, **_below([name for name, *_ in runs])),
        "yaxis2": axis(top, "x2", "tokens", range=[0, 1.2 * max(run.drafted for *_, run in runs)], nticks=4),
    }
    unknown = "" if mine.coverage else ": not known"
    captions = [
        caption(0, 1.02, f"target mass in the tree, by level{unknown}"),
        caption(0.57, 1.02, f"different tokens in a tree (pale: nodes), {unit}s with a draft"),
    ]
    data = [*_coverage(runs), *_unique(runs)]
    if experts:
        axes |= {
            "xaxis3": axis(left, "y3", "depth", **by_level(max([*mine.overlap, *mine.js]))),
            "yaxis3": axis(low, "x3", **_up_to(max(mine.js.values(), default=0.0) / APART)),
            "xaxis4": axis(right, "y4", showgrid=False),
            "yaxis4": axis(low, "x4", range=[0, 1.12], tickformat=".0%", nticks=3),
        }
        captions += [
            caption(0, 0.44, "experts: top-k in common (bars), divergence, 100% = log 2 (line)"),
            caption(0.57, 0.44, _rescues(mine, unit), align="left"),
        ]
        data += [*_disagreement(mine), *_by_source(mine)]
    height = RUN_HEIGHT if experts else 300
    look = layout(height, axes, annotations=captions, barmode="overlay", bargap=0.3)
    look["margin"] = {"l": 46, "r": 12, "t": 62, "b": 46}
    look["legend"]["y"] = 1 + 24 / (height - 108)
    return {"data": data, "layout": look, "min_width": 800, "told": _told(runs, unit)}


def _told(runs: list[tuple[str, str, RunDiversity]], unit: str) -> str:
    """What the figure shows, in a sentence or two of plain text."""
    counts = [f"{run.unique:.1f} of {run.drafted:.1f} with {unescape(name)}" for name, _, run in runs]
    mine, text = runs[0][-1], f"Different tokens in the tree of a {unit}: {', '.join(counts)}."
    levels = (mine.overlap, ".0%"), (mine.js, ".2f")
    if mine.overlap:
        shared, apart = (", ".join(f"{value:{form}}" for value in found.values()) for found, form in levels)
        text += f" By depth, the experts have {shared} of their top-k in common"
        text += f" and diverge by {apart} nats." if apart else "."
    return text


def _coverage(runs: list[tuple[str, str, RunDiversity]]) -> list[dict]:
    found = []
    for i, (name, color, run) in enumerate(runs):
        depths = list(range(1, len(run.coverage) + 1))
        line = {"color": color, "width": 2.5 if i == 0 else 1.8, "dash": DASHES[i % len(DASHES)]}
        hover = f"{name}, depth %{{x}}: %{{y:.1%}}, at temperature 1<extra></extra>"
        look = {"line": line, "showlegend": len(runs) > 1, "hovertemplate": hover}
        found.append(curve(depths, rounded_list(run.coverage), color, name, **look))
    return found


def _unique(runs: list[tuple[str, str, RunDiversity]]) -> list[dict]:
    names, colors, found = zip(*runs, strict=True)
    texts = [f"{run.unique:.1f}{'<br>' * (len(runs) > FEW)} of {run.drafted:.1f}" for run in found]
    hover = {"text": texts, "hovertemplate": "%{x}: %{text} nodes<extra></extra>", "textposition": "none"}
    look = {"color": "@grid", "line": {"width": 1, "color": "@other"}}
    above = {"text": texts, "textposition": "outside", "textfont": {"size": 11, "color": "@text"}, "cliponaxis": False}
    above["constraintext"] = "none"  # else plotly makes it smaller than can be read
    pale = bars([*names], rounded_list([run.drafted for run in found]), "@grid", "nodes", hoverinfo="skip", **above)
    unique = rounded_list([run.unique for run in found])
    own = bars([*names], unique, "", "different tokens", marker={"color": [*colors]}, **hover)
    return [on(2, pale | {"marker": look}), on(2, own)]


def _below(names: list[str]) -> dict:
    """Names of bars beside each other, in lines: aslant they would lie over the caption below. The legend has them in
    full."""
    look = {"max_lines": LINES, "placeholder": " …", "break_long_words": False, "break_on_hyphens": False}
    texts = ["<br>".join(wrap(name, max(WORD, PANEL // len(names)), **look)) for name in names]
    return {"tickvals": names, "ticktext": texts, "tickangle": 0}


def _disagreement(run: RunDiversity) -> list[dict]:
    share = rounded_list([value / APART for value in run.js.values()])
    nats = rounded_list([*run.js.values()])
    shared = "depth %{x}: %{y:.0%} of the top-k shared<extra></extra>"
    apart = "depth %{x}: %{customdata:.3f} nats<extra></extra>"
    overlap = bars([*run.overlap], rounded_list([*run.overlap.values()]), "@both", "in common", hovertemplate=shared)
    return [
        on(3, overlap),
        on(3, curve([*run.js], share, "@text", "divergence", customdata=nats, hovertemplate=apart)),
    ]


def _up_to(share: float) -> dict:
    """An axis of percentages as far as `share` at least."""
    return PERCENT if share <= 1 else {"range": [-0.03, share + 0.06], "nticks": 4, "tickformat": ".0%"}


def _by_source(run: RunDiversity) -> list[dict]:
    """Whose top-k has the drafted tokens (outlined) beside whose has the accepted ones, as shares of each."""
    found = []
    for title, counts, offset in (
        ("drafted", run.proposed_by_source, -0.38),
        ("accepted", run.accepted_by_source, 0.02),
    ):
        if counts is None:
            continue
        shares = rounded_list([count / (sum(counts) or 1) for count in counts])
        look = {"color": [f"@{SOURCES[source][0]}" for source in range(len(counts))], "line": {"width": 0}}
        if title == "drafted":
            look["line"] = OUTLINE
        of = f"of the {title} tokens, the contrastive level's apart"
        hover = f"%{{x}}: %{{y:.0%}} {of} (%{{customdata}})<extra></extra>"
        extra = {"marker": look, "width": 0.36, "offset": offset, "customdata": counts, "hovertemplate": hover}
        found.append(on(4, bars(NAMES, shares, "", title, **extra)))
    return found


def _rescues(run: RunDiversity, unit: str) -> str:
    rescued = "" if run.rescued_rounds is None else f"<br>{counted(run.rescued_rounds, unit)} rescued by one expert"
    return f"whose top-k has them: drafted (outlined), accepted{rescued}"
