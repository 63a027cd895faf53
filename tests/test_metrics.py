"""Metrics, routing, diversity and tables of a run that is small enough to count by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import synthetic
from hand import FIRST, HAND, SECOND, THIRD, run
from synthetic import lookup_trace, text, tree_trace, vanilla_trace

from jakiro import metrics
from jakiro.analysis.calibration import calibration, error
from jakiro.analysis.diversity import coverage, round_diversity, run_diversity
from jakiro.analysis.endings import moments
from jakiro.analysis.routing import round_routing, run_routing
from jakiro.analysis.tables import nodes_table
from jakiro.tree import DraftTree
from jakiro.ui.figures.routing import round_routing_figure
from jakiro.ui.headline import headline
from jakiro.ui.inspector import fields
from jakiro.ui.summary import metric_rows


def test_tau_counts_the_bonus_and_every_round():
    assert HAND.tokens == [10, 11, 13, 15, 18, 19]
    assert metrics.tau(HAND) == 5 / 3
    assert metrics.paper_tau(HAND) == 5 / 2  # one round too few, as published
    assert metrics.running_tau(HAND) == [3, 4 / 2, 5 / 3]


def test_acceptance_by_depth_of_all_rounds_and_of_those_that_got_there():
    assert metrics.acceptance_histogram(HAND) == [2, 0, 1]
    assert metrics.acceptance_by_depth(HAND) == [1 / 3, 1 / 3]
    assert metrics.conditional_acceptance_by_depth(HAND) == [1 / 3, 1.0]


def test_a_drafted_token_that_ends_the_text_is_neither_accepted_nor_rejected():
    assert metrics.tried(HAND) == [2, 1]  # the third round drafts nothing
    ended = replace(FIRST, accepted=[1], bonus=13)
    assert metrics.tried(run(SECOND, ended)) == [2, 0] and metrics.reached(run(SECOND, ended)) == [2, 1, 0]
    assert metrics.tried(run(SECOND, replace(ended, bonus=9))) == [2, 1]


def test_time_and_speed_leave_prefill_out_and_the_clock_does_not():
    assert metrics.seconds(HAND) == {"draft": 2.0, "verify": 6.5, "overhead": 1.5}
    assert metrics.time_shares(HAND) == {"draft": 0.2, "verify": 0.65, "overhead": 0.15}
    assert metrics.tokens_per_second(HAND) == 5 / 10
    assert metrics.clock(HAND) == [7.5, 11.0, 14.0]


def test_totals_follow_vllms_definitions():
    totals = metrics.totals(HAND)
    assert totals["num_tokens"] == 6 and totals["num_rounds"] == 3
    assert totals["num_draft_tokens"] == 6 and totals["num_accepted_draft_tokens"] == 2
    assert metrics.totals(run(FIRST, FIRST))["draft_acceptance_rate"] == 4 / 8  # not over its 7 tokens
    assert totals["mean_acceptance_length"] == pytest.approx(1 + 2 / 3)  # vLLM: 1 + accepted over drafts
    assert totals["acceptance_rate_per_position"] == [1 / 3, 1 / 3]


def test_a_run_without_rounds_has_no_rates():
    empty = run()
    assert metrics.tau(empty) is None and metrics.tokens_per_second(empty) is None
    assert metrics.acceptance_by_depth(empty) == [] and metrics.time_shares(empty) == {}
    assert nodes_table(empty).empty


def test_first_difference_sees_a_longer_list():
    assert metrics.first_difference([1, 2], [1, 2]) is None
    assert metrics.first_difference([1, 2], [1, 3]) == 1
    assert metrics.first_difference([1, 2], [1, 2, 3]) == 2


def test_runs_are_held_against_each_other_where_they_were_asked_the_same():
    other_seed, warm = replace(HAND, seed=HAND.seed + 1), replace(HAND, temperature=0.5)
    assert metrics.comparable([]) and metrics.comparable([HAND, replace(HAND, method="vanilla", first=1), other_seed])
    assert not metrics.comparable([warm, replace(warm, seed=warm.seed + 1)])
    assert not metrics.comparable([warm, replace(warm, top_p=0.9)])
    for other in (
        warm,
        replace(HAND, prompt=[*HAND.prompt, 1]),
        replace(HAND, target="another"),
        replace(HAND, branch="what if"),
    ):
        assert not metrics.comparable([HAND, other])


def test_divergence_takes_both_log_probabilities_from_one_run():
    """At index 4 the hand trace chose 18 (log p = log 1/2) and knows drafted 16 (log 1/4); the margin is log 2."""
    other = run(FIRST, replace(SECOND, accepted=[1], bonus=7), THIRD)
    found = metrics.divergence(HAND, other)
    assert (found.at, found.ours, found.theirs) == (4, 18, 16)
    assert found.margin == pytest.approx(math.log(2))
    assert metrics.divergence(other, HAND).margin == pytest.approx(-math.log(2))
    rounded = run(FIRST, replace(other.steps[1], target_logprobs=[0.0, -1.0, -1.0]))
    assert metrics.divergence(HAND, rounded).margin == pytest.approx(math.log(2))  # not half of it from either
    assert metrics.divergence(HAND, HAND) is None


def test_divergence_asks_for_a_token_after_its_own_prefix():
    """After 10 11 one run has 13, the other 12, which is known after 10 alone."""
    found = metrics.divergence(HAND, run(replace(FIRST, accepted=[1], bonus=12), SECOND))
    assert (found.at, found.ours, found.theirs, found.margin) == (2, 13, 12, None)


def test_divergence_without_known_probabilities_or_token_has_no_margin():
    shorter = replace(run(FIRST, SECOND), stop="eos")
    stopped = replace(shorter, stop="stopped")  # agrees as far as it went
    assert metrics.divergence(HAND, stopped) is metrics.divergence(stopped, HAND) is None
    assert metrics.divergence(replace(HAND, stop="stopped"), shorter) is not None
    found = metrics.divergence(HAND, shorter)
    assert (found.at, found.ours, found.theirs, found.margin) == (5, 19, None, None)


def test_coverage_is_the_chance_that_the_target_stays_in_the_tree():
    assert coverage(FIRST) == pytest.approx([0.5 + 0.25, 0.5 * 0.5 + 0.5 * 0.5])
    assert coverage(THIRD) == []
    sure = replace(FIRST, target_logprobs=[0.0, 0.0, math.log(0.25), 0.0, 0.0])
    assert coverage(sure) == [1.0, 1.0]  # a sum above 1 is rounding
    twice = replace(FIRST, tree=DraftTree([1, 2, 2, 3, 4], [-1, 0, 0, 1, 2], [0.0] * 5))
    quarter = math.log(0.25)
    assert coverage(replace(twice, target_logprobs=[0.0, *[quarter] * 4])) == [0.25, 0.125]
    assert coverage(replace(twice, target_logprobs=[0.0, quarter, quarter, None, quarter])) == []


def test_diversity_of_a_round_and_of_the_run():
    found = round_diversity(HAND, FIRST)
    assert (found.drafted, found.unique, found.rescues) == (4, 4, 2)
    assert [(node.parent, node.depth, node.overlap) for node in found.experts] == [(0, 1, 0.5), (1, 2, 1.0)]
    both = replace(FIRST, tree=replace(FIRST.tree, columns=FIRST.tree.columns | {"source": [None, 2, 0, 1, 3]}))
    assert round_diversity(HAND, both).rescues == 1  # what both experts propose neither rescues
    total = run_diversity(HAND)
    assert total.drafted == total.unique == 3.0  # the round without a draft does not count
    assert total.coverage == pytest.approx([(0.75 + 0.5) / 2, 0.5 / 2])
    assert total.overlap == {1: 0.5, 2: 1.0} and total.js == {1: 0.2, 2: 0.0}
    assert total.proposed_by_source == [1, 2, 1, 0] and total.rescued_rounds == 1


@pytest.mark.parametrize("expert", ["0", "1"])
def test_who_proposes_alone_rescues_nothing(expert):
    lone = replace(HAND, settings={"expert": expert})
    assert round_diversity(lone, FIRST).rescues is None and run_diversity(lone).rescued_rounds is None
    assert "one expert alone" not in headline(lone, "Hand", None) and "one expert alone" in headline(HAND, "Hand", None)
    assert moments(lone, 0) == ["full"] and "rescues" not in {row["label"] for row in metric_rows(lone)}
    assert run_diversity(lone).accepted_by_source == [1, 1, 0, 0]  # whose top-k has it is still told


def test_a_repeated_token_is_counted_once():
    twice = replace(FIRST, tree=replace(FIRST.tree, tokens=[10, 11, 12, 12, 12]))
    assert round_diversity(HAND, twice).unique == 2
    found = run_diversity(run(twice, FIRST, THIRD))
    assert (found.unique, found.drafted) == ((2 + 4) / 2, 4.0)


def test_calibration_asks_of_the_candidates_that_the_target_chose_between():
    """Three with q 1/2, of which two were chosen, and three with 1/4, none of them."""
    low, high = calibration(HAND)
    assert (low.middle, low.q, low.chosen, low.candidates) == pytest.approx((0.25, 0.25, 0, 3))
    assert (high.middle, high.q, high.chosen, high.candidates) == pytest.approx((0.55, 0.5, 2 / 3, 3))
    assert error([low, high]) == pytest.approx((1 / 4 + 1 / 6) / 2)
    unreached = run(replace(FIRST, accepted=[2], bonus=9))  # the walk did not come to the children of 11
    assert [(one.candidates, one.chosen) for one in calibration(unreached)] == [(1, 1), (1, 0)]
    ended = run(replace(FIRST, accepted=[], bonus=11))  # drafted, and ends the text
    assert [(one.candidates, one.chosen) for one in calibration(ended)] == [(1, 0), (1, 1)]
    assert calibration(lookup_trace(text(30))) == calibration(vanilla_trace(text(6))) == []


def test_routing_reads_the_gates_once_a_parent():
    gates = round_routing(FIRST)
    assert [(gate.parent, gate.depth, gate.weights) for gate in gates] == [(0, 1, (0.75, 0.25)), (1, 2, (0.1, 0.9))]
    assert [gate.contrastive for gate in gates] == [False, True]
    assert gates[0].entropy == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    total = run_routing(HAND)
    assert total.root == [(0.75, 0.25), None, None] and total.by_round == [{1: (0.75, 0.25)}, {}, {}]
    assert total.by_depth == {1: (0.75, 0.25)} and total.dominant_share == (1, 0)  # not the contrastive level
    stepped = {round(middle, 1): (rate, count) for middle, rate, count in total.acceptance if count}
    assert stepped == {0.7: (1.0, 1)}


def test_a_router_that_is_not_asked_is_not_shown():
    lone = replace(HAND, settings={"expert": "0"})
    assert run_routing(lone) is None and round_routing_figure(lone) is None
    assert {"gate0", "gate1"} <= {one["key"] for one in fields(HAND)}
    assert not {"gate0", "gate1"} & {one["key"] for one in fields(lone)}


def test_routing_has_no_weights_of_a_root_without_gates():
    columns = {"gate0": [None, None, None, 0.1, 0.1], "gate1": [None, None, None, 0.9, 0.9]}
    assert run_routing(run(ordinary(FIRST, **columns))).root == [None]


def test_routing_counts_a_parent_where_the_walk_stopped_as_a_miss():
    stopped = run(replace(FIRST, accepted=[], bonus=9))
    rates = {round(middle, 1): rate for middle, rate, count in run_routing(stopped).acceptance if count}
    assert rates == {0.7: 0.0}


def test_routing_counts_a_drafted_token_that_ended_the_text_as_found():
    ended = run(replace(FIRST, accepted=[], bonus=11))
    rates = {round(middle, 1): rate for middle, rate, count in run_routing(ended).acceptance if count}
    assert rates == {0.7: 1.0}


def ordinary(step, **columns):
    """The round without a contrastive level."""
    return replace(step, tree=replace(step.tree, columns=step.tree.columns | {"head": [None, 0, 0, 0, 0]} | columns))


def test_routing_asks_for_the_walk_where_it_stood_alone():
    """The walk goes to 12, so the children of 11 are nobody's miss; the next round stops at once."""
    step = ordinary(replace(FIRST, accepted=[2], bonus=9))
    total = run_routing(run(step, replace(step, accepted=[])))
    assert {round(middle, 1): (rate, count) for middle, rate, count in total.acceptance if count} == {0.7: (0.5, 2)}
    assert total.by_depth == {1: (0.75, 0.25), 2: (0.1, 0.9)} and total.dominant_share == (0.5, 0.5)
    assert total.by_round == [total.by_depth] * 2
    one, other = (-sum(share * math.log(share) for share in pair) for pair in ((0.75, 0.25), (0.1, 0.9)))
    assert total.mean_entropy == pytest.approx((one + other) / 2)
    assert total.entropy == pytest.approx([(one + other) / 2] * 2)


def test_one_expert_may_have_the_whole_weight():
    whole = {"gate0": [None, 1.0, 1.0, 0.0, 0.0], "gate1": [None, 0.0, 0.0, 1.0, 1.0]}
    total = run_routing(run(ordinary(FIRST, **whole)))
    assert total.mean_entropy == 0 and [count for *_, count in total.acceptance] == [1, 0, 0, 0, 1]


@pytest.mark.parametrize("trace", [vanilla_trace(text(6)), lookup_trace(text(30)), run(SECOND)])
def test_traces_without_experts_have_no_routing_and_no_rescues(trace):
    assert run_routing(trace) is None
    found = run_diversity(trace)
    assert found is None or (found.rescued_rounds is None and found.overlap == {})


def test_a_level_is_tried_where_the_walk_came_to_a_node_with_children():
    assert metrics.reached(HAND) == [3, 1, 1] and metrics.tried(HAND) == [2, 1]


def test_the_table_has_a_row_for_every_node():
    nodes = nodes_table(HAND)
    assert list(nodes.index) == list(range(5 + 3 + 1))  # not each round's anew
    row = nodes[(nodes["round"] == 0) & (nodes["node"] == 4)].iloc[0]
    assert (row["state"], row["piece"], row["depth"]) == ("passed over", "<14>", 2)
    assert row["q"] == pytest.approx(0.25) and row["p"] == pytest.approx(0.5) and row["gate1"] == 0.9


def test_the_table_has_gaps_where_a_round_lacks_a_column():
    tree = replace(SECOND.tree, columns={"own": [1, 2.5, None]})
    nodes = nodes_table(run(FIRST, replace(SECOND, tree=tree), THIRD))
    assert nodes["own"].isna().tolist() == [True] * 5 + [False, False, True] + [True]
    assert (
        nodes["gate1"].notna().tolist() == [False, *[True] * 4] + [False] * 4 and str(nodes["depth"].dtype) == "Int64"
    )


def test_numbers_of_a_long_run_agree_with_each_other():
    trace = tree_trace(12)
    totals = metrics.totals(trace)
    assert sum(totals["acceptance_histogram"]) == 12
    accepted = sum(count * rounds for count, rounds in enumerate(totals["acceptance_histogram"]))
    contrastive = sum(step.tree.columns["head"][node] for step in trace.steps for node in step.accepted)
    assert accepted == totals["num_accepted_draft_tokens"]
    assert accepted == sum(run_diversity(trace).accepted_by_source) + contrastive and contrastive
    assert totals["mean_acceptance_length"] == pytest.approx(1 + sum(totals["acceptance_rate_per_position"]))


def test_seconds_that_were_not_taken_are_not_listed():
    """Of a what-if the prompt's, which is not read again; of a file all, where its program took none."""
    lone = synthetic.tree_trace(3, nodes=4)
    times = {"prefill", "drafting", "verifying", "overhead"}
    assert times <= {row["label"] for row in metric_rows(lone)}
    assert times - {row["label"] for row in metric_rows(replace(lone, prefill_s=0.0))} == {"prefill"}
    untimed = [replace(step, draft_s=0.0, verify_s=0.0, overhead_s=0.0) for step in lone.steps]
    found = {row["label"] for row in metric_rows(replace(lone, prefill_s=0.0, steps=untimed))}
    assert not times & found and "tokens/s" not in found
