"""Where rounds stopped, on rounds that can be read by eye."""

import math
from dataclasses import replace

import pytest
from hand import FIRST, HAND, SECOND, THIRD, run

from jakiro.__main__ import main
from jakiro.analysis import endings
from jakiro.analysis.stops import COPY, DRAWN, FAR, FULL, LACKED, LOW, NARROW, NEAR, SHORT, STOPS, Stopped, stop, stops
from jakiro.trace import save
from jakiro.tree import MAX_LEVELS, DraftTree
from jakiro.ui.figures.stops import stops_figure


def rejected(**columns):
    """A round whose only level is rejected; columns are those of its root."""
    tree = DraftTree([15, 16], [-1, 0], [0.0, -1.0], {name: [value, None] for name, value in columns.items()})
    return replace(SECOND, tree=tree, target_logprobs=[0.0, -1.0])


def asked(*steps, **settings):
    return replace(run(*steps, THIRD), settings=settings)


UNRANKED = replace(FIRST, tree=replace(FIRST.tree, columns={"pick_rank": [None] * 5}))


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (asked(FIRST, depth=2), FULL),
        (asked(UNRANKED, depth=3, top_k=4), NARROW),
        (asked(UNRANKED, depth=3, total_tokens=5, top_k=4), NARROW),
        (asked(UNRANKED, depth=3, total_tokens=5), endings.WRONG),  # every node is expanded: no top_k to enlarge
        (asked(UNRANKED, depth=3, total_tokens=6), SHORT),  # there was room for a level that was not drafted
        (asked(FIRST, depth=3), endings.WRONG),  # why nothing hangs below is not known
        (asked(FIRST), FULL),
        (asked(rejected(pick_rank=3), top_k=4), endings.CUT),
        (asked(rejected(pick_rank=7), remembered=8), endings.CUT),  # of 32 cut nodes or more, the trace has the best
        (asked(rejected(pick_rank=4), top_k=4), NEAR),
        (asked(rejected(pick_rank=7), top_k=4), NEAR),
        (asked(rejected(pick_rank=7, pick_score=-2.0, cutoff=-3.0), top_k=4), NEAR),
        (asked(rejected(pick_rank=7, pick_score=-3.0, cutoff=-3.0), top_k=4), LOW),  # twice the top_k would have it cut
        (asked(rejected(pick_rank=7, pick_score=-3.0, cutoff=-3.0), top_k=4, total_tokens=2), LOW),
        (asked(rejected(pick_rank=7, pick_score=-3.0, cutoff=-3.0), top_k=4, total_tokens=3), NEAR),  # there was room
        (asked(rejected(pick_rank=8), top_k=4), FAR),
        (asked(rejected(pick_rank=8, pick_score=-3.0, cutoff=-3.0), top_k=4), FAR),
        (asked(rejected(pick_rank=7), top_k=4.0), NEAR),
        (asked(rejected(pick_rank=8, pick_draft_logprob=-1e4), top_k=4), LACKED),
        (asked(rejected(pick_rank=3, pick_draft_logprob=-1e4), top_k=4), LACKED),  # whose vocabulary is smaller still
        (asked(rejected(pick_rank=8, pick_draft_logprob=-1.5e4), top_k=4), FAR),
        (asked(rejected(pick_rank=0)), endings.WRONG),
        (asked(rejected(pick_rank=8)), endings.WRONG),
        (asked(SECOND), endings.WRONG),
        (asked(THIRD), endings.NOTHING_DRAFTED),
    ],
)
def test_a_round_stopped_where_a_remedy_would_begin(trace, expected):
    assert stop(trace, 0) == expected
    assert stop(trace, 1) == endings.TEXT_END


@pytest.mark.parametrize(
    ("stopped", "settings", "expected"),
    [
        ("length", {"depth": 2, "total_tokens": 3}, LOW),  # the text has a token left after this round's
        ("length", {"depth": 1, "total_tokens": 3}, NEAR),
        ("length", {"depth": 2, "total_tokens": 30}, NEAR),  # 1 + 4 + 16 nodes did not fill it
        ("eos", {"depth": 2, "total_tokens": 3}, NEAR),
    ],
)
def test_a_budget_was_full_whose_deepest_nodes_the_text_had_no_room_for(stopped, settings, expected):
    trace = asked(rejected(pick_rank=7, pick_score=-3.0, cutoff=-2.0), top_k=4, **settings)
    assert stop(replace(trace, stop=stopped), 0) == expected


@pytest.mark.parametrize(
    ("heat", "share", "settings", "expected"),
    [
        (1.0, 0.12, {}, DRAWN),
        (1.0, 0.13, {}, FAR),  # among 8 tokens at most of an eighth and more
        (1.0, 0.12, {"coupled": True}, FAR),
        (1.0, 0.12, {"coupled": False}, DRAWN),
        (0.0, 0.12, {}, FAR),
    ],
)
def test_no_better_drafter_is_asked_for_what_the_target_drew_against_the_odds(heat, share, settings, expected):
    drawn = asked(rejected(pick_rank=8, pick_logprob=math.log(share)), top_k=4, **settings)
    assert stop(replace(drawn, temperature=heat), 0) == expected


@pytest.mark.parametrize(
    ("ranks", "settings", "expected"),
    [
        ((20, 7), {"candidates": "decoupled"}, endings.WRONG),  # twice the top_k of 4 would have expert 1 propose it
        ((20, 8), {"candidates": "decoupled"}, FAR),
        ((20, 7), {"candidates": "decoupled", "expert": "0"}, FAR),
        ((20, 7), {"candidates": "mixture"}, FAR),
    ],
)
def test_what_no_expert_proposes_ranks_last_which_does_not_make_it_far(ranks, settings, expected):
    known = {f"pick_expert{expert}_rank": rank for expert, rank in enumerate(ranks)}
    assert stop(asked(rejected(pick_rank=8, **known), top_k=4, **settings), 0) == expected


def test_a_copy_that_was_right_to_its_end_is_full_however_long_it_might_have_been():
    columns = {"copied_from": [None, 3, 4]}
    tree = DraftTree([10, 11, 13], [-1, 0, 1], [0.0, 0.0, 0.0], columns)
    copy = replace(FIRST, tree=tree, accepted=[1, 2], target_logprobs=[0.0, -1.0, -1.0])
    assert stop(asked(copy, depth=8), 0) == FULL
    assert endings.moments(asked(copy, depth=8), 0) == ["full"]
    beside = asked(copy, depth=1, total_tokens=3, lookup=2)  # of drafts that are no deeper than that
    assert stop(beside, 0) == COPY and "total_tokens" in STOPS[COPY].more, "a deeper draft makes no longer copies"


@pytest.mark.parametrize(("length", "where"), [(MAX_LEVELS - 1, COPY), (MAX_LEVELS, FULL)])
def test_more_nodes_are_no_remedy_for_a_copy_as_long_as_any_may_be(length, where):
    tokens = [*range(1, length + 1)]
    tree = DraftTree([10, *tokens], [-1, *range(length)], [0.0] * len([10, *tokens]), {"copied_from": [None, *tokens]})
    copy = replace(FIRST, tree=tree, accepted=tokens, target_logprobs=[0.0] * len(tree))
    assert stop(asked(copy, depth=2, total_tokens=100, lookup=2), 0) == where


def test_counts_are_in_order_and_tell_where_one_expert_alone_had_the_choice():
    known = [{"pick_expert0_rank": one, "pick_expert1_rank": other} for one, other in ((2, 9), (9, 4))]  # 4 is outside
    steps = [rejected(pick_rank=5, **known[0]), rejected(pick_rank=5, **known[1]), rejected(pick_rank=20, **known[0])]
    trace = asked(*steps, FIRST, top_k=4, depth=2)
    assert stops(trace) == [
        Stopped(FULL, 1, None), Stopped(NEAR, 2, 1), Stopped(FAR, 1, 1), Stopped(endings.TEXT_END, 1, None)
    ]  # fmt: skip
    assert sum(one.rounds for one in stops(HAND)) == len(HAND.steps)


def test_the_figure_parts_the_bars_in_which_one_expert_alone_had_the_choice():
    ranks = {"pick_expert0_rank": 2, "pick_expert1_rank": 9}
    trace = asked(rejected(pick_rank=5, **ranks), rejected(pick_rank=5, **ranks | {"pick_expert0_rank": 9}), top_k=4)
    figure = stops_figure(trace)
    rest, alone, numbers = figure["data"]
    assert rest["y"] == ["just below the top-k", "end of the text"]
    assert (rest["x"], alone["x"], numbers["text"]) == ([1, 1], [1, None], [" 2 · twice the top_k", " 1"])
    assert "2 of 3 rounds (67%)" in rest["hovertext"][0] and "in 1 of them one expert alone" in rest["hovertext"][0]
    assert len(stops_figure(asked(SECOND))["data"]) == 2  # without experts
    assert stops_figure(run(THIRD)) is None


def test_explain_says_it_of_every_run(tmp_path, capsys):
    save(asked(FIRST, rejected(pick_rank=5), top_k=4, depth=2), tmp_path / "one.json")
    assert main(["explain", str(tmp_path / "one.json")]) == 0
    said = capsys.readouterr().out
    assert "tokens a pass of the target" in said
    assert f"| just below the top-k | 1 | 33 % |  | {STOPS[NEAR].remedy} |" in said
    (tmp_path / "other.json").write_text("{}")
    assert main(["explain", str(tmp_path / "other.json")]) == 2
    assert "other.json" in capsys.readouterr().err


@pytest.mark.parametrize("setting", ["top_k", "depth", "total_tokens"])
@pytest.mark.parametrize("value", [0, -3])
def test_a_setting_that_no_method_takes_is_as_one_that_is_not_known(setting, value):
    odd = replace(asked(FIRST, rejected(pick_rank=5)), settings={setting: value}, temperature=1.0)
    assert odd.number(setting) is None and stops(odd) == stops(replace(odd, settings={}))
