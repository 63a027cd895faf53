"""What goes to the browser: recorded traces as one JSON text; from it every view is drawn without asking Python again.

    payload(traces, titles) -> str

    {"schema": "jakiro-replay/1",
     "themes":  {"light": {role: colour}, "dark": {role: colour}},  # figures name colours by role, see below
     "config":  {...},                                              # fourth argument of Plotly.newPlot and Plotly.react
     "words":   {"state": [..], "source": [..], "head": [..]},      # what the numbers in those node columns mean
     "moments": {kind: [name, help]},                               # what a round may be notable for
     "stops":   {kind: name},                                       # ways in which these traces' rounds stopped
     "lossless": null | {"identical": null | bool, "tie": bool, "text": str},  # the badge: every trace against
                  # traces[0], `tie` where rounding explains all that differs; null where they were not asked the same,
                  # so that their texts may differ (metrics.comparable)
     "traces": [
       {"method": str, "key": str, "title": str,                   # key: what the address calls it
        "header":  [[label, text]],                                 # target, device, sampling, settings, versions ...
        "stop":    "eos" | "length" | "context" | "stopped",
        "branch":  str,                                             # of a what-if, which side it is; "" of a race
        "cut":     bool,                                            # nodes are known that did not fit: `cut_figure`
        "pieces":  {id: text},                                      # raw: show it with textContent only
        "labels":  {id: text},                                      # white space as glyphs, short, escaped for plotly
        "tokens":  {"id": [..], "round": [..], "kind": [..], "at": [..]},
                     # the generated text, one entry a token. kind 0 = from prefill (round -1), 1 = drafted, 2 = bonus;
                     # at = seconds on this run's own clock, prefill included
        "rounds":  {"from": [..], "to": [..],                       # tokens[from:to] came out of the round
                    "accepted": [..], "nodes": [..], "at": [..],    # at = seconds when the round was done
                    "draft": [..], "verify": [..], "overhead": [..]},  # seconds
        "why":     [str],                                           # one sentence a round: why it ended there
        "moments": [[kind]],                                        # what each round is notable for
        "stops":   [kind],                                          # where each round stopped
        "nodes":   [{"id": [..], "parent": [..], "depth": [..], "state": [..], "q": [..], "p": [..], ...}],
                     # one table a round; index = node, 0 = root; ranks count from 1; null = does not apply
        "bonus":   [id],                                            # the bonus token of every round
        "fields":  [{"key", "label", "format", "help"}],            # the inspector's rows; a key is a column of nodes
                     # format: token rank share log exp number word
        "sampling": {"temperature", "top_p", "seed"}, "settings": {name: value},
        "metrics": [{"label", "text", "help"}],                     # of the run
        "headline": text,                                           # the run in one sentence
        "baseline": null | index,                                   # of the trace that its speed-up is over
        "figures": {"tree": RoundFigure, "routing": RoundFigure | null, "diversity": RoundFigure | null,
                    "timeline": Figure,                         # this trace alone
                    "below": [null | {"bars": {..}, "yaxis": {..}}],  # what traces[k] adds to it, below; null: itself
                    "run_routing": Figure | null, "run_diversity": Figure | null,
                    "acceptance": Figure, "stops": Figure | null, "classes": Figure | null,
                    "calibration": Figure | null}}]}

    Figure      = {"data": [..], "layout": {..}, "min_width": px,   # plotly, colours as roles; timelines fit any width
                   "told": text}                                   # what it shows, for who cannot see it, or none
    RoundFigure = {"template": Figure, "rounds": [Patch], "height": px, "min_width": px}
    Patch       = {"data": [{key: value}], "layout": {key: value}}  # dotted keys, one object a trace of the template

To draw: `figure = paint(fill(...), theme)`, then Plotly.react(div, figure.data, figure.layout, config).

* `fill` copies the template and sets every dotted key of the patch ("marker.size": [..]); then in every trace whose
  `customdata` is a list of node indices it replaces each index by the row {"node": index, "label": labels[id], column:
  value, ..} of the round's node table, nulls left out and numbers in columns of `words` replaced by their word. So a
  click finds `point.customdata.node` and hover templates name columns. The bonus is no node of the tree: its row is
  {"node": -1}.
* `paint` replaces every string value that starts with "@" by the theme's value of that name.
* Every layout has a constant `uirevision` and constant axis ranges, so that zoom survives a change of round.
* The timeline's x axis is the round from 0. A bar's `customdata` is its round, its trace's `meta` the index of its run.
* Below `min_width` the figure belongs in a box that scrolls sideways. A RoundFigure's height is one for the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from jakiro import metrics
from jakiro.analysis.diversity import RunDiversity, run_diversity
from jakiro.analysis.endings import MOMENTS, moments
from jakiro.analysis.stops import STOPS, stop
from jakiro.files import compact
from jakiro.graph import STATES
from jakiro.settings import written
from jakiro.trace import Trace, same_drafter, walk_positions
from jakiro.ui import summary
from jakiro.ui.figures.acceptance import acceptance_figure
from jakiro.ui.figures.calibration import calibration_figure
from jakiro.ui.figures.classes import classes_figure
from jakiro.ui.figures.digits import rounded_list
from jakiro.ui.figures.diversity import round_diversity_figure, run_diversity_figure
from jakiro.ui.figures.labels import escape, label, of_method
from jakiro.ui.figures.looks import lane_looks
from jakiro.ui.figures.routing import round_routing_figure, run_routing_figure
from jakiro.ui.figures.stops import stops_figure
from jakiro.ui.figures.theme import CONFIG, THEMES
from jakiro.ui.figures.timeline import below, timeline_figure
from jakiro.ui.figures.tree import tree_figure
from jakiro.ui.headline import headline
from jakiro.ui.inspector import fields, node_table
from jakiro.ui.why import whys

SCHEMA = "jakiro-replay/1"
FEW = 2  # settings that a lane's title can name
# What the numbers in a node table's columns of words mean.
WORDS = {
    "state": [*STATES],
    "source": ["expert 0 alone", "expert 1 alone", "both experts", "neither alone, only their mixture"],
    "head": ["ordinary", "contrastive"],
}


def payload(traces: Sequence[Trace], titles: Mapping[str, str] | None = None) -> str:
    """The traces prepared for the browser as JSON text. `titles` names methods (`titled`)."""
    traces = list(traces)
    names = titled(traces, titles or {})
    diversities = [run_diversity(trace) for trace in traces]
    bases = [metrics.baseline(trace, traces) for trace in traces]
    lanes = [
        {"key": key}
        | _facts(trace, name)
        | {"headline": headline(trace, name, None if base is None else traces[base]), "baseline": base}
        | {"figures": _figures(traces, index, names, diversities)}
        for index, (trace, name, key, base) in enumerate(zip(traces, names, keys(traces), bases, strict=True))
    ]
    found = {kind for lane in lanes for kind in lane["stops"]}
    data = {
        "schema": SCHEMA,
        "themes": THEMES,
        "config": CONFIG,
        "words": WORDS,
        "moments": MOMENTS,
        "stops": {kind: way.name for kind, way in STOPS.items() if kind in found},
        "lossless": summary.lossless(traces, names) if metrics.comparable(traces) else None,
        "traces": lanes,
    }
    return compact(data)


def _facts(trace: Trace, title: str) -> dict[str, Any]:
    ids = {trace.first, *trace.tokens, *(token for step in trace.steps for token in step.tree.tokens)}
    ids |= {int(token) for step in trace.steps for token in step.tree.columns.get("pick", []) if token is not None}
    pieces = {token: trace.piece(token) for token in sorted(ids)}
    return {
        "method": trace.method,
        "title": title,
        "header": summary.header(trace),
        "sampling": {"temperature": trace.temperature, "top_p": trace.top_p, "seed": trace.seed},
        "settings": trace.settings,
        "stop": trace.stop,
        "branch": trace.branch,
        "cut": any(len(step.tree.cut) for step in trace.steps),
        "pieces": pieces,
        "labels": {token: label(text) for token, text in pieces.items()},
        "tokens": _tokens(trace),
        "rounds": _rounds(trace),
        "why": whys(trace),
        "moments": [moments(trace, index) for index in range(len(trace.steps))],
        "stops": [stop(trace, index) for index in range(len(trace.steps))],
        "nodes": [node_table(step) for step in trace.steps],
        "bonus": [step.bonus for step in trace.steps],
        "fields": fields(trace),
        "metrics": summary.metric_rows(trace),
    }


def _tokens(trace: Trace) -> dict[str, list]:
    done = rounded_list(metrics.clock(trace), 6)
    rounds, kinds = [-1], [0]
    for index, step in enumerate(trace.steps):
        rounds += [index] * len(step.emitted)
        kinds += [1] * len(step.accepted) + [2]
    prefill = rounded_list([trace.prefill_s], 6)
    return {"id": trace.tokens, "round": rounds, "kind": kinds, "at": prefill + [done[index] for index in rounds[1:]]}


def _rounds(trace: Trace) -> dict[str, list]:
    places = list(walk_positions(trace))
    return {
        "from": [start for start, _ in places],
        "to": [start + len(step.emitted) for start, step in places],
        "accepted": [len(step.accepted) for step in trace.steps],
        "nodes": [len(step.tree) for step in trace.steps],
        "at": rounded_list(metrics.clock(trace), 6),
        "draft": rounded_list([step.draft_s for step in trace.steps], 7),
        "verify": rounded_list([step.verify_s for step in trace.steps], 7),
        "overhead": rounded_list([step.overhead_s for step in trace.steps], 7),
    }


def _figures(traces: list[Trace], index: int, names: list[str], found: list[RunDiversity | None]) -> dict[str, Any]:
    trace, safe = traces[index], [escape(name) for name in names]
    colors = [color for color, _ in lane_looks([one.method for one in traces])]
    runs = [(safe[k], colors[k], run) for k, run in enumerate(found) if run is not None]
    runs.sort(key=lambda one: one[-1] is not found[index])  # its own first
    return {
        "tree": tree_figure(trace),
        "routing": round_routing_figure(trace),
        "diversity": round_diversity_figure(trace),
        "timeline": timeline_figure(trace, index, safe[index]),
        "below": [None if k == index else below(trace, one, k, safe[k]) for k, one in enumerate(traces)],
        "run_routing": run_routing_figure(trace),
        "run_diversity": None if found[index] is None else run_diversity_figure(runs),
        "acceptance": acceptance_figure(trace),
        "stops": stops_figure(trace),
        "calibration": calibration_figure(trace),
        "classes": classes_figure(trace),
    }


def cut_figure(trace: Trace) -> str:
    """The trees with the nodes that the budget left out, a RoundFigure as JSON text; asked for when it is wanted."""
    return compact(tree_figure(trace, cut=True))


def keys(traces: Sequence[Trace]) -> list[str]:
    """What the page's address calls each lane: its method, and a number where that runs in several."""
    return _told_apart([trace.method for trace in traces], "{}-{}")


def titled(traces: Sequence[Trace], titles: Mapping[str, str]) -> list[str]:
    """What the page calls each lane: its method's title, whether it copies, too, its side of a what-if; where that is
    said twice the drafter, if it differs, and the settings that do, if they are few, or a number. A setting that was
    not there yet when one was recorded tells nothing."""
    sides = {"as it was": ", unchanged", "what if": ", what if"}  # the former decoded again, too: not what was recorded
    copies = [" + lookup" if one.settings.get("lookup") else "" for one in traces]
    names = [
        of_method(one.method, titles) + more + sides.get(one.branch, "")
        for one, more in zip(traces, copies, strict=True)
    ]
    found = []
    for name, trace in zip(names, traces, strict=True):
        alike = [other for other, called in zip(traces, names, strict=True) if called == name]
        same = [other.settings for other in alike]
        own = [key for key, value in trace.settings.items() if any(one.get(key, value) != value for one in same)]
        differs = [_said(key, [trace.settings, *same]) for key in own] if len(own) <= FEW else []
        if trace.drafter and not all(same_drafter(trace.drafter, one.drafter or trace.drafter) for one in alike):
            differs.insert(0, trace.drafter)
        found.append(f"{name} ({', '.join(differs)})" if differs else name)
    return _told_apart(found, "{} ({})")


def _said(key: str, settings: Sequence[Mapping[str, Any]]) -> str:
    """A setting's value in the first of several settings, with its name unless all have words for it."""
    values = [written(one.get(key)) for one in settings]
    worded = all(value.isalpha() for value in values) and not isinstance(settings[0][key], bool)
    return values[0] if worded else f"{key} {values[0]}"


def _told_apart(names: list[str], numbered: str) -> list[str]:
    """The names, numbered where one occurs again."""
    found: list[str] = []
    for name in names:
        others = (numbered.format(name, number) for number in count(2))
        free = (one for one in others if one not in {*found, *names})
        found.append(next(free) if name in found else name)
    return found
