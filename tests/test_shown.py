"""What is said of a run, number by number: on runs in which no two of them are alike."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hand import FIRST, HALF, HAND, QUARTER, SECOND, THIRD, run
from synthetic import vanilla_trace

from jakiro import metrics
from jakiro.analysis.classes import by_class
from jakiro.analysis.diversity import run_diversity
from jakiro.analysis.endings import moments
from jakiro.analysis.pairs import Pair, telling
from jakiro.analysis.routing import run_routing
from jakiro.analysis.stops import stops
from jakiro.graph import CUT, round_graph
from jakiro.hashing import gumbel_of
from jakiro.trace import StepTrace
from jakiro.tree import CutNodes, DraftTree
from jakiro.ui.figures.acceptance import acceptance_figure
from jakiro.ui.figures.diversity import round_diversity_figure, run_diversity_figure
from jakiro.ui.figures.overlay import overlay
from jakiro.ui.figures.reach import reach_figure
from jakiro.ui.figures.routing import round_routing_figure, run_routing_figure
from jakiro.ui.figures.theme import THEMES
from jakiro.ui.figures.timeline import timeline_figure
from jakiro.ui.figures.tree import tree_figure
from jakiro.ui.figures.tuning import tuning_figure
from jakiro.ui.replay import WORDS, payload
from jakiro.ui.summary import lossless, metric_rows
from jakiro.ui.why import whys


def rows(trace):
    return {row["label"]: row["text"] for row in metric_rows(trace)}


def with_columns(step, **columns):
    return replace(step, tree=replace(step.tree, columns=step.tree.columns | columns))


def test_the_rows_of_a_run():
    assert rows(HAND)["acceptance rate"] == "33.3%" and rows(HAND)["router's favourite"] == "expert 0 at 100%"
    assert rows(run(with_columns(FIRST, source=[None, 2, 0, 1, 3])))["rescues"] == "1 token in 1 round"


def test_the_badge_counts_runs_and_not_partings():
    ends = [vanilla_trace(tokens, "eos") for tokens in ([1, 2, 3], [1, 2, 3], [1, 2, 3, 4])]
    assert "as far as" not in lossless(ends, "ABC")["text"]
    others = [run(FIRST, replace(SECOND, accepted=[node], bonus=7), THIRD) for node in (1, 2)]
    assert "1/3 outputs identical" in lossless([HAND, *others], "ABC")["text"]


def test_a_run_that_parts_beyond_the_end_of_the_first_is_named_whatever_the_longest_does():
    text = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]
    first, longest = vanilla_trace(text[:6], "stopped"), vanilla_trace([*text[:3], 99, *text[4:]], "stopped")
    third, fourth = vanilla_trace(text[:11], "stopped"), vanilla_trace([*text[:8], 98, *text[9:10]], "stopped")
    said = lossless([first, longest, third, fourth], "ABCD")["text"]
    assert "B parts from A at token 4" in said and "D parts from C at token 9" in said
    assert "2/4 outputs identical" in said


def test_a_tie_is_no_excuse_for_another_parting():
    near, far = (replace(SECOND, target_logprobs=[0.0, QUARTER, QUARTER - gap]) for gap in (1e-5, 1.0))
    base = run(FIRST, replace(near, accepted=[1], bonus=7), THIRD)
    tied = run(FIRST, replace(near, accepted=[2], bonus=7), THIRD)
    other = run(FIRST, replace(near, accepted=[], bonus=18), THIRD)
    assert lossless([base, tied], "AB")["tie"] and not lossless([base, tied, other], "ABC")["tie"]
    parted = run(FIRST, replace(far, accepted=[1], bonus=7), THIRD), run(FIRST, replace(far, accepted=[2], bonus=7))
    assert not lossless(parted, "AB")["tie"]


def test_a_margin_that_nobody_recorded_is_said_to_be_none():
    other = run(FIRST, replace(SECOND, bonus=40, tree=replace(SECOND.tree, columns={})), THIRD)
    said = lossless([replace(HAND, pieces={18: "a", 40: "b"}), replace(other, temperature=1.0, pieces={40: "c"})], "AB")
    assert "“c” against “a”, margin not recorded;" in said["text"]


def test_runs_part_at_their_last_token_too():
    assert metrics.divergence(HAND, replace(HAND, steps=[FIRST, SECOND, replace(THIRD, bonus=20)])).at == 5


def test_a_margin_is_of_what_the_target_samples_with():
    """Divided by the temperature, with the noise of both; a tie is as many nats of the logits at any temperature."""
    one, other = (run(FIRST, replace(SECOND, accepted=[node], bonus=7), THIRD) for node in (1, 2))
    place, noise = len(one.prompt) + 4, [gumbel_of(0, len(one.prompt) + 4, token) for token in (16, 17)]
    near = [0.0, QUARTER, QUARTER + 0.5 * (noise[0] - noise[1]) + 1.5e-4]
    assert place == 5
    hot = [
        replace(run(FIRST, replace(trace.steps[1], target_logprobs=near), THIRD), temperature=0.5)
        for trace in (one, other)
    ]
    found = metrics.divergence(*hot)
    assert found.at == 4 and found.margin == pytest.approx(-3e-4, abs=1e-9) and not found.tie
    closer = [replace(trace, steps=[FIRST, _nearer(trace.steps[1], 0.6e-4), THIRD]) for trace in hot]
    assert metrics.divergence(*closer).tie and metrics.divergence(*closer).margin == pytest.approx(-1.8e-4, abs=1e-9)


def _nearer(step, by):
    return replace(step, target_logprobs=[0.0, step.target_logprobs[1], step.target_logprobs[2] - by])


def test_a_tie_is_not_at_the_edge_of_top_p_as_well():
    half = [replace(trace, dtype="bfloat16", temperature=1.0, top_p=0.9) for trace in (HAND, HAND)]
    noise = [gumbel_of(0, len(HAND.prompt) + 4, token) for token in (16, 17)]
    for gap, tie in ((0.0, True), (5.0, False)):
        logprobs = [0.0, -3.0, -3.0 + noise[0] - noise[1] + gap]
        steps = [replace(SECOND, accepted=[node], bonus=7, target_logprobs=logprobs) for node in (1, 2)]
        found = metrics.divergence(
            *(replace(trace, steps=[FIRST, step]) for trace, step in zip(half, steps, strict=True))
        )
        assert (found.tie, found.edge) == (tie, not tie)


def test_the_first_token_is_before_the_second():
    trace = replace(HAND, pieces={10: " go", 11: "ing"})
    assert {count.name: count.tokens for count in by_class(trace)}["continuation"] == 1


def test_moments_are_of_what_was_drafted():
    assert moments(run(THIRD, THIRD), 0) == []
    sure = replace(SECOND, tree=replace(SECOND.tree, scores=[0.0, math.log(0.6), QUARTER]))
    told = with_columns(sure, pick_logprob=[QUARTER, 0.0, 0.0])  # the target likes its own choice no better
    assert moments(run(sure, THIRD), 0) == ["surprise"] == moments(run(told, THIRD), 0)
    assert moments(replace(run(told, THIRD), temperature=1.0), 0) == []
    noisy = replace(run(sure, THIRD), settings={"coupled": True})
    assert moments(noisy, 0) == ["surprise"] and moments(replace(noisy, temperature=1.0), 0) == []


def test_two_experts_that_both_had_it_are_none_alone():
    step = with_columns(SECOND, pick_rank=[5] * 3, pick_expert0_rank=[1] * 3, pick_expert1_rank=[2] * 3)
    [found, _] = stops(replace(run(step, THIRD), settings={"top_k": 4}))
    assert found.alone == 0


def test_the_clock_stands_still_while_programs_are_recorded():
    assert metrics.clock(run(replace(FIRST, recording_s=9.0))) == [7.5]


def test_a_choice_elsewhere_in_the_tree_is_no_step():
    stopped = run_routing(run(replace(FIRST, accepted=[], bonus=13)))  # below the node, not below the root
    assert {round(middle, 1): rate for middle, rate, count in stopped.acceptance if count} == {0.7: 0.0}


def test_pairs_tell_by_how_much_not_by_which():
    small, large = (
        replace(SECOND, target_logprobs=[logprob - by for logprob in SECOND.target_logprobs]) for by in (0.1, 2.0)
    )
    assert telling([Pair((SECOND, small)), Pair((large, SECOND))]) == [1, 0]


def test_a_cut_node_has_its_own_probability():
    cut = replace(FIRST, tree=replace(FIRST.tree, cut=CutNodes([9], [1], [HALF + QUARTER])))
    graph = round_graph(run(cut), 0, cut=True)
    assert [facts["q"] for _, facts in graph.nodes(data=True) if facts["state"] == CUT] == [pytest.approx(0.25)]


def test_why_names_the_right_probabilities_and_experts():
    def said(columns, **more):
        tree = DraftTree([1, 2, 3], [-1, 0, 0], [0.0, HALF, HALF], columns)
        step = StepTrace(tree, [], 9, [0.0, HALF, QUARTER], 0, 1, 0)
        return whys(replace(run(step), stop="stopped", **more))[0]

    assert "“<2>” (p 0.50) or “<3>” (p 0.25)" in said({"copied_from": [None, 4, 5]})
    columns = {"pick_rank": [9] * 3, "pick_expert0_rank": [1] * 3, "pick_expert1_rank": [4] * 3}
    told = said(columns | {"pick_logprob": [math.log(0.0347)] * 3}, settings={"top_k": 8})
    assert "alone, expert 0 had it 2nd and expert 1 5th" in told and "preferred “<2>”" in told and "(p 0.035)" in told


def test_what_the_browser_gets_of_a_node():
    columns = {"rank": [None, 0, 1, 0, 1], "pick_logprob": [-1.234567] * 5}
    found = json.loads(payload([run(with_columns(FIRST, **columns)), vanilla_trace([10, 11])]))["traces"][0]
    nodes = found["nodes"][0]
    assert nodes["rank"] == [None, 1, 2, 1, 2] and nodes["pick_logprob"][0] == -1.234567 and nodes["p"][0] is None
    labels = {field["key"]: (field["label"], field["format"]) for field in found["fields"]}
    assert labels["pick_logprob"][1] == "exp" and found["rounds"]["nodes"] == [5]
    assert WORDS["source"][:2] == ["expert 0 alone", "expert 1 alone"]
    own, other = found["figures"]["below"]
    assert own is None and other["bars"]["meta"] == 1


def test_the_figure_of_acceptance():
    data = {trace["name"]: trace for trace in acceptance_figure(HAND)["data"]}
    assert data["of those that got there"]["y"] == [pytest.approx(1 / 3, abs=1e-4), 1]
    assert data["of those with candidates there"]["y"] == [0.5, 1] and data["tau so far"]["x"] == [4, 5, 6]


def test_the_figures_of_routing():
    first, second, _ = round_routing_figure(HAND)["template"]["data"]
    assert "expert 0 weighs" in first["hovertemplate"] and "expert 1 weighs" in second["hovertemplate"]
    stopped = run(replace(FIRST, accepted=[], bonus=9))
    assert round_routing_figure(stopped)["rounds"][0]["data"][2]["x"] == [0]
    figure = run_routing_figure(HAND)
    assert "expert 0 leads at 100%" in figure["layout"]["annotations"][1]["text"]
    assert figure["data"][0]["x"] == [1, 2, 3] and figure["data"][0]["z"] == [[0.75, None, None]]


def test_the_figures_of_diversity():
    patch = round_diversity_figure(HAND)["rounds"][0]["data"]
    assert (patch[1]["y"], patch[2]["y"]) == ([0.5, 1], [0.2, 0])
    off = round_diversity_figure(run(replace(FIRST, accepted=[2], bonus=9)))["rounds"][0]["data"]
    assert off[1]["marker.color"] == ["@accepted", "@surface"]
    figure = run_diversity_figure([("a", "@jakiro", run_diversity(HAND))])
    data = {trace["name"]: trace for trace in figure["data"]}
    assert data["divergence"]["y"] == [pytest.approx(0.2 / math.log(2), abs=1e-3), 0]
    assert data["drafted"]["x"][:2] == ["● expert 0", "◆ expert 1"]
    assert data["drafted"]["marker"]["line"]["width"] and not data["accepted"]["marker"]["line"]["width"]


def test_trees_laid_over_one_another_keep_their_owners():
    tree = DraftTree([10, 11, 19], [-1, 0, 0], [0.0, QUARTER, HALF])
    smaller = replace(FIRST, tree=tree, accepted=[1], target_logprobs=[0.0, HALF, HALF], bonus=13)
    graph = overlay(HAND, smaller, FIRST)
    by = {facts["piece"]: facts for _, facts in graph.nodes(data=True)}
    assert by[" a"]["q"] == pytest.approx([0.25, 0.5])
    assert (by["<19>"]["owner"], by["<12>"]["owner"]) == ("first", "second") and graph.nodes["next"]["piece"] == "<15>"


def test_the_bars_of_two_drafts_count_tokens_from_one():
    bars = reach_figure([Pair((FIRST, SECOND))], ("a", "b"), (("@eagle2", "circle"), ("@jakiro", "square")))["data"]
    assert [bar["text"] for bar in bars] == [
        ["after token 1: 2 along the text"],
        ["after token 1: 0 along the text"],
    ]


def test_the_timeline_and_the_tree():
    bars = timeline_figure(HAND, 0, "a")["data"]
    assert bars[0]["text"][0].startswith("round 1: 2 accepted")
    assert [trace["name"] for trace in bars if trace.get("yaxis") == "y3"] == ["expert 0", "expert 1"]
    step = replace(FIRST, target_logprobs=[0.0, math.log(0.8), QUARTER, math.log(0.9), HALF])
    [path] = [trace for trace in tree_figure(run(step))["rounds"][0]["data"] if "marker.symbol" in trace]
    assert path["text"] == ["<b>␣a 80%</b>", "<b>&lt;13&gt; 90%</b>"]


def test_the_figure_of_tuning():
    best = {"top_k": 5, "depth": 3, "total_tokens": 10, "texts": 9, "tau": 2.5, "seconds": 0.01, "tokens_per_s": 250.0}
    slow = best | {"top_k": 2, "tokens_per_s": 200.0}
    report = {"verify": [[1, 0.004], [10, 0.006]], "points": [slow, best, slow], "chosen": best}
    cost, speed, _ = tuning_figure(report)["data"]
    assert cost["y"] == [1, 1.5] and speed["y"] == [250] and "in 10.0 ms: 250 tokens/s" in speed["text"][0]


@pytest.mark.parametrize("theme", THEMES)
def test_no_two_roles_of_a_tree_have_one_colour(theme):
    colors = [THEMES[theme][role] for role in ("expert0", "expert1", "both", "mixture", "accepted", "bonus", "lookup")]
    assert len({*colors}) == len(colors)
