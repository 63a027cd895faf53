"""Two ways of drafting at the same prefixes: what each drafts there is what it would have drafted in a run."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hand import FIRST, SECOND
from safetensors.torch import load_file, save_file

from jakiro.analysis.pairs import Pair, telling
from jakiro.compare import along
from jakiro.engine import record
from jakiro.heed import heedless
from jakiro.methods import METHODS, meet, with_trees
from jakiro.models.hub import signed
from jakiro.target import Target
from jakiro.trace import same_drafter, walk_positions
from jakiro.tree import DraftTree
from jakiro.ui import models
from jakiro.ui.comparing import _other_heads, compare, summary
from jakiro.ui.figures.looks import lane_looks
from jakiro.ui.figures.overlay import _patch, overlay
from jakiro.ui.library import Library
from jakiro.ui.live import branches, comparisons
from jakiro.ui.models import RequestError
from jakiro.ui.replay import titled
from jakiro.ui.why import whys
from jakiro.verify import Sampling

PROMPT = [5, 17, 3, 250, 99]


def drafter(target, name, **settings):
    method = METHODS[name]
    return method.load(target)(method.settings(**settings))


TREE = {"top_k": 4, "depth": 3, "total_tokens": 12}


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("name", with_trees())
def test_at_the_roots_of_a_run_the_drafts_are_the_runs_own(target, name, temperature):
    trace = record(target, drafter(target, name, **TREE), PROMPT, 20, Sampling(temperature, 1.0, 3))
    steps = along(target, drafter(target, name, **TREE), trace)
    assert len(steps) == len(trace.tokens) - 1
    for start, own in list(walk_positions(trace))[:-1]:  # the last one has less room
        here = steps[start - 1]
        assert (here.tree.tokens, here.tree.parents) == (own.tree.tokens, own.tree.parents)
        assert here.accepted == own.accepted and here.bonus == own.bonus
        assert here.target_logprobs == pytest.approx(own.target_logprobs, abs=1e-3)
        assert here.tree.columns["pick"] == own.tree.columns["pick"]


@pytest.mark.parametrize("most", [20, 60])
def test_to_the_end_of_a_finished_text_the_drafts_are_the_runs_own(target, monkeypatch, most):
    text = record(target, drafter(target, "vanilla"), PROMPT, 20, Sampling()).tokens
    monkeypatch.setattr(target, "ends", frozenset({text[18]}))
    trace = record(target, drafter(target, "eagle2", **TREE), PROMPT, most, Sampling())
    assert trace.stop == "eos"
    steps = along(target, drafter(target, "eagle2", **TREE), trace)
    for start, own in walk_positions(trace):
        assert (steps[start - 1].tree.tokens, steps[start - 1].tree.parents) == (own.tree.tokens, own.tree.parents)


def test_a_run_that_was_stopped_goes_on_as_it_would_have(target):
    whole = record(target, drafter(target, "eagle2", **TREE), PROMPT, 20, Sampling())
    stopped = replace(whole, steps=whole.steps[:3], stop="stopped")
    found = along(target, drafter(target, "eagle2", **TREE), stopped)
    assert len(found) == len(stopped.tokens) - 1
    for own, here in zip(along(target, drafter(target, "eagle2", **TREE), whole), found, strict=False):
        assert (own.accepted, own.bonus) == (here.accepted, here.bonus)


def test_the_columns_are_of_the_text_though_another_sampler_wrote_it(target):
    trace = replace(record(target, drafter(target, "vanilla"), PROMPT, 12, Sampling(1.5, 1.0, 3)), temperature=0.0)
    ids = trace.prompt + trace.tokens
    logprobs = target.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    assert logprobs.argmax(-1).tolist()[len(PROMPT) : -1] != trace.tokens[1:]
    for place, step in enumerate(along(target, drafter(target, "jakiro", **TREE), trace)):
        columns, stop = step.tree.columns, len(PROMPT) + place + len(step.accepted)
        assert [columns["pick"][node] for node in (0, *step.accepted)] == step.emitted
        assert columns["pick_logprob"][step.stop_node] == pytest.approx(logprobs[stop, step.bonus].item(), abs=1e-3)


def test_vanilla_proposes_nothing_anywhere(target):
    trace = record(target, drafter(target, "jakiro", **TREE), PROMPT, 8, Sampling())
    steps = along(target, drafter(target, "vanilla"), trace, most=3)
    assert [step.accepted for step in steps] == [[], [], []]
    assert [step.bonus for step in steps] == trace.tokens[1:4]


def test_another_targets_run_is_refused(target):
    trace = record(target, drafter(target, "vanilla"), PROMPT, 4, Sampling())
    with pytest.raises(ValueError, match="recorded with other"):
        along(target, drafter(target, "vanilla"), replace(trace, target="other"))


@pytest.mark.parametrize("ids", [{"prompt": []}, {"prompt": [5, 10**9]}, {"prompt": [5] * 100_000}])
def test_a_run_that_the_target_cannot_read_is_refused(target, ids):
    """Anybody may have written it under the target's name; on a GPU such an id would end the process."""
    trace = record(target, drafter(target, "vanilla"), PROMPT, 4, Sampling())
    with pytest.raises(ValueError, match="cannot read this run"):
        along(target, drafter(target, "vanilla"), replace(trace, **ids))


def test_paths_tell_nodes_apart():
    tree = DraftTree([7, 1, 2, 1, 3], [-1, 0, 0, 2, 3], [0.0] * 5)
    assert tree.paths() == [(7,), (7, 1), (7, 2), (7, 2, 1), (7, 2, 1, 3)]
    assert tree.along([2, 1, 3, 9]) == [2, 3, 4] and tree.along([2, 9]) == [2] and tree.along([]) == []


def test_a_place_counts_what_both_have_and_what_either_covers():
    smaller = replace(FIRST, tree=DraftTree([10, 11], [-1, 0], [0.0, -0.7]), accepted=[1], target_logprobs=[0.0, -0.7])
    place = Pair((FIRST, smaller))
    assert place.reach == (2, 1) and place.shared == 1
    assert place.coverage() == [pytest.approx((0.75, 0.4966), abs=1e-3), pytest.approx((0.5, 0.0), abs=1e-3)]


def test_the_telling_places_come_first():
    same, apart = Pair((SECOND, SECOND)), Pair((FIRST, SECOND))
    smaller = replace(SECOND, target_logprobs=[one - 1.0 for one in SECOND.target_logprobs])
    close = Pair((SECOND, smaller))  # as far, over less of the target
    assert telling([same, close, apart, same]) == [2] and telling([same, close]) == [1]
    assert telling([same]) == []  # what does not differ does not differ most


@pytest.fixture(scope="module")
def raced(target, tmp_path_factory):
    """Models, a library, and the id of a race of two lanes in it."""
    loaded = models.load(target)
    library = Library(tmp_path_factory.mktemp("traces"))
    runs = [
        record(target, drafter(target, name, **TREE), PROMPT, 14, Sampling(), name, METHODS[name].settings(**TREE))
        for name in ("eagle2", "jakiro")
    ]
    return loaded, library, library.add(runs)


def test_the_page_gets_both_lanes_along_the_text(raced):
    loaded, library, race = raced
    ready = type("Ready", (), {"get": staticmethod(lambda: loaded)})
    asked = comparisons(ready, library, None)({"race": race, "lane": 1, "other": 0, "nonce": 5}, heedless)
    assert asked == {"race": race, "lane": 1, "other": 0}
    found = json.loads(library.comparison(race, 1, 0))
    trace = library.traces(race)[1]
    count = len(trace.tokens) - 1
    assert found["tokens"] == trace.tokens[:count]
    assert all(len(one) == count for one in (*found["reach"], *found["drafted"], found["shared"]))
    assert found["reach"][0][0] == len(trace.steps[0].accepted)
    assert found["why"][0][0] == whys(library.traces(race)[1])[0]  # at a root of the run: its own sentence
    assert all("length cap" not in text for side in found["why"] for text in side)
    for reach, told in zip(found["reach"], found["why"], strict=True):  # where the path fills the text
        ends = [at for at, drafted in enumerate(reach) if at + drafted == count - 1]
        assert ends[-1] == count - 1
        assert [at for at, text in enumerate(told) if text.startswith("The text ends there")] == ends
    assert len(found["figures"]["overlay"]["rounds"]) == len(found["figures"]["coverage"]["rounds"]) == count
    for one in found["figures"]["overlay"]["rounds"]:
        assert len(one["data"]) == len(found["figures"]["overlay"]["template"]["data"])


def test_the_text_of_a_run_that_was_stopped_does_not_end_there(raced):
    loaded, library, race = raced
    eagle, jakiro = library.traces(race)
    other = library.add([eagle, replace(jakiro, steps=jakiro.steps[:3], stop="stopped")])
    told = json.loads(compare(loaded, library, {"race": other, "lane": 1, "other": 0}))["why"]
    assert not any(text.startswith("The text ends there") for side in told for text in side)


def test_a_run_is_drafted_again_by_the_head_that_recorded_it(raced, heads, methods_again):
    """Where that is here under another name, too."""
    loaded, library, race = raced
    eagle, jakiro = library.traces(race)
    meet(["eagle2-mine"])
    mine = {"eagle2-mine": heads["eagle2"]}
    other = Target.wrap(loaded.target.model, heads={"eagle2": heads["jakiro"]} | mine, name=loaded.target.name)
    other.drafters = {folder: signed(folder) for folder in other.heads.values()}
    known = replace(loaded, target=other, makers=loaded.makers | {"eagle2-mine": loaded.makers["eagle2"]})
    assert known.drafting(eagle) == known.drafting(replace(eagle, method="eagle2-gone")) == "eagle2-mine"
    assert known.drafting(replace(eagle, drafter="")) == "eagle2"
    assert known.drafting(replace(eagle, method="eagle2-gone", drafter="")) == "eagle2"
    assert known.drafting(replace(eagle, method="gone")) == "gone" and known.drafting(jakiro) == "jakiro"
    said = json.loads(compare(known, library, {"race": race, "lane": 1, "other": 0}))["summary"]
    assert "EAGLE-2 was recorded" not in said


def test_a_method_whose_head_has_no_name_here_drafts_its_own_runs_again(raced, heads):
    """As one's own that reads its head by itself (CONTRIBUTING.md)."""
    loaded, library, race = raced
    eagle, _ = library.traces(race)
    known = replace(loaded, target=Target.wrap(loaded.target.model, heads=heads, name=loaded.target.name))
    assert known.target.drafters == {}
    assert known.drafting(replace(eagle, drafter="")) == known.drafting(eagle) == "eagle2"


def test_of_heads_in_folders_called_alike_each_drafts_its_own_run_again(raced, tmp_path, methods_again):
    """As two trainings leave them: RUN/heads/eagle2."""
    loaded, library, race = raced
    eagle, _ = library.traces(race)
    meet(["eagle2-mine"])
    both = {"eagle2": tmp_path / "a/heads/eagle2", "eagle2-mine": tmp_path / "b/heads/eagle2"}
    other = Target.wrap(loaded.target.model, heads=both, name=loaded.target.name)
    other.drafters = dict(zip(both.values(), called := ["heads/eagle2@0000000a", "heads/eagle2@0000000b"], strict=True))
    known = replace(loaded, target=other, makers=loaded.makers | {"eagle2-mine": loaded.makers["eagle2"]})
    runs = [replace(eagle, method=name, drafter="heads/eagle2") for name in both]
    assert [known.drafting(one) for one in runs] == [*both]  # of older traces the name tells
    for method in both:
        assert [known.drafting(replace(eagle, method=method, drafter=one)) for one in called] == [*both]


def test_a_head_that_was_trained_anew_in_its_folder_is_another_drafter(raced, heads, tmp_path):
    loaded, *_ = raced
    folder = shutil.copytree(heads["eagle2"], tmp_path / "eagle2")
    target = Target.wrap(loaded.target.model, loaded.target.tokenizer, {"eagle2": folder}, loaded.target.name)
    before = record(target, drafter(target, "eagle2", **TREE), PROMPT, 4, Sampling(), "eagle2")
    weights = load_file(file := next(folder.glob("*.safetensors")))
    save_file({name: 1.5 * tensor for name, tensor in weights.items()}, file)
    known = replace(loaded, target=target, makers={"eagle2": METHODS["eagle2"].load(target)})
    after = record(target, drafter(target, "eagle2", **TREE), PROMPT, 4, Sampling(), "eagle2")
    assert before.drafter.partition("@")[0] == after.drafter.partition("@")[0] and before.drafter != after.drafter
    assert _other_heads([before, after], ["Before", "After"], known) == (
        f" Before was recorded with {before.drafter}, and drafts with {after.drafter} here."
    )
    assert titled([before, after], {}) == [f"eagle2 ({one.drafter})" for one in (before, after)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a/jakiro@0123abcd", "b/mine@0123abcd", True),
        ("a/jakiro@0123abcd", "a/jakiro@0123abce", False),
        ("a/jakiro@0123abcd", "a/jakiro", True),
        ("a/jakiro@0123abcd", "b/jakiro", False),
        ("me@home/jakiro", "me@home/jakiro@0123abcd", True),
        ("a/jakiro@main", "b/jakiro@main", False),
        ("", "a/jakiro@0123abcd", False),
        ("", "", True),
    ],
)
def test_drafters_are_the_same_by_their_weights_or_where_those_are_not_known_by_name(one, other, same):
    assert same_drafter(one, other) is same_drafter(other, one) is same


def test_a_lane_that_another_head_recorded_says_so(raced):
    loaded, library, race = raced
    eagle, jakiro = library.traces(race)
    other = library.add([replace(eagle, drafter="theirs/eagle2"), jakiro])
    said = json.loads(compare(loaded, library, {"race": other, "lane": 1, "other": 0}))["summary"]
    assert "EAGLE-2 was recorded with theirs/eagle2, and drafts with " in said and "Jakiro was recorded" not in said


def test_a_lane_that_learns_from_rejected_nodes_says_that_it_has_none_here(raced):
    loaded, library, race = raced
    eagle, _ = library.traces(race)
    own = replace(eagle, method="token_recycling", settings={}, drafter="")
    other = library.add([eagle, own])
    said = json.loads(compare(loaded, library, {"race": other, "lane": 0, "other": 1}))["summary"]
    assert "Token recycling knows here what the text taught it" in said and "EAGLE-2 knows" not in said


def test_lanes_are_called_what_the_page_calls_them(raced):
    loaded, library, race = raced
    runs = library.traces(race)
    ready = type("Ready", (), {"get": staticmethod(lambda: loaded)})
    branched = branches(ready, library, None)({"race": race, "lane": 1, "round": 1, "rounds": 2}, heedless)
    twice = library.add([runs[1], runs[1]])
    for shown in (race, branched, twice):
        titles = [trace["title"] for trace in json.loads(library.text(shown))["replay"]["traces"]]
        found = json.loads(compare(loaded, library, {"race": shown, "lane": 1, "other": 0}))
        assert found["names"] == titles[::-1] and len(set(titles)) == 2
        assert titles[0] in found["summary"] and titles[1] in json.dumps(found["figures"]["overlay"])


def test_lanes_have_the_colours_that_they_have_in_other_views(raced):
    loaded, library, race = raced
    run = library.traces(race)[1]
    twice = library.add([run, run])
    own, other = (color for color, _ in lane_looks([run.method] * 2))
    bars = json.loads(compare(loaded, library, {"race": twice, "lane": 1, "other": 0}))["figures"]["reach"]["data"]
    assert [bar["marker"]["color"] for bar in bars] == [other, own] and own != other


def test_the_overlay_has_every_node_once_and_tells_whose_it_is(target):
    trace = record(target, drafter(target, "jakiro", **TREE), PROMPT, 10, Sampling())
    first, second = (along(target, drafter(target, name, **TREE), trace)[2] for name in ("jakiro", "eagle2"))
    graph = overlay(trace, first, second)
    pair = Pair((first, second))
    owners = Counter(facts["owner"] for _, facts in graph.nodes(data=True))
    sizes = [len(step.tree) - 1 for step in (first, second)]
    assert owners["both"] == pair.shared
    assert owners["first"] == sizes[0] - pair.shared and owners["second"] == sizes[1] - pair.shared
    assert sum(facts["on"] for _, facts in graph.nodes(data=True)) == max(pair.reach) + 1  # and the token that follows
    hovers = [text for drawn in _patch(graph, 400)["data"] for text in drawn.get("hovertext", [])]
    assert sum("no node and q" in text for text in hovers) == owners["second"]  # it may have been drafted, and cut


def test_the_summary_counts_as_people_do():
    one = Pair((FIRST, SECOND))
    assert "A would have got further at 1 and B at 0;" in summary([one], ["A", "B"], 1)
    assert "A would have got further at 2 and B at 0;" in summary([one] * 2, ["A", "B"], 2)
    begins = [("After the only token of one text,", 1, 1), ("After the first token of one text,", 1, 2)]
    begins += [("After each of 2 tokens of", 2, 2), ("After each of the first 2 tokens of", 2, 3)]
    for begin, places, count in begins:
        assert summary([one] * places, ["A", "B"], count).startswith(begin)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"race": 3}, "name a race"),
        ({"lane": True}, "name a race"),
        ({"other": 9}, "there is no lane 10"),
        ({"other": 10**300}, "there is no lane 1000"),
        ({"race": "kept-none"}, "not kept any more"),
    ],
)
def test_bad_questions_are_told_what_to_do(raced, asked, message):
    loaded, library, race = raced
    with pytest.raises(RequestError, match=message) as caught:
        compare(loaded, library, {"race": race, "lane": 0, "other": 1} | asked)
    assert len(str(caught.value)) < 200


def test_a_lane_whose_settings_are_to_be_measured_is_refused(raced):
    loaded, library, race = raced
    first, second = library.traces(race)
    opened = library.add([first, replace(second, settings=second.settings | {"top_k": "auto"})])
    with pytest.raises(RequestError, match="top_k must be a number here, not auto"):
        compare(loaded, library, {"race": opened, "lane": 0, "other": 1})


def test_a_comparison_that_is_not_kept_is_refused(raced):
    with pytest.raises(RequestError, match="compare them again"):
        raced[1].comparison("other", 0, 1)


def test_lanes_that_draft_along_a_text_heed_every_place(target):
    trace, calls = record(target, drafter(target, "vanilla"), PROMPT, 12, Sampling()), []

    def heed(done):
        calls.append(done)
        if len(calls) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        along(target, drafter(target, "vanilla"), trace, heed=heed)
    assert calls == [0, 1 / 11, 2 / 11]


def test_the_root_is_not_drafted(raced):
    loaded, library, race = raced
    found = json.loads(compare(loaded, library, {"race": race, "lane": 1, "other": 0}))
    assert found["drafted"][0][0] == len(library.traces(race)[1].steps[0].tree) - 1
    assert "Of 4.0 and 2.0 drafted tokens they share" in summary([Pair((FIRST, SECOND))], ["A", "B"], 1)
