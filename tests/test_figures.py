"""Figures as data: what is drawn for which node, in both themes, for every kind of trace, and nothing hostile in it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise

import plotly.graph_objects as go
import pytest
from drawn import fill, hung, paint, strings
from hand import FIRST, HAND, SECOND, THIRD, run
from synthetic import lookup_trace, text, tree_trace, vanilla_trace

from jakiro.analysis.diversity import run_diversity
from jakiro.analysis.routing import run_routing
from jakiro.analysis.tables import nodes_table
from jakiro.assets import ASSETS
from jakiro.methods import METHODS
from jakiro.trace import StepTrace
from jakiro.tree import DraftTree
from jakiro.ui.figures.acceptance import acceptance_figure
from jakiro.ui.figures.calibration import calibration_figure
from jakiro.ui.figures.diversity import round_diversity_figure, run_diversity_figure
from jakiro.ui.figures.labels import label, percent, quote, visible
from jakiro.ui.figures.layout import by_level, up_and_down
from jakiro.ui.figures.looks import AGAIN, LOOKS, OTHERS, lane_looks, looks
from jakiro.ui.figures.places import MARGIN, SPAN, STEP
from jakiro.ui.figures.routing import round_routing_figure, run_routing_figure
from jakiro.ui.figures.stops import stops_figure
from jakiro.ui.figures.theme import PHASES, SOURCES, THEMES
from jakiro.ui.figures.timeline import _bars, below, timeline_figure
from jakiro.ui.figures.tree import tree_figure
from jakiro.ui.inspector import fields, node_table

HOSTILE = ('<a href="javascript:alert(1)">x</a>', "@accepted", "$x^2$", "a\u202eb", "<b>", "&lt;", "\n", "%{x}")
TRACES = {
    "vanilla": vanilla_trace(text(5)),
    "prompt_lookup": lookup_trace(text(30)),
    "eagle2": tree_trace(4, experts=False),
    "jakiro": tree_trace(4),
    "hand": HAND,
}


def drawn(figure: dict, trace, index: int) -> dict:
    """The whole figure of one round."""
    labels = {token: label(piece) for token, piece in trace.pieces.items()}
    labels |= {token: f"id {token}" for step in trace.steps for token in step.tree.tokens if token not in labels}
    return fill(figure["template"], figure["rounds"][index], node_table(trace.steps[index]), labels)


def tree(trace, index: int = 0) -> dict:
    return drawn(tree_figure(trace), trace, index)


def figures(trace) -> list[dict]:
    """Every figure of a trace, those of rounds for the first and the last round."""
    rounds = [tree_figure(trace), round_routing_figure(trace), round_diversity_figure(trace)]
    last = len(trace.steps) - 1
    found = [drawn(figure, trace, index) for figure in rounds if figure for index in (0, last)]
    diversity = run_diversity(trace)
    whole = [
        run_routing_figure(trace),
        acceptance_figure(trace),
        calibration_figure(trace),
        diversity and run_diversity_figure([("a", "@jakiro", diversity)]),
    ]
    whole.append(hung(timeline_figure(trace, 0, "a"), below(trace, TRACES["eagle2"], 1, "b")))
    return found + [{"data": figure["data"], "layout": figure["layout"]} for figure in whole if figure]


def roles(value) -> list[str]:
    return [found for found in strings(value) if found.startswith("@")]


def markers(figure: dict, mode: str = "markers+text") -> dict:
    """Node index -> (x, y, size, symbol, colour, text) of what is drawn for it, without the accepted nodes' outline."""
    found = {}
    for trace in figure["data"]:
        if trace.get("mode") != mode or trace.get("hoverinfo") == "skip":
            continue
        marker = trace["marker"]
        for i, row in enumerate(trace["customdata"]):
            size = marker["size"][i] if isinstance(marker["size"], list) else marker["size"]
            found[row["node"]] = (
                trace["x"][i],
                trace["y"][i],
                size,
                marker["symbol"],
                marker["color"],
                trace["text"][i],
            )
    return found


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", TRACES)
def test_every_figure_is_one_that_plotly_accepts(name, theme):
    for figure in figures(TRACES[name]):
        painted = paint(figure, theme)
        go.Figure(painted)  # raises for an attribute or value that plotly does not know
        assert not roles(painted)
        json.dumps(painted, allow_nan=False)


def test_paint_differs_by_theme():
    assert paint({"color": "@surface"}, "light") != paint({"color": "@surface"}, "dark")
    with pytest.raises(KeyError):
        paint({"color": "@nobody"}, "light")


def test_shape_and_hue_say_who_proposes():
    nodes = markers(tree(HAND))
    looks = {node: nodes[node][3:5] for node in (1, 2, 3, 4)}  # sources 0, 1, 1, 2
    assert looks == {
        1: ("circle", "@expert0"),
        2: ("diamond", "@expert1"),
        3: ("diamond", "@expert1"),
        4: ("square", "@both"),
    }


def test_the_contrastive_level_has_a_shape_of_its_own_and_no_proposer():
    step = HAND.steps[0]
    source = [*step.tree.columns["source"][:3], None, None]
    trace = replace(
        HAND, steps=[replace(step, tree=replace(step.tree, columns=step.tree.columns | {"source": source}))]
    )
    figure = tree(trace)
    assert [markers(figure)[node][3:5] for node in (3, 4)] == [("triangle-down", "@mixture")] * 2
    entries = [one for one in figure["data"] if one.get("name") == "contrastive"]
    hover = next(one["hovertemplate"] for one in figure["data"] if one.get("legendgroup") == "contrastive"
                 and "hovertemplate" in one)  # fmt: skip
    assert len(entries) == 1 and "of the contrastive feature" in hover and "in the top-k of" not in hover


def test_a_trace_without_sources_has_one_neutral_shape_and_no_experts_in_its_legend():
    figure = tree(TRACES["eagle2"])
    drafted = {look[3:5] for node, look in markers(figure).items() if node > 0}
    assert drafted == {("circle", "@both")}
    assert not [trace for trace in figure["data"] if "expert" in trace.get("name", "")]


def test_area_is_the_draft_probability_and_edges_are_wider_for_likelier_nodes():
    nodes = markers(tree(HAND))  # q = 1/2, 1/4, 1/2, 1/4
    assert nodes[1][2] ** 2 == pytest.approx(2 * nodes[2][2] ** 2, rel=0.02)
    tokens = DraftTree([1, 2, 3], [-1, 0, 0], [0.0, -0.1, -4.0])
    unlikely = run(StepTrace(replace(tokens, parents=[-1, 0, 1], scores=[0.0, -0.1, -4.1]), [], 9, [0.0] * 3, 1, 1, 1))
    lines = [trace for trace in tree(unlikely)["data"] if trace["mode"] == "lines" and trace["x"] not in ([], [None])]
    assert (lines[0]["line"]["color"], lines[0]["line"]["width"]) == ("@edge", 0.8)


def test_the_accepted_path_is_thick_and_green_with_bold_percentages():
    figure = tree(HAND)
    green = next(
        trace for trace in figure["data"] if trace["mode"] == "lines" and trace["line"]["color"] == "@accepted"
    )
    assert green["line"]["width"] >= 4 and green["x"].count(None) == 1  # two edges, one gap
    outline = next(trace for trace in figure["data"] if trace.get("hoverinfo") == "skip" and trace.get("customdata"))
    assert [row["node"] for row in outline["customdata"]] == [1, 3]
    assert outline["text"] == ["<b>␣a 50%</b>", "<b>&lt;13&gt; 50%</b>"]
    assert outline["marker"]["symbol"] == ["circle", "diamond"]


def test_first_rejected_candidates_have_a_dashed_ring_and_no_other_node_has():
    def rings(trace, index):
        return [shape for shape in tree(trace, index)["layout"]["shapes"] if shape["type"] == "circle"]

    assert not rings(HAND, 0) and len(rings(HAND, 1)) == 2
    nodes = markers(tree(HAND, 1))
    assert {(ring["xanchor"], ring["yanchor"]) for ring in rings(HAND, 1)} == {nodes[1][:2], nodes[2][:2]}
    assert all(ring["line"]["dash"] != "solid" and ring["x1"] > nodes[1][2] / 2 for ring in rings(HAND, 1))


def test_the_rest_is_faded_and_the_bonus_is_a_star_that_is_no_node():
    figure = tree(HAND)
    opacity = {}
    for trace in figure["data"]:
        if isinstance(trace.get("marker", {}).get("opacity"), list):
            opacity |= dict(zip([row["node"] for row in trace["customdata"]], trace["marker"]["opacity"], strict=True))
    assert opacity[1] == opacity[3] == 1 and opacity[2] < 1 and opacity[4] < 1
    star = markers(figure)[-1]
    assert star[0] == 3 * STEP and star[3] == "star" and star[5] == "<b>&lt;15&gt;</b>"


def test_the_contrastive_level_is_shaded_and_captioned():
    shades = [shape for shape in tree(HAND)["layout"]["shapes"] if shape["type"] == "rect"]
    assert len(shades) == 1 and shades[0]["label"]["text"] == "contrastive level"
    assert shades[0]["x0"] < 2 * STEP < shades[0]["x1"] and shades[0]["x0"] > STEP


def test_a_click_finds_the_node_and_a_hover_its_columns():
    row = next(row for trace in tree(HAND)["data"] for row in trace.get("customdata", []) if row["node"] == 4)
    assert (row["gate0"], row["source"], row["head"], row["state"]) == (
        0.1,
        "both experts",
        "contrastive",
        "passed over",
    )
    assert row["id"] == 14 and row["q"] == 0.25 and row["p"] == 0.5
    root = markers(tree(HAND))[0]
    assert root[0] == 0


def test_hover_asks_only_for_columns_that_the_trace_has():
    templates = " ".join(trace.get("hovertemplate", "") for trace in tree(TRACES["eagle2"])["data"])
    assert "draft rank" in templates and "gate0" not in templates and "expert" not in templates


def test_copies_among_drafts_have_a_look_and_hover_texts_of_their_own():
    chain = DraftTree([15, 16, 17], [-1, 0, 1], [0.0] * 3, {"copied_from": [None, 3, 4]})
    trace = run(FIRST, replace(SECOND, tree=chain), THIRD)
    drafts, copies = ({one[3:5] for node, one in markers(tree(trace, index)).items() if node > 0} for index in (0, 1))
    assert copies == {("cross", "@both")} and not drafts & copies
    data = tree_figure(trace)["template"]["data"]
    hover = {
        one["legendgroup"]: one["hovertemplate"] for one in data if "legendgroup" in one and "hovertemplate" in one
    }
    assert "copied from position" in hover["copied"] and "draft q" not in hover["copied"]
    assert "draft q" in hover["both"] and "copied" not in hover["both"] and "gate0" in hover["both"]
    assert "copied" in {one.get("name") for one in data}
    assert {"q", "score", "copied_from"} <= {field["key"] for field in fields(trace)}
    assert {*node_table(trace.steps[1])["q"]} == {None} and node_table(trace.steps[0])["q"][1] == pytest.approx(0.5)


def test_a_copy_has_no_probability_under_a_draft():
    trace = lookup_trace(list(range(30)))
    step = next(step for step in trace.steps if len(step.tree) > 1)
    assert {*node_table(step)["q"], *node_table(step)["score"]} == {None}
    assert not {"q", "score"} & {field["key"] for field in fields(trace)}
    assert nodes_table(trace)[["q", "score"]].isna().all(axis=None) and nodes_table(trace)["p"].notna().any()
    hovers = [one["hovertemplate"] for one in tree_figure(trace)["template"]["data"] if "hovertemplate" in one]
    assert any("target p" in hover for hover in hovers) and not any("draft q" in hover for hover in hovers)
    [one] = {one[3:5] for node, one in markers(tree(trace, trace.steps.index(step))).items() if node > 0}
    assert one == ("cross", "@both")
    drafted = nodes_table(HAND)
    assert drafted["q"].isna().tolist() == drafted["p"].isna().tolist() == (drafted["node"] == 0).tolist()
    assert drafted["q"][4] == pytest.approx(0.25)


def test_hover_gives_small_probabilities_their_digits():
    templates = " ".join(trace.get("hovertemplate", "") for trace in tree(HAND)["data"])
    assert "draft q %{customdata.q:.3~g} · target p %{customdata.p:.3~g}" in templates


@pytest.mark.parametrize(("levels", "ticks"), [(1, 1), (6, 6), (10, 10), (64, 9), (999, 9)])
def test_axes_of_levels_have_ten_ticks_at_most(levels, ticks):
    axis = by_level(levels)
    assert axis["range"] == [0.4, levels + 0.6] and levels // axis["dtick"] == ticks


@pytest.mark.parametrize(
    ("top", "low", "ticks"),
    [(1, 0, [0, 1]), (4, 2, [-2, -1, 0, 1, 2, 3, 4]), (4, 4, [-4, -2, 0, 2, 4]), (65, 4, [0, 16, 32, 48, 64])],
)
def test_ticks_up_and_down_are_few(top, low, ticks):
    assert up_and_down(top, low) == {"tickvals": ticks, "ticktext": [str(abs(tick)) for tick in ticks]}
    assert len(up_and_down(top, low, 4)["tickvals"]) <= 5


def wide_trace(children: int):
    tokens = list(range(1, children + 2))
    tree = DraftTree(tokens, [-1] + [0] * children, [0.0] + [-1.0 - 0.01 * i for i in range(children)])
    return run(StepTrace(tree, [], 399, [0.0] + [-3.0] * children, 1, 1, 1))


@pytest.mark.parametrize("children", [1, 12, 30, 59])
def test_labels_of_one_column_do_not_overlap(children):
    trace = wide_trace(children)
    figure = tree_figure(trace)
    patch = figure["rounds"][0]
    pixels = (figure["height"] - MARGIN["t"] - MARGIN["b"]) / (1.07 * SPAN)
    labelled = [change for change in patch["data"] if len(change.get("customdata", [])) > 1]
    for change in labelled:
        rows = sorted(change["y"])
        assert min(b - a for a, b in pairwise(rows)) * pixels >= change["textfont.size"]
    assert figure["height"] <= 760 and all(0 <= y <= SPAN for change in labelled for y in change["y"])


def test_small_trees_fill_the_figure_and_have_longer_labels():
    small, large = (tree_figure(wide_trace(children)) for children in (3, 20))
    rows = small["rounds"][0]["data"]
    pitch = min(b - a for change in rows if len(change.get("customdata", [])) > 1 for a, b in pairwise(change["y"]))
    assert pitch >= SPAN / 7 - 1
    assert small["height"] < large["height"]
    long = replace(wide_trace(3), pieces=dict.fromkeys(range(400), "abcdefghijklmnopqrst"))
    texts = [text for change in tree_figure(long)["rounds"][0]["data"] for text in change.get("text", []) if text]
    assert any("abcdefghijklmn…" in text for text in texts) and any("abcdefghijkl…" in text for text in texts)


@pytest.mark.parametrize("theme", THEMES)
def test_phases_can_be_told_apart_and_what_is_written_on_them_can_be_read(theme):
    colors = THEMES[theme]
    drawn = {phase: colors[role[1:]] for phase, (role, _) in PHASES.items()}
    assert contrast(drawn["draft"], drawn["verify"]) >= 3
    for phase, (_, written) in PHASES.items():
        assert contrast(drawn[phase], colors[written[1:]]) >= 4.5
    lanes = {colors[name] for name in ("accepted", "other", "expert0", "expert1")}
    assert not lanes & set(drawn.values())


def test_zoom_is_kept_because_no_round_touches_the_axes():
    for figure in (tree_figure(TRACES["jakiro"]), round_diversity_figure(TRACES["jakiro"])):
        assert figure["template"]["layout"]["uirevision"] == "run"
        for patch in figure["rounds"]:
            assert not [key for key in patch["layout"] if "range" in key or key == "uirevision"]
            assert len(patch["data"]) == len(figure["template"]["data"])


@pytest.mark.parametrize("piece", HOSTILE)
def test_token_text_is_never_markup(piece):
    assert not {"<", ">", "$", "\n", "\u202e"} & set(label(piece, 99))
    assert not label(piece).startswith("@")
    hostile, harmless = (figures(replace(HAND, pieces=dict.fromkeys(range(30), text))) for text in (piece, "x"))
    assert roles(hostile) == roles(harmless)
    for figure in hostile:
        for found in strings(figure):
            plain = found
            for tag in ("<b>", "</b>", "<br>", "<extra></extra>"):
                plain = plain.replace(tag, "")
            assert "<" not in plain


def test_a_small_share_is_not_shown_as_none():
    assert [percent(share) for share in (1, 0.006, 0.005, 1e-9)] == ["100%", "1%", "&lt;1%", "&lt;1%"]


def test_white_space_is_visible_and_long_text_is_cut():
    assert visible(" a\n\t") == "␣a⏎⇥" and visible("") == "∅" and visible("\x07") == "·7"
    assert label("abcdefghijklmnop", 6) == "abcde…" and label("<<<<<<<<", 3) == "&lt;&lt;…"
    assert quote(" x") == "“␣x”"


def test_a_mark_that_has_nothing_to_be_put_on_is_named():
    assert visible("\ufe0f") == "·FE0F" and visible("\u0301a") == "·301a" and visible("e\u0301") == "e\u0301"


def test_the_other_methods_bars_hang_under_the_same_text():
    """Rounds above hold tokens 1-3, 4 and 5. The run below has one a round: its first three share the first column."""
    other = below(HAND, vanilla_trace(HAND.tokens), 1, "b")["bars"]
    assert other["x"] == pytest.approx([-1 / 3, 0, 1 / 3, 1, 2], abs=1e-3) and other["y"] == [-1] * 5
    assert other["width"][0] == pytest.approx(other["width"][4] / 3, rel=1e-3) and other["customdata"] == [
        0,
        1,
        2,
        3,
        4,
    ]
    mine = timeline_figure(HAND, 0, "a")["data"][0]
    assert mine["x"] == [0, 1, 2] and mine["y"] == [3, 1, 1] and mine["meta"] == 0


def test_a_what_if_hangs_behind_what_it_was_given():
    """The last test's run below, but for its first token, which was forced."""
    was, tokens = replace(HAND, branch="as it was"), HAND.tokens
    would = replace(vanilla_trace(tokens[1:]), branch="what if", prompt=[*HAND.prompt, tokens[0]])
    other = below(was, would, 1, "b")["bars"]
    assert other["x"] == pytest.approx([0, 1 / 3, 1, 2], abs=1e-3) and other["name"] == "b, over the same text"


def test_the_run_below_is_not_said_to_have_the_same_text_where_it_has_another():
    """As after a What if with another seed, in half precision, and of runs from several files."""
    tokens = HAND.tokens
    texts = ([1], tokens), ([1], tokens[:3]), ([1], [*tokens[:4], 99]), ([2], tokens)
    others = [replace(vanilla_trace(text), prompt=prompt) for prompt, text in texts]
    names = [below(HAND, one, 1, "b")["bars"]["name"] for one in others]
    assert names == ["b, over the same text"] * 2 + ["b, over another text"] * 2


def test_the_time_strip_stacks_the_phases_and_the_router_strip_the_gates():
    data = timeline_figure(HAND, 0, "a")["data"]
    heights = {trace["name"]: trace["y"] for trace in data}
    assert heights["draft"] == [1000, 1000, 0] and heights["verify"] == [2000, 2000, 2500]
    assert heights["expert 0"] == [0.75, None, None] and heights["expert 1"] == [0.25, None, None]


def spending(seconds):
    return run(replace(FIRST, draft_s=0.0, verify_s=seconds, overhead_s=0.0))


@pytest.mark.parametrize(("seconds", "tick"), [(0.0378, 30), (0.00099, 0.9), (1.99, 1000), (0.0, 0)])
def test_the_time_strip_has_a_tick_above_zero(seconds, tick):
    axis = timeline_figure(spending(seconds), 0, "a")["layout"]["yaxis2"]
    assert axis["tickvals"] == [0, tick]


@pytest.mark.parametrize(("seconds", "said"), [(0.0, 1), (0.5, 0)])
def test_a_run_without_times_says_so_where_they_would_be(seconds, said):
    for figure in (timeline_figure(spending(seconds), 0, "a"), acceptance_figure(spending(seconds))):
        assert [one["text"] for one in figure["layout"]["annotations"]].count("no times recorded") == said


def test_routing_of_a_round_marks_the_walk_and_orders_by_depth():
    figure = drawn(round_routing_figure(HAND), HAND, 0)
    expert0, expert1, walked = figure["data"]
    assert expert0["y"] == [0.75, 0.1] and expert1["y"] == [0.25, 0.9] and walked["x"] == [0, 1]
    assert [row["node"] for row in expert0["customdata"]] == [0, 1]


def test_a_round_without_a_draft_says_so_where_its_bars_would_be():
    for figure, told in (
        (round_diversity_figure, "nothing was drafted in this round"),
        (round_routing_figure, "no router ran in this round"),
    ):
        captions = [one["text"] for one in drawn(figure(HAND), HAND, 2)["layout"]["annotations"]]
        assert captions[0] == told
        assert told not in str(drawn(figure(HAND), HAND, 0)["layout"]["annotations"])


def test_no_round_is_between_two():
    """Axes of rounds and tokens of the shortest runs have ticks at whole numbers alone."""
    for rounds, step in ((1, 1), (2, 1), (12, None)):
        run = tree_trace(rounds, nodes=8)
        accepted, routed = acceptance_figure(run)["layout"], run_routing_figure(run)["layout"]
        axes = [accepted["yaxis"], routed["xaxis"], routed["xaxis3"], stops_figure(run)["layout"]["xaxis"]]
        assert [one.get("dtick") for one in axes[1:3]] == [step, step]
        assert all(one.get("dtick") == 1 and one["tick0"] == 0 for one in axes) or rounds == 12


def test_the_map_of_the_router_has_a_cell_for_each_round_and_depth():
    trace = TRACES["jakiro"]
    cells, run = run_routing_figure(trace)["data"][0], run_routing(trace)
    assert cells["x"] == list(range(1, len(trace.steps) + 1)) and cells["y"] == list(run.by_depth)
    for depth, row in zip(cells["y"], cells["z"], strict=True):
        weights = [found[depth][0] if depth in found else None for found in run.by_round]
        assert row == [None if one is None else pytest.approx(one, abs=5e-4) for one in weights]
        assert len(set(row)) > 1, "rounds differ"
    assert (cells["zmin"], cells["zmax"]) == (0, 1) and dict(cells["colorscale"]) == {
        0: "@expert1",
        0.5: "@grid",
        1: "@expert0",
    }
    assert cells["xgap"] == 1
    assert run_routing_figure(tree_trace(121, nodes=4))["data"][0]["xgap"] == 0, "nothing would be left of the cells"


def test_a_value_without_neighbours_is_seen():
    """A line of one point is nothing: tau of a single round, the router's entropy between rounds that copied."""
    tau, usual = (
        next(one for one in acceptance_figure(run)["data"] if one["name"] == "tau so far")
        for run in (tree_trace(1), TRACES["jakiro"])
    )
    assert tau["mode"] == "lines+markers" and min(tau["marker"]["size"]) > 0 and usual["mode"] == "lines"
    copied = StepTrace(DraftTree([1], [-1], [0.0], {}), [], 1, [0.0], 0, 1, 0)
    steps = [step for own in TRACES["jakiro"].steps[:2] for step in (own, copied)]
    mixed = replace(TRACES["jakiro"], steps=[*steps, *TRACES["jakiro"].steps[2:]])
    [entropy] = [one for one in run_routing_figure(mixed)["data"] if one.get("name") == "entropy"]
    assert [size > 0 for size in entropy["marker"]["size"]] == [True, False, True, False, False, False]


def test_a_calibrated_draft_is_on_the_dotted_line():
    figure = calibration_figure(HAND)
    [bars, counts], [line] = figure["data"], figure["layout"]["shapes"]
    assert dict(zip(bars["x"], bars["y"], strict=True)) == {0.25: 0, 0.55: 0.6667}
    assert counts["text"] == ["n=3", "n=3"] and counts["x"] == bars["x"] and min(counts["y"]) > 1
    assert (line["x0"], line["y0"], line["x1"], line["y1"]) == (0, 0, 1, 1)
    assert "distance 0.21" in figure["layout"]["annotations"][0]["text"]
    assert calibration_figure(TRACES["prompt_lookup"]) is None


def test_weights_by_depth_end_with_the_last_level_that_a_router_weighs():
    figure = run_routing_figure(TRACES["jakiro"])
    depths = next(one["x"] for one in figure["data"] if one.get("xaxis") == "x2")
    assert figure["layout"]["xaxis2"]["range"] == [0.4, max(depths) + 0.6]


def test_views_without_their_columns_are_absent():
    for name in ("vanilla", "prompt_lookup", "eagle2"):
        assert round_routing_figure(TRACES[name]) is None and run_routing_figure(TRACES[name]) is None
    assert round_diversity_figure(TRACES["vanilla"]) is None and run_diversity(TRACES["vanilla"]) is None
    assert len(round_diversity_figure(TRACES["eagle2"])["template"]["data"]) == 1
    assert len(round_diversity_figure(TRACES["jakiro"])["template"]["data"]) == 3


def test_the_divergence_of_more_than_two_experts_is_inside_the_axes():
    """It goes up to log N."""
    found = {}
    for factor in (1, 3):
        steps = [replace(step, tree=replace(step.tree, columns=step.tree.columns | {
            "js": [None if value is None else factor * value for value in step.tree.columns["js"]]}))
            for step in TRACES["jakiro"].steps]  # fmt: skip
        trace = replace(TRACES["jakiro"], steps=steps)
        layouts = (
            round_diversity_figure(trace)["template"]["layout"],
            run_diversity_figure([("a", "@jakiro", run_diversity(trace))])["layout"],
        )
        found[factor] = [one["yaxis3"]["range"] for one in layouts]
        most = [max(value for step in steps for value in step.tree.columns["js"] if value is not None)]
        most.append(max(run_diversity(trace).js.values()) / math.log(2))
        assert all(top < high for top, (_, high) in zip(most, found[factor], strict=True))
    assert found[1] == [[-0.02, 0.73], [-0.03, 1.06]] and found[3][0][1] > 1


def test_coverage_in_the_round_view_is_the_metrics():
    figure = drawn(round_diversity_figure(HAND), HAND, 0)
    assert figure["data"][0]["y"] == [0.75, 0.5]


def test_other_runs_stand_beside_this_one():
    runs = [("a", "@jakiro", run_diversity(TRACES["jakiro"])), ("b", "@eagle2", run_diversity(TRACES["eagle2"]))]
    curves = [
        trace for trace in run_diversity_figure(runs)["data"] if trace["name"] in "ab" and trace["type"] == "scatter"
    ]
    assert len({trace["line"]["dash"] for trace in curves}) == 2  # told apart without colour


def test_names_below_bars_take_lines_instead_of_the_caption_below():
    named = ["Jakiro", "Prompt lookup", "Token recycling", "EAGLE-2 (top_k 13, total_tokens 30)"]
    runs = [(name, "@jakiro", run_diversity(TRACES["jakiro"])) for name in named]
    below = run_diversity_figure(runs)["layout"]["xaxis2"]
    assert below["tickvals"] == named and below["tickangle"] == 0
    assert below["ticktext"][:3] == ["Jakiro", "Prompt lookup", "Token<br>recycling"]
    assert below["ticktext"][3] == "EAGLE-2<br>(top_k 13, …"


@pytest.mark.parametrize(("count", "said"), [(0, "0 rounds"), (1, "1 round"), (2, "2 rounds")])
def test_one_rescued_round_is_one(count, said):
    found = replace(run_diversity(TRACES["jakiro"]), rescued_rounds=count)
    notes = [note["text"] for note in run_diversity_figure([("a", "@jakiro", found)])["layout"]["annotations"]]
    assert notes[-1].endswith(f"<br>{said} rescued by one expert")


def test_lanes_of_one_method_look_different_and_no_method_looks_like_an_expert():
    found = lane_looks(["jakiro", "eagle2", "jakiro", "jakiro", "mine"])
    others = lane_looks([f"mine {index}" for index in range(12)])
    assert len(set(others)) == 12, "two strangers beside each other differ in hue and shape:"
    assert all(one[0] != other[0] and one[1] != other[1] for one, other in pairwise(others))
    peers = ["hf-dynamic", "hf-static", "hf-prompt-lookup", "hf-assisted"]
    for ours in (["prompt_lookup"], ["draft_model"], ["prompt_lookup", "draft_model"]):
        known = looks([*ours, *peers])
        strangers = [known[name] for name in peers]
        assert not {color for color, _ in strangers} & {LOOKS[name][0] for name in ours}
        assert all(one[0] != other[0] and one[1] != other[1] for one, other in pairwise(strangers))
    named = looks(["Jakiro", "Jakiro, 60 nodes", "EAGLE-2"]).values()
    assert [color for color, _ in named] == ["@jakiro", "@jakiro", "@eagle2"] and len({*named}) == 3
    sizes = [f"jakiro, {nodes} nodes" for nodes in range(5)]
    many = looks(["a stranger", *sizes, "jakiro", *(f"Jakiro, {one}" for one in "ab")])
    assert len(set(many.values())) == 9 and many["jakiro"] == LOOKS["jakiro"], "as many variants as a benchmark had"
    assert [*many][:2] == ["a stranger", sizes[0]]
    heads = lane_looks(["eagle2", "eagle2-mine", "eagle2-theirs", "jakiro"])
    assert len({color for color, _ in heads}) == 4 and heads[0] == LOOKS["eagle2"]
    for lanes in (["vanilla", "eagle2", "jakiro"] * 2, ["vanilla", "prompt_lookup", *["jakiro", "eagle2"] * 3]):
        assert [len(set(parts)) for parts in zip(*lane_looks(lanes), strict=True)] == [len(lanes)] * 2, lanes
    assert len(set(found)) == 5 and found[0] == lane_looks(["vanilla", "jakiro"])[1]
    experts = {f"@{role}" for role, _, _ in SOURCES.values()} | {symbol for _, symbol, _ in SOURCES.values()}
    assert not experts & {part for look in (*others, *lane_looks([*METHODS])) for part in look}


def test_a_stopped_walk_is_drawn_with_its_candidates():
    assert set(markers(tree(run(FIRST, SECOND), 1))) == {-1, 0, 1, 2}  # though it lacks the column of the first round


@pytest.mark.parametrize("theme", THEMES)
def test_colours_stand_out_from_the_card(theme):
    """WCAG 2.1: 4.5 to 1 for text (1.4.3), 3 to 1 for what a figure is read by (1.4.11)."""
    palette = THEMES[theme]
    for role in ("text", "muted", "faded", "rejected", "accepted", "bonus"):
        assert contrast(palette[role], palette["surface"]) >= 4.5, role
    for role in ("expert0", "expert1", "both", "mixture", "edge", "other", "lookup", "eagle2", "eagle3", "jakiro"):
        assert contrast(palette[role], palette["surface"]) >= 3, role
    assert contrast(palette["quiet"], palette["surface"]) >= 1.6


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(color):
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_methods_are_sketched_with_their_own_shapes():
    """The canvas that stands for plotly's picture knows every shape of a lane that drafts."""
    known = (ASSETS / "viewer" / "sketch.js").read_text(encoding="utf-8")
    shapes = {shape for _, shape in (*LOOKS.values(), *AGAIN, *OTHERS)} - {LOOKS["vanilla"][1]}
    assert [shape for shape in shapes if not re.search(rf"[ {{]'?{shape}'?: \[", known)] == []


def test_the_bars_of_a_long_run_stand_apart():
    bars = _bars([(12000.5 + index, 1.0) for index in range(3)], 0, [1, 1, 1], "@accepted")
    assert bars["x"] == [12000.5, 12001.5, 12002.5]
