"""The one-sentence why, for every way a round can end."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hand import run
from synthetic import lookup_trace, text, tree_trace, vanilla_trace

from jakiro.trace import StepTrace
from jakiro.tree import CutNodes, DraftTree
from jakiro.ui.why import ordinal, whys

PIECES = {1: " one", 2: " two", 3: "\n", 4: " four", 5: " five", 6: " six"}
SETTINGS = {"depth": 2, "top_k": 8, "total_tokens": 4}


def column(value, length=4):
    return [value] * length


def sentence(columns: dict, accepted=(1,), settings=SETTINGS, last=False, stop="length", bonus=6, cut=None) -> str:
    """1 -> {2 -> {3}, 4} with the walk stopping after `accepted`; node 1 is " two"."""
    tree = DraftTree([1, 2, 3, 4], [-1, 0, 1, 0], [0.0, -0.5, -1.0, -2.0], columns, cut or CutNodes())
    step = StepTrace(tree, list(accepted), bonus, [0.0, -0.1, math.log(0.25), -3.0], 0.1, 0.1, 0.1)
    after = [] if last else [StepTrace(DraftTree([bonus], [-1], [0.0]), [], 5, [0.0], 0.1, 0.1, 0.1)]
    return whys(replace(run(step, *after), pieces=PIECES, settings=settings, stop=stop))[0]


def test_not_among_the_top_k_gives_ranks_from_one_and_each_expert():
    columns = {"pick_rank": column(10), "pick_logprob": column(math.log(0.61)), "pick_draft_logprob": column(-7.0)}
    columns |= {"pick_expert0_rank": column(13), "pick_expert1_rank": column(2)}
    assert sentence(columns) == (
        "The target chose “␣six” (p 0.61), which was not proposed after “␣two”: ranked 11th by the draft with"
        " q 0.00091, top_k is 8; expert 1 alone had it 3rd, expert 0 14th; the draft preferred “⏎” (q 0.61, p 0.25)."
    )


def test_a_rank_at_the_edge_of_top_k_decides_between_cut_and_not_proposed():
    assert "was not proposed" in sentence({"pick_rank": column(8)})
    assert "but cut to the budget of 4 nodes" in sentence({"pick_rank": column(7)})
    assert "but cut to the budget" in sentence({"pick_rank": column(7)}, settings=SETTINGS | {"top_k": 8.0})
    assert "which is not in the tree after “␣two”: ranked 1st" in sentence({"pick_rank": column(0)}, settings={})


def test_what_a_head_cannot_draft_has_no_rank():
    columns = {"pick_rank": column(45_000), "pick_draft_logprob": column(-1e4)}
    assert sentence(columns) == (
        "The target chose “␣six”, which the draft's vocabulary lacks; the draft preferred “⏎” (q 0.61, p 0.25)."
    )
    unlikely = {**columns, "pick_draft_logprob": column(-1.5e4)}  # to a draft that shares noise of a low temperature
    assert "was not proposed after “␣two”: ranked 45001st by the draft with q 0.00" in sentence(unlikely)


def test_what_an_expert_proposed_and_the_blend_left_out_is_no_candidate():
    columns = {"pick_rank": column(9), "pick_expert0_rank": column(1), "pick_expert1_rank": column(39)}
    said = sentence(columns, settings=SETTINGS | {"candidates": "decoupled"})
    assert "which was not among the candidates after “␣two”: ranked 10th by the draft, top_k is 8" in said
    assert "expert 0 alone had it 2nd, expert 1 40th" in said


def test_cut_by_the_node_budget_compares_the_scores():
    columns = {"pick_rank": column(2), "pick_score": column(-4.25), "cutoff": column(-4.0)}
    assert sentence(columns) == (
        "The target chose “␣six”, which the draft proposed after “␣two” (ranked 3rd by the draft) but cut to the"
        " budget of 4 nodes: its path score −4.250 is not above −4.000, that of the last node kept."
    )
    alike = columns | {"pick_score": column(-0.0002), "cutoff": column(0.0)}
    assert ": its path score 0.000 is not above that of the last node kept." in sentence(alike)


def test_the_draft_stopped_at_its_depth():
    columns = {"pick_rank": [0, 0, None, None], "pick_logprob": column(math.log(0.5))}
    expected = "Both levels were accepted, and the target added “␣six” (p 0.50)."
    assert sentence(columns, accepted=(1, 2)) == expected


def test_a_draft_of_one_level_is_told_in_the_singular():
    told = sentence({"pick_rank": [0, None, None, None]}, settings={"depth": 1}, accepted=(3,))
    assert told == "The only level was accepted, and the target added “␣six”."


def test_the_draft_never_looked_past_a_node_outside_its_beam():
    told = sentence({"pick_rank": [0, 0, 0, None]}, accepted=(3,))
    reason = "it was not among the 8 best of its level"
    assert told == f"The draft stopped at “␣four”: {reason}, and the target chose “␣six”."


@pytest.mark.parametrize(("columns", "settings"), [({}, SETTINGS), ({"pick_rank": column(None)}, {"nodes": 4})])
def test_a_leaf_is_not_said_to_be_outside_a_beam_that_nobody_knows(columns, settings):
    told = sentence(columns, accepted=(3,), settings=settings)
    assert told == "The draft stopped at “␣four”: the tree has nothing after it, and the target chose “␣six”."


@pytest.mark.parametrize(
    ("settings", "budget"), [({}, "the node budget"), ({"total_tokens": 4}, "the budget of 4 nodes")]
)
def test_a_choice_among_the_cut_nodes_is_cut_whatever_else_is_known(settings, budget):
    """Another method need not tell ranks, nor call its sizes as ours are called."""
    cut = CutNodes([9, 6, 6], [1, 0, 1], [-4.0, -4.0, -5.0])
    told = sentence({}, settings=settings, cut=cut)
    assert told == f"The target chose “␣six”, which the draft proposed after “␣two” but cut to {budget}."
    elsewhere = sentence({}, settings=settings, cut=replace(cut, parents=[1, 0, 5]))
    assert "was not proposed after “␣two”" in elsewhere


@pytest.mark.parametrize(
    ("stop", "start"),
    [
        ("eos", "The text is finished: "),
        ("length", "The length cap is reached: "),
        ("context", "The target's context is"),
    ],
)
def test_the_end_of_the_text_comes_before_every_other_reason(stop, start):
    told = sentence({"pick_rank": column(20)}, last=True, stop=stop)
    assert told.startswith(start) and "“␣six”" in told and "proposed" not in told


def test_the_last_round_of_a_stopped_run_is_explained_like_any_other():
    assert sentence({"pick_rank": column(20)}, last=True, stop="stopped") == sentence({"pick_rank": column(20)})


def test_the_end_of_the_text_says_when_the_draft_held_it():
    assert sentence({}, last=True, stop="eos", bonus=3) == (
        "The text is finished: the target chose the end token “⏎”, which the draft had proposed too."
    )


def test_a_trace_without_ranks_still_says_what_was_preferred():
    assert sentence({}, settings={}) == (
        "The target chose “␣six”, which was not proposed after “␣two”; the draft preferred “⏎” (q 0.61, p 0.25)."
    )


def test_what_the_target_thought_is_left_out_where_it_is_not_known():
    tree = DraftTree([1, 2], [-1, 0], [0.0, -0.5])
    for columns, told in (({}, " (q 0.61)."), ({"copied_from": [None, 7]}, ", but the target chose “␣six”.")):
        step = StepTrace(replace(tree, columns=columns), [], 6, [0.0, None], 0.1, 0.1, 0.1)
        after = StepTrace(DraftTree([6], [-1], [0.0]), [], 5, [0.0], 0.1, 0.1, 0.1)
        said = whys(replace(run(step, after), pieces=PIECES, settings={}))[0]
        assert "“␣two”" + told in said and "p " not in told


def test_vanilla_drafts_nothing():
    assert whys(vanilla_trace(text(4)))[0].startswith("This method drafts nothing: the pass gave one token")


def test_an_empty_round_of_a_method_that_drafts():
    trace = replace(tree_trace(2), steps=[run().steps, vanilla_trace(text(4)).steps[0], *tree_trace(2).steps][1:])
    assert whys(trace)[0].startswith("Nothing was drafted in this round")
    assert whys(replace(vanilla_trace(text(4)), method="jakiro"))[0].startswith("Nothing was drafted in this run")
    assert whys(replace(trace, settings={"remembered": 8}))[0].startswith("What may follow the last token is not known")
    for settings in ({"remembered": 8, "total_tokens": 1}, {"top_k": 8, "total_tokens": 1}):  # the former's was known
        assert whys(replace(trace, settings=settings))[0].startswith("The budget of 1 node is the root's, so nothing")


def test_prompt_lookup_says_no_match_wrong_copy_and_copied_to_the_end():
    trace = lookup_trace(text(80))
    told = {}
    for index, step in enumerate(trace.steps[:-1]):
        wrong = len(step.tree) - 1 > len(step.accepted)
        told[(len(step.tree) > 1, wrong)] = whys(trace)[index]
    assert "nothing to copy" in told[False, False]
    assert told[True, True].startswith("The copy went on with “") and "but the target chose" in told[True, True]
    assert "copied tokens were accepted" in told[True, False]


def test_copies_beside_the_path_are_not_called_right():
    tree = DraftTree([1, 2, 3, 4], [-1, 0, 1, 0], [0.0] * 4, {"copied_from": [None, 0, 1, 5]})
    step = StepTrace(tree, [1, 2], 6, [0.0, -0.1, -0.1, -3.0], 0.1, 0.1, 0.1)
    trace = replace(run(step), pieces=PIECES, stop="stopped")
    assert whys(trace)[0] == "The draft stopped at “⏎”: the tree has nothing after it, and the target chose “␣six”."
    guess = DraftTree([1, 2], [-1, 0], [0.0] * 2, {"copied_from": [None, None]})  # which copies nothing
    accepted, wrong = (StepTrace(guess, path, 6, [0.0, -0.1], 0.1, 0.1, 0.1) for path in ([1], []))
    said = whys(replace(run(accepted, wrong), pieces=PIECES, stop="stopped"))
    assert said[0] == "The only drafted token was accepted, and the target added “␣six”."
    assert said[1].startswith("The draft went on with ")


@pytest.mark.parametrize("trace", [tree_trace(15), tree_trace(15, experts=False), lookup_trace(text(40))])
def test_every_round_has_one_sentence(trace):
    for index in range(len(trace.steps)):
        told = whys(trace)[index]
        assert told.endswith(".") and "None" not in told and "\n" not in told


@pytest.mark.parametrize(
    ("number", "words"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (22, "22nd"), (113, "113th")]
)
def test_ordinals(number, words):
    assert ordinal(number) == words
