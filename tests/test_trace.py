"""The public format: what is written is read back, and what is damaged is refused with its place."""

from __future__ import annotations

import copy
import dataclasses
import json
import os

import pytest

from jakiro import trace, traces
from jakiro.trace import StepTrace, Trace, TraceError
from jakiro.tree import DraftTree
from jakiro.verify import MAX_SEED, Sampling

TREE = DraftTree(
    tokens=[1, 2, 3, 4, 5],
    parents=[-1, 0, 0, 1, 3],
    scores=[0.0, -0.5, -1.25, -0.75, -2.0],
    columns={"pick": [2, 4, 9, 9, 9], "gate0": [None, 0.25, 0.25, 0.5, None]},
)
STEPS = [
    StepTrace(TREE, [1, 3], 9, [0.0, -0.1, -2.0, -0.3, -4.0], 0.25, 0.5, 0.125),
    StepTrace(DraftTree([9], [-1], [0.0]), [], 7, [0.0], 0.0, 1.0, 0.0),
]


@pytest.fixture
def run() -> Trace:
    return Trace(
        method="jakiro",
        settings={"depth": 6, "candidates": "mixture", "aligned": True},
        target="tiny",
        device="cpu",
        dtype="float32",
        versions={"torch": "2.8"},
        seed=3,
        temperature=0.0,
        top_p=1.0,
        prompt=[8, 8],
        first=1,
        pieces={1: "a", 2: " b", 4: "c", 7: "é", 9: "\n"},
        prefill_s=0.5,
        steps=STEPS,
        stop="eos",
        recorded="2026-01-01",
    )


def test_a_tree_answers_for_its_shape():
    assert TREE.depths() == [0, 1, 1, 2, 3]
    assert len(TREE) == 5


def test_a_round_answers_for_what_it_emitted():
    assert (STEPS[0].emitted, STEPS[0].stop_node, STEPS[0].seconds) == ([2, 4, 9], 3, 0.875)
    assert (STEPS[1].emitted, STEPS[1].stop_node) == ([7], 0)


def test_a_run_is_its_first_token_and_the_rounds(run):
    assert run.tokens == [1, 2, 4, 9, 7]
    assert [run.piece(token) for token in run.tokens] == ["a", " b", "c", "\n", "é"]
    assert [count for count, _ in trace.walk_positions(run)] == [1, 4]
    assert dataclasses.replace(run, pieces={}).piece(7) == "<7>"


def test_json_keeps_everything(run, tmp_path):
    assert trace.from_json(trace.to_json(run)) == run and "recording_s" not in trace.to_json(run)
    recorded = dataclasses.replace(run, steps=[dataclasses.replace(STEPS[0], recording_s=0.5), *STEPS[1:]])
    assert trace.from_json(trace.to_json(recorded)) == recorded
    trace.save(run, tmp_path / "run.json")
    assert trace.load(tmp_path / "run.json") == run
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["schema"] == "jakiro-trace/1"


@pytest.mark.parametrize(
    ("name", "values"), [("temperature", (0, 0.001, 100)), ("top_p", (5e-324, 1)), ("seed", (0, MAX_SEED))]
)
def test_whatever_a_run_may_be_sampled_with_is_read_back(run, name, values):
    for value in values:
        Sampling(**{name: value})
        assert getattr(trace.from_json(trace.to_json(dataclasses.replace(run, **{name: value}))), name) == value


def test_what_is_measured_keeps_seven_digits_and_what_is_asked_all(run):
    asked = dataclasses.replace(run, prefill_s=1 / 3, temperature=1 / 3, settings={"draft_temperature": 2 / 3})
    written = json.loads(trace.to_json(asked))
    assert written["prefill_s"] == 0.3333333
    assert written["temperature"] == 1 / 3 and written["settings"] == {"draft_temperature": 2 / 3}


def test_a_run_has_no_more_tokens_than_it_might(run):
    count = len(run.tokens)
    assert run.most is None and dataclasses.replace(run, stop="length").most == 2 + count
    kept = trace.from_json(trace.to_json(dataclasses.replace(run, max_new_tokens=count)))
    assert kept.max_new_tokens == count and kept.most == 2 + count
    with pytest.raises(trace.TraceError, match=f"max_new_tokens is {count - 1}, and there are {count} tokens"):
        trace.from_json(trace.to_json(dataclasses.replace(run, max_new_tokens=count - 1)))


def test_there_are_not_less_than_no_threads(run):
    with pytest.raises(trace.TraceError, match="threads is -1, expected at least 0"):
        trace.from_json(trace.to_json(dataclasses.replace(run, threads=-1)))


def test_what_could_not_be_read_again_is_not_saved(run, tmp_path):
    for change in (
        {"settings": {"a": [1]}},
        {"method": None},
        {"steps": [dataclasses.replace(STEPS[0], accepted=[2, 1])]},
    ):
        with pytest.raises(TraceError):
            trace.save(dataclasses.replace(run, **change), tmp_path / "run.json")
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_readers_write_without_an_exponent_are_read(run):
    """Beyond 2**53 they are no whole numbers, as with JavaScript's JSON."""
    data = json.loads(trace.to_json(run))
    data["steps"][0]["tree"]["scores"][1] = -(10**20)
    assert type(trace.from_dict(data).steps[0].tree.scores[1]) is float


def test_a_failed_save_leaves_the_old_file(run, tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    path.write_text("old")

    def fail(*args):
        raise OSError("disk")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk"):
        trace.save(run, path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["run.json"]


def test_not_a_number_is_not_written(run):
    with pytest.raises(ValueError, match="Out of range float"):
        trace.to_json(dataclasses.replace(run, prefill_s=float("nan")))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema"], "jakiro-trace/2", "update this program"),
        (["schema"], "jakiro-trace/0", "record it again"),
        (["schema"], None, "record it again"),
        (["method"], 3, "trace.method"),
        (["seed"], True, "trace.seed"),
        (["stop"], "bored", "expected one of"),
        (["pieces"], {"x": "a"}, "token ids are expected"),
        (["pieces", "1"], 5, r"pieces\[1\]"),
        (["prompt"], [1.5], "prompt"),
        (["steps", 0, "tree", "parents"], [-1, 0, 0, 4, 3], r"steps\[0\].tree.parents\[3\]"),
        (["steps", 0, "tree", "parents"], [-1, 0, 0, 3, 3], r"steps\[0\].tree.parents\[3\] is 3"),
        (["steps", 0, "tree", "parents"], [0, 0, 0, 1, 3], "the first parent being -1"),
        (["steps", 0, "tree", "tokens"], [], "as many parents as tokens"),
        (["steps", 0, "tree", "scores"], [0.0], "list of 5 numbers"),
        (["steps", 0, "tree", "scores", 1], None, r"steps\[0\].tree.scores\[1\] is null"),
        (["steps", 0, "tree", "scores", 2], float("-inf"), r"scores\[2\] is -Infinity"),
        (["steps", 0, "tree", "tokens", 3], -1, r"tree.tokens\[3\] is -1; token ids"),
        (["steps", 0, "tree", "parents", 0], None, r"tree.parents\[0\] is null"),
        (["steps", 0, "accepted", 0], "1", r"steps\[0\].accepted\[0\] is"),
        (["steps", 0, "tree", "columns", "pick"], [1], "columns.pick"),
        (["steps", 0, "tree", "columns", "pick", 1], "2", "columns.pick"),
        (["steps", 0, "tree", "columns", "pick", 1], 0.5, r"columns.pick\[1\] is 0.5, expected a whole number"),
        (["steps", 0, "tree", "columns", "pick", 1], -1, r"columns.pick\[1\] is -1, expected at least 0, or null"),
        (["steps", 0, "tree", "columns", "pick_rank"], [0, -1, 1, 1, 1], r"pick_rank\[1\] is -1, .* or null"),
        (["steps", 0, "accepted"], [1, 4], "not a path down from the root at node 4"),
        (["steps", 0, "accepted"], [3], "not a path"),
        (["steps", 0, "accepted"], [1, 99], "at node 99: it lists places in tree.tokens"),
        (["steps", 0, "target_logprobs"], [], "target_logprobs"),
        (["first"], 2, r"steps\[0\].tree.tokens\[0\] is 1, expected 2: the token before the round"),
        (["steps", 0, "bonus"], 8, r"steps\[1\].tree.tokens\[0\] is 9, expected 8"),
        (["steps", 0, "bonus"], -5, r"steps\[0\].bonus"),
        (["temperature"], -1, "temperature"),
        (["branch"], "other", "branch"),
        (["steps", 0, "bonus"], 5, r"steps\[0\].bonus is 5, which a child of the last accepted node has: accept it"),
        (["steps", 0, "target_logprobs", 0], -40, r"steps\[0\].target_logprobs\[0\] is -40, expected 0"),
        (["steps", 0, "tree", "scores", 0], 50, r"steps\[0\].tree.scores\[0\] is 50, expected 0"),
        (["steps", 1, "draft_s"], "fast", r"steps\[1\].draft_s"),
        (["steps", 1, "recording_s"], -1, r"steps\[1\].recording_s is -1, expected 0"),
        (["steps", 1, "bonus"], None, r"steps\[1\].bonus"),
    ],
)
def test_damage_is_named(run, path, value, message):
    data = copy.deepcopy(json.loads(trace.to_json(run)))
    *way, last = path
    place = data
    for step in way:
        place = place[step]
    place[last] = value
    with pytest.raises(TraceError, match=message):
        trace.from_dict(data)


def test_the_token_that_ends_a_text_may_have_been_drafted(run):
    ended = dataclasses.replace(run, steps=[dataclasses.replace(STEPS[0], bonus=5)])
    assert trace.from_json(trace.to_json(ended)) == ended


@pytest.mark.parametrize("name", ["method", "steps", "first", "pieces"])
def test_a_missing_field_is_named(run, name):
    data = json.loads(trace.to_json(run))
    del data[name]
    with pytest.raises(TraceError, match=f"trace has no '{name}': export it again, or write it as docs/trace.md says"):
        trace.from_dict(data)


def test_whole_numbers_pass_for_floats(run):
    data = json.loads(trace.to_json(run))
    data["temperature"] = 0
    assert trace.from_dict(data).temperature == 0.0


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "NaN"])
def test_what_is_no_trace_is_refused(text, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(TraceError, match=r"bad\.json: this is not a trace"):
        trace.load(tmp_path / "bad.json")


@pytest.mark.parametrize("write", [traces.traces_json, lambda runs: "\n".join(map(trace.to_json, runs))])
@pytest.mark.parametrize("count", [1, 2])
def test_what_the_page_exports_is_read_or_it_is_said_what_reads_it(run, tmp_path, write, count):
    (file := tmp_path / "exported.json").write_text(write([run] * count))
    assert len(traces.load_traces(file)) == count
    if file.read_text().startswith("{") and count == 1:
        assert trace.load(file).tokens == run.tokens
        return
    with pytest.raises(TraceError, match=r"exported\.json: .* a list or several: jakiro\.traces\.load_traces reads"):
        trace.load(file)


def test_a_mark_at_a_file_s_beginning_is_no_part_of_it(run, tmp_path):
    (file := tmp_path / "edited.json").write_text(trace.to_json(run), encoding="utf-8-sig")
    assert trace.load(file).tokens == traces.load_traces(file)[0].tokens == run.tokens


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match=r"bad\.json"):
        trace.load(tmp_path / "bad.json")
