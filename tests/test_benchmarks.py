"""The benchmarks from end to end at a tiny size: what their reports hold. Times are never judged."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from statistics import median

import pytest
import served
import torch
from recipes import head_recipe
from test_products import PACKS
from tiny import CONTEXT, save_heads, tiny_model

from benchmarks import (
    attention,
    auto,
    browsing,
    common,
    head_training,
    largest,
    load,
    long_text,
    muon,
    operations,
    products,
    scrub,
    shapes,
    steadiness,
)
from benchmarks.published import LLAMA_3_8B, VICUNA_7B
from jakiro import traces
from jakiro.assets import BENCHMARKS
from jakiro.commands.arguments import RECIPES
from jakiro.measuring.prompts import examples
from jakiro.methods import eagle2
from jakiro.target import Target
from jakiro.text import encode
from jakiro.training.head_recipe import HeadRecipe
from jakiro.ui import recorded
from scripts import architectures, copying, loops, mutants, plots, tree_sizes
from scripts import record as recording

PHASES = ("draft_s", "verify_s", "overhead_s", "round_s")
METHODS = ["vanilla", "eagle2", "jakiro"]
needs_chromium = pytest.mark.skipif(served.MISSING, reason="needs Chromium on the PATH")


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a program; its report, which is printed and written alike and beside which there is a table."""

    def run(program, *arguments):
        out = tmp_path / "report.json"
        assert program.main([*map(str, arguments), "--out", str(out)]) == 0
        printed = capsys.readouterr()
        report = json.loads(out.read_text(encoding="utf-8"))
        assert json.loads(printed.out) == report
        assert "\n| --- | --: |" in printed.err
        assert report["machine"]["cores"] >= 1 and {"python", "torch", "transformers"} <= report["versions"].keys()
        name = program.__name__.rpartition(".")[2]
        assert report["schema"].startswith(f"jakiro-{name.replace('_', '-')}/")
        assert report["command"].startswith(f"python -m {program.__name__} ")
        return report

    return run


def positive(*values):
    return all(math.isfinite(value) and value > 0 for value in values)


@pytest.mark.skipif(not PACKS, reason="weights are laid out on x86 alone")
def test_products(run, folder, monkeypatch):
    monkeypatch.setattr(products, "TURNS", 1)
    monkeypatch.setattr(products, "CALLS", 2)
    monkeypatch.setattr(products, "NEW_TOKENS", 12)
    report = run(products, "--target", folder, "--rows", 1, 7, "--nodes", 1, 9)
    assert {row["rows"] for row in report["products"]} == {1, 7}
    assert [row["nodes"] for row in report["passes"]] == [1, 9]
    assert {"eagle2", "jakiro"} <= {row["method"] for row in report["drafts"]}
    assert all(row[f"{way}_s"] > 0 for row in report["products"] for way in products.WAYS)
    assert all(row[f"{plan}_s"] > 0 for row in report["passes"] + report["drafts"] for plan in products.PLANS)
    assert report["used"] in products.PLANS


def test_attention(run, monkeypatch):
    monkeypatch.setattr(attention, "TURNS", 1)
    report = run(attention, "--queries", "3", "--rows", "8", "16")
    assert [row["rows"] for row in report["rows"]] == [8, 16] * len(attention.SHAPES)
    assert all(positive(row["own_s"], row["torch_s"]) for row in report["rows"])
    for heads, shared, width in attention.SHAPES.values():
        sizes = ((1, heads, 2, width), (1, shared, 7, width), (1, shared, 7, width), (2, 7))
        given = [torch.randn(size) for size in sizes]
        found = [way(*given) for way in attention.WAYS.values()]
        torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has one from 2.9 on")
def test_muon(run, folder, monkeypatch):
    monkeypatch.setattr(muon, "TURNS", 1)
    report = run(muon, "--target", folder)
    assert positive(report["own_s"], report["torch_s"]) and report["matrices"] % 7 == 0
    assert report["own_dtype"] in ("float32", "bfloat16")


def test_steadiness(run, folder, monkeypatch, capsys):
    """And the threads are as they were."""
    monkeypatch.setattr(steadiness, "PASSES", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        report = run(steadiness, "--target", folder, "--nodes", 7, "--turns", 2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [(row["threads"], row["nodes"]) for row in report["rows"]] == [(1, 1), (1, 7), (2, 1), (2, 7)]
    for row in report["rows"]:
        assert 0 < row["tenth_s"] <= row["median_s"] <= row["nine_tenths_s"]
    assert steadiness.main(["--target", str(folder), "--turns", "1"]) == 2
    assert "ask for at least 2" in capsys.readouterr().err


def test_operations(run, folder, monkeypatch):
    monkeypatch.setattr(operations, "TURNS", 2)
    monkeypatch.setattr(operations, "PASSES", 2)
    report = run(operations, "--target", folder, "--nodes", 1, 7, "--context", 20, 40)
    sizes = [(20, 1), (20, 7), (40, 1), (40, 7)]
    assert [(row["tape"], row["context"], row["nodes"]) for row in report["rows"]] == [
        (tape, *size) for tape in (False, True) for size in sizes
    ]
    for row in report["rows"]:
        parts = row["products_s"] + row["attention_s"] + row["others_s"] + row["between_s"]
        assert parts == pytest.approx(row["pass_s"]) and row["operations"] > 3 * 20
        assert positive(row["products_s"], row["attention_s"], row["others_s"])


def test_loops(run, trained, data, tmp_path, monkeypatch):
    """One count a target; what goes round is what `goes_round` says."""
    prompts = tmp_path / "chat.jsonl"
    prompts.write_text('{"turns": ["the ant"]}\n{"turns": ["a man"]}\n')
    asked = ["--recipe", trained / "out/recipe.json", "--data", data, "--prompts", prompts, "--held-out", 3]
    targets = ["--targets", trained / "out", trained / "out"]
    for goes in (False, True):
        monkeypatch.setattr(loops, "goes_round", lambda ids, goes=goes: goes)
        one, two = run(loops, *targets, *asked, "--max-new-tokens", 8)["rows"]
        assert one == two and one["held_out_loss"] > 0
        for name, count in (("prompts", 2), ("held_out", 3)):
            assert one[name]["answers"] == count and one[name]["go_round"] == count * goes
            assert 0 < one[name]["tokens"] <= 8 * count


def test_copying(run, folder, tmp_path):
    """A cut that cuts nothing is the whole; scores are those of the model's own logits; without articles it refuses."""
    prompts = tmp_path / "sum.jsonl"
    article = "The ant has dug a house of sand and stone in it. A man came. He sat on it and the house was no more."
    prompts.write_text(
        "".join(json.dumps({"turns": [turn]}) + "\n" for turn in (f"Sum it up: {article}", "no article"))
    )
    asked = ["--targets", folder, "--prompts", prompts, "--characters"]
    (row,) = run(copying, *asked, 12)["rows"]
    assert row["prompts"] == 1 and row["cut"] != row["whole"]
    (same,) = run(copying, *asked, 1000)["rows"]
    assert same["cut"] == same["whole"] == row["whole"] and 0 <= row["whole"]["likeliest"] < 1
    target = Target.load(folder, "cpu", "float32")
    before, after = encode(target.tokenizer, "a man"), target.tokenizer.encode(" the", add_special_tokens=False)
    logprobs = target.model(torch.tensor([before + after])).logits[0, len(before) - 1 : -1].log_softmax(-1)
    said = logprobs[range(len(after)), after]
    share = (said == logprobs.max(-1).values).float().mean().item()
    assert copying.score(target, "a man", " the") == pytest.approx((share, -said.mean().item()), rel=1e-4)
    prompts.write_text('{"turns": ["no article"]}\n')
    assert copying.main([*map(str, asked), "12"]) == 2


def test_architectures(run, monkeypatch):
    """A model of attention, one that keeps states, one that stays large; then one whose text is not the same."""
    asked = ("--max-new-tokens", 12, "--families")
    rows = run(architectures, *asked, "llama", "mamba", "blt")["rows"]
    assert [row["family"] for row in rows] == ["blt", "llama", "mamba"]
    assert [row["outcome"] for row in rows] == ["not tried", "identical", "refused"]
    assert rows[1]["tau"] > 2 and rows[1]["no_tapes"] == ""
    assert "cannot take back a rejected token" in rows[2]["why"]
    real = architectures.generated
    monkeypatch.setattr(architectures, "generated", lambda *given: [*real(*given)[:-1], -1])
    (row,) = run(architectures, *asked, "qwen3")["rows"]
    assert (row["outcome"], row["why"]) == ("differs", "generate and vanilla part after 11 tokens at temperature 0")


def test_architectures_are_those_of_transformers(capsys):
    assert architectures.main(["--families", "llama", "lama"]) == 2
    assert "no causal language model lama; leave --families out for all" in capsys.readouterr().err


def test_tree_sizes(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tree_sizes, "NODES", (1, 4))
    monkeypatch.setattr(tree_sizes, "REPEATS", 2)
    prompts = tmp_path / "chat.jsonl"
    prompts.write_text('{"turns": ["the ant"]}\n')
    loads, kind = [], eagle2.Eagle2
    real = kind.load
    monkeypatch.setattr(kind, "load", lambda *given: loads.append(given) or real(*given))
    sizes = ["--top-k", 2, 3, "--depth", 2, "--total-tokens", 4]
    report = run(tree_sizes, "--target", folder, "--prompts", prompts, "--max-new-tokens", 6, *sizes)
    assert report["cost"].keys() == {"1", "4"} and report["cost"]["1"]["over_one"] == 1.0
    assert {(row["method"], row["top_k"], row["depth"], row["total_tokens"]) for row in report["grid"]} == {
        (method, top_k, 2, 4) for method in ("eagle2", "jakiro") for top_k in (2, 3)
    }
    assert all(positive(row["tau"], row["tokens_per_s"], row["speedup"]) for row in report["grid"])
    assert len(loads) == 1, "a head is read once for all trees"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_shapes(run, dtype):
    report = run(shapes, "--lengths", 24, 40, "--rounds", 3, "--repeats", 2, "--dtype", dtype)
    assert [(row["context"], row["method"]) for row in report["rows"]] == [(n, m) for n in (24, 40) for m in METHODS]
    for row in report["rows"]:
        assert positive(*(row[name] for name in PHASES))
        assert row["rounds"] == 2 * 3 and row["nodes"] == (1 if row["method"] == "vanilla" else 60)
        assert row["implied_speedup"] is None and row["published_tau_true"] is None  # nobody published this shape
    base = {row["context"]: row["round_s"] for row in report["rows"] if row["method"] == "vanilla"}
    assert all(row["round_over_step"] == row["round_s"] / base[row["context"]] for row in report["rows"])
    assert report["parameters"] * (4 if dtype == "float32" else 2) > report["floor"]["weight_bytes"]
    assert all(positive(step["floor_s"], step["step_over_floor"]) for step in report["floor"]["steps"])
    assert positive(report["floor"]["bandwidth_bytes_per_s"])


def test_published_figures_are_compared_where_there_are_any():
    row = {"method": "jakiro", "round_over_step": 1.5}
    known = shapes.compared(row, VICUNA_7B)
    assert known["published_round_over_step"] == pytest.approx(48.5 / 30.7)
    assert known["implied_speedup"] == pytest.approx(4.49 / 1.5)
    assert shapes.compared(row, LLAMA_3_8B)["implied_speedup"] is None  # no figures of Jakiro at temperature 0
    assert shapes.compared(row | {"method": "vanilla"}, VICUNA_7B)["published_tau_true"] is None
    for one in (VICUNA_7B, LLAMA_3_8B):
        assert all(one.tau_true[name] < published for name, published in one.tau_as_published.items())


def test_long_text(run, folder, monkeypatch):
    monkeypatch.setattr(long_text, "SHORT", CONTEXT - 50)
    lengths = (16, 90)
    limits = ["--lengths", *lengths, "--rounds", 2, "--repeats", 2, "--memory-rounds", 60]
    report = run(long_text, "--target", folder, *limits)
    assert [(row["method"], row["context"]) for row in report["rows"]] == [(m, n) for m in METHODS for n in lengths]
    for row in report["rows"]:
        assert positive(*(row[name] for name in PHASES), row["attention_s"]) and row["rounds"] == 2 * 2
        assert row["growth_s"] == median(row["growth_of_turns_s"]) and len(row["growth_of_turns_s"]) == 2
        grown = [row["growth_s"], row["attention_growth_s"], row["growth_beyond_attention_s"]]
        assert grown == [0.0] * 3 if row["context"] == 16 else all(grown)
    assert [row["method"] for row in report["memory"]] == METHODS
    for row in report["memory"]:
        counts = [reading["rounds"] for reading in row["readings"]]
        assert counts == sorted(set(counts)) and counts[0] == 0 and counts[-1] == row["rounds"] >= 60
        assert len(counts) > 2, "one run is not enough"
        assert all(reading["objects"] > 1000 for reading in row["readings"])
        assert row["object_growth"] == row["readings"][-1]["objects"] - row["readings"][0]["objects"]
    assert report["context"] == CONTEXT


def test_races_are_recorded_with_their_cut_nodes(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "RUNS", 1)
    monkeypatch.setattr(recording, "examples", lambda: examples()[:1])
    line = ["--target", str(folder), "--out", str(tmp_path / "races"), "--max-new-tokens", "8"]
    assert recording.main([*line, "--set", "top_k=3", "--set", "depth=2", "--set", "total_tokens=5"]) == 0
    [race] = recorded.read(tmp_path / "races")
    traces = recorded.load(tmp_path / "races", race)
    assert [one.method for one in traces] == [*recording.MEASURED] and {len(one.tokens) for one in traces} == {8}
    assert all(any(step.tree.cut.tokens for step in one.steps) for one in traces[1:])


def test_a_race_of_other_lanes_is_recorded_beside_others(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "RUNS", 1)
    line = ["--target", str(folder), "--out", str(tmp_path), "--max-new-tokens", "8", "--only", "Chat"]
    assert recording.main(line) == 0
    lanes = ["--lane", "vanilla", "--lane", "jakiro", "--lane", "jakiro,candidates=decoupled,total_tokens=7"]
    assert recording.main([*line, "--title", "Own candidates", *lanes, "--set", "total_tokens=5"]) == 0
    first, race = recorded.read(tmp_path)
    assert (first.id, race.id, race.title, race.prompt) == ("chat", "own-candidates", "Own candidates", first.prompt)
    _, mixed, own = recorded.load(tmp_path, race)
    assert [one.settings["candidates"] for one in (mixed, own)] == ["mixture", "decoupled"]
    assert [one.settings["total_tokens"] for one in (mixed, own)] == [5, 7]


def test_a_race_with_a_second_head_is_recorded(folder, tmp_path, monkeypatch, methods_again):
    monkeypatch.setattr(recording, "RUNS", 1)
    line = ["--target", str(folder), "--out", str(tmp_path), "--max-new-tokens", "8", "--only", "Chat"]
    mine = save_heads(tmp_path / "mine")["eagle2"]
    assert recording.main([*line, "--head", f"eagle2-mine={mine}"]) == 0
    [race] = recorded.read(tmp_path)
    methods = [(one.method, one.drafter.split("/")[0]) for one in recorded.load(tmp_path, race)]
    assert methods[1:3] == [("eagle2", folder.name), ("eagle2-mine", "mine")]


def test_what_does_not_fit_is_said(folder, capsys):
    assert long_text.main(["--target", str(folder), "--lengths", "150", "--memory-rounds", "0"]) == 2
    assert "ask for shorter texts or fewer rounds" in capsys.readouterr().err
    assert shapes.main(["--out", str(folder)]) == 2
    assert "it is a folder" in capsys.readouterr().err
    assert muon.main(["--device", "gpu7"]) == 2 and "gpu7" in capsys.readouterr().err
    asked = folder / "asked.jsonl"
    assert auto.main(["--prompts", str(asked)]) == 2 and "there is no file" in capsys.readouterr().err
    assert auto.main(["--prompts", str(asked), "--out", str(asked)]) == 2
    assert "it is read, and would be lost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "option", "least"),
    [
        *((auto, option, 1) for option in ("--limit", "--repeats", "--top-k", "--depth", "--total-tokens")),
        *((load, option, 1) for option in ("--prompts", "--repeats", "--threads", "--rounds", "--nodes", "--visits")),
        *((program, "--max-new-tokens", 2) for program in (auto, load, tree_sizes)),
        *((program, "--nodes", 1) for program in (operations, products, scrub)),
        *((program, "--rounds", 1) for program in (long_text, scrub, shapes)),
        *((program, "--repeats", 1) for program in (head_training, long_text, shapes)),
        *((program, "--lengths", 1) for program in (long_text, shapes)),
        *((long_text, "--memory-rounds", 0), (products, "--rows", 1), (tree_sizes, "--limit", 1)),
    ],
)
def test_a_count_of_nothing_is_refused(capsys, program, option, least):
    with pytest.raises(SystemExit):
        program.main([option, str(least - 1)])
    assert f"argument {option}: '{least - 1}' is not a whole number of at least {least}" in capsys.readouterr().err


def test_a_page_is_written_anew_only_where_its_own_report_wrote_it():
    """Whatever reports lie beside it, whatever they are called, and not for pictures that are drawn elsewhere."""
    report = json.loads((BENCHMARKS / "decoupling-cpu.json").read_text(encoding="utf-8"))
    assert plots.page_of(report["command"], plots.PLOTS) == plots.DOCS / "decoupling.md"
    assert plots.page_of(report["command"], plots.DOCS) is None
    line = "python -m jakiro experiment training.json --out benchmarks/training-x.json"
    assert plots.page_of(line, plots.PLOTS) is plots.page_of(f"{line} --page /tmp/training.md", plots.PLOTS) is None


LOAD = ["--prompts", 1, "--max-new-tokens", 12, "--rounds", 3, "--nodes", 9, "--visits", 1]


def check_load(report, ways, threads, repeats):
    assert report["races"]["identical"]
    rows = {(row["method"], row["way"], row["threads"]): row for row in report["races"]["lanes"]}
    base = ("command_line", report["races"]["lanes"][0]["threads"])
    order = [base, *((way, count) for count in threads for way in ways)]
    assert list(rows) == [(method, *way) for method in METHODS for way in order]
    for (method, way, count), row in rows.items():
        speeds, walls = row["tokens_per_s"]["all"], row["wall_s"]["all"]
        assert len(speeds) == len(walls) == repeats and positive(*speeds, *walls)
        bare = (method, "race", count) if way in ways else (method, *base)
        for name, other in {"over_command_line": (method, *base), "over_race": bare}.items():
            each = [mine / its for mine, its in zip(speeds, rows[other]["tokens_per_s"]["all"], strict=True)]
            assert row[name] == {"median": median(each), "all": each}
    prepared = report["largest"]["prepared"]
    assert positive(report["largest"]["trace_bytes"], prepared["seconds"], prepared["text_bytes"])


def test_load_without_a_browser(run, folder, monkeypatch):
    """Threads are asked for and not had: on cores that other tests use two wait for each other most of the time."""
    monkeypatch.setattr(browsing, "CHROMIUM", "")
    asked = []
    monkeypatch.setattr("benchmarks.ways.use_threads", asked.append)
    report = run(load, "--target", folder, *LOAD, "--repeats", 1, "--threads", 1, 2)
    assert "threads" not in report["machine"]  # the last way's would stand there for all
    assert asked[:7] == [2, 1, 1, 1, 1, 2, 2]  # in the turn that warms up, which begins with the last way
    check_load(report, ("race", "beside", "api"), (1, 2), repeats=1)
    assert report["browser"] == browsing.NO_BROWSER and report["largest"]["shown"] is None


def test_the_largest_race_can_be_shown():
    """At the size that it has when none is asked for; the other tests ask for a small one."""
    lanes = largest.made_up(load.ROUNDS, load.NODES)
    traces.check_together(lanes)
    assert sum(len(step.tree) for lane in lanes for step in lane.steps) > 0.95 * traces.MAX_NODES


@pytest.mark.browser
@needs_chromium
def test_load(run, folder):
    report = run(load, "--target", folder, *LOAD, "--repeats", 1, "--threads", 1)
    check_load(report, load.WAYS, (1,), repeats=1)
    visits = report["largest"]["shown"]["visits"]
    assert len(visits) == 1 and "chromium" in report["versions"]
    for visit in visits:
        assert list(visit["first_ms"]) == ["lanes", "tree", "plotly"]
        assert positive(*visit["first_ms"].values(), visit["js_heap_bytes"])


@pytest.mark.browser
@needs_chromium
def test_scrub(run, folder, monkeypatch):
    monkeypatch.setattr(scrub, "VISITS", 1)
    report = run(scrub, "--target", folder, "--rounds", 6, "--nodes", 12)
    assert report["updates"] == 12 and report["zoom_kept"] and not report["trouble"]
    assert positive(report["frame_ms"]["median"], report["settled_ms"], report["work_ms"])
    for first in (report["first_ms"], {name: one["median"] for name, one in report["recorded_first_ms"].items()}):
        assert 0 < first["tree"] < first["plotly"] and 0 < first["lanes"] < first["plotly"]  # a sketch, in one frame
    assert report["view_frame_ms"].keys() == {*scrub.VIEWS, "compare"}


def test_a_table_has_a_cell_for_every_column():
    table = common.markdown([{"a": "1", "b": common.cell(0.0125, 1, 1000)}, {"a": "2", "b": common.cell(None)}])
    assert table == "| a | b |\n| --- | --: |\n| 1 | 12.5 |\n| 2 |  |"


def test_the_recipes_that_are_compared_are_timed_in_turns_as_they_are_trained(monkeypatch):
    seen = []

    def seconds(job, index):
        how = job.recipe
        seen.append((how.own_features, how.passes, len(job.known), list(job.modules)))
        job.step(index)
        return float(index)

    monkeypatch.setattr(head_training, "_seconds", seconds)
    monkeypatch.setattr(head_training, "_target", lambda: tiny_model().requires_grad_(False))
    rows = head_training.compare(head_recipe(), repeats=2, compiled=False)
    heads = ["eagle2", "jakiro"]
    assert seen == [(0.4, 1, 0, heads), (0.4, 1, 1, heads), (0.0, 3, 0, heads), (0.0, 3, 1, heads)] * 3
    times = {"compiled": False, "first_s": 6.0, "step_s": 8.0}  # the medians of the last two turns
    assert rows == [{"own_features": 0.4, "passes": 1} | times, {"own_features": 0.0, "passes": 3} | times]


def test_head_training_counts_what_its_formulas_say(tmp_path, monkeypatch):
    """Of a small target, but not a tiny one: of that attention, which is not in the formulas, would be a large part."""
    tiny_model(hidden_size=128, intermediate_size=320, vocab_size=2048).save_pretrained(tmp_path)
    monkeypatch.setattr(head_training, "TARGET", tmp_path)
    recipe = HeadRecipe.read(RECIPES / "heads-cpu.json")
    found = head_training.measure(replace(recipe, row=32, rows=4, scored=128), repeats=1)
    assert [(row["head"], row["passes"]) for row in found] == [
        (name, passes) for passes in (1, 3) for name in ("eagle2", "jakiro")
    ]
    for row in found:
        assert row["target_flops_a_token"] == pytest.approx(row["target_formula"], rel=0.05)
        assert row["flops_a_token"] > row["formula"]
    for one, three in zip(found[:2], found[2:], strict=True):  # what the optimizer takes is in both
        more = (three["flops_a_token"] - one["flops_a_token"]) / (three["formula"] - one["formula"])
        assert more == pytest.approx(1, rel=0.05)
    [small, large] = head_training.extrapolated(HeadRecipe.read(RECIPES / "heads-chat.json"))
    assert small["flops"] == pytest.approx(small["flops_a_token"] * 20_000 * 16_384) and large["hours"] > small["hours"]


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.what)
def test_every_mistake_can_still_be_planted(mutant):
    compile(mutants.planted(mutant), mutant.file, "exec")  # a syntax error would be caught by any test
    assert all((mutants.ROOT / "tests" / name).is_file() for name in mutant.tests.split())
