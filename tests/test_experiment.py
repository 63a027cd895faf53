"""Experiments on heads: what is compared, how sure one may be of it, and the whole command at a tiny size."""

import json
import math
import weakref
from dataclasses import replace
from itertools import product

import pytest
import torch
from texts import write_texts
from tiny import tiny_model, tiny_tokenizer

from jakiro import bench, files
from jakiro.__main__ import main
from jakiro.bench import load_methods
from jakiro.commands import learning
from jakiro.commands.arguments import EXPERIMENTS, RECIPES
from jakiro.engine import record
from jakiro.measuring import experiment, findings
from jakiro.measuring.bootstrap import FEW, Part, differences, intervals
from jakiro.measuring.experiment import Experiment
from jakiro.measuring.findings import as_page, summary
from jakiro.measuring.prompts import Prompt
from jakiro.measuring.report import Sample
from jakiro.models.hub import fingerprint
from jakiro.target import Target
from jakiro.text import encode
from jakiro.verify import GREEDY

TINY = {
    "question": "Do they?",
    "reference": "dense",
    "training": {
        "steps": 4,
        "row": 32,
        "rows": 4,
        "scored": 40,
        "heads": {
            "dense": {"kind": "eagle2"},
            "two": {"kind": "jakiro", "expert_intermediate_size": 16, "losses": {"diversity": 0.1}},
            "four": {"kind": "jakiro", "expert_intermediate_size": 8, "num_local_experts": 4},
        },
    },
    "variants": [
        {"label": "dense", "head": "dense"},
        {"label": "together", "head": "two", "set": {"candidates": "mixture", "aligned": False}},
        {"label": "apart", "head": "two", "set": {"candidates": "decoupled", "contrastive": False}},
        {"label": "four", "head": "four", "set": {"candidates": "decoupled"}},
    ],
    "parts": [{"what": "own candidates", "variant": "apart", "against": "together"}],
    "tree": {"top_k": 4, "depth": 3, "total_tokens": 12},
    "temperatures": [0, 1],
    "max_new_tokens": 8,
}


def sample(method, task, prompt, decoded, rounds, temperature=0.0):
    return Sample(task, prompt, method, temperature, 0, decoded + 1, decoded, 0.1, 1.0, True, None, [rounds])


def test_tau_is_the_mean_of_the_tasks_and_ratios_are_paired():
    """The other drafts exactly half as long on every prompt: a paired ratio has no spread at all."""
    counts = {("a", "1"): (30, 10), ("a", "2"): (60, 10), ("b", "1"): (20, 10), ("b", "2"): (20, 10)}
    samples = [sample("one", *key, *count) for key, count in counts.items()]
    samples += [sample("half", *key, tokens, 2 * rounds) for key, (tokens, rounds) in counts.items()]
    one, half = intervals(samples, ["one", "half"], "one")
    assert one["tau"] == pytest.approx((90 / 20 + 2.0) / 2)
    assert one["tau_interval"] == pytest.approx([(3.0 + 2.0) / 2, (6.0 + 2.0) / 2])
    assert half["over_reference"] == pytest.approx(0.5)
    assert half["over_reference_interval"] == pytest.approx([0.5, 0.5])
    assert one["over_reference_interval"] == [1.0, 1.0]
    twice, itself = intervals(samples, ["one", "half"], "half")  # the reference need not come first
    assert [twice["over_reference"], *twice["over_reference_interval"]] == pytest.approx([2.0, 2.0, 2.0])
    assert [itself["over_reference"], *itself["over_reference_interval"]] == [1.0, 1.0, 1.0]
    again = [replace(one, repeat=1, decoded=2 * one.decoded) for one in samples]  # as it may be where sums vary
    assert intervals([*samples, *again], ["one", "half"], "one") == [one, half]
    [share] = differences(samples, [Part("doubling", "one", "half")])
    assert (share["what"], share["variant"], share["against"], share["temperature"]) == ("doubling", "one", "half", 0)
    assert [share["over_reference"], *share["over_reference_interval"]] == pytest.approx([2.0, 2.0, 2.0])


def test_speeds_are_compared_on_the_same_prompts_and_in_the_same_repeats():
    """One takes half of vanilla's seconds on every prompt, so the ratio has no spread, and the other on the second;
    where one repeat is slow by itself, the others say how fast it is."""
    seconds = {"vanilla": (10.0, 20.0), "one": (5.0, 10.0), "other": (10.0, 10.0)}
    samples = [
        replace(sample(name, "a", str(at), 30, 10), repeat=repeat, decode_s=spent * (slow if name == "other" else 1))
        for repeat, slow in enumerate((1, 8, 1))
        for name, line in seconds.items()
        for at, spent in enumerate(line)
    ]
    one, other = intervals(samples, ["one", "other"], "one")
    assert [one["speedup"], *one["speedup_interval"]] == pytest.approx([2, 2, 2])
    assert [other["speedup"], *other["speedup_interval"]] == pytest.approx([1.5, 1, 2])
    assert [other["speed_over_reference"], *other["speed_over_reference_interval"]] == pytest.approx([0.75, 0.5, 1])
    alone = intervals([run for run in samples if run.method != "vanilla"], ["one", "other"], "one")
    assert alone == [{key: row[key] for key in row if "speedup" not in key} for row in (one, other)]


@pytest.mark.parametrize(
    ("tasks", "prompts", "least", "most"), [(1, 40, 274, 290), (20, 2, 274, 290), (1, FEW, 255, 280), (1, 5, 225, 262)]
)
def test_an_interval_covers_the_truth_as_often_as_it_says(tasks, prompts, least, most):
    """300 experiments on prompts with known means: about 95 % of the intervals hold the true tau, however few prompts a
    task has, but where there are few in all."""
    generator, held, places = torch.Generator().manual_seed(0), 0, [*product(range(tasks), range(prompts))]
    for _ in range(300):
        tokens = torch.normal(30.0, 6.0, (len(places),), generator=generator).round().int().tolist()
        asked = [sample("one", *map(str, place), n, 10) for place, n in zip(places, tokens, strict=True)]
        [row] = intervals(asked, ["one"], "one", draws=400)
        held += row["tau_interval"][0] <= 3.0 <= row["tau_interval"][1]
    assert least <= held <= most  # intervals of 90 % hold it 267 times, of 99 % 292 times


def test_what_was_drawn_by_chance_hardly_moves_an_interval():
    """A verdict hung on it: of two experts, +1.0 % (+0.01 to +2.0) by 2,000 draws."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        tokens = torch.normal(3000.0, 600.0, (20,), generator=generator).round().int().tolist()
        samples = [sample("one", "a", str(i), n, 1000 + n % 300) for i, n in enumerate(tokens)]
        [few], [many] = (intervals(samples, ["one"], "one", **draws) for draws in ({}, {"draws": 200_000}))
        low, high = many["tau_interval"]
        assert few["tau_interval"] == pytest.approx([low, high], abs=0.013 * (high - low))


def test_prompts_and_tasks_without_a_round_say_nothing_of_tau():
    """Nor does one that has a round in some variants alone, nor a task of which they leave one prompt, from which no
    interval can be drawn."""
    counts = {
        ("a", "1"): (30, 10),
        ("a", "2"): (0, 0),
        ("a", "3"): (30, 10),
        ("b", "1"): (20, 10),
        ("b", "2"): (20, 10),
    }
    counts |= {("c", "1"): (0, 0), ("c", "2"): (90, 10)}
    samples = [sample(name, *key, *count) for name in ("one", "two") for key, count in counts.items()]
    samples += [sample("one", "a", "4", 0, 0), sample("two", "a", "4", 90, 10)]
    rows = intervals(samples, ["one", "two"], "one")
    assert [row["tau"] for row in rows] == [2.5, 2.5]
    assert [row["tau_interval"] for row in rows] == [[2.5, 2.5]] * 2
    with pytest.raises(ValueError, match="no task has two texts that go on after their first"):
        intervals([one for one in samples if one.task == "c"], ["one", "two"], "one")


def test_the_command_trains_decodes_and_compares(tmp_path, capsys, monkeypatch):
    model = tiny_model()
    model.save_pretrained(tmp_path / "model")
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    tokenizer.save_pretrained(tmp_path / "model")
    write_texts(tmp_path / "data")
    (tmp_path / "ask.json").write_text(json.dumps(TINY))
    (tmp_path / "chat.jsonl").write_text('{"id": 1, "turns": ["the cat"]}\n{"id": 2, "turns": ["a red mat"]}\n')
    line = ["experiment", tmp_path / "ask.json", "--data", tmp_path / "data/chat.jsonl", "--target", tmp_path / "model"]
    line += ["--run-folder", tmp_path / "run", "--prompts", tmp_path / "chat.jsonl", "--no-compile"]
    line += ["--out", tmp_path / "out.json", "--page", tmp_path / "page.md", "--seed", 5]
    a_prompt_that_is_too_long_is_said_before_heads_are_trained(line, tmp_path, capsys)
    the_target_is_freed_before_it_is_loaded_again(monkeypatch)
    what_was_measured_before_a_full_disk_is_kept(line, tmp_path, capsys, monkeypatch)
    assert main([str(one) for one in line]) == 0
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["schema"] == "jakiro-bench/1" and {row["identical"] for row in report["rows"]} == {1.0}
    about = report["experiment"]
    assert [(row["variant"], row["temperature"]) for row in about["intervals"]] == [
        (one["label"], temperature) for temperature in (0, 1) for one in TINY["variants"]
    ]
    taus = {row["method"]: row["tau"] for row in report["rows"] if row["temperature"] == 0}
    assert all(row["tau"] == pytest.approx(taus[row["variant"]]) for row in about["intervals"][:4])
    taus |= {(row["variant"], row["temperature"]): row["tau"] for row in about["intervals"]}
    assert [row["temperature"] for row in about["parts"]] == [0, 1]
    for row in about["parts"]:
        ratio = taus["apart", row["temperature"]] / taus["together", row["temperature"]]
        assert row["what"] == "own candidates" and row["over_reference"] == pytest.approx(ratio)
    assert {one["prompts"] for one in about["experts"]} == {2}
    assert {one["variant"]: one["rescued_rounds"] is None for one in about["experts"]} == {
        "together": False,
        "apart": False,
        "four": True,
    }
    sizes = {label: one["parameters"] for label, one in about["variants"].items()}
    assert sizes["four"] - sizes["apart"] == 4 * model.config.hidden_size  # the router's rows
    assert not (tmp_path / "out.json.partial").exists()
    assert json.loads((tmp_path / "run/recipe.json").read_text())["seed"] == 5
    assert (
        about["training"]["seed"] == 5
        and about["training"]["mix"]
        and about["training"]["heads"].keys() == {*TINY["training"]["heads"]}
    )
    assert report["weights"] == {"target": fingerprint(tmp_path / "model")} | {
        one["label"]: fingerprint(tmp_path / "run/heads" / one["head"]) for one in TINY["variants"]
    }
    page = (tmp_path / "page.md").read_text()
    assert page == as_page(report) and page.startswith("# Do they?") and "| own candidates | apart | together |" in page
    assert str(tmp_path / "ask.json") in page and capsys.readouterr().out.strip() == page.strip()


def a_prompt_that_is_too_long_is_said_before_heads_are_trained(line, folder, capsys):
    questions = folder / "chat.jsonl"
    kept = questions.read_text()
    questions.write_text(kept + json.dumps({"id": 3, "turns": ["the cat " * 300]}) + "\n")
    assert main([str(one) for one in line]) == 2
    assert "prompt '3' of task 'chat' has" in capsys.readouterr().err and not (folder / "run").exists()
    questions.write_text(kept)


def the_target_is_freed_before_it_is_loaded_again(monkeypatch):
    copies, model, load = [], learning._model, Target.load

    def noted(options):
        found = model(options)
        copies.append(weakref.ref(found[0]))
        return found

    def loaded(*given, **more):
        assert not any(copy() for copy in copies)
        return load(*given, **more)

    monkeypatch.setattr(learning, "_model", noted)
    monkeypatch.setattr(Target, "load", loaded)


def what_was_measured_before_a_full_disk_is_kept(line, folder, capsys, monkeypatch):
    """And is what the next run tells of: it decodes nothing."""

    def full_disk(path, text):
        raise OSError(28, "No space left on device")

    real = files.write_text
    monkeypatch.setattr(files, "write_text", full_disk)
    assert main([str(one) for one in line]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert (folder / "out.json.partial").exists() and not (folder / "out.json").exists()
    monkeypatch.setattr(files, "write_text", real)
    monkeypatch.setattr(bench.Benchmark, "group", None)
    own_heads_are_told_apart(line, folder, capsys)


def own_heads_are_told_apart(line, folder, capsys):
    """What a variant decoded with one head is not taken for what it decodes with another, its settings being alike."""
    kept = (folder / "ask.json").read_text()
    other = [one | {"head": "four"} if one["label"] == "apart" else one for one in TINY["variants"]]
    (folder / "ask.json").write_text(json.dumps(TINY | {"variants": other}))
    assert main([str(one) for one in line]) == 2
    assert "holds the beginning of another benchmark" in capsys.readouterr().err
    (folder / "ask.json").write_text(kept)


def test_a_prompt_without_a_draft_is_none_of_those_whose_experts_are_looked_at(tokenizer, heads):
    """The answer to the first one ends with its first token."""
    target, asked = Target.wrap(tiny_model(), tokenizer, heads, name="tiny"), Experiment.of(TINY)
    prompts = [Prompt("chat", text, text) for text in ("the cat", "a red mat")]
    drafter = load_methods(target, ["jakiro"], asked.tree)["jakiro"]
    methods = {one.label: drafter for one in asked.variants}
    first = record(target, drafter[0](drafter[1]), encode(tokenizer, "the cat"), 1, GREEDY).first
    for ends, count in (set(), 2), ({first}, 1):
        target.ends = frozenset(ends)
        assert [one["prompts"] for one in experiment._experts(target, asked, methods, prompts)] == [count] * 4


def test_findings_say_better_worse_or_nothing(monkeypatch):
    row = {"temperature": 0, "tau": 2.0, "tau_interval": [1.9, 2.1]}
    ratios = {"dense": (1, 1, 1), "up": (1.1, 1.02, 1.2), "down": (0.9, 0.8, 0.95), "same": (1.01, 0.9, 1.1)}
    ratios["flat"] = (1.3, 1.3, 1.3)  # of one prompt, or of a rare coincidence
    losses = dict.fromkeys(("feature", "mixture", "decoupled", "contrast", "diversity", "top_k"), 0.5)
    about = {"head": "one", "parameters": 5, "losses": losses, "set": {}}
    found = [
        {**row, "variant": name, "over_reference": ratio, "over_reference_interval": [low, high]}
        for name, (ratio, low, high) in ratios.items()
    ]
    report = {
        "experiment": {"question": "Q", "reference": "dense", "intervals": found, "experts": []}
        | {"variants": {name: about | {"kind": "jakiro" if name == "up" else "eagle2"} for name in ratios}}
        | {"parts": [{"what": f"part {row['variant']}", "against": "dense"} | row for row in found[1:]]}
        | {"steps": 6, "tokens_a_step": 2, "distinct_tokens": 3},
        "rows": [
            {
                "method": name,
                "task": task,
                "temperature": 0,
                "prompts": prompts,
                "rounds": 5,
                "tau": 2.0,
                "tokens_per_s": 9.0,
            }
            | {"speedup": 1.0, "draft_s": 0.1, "verify_s": 0.2, "overhead_s": 0.0, "prefill_s": 0.1, "tokens": 20}
            | {"identical": 0.75 if (name, task) == ("up", "b") else 1.0, "acceptance_rate_per_position": [0.5]}
            for name in ("vanilla", *ratios)
            for task, prompts in (("a", 2), ("b", 8))
        ],
        "settings": {name: {"top_k": 3, "depth": 2, "expert": name} for name in ratios} | {"vanilla": {}},
        "machine": {"device": "a chip", "threads": 2},
        "target": "t",
        "dtype": "float32",
        "max_new_tokens": 8,
        "command": "python -m jakiro experiment",
    }
    assert summary(report) == [
        "At temperature 0, of 4 variants with trees and heads as large as those of “dense”, 1 draft better, 1 worse, "
        "and 2 cannot be told apart; the best is “flat” with tau +30.0 % (+30.0 to +30.0).",
        "Of 4 parts, each tried alone, drafts are better with 1, most of all “part up” (+10.0 % (+2.0 to +20.0)) and "
        "worse with 1, most of all “part down” (-10.0 % (-20.0 to -5.0)); 2 cannot be told apart.",
    ]
    smaller = report["settings"] | {"down": {"top_k": 3, "depth": 1}}
    assert (
        ", of 3 variants with trees and heads as large as those of “dense”, 1 draft better, 0 worse, and 2 cannot"
        in summary(report | {"settings": smaller})[0]
    )
    sizes = report["experiment"]["variants"] | {"up": about | {"kind": "jakiro", "parameters": 4}}
    few = report | {"experiment": report["experiment"] | {"variants": sizes}}
    assert "of 3 variants" in summary(few)[0] and "0 draft better, 1 worse" in summary(few)[0]
    alone = report["settings"] | {"dense": {"top_k": 4}}
    [parts] = summary(report | {"settings": alone})  # nothing before it says at which temperature
    assert parts.startswith("At temperature 0, of 4 parts, each tried alone, drafts are better with 1")
    found[0] |= {"speedup": 1.5, "speedup_interval": [1.25, 1.75]}  # as older reports have not
    assert "| 9.0 | 1.50 (1.25 to 1.75) | 0.50 |" in as_page(report)
    del found[0]["speedup"]
    told = as_page(report | {"settings": smaller})
    assert "drafted with top_k 3, and depth 2 where a variant's settings do not say otherwise. Tau is" in told
    page = as_page(report, {"A plot": "plot.svg"})
    assert (
        "Measured on 2 to 8 prompts of each of a, b, at most 8 new tokens, drafted with top_k 3, depth 2. Tau is"
        in page
    )
    assert "of these 3 are distinct, so that each was seen 4 times" in page
    assert "What another seed of a head would change is not in the intervals." in page
    assert "5 % at least look different by chance, 0 of all 3 in which any prompt differs." in page  # flat does not
    turned = {**found[1], "what": "turned", "variant": "dense", "against": "up"}
    both = report["experiment"] | {"parts": [*report["experiment"]["parts"], turned]}
    assert "of all 3 in which" in as_page(report | {"experiment": both}), "one comparison, either way round"
    assert "too narrow" not in page  # the rows do not say of how many prompts they are, as those of older reports
    few = report["experiment"] | {"intervals": [row | {"prompts": 9} for row in found]}
    told = as_page(report | {"experiment": few})
    assert "over prompts. Of 9 prompts in all, intervals are too narrow: measure 10 or more. Each" in told
    assert "vanilla's tokens on 96 % of the runs" in page  # 48 of the variants' 50
    assert "intervals hold 95 % of a bootstrap" in page and "differs 5 % at least look different by chance" in page
    assert "| dense | one | 5 | feature 0.5, mixture 0.5, top_k 0.5 | – |" in page
    assert f"| up | one | 5 | {', '.join(f'{name} 0.5' for name in losses)} | – |" in page
    assert "python scripts/plots.py" in page.partition("## Again")[2]
    assert summary(report)[0] in page and "![A plot](plot.svg)" in page
    assert "| dense | 2.00 (1.90 to 2.10) | 1.000 (1.000 to 1.000) | 20.00 | 9.0 | 1.00× | 0.50 |" in page
    assert "| part up | up | dense | +10.0 % (+2.0 to +20.0): better |" in page
    assert "| part down | down | dense | -10.0 % (-20.0 to -5.0): worse |" in page
    assert "| part same | same | dense | +1.0 % (-10.0 to +10.0): not told apart |" in page
    assert "| part flat | flat | dense | +30.0 % (+30.0 to +30.0): not told apart |" in page
    monkeypatch.setattr(findings, "LEVEL", 90)
    assert "hold 90 % of a bootstrap" in as_page(report) and "differs 10 % at least" in as_page(report)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reference": "none"}, "the reference 'none' is none of the variants"),
        ({"variants": [{"label": "x", "head": "gone"}]}, "names head 'gone', which `training` has not"),
        ({"variants": TINY["variants"][:1], "parts": []}, "compares at least two variants"),
        (
            {"parts": [{"what": "x", "variant": "dense", "against": "gone"}]},
            "the part's 'gone' is none of the variants",
        ),
        ({"parts": TINY["parts"] * 2}, "two `parts` are called 'own candidates'"),
        ({"tee": 1}, "is not an experiment"),
        ({"question": math.nan}, "question is nan: it should be a valid string"),
        ({"parts": [TINY["parts"][0] | {"what": 5}]}, "what is 5: it should be a valid string"),
        ({"variants": [*TINY["variants"], {"label": 1, "head": "two"}]}, "label is 1: it should be a valid string"),
        ({"training": {"steps": 1}}, "is not an experiment: it has no 'heads'"),
        ({"variants": TINY["variants"] + TINY["variants"][:1]}, "the label 'dense' is taken"),
        ({"variants": [*TINY["variants"], {"label": "vanilla", "head": "two"}]}, "the label 'vanilla' is taken"),
        ({"variants": [*TINY["variants"], {"label": "", "head": "two"}]}, "the label '' is taken"),
        ({"tree": {"top_k": 0}}, "variant 'dense': top_k must be"),
        ({"tree": {"deep": 3}}, "variant 'dense': unknown setting 'deep'"),
        ({"deep": 3}, "the experiment has the unknown field 'deep'; known are question, "),
        ({"variants": [{"label": "a", "heads": "b"}]}, "a variant has the unknown field 'heads'; known are label, "),
        ({"variants": [{"label": "a"}]}, "a variant has no 'head'"),
        ({"variants": ["a"]}, "a variant is 'a', expected an object with label, head, set"),
        ({"tree": {"depth": "auto"}}, "depth is auto"),
        (
            {"variants": [*TINY["variants"], {"label": "x", "head": "two", "set": {"candidates": "own"}}]},
            "variant 'x': candidates must be",
        ),
        ({"temperatures": []}, "name at least one"),
        ({"temperatures": [1, 1.0]}, "none twice"),
        ({"temperatures": [-1]}, "temperature is -1"),
        ({"temperatures": ["hot"]}, "is not an experiment"),
        ({"max_new_tokens": 1}, "a whole number of at least 2"),
    ],
)
def test_an_experiment_that_makes_no_sense_is_refused(tmp_path, capsys, change, message):
    (tmp_path / "ask.json").write_text(json.dumps(TINY | change))
    line = ["experiment", tmp_path / "ask.json", "--data", tmp_path, "--run-folder", tmp_path, "--out", tmp_path / "o"]
    assert main([str(one) for one in line]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--dtype", "int8", "int8"),
        ("--device", "gpu7", "gpu7"),
        ("--limit", "1", "task 'examples' has one prompt"),
        ("--seed", "-1", "seed is -1"),
        ("--heads", "three", "no head is called 'three'; use some of dense, two, four"),
        ("--heads", "two", "compared with 'dense': name its head 'dense' as well"),
    ],
)
def test_what_cannot_be_decoded_with_is_said_before_heads_are_trained(tmp_path, capsys, option, value, message):
    (tmp_path / "ask.json").write_text(json.dumps(TINY))
    line = ["experiment", tmp_path / "ask.json", "--data", tmp_path, "--run-folder", tmp_path / "run", option, value]
    assert main([str(one) for one in [*line, "--out", tmp_path / "o"]]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_file_that_is_no_report_is_not_replaced_by_one(tmp_path, capsys):
    (tmp_path / "ask.json").write_text(json.dumps(TINY))
    (tmp_path / "o").write_text("my notes")
    line = ["experiment", tmp_path / "ask.json", "--data", tmp_path, "--run-folder", tmp_path, "--out", tmp_path / "o"]
    assert main([str(one) for one in line]) == 2
    assert "it is there, and is no benchmark report; name another file" in capsys.readouterr().err


def test_of_an_experiment_some_heads_can_be_asked_for():
    whole = Experiment.of(json.loads(json.dumps(TINY)))
    some = whole.only(["two", "dense"])
    assert [one.label for one in some.variants] == ["dense", "together", "apart"]
    assert list(some.training.heads) == ["dense", "two"] and some.parts == whole.parts
    assert whole.only(["four", "dense"]).parts == []
    assert len(whole.training.heads) == 3
    with pytest.raises(ValueError, match="at least two variants"):
        whole.only(["dense"])


def test_the_experiments_that_ship_can_be_read():
    for name in EXPERIMENTS:
        found = Experiment.read(RECIPES / f"{name}-cpu.json")
        kinds = {found.training.heads[one.head].kind for one in found.variants}
        assert kinds == {"eagle2", "jakiro"} and found.tree["total_tokens"] == 60
