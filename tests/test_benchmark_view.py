"""The page's benchmark view, as data: what it makes of a report whose numbers are known, and of the committed ones."""

import json

import plotly.graph_objects as go
import pytest
from drawn import paint

from jakiro.assets import BENCHMARKS
from jakiro.measuring import report
from jakiro.measuring.report import Sample
from jakiro.ui.benchmarks import payload
from jakiro.ui.figures.benchmark import figures, limits_figure, rounds_figure, speed_figure
from jakiro.ui.figures.theme import THEMES

LIMITS = {"methods": {"jakiro": {"round_s": 0.004, "round_over_ideal": 1.25, "round_floor_s": 0.001}}}


def samples(task, repeat, seconds):
    known = {
        "task": task,
        "prompt": "1",
        "temperature": 0.0,
        "repeat": repeat,
        "tokens": 11,
        "decoded": 10,
        "prefill_s": 1.0,
    }
    plain = Sample(method="vanilla", decode_s=4.0, reached=[10], phases=[0.0, 4.0, 0.0], **known)
    phases = [0.25 * seconds, 0.5 * seconds, 0.25 * seconds]
    drafted = Sample(method="jakiro", decode_s=seconds, reached=[4, 3, 2], phases=phases, identical=True, **known)
    return [plain, drafted, Sample(method="hf_assisted", decode_s=8.0, **known)]


@pytest.fixture
def data():
    found = [
        one
        for task, seconds in (("a", 2.0), ("b", 1.0))
        for repeat in (0, 1)
        for one in samples(task, repeat, seconds + repeat)
    ]
    return {
        "schema": "jakiro-bench/1",
        "target": "tiny",
        "dtype": "float32",
        "max_new_tokens": 8,
        "machine": {"device": "<b>slow</b>", "instructions": "AVX2", "threads": 1},
        "versions": {"torch": "2"},
        "settings": {"vanilla": {}, "jakiro": {"top_k": 5}},
        "command": "python -m jakiro bench",
        "rows": report.rows(found),
    }


def trace(figure, name):
    return next(one for one in figure["data"] if one["name"] == name)


def test_dots_stand_at_the_speed_up_with_the_spread_of_the_repeats(data):
    dots = trace(speed_figure(data, 0.0), "jakiro")
    assert dict(zip(dots["y"], dots["x"], strict=True)) == {
        "a": pytest.approx(5 / 3, abs=1e-4),
        "b": 3.0,
        "mean": pytest.approx(7 / 3, abs=1e-4),
    }
    for edge in ("array", "arrayminus"):
        assert dots["error_x"][edge] == pytest.approx([1 / 3, 1, 2 / 3], abs=1e-4), "of the mean, the edges' mean"
    looks = [(one["marker"]["color"], one["marker"]["symbol"]) for one in speed_figure(data, 0.0)["data"]]
    assert len(set(looks)) == 3


def test_bars_add_up_to_a_round_and_lines_are_acceptance(data):
    figure = rounds_figure(data, 0.0)
    at = trace(figure, "verify")["y"].index("jakiro")
    assert sum(trace(figure, phase)["x"][at] for phase in ("draft", "verify", "overhead")) == pytest.approx(
        1000 * 4.0 / 8
    )
    line = trace(figure, "jakiro")
    assert (line["x"], line["y"]) == ([1, 2], [0.75, 0.5])


def test_limits_are_drawn_where_they_were_measured(data):
    assert limits_figure(data) is None
    figure = limits_figure(data | {"limits": LIMITS})
    assert {one["name"]: one["x"] for one in figure["data"]} == {
        "round": [4.0],
        "bare networks alone": [3.2],
        "device's floor": [1.0],
    }
    both = LIMITS["methods"] | {"vanilla": {"round_s": 0.002, "round_over_ideal": 1.0, "round_floor_s": 0.001}}
    for one in limits_figure(data | {"limits": {"methods": both}})["data"]:
        found = dict(zip(one["y"], one["x"], strict=True))
        expected = {"round": (4.0, 2.0), "bare networks alone": (3.2, 2.0), "device's floor": (1.0, 1.0)}[one["name"]]
        assert (found["jakiro"], found["vanilla"]) == expected
    mixture = {"methods": {"jakiro": LIMITS["methods"]["jakiro"] | {"round_floor_s": None}}}
    assert "device's floor" not in {one["name"] for one in limits_figure(data | {"limits": mixture})["data"]}


@pytest.mark.parametrize("theme", THEMES)
def test_plotly_takes_the_figures_in_both_themes(data, theme):
    for figure in figures(data | {"limits": LIMITS}):
        go.Figure(paint({"data": figure["data"], "layout": figure["layout"]}, theme))


def test_reports_of_a_folder_are_prepared_and_others_left_out(data, tmp_path):
    (tmp_path / "b.json").write_text(json.dumps(data))
    others = [{"schema": "jakiro-scrub/1"}, {"schema": [1]}, [{"schema": "jakiro-trace/1"}], "text"]
    for number, other in enumerate(others):
        (tmp_path / f"a{number}.json").write_text(json.dumps(other))
    (tmp_path / "cut-off.json").write_text('{"schema": "jak')
    [found] = json.loads(payload(tmp_path))["reports"]
    assert found["name"] == "b" and ["command", "python -m jakiro bench"] in found["facts"]
    assert found["title"] == "b: methods on tiny, temperature 0, <b>slow</b>"
    rows = {row[0]: dict(zip(found["table"]["head"], row, strict=True)) for row in found["table"]["rows"]}
    assert rows["Jakiro"]["speed-up"] == "2.33×" and rows["Jakiro"]["identical outputs"] == "100%"
    assert rows["HF assisted"]["tau"] == "" and rows["HF assisted"]["speed-up"] == "0.50×"
    facts = dict(found["facts"])
    assert facts["device"] == "<b>slow</b> (AVX2), 1 threads, float32" and facts["table"].startswith("means over")
    assert facts["repeats"].startswith("2; speeds are medians")
    spoilt = [row | {"prompts": 300, "identical": row["identical"] and 299 / 300} for row in data["rows"]]
    (tmp_path / "b.json").write_text(json.dumps(data | {"rows": spoilt}))
    assert "99%" in json.loads(payload(tmp_path))["reports"][0]["table"]["rows"][1]
    (tmp_path / "b.json").write_text(json.dumps(data | {"rows": [row | {"repeats": 1} for row in data["rows"]]}))
    [single] = json.loads(payload(tmp_path))["reports"]
    assert ["repeats", "1"] in single["facts"]


def test_another_head_of_a_method_is_called_as_on_the_page(data, tmp_path):
    """Also where no such head is known: a report is read anywhere."""
    rows = [row | {"method": "jakiro-mine"} if row["method"] == "jakiro" else row for row in data["rows"]]
    measured = {"methods": {"jakiro-mine": LIMITS["methods"]["jakiro"]}}
    mine = data | {"rows": rows, "limits": measured, "settings": {"vanilla": {}, "jakiro-mine": {"top_k": 5}}}
    (tmp_path / "b.json").write_text(json.dumps(mine))
    [found] = json.loads(payload(tmp_path))["reports"]
    assert "Jakiro (mine)" in [row[0] for row in found["table"]["rows"]]
    assert len(found["figures"]) == 3
    assert all("Jakiro (mine)" in text and '"jakiro-mine' not in text for text in map(json.dumps, found["figures"]))


def test_a_tuning_is_shown_with_its_best_trees(tmp_path):
    point = {
        "top_k": 5,
        "depth": 3,
        "total_tokens": 10,
        "texts": 9,
        "rounds": 80,
        "tau": 2.5,
        "seconds": 0.01,
        "tokens_per_s": 250.0,
    }
    early = point | {"total_tokens": 60, "texts": 1, "tokens_per_s": 900.0}
    about = {"machine": {"device": "slow", "threads": 1}, "versions": {}, "command": "python -m jakiro tune"}
    what = {
        "schema": "jakiro-tuning/1",
        "method": "jakiro",
        "target": "tiny",
        "dtype": "float32",
        "settings": {"top_k": "auto"},
    }
    what["note"] = "An older head."
    data = about | what | {"verify": [[1, 0.004], [10, 0.006]], "points": [point, early], "chosen": point}
    (tmp_path / "trees.json").write_text(json.dumps(data))
    [found] = json.loads(payload(tmp_path))["reports"]
    assert found["table"]["rows"] == [["10", "5", "3", "2.50", "10.00", "250.0"]]
    assert found["facts"][0] == ["note", "An older head."]
    replayed = "from 80 rounds replayed on 9 answers of the target"
    assert ["expected", f"{replayed}, greedy"] in found["facts"]
    assert found["figures"][0]["title"] == "Which tree pays: Jakiro"
    here, same = json.loads(payload(tmp_path, [data]))["reports"]  # what a race of the page measured comes first
    assert same == found and here["title"] == "auto on this machine: Jakiro, greedy"
    own, _ = json.loads(payload(tmp_path, [data | {"method": "jakiro-mine"}]))["reports"]  # another head
    assert own["title"] == "auto on this machine: Jakiro (mine), greedy"
    assert own["figures"][0]["title"] == "Which tree pays: Jakiro (mine)"
    assert here | {"name": "trees", "title": "trees: which tree pays for Jakiro on tiny, slow"} == found
    [warm, _] = json.loads(payload(tmp_path, [data | {"temperature": 0.7, "top_p": 0.9}]))["reports"]
    assert ["expected", f"{replayed}, sampled at temperature 0.7 and top_p 0.9"] in warm["facts"]


def test_a_rounds_cost_stands_beside_published_and_ideal_ones(tmp_path):
    about = {"machine": {"device": "slow", "threads": 1}, "versions": {}, "dtype": "bfloat16", "command": "python"}
    row = {
        "round_s": 0.03,
        "draft_s": 0.01,
        "verify_s": 0.02,
        "context": 64,
        "growth_s": 0.0,
        "attention_growth_s": 0.0,
    }
    grown = row | {"round_s": 0.04, "context": 512, "growth_s": 0.01, "attention_growth_s": 0.004}
    told = {"round_over_step": 1.5, "published_round_over_step": 1.64}
    published = {"source": "their logs", "gpu": "A40", "round_over_step": {"eagle2": 1.64}}
    rows = [{"method": "vanilla"} | row | told, {"method": "eagle2"} | row | told]
    shapes = about | {"schema": "jakiro-shapes/1", "shape": "llama-2-7b", "published": published, "rows": rows}
    rows = [{"method": "eagle2"} | one for one in (grown, row)]
    growing = about | {"schema": "jakiro-long-text/1", "target": "tiny", "rows": rows}
    for name, data in (("a", shapes), ("b", growing)):
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    first, second = json.loads(payload(tmp_path))["reports"]
    assert first["title"] == "a: rounds at the shape of llama-2-7b, slow"
    assert second["title"] == "b: as the text grows on tiny, slow"
    ours, theirs = first["figures"][0]["data"]
    assert (ours["y"], theirs["y"], theirs["name"]) == ([1.5], [1.64], "EAGLE-2, published (A40, prefill included)")
    assert ["published", "their logs"] in first["facts"]
    assert first["table"]["rows"][1] == ["EAGLE-2", "64", "30.00", "10.00", "20.00", "1.50", "1.64"]
    spent, alone = second["figures"][0]["data"]
    assert (spent["x"], spent["y"], alone["y"]) == ([64, 512], [30.0, 40.0], pytest.approx([30.0, 34.0]))
    assert second["table"]["rows"][0] == ["EAGLE-2", "512", "40.00", "10.00", "20.00", "10.00", "4.00"]
    for shown in (first, second):
        go.Figure(paint({key: shown["figures"][0][key] for key in ("data", "layout")}, "light"))
    recorded = [one | {"attention_growth_s": None} for one in rows]  # where passes are CUDA graphs it is not measured
    (tmp_path / "b.json").write_text(json.dumps(growing | {"rows": recorded}))
    [_, second] = json.loads(payload(tmp_path))["reports"]
    assert [one["name"] for one in second["figures"][0]["data"]] == ["EAGLE-2"]
    assert second["table"]["rows"][0] == ["EAGLE-2", "512", "40.00", "10.00", "20.00", "10.00", ""]


def test_the_committed_reports_can_be_shown():
    names = [one["name"] for one in json.loads(payload(BENCHMARKS))["reports"]]
    assert names[:2] == ["cpu", "cpu-60"]


def test_without_a_folder_there_are_no_reports(tmp_path):
    assert json.loads(payload(tmp_path / "none"))["reports"] == []


def test_intervals_of_variants_have_a_figure_for_each_reference(tmp_path, data):
    """Reports of before there could be several name none: theirs is the first."""
    found = [
        {"variant": name, "reference": reference, "temperature": 0.0, "tau": 2.0, "over_reference": middle}
        | {"over_reference_interval": [middle - 0.1, middle + 0.2]}
        for reference in ("eagle2", "jakiro")
        for name, middle in ((reference, 1.0), (f"{reference}-mine", 1.25))
    ]
    old = [{name: value for name, value in row.items() if name != "reference"} for row in found[:2]]
    for row in found[2:]:
        row |= {"speed_over_reference": 0.5, "speed_over_reference_interval": [0.375, 0.75]}
    for name, rows in (("a", found), ("b", old)):
        (tmp_path / f"{name}.json").write_text(json.dumps(data | {"intervals": rows}))
    new, before = (
        {one["title"]: one for one in shown["figures"]} for shown in json.loads(payload(tmp_path))["reports"]
    )
    first, second, quicker = "Tau over that of “EAGLE-2”", "Tau over that of “Jakiro”", "Tokens/s over that of “Jakiro”"
    assert [one for one in new if "over that" in one] == [first, second, quicker] and second not in before
    assert new[first] == before[first]
    assert new[second]["layout"]["yaxis"]["ticktext"] == ["Jakiro (mine)"]
    [marks] = new[second]["data"]
    assert marks["x"] == [1.25] and marks["error_x"]["array"] == pytest.approx([0.2])
    [marks] = new[quicker]["data"]
    assert marks["x"] == [0.5] and [marks["error_x"][side] for side in ("array", "arrayminus")] == [[0.25], [0.125]]


def test_an_experiment_is_shown_by_its_intervals(tmp_path, data):
    found = [
        {"variant": name, "temperature": heat, "tau": 2.0, "over_reference": middle + 0.1 * heat}
        | {"tau_interval": [1.9, 2.1], "over_reference_interval": [0.8, 1.3]}
        for heat in (0, 1)
        for name, middle in (("dense", 1.0), ("first", 1.1), ("second", 0.9))
    ]
    about = {"question": "Do they?", "reference": "dense", "intervals": found, "steps": 5, "tokens_a_step": 4096}
    about["parts"] = [{"what": "a second", "variant": "second", "against": "first"} | found[2]]
    about["variants"] = {name: {"parameters": 5} for name in ("dense", "first", "second")}
    row = next(row for row in data["rows"] if row["method"] == "jakiro")
    rows = [
        row | {"method": name, "temperature": heat, "acceptance_rate_per_position": [0.5, 0.25 - 0.1 * heat][:depth]}
        for heat in (0, 1)
        for depth, name in ((2, "dense"), (2, "first"), (1, "second"))
    ]
    settings = {name: {"depth": 2} for name in about["variants"]}
    (tmp_path / "a.json").write_text(json.dumps(data | {"experiment": about, "rows": rows, "settings": settings}))
    [shown] = json.loads(payload(tmp_path))["reports"]
    assert shown["title"] == "a: Do they?"
    assert ["heads", "5 steps of 4,096 tokens each, on the same rows"] in shown["facts"]
    figure, parts, *deep = shown["figures"]
    assert figure["title"] == "Do they?" and figure["layout"]["yaxis"]["ticktext"] == ["second", "first"]
    cold, hot = figure["data"]
    assert cold["x"] == [1.1, 0.9] and hot["x"] == pytest.approx([1.2, 1.0])
    assert [round(y) for y in cold["y"]] == [1, 0] and cold["y"] != hot["y"]
    assert cold["error_x"]["array"] == pytest.approx([0.2, 0.4])
    assert cold["error_x"]["arrayminus"] == pytest.approx([0.3, 0.1])
    assert parts["title"] == "Part by part" and parts["layout"]["yaxis"]["ticktext"] == ["a second"]
    assert parts["data"][0]["x"] == [0.9]
    assert [one["title"][-13:] for one in deep] == ["temperature 0", "temperature 1"]
    assert deep[1]["data"][0]["z"] == [[0.5, 0.15], [0.5, 0.15], [0.5, None]]
    for figure in shown["figures"]:
        go.Figure(paint({"data": figure["data"], "layout": figure["layout"]}, "light"))
