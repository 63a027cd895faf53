"""The browser's JSON: complete, consistent with the trace, compact, and nothing in it but what was recorded."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from drawn import strings
from hand import FIRST, HAND, SECOND, THIRD, run
from synthetic import lookup_trace, text, tree_trace, vanilla_trace

from jakiro.analysis import stops
from jakiro.noise import gumbel
from jakiro.tree import DraftTree
from jakiro.ui.figures.theme import THEMES
from jakiro.ui.replay import keys, payload, titled
from jakiro.ui.summary import header, lossless
from jakiro.ui.why import whys


def read(*traces, titles=None) -> dict:
    return json.loads(payload(traces, titles))


def test_tokens_say_where_they_come_from_and_when():
    tokens = read(HAND)["traces"][0]["tokens"]
    assert tokens["id"] == [10, 11, 13, 15, 18, 19]
    assert tokens["round"] == [-1, 0, 0, 0, 1, 2]
    assert tokens["kind"] == [0, 1, 1, 2, 2, 2]
    assert tokens["at"] == [4, 7.5, 7.5, 7.5, 11, 14]


def test_rounds_are_slices_of_the_tokens():
    trace = tree_trace(6)
    found = read(trace)["traces"][0]
    rounds, ids = found["rounds"], found["tokens"]["id"]
    for step, start, stop in zip(trace.steps, rounds["from"], rounds["to"], strict=True):
        assert ids[start:stop] == step.emitted
    assert rounds["to"][-1] == len(ids) and rounds["accepted"] == [len(step.accepted) for step in trace.steps]


@pytest.mark.parametrize("trace", [HAND, tree_trace(6), lookup_trace(text(40)), vanilla_trace(text(60))])
def test_every_round_has_the_sentence_why_it_ended(trace):
    assert read(trace)["traces"][0]["why"] == whys(trace)


def test_rounds_say_where_they_stopped_and_the_race_what_that_is_called():
    traces = [HAND, tree_trace(6)]
    found = read(*traces)
    ways = [one["stops"] for one in found["traces"]]
    assert ways == [[stops.stop(trace, index) for index in range(len(trace.steps))] for trace in traces]
    assert found["stops"] == {way: stops.STOPS[way].name for way in {*ways[0], *ways[1]}}


def test_rounds_have_their_seconds_and_the_clock():
    rounds = read(HAND)["traces"][0]["rounds"]
    assert rounds["at"] == [7.5, 11, 14]
    assert (rounds["draft"], rounds["verify"], rounds["overhead"]) == ([1, 1, 0], [2, 2, 2.5], [0.5] * 3)


def test_a_runs_own_diversity_comes_first():
    found = read(tree_trace(4, 12, experts=False), tree_trace(4, 12))["traces"]
    figures = [one["figures"]["run_diversity"] for one in found]
    first = [next(trace["name"] for trace in figure["data"] if trace.get("name")) for figure in figures]
    assert first[0].startswith("eagle2") and first[1].startswith("jakiro")


def test_the_sentences_of_a_long_run_take_one_look_at_all_its_rounds(monkeypatch):
    trace, looked = vanilla_trace(text(60)), []
    monkeypatch.setattr(DraftTree, "__len__", lambda tree: looked.append(1) or len(tree.tokens))
    assert len(whys(trace)) == 59 and len(looked) < 4 * 59


def test_what_is_read_has_the_digits_of_the_trace():
    """Of a number that is rounded twice the last digit that is shown may err."""
    low = replace(FIRST, tree=replace(FIRST.tree, scores=[0.0, -16.03897, -1.23457, -1.0, -1.0]))
    assert read(run(low))["traces"][0]["nodes"][0]["score"][1:3] == [-16.03897, -1.23457]
    shown = {"js": 0.27146, "target_entropy": 10.23447, "gate1": 0.0123451, "gate0": 3.21e-6, "heat": 12345.678}
    columns = {name: [None, value, value, value, value] for name, value in shown.items()}
    nodes = read(run(replace(FIRST, tree=replace(FIRST.tree, columns=columns))))["traces"][0]["nodes"][0]
    assert {name: nodes[name][1] for name in shown} == shown | {"js": 0.271, "target_entropy": 10.234, "gate1": 0.0123}


def test_node_tables_count_ranks_from_one_and_cover_every_field():
    trace = tree_trace(3)
    found = read(trace)["traces"][0]
    column = trace.steps[1].tree.columns["pick_rank"]
    assert found["nodes"][1]["pick_rank"] == [None if rank is None else rank + 1 for rank in column]
    assert {field["key"] for field in found["fields"]} <= found["nodes"][0].keys()
    assert found["nodes"][0]["q"][0] is None  # the root was not drafted


def test_a_column_that_nobody_knows_is_shown_under_its_own_name():
    tree = replace(FIRST.tree, columns={"surprise": [1, 2, 3, 4, 5.5]})
    found = read(run(replace(FIRST, tree=tree)))["traces"][0]
    assert found["nodes"][0]["surprise"] == [1, 2, 3, 4, 5.5] and found["fields"][-1]["key"] == "surprise"


@pytest.mark.parametrize(("threads", "shown"), [(0, "cpu, float32"), (1, "cpu, 1 thread, float32")])
def test_a_run_says_how_many_threads_computed_it(threads, shown):
    run = replace(HAND, device="cpu", dtype="float32", threads=threads)
    assert dict(header(run))["Device"] == shown


def test_the_prompt_is_shown_as_it_was_read_template_and_all():
    words = {0: "<|user|>\n", 1: "why ", 2: "<|end|>"}

    def shown(count):
        return dict(header(replace(HAND, prompt=[0, *[1] * count, 2], pieces=HAND.pieces | words)))["As it was read"]

    assert shown(3) == "<|user|>⏎why why why <|end|>"
    begin, end = shown(999).split(" … ")  # of a long one both ends
    assert len(begin) == 500 and begin.startswith("<|user|>⏎why ")
    assert len(end) == 300 and end.endswith("why <|end|>")


def test_every_id_that_is_shown_has_a_piece_and_a_label():
    found = read(tree_trace(3))["traces"][0]
    shown = {*found["tokens"]["id"], *found["bonus"]}
    shown |= {
        token for nodes in found["nodes"] for name in ("id", "pick") for token in nodes[name] if token is not None
    }
    assert {str(token) for token in shown} <= found["pieces"].keys() == found["labels"].keys()


def test_colours_are_roles_of_both_themes():
    data = read(tree_trace(2), vanilla_trace([1, 2, 3]))
    roles = {part[1:] for part in strings([trace["figures"] for trace in data["traces"]]) if part.startswith("@")}
    assert roles and roles <= THEMES["light"].keys() and data["themes"] == THEMES


def test_a_race_of_four_kinds_compares_each_with_the_first():
    trace = tree_trace(5)
    data = read(vanilla_trace(trace.tokens), lookup_trace(trace.tokens), trace, titles={"jakiro": "Jakiro"})
    assert [found["title"] for found in data["traces"]] == ["vanilla", "prompt_lookup", "Jakiro"]
    assert data["lossless"] == {
        "identical": True, "tie": False, "text": "lossless: 3/3 outputs identical",
    }  # fmt: skip
    others = [[bool(other) for other in found["figures"]["below"]] for found in data["traces"]]
    assert others == [[False, True, True], [True, False, True], [True, True, False]]


def test_the_badge_names_the_first_divergence_and_its_margin():
    other = run(FIRST, replace(SECOND, accepted=[1], bonus=7), THIRD)
    found = lossless([HAND, other], ["Vanilla", "Jakiro"])
    assert not found["identical"]
    assert (
        "Jakiro parts from Vanilla at token 5: “<16>” against “<18>”" in found["text"]
        and "0.6931 nats" in found["text"]
    )


@pytest.mark.parametrize(
    ("dtype", "margin", "tie"),
    [
        ("float32", 2e-4, False),
        ("float32", 5e-5, True),
        ("float16", 0.2, False),
        ("bfloat16", 0.2, True),
        ("float64", 5e-5, False),
    ],
)
def test_a_margin_within_rounding_is_a_tie(dtype, margin, tie):
    columns = {"pick": [18, 5, 6], "pick_logprob": [math.log(0.25) + margin, 0.0, 0.0]}
    near = replace(SECOND, tree=replace(SECOND.tree, columns=columns))
    runs = [
        replace(one, dtype=dtype)
        for one in (run(FIRST, near, THIRD), run(FIRST, replace(near, accepted=[1], bonus=7), THIRD))
    ]
    found = lossless(runs, ["Vanilla", "Jakiro"])
    assert (found["identical"], found["tie"]) == (False, tie), found
    assert found["text"].startswith(f"identical up to rounding in {dtype}: " if tie else "not identical: ")


def test_rounding_is_that_of_the_coarser_run_whichever_is_first():
    columns = {"pick": [18, 5, 6], "pick_logprob": [math.log(0.25) + 0.2, 0.0, 0.0]}
    near = replace(SECOND, tree=replace(SECOND.tree, columns=columns))
    fine = replace(run(FIRST, near, THIRD), dtype="float32")
    coarse = replace(run(FIRST, replace(near, accepted=[1], bonus=7), THIRD), dtype="bfloat16")
    for runs in ([fine, coarse], [coarse, fine]):
        assert lossless(runs, ["A", "B"])["text"].startswith("identical up to rounding in bfloat16: ")


def test_the_margin_of_what_was_sampled_is_that_of_the_draw():
    other = run(FIRST, replace(SECOND, accepted=[1], bonus=7), THIRD)
    sampled = [replace(one, temperature=0.5) for one in (HAND, other)]
    noise = gumbel(HAND.seed, [len(HAND.prompt) + 4], 19)[0]
    margin = abs(math.log(2) / 0.5 + (noise[18] - noise[16]).item())
    assert f"margin is {margin:.4f} nats with the noise" in lossless(sampled, ["Vanilla", "Jakiro"])["text"]


def test_what_a_top_p_may_have_parted_is_not_said_for_certain():
    other = run(FIRST, replace(SECOND, accepted=[1], bonus=7), THIRD)
    for dtype, top_p, edge in (("float32", 0.9, False), ("float16", 1.0, False), ("float16", 0.9, True)):
        runs = [replace(one, temperature=0.5, top_p=top_p, dtype=dtype) for one in (HAND, other)]
        found = lossless(runs, ["Vanilla", "Jakiro"])
        assert ("a token at the edge of top_p" in found["text"]) == edge and not found["tie"]


def test_ids_are_whole_whatever_the_vocabulary():
    step = replace(FIRST, tree=replace(FIRST.tree, columns=FIRST.tree.columns | {"pick": [151645] * len(FIRST.tree)}))
    assert read(run(step))["traces"][0]["nodes"][0]["pick"] == [151645] * len(FIRST.tree)


def test_no_two_lanes_are_called_the_same():
    traces = [replace(HAND, method=name) for name in ("a", "a", "a-2", "a")]
    assert keys(traces) == ["a", "a-3", "a-2", "a-4"]


def test_the_badge_claims_no_more_than_was_compared():
    trace = tree_trace(5)
    vanilla, others = vanilla_trace(trace.tokens), [lookup_trace(trace.tokens), trace]
    assert lossless([vanilla, trace], ["V", "J"])["text"] == "lossless: 2/2 outputs identical"
    assert lossless(others, ["P", "J"]) == {
        "identical": True, "tie": False, "text": "identical: 2/2 outputs",
    }  # fmt: skip
    assert lossless([vanilla], ["V"]) == {
        "identical": None, "tie": False, "text": "one run, nothing to compare",
    }  # fmt: skip


def test_the_badge_sees_what_parts_beyond_the_end_of_the_first():
    trace = tree_trace(5)
    other = vanilla_trace([*trace.tokens[:9], trace.tokens[9] + 1, *trace.tokens[10:-1]])
    short = vanilla_trace(trace.tokens[:6], stop="stopped")
    found = lossless([short, trace, other], ["A", "B", "C"])
    assert not found["identical"]
    assert found["text"].startswith("not lossless: C parts from B at token 10:")
    assert found["text"].endswith("; 2/3 outputs identical as far as they went")


@pytest.mark.parametrize("stop", ["length", "context", "stopped"])
def test_a_run_that_was_cut_short_is_compared_as_far_as_it_went(stop):
    trace = tree_trace(5)
    short = vanilla_trace(trace.tokens[:6], stop=stop)
    for runs in ([short, trace], [trace, short]):
        found = lossless(runs, ["A", "B"])
        assert found["identical"] and found["text"] == "lossless as far as they went: 2/2 outputs identical"
    ended = lossless([trace, replace(short, stop="eos")], ["A", "B"])
    assert not ended["identical"] and "B parts from A at token 7: the end against" in ended["text"]


@pytest.mark.parametrize("change", [{"prompt": [9, 9]}, {"device": "another"}, {"dtype": "bfloat16"}, {"seed": 1}])
def test_speed_is_held_against_a_vanilla_that_did_the_same_alone(change):
    """In a file of traces from elsewhere there may be others."""
    trace = replace(tree_trace(5), temperature=0.5)
    vanilla = replace(vanilla_trace(trace.tokens), temperature=0.5)
    found = read(replace(vanilla, **change), trace, vanilla)["traces"]
    assert [one["baseline"] for one in found] == [0, 2, 2]
    assert "vanilla's speed" in found[1]["headline"]
    [alone] = [one for one in read(replace(vanilla, **change), trace)["traces"] if one["method"] == trace.method]
    assert alone["baseline"] is None and "vanilla's speed" not in alone["headline"]


def test_two_runs_of_one_method_get_different_titles():
    data = read(HAND, HAND, titles={"hand": "Hand"})
    assert [found["title"] for found in data["traces"]] == ["Hand", "Hand (2)"]


def test_runs_of_one_method_are_named_by_what_sets_them_apart():
    common = {"top_k": 5, "depth": 2, "total_tokens": 6}
    alike, deep, wide = (replace(HAND, settings=common | one) for one in ({}, {"depth": 3}, {"top_k": 8, "depth": 9}))
    eagle2 = replace(HAND, method="eagle2", settings=common | {"depth": 8})  # of another method: nothing to tell apart
    heads = [replace(HAND, method=name) for name in ("eagle2-mine", "eagle2-theirs", "my-own", "eagle2-")]
    titles = {"eagle2": "EAGLE-2", "eagle2-mine": "EAGLE-2 (mine)"}  # of theirs nothing is known here
    assert titled(heads, titles) == ["EAGLE-2 (mine)", "EAGLE-2 (theirs)", "my-own", "eagle2-"]
    assert titled([alike, eagle2, deep], {"eagle2": "EAGLE-2"}) == ["hand (depth 2)", "EAGLE-2", "hand (depth 3)"]
    assert titled([alike, deep, deep], {}) == ["hand (depth 2)", "hand (depth 3)", "hand (depth 3) (2)"]
    assert titled([alike, wide], {}) == ["hand (top_k 5, depth 2)", "hand (top_k 8, depth 9)"]
    switched = [replace(HAND, settings=common | {"contrastive": one}) for one in (True, False)]
    assert titled(switched, {}) == ["hand (contrastive on)", "hand (contrastive off)"]
    ways = [replace(HAND, settings=common | {"candidates": one}) for one in ("mixture", "decoupled")]
    assert titled(ways, {}) == ["hand (mixture)", "hand (decoupled)"]
    alone = [replace(HAND, settings=common | {"expert": one}) for one in ("all", "0")]
    assert titled(alone, {}) == ["hand (expert all)", "hand (expert 0)"]
    newer = replace(HAND, settings=common | {"coupled": False})  # which the other run does not know
    assert titled([alike, newer], {}) == ["hand", "hand (2)"]
    copying = [replace(HAND, settings=common | {"lookup": one}) for one in (0, 2)]
    assert titled(copying, {}) == ["hand", "hand + lookup"]  # which is said of a lone one, too
    assert titled([*copying, replace(HAND, settings=common | {"lookup": 3})], {})[1:] == [
        "hand + lookup (lookup 2)", "hand + lookup (lookup 3)"]  # fmt: skip
    many = replace(HAND, settings={"top_k": 8, "depth": 9, "total_tokens": 60})
    assert titled([alike, many], {}) == ["hand", "hand (2)"]  # no title has room for that
    mine, old = replace(alike, drafter="heads/mine"), replace(deep, drafter="heads/old")
    assert titled([mine, replace(alike, drafter="heads/old")], {}) == ["hand (heads/mine)", "hand (heads/old)"]
    assert titled([mine, old], {}) == ["hand (heads/mine, depth 2)", "hand (heads/old, depth 3)"]
    assert titled([mine, replace(many, drafter="heads/old")], {}) == ["hand (heads/mine)", "hand (heads/old)"]
    assert titled([mine, alike], {}) == ["hand", "hand (2)"]  # of one it is not known


def test_a_hostile_title_is_escaped_in_figures_only():
    data = read(HAND, titles={"hand": "<b>x</b>"})
    assert data["traces"][0]["title"] == "<b>x</b>"
    figures = data["traces"][0]["figures"]
    assert "with <b>x</b>." in figures["run_diversity"].pop("told")  # no mark-up there
    assert "<b>x" not in json.dumps(figures)


@pytest.mark.parametrize("traces", [[], [run()], [vanilla_trace([1, 2])]])
def test_nothing_to_show_is_still_a_replay(traces):
    data = read(*traces)
    assert data["lossless"]["identical"] is None and len(data["traces"]) == len(traces)


def test_sixty_nodes_a_round_stay_below_twenty_kilobytes():
    """200 rounds have to arrive within 4 MB."""
    short, long = (len(payload([tree_trace(rounds, nodes=60)]).encode()) for rounds in (20, 40))
    assert (long - short) / 20 < 20_000 and short < 20 * 20_000 + 60_000
