"""Nodes that were drafted but did not fit: recorded as the next best of the pool, written, read, drawn."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from jakiro.drafting import drafter as drafting
from jakiro.engine import record
from jakiro.graph import CUT, round_graph
from jakiro.methods import METHODS, with_trees
from jakiro.trace import TraceError, from_json, to_json
from jakiro.tree import CutNodes, DraftTree
from jakiro.ui.figures.tree import tree_figure
from jakiro.ui.replay import cut_figure, payload
from jakiro.verify import Sampling
from scripts.record import main

PROMPT = [5, 17, 3, 250, 99]


def run(target, name, nodes, length=14):
    settings = METHODS[name].settings(top_k=3, depth=3, total_tokens=nodes)
    make = METHODS[name].load(target)
    return record(target, make(settings), PROMPT, length, Sampling(), name, settings)


@pytest.mark.parametrize("name", with_trees())
def test_what_was_cut_is_what_a_larger_budget_would_have_kept(target, name):
    small, large = run(target, name, 6), run(target, name, 12)
    step, more = small.steps[0], large.steps[0]
    kept = set(zip(more.tree.tokens[1:], more.tree.scores[1:], strict=True))
    cut = step.tree.cut
    whole = [*zip(step.tree.tokens[1:], step.tree.scores[1:], strict=True), *zip(cut.tokens, cut.scores, strict=True)]
    assert len(step.tree) == 6 and set(whole[:11]) == kept
    assert cut.scores == sorted(cut.scores, reverse=True) and max(cut.scores) <= min(step.tree.scores)


@pytest.mark.parametrize("name", with_trees())
def test_a_cut_node_hangs_where_it_was_drafted(target, name):
    small, large = run(target, name, 5), run(target, name, 22)
    tree = small.steps[0].tree
    tokens, parents = tree.tokens + tree.cut.tokens, tree.parents + tree.cut.parents
    whole = DraftTree(tokens, parents, [0.0] * len(tokens))
    assert {*whole.paths()[:22]} == {*large.steps[0].tree.paths()}


def test_a_tree_with_room_for_all_cuts_nothing_and_a_trace_keeps_so_many(target, monkeypatch):
    assert len(run(target, "eagle2", 22).steps[0].tree.cut) == 0
    monkeypatch.setattr(drafting, "MAX_CUT", 4)
    assert len(run(target, "eagle2", 5).steps[0].tree.cut) == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--set", "depth"], "--set takes name=value"),
        (["--set", "deep=3"], "no method here has the setting deep"),
        (["--lane", "eagle2,deep=3"], "no method here has the setting deep"),
        (["--lane", "eagle2,depth"], "--lane eagle2 takes name=value"),
        (["--lane", "eagle9"], "eagle9"),
        (["--only", "Nothing"], "there is no example 'Nothing'; there are Chat,"),
        (["--title", "Mine"], "name its example with --only"),
        (["--only", "Chat", "--title", "Ω"], "give it a letter from a to z"),
        (["--device", "gpu7"], "gpu7"),
        (["--target", "nowhere"], "nowhere"),
        (["--out", __file__], "is a file; name a folder"),
    ],
)
def test_races_that_cannot_be_recorded_are_refused_in_a_line(tmp_path, capsys, line, message):
    assert main(["--out", str(tmp_path / "races"), *line]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1] and list(tmp_path.iterdir()) == []


def test_an_index_that_may_not_be_opened_is_said_with_the_remedy(capsys, monkeypatch):
    def refused(options):
        raise PermissionError(13, "Permission denied", "index.json")

    monkeypatch.setattr("scripts.record.record_races", refused)
    assert main([]) == 2
    assert "index.json may not be opened: change its permissions" in capsys.readouterr().err


def test_vanilla_cuts_nothing(target):
    vanilla = METHODS["vanilla"]
    trace = record(target, vanilla.load(target)(vanilla.defaults(target)), PROMPT, 4, Sampling())
    assert all(len(step.tree.cut) == 0 for step in trace.steps) and "cut" not in to_json(trace)


def test_cut_nodes_are_written_and_read(target):
    trace = run(target, "jakiro", 6)
    again = from_json(to_json(trace))
    assert [step.tree.cut.tokens for step in again.steps] == [step.tree.cut.tokens for step in trace.steps]
    assert all(token in trace.pieces for step in trace.steps for token in step.tree.cut.tokens)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parents": [9, 0]}, r"cut.parents\[0\] is 9"),
        ({"parents": [6, 0]}, r"cut.parents\[0\] is 6"),
        ({"parents": [-1, 0]}, r"cut.parents\[0\] is -1"),
        ({"parents": [0]}, "list of 2 numbers"),
        ({"scores": [0.0]}, "list of 2 numbers"),
        ({"tokens": [-3, 1]}, "token ids count from 0"),
    ],
)
def test_damaged_cut_nodes_are_refused(target, change, message):
    trace = run(target, "eagle2", 6)
    step = trace.steps[0]
    cut = replace(CutNodes([1, 2], [0, 6], [-5.0, -6.0]), **change)
    damaged = replace(trace, steps=[replace(step, tree=replace(step.tree, cut=cut)), *trace.steps[1:]])
    with pytest.raises(TraceError, match=message):
        from_json(to_json(damaged))


def test_cut_nodes_are_drawn_apart(target):
    trace = run(target, "jakiro", 6)
    graph, bare = round_graph(trace, 0, cut=True), round_graph(trace, 0)
    ghosts = [node for node in graph if graph.nodes[node]["state"] == CUT]
    assert len(ghosts) == len(trace.steps[0].tree.cut) and len(graph) == len(bare) + len(ghosts)
    assert all(0 <= graph.nodes[node]["q"] <= 1 and "x" in graph.nodes[node] for node in ghosts)
    plain, whole = tree_figure(trace), tree_figure(trace, cut=True)
    assert len(whole["template"]["data"]) == len(plain["template"]["data"]) + 3  # lines, points, legend
    points = whole["rounds"][0]["data"][1]
    assert len(points["x"]) == len(ghosts) and set(points["customdata"]) == {-1}
    assert all(len(one["data"]) == len(whole["template"]["data"]) for one in whole["rounds"])
    assert json.loads(cut_figure(trace)) == json.loads(json.dumps(whole))
    assert json.loads(payload([trace]))["traces"][0]["cut"] is True
