"""How rounds end and which are worth a look, on runs that can be read by eye."""

import math
from dataclasses import replace

import pytest
from hand import FIRST, HAND, SECOND, THIRD, run

from jakiro.analysis import endings
from jakiro.analysis.endings import MOMENTS, ending, moments
from jakiro.trace import StepTrace
from jakiro.tree import CutNodes, DraftTree

SURE, UNSURE = math.log(0.9), math.log(0.05)


def chain(*, pick_rank: int | None, logq: float = SURE) -> StepTrace:
    """A root with one candidate, which the target rejects."""
    tree = DraftTree([1, 2], [-1, 0], [0.0, logq], {"pick_rank": [pick_rank, None]})
    return StepTrace(tree, [], 3, [0.0, UNSURE], 0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("rank", "expected"), [(None, endings.WRONG), (1, endings.CUT), (2, endings.UNPROPOSED), (40, endings.UNPROPOSED)]
)
def test_a_rejected_draft_is_told_from_a_cut_one_by_the_rank_of_the_targets_choice(rank, expected):
    trace = replace(run(chain(pick_rank=rank), THIRD), settings={"top_k": 2})
    assert ending(trace, 0) == expected


def test_a_choice_among_the_cut_nodes_is_cut_where_no_rank_is_known():
    step = chain(pick_rank=None)
    for cut, expected in (
        (CutNodes([3], [0], [-9.0]), endings.CUT),
        (CutNodes([3], [1], [-9.0]), endings.WRONG),
        (CutNodes([4], [0], [-9.0]), endings.WRONG),
    ):
        assert ending(run(replace(step, tree=replace(step.tree, cut=cut)), THIRD), 0) == expected


def test_a_round_ends_where_the_draft_or_the_text_does():
    assert [ending(HAND, index) for index in range(3)] == [endings.DRAFT_END, endings.WRONG, endings.TEXT_END]
    assert ending(replace(HAND, stop="stopped"), 2) == endings.NOTHING_DRAFTED


def test_an_accepted_token_of_one_expert_is_a_rescue_and_a_whole_path_is_full():
    assert moments(run(FIRST, SECOND, THIRD), 0) == ["rescue", "full"]
    both = replace(FIRST, tree=replace(FIRST.tree, columns={"source": [None, 2, 0, 3, 0]}))
    assert moments(run(both, THIRD), 0) == ["full"]


def test_a_round_that_ended_the_text_is_not_full():
    assert "full" in moments(replace(HAND, steps=[FIRST], stop="stopped"), 0)
    assert "full" not in moments(replace(HAND, steps=[FIRST], stop="eos"), 0)


def test_full_is_measured_by_the_depth_that_was_asked_for():
    assert "full" not in moments(replace(run(FIRST, THIRD), settings={"depth": 3}), 0)
    assert "full" in moments(replace(run(FIRST, THIRD), settings={"depth": 2}), 0)


@pytest.mark.parametrize(("logq", "expected"), [(math.log(0.5), ["surprise"]), (math.log(0.49), [])])
def test_a_rejected_candidate_is_a_surprise_where_the_draft_was_sure_of_it(logq, expected):
    trace = replace(run(chain(pick_rank=7, logq=logq), THIRD), settings={"top_k": 2})
    assert moments(trace, 0) == expected


@pytest.mark.parametrize(
    ("heat", "chosen", "expected"),
    [(0.0, -4.0, ["surprise"]), (1.0, -2.9, ["surprise"]), (1.0, -4.0, []), (1.0, None, [])],  # p of the rejected: -3.0
)
def test_a_draw_against_the_targets_own_preference_is_no_surprise(heat, chosen, expected):
    step = chain(pick_rank=7)
    step.tree.columns["pick_logprob"] = [chosen, None]
    trace = replace(run(step, THIRD), settings={"top_k": 2}, temperature=heat)
    assert moments(trace, 0) == expected


def test_a_copy_that_is_rejected_is_no_surprise():
    """Its score of 0 is no probability: a copy is as sure as another."""
    copy = chain(pick_rank=7, logq=0.0)
    copy = replace(copy, tree=replace(copy.tree, columns={"copied_from": [None, 4]}))
    assert moments(run(copy, THIRD), 0) == []


def test_the_last_token_of_a_text_surprises_nobody():
    assert moments(run(chain(pick_rank=7)), 0) == []


def test_a_cut_choice_is_named_so():
    trace = replace(run(chain(pick_rank=0, logq=UNSURE), THIRD), settings={"top_k": 2})
    assert moments(trace, 0) == ["cut"]
    assert set(MOMENTS) == {"rescue", "surprise", "full", "cut"}
