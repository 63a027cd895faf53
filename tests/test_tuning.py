"""Auto sizes of the tree: counts against hand-written trees and real decoding, choices from planted costs."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from functools import partial

import plotly.graph_objects as go
import pytest
import torch
from drawn import paint
from tiny import CONTEXT

from benchmarks import auto
from jakiro import bench, programs, trace, verify
from jakiro.__main__ import main
from jakiro.drafter import Context
from jakiro.drafting.drafter import HeadDrafter
from jakiro.drafting.sizes import TreeSettings, pool
from jakiro.engine import decode
from jakiro.measuring import rehearsal, tuning
from jakiro.measuring.curve import corrected, cost, rising
from jakiro.measuring.prompts import examples
from jakiro.measuring.rehearsal import Rehearsal, Text, rehearse, sizes_needed
from jakiro.measuring.tuning import Point, Tuner, candidates, close, compare, expected, ranked
from jakiro.methods import METHODS, with_trees
from jakiro.methods.jakiro import JakiroSettings
from jakiro.settings import AUTO, autos
from jakiro.target import Target
from jakiro.tree import DraftTree
from jakiro.ui.figures.tuning import tuning_figure
from jakiro.ui.models import load
from jakiro.ui.race import Race, check
from jakiro.ui.stream import events
from jakiro.verify import GREEDY, Sampling, pick, walk

ALL = {"top_k": AUTO, "depth": AUTO, "total_tokens": AUTO}
SIZES = tuple(ALL)
SAMPLED = Sampling(0.5, 0.9)
TICK = 2.0**-10  # s, a power of two: sums are exact


@pytest.fixture(autouse=True)
def ticking(monkeypatch):
    """A clock that goes a tick further each time it is looked at, so that nothing depends on the machine."""
    ticks = iter(range(10**9))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * TICK)


@pytest.fixture(autouse=True)
def few_texts(monkeypatch):
    """Which the target writes itself, and short ones."""
    monkeypatch.setattr(tuning, "examples", lambda: examples()[:3])
    monkeypatch.setattr(rehearsal, "LENGTH", 24)


@pytest.fixture
def small(monkeypatch):
    """A grid that is quickly gone through, on two texts, and few passes: by this clock all take as long."""
    monkeypatch.setattr(tuning, "examples", lambda: examples()[:2])
    monkeypatch.setattr(tuning, "TOP_KS", (2, 3))
    monkeypatch.setattr(tuning, "DEPTHS", (1, 2))
    monkeypatch.setattr(tuning, "FINALISTS", 2)
    for name in ("verify_cost", "together"):
        monkeypatch.setattr(tuning, name, partial(getattr(rehearsal, name), repeats=2))


def make_of(target, name: str):
    return METHODS[name].load(target)


# ---- counting


HAND = DraftTree(
    tokens=[9, 1, 2, 3, 4, 5],  # by score: 1, 3, 2, 5, 4
    parents=[-1, 0, 0, 1, 1, 3],
    scores=[0.0, -0.5, -1.0, -0.9, -2.0, -1.5],
)


@pytest.mark.parametrize(
    ("following", "sizes"),
    [([1, 3, 5, 7], [2, 3, 5]), ([2, 1], [4]), ([1, 4, 1], [2, 6]), ([1, 3], [2, 3]), ([7, 1], []), ([], [])],
)
def test_the_size_from_which_a_tree_has_each_node_of_a_text_s_path(following, sizes):
    assert sizes_needed(HAND, following) == sizes


def test_equal_scores_are_kept_in_the_order_of_nodes():
    assert sizes_needed(DraftTree([0, 1, 2], [-1, 0, 0], [0.0, -1.0, -1.0]), [2]) == [3]


def test_of_siblings_with_one_token_the_first_is_walked_in_tuning_too():
    tree = DraftTree([9, 1, 1, 2], [-1, 0, 0, 1], [0.0, -1.0, -0.5, -1.5])
    assert walk(tree, [1, 2, 7, 7], lambda token, count: False) == ([1, 3], 7)
    assert sizes_needed(tree, [1, 2]) == [3, 4]


class Scripted:
    """Drafts from a table: root -> its children's tokens in falling order of score, each a chain of tokens."""

    def __init__(self, settings):
        self.asked = []

    def draft(self, context: Context) -> DraftTree:
        root = context.tokens[-1]
        self.asked.append((root, len(context.features)))
        tree = {10: [[11, 12]], 13: [[99], [14]], 15: [[99], [98], [97]], 12: [[13]]}.get(root, [])
        tokens, parents, scores = [root], [-1], [0.0]
        for rank, chain in enumerate(tree, start=1):
            for step, token in enumerate(chain):
                parents.append(len(tokens) - 1 if step else 0)
                tokens.append(token)
                scores.append(-float(rank + step))
        return DraftTree(tokens, parents, scores)


def test_rounds_are_replayed_from_place_to_place():
    text = Text([1, 2, 10, 11, 12, 13, 14, 15, 16], start=2, stop=8, features=torch.zeros(9, 4))
    made = []
    trial = Rehearsal(lambda settings: made.append(Scripted(settings)) or made[-1], TreeSettings(2, 2, 3), (2, 3))
    list(trial.read(text, time.perf_counter))
    # with two nodes rounds begin at 10, 12, 14 and 15; with three at 10, 13 and 15, as 11 12 and 14 are in the tree
    assert (trial.rounds[2], trial.tokens[2]) == (4, 6)
    assert (trial.rounds[3], trial.tokens[3]) == (3, 6)
    assert made[0].asked == [(10, 2), (12, 2), (13, 1), (14, 1), (15, 1)]
    assert trial.texts == 1 and trial.times == [TICK] * 4  # the first read the prompt


@pytest.mark.parametrize("name", ["eagle2", "jakiro"])
def test_a_cut_is_the_tree_that_the_drafter_builds_at_that_size(target, name):
    make, ids = make_of(target, name), [5, 17, 230, 41, 5, 17]
    features = target.prefill(torch.tensor(ids), target.new_cache(len(ids)))[1].detach()[:-1]

    def draft(total: int) -> DraftTree:
        settings = METHODS[name].settings(top_k=6, depth=3, total_tokens=total)
        return make(settings).draft(Context(ids, features, room=9))

    def paths(tree: DraftTree, nodes) -> set[tuple[int, ...]]:
        return {tree.paths()[node] for node in nodes}

    wide = draft(60)
    for total in (2, 4, 7, 12, 30):
        own = draft(total)
        best = sorted(range(1, 60), key=lambda node: (-wide.scores[node], node))[: total - 1]
        assert paths(wide, best) == paths(own, range(1, total))


@pytest.mark.parametrize(
    ("name", "shape", "sampling", "coupled"),
    [
        ("eagle2", (60, 2), GREEDY, False),
        ("eagle2", (8, 3), GREEDY, False),
        ("jakiro", (60, 2), GREEDY, False),
        ("jakiro", (40, 3), GREEDY, False),
        ("jakiro", (60, 2), SAMPLED, False),
        ("jakiro", (60, 2), SAMPLED, True),
    ],
)
def test_replayed_rounds_are_those_of_decoding(target, name, shape, sampling, coupled):
    make = make_of(target, name)
    settings = METHODS[name].settings(top_k=shape[0], depth=shape[1], total_tokens=60, coupled=coupled)
    texts = rehearsal.write(target, lambda: make(settings), examples(3), sampling)[0][::2]
    totals = (2, 8, 20, 60)
    trial = Rehearsal(make, settings, totals)
    for text in texts:
        rehearse(target, [trial], text)
    for total in totals:
        rounds, tokens = decoded(target, make, replace(settings, total_tokens=total), sampling, texts)
        assert (trial.rounds[total], trial.tokens[total]) == (rounds, tokens)
    assert trial.tokens[60] > trial.rounds[60] or shape[0] < 10, "some draft was accepted"


def decoded(target, make, settings, sampling, texts) -> tuple[int, int]:
    """Rounds that begin where those of a trial do, and their tokens, by the engine itself."""
    rounds = tokens = 0
    for text in texts:
        budget, at = len(text.ids) - text.start, text.start
        _, *steps = decode(target, make(settings), text.ids[: text.start], budget, sampling, inspect=False)
        for step in steps:
            assert text.ids[at + 1 :][: len(step.emitted)] == step.emitted
            if at < text.stop:
                rounds, tokens = rounds + 1, tokens + len(step.emitted)
            at += len(step.emitted)
    return rounds, tokens


def test_texts_are_the_target_s_own_and_leave_a_tail(target):
    make = make_of(target, "eagle2")
    texts, overhead = rehearsal.write(target, lambda: make(TreeSettings(2, 2, 4)), examples(3))
    assert len(texts) > 1 and overhead > 0
    for text in texts:
        answer = len(text.ids) - text.start
        assert answer == rehearsal.LENGTH + rehearsal.TAIL and text.stop == text.start + rehearsal.LENGTH
        alone = target.model.generate(torch.tensor([text.ids[: text.start]]), max_new_tokens=answer, do_sample=False)
        assert alone[0].tolist() == text.ids and len(text.features) == len(text.ids)


def test_a_context_too_short_for_the_examples_is_said(target, monkeypatch):
    monkeypatch.setattr(rehearsal, "LENGTH", 1000)
    with pytest.raises(ValueError, match=r"answers none of the prompts .* choose shorter or other prompts"):
        rehearsal.write(target, lambda: make_of(target, "eagle2")(TreeSettings()), examples())


# ---- costs and choice


def test_costs_between_and_beyond_measured_sizes():
    curve = [(1, 1.0), (4, 2.5), (8, 2.5), (16, 4.5)]
    assert [cost(curve, nodes) for nodes in (1, 2, 4, 6, 12, 20)] == [1.0, 1.5, 2.5, 2.5, 3.5, 5.5]


def test_a_measured_curve_that_falls_is_levelled():
    assert rising([(1, 1.0), (2, 4.0), (4, 2.0), (8, 3.0), (16, 5.0)]) == [(1, 1.0), (2, 3), (4, 3), (8, 3), (16, 5.0)]
    assert rising([(1, 3.0), (2, 2.0), (4, 1.0)]) == [(1, 2.0), (2, 2.0), (4, 2.0)]


def test_a_curve_is_corrected_by_what_was_timed_between_drafts():
    alone = [(1, 1.0), (2, 2.0), (4, 4.0), (8, 6.0)]
    assert corrected(alone, {4: 6.0}) == [(1, 1.5), (2, 3.0), (4, 6.0), (8, 9.0)]
    assert corrected(alone, {4: 6.0, 6: 10.0, 8: 18.0}) == [(1, 2.0), (2, 4.0), (4, 6.0), (6, 10.0), (8, 18.0)]


def test_sizes_that_may_be_the_best_of_all_are_timed_further():
    rates = {(2, 2, 4): 90.0, (2, 2, 60): 100.0, (3, 2, 6): 89.0, (3, 2, 12): 95.0}  # 2, 2 has 7 nodes at most
    assert close([Point(*tree, 3, 10, 2.0, 1.0, rate) for tree, rate in rates.items()]) == [4, 7, 12]


@pytest.mark.parametrize(("prefix", "length"), [(25, 25), (3000, CONTEXT - 8), (0, 1)])
def test_verify_cost_takes_every_size_after_a_prefix(target, monkeypatch, prefix, length):
    lengths, real = set(), Target.score
    monkeypatch.setattr(Target, "score", lambda *given: lengths.add(given[-1].length) or real(*given))
    assert list(rehearsal.verify_cost(target, (1, 3, 8), repeats=2, prefix=prefix)) == [1, 3, 8]
    assert lengths == {length}


def test_a_pass_is_timed_with_the_picks_of_the_sampling(target, monkeypatch):
    """Those of a walk, for places that move on, so that noise is made as in a run."""
    hot, asked = Sampling(0.8, 0.9, seed=3), []

    def noted(logits, positions, sampling, noise):
        assert sampling == hot and noise.temperature == 0.8
        asked.extend(positions)
        return pick(logits, positions, sampling, noise)

    monkeypatch.setattr(verify, "pick", noted)
    rehearsal.verify_cost(target, (1, 4), repeats=2, prefix=10, sampling=hot)
    roots = range(11, 11 + 2 * 12, 2)  # of three turns, each with two passes over one node and two over four
    assert asked == [at + depth for turn, at in enumerate(roots) for depth in range(1 + turn // 2 % 2)]


def test_passes_are_timed_at_the_texts_mean_length(target, small, monkeypatch):
    lengths, real, written = set(), Target.score, []
    monkeypatch.setattr(tuning, "write", lambda *given: written.append(rehearsal.write(*given)) or written[-1])
    for name in ("verify_cost", "together"):
        monkeypatch.setattr(tuning, name, watching(getattr(tuning, name), lengths, real, monkeypatch))
    Tuner(target).tuning("eagle2", make_of(target, "eagle2"), TreeSettings(**ALL))
    [(texts, _)] = written
    assert lengths == {round(sum(text.start + text.stop for text in texts) / 2 / len(texts))}


def watching(timing, lengths, real, monkeypatch):
    """The same, with the lengths of the text at which its passes are made."""

    def timed(*given, **named):
        with monkeypatch.context() as patch:
            patch.setattr(Target, "score", lambda *those: lengths.add(those[-1].length) or real(*those))
            return timing(*given, **named)

    return timed


def test_a_pass_is_timed_without_the_recording_of_its_program(target, monkeypatch):
    real = Target.score
    monkeypatch.setattr(programs._pause, "seconds", 0.0)

    def recorded_first(*given):
        start = time.perf_counter()
        programs._pause.seconds += time.perf_counter() - start + TICK  # all that the clock has gone on by
        return real(*given)

    monkeypatch.setattr(Target, "score", recorded_first)
    assert rehearsal.verify_cost(target, (1, 3), repeats=2) == {1: TICK, 3: TICK}


def planted(top_k: int, depth: int, draft: float, rounds: dict[int, int], tokens: int = 60) -> Rehearsal:
    trial = Rehearsal(None, TreeSettings(top_k, depth, max(rounds)), tuple(rounds))
    trial.texts, trial.times, trial.rounds = 1, [draft], rounds
    trial.tokens = dict.fromkeys(rounds, tokens)
    return trial


def test_the_choice_is_the_most_tokens_a_second():
    flat, steep = [(1, 10.0), (60, 10.0)], [(1, 10.0), (61, 70.0)]
    trials = [planted(4, 2, 1.0, {4: 40, 21: 30}), planted(10, 6, 6.0, {4: 36, 60: 20})]
    chosen = {}
    for name, curve in (("flat", flat), ("steep", steep)):
        points = ranked([point for trial in trials for point in expected(trial, curve, 1.0)])
        assert all(one.tokens_per_s == pytest.approx(one.tau / one.seconds) for one in points)
        chosen[name] = points[0]
    # flat: 1.5/12, 2/12, 1.67/17, 3/17; steep, at 4, 21 and 60 nodes 13, 30 and 69 a pass: 1.5/15, 2/32, 1.67/20, 3/76
    assert chosen["flat"] == Point(10, 6, 60, 1, 20, 3.0, 17.0, pytest.approx(3 / 17))
    assert chosen["steep"] == Point(4, 2, 4, 1, 40, 1.5, 15.0, pytest.approx(0.1))


def test_a_tree_costs_what_its_nodes_cost_not_what_it_may_have():
    [point] = expected(planted(2, 2, 1.0, {60: 30}), [(1, 1.0), (61, 61.0)], 0.0)
    assert pool(2, 2) == 6 and point.total_tokens == 60 and point.seconds == 1.0 + 7.0


def test_rounds_that_copy_cost_no_draft_and_a_pass_over_what_they_copied(target):
    make, settings = make_of(target, "eagle2"), TreeSettings(2, 1, 20, lookup=1)
    text = rehearsal.write(target, lambda: make(settings), examples(1))[0][0]
    trial = Rehearsal(make, settings, (8, 20))
    rehearse(target, [trial], replace(text, ids=[7, 8, 9, 10] * 30, start=20, stop=40))  # a loop: all is copied
    curve = [(1, 1.0), (61, 61.0)]
    assert trial.rounds == {8: 3, 20: 1} and [one.seconds for one in expected(trial, curve, 0.5)] == [8.5, 20.5]
    trial.rounds[20], trial.times = 4, [1.0]  # as if three more had drafted three nodes each
    assert expected(trial, curve, 0.5)[1].seconds == (20.0 + 3 * (1.0 + 3.0)) / 4 + 0.5
    rehearsal.together(target, [trial], [text], (1, 3))
    drafted = [at for at in range(text.start, text.stop) if text.ids[at] not in text.ids[:at]]
    assert len(trial.times) == len(drafted) - 1  # the first read the prompt


def test_the_slower_half_leaves_after_each_text(target, monkeypatch):
    trials = [planted(top_k, 2, draft, {4: 30}) for top_k, draft in ((1, 8.0), (2, 1.0), (3, 4.0), (4, 2.0), (5, 9.0))]
    seen = []

    def read(target, live, text, pulse):
        seen.append({trial.settings.top_k for trial in live})
        for trial in live:
            trial.texts += 1

    monkeypatch.setattr(tuning, "rehearse", read)
    monkeypatch.setattr(tuning, "FINALISTS", 1)
    last = compare(target, trials, ["one", "two", "three"], [(1, 1.0), (4, 1.0)], 0.0)
    assert [trial.settings.top_k for trial in last] == [2]
    assert seen == [{1, 2, 3, 4, 5}, {2, 4}, {2}]
    assert ranked([point for trial in trials for point in expected(trial, [(1, 1.0), (4, 1.0)], 0.0)])[0].top_k == 2


def test_costs_are_those_of_drafts_and_passes_in_turn(target, monkeypatch):
    make, settings, order = make_of(target, "eagle2"), TreeSettings(2, 2, 5), []
    text = rehearsal.write(target, lambda: make(settings), examples(1))[0][0]
    for kind, name in ((HeadDrafter, "draft"), (Target, "score")):
        real = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *given, name=name, real=real: order.append(name) or real(*given))
    trial = Rehearsal(make, settings, [5])
    trial.times = [100.0]  # as it was alone
    rounds = text.stop - text.start
    found = rehearsal.together(target, [trial], [text] * 5, (1, 3), repeats=rounds)  # which four of the texts have
    assert order == ["draft", "score"] * rehearsal.TURN * 2 * rounds and list(found) == [1, 3]
    assert len(trial.times) == 4 * (rounds - 1) and 100.0 not in trial.times
    short = replace(text, stop=text.start + 1)
    assert list(rehearsal.together(target, [trial], [short], (1, 3, 5))) == [1, 3, 5]  # all, however short the text


def test_the_grid_keeps_numbers_and_what_the_method_allows():
    shapes = [(one.settings.top_k, one.settings.depth) for one in candidates(None, JakiroSettings(7, AUTO, AUTO))]
    assert shapes == [(7, depth) for depth in tuning.DEPTHS if depth > 1]  # contrastive takes two levels
    off = JakiroSettings(AUTO, AUTO, 33, contrastive=False)
    trials = list(candidates(None, off))
    assert {one.totals[0] for one in trials} == {33} and not any(one.settings.contrastive for one in trials)
    assert len(trials) == len(tuning.TOP_KS) * len(tuning.DEPTHS)
    [lone] = candidates(None, TreeSettings(2, 2, AUTO))
    assert lone.totals == [2, 4, 6, 7]  # two children of the root and their two each: no tree is larger


# ---- the whole


def test_measuring_can_be_ended_and_begun_again(target, small):
    """Within the passes that are timed first, the writing of texts, and their replays."""
    asked = ("eagle2", make_of(target, "eagle2"), TreeSettings(**ALL))
    whole = Tuner(target).resolved(*asked)
    for pulses in (3, 40, 120):
        tuner, done = Tuner(target), []

        def pulse(done=done, pulses=pulses):
            done.append(len(done))
            if len(done) == pulses:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            tuner.resolved(*asked, pulse=pulse)
        assert not tuner.found and tuner.resolved(*asked) == whole


@pytest.mark.parametrize("name", with_trees())
def test_auto_becomes_numbers_once(target, small, name):
    tuner, make = Tuner(target), make_of(target, name)
    settings = METHODS[name].settings(**(ALL | {"depth": 2}))
    assert tuner.waits(name, settings)
    resolved = tuner.resolved(name, make, settings)
    assert resolved.depth == 2 and resolved == replace(
        settings, top_k=resolved.top_k, total_tokens=resolved.total_tokens
    )
    assert resolved.top_k in (2, 3) and type(resolved.total_tokens) is int
    found = tuner.tuning(name, make, settings)
    assert found is tuner.tuning(name, make, settings) and not tuner.waits(name, settings)
    assert tuner.resolved(name, None, resolved) is resolved
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["settings"]["top_k"] == AUTO
    assert found.chosen == found.points[0] and found.chosen.texts == max(one.texts for one in found.points)


def test_measuring_again_finds_the_same(target, small):
    one, two = (Tuner(target).tuning("eagle2", make_of(target, "eagle2"), TreeSettings(**ALL)) for _ in range(2))
    assert one == two


def test_each_way_to_sample_has_its_own_tree(target, small, monkeypatch):
    """Measured on answers that are sampled so. The seed is no such way, nor is top_p where nothing is sampled."""
    written = []
    monkeypatch.setattr(tuning, "write", lambda *given: written.append(rehearsal.write(*given)) or written[-1])
    tuner, asked = Tuner(target), ("eagle2", make_of(target, "eagle2"), TreeSettings(**ALL))
    greedy, sampled = (tuner.tuning(*asked, sampling) for sampling in (GREEDY, SAMPLED))
    assert tuner.tuning(*asked) is greedy and (sampled.temperature, sampled.top_p) == (0.5, 0.9)
    assert tuner.tuning(*asked, replace(SAMPLED, seed=7)) is sampled
    assert tuner.tuning(*asked, Sampling(top_p=0.5, seed=7)) is greedy
    likeliest, drawn = ([text.ids for text in texts] for texts, _ in written)
    assert [ids[:2] for ids in likeliest] == [ids[:2] for ids in drawn] and likeliest != drawn
    assert {sampling for _, sampling in tuner._written} == {SAMPLED}, "of the texts the latest are enough"
    assert tuner.waits("eagle2", asked[2], Sampling(0.5)) and not tuner.waits("eagle2", asked[2], SAMPLED)


def test_the_latest_measurements_are_kept(target, small, monkeypatch):
    monkeypatch.setattr(tuning, "KEPT", 2)
    tuner, asked = Tuner(target), ("eagle2", make_of(target, "eagle2"), TreeSettings(2, 2, AUTO))
    for heat in (0, 0.5, 1):
        tuner.resolved(*asked, Sampling(heat))
    assert [one.temperature for one in tuner.found.values()] == [0.5, 1]


def test_each_way_to_sample_has_its_own_cost_of_a_pass(target, small, monkeypatch):
    samplings, real = [], tuning.verify_cost
    monkeypatch.setattr(
        tuning, "verify_cost", lambda *given, **named: samplings.append(named["sampling"]) or real(*given, **named)
    )
    tuner, asked = Tuner(target), ("eagle2", make_of(target, "eagle2"))
    for size in (AUTO, 5):
        for heat in (0, 0.8):
            tuner.resolved(*asked, TreeSettings(2, AUTO, size), Sampling(heat, seed=4))
    assert samplings == [Sampling(), Sampling(0.8)] * 2  # the latest is remembered


def test_auto_keeps_clear_of_depths_that_a_setting_refuses(target, small, monkeypatch):
    """The default tree of a CPU has two levels, and the released mix-up of rows needs three."""
    monkeypatch.setattr(tuning, "DEPTHS", (1, 2, 3))
    made = Tuner(target).resolved("jakiro", make_of(target, "jakiro"), JakiroSettings(**ALL, aligned=False))
    assert made.depth == 3 and not made.aligned


def test_methods_share_what_belongs_to_the_target(target, small, monkeypatch):
    calls = []

    def counted(name, real, *given, **named):
        calls.append(name)
        return real(*given, **named)

    for name in ("write", "verify_cost"):
        monkeypatch.setattr(tuning, name, partial(counted, name, getattr(tuning, name)))
    loaded = bench.load_methods(target, ["vanilla", "eagle2", "jakiro", "eagle3"], ALL)
    assert sorted(calls) == ["verify_cost", "write", "write"]  # EAGLE-3 reads other features of the same texts
    assert all(type(getattr(loaded[name][1], size)) is int for name in ("eagle2", "jakiro", "eagle3") for size in SIZES)


def test_a_drafter_is_made_from_numbers(target):
    with pytest.raises(ValueError, match="depth must be a number here, not auto: "):
        make_of(target, "eagle2")(TreeSettings(depth=AUTO))


# ---- command line, race, figure, benchmark


def run(folder, *arguments) -> int:
    return main([arguments[0], "--target", str(folder), *map(str, arguments[1:])])


def test_a_trace_stores_the_numbers(folder, small, tmp_path):
    out, chosen = tmp_path / "t.json", [part for size in SIZES for part in ("--set", f"{size}=auto")]
    more = ["--method", "jakiro", "--prompt", "the ant", "--max-new-tokens", 8, *chosen]
    assert run(folder, "trace", *more, "--out", out) == 0
    stored = trace.load(out).settings
    assert stored["top_k"] in (2, 3) and stored["depth"] == 2 and type(stored["total_tokens"]) is int


def test_tune_prints_and_writes_what_it_found(folder, small, tmp_path, capsys):
    out = tmp_path / "tuning.json"
    heat = ["--temperature", 0.7, "--top-p", 0.9]
    assert run(folder, "tune", "--method", "eagle2", "--set", "depth=2", *heat, "--out", out) == 0
    found, printed = json.loads(out.read_text()), capsys.readouterr().out
    usual = {"depth": 2, "draft_temperature": 1.0, "coupled": False, "lookup": 0}
    assert found["schema"] == "jakiro-tuning/1" and found["settings"] == ALL | usual
    assert {"machine", "versions", "command", "verify", "draft", "overhead_s"} <= found.keys()
    assert f"temperature 0.7: top_k {found['chosen']['top_k']}, depth 2, total_tokens" in printed
    assert "over one" in printed and (found["temperature"], found["top_p"]) == (0.7, 0.9)


@pytest.mark.parametrize("command", ["tune", "bench"])
def test_what_is_auto_is_measured_on_a_few_of_the_prompts_asked_for(folder, small, tmp_path, monkeypatch, command):
    file, answered = tmp_path / "asked.jsonl", []
    file.write_text("".join(json.dumps({"turns": [f"the ant {at}"]}) + "\n" for at in range(9)))
    monkeypatch.setattr(tuning, "TEXTS", 3)
    monkeypatch.setattr(tuning, "write", lambda *given: answered.extend(given[2]) or rehearsal.write(*given))
    more = {
        "tune": ["--method", "eagle2", "--set", "depth=2"],
        "bench": ["--methods", "eagle2", "--max-new-tokens", 8, "--set", "total_tokens=auto"],
    }[command]
    assert run(folder, command, *more, "--prompts", file, "--limit", 6, "--out", tmp_path / "out.json") == 0
    assert [one.text for one in answered] == ["the ant 0", "the ant 2", "the ant 4"]


@pytest.mark.parametrize(("command", "heats", "asked"), [("trace", [0.8], 0.8), ("bench", [1, 0.5], 0.5)])
def test_what_is_auto_is_measured_as_it_is_sampled(folder, tmp_path, capsys, monkeypatch, command, heats, asked):
    """Of several temperatures at the lowest. A benchmark says what it came to, and on which prompts."""
    seen = []

    def resolved(tuner, method, make, settings, sampling):
        seen.append(sampling.temperature)
        return replace(settings, top_k=2) if autos(settings) else settings

    monkeypatch.setattr(Tuner, "resolved", resolved)
    line = {
        "trace": ["--method", "eagle2", "--prompt", "the ant"],
        "bench": ["--methods", "vanilla,eagle2", "--limit", 1],
    }[command]
    more = ["--set", "top_k=auto", "--max-new-tokens", 4, "--temperature", *heats, "--out", tmp_path / "out.json"]
    assert run(folder, command, *line, *more) == 0
    assert set(seen) == {asked}
    told = "Chosen by auto on some of these prompts: eagle2: top_k 2\n" in capsys.readouterr().out
    assert told == (command == "bench")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "vanilla"], f"vanilla has no draft tree to tune; those that have one: {', '.join(with_trees())}"),
        (["--method", "prompt_lookup", "--set", "depth=3"], "prompt_lookup has no draft tree to tune"),
        (["--method", "nobody"], "unknown method 'nobody'"),
        (["--method", "eagle2", *(part for size in SIZES for part in ("--set", f"{size}=3"))], "nothing is auto"),
        (["--method", "eagle2", "--out", "."], "cannot write"),
    ],
)
def test_tune_says_what_is_wrong(folder, capsys, arguments, message):
    assert run(folder, "tune", *arguments) == 2
    assert message in capsys.readouterr().err


def test_an_interrupted_bench_goes_on_with_the_tree_that_it_was_begun_with(folder, small, tmp_path, monkeypatch):
    """Another measurement might choose another."""
    out, real, groups = tmp_path / "bench.json", bench.Benchmark.group, []

    def group(*given):
        groups.append(given)
        if len(groups) == bench.WARM_UP + 2:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(bench.Benchmark, "group", group)
    more = ["--methods", "vanilla,eagle2", "--limit", 3, "--max-new-tokens", 6, "--out", out]
    line = ["bench", *more, *(part for size in SIZES for part in ("--set", f"{size}=auto"))]
    assert run(folder, *line) == 130
    begun = groups[-1][0].methods["eagle2"][1]
    monkeypatch.setattr(Tuner, "tuning", None)
    assert run(folder, *line[:-1], "total_tokens=4") == 2, "another benchmark's"
    assert run(folder, *line) == 0
    assert groups[-1][0].methods["eagle2"][1] == begun and not autos(begun)
    report = json.loads(out.read_text())
    assert report["settings"]["eagle2"] == asdict(begun) and {row["prompts"] for row in report["rows"]} == {3}


def test_a_race_measures_before_its_lanes_are_timed(target, small, monkeypatch):
    monkeypatch.setattr(target, "tapes", None)  # while one is made this clock, which goes on when read, does not stop
    models = load(target)
    changes = {"eagle2": dict(ALL), "jakiro": {"depth": 2}}
    asked = ("the an the", ["vanilla", "eagle2", "jakiro"], 12, 0, 1, 0, changes)
    race = Race(models, check(models, *asked))
    assert race.untuned() == ["eagle2"]
    lines = list(events(race, "live"))
    traces = race.traces()
    assert race.untuned() == [] and all(one.tokens == traces[0].tokens for one in traces)
    assert traces[1].settings == asdict(race.settings["eagle2"]) and AUTO not in traces[1].settings.values()
    assert race.request.settings["eagle2"].depth == AUTO
    spent = {line["lane"]: line["at"] for line in lines if line["event"] == "tokens"}
    assert spent[1] == TICK * (1 + 4 * len(traces[1].steps)), "ticks of its own rounds only"
    assert Race(models, check(models, *asked)).untuned() == []
    sampled = Race(models, check(models, *asked[:3], 0.5, 1, 0, changes))
    assert sampled.untuned() == ["eagle2"]
    list(sampled.rounds())
    assert sampled.untuned() == [] and sampled.traces()[1].temperature == 0.5


def test_the_figure_shows_the_curve_and_marks_the_choice():
    points = [
        Point(2, 2, 4, 3, 20, 2.0, 0.02, 100.0),
        Point(2, 2, 7, 3, 18, 2.2, 0.02, 110.0),
        Point(3, 2, 7, 3, 18, 2.4, 0.02, 120.0),
        Point(9, 9, 7, 1, 5, 9.0, 0.02, 450.0),  # left after one text
    ]
    found = tuning.Tuning(
        "eagle2", "t", "cpu", "float32", ALL, [(1, 0.01), (8, 0.03)], [(2, 2, 0.001)], 0.0, points, points[2]
    )
    printed = tuning.as_text(found)
    assert "120.0" in printed and "450.0" not in printed
    for data in (asdict(found), json.loads(json.dumps(asdict(found)))):
        figure = tuning_figure(data)
        curve, speed, star = figure["data"]
        assert (curve["x"], curve["y"]) == ([1, 8], [1, 3])
        assert (speed["x"], speed["y"]) == ([4, 7], [100, 120])
        assert (star["x"], star["y"]) == ([7], [120]) and "top_k 3, depth 2" in star["text"][0]
        assert star["text"][0].endswith("tau 2.40 in 20.0 ms: 120 tokens/s")
        for theme in ("light", "dark"):
            go.Figure(paint({"data": figure["data"], "layout": figure["layout"]}, theme))


@pytest.fixture
def asked(tmp_path):
    """A file of prompts, as an option."""
    file = tmp_path / "asked.jsonl"
    file.write_text("".join(json.dumps({"turns": [text]}) + "\n" for text in ("the ant", "the cat", "a hill")))
    return ["--prompts", str(file)]


def test_the_benchmark_compares_auto_with_a_grid(folder, small, asked, tmp_path, capsys, monkeypatch):
    out = tmp_path / "auto.json"
    sizes = ["--top-k", "2", "--depth", "2", "--total-tokens", "4", "6", "--repeats", "1", "--limit", "2"]
    more = ["--target", str(folder), "--method", "eagle2", *sizes, "--max-new-tokens", "8", "--out", str(out)]
    assert auto.main([*more, *asked, "--limit", "3"]) == 2
    assert "no file has more than 3 prompts: auto is tuned on others, so lower --limit" in capsys.readouterr().err
    answered = []
    monkeypatch.setattr(tuning, "write", lambda *given: answered.extend(given[2]) or rehearsal.write(*given))
    assert auto.main([*more, *asked]) == 0
    assert [one.text for one in answered] == ["a hill"]
    report = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == report
    speed = {row["tree"]: row["tokens_per_s"] for row in report["rows"]}
    assert speed.keys() == {"vanilla", "auto", "top_k 2, depth 2, 4 nodes", "top_k 2, depth 2, 6 nodes"}
    chosen = TreeSettings(**{name: report["tuning"]["chosen"][name] for name in SIZES})
    assert report["chosen"] == auto.label(chosen)
    assert report["over_best"] == auto.over_best(speed, chosen, [TreeSettings(2, 2, total) for total in (4, 6)])
    assert {"machine", "versions", "command", "tuning"} <= report.keys()


def test_the_benchmark_is_for_methods_with_a_tree(folder, asked, capsys):
    assert auto.main(["--target", str(folder), "--method", "vanilla", *asked]) == 2
    known = ", ".join(with_trees())
    assert f"vanilla has no draft tree to tune; those that have one: {known}" in capsys.readouterr().err


def test_auto_s_choice_and_the_same_tree_of_the_grid_count_as_one():
    fixed = [TreeSettings(2, 2, 6), TreeSettings(2, 2, 9), TreeSettings(5, 2, 9)]
    speed = {"auto": 90.0} | dict(zip(map(auto.label, fixed), (99.0, 110.0, 80.0), strict=True))
    assert auto.over_best(speed, TreeSettings(3, 2, 6), fixed) == pytest.approx(90 / 110)
    assert auto.over_best(speed, TreeSettings(2, 2, 6), fixed) == pytest.approx((90 + 99) / 2 / 110)
    assert auto.over_best(speed, TreeSettings(2, 2, 9), fixed) == 1.0, "the quickest, by the mean of both figures"
    assert auto.over_best(speed, TreeSettings(2, 2, 7), fixed) == 1.0, "no tree of these has more than seven nodes"
