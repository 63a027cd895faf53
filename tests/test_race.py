"""Live races: taking turns, checking input, streaming, keeping what was recorded."""

from __future__ import annotations

import json
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import synthetic
import torch

from jakiro.engine import Prefill
from jakiro.measuring import tuning
from jakiro.methods import on_heads
from jakiro.target import Target
from jakiro.trace import Trace, TraceError, from_json, to_json
from jakiro.traces import read_traces, traces_json, weight
from jakiro.tree import CutNodes
from jakiro.ui import about as about_module
from jakiro.ui import library as library_module
from jakiro.ui import models as models_module
from jakiro.ui import race as race_module
from jakiro.ui import recorded, stream
from jakiro.ui.library import Library, StillRunning
from jakiro.ui.live import live_races
from jakiro.ui.models import Loaded, Models, RequestError, load
from jakiro.ui.race import TURN, Left, Race, check
from jakiro.ui.stream import CROWDED, FREE, Pace, events, flushed, pace
from jakiro.ui.whatif import what_if

AT_ONCE = Pace(0.0, 0.0)
METHODS = ["vanilla", "prompt_lookup", "eagle2", "jakiro"]
GOOD = {"prompt": "the an the", "methods": METHODS, "max_new_tokens": 12, "temperature": 0, "top_p": 1, "seed": 0}


@pytest.fixture(scope="module")
def models(target) -> Loaded:
    return load(target)


def request_of(models, **changes):
    return check(models, **(GOOD | changes))


def raced(models, **changes) -> Race:
    race = Race(models, request_of(models, **changes))
    for _ in race.rounds():
        pass
    return race


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.9, "top_p": 0.8, "seed": 7}], ids=["greedy", "sampled"])
def test_every_lane_gives_the_same_tokens(models, sampling):
    traces = raced(models, **sampling).traces()
    assert [trace.method for trace in traces] == METHODS
    assert all(trace.tokens == traces[0].tokens and len(trace.tokens) == 12 for trace in traces)
    assert all(from_json(to_json(trace)).stop == "length" for trace in traces)


@pytest.mark.parametrize("turn", [0.0, TURN])
def test_a_lane_goes_on_for_a_turn_and_then_the_one_with_the_least_time_does(models, monkeypatch, turn):
    monkeypatch.setattr(race_module, "TURN", turn)
    race = Race(models, request_of(models, methods=["vanilla", "eagle2", "jakiro"]))
    step = synthetic.vanilla_trace([1, 2]).steps[0]
    durations = {"vanilla": 0.01, "eagle2": 0.04, "jakiro": 0.02}
    for lane in race.lanes:
        slow = replace(step, draft_s=0.0, verify_s=durations[lane.method], overhead_s=0.0)
        lane.rounds = iter([Prefill(1, 0.001), *[slow] * 12])
    clock, order = [0.0] * 3, []
    for index, event in race.rounds():
        least = min(clock[i] for i, lane in enumerate(race.lanes) if lane.running or i == index)
        assert clock[index] == least or (order[-1] == index and clock[index] <= least + turn)
        clock[index] += event.seconds
        order.append(index)
    assert [len(lane.steps) for lane in race.lanes] == [12, 12, 12]
    changes = sum(one != other for one, other in pairwise(order))
    assert changes > 20 if turn == 0 else changes < 20


def test_a_race_left_early_still_has_readable_traces(models, monkeypatch):
    monkeypatch.setattr(race_module, "TURN", 0.0)  # else the first lane may be done
    race = Race(models, request_of(models))
    rounds = race.rounds()
    for _ in range(9):
        next(rounds)
    rounds.close()
    traces = race.traces()
    full = raced(models).traces()[0].tokens
    assert traces and all(trace.tokens == full[: len(trace.tokens)] for trace in traces)
    assert any(len(trace.tokens) < len(full) for trace in traces)
    for trace in traces:
        assert from_json(to_json(trace)).stop == ("stopped" if len(trace.tokens) < len(full) else "length")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": " \n\t"}, "prompt is empty"),
        ({"prompt": None}, "prompt must be text"),
        ({"prompt": "x " * 400}, "shorten it"),
        ({"prompt": "the \ud800 an"}, "half a character"),
        ({"prompt": "x" * 200_000}, "shorten it to 100,000"),
        ({"methods": []}, "choose at least one method: Vanilla, Prompt lookup"),
        ({"methods": "vanilla"}, "methods must be a list of names, not str"),
        ({"methods": ["nobody"]}, "unknown method 'nobody'; known: vanilla"),
        ({"methods": [["vanilla"]]}, "unknown method"),
        ({"methods": ["x" * 10**6]}, "unknown method 'xxxx"),
        ({"methods": ["vanilla", "vanilla"]}, "each method can race once"),
        ({"max_new_tokens": 0}, "max_new_tokens must be from 1"),
        ({"max_new_tokens": 10**6}, "max_new_tokens must be from 1"),
        ({"max_new_tokens": 10**300}, "max_new_tokens must be from 1"),
        ({"max_new_tokens": 1.5}, "whole number"),
        ({"max_new_tokens": True}, "finite number"),
        ({"max_new_tokens": None}, "max_new_tokens is empty: give a number"),
        ({"temperature": math.nan}, "temperature must be a finite number"),
        ({"temperature": math.inf}, "temperature must be a finite number"),
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": "hot"}, "temperature must be a finite number"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_p": 1.01}, "top_p is 1.01"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"seed": 10**300}, "seed is"),
        ({"changes": {"jakiro": {"depth": 10**6}}}, "depth must be a whole number from"),
        ({"changes": {"jakiro": {"magic": 1}}}, "unknown setting 'magic'; known: "),
    ],
)
def test_bad_input_is_refused_with_the_remedy(models, changes, message):
    with pytest.raises(RequestError) as caught:
        request_of(models, **changes)
    assert message in str(caught.value) and len(str(caught.value)) < 200  # not all that was given


def test_a_race_that_could_not_be_shown_is_refused(models, monkeypatch):
    large = {name: {"total_tokens": 512} for name in ("eagle2", "jakiro")}
    assert request_of(models, max_new_tokens=100, changes=large).max_new_tokens == 100
    with pytest.raises(RequestError, match="may draft up to 155,100 nodes, and 150,000 can be shown: lower"):
        request_of(models, max_new_tokens=150, changes=large)
    auto = {name: {"total_tokens": "auto", "depth": "auto"} for name in large}
    assert request_of(models, max_new_tokens=150, changes=auto)
    monkeypatch.setattr(models.target, "context", 20_000)
    with pytest.raises(RequestError, match="may take up to 30,000 rounds, and 20,000 can be shown: lower max_new"):
        request_of(models, max_new_tokens=15_000, methods=["vanilla", "prompt_lookup"])
    small = {name: {"total_tokens": 4} for name in large}
    with pytest.raises(RequestError, match="may cut up to 192,000 nodes, and 150,000 can be shown: lower max_new"):
        request_of(models, max_new_tokens=3_000, changes=small)
    assert request_of(models, max_new_tokens=3_000, changes=small, methods=["vanilla", "jakiro"])


@pytest.mark.parametrize("limit", [60, 100])
def test_a_race_whose_methods_draft_more_than_was_known_ends_where_it_can_still_be_shown(models, monkeypatch, limit):
    race = Race(models, request_of(models))
    monkeypatch.setattr("jakiro.ui.race.MAX_NODES", limit)
    monkeypatch.setattr("jakiro.traces.MAX_NODES", limit)
    with pytest.raises(RequestError, match=f"ended early: more than the {limit} nodes that can be shown"):
        for _ in race.rounds():
            pass
    kept = read_traces(traces_json(race.traces()))
    trees = [step.tree for trace in kept for step in trace.steps]
    assert limit - 64 < max(sum(map(len, trees)), sum(len(tree.cut) for tree in trees)) <= limit


def test_a_method_that_cannot_run_says_why(models):
    makers = {name: make for name, make in models.makers.items() if name != "jakiro"}
    without = replace(models, makers=makers, missing={"jakiro": "no head for this target"})
    others = ", ".join(about_module.method_titles()[name] for name in makers)
    with pytest.raises(RequestError, match=f": {others}$"):
        request_of(without, methods=[])
    with pytest.raises(RequestError, match="Jakiro cannot run here: no head for this target"):
        request_of(without)


def test_a_damaged_head_leaves_the_other_methods(target, tmp_path, tokenizer):
    broken = tmp_path / "jakiro"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    other = Target.wrap(target.model, tokenizer, {"jakiro": broken}, name="tiny")
    loaded = load(other)
    assert "vanilla" in loaded.makers and "jakiro" in loaded.missing and loaded.missing["jakiro"]


@pytest.mark.parametrize(("given", "wanted"), [(["eagle2"], []), ([], on_heads())])
def test_heads_that_nobody_gave_are_missed_where_no_method_has_one(target, tokenizer, heads, given, wanted):
    loaded = load(Target.wrap(target.model, tokenizer, {name: heads[name] for name in given}, name="tiny"))
    assert set(loaded.missing) == set(heads) - {*given} and loaded.wanted() == wanted


def test_a_method_that_fails_when_it_is_tried_has_no_settings_to_show(target, monkeypatch):
    def fail(*given):
        raise RuntimeError("no kernel")

    monkeypatch.setattr(models_module, "_warm_up", fail)
    loaded = load(target)
    assert loaded.makers == loaded.defaults == {}
    assert set(loaded.missing.values()) == {"RuntimeError: no kernel"} and set(METHODS) <= set(loaded.missing)


def test_whole_numbers_may_come_as_floats(models):
    request = request_of(models, max_new_tokens=4.0, seed=3.0)
    assert (request.max_new_tokens, request.sampling.seed) == (4, 3)


def test_models_that_cannot_be_loaded_say_so():
    def read():
        raise FileNotFoundError("no model in nowhere")

    models = Models(read)
    assert models.status()["state"] == "loading"
    models.start()
    with pytest.raises(RequestError, match="no model in nowhere"):
        models.get()
    assert models.status()["state"] == "failed"


# ---- the stream


@pytest.mark.parametrize(("device", "threads", "found"), [("cpu", 2, CROWDED), ("cpu", 1, FREE), ("cuda", 2, FREE)])
def test_the_stream_is_slower_where_the_browser_may_be_in_the_way(monkeypatch, device, threads, found):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(stream, "cpu_count", lambda: 2)
    assert pace(torch.device(device)) == found


def test_a_source_rests_once_it_is_announced_and_is_flushed_once_a_period(monkeypatch):
    clock, flushes = [0.0], []

    def rest(seconds):
        flushes.append((clock[0], seconds))
        clock[0] += seconds

    def source():
        for number in range(60):
            yield {"event": number}
            clock[0] += 0.01

    monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=rest))
    texts = list(flushed(source(), threading.Event(), Pace(0.2, 0.15, 0.05)))
    assert texts[-1].count("\n") == 60
    assert flushes == [(0.0, 0.15), (pytest.approx(0.35), 0.05), (pytest.approx(0.6), 0.05)]


def test_a_source_is_not_flushed_within_a_period(monkeypatch):
    monkeypatch.setattr(stream, "IDLE", 0.01)
    told = threading.Event()

    def source():
        yield {"event": 1}
        yield {"event": 2}
        assert told.wait(60)
        yield {"event": 3}

    texts = filter(None, flushed(source(), threading.Event(), Pace(5.0, 0.0)))
    first = next(texts).count("\n")
    told.set()
    assert first in (1, 2)  # the second may be there when the first is told
    assert [text.count("\n") for text in texts] == [3]


def test_the_stream_tells_every_token_once(models):
    race = Race(models, request_of(models))
    texts = list(flushed(events(race, "live-1"), race.left, AT_ONCE))
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    lines = [json.loads(line) for line in texts[-1].splitlines()]
    assert lines[0]["event"] == "start" and [lane["method"] for lane in lines[0]["lanes"]] == METHODS
    for index, trace in enumerate(race.traces()):
        own = [line for line in lines[1:] if line["lane"] == index]
        assert [token for line in own for token in line["id"]] == trace.tokens
        assert [line["drafted"] for line in own[1:]] == [len(step.accepted) for step in trace.steps]
        assert "nodes" not in own[0] and [line["nodes"] for line in own[1:]] == [len(step.tree) for step in trace.steps]
        assert own[-1]["at"] == pytest.approx(trace.prefill_s + sum(step.seconds for step in trace.steps))


def test_the_stream_hands_an_error_over_and_closes_its_source():
    def source():
        yield {"event": "one"}
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        list(flushed(source(), threading.Event(), AT_ONCE))


def test_leaving_the_stream_ends_the_source_without_waiting_for_it():
    """Who leaves may be the server's loop, and the source in the middle of a round."""
    told, ended = threading.Event(), []

    def source():
        try:
            yield {"event": "one"}
            assert told.wait(10)
            yield {"event": "two"}
        finally:
            ended.append(threading.current_thread().name)

    texts = flushed(source(), threading.Event(), AT_ONCE)
    next(filter(None, texts))
    texts.close()
    assert not ended
    [worker] = [thread for thread in threading.enumerate() if thread.name == "race"]
    told.set()
    worker.join(10)
    assert ended == ["race"]


def test_a_stream_without_news_can_be_left(monkeypatch):
    """Whoever iterates in a thread cannot close it while it waits, and Gradio never what has not answered once."""
    told = threading.Event()

    def source():
        assert told.wait(10)
        yield {"event": "one"}

    texts = flushed(source(), threading.Event(), AT_ONCE)
    monkeypatch.setattr(stream, "IDLE", 1e9)
    assert next(texts) == ""
    monkeypatch.setattr(stream, "IDLE", 0.01)
    assert next(texts) == ""
    told.set()
    assert list(texts)[-1] == '{"event": "one"}\n'


def test_a_race_begins_when_the_one_before_has_let_go_of_the_models(models, tmp_path, monkeypatch):
    """A queue counts a race that was stopped as over while its thread still decodes."""
    let_go, rounds, running, most = threading.Event(), Race.rounds, [], []

    def held(race):
        running.append(race)
        most.append(len(running))
        for index, event in enumerate(rounds(race)):
            assert index == 0 or let_go.wait(10)
            yield event
        running.remove(race)

    monkeypatch.setattr(Race, "rounds", held)
    shelf, ready = Library(tmp_path), type("Ready", (), {"get": staticmethod(lambda: models)})
    first, second = (live_races(ready, shelf, None)(name, *GOOD.values()) for name in ("live-1", "live-2"))
    next(first)
    threading.Timer(0.3, let_go.set).start()
    list(second)
    list(first)
    assert most == [1, 1]


def test_a_race_that_is_left_while_it_measures_ends_there(models, monkeypatch):
    measuring, told, ended = threading.Event(), threading.Event(), []

    def verify_cost(target, pulse, prefix, sampling):
        measuring.set()
        assert told.wait(10)
        pulse()
        raise AssertionError("it went on")

    def source():
        try:
            yield from events(race, "live-1")
        except Left:
            ended.append(race.untuned())
            raise

    monkeypatch.setattr(tuning, "verify_cost", verify_cost)
    race = Race(models, request_of(models, changes={"jakiro": {"total_tokens": "auto"}}))
    texts = flushed(source(), race.left, AT_ONCE)
    next(texts)
    assert measuring.wait(10)
    texts.close()
    [worker] = [thread for thread in threading.enumerate() if thread.name == "race"]
    told.set()
    worker.join(10)
    assert ended == [["jakiro"]]


def test_what_a_race_measured_can_be_shown(models, monkeypatch):
    shelf = Models(lambda: models.target)
    assert shelf.tunings() == []
    monkeypatch.setattr(shelf, "_loaded", replace(models, tuner=tuning.Tuner(models.target)))
    settings = replace(models.defaults["jakiro"], top_k=2, depth=2, total_tokens="auto")
    shelf._loaded.tuner.resolved("jakiro", models.makers["jakiro"], settings)
    [found] = shelf.tunings()
    assert found["schema"] == tuning.SCHEMA and found["method"] == "jakiro" and found["chosen"]["top_k"] == 2
    assert found["machine"]["device_type"] == "cpu" and "torch" in found["versions"]


# ---- keeping


@pytest.fixture
def traces():
    run = synthetic.tree_trace(6, nodes=20)
    return [from_json(to_json(trace)) for trace in (synthetic.vanilla_trace(run.tokens), run)]  # as files round them


def test_recorded_races_come_back_in_order(tmp_path, traces):
    recorded.save(tmp_path, "one", "One", "first?", traces)
    recorded.save(tmp_path, "two", "Two", "second?", traces)
    recorded.save(tmp_path, "one", "One again", "first?", traces)
    races = recorded.read(tmp_path)
    assert [(race.id, race.title, race.model) for race in races] == [
        ("one", "One again", "synthetic"),
        ("two", "Two", "synthetic"),
    ]
    assert recorded.load(tmp_path, races[0]) == traces


def test_a_recorded_race_may_be_of_any_file_that_can_be_dropped_on_the_page(tmp_path, traces):
    race = recorded.save(tmp_path, "one", "One", "first?", traces[:1])
    text = "\ufeff" + "".join(to_json(one) + "\n" for one in traces)
    (tmp_path / race.traces[0]).write_text(text, encoding="utf-8")
    assert recorded.load(tmp_path, race) == traces
    with pytest.raises(TraceError, match="10 runs, and 8 can be shown"):
        recorded.load(tmp_path, replace(race, traces=race.traces * 5))


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"schema": "other/1"}',
        '{"schema": "jakiro-races/1"}',
        '{"schema": "jakiro-races/1", "races": [{"id": "a"}]}',
        '{"schema": "jakiro-races/1", "races": [{"id": "a", "title": "", "prompt": "", "traces": ["../x.json"], '
        '"model": "", "device": "", "date": ""}]}',
    ],
)
def test_a_damaged_index_is_refused(tmp_path, text):
    (tmp_path / recorded.INDEX).write_text(text)
    with pytest.raises(TraceError, match=r"index\.json"):
        recorded.read(tmp_path)


def test_the_library_knows_recorded_and_live_races(tmp_path, traces):
    recorded.save(tmp_path, "one", "One", "first?", traces)
    shelf = Library(tmp_path)
    shelf.begin("live-1", "asked")
    shelf.keep("live-1", traces)
    assert shelf.traces("one") == traces and shelf.traces("live-1") == traces
    assert shelf.about("one")["kind"] == "recorded" and shelf.about("one")["prompt"] == "first?"
    assert shelf.about("live-1") == {
        "id": "live-1", "title": "asked", "prompt": "asked", "model": "synthetic", "device": "cpu",
        "date": "2026-01-01", "kind": "live",
    }  # fmt: skip
    assert json.loads(shelf.text("live-1"))["replay"]["schema"] == "jakiro-replay/1"
    with pytest.raises(RequestError, match="not kept any more"):
        shelf.text("live-2")


def test_a_race_that_many_ask_for_is_prepared_once(tmp_path, traces, monkeypatch):
    shelf, made, prepare = Library(tmp_path), [], library_module.prepared

    def slowly(*what):
        made.append(what)
        time.sleep(0.2)
        return prepare(*what)

    monkeypatch.setattr(library_module, "prepared", slowly)
    shelf.begin("live-1", "asked")
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(shelf.text, "live-1") for _ in range(4)]
        shelf.keep("live-1", traces)
        texts = {one.result(timeout=30) for one in asked}
    assert len(texts) == len(made) == 1
    assert shelf.packed("live-1") is shelf.packed("live-1")  # compressed once, too: who reads slowly holds no copy


def test_only_some_wait_for_a_race_that_is_prepared(tmp_path, traces, monkeypatch):
    monkeypatch.setattr(library_module, "WAITERS", 0)
    shelf, preparing, go_on = Library(tmp_path), threading.Event(), threading.Event()
    monkeypatch.setattr(library_module, "prepared", lambda *what: preparing.set() or (go_on.wait(30) and "{}"))
    shelf.keep("live-1", traces)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shelf.text, "live-1")
        assert preparing.wait(30)
        with pytest.raises(StillRunning, match="being prepared"):
            shelf.text("live-1")
        go_on.set()
        assert first.result() == shelf.text("live-1") == "{}"


def test_a_text_that_cannot_be_prepared_keeps_nobody_waiting(tmp_path, traces, monkeypatch):
    shelf = Library(tmp_path)
    shelf.keep("live-1", traces)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(library_module, "prepared", lambda *what: 1 / 0)
        shelf.text("live-1")
    assert shelf.text("live-1")


def test_lanes_of_a_file_that_differ_say_so_each(tmp_path, traces):
    shelf, one = Library(tmp_path), traces[0]
    assert "lanes" not in shelf.about(shelf.add(traces))
    other = replace(traces[1], device="gpu", target="large", recorded="2026-02-02", prompt=[*one.prompt, one.prompt[0]])
    found = shelf.about(shelf.add([one, other]))
    assert [lane["device"] for lane in found["lanes"]] == ["cpu", "gpu"] and found["device"] == "cpu"
    assert found["lanes"][1]["model"] == "large" and found["lanes"][1]["date"] == "2026-02-02"
    assert found["lanes"][1]["prompt"] == about_module.prompt_of(other) != found["lanes"][0]["prompt"]


def test_a_what_if_of_a_file_has_the_prompt_of_its_lane(models, tmp_path):
    runs = [raced(models, prompt=prompt, methods=["vanilla"]).traces()[0] for prompt in ("the an", "an the an")]
    shelf = Library(tmp_path)
    asked = {"race": shelf.add(runs), "lane": 1, "round": 0, "rounds": 2}
    _, facts = what_if(models, shelf, asked)
    assert facts["prompt"] == about_module.prompt_of(runs[1]) != about_module.prompt_of(runs[0])


def test_a_prompt_that_is_put_together_from_tokens_is_not_called_written(models, tmp_path):
    runs, shelf = raced(models, methods=["vanilla"]).traces(), Library(tmp_path)
    shelf.begin("live-1", "the an the")
    shelf.keep("live-1", runs)
    opened = shelf.add(runs)
    for race, written in (("live-1", True), (opened, False)):
        _, facts = what_if(models, shelf, {"race": race, "lane": 0, "round": 0, "rounds": 2})
        for about in (shelf.about(race), shelf.about(shelf.add(runs, facts))):
            assert about.get("written", True) is written


def test_the_library_is_bounded_and_drops_the_least_recently_used(tmp_path, traces, monkeypatch):
    monkeypatch.setattr(library_module, "KEPT", 2)
    shelf = Library(tmp_path)
    for id in ("a", "b"):
        shelf.keep(id, traces)
    shelf.traces("a")
    shelf.keep("c", traces)
    assert shelf.traces("a") and shelf.traces("c")
    with pytest.raises(RequestError):
        shelf.traces("b")


def test_opened_files_go_before_races(tmp_path, traces, monkeypatch):
    """Anyone can send many, and has them still."""
    monkeypatch.setattr(library_module, "KEPT", 3)
    shelf = Library(tmp_path)
    shelf.keep("live-1", traces)
    opened = [shelf.add(traces) for _ in range(5)]
    assert shelf.traces("live-1") and shelf.traces(opened[-1]) and shelf.traces(opened[-2])
    with pytest.raises(RequestError):
        shelf.traces(opened[0])


def test_small_races_do_not_push_one_another_out(tmp_path, traces):
    shelf = Library(tmp_path)
    for id in ("a", *map(str, range(100))):
        shelf.keep(id, traces)
    assert shelf.traces("a")


def test_what_was_made_of_a_race_goes_with_it(tmp_path, traces, monkeypatch):
    monkeypatch.setattr(library_module, "KEPT", 1)
    shelf = Library(tmp_path)
    shelf.keep("a", traces)
    shelf.text("a")
    shelf.keep_comparison("a", 0, 1, "{}")
    assert shelf.comparison("a", 0, 1) == "{}"
    shelf.keep("b", traces)
    with pytest.raises(RequestError):
        shelf.text("a")
    with pytest.raises(RequestError):
        shelf.comparison("a", 0, 1)


def test_prepared_texts_are_bounded_by_their_length(tmp_path, traces, monkeypatch):
    monkeypatch.setattr(library_module, "KEPT_TEXT_BYTES", 10)
    made = []
    monkeypatch.setattr(about_module, "payload", lambda *given: made.append(given) or '"made"')
    shelf = Library(tmp_path)
    for id in ("a", "b"):
        shelf.keep(id, traces)
    for id in ("a", "b", "b", "a"):
        shelf.text(id)
    assert len(made) == 3  # the second time "b" is asked for it is there, "a" is not


@pytest.mark.parametrize(("text", "kept"), [("x" * 1000, True), ("x" * 999 + "\U0001f600", False)])
def test_a_text_with_one_emoji_counts_with_all_its_bytes(tmp_path, monkeypatch, text, kept):
    monkeypatch.setattr(library_module, "KEPT_TEXT_BYTES", 4000)
    shelf = Library(tmp_path)
    for race in "ab":
        shelf.keep_comparison(race, 0, 1, text)
    assert shelf.comparison("b", 0, 1) == text and len(shelf._compared) == 1 + kept


def test_the_library_is_bounded_by_memory_too_but_keeps_the_last_race(tmp_path, traces, monkeypatch):
    monkeypatch.setattr(library_module, "KEPT_BYTES", sum(map(weight, traces)) - 1)
    shelf = Library(tmp_path)
    shelf.keep("a", traces)
    assert shelf.traces("a")
    shelf.keep("b", traces)
    assert shelf.traces("b")
    with pytest.raises(RequestError, match="not kept any more"):
        shelf.traces("a")


def test_everything_of_a_trace_has_weight(traces):
    run = traces[1]
    step = run.steps[0]
    more = [
        replace(run, prompt=run.prompt * 100),
        replace(run, pieces=run.pieces | dict.fromkeys(range(10_000, 10_100), "")),
        replace(run, pieces=run.pieces | {run.first: "x" * 1000}),
        replace(run, settings={"x" * 1000: 1}),
        replace(run, versions={"x": "x" * 1000}),
        replace(run, steps=[*run.steps, step]),
    ]
    columns = step.tree.columns | {f"more {at}": [0.5] * len(step.tree) for at in range(50)}
    trees = [replace(step.tree, columns=columns), replace(step.tree, cut=CutNodes([1] * 30, [0] * 30, [-9.0] * 30))]
    more += [replace(run, steps=[replace(step, tree=tree), *run.steps[1:]]) for tree in trees]
    assert all(weight(one) >= weight(run) + 2000 for one in more)


def test_a_prompt_is_put_together_no_further_than_it_can_be_shown(tmp_path, traces, monkeypatch):
    monkeypatch.setattr(about_module, "PROMPT", 10)
    made, asked = Trace.piece, []
    monkeypatch.setattr(Trace, "piece", lambda *given: asked.append(given) or made(*given))
    shelf = Library(tmp_path)
    id = shelf.add([replace(traces[0], prompt=[1, 2] * 10, pieces={1: "abcd", 2: ""})])
    assert shelf.about(id)["prompt"] == "abcd" + "abcd" + "ab"
    assert len(asked) == 5


def test_a_race_that_takes_longer_than_one_waits_is_not_called_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(library_module, "PATIENCE", 0.01)
    shelf = Library(tmp_path)
    shelf.begin("live-1", "asked")
    with pytest.raises(StillRunning, match="still running"):
        shelf.traces("live-1")


def test_who_asks_for_a_running_race_waits_for_it(tmp_path, traces):
    shelf = Library(tmp_path)
    shelf.begin("live-1", "asked")
    threading.Timer(0.05, shelf.keep, ["live-1", traces]).start()
    assert shelf.traces("live-1") == traces
    shelf.begin("live-2", "stopped before its first token")
    threading.Timer(0.05, shelf.keep, ["live-2", []]).start()
    with pytest.raises(RequestError):
        shelf.traces("live-2")


def test_only_some_wait_for_a_running_race(tmp_path, traces, monkeypatch):
    """Each holds a thread of the web server, which has forty."""
    monkeypatch.setattr(library_module, "WAITERS", 1)
    shelf = Library(tmp_path)
    shelf.begin("live-1", "asked")
    with ThreadPoolExecutor() as pool:
        first = pool.submit(shelf.traces, "live-1")
        while not shelf._waiting:
            time.sleep(0.001)
        with pytest.raises(StillRunning):
            shelf.traces("live-1")
        shelf.keep("live-1", traces)
        assert first.result() == traces and shelf._waiting == 0


def test_a_host_that_lends_its_gpu_hands_the_traces_over_as_text(models, tmp_path):
    class Ready:
        get = staticmethod(lambda: models)

    shelf, decorated = Library(tmp_path), []

    def gpu(function):
        decorated.append(function.__name__)
        return function

    live = live_races(Ready(), shelf, gpu)
    texts = list(live("live-1", *GOOD.values()))
    assert decorated == ["elsewhere"] and all(text[:1] in ("", "{") for text in texts)
    assert [trace.method for trace in shelf.traces("live-1")] == METHODS


def test_a_gpu_is_borrowed_when_the_models_are_there_and_for_a_race_that_can_be_run(models, tmp_path):
    """Its process is a fork: a thread that loads is not in it, and errors come out as the names of their classes."""
    done = []

    class Ready:
        get = staticmethod(lambda: done.append("loaded") or models)

    def gpu(function):
        return lambda *given: done.append("borrowed") or function(*given)

    live = live_races(Ready(), Library(tmp_path), gpu)
    with pytest.raises(RequestError, match="the prompt is empty"):
        list(live("live-1", *(GOOD | {"prompt": " "}).values()))
    assert done == ["loaded"]
    list(live("live-1", *GOOD.values()))
    assert done[1:3] == ["loaded", "borrowed"]


def test_the_stream_tells_the_seconds_and_the_text(models):
    race = Race(models, request_of(models))
    lines = [line for line in events(race, "live-1") if line["event"] == "tokens"]
    for index, trace in enumerate(race.traces()):
        own = [line for line in lines if line["lane"] == index]
        phases = [(step.draft_s, step.verify_s, step.overhead_s) for step in trace.steps]
        assert [(one["draft"], one["verify"], one["overhead"]) for one in own[1:]] == phases
        assert [text for line in own for text in line["text"]] == [trace.piece(token) for token in trace.tokens]


def test_a_race_that_was_lent_keeps_its_prompt(models, tmp_path):
    shelf = Library(tmp_path)
    list(live_races(SimpleNamespace(get=lambda: models), shelf, lambda work: work)("live-1", *GOOD.values()))
    assert shelf.about("live-1")["prompt"] == GOOD["prompt"]


def test_a_tree_of_unknown_size_counts_as_the_largest(models, monkeypatch):
    monkeypatch.setattr(models.target, "context", 20_000)
    with pytest.raises(RequestError, match="may draft up to"):
        auto = {name: {"total_tokens": "auto"} for name in ("eagle2", "jakiro")}
        request_of(models, max_new_tokens=1_500, changes=auto)


def test_texts_go_by_when_they_were_last_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(library_module, "KEPT", 2)
    shelf, made = Library(tmp_path), []
    monkeypatch.setattr(library_module, "prepared", lambda facts, traces: made.append(facts["id"]) or "{}")
    shelf.recorded = dict.fromkeys("abc")
    monkeypatch.setattr(Library, "about", lambda shelf, id: {"id": id})
    monkeypatch.setattr(Library, "traces", lambda shelf, id: [])
    for id in "abaca":
        shelf.text(id)
    assert made == ["a", "b", "c"]
