"""What goes to the browser: recorded traces as one JSON text, from which every view is drawn without asking Python again.

    payload(traces, titles={}) -> str

    {"schema": "jakiro-replay/1",
     "themes":  {"light": {role: colour}, "dark": {role: colour}},      # figures name colours by role, see below
     "config":  {...},                                                  # third argument of Plotly.newPlot / react
     "words":   {"state": [...], "source": [...], "head": [...]},       # what the numbers in those node columns mean
     "lossless": {"identical": bool, "text": str,                       # the badge; every trace against traces[0]
                  "against_first": [null | {"at", "ours", "theirs", "margin", "text"}]},  # one a trace, null = same ids
     "traces": [
       {"method": str, "title": str,
        "header":  [[label, text], ...],                                # target, device, dtype, seed, recorded, settings ...
        "stop":    "eos" | "length" | "context",
        "pieces":  {id: text},                                          # raw: show it with textContent only
        "labels":  {id: text},                                          # glyphs for white space, short, escaped for plotly
        "tokens":  {"id": [..], "round": [..], "kind": [..], "at": [..]},
                                                                        # the generated text, one entry a token. round -1 and
                                                                        # kind 0 = from prefill; kind 1 = drafted, 2 = bonus;
                                                                        # at = seconds on this run's own clock, prefill included
        "rounds":  {"from": [..], "to": [..],                           # tokens[from:to] came out of the round
                    "accepted": [..], "nodes": [..], "at": [..],        # at = seconds when the round was done
                    "draft": [..], "verify": [..], "overhead": [..],    # seconds
                    "tau": [..]},                                       # mean tokens a pass up to and including the round
        "why":     [str],                                               # one sentence a round: why it ended there
        "nodes":   [{"id": [..], "parent": [..], "depth": [..], "state": [..], "q": [..], "p": [..], "score": [..], ...}],
                                                                        # one a round, columnar; index = node, 0 = root; ranks
                                                                        # count from 1; null = does not apply
        "bonus":   [id],                                                # the bonus token of every round
        "fields":  [{"key", "label", "format", "help"}],                # rows of the inspector, in order; a key is a column of
                                                                        # nodes. format: token id rank share log number word
        "metrics": [{"key", "label", "value", "text", "help"}],         # of the run
        "figures": {"tree":      RoundFigure,  "routing":     RoundFigure | null,
                    "diversity": RoundFigure | null,
                    "timeline":  [Figure],                              # [k]: this trace above, traces[k] below (k = own: alone)
                    "run_routing": Figure | null, "run_diversity": Figure, "acceptance": Figure}}]}

    Figure      = {"data": [...], "layout": {...}}                      # plotly, colours as roles
    RoundFigure = {"template": Figure, "rounds": [Patch], "height": px, "min_width": px}
    Patch       = {"data": [{key: value}, ...], "layout": {key: value}} # dotted keys, one object a trace of the template

To draw: figure = paint(fill(template, patch, nodes), themes[theme]) and Plotly.react(div, figure.data, figure.layout, config).

* `fill` copies the template and sets every dotted key of the patch ("marker.size": [...]); then in every trace whose
  `customdata` is a list of node indices it replaces each index i by the row {"node": i, "label": labels[id[i]], column:
  value[i], ...} of the round's node table, nulls left out. So a click or hover finds `point.customdata.node`, and hover
  templates name columns. The bonus star is not a node of the tree: its customdata row has node = -1.
* `paint` replaces every string that starts with "@" and is a value in data or layout by the theme's colour of that name.
* Every layout has a constant `uirevision` and constant axis ranges, so that zoom survives a change of round.
* A click in the timeline: `point.customdata` = round, `point.data.meta` = index of the trace.
* At less than `min_width` the figure belongs in a box that scrolls sideways; `height` is one for the whole run.
"""
