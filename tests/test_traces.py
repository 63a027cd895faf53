"""Files of traces that anyone may have written: read, held within limits, or refused with the place and the remedy."""

from __future__ import annotations

import json
import random
import re
from dataclasses import fields, replace
from pathlib import Path

import jsonschema
import pytest
import synthetic

from jakiro import traces
from jakiro.__main__ import main
from jakiro.trace import StepTrace, Trace, TraceError, to_json
from jakiro.traces import load_traces, read_traces, traces_json
from jakiro.tree import CutNodes, DraftTree
from jakiro.ui import recorded
from jakiro.ui.about import OPENED
from jakiro.ui.export import EXPORTS
from jakiro.ui.replay import cut_figure, payload

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "docs" / "jakiro-trace-1.schema.json").read_text())
RECORDED = sorted((ROOT / "assets" / "traces").glob("*-*.json"))
RUN = synthetic.tree_trace(4, nodes=12)
CHAIN = DraftTree([1] * 5001, list(range(-1, 5000)), [0.0] * 5001)
FEW = DraftTree([1, 2], [-1, 0], [0.0, -1.0])
DEEP = StepTrace(CHAIN, [], 2, [0.0] * 5001, 0.0, 1.0, 0.0)
PAIR = [synthetic.vanilla_trace(RUN.tokens), RUN]


def with_tree(tree: DraftTree) -> str:
    steps = [StepTrace(tree, [], 2, [0.0] * len(tree), 0.0, 1.0, 0.0)]
    return to_json(replace(RUN, first=tree.tokens[0], steps=steps))


def with_cut(parents: list[int]) -> str:
    cut = CutNodes([7] * len(parents), parents, [-2.0] * len(parents))
    return with_tree(replace(FEW, cut=cut))


def with_column(name: str, **columns) -> str:
    return with_tree(replace(FEW, columns={name: [None, 0.5], **columns}))


def sound(data) -> bool:
    return not list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(data))


@pytest.mark.parametrize("text", [traces_json(PAIR), "\n".join(map(to_json, PAIR)), "\n\n".join(map(to_json, PAIR))])
def test_runs_are_read_from_a_list_or_from_lines(text):
    assert read_traces(text) == read_traces(traces_json(PAIR)) == [read_traces(to_json(one))[0] for one in PAIR]


def test_a_file_may_begin_with_a_byte_order_mark_and_be_indented():
    assert read_traces("\ufeff" + json.dumps(json.loads(traces_json(PAIR)), indent=1)) == read_traces(traces_json(PAIR))


def test_files_may_be_joined_whatever_each_of_them_is():
    one, both = to_json(PAIR[0]), traces_json(PAIR)
    assert read_traces(f"{one}\n\ufeff{both}\n{one}\n") == read_traces(traces_json([PAIR[0], *PAIR, PAIR[0]]))
    with pytest.raises(TraceError, match="holds no runs"):
        read_traces("[]\n[]")


def test_whole_numbers_may_be_written_with_a_point():
    for text in (to_json(RUN), with_cut([0, 2])):
        data = json.loads(text, parse_int=float)
        [found] = read_traces(json.dumps(data))
        assert sound(data) and found == read_traces(text)[0]
        whole = [found.seed, found.first, *found.prompt]
        for step in found.steps:
            whole += [step.bonus, *step.accepted, *step.tree.tokens, *step.tree.parents]
            whole += [*step.tree.cut.tokens, *step.tree.cut.parents]
        assert {type(one) for one in whole} == {int}


def test_the_examples_in_the_documentation_are_sound_and_every_field_is_explained(tmp_path):
    text = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    index, example = re.findall("```json\n(.*?)```", text, re.DOTALL)
    [found] = read_traces(example)
    (tmp_path / "index.json").write_text(index)
    (tmp_path / "mine.json").write_text(example)
    assert [recorded.load(tmp_path, race) for race in recorded.read(tmp_path)] == [[found]]
    assert sound(json.loads(example)) and can_be_sent([found])
    assert "".join(map(found.piece, found.tokens)) == "Hi there!"
    names = [one.name for kind in (Trace, StepTrace) for one in fields(kind) if one.name != "tree"]
    assert all(f"`{name}`" in text for name in [*names, *(f"tree.{one.name}" for one in fields(DraftTree))])


def test_lines_end_where_json_lines_do():
    """U+2028, U+2029 and U+0085 may stand in a JSON string as they are."""
    odd = replace(RUN, pieces=RUN.pieces | {RUN.first: "a\u2028b\u2029c\x85d"})
    assert "\u2028" in to_json(odd)
    assert read_traces("\n".join(map(to_json, [odd, odd]))) == read_traces(traces_json([odd, odd]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("round,node\n1,2\n", r"this is not a trace \(not JSON from line 1 column 1 on\): Export → Traces"),
        ('[{"method": "jakiro"}]', "^this is not a trace, but an object without 'schema': Export.*docs/trace.md"),
        ("1,2", "^this is not a trace"),
        ("", "not JSON"),
        ("[]", "the list holds no runs"),
        ('{\n "schema": "jakiro-trace/1",\n "method":\n}', "not JSON from line 4 column 1"),
        ("[" * 100_000, r"\(not JSON\)"),
        (to_json(RUN) + "\n{", "not JSON from line 2 column 2"),
        (traces_json([RUN] * 9), "9 runs, and 8 can be shown"),
        (json.dumps([json.loads(to_json(RUN)), {}]), "run 2: this is not a trace"),
        (to_json(replace(RUN, target="x" * 1001)), "1,001 characters"),
        (to_json(replace(RUN, pieces={1: "x" * 10_000_000})), r"pieces\[1\] has 10,000,000 characters"),
        (to_json(replace(RUN, settings={"x" * 1001: 1})), "1,001 characters"),
        (to_json(replace(RUN, settings={"a": [[]]})), "trace.settings.a is a list, expected text, a number"),
        (
            to_json(RUN).replace('"seed":0', '"seed":' + "[" * 900 + "]" * 900),
            "seed is a list, expected a whole number",
        ),
        ("0 " * 2_000_000, "more than 8 runs, and 8 can be shown"),
        (to_json(replace(RUN, first=-1)), "trace.first is -1"),
        (with_tree(CHAIN), "a tree has 5,000 levels, 64 can be shown"),
        (to_json(replace(RUN, prompt=[-5])), "token ids count from 0"),
        (to_json(replace(RUN, prefill_s=-1.0)), "trace.prefill_s is -1"),
        (to_json(replace(RUN, top_p=1.5)), "trace.top_p is 1.5"),
        (to_json(replace(RUN, seed=2**60)), "trace.seed"),
        (
            to_json(RUN).replace('"seed":0', '"seed":1e300'),
            r"seed is 10\d+, expected a whole number of at most 2\^53",
        ),
        (to_json(RUN).replace('"seed":0', '"seed":' + "9" * 5000), "not JSON|trace.seed is"),  # Python 3.10.4 reads it
        (to_json(RUN).replace('"prefill_s":', '"prefill_s":NaN,"x":'), "trace.prefill_s is NaN"),
        (to_json(RUN).replace('"gate0":[null,', '"gate0":[2,'), r"gate0\[0\] is the share 2"),
        (with_column("mine", other=[True, False]), r"columns.other\[0\] is true, expected a number of at most 1e100"),
        (with_cut([0] * 33), r"steps\[0\].tree.cut has 33 entries, 32 can be kept"),
        (with_tree(replace(FEW, columns={str(at): [0, 1] for at in range(1001)})), "columns has 1,001 entries, 1,000"),
        (to_json(replace(RUN, settings={str(at): at for at in range(1001)})), "trace.settings has 1,001 entries"),
        (to_json(replace(RUN, versions={str(at): "1" for at in range(1001)})), "trace.versions has 1,001 entries"),
        (to_json(RUN).replace('"pieces":{', '"pieces":{"' + "9" * 5000 + '":"a",'), "has the key '9999.*token ids"),
        (to_json(RUN).replace('"pieces":{', '"pieces":{"9007199254740993":"a",'), "has the key '9007199254740993'"),
        (to_json(replace(RUN, schema="jakiro-trace/" + "9" * 5000)), "schema is 'jakiro-trace/9999.*record it again"),
        ('{"schema": "jakiro-bench/1", "rows": []}', "not a trace, but a benchmark report: Export"),
        (
            '{"schema": "jakiro-races/1", "races": []}',
            "not a trace, but an index, of traces in files beside it: Export",
        ),
        (to_json(replace(RUN, schema="jakiro-trace/²")), "schema is 'jakiro-trace/²', .*record it again"),
        (to_json(replace(RUN, prefill_s=1e90)), r"trace.prefill_s is 1e\+90, expected 0 to 1e\+09"),
        (to_json(replace(RUN, prefill_s=1e-320)), "trace.prefill_s is 9.99989e-321 seconds, expected 0 or at least"),
        (to_json(replace(RUN, temperature=1e101)), r"trace.temperature is 1e\+101, expected a number of at most 1e100"),
        (with_column("js", other=[1e308, 1e308]), r"columns.other\[0\] is 1e\+308"),
        (
            to_json(replace(RUN, steps=[replace(DEEP, tree=FEW, target_logprobs=[0.0, 800.0])])),
            r"target_logprobs\[1\] is 800; a probability's log is at most 0",
        ),
    ],
)
def test_what_is_damaged_or_too_large_is_refused(text, message):
    with pytest.raises(TraceError, match=message):
        read_traces(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            to_json(replace(RUN, **{name: "a\ud800"}))
            for name in ("method", "target", "device", "dtype", "recorded", "stop")
        ),
        to_json(replace(RUN, pieces={RUN.first: "\udc00"})),
        to_json(replace(RUN, settings={"a": "\ud800"})),
        to_json(replace(RUN, settings={"\ud800": "a"})),
        to_json(replace(RUN, settings={"\ud800": []})),
        to_json(replace(RUN, versions={"\ud800": "a"})),
        to_json(replace(RUN, schema="\ud800")),
        to_json(RUN).replace('"columns":{', '"columns":{"\ud800":[],', 1),
        to_json(RUN).replace('"seed":', '"\ud800":1,"seed":'),
    ],
)
def test_half_a_character_is_refused_wherever_it_is_with_a_message_that_can_be_sent(text):
    assert json.dumps(json.loads(text)).isascii()  # as a file has it: an escape
    with pytest.raises(TraceError, match=r"half a character|schema is") as caught:
        read_traces(json.dumps(json.loads(text)))
    assert str(caught.value).encode()


def test_whole_characters_beyond_the_basic_plane_are_read():
    odd = replace(RUN, pieces=RUN.pieces | {RUN.first: "\U0001f600"})
    assert read_traces(json.dumps(json.loads(to_json(odd))))[0].pieces[RUN.first] == "\U0001f600"


def test_more_nodes_than_can_be_shown_are_refused(monkeypatch):
    monkeypatch.setattr(traces, "MAX_NODES", 10)
    with pytest.raises(TraceError, match="nodes, and 10 can be shown"):
        read_traces(to_json(RUN))


def test_more_rounds_than_can_be_shown_are_refused(monkeypatch):
    monkeypatch.setattr(traces, "MAX_ROUNDS", 2 * len(RUN.steps))
    assert len(read_traces(traces_json([RUN, RUN]))) == 2
    with pytest.raises(TraceError, match=f"{3 * len(RUN.steps)} rounds, and {2 * len(RUN.steps)} can be shown"):
        read_traces(traces_json([RUN] * 3))


def test_more_columns_than_can_be_shown_are_refused(monkeypatch):
    values = sum(len(step.tree) * len(step.tree.columns) for step in RUN.steps)
    monkeypatch.setattr(traces, "MAX_VALUES", values)
    assert read_traces(to_json(RUN))
    with pytest.raises(TraceError, match=f"{2 * values:,} values in nodes' columns, and {values:,} can be shown"):
        read_traces(traces_json([RUN, RUN]))


def test_a_file_in_another_encoding_is_told_what_to_be(tmp_path):
    (tmp_path / "wide.json").write_text(to_json(RUN), encoding="utf-16")
    with pytest.raises(TraceError, match=r"wide\.json: the file is not UTF-8 text .* write it again as UTF-8"):
        traces.load_traces(tmp_path / "wide.json")


def test_columns_of_each_round_alone_are_counted_together(monkeypatch):
    """A table of the run has a cell for each of them and each node."""
    trees = [replace(step.tree, columns={f"own {at}": [1] * len(step.tree)}) for at, step in enumerate(RUN.steps)]
    run = replace(RUN, steps=[replace(step, tree=tree) for step, tree in zip(RUN.steps, trees, strict=True)])
    nodes = sum(map(len, trees))
    monkeypatch.setattr(traces, "MAX_VALUES", len(trees) * nodes)
    assert read_traces(to_json(run))
    monkeypatch.setattr(traces, "MAX_VALUES", len(trees) * nodes - 1)
    with pytest.raises(TraceError, match=f"{len(trees)} columns make a table of {len(trees) * nodes} cells"):
        read_traces(to_json(run))


def test_cut_nodes_count_as_nodes_and_as_levels(monkeypatch):
    assert read_traces(with_cut([0] * 32)) and read_traces(with_cut([0, 2, 3]))
    monkeypatch.setattr(traces, "MAX_NODES", 31)
    with pytest.raises(TraceError, match="32 cut nodes, and 31 can be shown"):
        read_traces(with_cut([0] * 32))
    monkeypatch.setattr(traces, "MAX_LEVELS", 3)
    assert read_traces(with_cut([0, 2, 3]))
    with pytest.raises(TraceError, match="a tree has 4 levels, 3 can be shown"):
        read_traces(with_cut([1, 2, 3]))


@pytest.mark.parametrize("name", ["prompt", "pieces"])
def test_prompts_and_pieces_are_no_longer_than_those_of_any_model(name, monkeypatch):
    assert read_traces(to_json(RUN)) and traces.MAX_IDS >= 200_000
    monkeypatch.setattr(traces, "MAX_IDS", len(getattr(RUN, name)) - 1)
    with pytest.raises(TraceError, match=f"trace.{name} has .* entries"):
        read_traces(to_json(RUN if name == "pieces" else replace(RUN, pieces={})))


@pytest.mark.parametrize(("value", "count"), [("[]", traces.MAX_BRACKETS), ("1", traces.MAX_COMMAS)])
def test_a_file_of_more_lists_and_numbers_than_can_be_shown_is_not_parsed(value, count, monkeypatch):
    monkeypatch.setattr(traces.json, "JSONDecoder", lambda: pytest.fail("it was parsed"))
    text = "[" + f"{value}," * (count + 1) + f"{value}]"
    with pytest.raises(TraceError, match="more lists and numbers than the largest traces"):
        read_traces(text)


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "big.json").write_text(to_json(RUN))
    monkeypatch.setattr(traces, "MAX_BYTES", 100)
    with pytest.raises(TraceError, match=r"big\.json: more than 100 bytes"):
        load_traces(str(tmp_path / "big.json"))


def test_a_file_without_a_size_is_read_no_further(monkeypatch):
    monkeypatch.setattr(traces, "MAX_BYTES", 100)
    with pytest.raises(TraceError, match="/dev/zero: more than 100 bytes"):
        load_traces(Path("/dev/zero"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_the_published_schema_fits_what_is_recorded(file):
    assert sound(json.loads(file.read_text()))


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (["schema"], "jakiro-trace/2"),
        (["seed"], -1),
        (["top_p"], 2),
        (["top_p"], 0),
        (["steps", 0, "tree", "cut"], {}),
        (["stop"], "bored"),
        (["pieces"], {"x": "a"}),
        (["steps", 0, "accepted"], [0]),
        (["steps", 0, "bonus"], None),
        (["steps", 0, "draft_s"], -1),
        (["steps", 0, "tree", "parents", 0], 0),
        (["steps", 0, "tree", "tokens"], []),
        (["steps", 0, "tree", "columns", "pick"], "x"),
        (["steps", 0, "tree", "columns", "overlap", 1], 1.5),
        (["steps", 0, "tree", "columns", "gate0", 1], -0.1),
        (["steps", 0, "tree", "columns", "gate1", 1], 2),
        (["steps", 0, "target_logprobs", 0], 0.5),
        (["steps", 0, "target_logprobs", 0], -40),
        (["steps", 0, "target_logprobs", 0], None),
        (["steps", 0, "target_logprobs", 1], 0.5),
        (["steps", 0, "tree", "scores", 0], 50),
        (["steps", 0, "tree", "cut"], {"tokens": [1] * 33, "parents": [0] * 33, "scores": [-9.0] * 33}),
    ],
)
def test_the_schema_and_the_reader_refuse_alike(way, value):
    data = json.loads(to_json(RUN))
    place = data
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = value
    assert not sound(data)
    with pytest.raises(TraceError):
        read_traces(json.dumps(data))


def test_a_trace_need_not_know_what_the_target_thought():
    steps = [replace(step, target_logprobs=[0.0] + [None] * (len(step.tree) - 1)) for step in RUN.steps]
    text = traces_json([PAIR[0], replace(RUN, steps=steps)])
    assert sound(json.loads(text)[1])
    found = read_traces(text)
    assert found[1].steps[0].target_logprobs == steps[0].target_logprobs and can_be_sent(found)
    known, shown = (json.loads(payload(one))["traces"][1] for one in (PAIR, found))
    assert all(set(nodes["p"]) == {None} for nodes in shown["nodes"])
    hover, said = (json.dumps(one["figures"]["tree"]["template"]) for one in (known, shown))
    assert "draft q" in said and "target p" in hover and "target p" not in said
    assert "the trace does not know it" in json.dumps(shown["figures"]["diversity"])


def test_whatever_is_read_can_be_shown_and_exported():
    odd = [None, 0, -1, 1.5, 1e100, -1e100, 2**53, "x", "<b>", "", True]
    sources = [json.loads(file.read_text()) for file in RECORDED if file.stem.startswith("shell")]
    shown = 0
    for seed in range(200):
        draw = random.Random(seed)
        data = json.loads(json.dumps(draw.choice(sources)))
        data["steps"] = data["steps"][:3]
        for _ in range(draw.randrange(1, 5)):
            spoil(data, draw, odd)
        try:
            found = read_traces(json.dumps(data))
        except TraceError:
            continue
        shown += 1
        assert can_be_sent(found)
    assert shown > 50


def can_be_sent(found) -> bool:
    assert json.loads(payload(found).encode())["traces"] and all(cut_figure(one).encode() for one in found)
    return all(make(found, OPENED).encode() for name, (_, make) in EXPORTS.items() if name != "replay.html")


OURS = ["id", "parent", "depth", "state", "q", "p", "score"]


@pytest.mark.parametrize(
    "name", [*OURS, "token", "piece", "x", "y", "self", "node", "node_for_adding", "label", "round", "method", ""]
)
def test_a_column_takes_the_place_of_nothing_that_the_page_knows(name):
    found = read_traces(with_column(name))
    assert can_be_sent(found)
    shown, bare = (json.loads(payload(one))["traces"][0] for one in (found, read_traces(with_tree(FEW))))
    assert shown["figures"] == bare["figures"]
    kept = {key: values for key, values in shown["nodes"][0].items() if key in bare["nodes"][0]}
    assert kept == bare["nodes"][0]
    assert (shown["nodes"][0].get(name) == [None, 0.5]) == (name not in OURS)
    added = [one["key"] for one in shown["fields"] if one not in bare["fields"]]
    assert added == [name] * (name not in OURS)


@pytest.mark.parametrize("seconds", [[0.0, 0.0, 0.0], [1e-12, 0.0, 0.0], [1e9, 1e9, 1e9]])
def test_times_that_are_read_have_rates_that_can_be_sent(seconds):
    times = dict(zip(("draft_s", "verify_s", "overhead_s"), seconds, strict=True))
    run = replace(RUN, steps=[replace(step, **times) for step in RUN.steps])
    assert can_be_sent(read_traces(traces_json([synthetic.vanilla_trace(RUN.tokens), run])))


def spoil(data, draw, odd):
    """Set something of a trace to what no recording has."""
    step = draw.choice(data["steps"])
    columns = step["tree"]["columns"]
    what = draw.choice(["setting", "column", "values", "field", "unknown"])
    if what == "setting":
        data["settings"][draw.choice(["depth", "top_k", "total_tokens", "other"])] = draw.choice(odd)
    elif what == "column" and columns:
        del columns[draw.choice(list(columns))]
    elif what == "unknown":
        step["target_logprobs"][1:] = [draw.choice([None, logp]) for logp in step["target_logprobs"][1:]]
    elif what == "values" and columns:
        name = draw.choice(list(columns))
        columns[name] = [draw.choice(odd[:7]) if draw.random() < 0.5 else value for value in columns[name]]
    else:
        data[draw.choice(["temperature", "seed", "first", "stop"])] = draw.choice([0, 1, 3, "eos", "stopped"])


def test_validate_tells_sound_files_from_others(tmp_path, capsys):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(traces_json(PAIR))
    bad.write_text(to_json(replace(RUN, stop="eos")).replace('"eos"', '"bored"'))
    assert main(["validate", str(good)]) == 0
    assert "jakiro on synthetic" in capsys.readouterr().out
    assert main(["validate", str(good), str(bad), str(tmp_path / "none.json")]) == 1
    said = capsys.readouterr()
    assert said.out.count("good.json") == 2
    assert "bad.json: stop is 'bored'" in said.err and "none.json" in said.err


def test_validate_notices_scores_that_are_no_path_s(tmp_path, capsys):
    at = next(number for number, step in enumerate(RUN.steps) if max(step.tree.depths()) > 1)
    tree = RUN.steps[at].tree
    own = [score - tree.scores[max(parent, 0)] for score, parent in zip(tree.scores, tree.parents, strict=True)]
    steps = [*RUN.steps[:at], replace(RUN.steps[at], tree=replace(tree, scores=own)), *RUN.steps[at + 1 :]]
    for name, run in {"paths.json": RUN, "tokens.json": replace(RUN, steps=steps)}.items():
        (tmp_path / name).write_text(to_json(run))
        assert main(["validate", str(tmp_path / name)]) == 0
    said = capsys.readouterr()
    assert said.err.count("scores above its parent") == 1 and f"tokens.json: in round {at + 1} a node" in said.err


def test_validate_notices_drafts_without_probabilities(tmp_path, capsys):
    drafts = {"sure": {}, "unknown": {"copied_from": [None, None, None]}}
    for name, columns in drafts.items():
        tree = DraftTree([1, 2, 3], [-1, 0, 1], [0.0] * 3, columns)
        idle = StepTrace(DraftTree([4], [-1], [0.0]), [], 1, [0.0], 0.0, 0.0, 0.0)
        steps = [StepTrace(tree, [1], 4, [0.0, None, None], 0.0, 0.0, 0.0), idle]
        (tmp_path / f"{name}.json").write_text(to_json(replace(RUN, first=1, steps=steps)))
        assert main(["validate", str(tmp_path / f"{name}.json")]) == 0
    for recorded_one in RECORDED:
        assert main(["validate", str(recorded_one)]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "sure.json: every score is 0" in said and "copied_from" in said


def test_replay_writes_a_page_or_says_why_not(tmp_path, capsys, monkeypatch):
    source, other, out = (tmp_path / name for name in ("run.json", "other.json", "page.html"))
    source.write_text(to_json(RUN))
    other.write_text(to_json(replace(RUN, method="eagle2")))
    assert main(["replay", str(source), str(other), "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>") and "2 runs" in capsys.readouterr().out
    assert main(["replay", str(source), "--out", str(out)]) == 0, "a page of before is replaced"
    assert "1 run," in capsys.readouterr().out
    out.unlink()
    (tmp_path / "notes.md").write_text("mine")
    assert main(["replay", str(source), "--out", str(tmp_path / "notes.md")]) == 2
    assert "is no page; name another" in capsys.readouterr().err and (tmp_path / "notes.md").read_text() == "mine"
    assert main(["replay", str(source), "--out", str(tmp_path / "none" / "page.html")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert main(["replay", *[str(source)] * 9, "--out", str(out)]) == 2
    assert "9 runs, and 8 can be shown side by side" in capsys.readouterr().err
    with pytest.raises(TraceError, match="this is not a trace"):
        read_traces(json.dumps([{"label": "a", "prompt": "b"}] * 9))  # whose number is beside the point
    monkeypatch.setattr(traces, "MAX_ROUNDS", 2 * len(RUN.steps))
    assert main(["replay", *[str(source)] * 3, "--out", str(out)]) == 2
    assert f"{3 * len(RUN.steps)} rounds, and" in capsys.readouterr().err
    source.write_text("{")
    assert main(["replay", str(source), "--out", str(out)]) == 2
    assert not out.exists() and "not JSON" in capsys.readouterr().err
