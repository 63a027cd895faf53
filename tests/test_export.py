"""A race as files to take away, and what they say of one that is no race: a what-if."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest
import synthetic

from jakiro.trace import from_json, to_json
from jakiro.traces import read_traces
from jakiro.ui import offline
from jakiro.ui.about import LIVE
from jakiro.ui.export import EXPORTS
from jakiro.ui.library import Library

RUN = synthetic.tree_trace(6, nodes=20)
TRACES = [from_json(to_json(trace)) for trace in (synthetic.vanilla_trace(RUN.tokens), RUN)]  # as files round them
TREE = TRACES[1].steps[0].tree
BEGUN = replace(TRACES[1].steps[0], tree=replace(TREE, tokens=[TREE.tokens[0] + 1, *TREE.tokens[1:]]))
OTHER = replace(TRACES[1], first=BEGUN.tree.tokens[0], steps=[BEGUN, *TRACES[1].steps[1:]])
BRANCHED = [replace(TRACES[1], branch="as it was"), replace(OTHER, branch="what if")]
WHAT_IF = {
    "kind": "what if",
    "note": "Jakiro from round 3 on",
    "back": {"race": "live-1", "method": "jakiro", "round": 2},
    "prompt": "What is a prime number?",
    "title": "What is a prime number?",
}


def exported(name, traces=TRACES, facts=LIVE):
    return EXPORTS[name][1](traces, facts)


def inside(page):
    """What the file's viewer gets of the race."""
    return json.loads(re.search(r'<script type="application/json" id="race">(.*?)</script>', page)[1])


def titles(found):
    return [trace["title"] for trace in found["replay"]["traces"]]


@pytest.fixture
def branched(tmp_path):
    """The traces of a what-if and what a library says of them."""
    library = Library(tmp_path)
    id = library.add(BRANCHED, WHAT_IF)
    return library.traces(id), library.about(id)


@pytest.mark.parametrize("text", ["\r", "\n", "a\rb", ",", '"'])
def test_a_token_that_would_break_a_line_of_the_table_does_not(text):
    token = RUN.steps[0].tree.tokens[1]
    table = exported("nodes.csv", [replace(RUN, pieces=RUN.pieces | {token: text})])
    rows = list(csv.DictReader(io.StringIO(table, newline="")))
    assert len(rows) == sum(len(step.tree) for step in RUN.steps) and rows[1]["piece"] == text


def test_exports_hold_what_was_recorded():
    assert [from_json(json.dumps(one)) for one in json.loads(exported("traces.json"))] == TRACES
    assert [from_json(line) for line in exported("traces.ndjson").splitlines()] == TRACES
    vanilla, run = json.loads(exported("metrics.json"))
    assert vanilla["speedup"] == 1.0 and run["identical_to_first"]
    assert run["speedup"] == pytest.approx(run["tokens_per_second"] / vanilla["tokens_per_second"])
    rows = list(csv.DictReader(io.StringIO(exported("nodes.csv"))))
    assert len(rows) == sum(len(step.tree) for trace in TRACES for step in trace.steps)
    assert {row["method"] for row in rows} == {row["lane"] for row in rows} == {"vanilla", "jakiro"}


def test_own_columns_are_in_the_table_whatever_they_are_called():
    names = ["lane", "method", "token", "piece", "round", "node", "q", "other"]
    step = RUN.steps[0]
    tree = replace(step.tree, columns={name: [7.5] * len(step.tree) for name in names})
    [row, *_] = csv.DictReader(io.StringIO(exported("nodes.csv", [replace(RUN, steps=[replace(step, tree=tree)])])))
    assert {row[f"column.{name}"] for name in names[:-1]} == {row["other"]} == {"7.5"}
    assert (row["lane"], row["method"], row["round"], row["q"]) == ("jakiro", "jakiro", "0", "")


def test_whole_numbers_stay_whole_beside_lanes_and_nodes_without_them():
    columns = {"source": [None] + [1] * (len(TREE) - 1), "weight": [None] + [1.0] * (len(TREE) - 1)}
    run = replace(TRACES[1], steps=[replace(TRACES[1].steps[0], tree=replace(TREE, columns=columns))])
    rows = list(csv.DictReader(io.StringIO(exported("nodes.csv", [TRACES[0], run]))))
    assert {row["source"] for row in rows} == {"", "1"} and {row["weight"] for row in rows} == {"", "1.0"}
    assert {row["parent"] for row in rows} >= {"-1", "0"}


def test_metrics_of_lanes_that_differ_say_so_only_of_a_race(branched):
    assert [row["identical_to_first"] for row in json.loads(exported("metrics.json", [TRACES[1], OTHER]))] == [
        True,
        False,
    ]
    rows = json.loads(exported("metrics.json", *branched))
    assert [(row["lane"], row["method"]) for row in rows] == [("jakiro", "jakiro"), ("jakiro-2", "jakiro")]
    assert rows[0]["identical_to_first"] and "identical_to_first" not in rows[1]
    nodes = list(csv.DictReader(io.StringIO(exported("nodes.csv", *branched))))
    assert {(row["lane"], row["method"]) for row in nodes} == {("jakiro", "jakiro"), ("jakiro-2", "jakiro")}


def test_a_lane_that_was_stopped_is_not_said_to_have_the_whole_text():
    short = replace(RUN, steps=RUN.steps[:2], stop="stopped")
    rows = json.loads(exported("metrics.json", [*TRACES, short]))
    assert [row["identical_to_first"] for row in rows] == [True, True, None]
    parted = replace(short, steps=[RUN.steps[0], replace(RUN.steps[1], bonus=RUN.steps[1].bonus + 1)])
    assert json.loads(exported("metrics.json", [*TRACES, parted]))[2]["identical_to_first"] is False


def test_a_what_if_stays_one_in_a_file_without_the_way_back(branched):
    found = inside(exported("replay.html", *branched))
    about = found["about"]
    assert about["id"] == offline.ID and about["kind"] == "what if" and "back" not in about
    assert about["note"] == WHAT_IF["note"] and about["prompt"] == WHAT_IF["prompt"]
    assert titles(found) == ["Jakiro, unchanged", "Jakiro, what if"]


def test_a_what_if_that_was_opened_from_its_traces_is_still_no_race(branched, tmp_path):
    library = Library(tmp_path)
    found = json.loads(library.text(library.add(read_traces(exported("traces.json", *branched)))))
    assert titles(found) == ["Jakiro, unchanged", "Jakiro, what if"] and found["replay"]["lossless"] is None


def test_any_other_race_is_one_from_elsewhere_in_a_file(tmp_path):
    library = Library(tmp_path)
    library.begin("live-1", "asked")
    library.keep("live-1", TRACES)
    found = inside(exported("replay.html", TRACES, library.about("live-1")))
    assert found["about"]["id"] == offline.ID and found["about"]["kind"] == "opened"
    assert found["about"]["prompt"] == "asked"
    assert (
        inside(offline.page(TRACES))["about"]["kind"] == "opened"
    )  # the command `replay` knows nothing but the traces
