"""What if: rounds decoded again from a stored prefix. Nothing changed gives what there was, anything else says so."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from jakiro.branch import MOST_ROUNDS, Change, _drafted, _enough, branch, parted, told
from jakiro.drafter import Context, Drafter
from jakiro.engine import record
from jakiro.heed import heedless
from jakiro.methods import METHODS, meet
from jakiro.target import Target
from jakiro.text import encode, tokenize
from jakiro.trace import from_json, to_json
from jakiro.tree import DraftTree
from jakiro.ui import models
from jakiro.ui.library import Library
from jakiro.ui.live import branches
from jakiro.ui.models import RequestError
from jakiro.ui.whatif import FIELDS, descriptions, what_if
from jakiro.ui.why import whys
from jakiro.verify import Sampling

TREE = {"top_k": 4, "depth": 3, "total_tokens": 12}


@pytest.fixture(scope="module")
def loaded(target):
    return models.load(target)


def run(loaded, name, temperature=0.0):
    method = METHODS[name]
    settings = method.settings(**(TREE if name in ("eagle2", "jakiro") else {}))
    ids = encode(loaded.target.tokenizer, "the an the")
    sampling = Sampling(temperature, 0.9, 3)
    made = record(loaded.target, loaded.makers[name](settings), ids, 30, sampling, name, settings)
    return from_json(to_json(made))  # as it comes from a file


def again(loaded, trace, index, **change):
    return branch(loaded.target, METHODS[trace.method], loaded.makers[trace.method], trace, index, Change(**change))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("name", METHODS)
def test_with_nothing_changed_the_rounds_are_what_they_were(loaded, name, temperature):
    trace = run(loaded, name, temperature)
    for index in (0, len(trace.steps) // 2):
        as_was, would = again(loaded, trace, index, rounds=4)
        assert would.tokens == as_was.tokens
        for ours, theirs in zip(trace.steps[index:], would.steps, strict=False):
            if ours is trace.steps[-1]:
                break  # the run's length cap ended it
            assert (ours.tree.tokens, ours.tree.parents, ours.accepted) == (
                theirs.tree.tokens, theirs.tree.parents, theirs.accepted)  # fmt: skip
        said = told(as_was, would, index, name)
        assert "with nothing changed" in said and "the same text" in said and not parted(trace, as_was, index)


def test_rounds_that_another_head_recorded_are_told_apart(loaded, tmp_path):
    trace = run(loaded, "jakiro")
    first, second, *others = trace.steps
    second = replace(second, bonus=second.bonus + 1)
    other = replace(trace, steps=[first, second, *others], drafter="theirs/jakiro")
    library = Library(tmp_path)
    [as_was, _], facts = what_if(loaded, library, {"race": library.add([other]), "lane": 0, "round": 0})
    said = parted(other, as_was, 0)
    assert "not what was recorded, from round 2 on: theirs/jakiro drafted then, " in said
    assert facts["note"].endswith(said)


def test_rounds_are_said_to_be_drafted_by_the_head_that_drafts_them(loaded, tmp_path, methods_again):
    """The one that the run had, which has another name here."""
    meet(["jakiro-theirs"])
    trace, target = run(loaded, "jakiro"), copy.copy(loaded.target)
    target.heads = {"jakiro-theirs": target.heads["jakiro"], "jakiro": (mine := tmp_path / "mine")}
    target.drafters = target.drafters | {mine: "tmp/mine@0123abcd"}
    known = replace(loaded, target=target, makers=loaded.makers | {"jakiro-theirs": loaded.makers["jakiro"]})
    library = Library(tmp_path)
    sides, facts = what_if(known, library, {"race": library.add([trace]), "lane": 0, "round": 0, "rounds": 2})
    assert [(one.method, one.drafter) for one in sides] == [("jakiro-theirs", trace.drafter)] * 2
    assert facts["note"].startswith("Jakiro (theirs) from round 1 on") and facts["back"]["method"] == "jakiro"


def test_another_tree_gives_the_same_text_and_is_named(loaded):
    trace = run(loaded, "jakiro")
    as_was, would = again(loaded, trace, 3, settings={"depth": 2, "top_k": 2, "contrastive": False}, rounds=5)
    assert all(max(step.tree.depths()) <= 2 for step in would.steps)
    assert would.settings["depth"] == 2 and as_was.settings["depth"] == 3
    text = told(as_was, would, 3, "Jakiro")
    assert "top_k 2 instead of 4, depth 2 instead of 3, contrastive off instead of on" in text
    assert "Jakiro from round 4 on" in text and "the same text as far" in text
    assert text.endswith("The first draft reads all the text before it, which is in both speeds.")


def test_what_is_drafted_is_told_without_the_root():
    """Two tokens in a chain of 3 nodes and none in a root alone: one a round."""
    trees = [DraftTree([5, 6, 7], [-1, 0, 1], [0.0, -1.0, -2.0]), DraftTree([5], [-1], [0.0])]
    assert _drafted(SimpleNamespace(steps=[SimpleNamespace(tree=tree) for tree in trees])) == "1.0"


def test_a_setting_that_is_newer_than_the_trace_has_its_default(loaded):
    trace = run(loaded, "jakiro")
    old = replace(trace, settings={name: value for name, value in trace.settings.items() if name != "expert"})
    as_was, would = again(loaded, old, 0, settings={"depth": 2}, rounds=2)
    assert as_was.settings["expert"] == "all"
    assert "with depth 2 instead of 3, beside" in told(as_was, would, 0, "Jakiro")


@pytest.mark.parametrize("name", ["vanilla", "prompt_lookup", "jakiro"])
def test_the_cache_is_made_for_the_rounds_that_are_asked_for(loaded, name, monkeypatch):
    trace, asked = run(loaded, name), []
    new_cache = Target.new_cache
    monkeypatch.setattr(
        Target, "new_cache", lambda self, rows, *reads: asked.append(rows) or new_cache(self, rows, *reads)
    )
    monkeypatch.setattr(loaded.target, "context", 100_000)
    for made in again(loaded, trace, 0, rounds=2):
        assert len(made.steps) == 2 and made.stop == "stopped"
    assert max(asked) < 500


def test_the_length_cap_leaves_room_for_copies_that_are_longer_than_drafts():
    settings = METHODS["eagle2"].settings(top_k=2, depth=1, total_tokens=12)
    assert _enough(settings, 4) == 2 + 4 * 2
    assert _enough(replace(settings, lookup=1), 4) == 2 + 4 * 12, "eleven copied tokens and the bonus"
    assert _enough(replace(settings, lookup=1, total_tokens=512), 4) == 2 + 4 * 65, (
        "no copy is longer than a tree is deep"
    )


def test_rounds_that_fill_the_context_end_by_it_as_before(loaded, monkeypatch):
    trace = run(loaded, "jakiro")
    monkeypatch.setattr(loaded.target, "context", len(trace.prompt) + 25)
    for made in again(loaded, trace, 3, rounds=MOST_ROUNDS, settings={"depth": 16, "contrastive": False}):
        assert made.stop == "context" and len(made.prompt) + len(made.tokens) == loaded.target.context


def test_rounds_of_a_run_that_filled_the_context_say_so_too(loaded, monkeypatch):
    trace = replace(run(loaded, "jakiro"), stop="context")
    monkeypatch.setattr(loaded.target, "context", len(trace.prompt) + len(trace.tokens))
    for made in again(loaded, trace, len(trace.steps) - 1, rounds=3):
        assert made.stop == "context" and whys(made)[-1].startswith("The target's context is full")


def test_rounds_of_a_run_that_was_stopped_go_on(loaded):
    trace = replace(run(loaded, "jakiro"), stop="stopped", max_new_tokens=60)
    for made in again(loaded, trace, len(trace.steps) - 1, rounds=3):
        assert made.stop == "stopped" and len(made.steps) == 3
        assert all(max(step.tree.depths()) == 3 for step in made.steps)


class Right(Drafter):
    """Every draft is the text to come, to the full depth: no run emits more tokens in as many rounds."""

    def __init__(self, text: list[int], depth: int) -> None:
        self.text, self.depth = text, depth

    def draft(self, context: Context) -> DraftTree:
        to_come = self.text[len(context.tokens) :][: min(self.depth, context.room)]
        tokens = [context.tokens[-1], *to_come]
        return DraftTree(tokens, list(range(-1, len(to_come))), [0.0] * len(tokens))


def test_rounds_whose_drafts_are_all_accepted_are_not_shortened(loaded):
    ids = encode(loaded.target.tokenizer, "the an the")
    text = ids + record(loaded.target, METHODS["vanilla"].load(loaded.target)(None), ids, 60, Sampling()).tokens
    made = record(loaded.target, Right(text, 5), ids, 40, Sampling(), "prompt_lookup", {"max_ngram": 3, "depth": 5})
    for found in branch(
        loaded.target, METHODS["prompt_lookup"], lambda settings: Right(text, settings.depth), made, 1, Change(rounds=3)
    ):
        assert [len(step.accepted) for step in found.steps] == [5, 5, 5] and found.stop == "stopped"


@pytest.mark.parametrize("expert", ["0", "1"])
def test_one_expert_alone_proposes_its_own_candidates(loaded, expert):
    trace = run(loaded, "jakiro")
    _, would = again(loaded, trace, 0, settings={"expert": expert, "contrastive": False}, rounds=3)
    for step in would.steps:
        assert all(rank is None or rank < 4 for rank in step.tree.columns[f"expert{expert}_rank"])


@pytest.mark.parametrize("forced", [(), (7,)])
def test_rounds_go_no_further_than_the_run_that_a_cap_ended(loaded, forced):
    trace = run(loaded, "jakiro")
    assert trace.stop == "length"
    as_was, would = again(loaded, trace, len(trace.steps) - 2, forced=forced, rounds=12)
    assert [step.emitted for step in as_was.steps] == [step.emitted for step in trace.steps[-2:]]
    assert {len(one.prompt) + len(one.tokens) for one in (as_was, would)} == {len(trace.prompt) + 30}
    assert as_was.stop == would.stop == "length"


def test_rounds_near_the_cap_of_a_run_that_ended_before_it_have_its_trees(loaded, monkeypatch):
    monkeypatch.setattr(loaded.target, "ends", frozenset({run(loaded, "vanilla").tokens[28]}))
    trace = run(loaded, "eagle2")
    assert trace.stop == "eos" and len(trace.steps[-1].tree) < len(trace.steps[0].tree)
    as_was, _ = again(loaded, trace, len(trace.steps) - 2, rounds=3)
    trees = [[(step.tree.tokens, step.tree.parents) for step in some] for some in (as_was.steps, trace.steps[-2:])]
    assert trees[0] == trees[1]


def test_rounds_may_be_decoded_again_from_those_that_were(loaded):
    trace = replace(run(loaded, "eagle2"), stop="eos", max_new_tokens=0)  # as in traces from before there was a cap
    first = again(loaded, trace, 0, rounds=2)[1]
    assert first.max_new_tokens == 0 and first.stop == "stopped"
    assert [len(made.steps) for made in again(loaded, first, 0, rounds=20)] == [20, 20]
    capped = replace(trace, max_new_tokens=40)
    assert again(loaded, capped, 0, rounds=2)[1].max_new_tokens == 40


def test_what_was_learnt_before_rounds_that_were_decoded_again_is_not_made_up(loaded):
    """Without it other trees would be drafted, and said to be those of before."""
    for made in again(loaded, run(loaded, "token_recycling"), 4, rounds=4):
        with pytest.raises(ValueError, match="is not kept: choose a round of the run itself"):
            again(loaded, made, 1)


def test_what_neither_decoded_is_not_counted_as_the_same(loaded):
    as_was, would = again(loaded, run(loaded, "vanilla"), 3, rounds=5)
    assert "the same text as far as both went (5 tokens)" in told(as_was, would, 3, "Vanilla")
    assert told(*again(loaded, run(loaded, "vanilla"), 3, rounds=1), 3, "Vanilla").endswith(
        "the same text as far as both went (1 token)."
    )


def test_a_forced_token_stands_after_the_root(loaded):
    trace = run(loaded, "jakiro")
    start = 1 + sum(len(step.emitted) for step in trace.steps[:2])
    as_was, would = again(loaded, trace, 2, forced=(7,), rounds=3)
    assert would.prompt == trace.prompt + trace.tokens[:start] and would.tokens[0] == 7
    assert as_was.tokens[0] == trace.tokens[start - 1]
    assert "forced" in told(as_was, would, 2, "Jakiro")


def test_forced_words_stand_after_the_root_and_the_text_goes_on_from_them(loaded):
    trace = run(loaded, "jakiro")
    words = tuple(tokenize(loaded.target.tokenizer, " the an"))
    assert len(words) > 2
    as_was, would = again(loaded, trace, 2, forced=words, rounds=3)
    text = [*would.prompt, *would.tokens]
    root = len(as_was.prompt) + 1
    assert text[:root] == [*as_was.prompt, as_was.first] and tuple(text[root : root + len(words)]) == words
    on = record(loaded.target, METHODS["vanilla"].load(loaded.target)(None), text[: root + len(words)], 2, Sampling())
    assert text[root + len(words) :][:2] == on.tokens
    said = told(as_was, would, 2, "Jakiro")
    assert "with “ the an” forced" in said and "another text from token" in said
    kept = tuple(trace.tokens[len(as_was.prompt) + 1 - len(trace.prompt) :][:4])
    assert "the same text as far" in told(*again(loaded, trace, 2, forced=kept, rounds=3), 2, "Jakiro")


def test_another_seed_gives_another_text(loaded):
    trace = run(loaded, "vanilla", temperature=0.8)
    as_was, would = again(loaded, trace, 2, seed=4, rounds=12)
    assert would.seed == 4 and "seed 4 instead of 3" in told(as_was, would, 2, "Vanilla")
    assert "another text from token" in told(as_was, would, 2, "Vanilla")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 0}, f"rounds must be from 1 to {MOST_ROUNDS}"),
        ({"rounds": 10**300}, f"rounds must be from 1 to {MOST_ROUNDS}"),
        ({"settings": {"depth": 99}}, "depth must be a whole number from 1 to 16"),
        ({"settings": {"depth": "auto"}}, "depth must be a number here"),
        ({"settings": {"other": 1}}, "unknown setting 'other'"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"forced": (10_000,)}, "the token 10000 is outside"),
        ({"forced": (10**300,)}, "the token 1000"),
        ({"forced": (7,) * 10_000}, "10000 forced tokens do not fit after the"),
    ],
)
def test_bad_changes_are_refused(loaded, change, message):
    with pytest.raises(ValueError, match=message) as caught:
        again(loaded, run(loaded, "jakiro"), 0, **change)
    assert len(str(caught.value)) < 200


def test_a_run_whose_settings_are_to_be_measured_is_refused(loaded):
    trace = run(loaded, "jakiro")
    asked = replace(trace, settings=trace.settings | {"top_k": "auto"})
    for change in ({}, {"settings": {"top_k": 4}}):
        with pytest.raises(ValueError, match="top_k must be a number here, not auto"):
            again(loaded, asked, 0, **change)


def test_runs_of_other_models_and_rounds_that_are_not_there_are_refused(loaded):
    trace = run(loaded, "vanilla")
    with pytest.raises(ValueError, match="recorded with other"):
        again(loaded, replace(trace, target="other"), 0)
    with pytest.raises(ValueError, match="there is no round 99"):
        again(loaded, trace, 98)


class Ready:
    """Models that are there."""

    def __init__(self, loaded) -> None:
        self.get = lambda: loaded


@pytest.mark.parametrize("gpu", [None, lambda work: lambda asked: work(json.loads(json.dumps(asked)))])
def test_the_page_gets_both_as_a_race_with_the_way_back(loaded, tmp_path, gpu):
    library = Library(tmp_path)
    race = library.add([run(loaded, "vanilla"), run(loaded, "jakiro")])
    asked = {"race": race, "lane": 1, "round": 2, "settings": {"depth": 2}, "rounds": 3}
    made = branches(Ready(loaded), library, gpu)(asked, heedless)
    about = library.about(made)
    assert about["kind"] == "what if" and about["back"] == {"race": race, "method": "jakiro", "round": 2}
    assert about["prompt"] == library.about(race)["prompt"]
    assert "depth 2 instead of 3" in about["note"] and len(library.traces(made)) == 2


def test_a_forced_token_is_not_taken_for_another_prompt(loaded, tmp_path):
    library = Library(tmp_path)
    library.begin("live-1", "the an the")
    library.keep("live-1", [run(loaded, "jakiro")])
    race, ask = "live-1", branches(Ready(loaded), library, None)
    for _ in range(2):  # the second time of the rounds that the first one gave
        race = ask({"race": race, "lane": len(library.traces(race)) - 1, "round": 1, "token": 7, "rounds": 3}, heedless)
        assert library.about(race)["prompt"] == "the an the" and "lanes" not in library.about(race)


def test_words_can_be_forced_as_they_are_written(loaded, tmp_path):
    library = Library(tmp_path)
    asked = {"race": library.add([run(loaded, "vanilla")]), "lane": 0, "round": 1, "rounds": 3, "text": " the an"}
    _, facts = what_if(loaded, library, asked)
    assert "with “ the an” forced" in facts["note"]
    [as_was, would], facts = what_if(loaded, library, asked | {"token": 7})
    root = would.prompt[len(as_was.prompt) :]
    assert facts["before"] == ["", "".join(would.pieces[one] for one in root)] and root == as_was.tokens[:1]
    assert " the an" not in facts["note"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "name a race"),
        ({"lane": "x"}, "name a race"),
        ({"lane": 7}, "there is no lane 8"),
        ({"lane": 10**300}, "there is no lane 1000"),
        ({"round": 10**300}, "there is no round 1000"),
        ({"race": "kept-none"}, "not kept any more"),
        ({"rounds": "many"}, "rounds must be a finite number, not 'many'"),
        ({"rounds": math.inf}, "rounds must be a finite number"),
        ({"temperature": 10**400}, "temperature must be a finite number"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"settings": "x"}, "names with values"),
        ({"text": 5}, "the text that is forced"),
        ({"text": "x" * 1001}, "at most 1000 characters"),
    ],
)
def test_bad_requests_are_told_what_to_do(loaded, tmp_path, asked, message):
    library = Library(tmp_path)
    good = {"race": library.add([run(loaded, "vanilla")]), "lane": 0, "round": 0, "rounds": 2}
    with pytest.raises(RequestError, match=message) as caught:
        what_if(loaded, library, (good | asked) if asked else {})
    assert len(str(caught.value)) < 200


def test_every_setting_is_described_for_the_form():
    found = descriptions()["jakiro"]
    kinds = {one["name"]: one["kind"] for one in found}
    assert kinds["depth"] == "int" and kinds["contrastive"] == "bool" and kinds["expert"] == "choice"
    assert descriptions()["vanilla"] == []
    for fields in descriptions().values():  # the form has others of these names
        assert {"text", *FIELDS}.isdisjoint(one["name"] for one in fields)


class Enough(Exception):
    pass


def third(calls):
    """A heed that ends the work at its third call."""

    def heed(done):
        calls.append(1)
        if len(calls) == 3:
            raise Enough

    return heed


def test_what_decodes_again_heeds_every_turn_whoever_asks(loaded, tmp_path):
    trace, shelf = run(loaded, "vanilla"), Library(tmp_path)
    ready = SimpleNamespace(get=lambda: loaded)
    asked = {"race": shelf.add([trace]), "lane": 0, "round": 0, "rounds": 5}
    given = (loaded.target, METHODS["vanilla"], loaded.makers["vanilla"], trace, 0, Change(rounds=8))
    for ask in (
        lambda heed: branch(*given, heed),
        lambda heed: branches(ready, shelf, None)(asked, heed),
    ):
        calls = []
        with pytest.raises(Enough):
            ask(third(calls))
        assert len(calls) == 3 and not loaded.busy.locked()


def test_why_a_lent_question_failed_is_said(loaded, tmp_path):
    lent = branches(SimpleNamespace(get=lambda: loaded), Library(tmp_path), lambda work: work)
    with pytest.raises(RequestError, match="not kept any more"):
        lent({"race": "kept-none", "lane": 0, "round": 0}, heedless)
