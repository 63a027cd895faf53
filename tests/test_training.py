"""The trainer's loop, and its commands end to end at a tiny size."""

import json
import shlex
import shutil
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from counter import Counter
from recipes import MIX, command, given_both, growing, losses
from transformers import AutoTokenizer

from jakiro.__main__ import main
from jakiro.commands.arguments import RECIPES
from jakiro.measuring import limits
from jakiro.models.hub import fingerprint
from jakiro.target import Target
from jakiro.training import card, history, loop
from jakiro.training.head_recipe import HeadRecipe
from jakiro.training.sources import Source
from jakiro.training.target_recipe import Recipe
from jakiro.training.texts import TextsRecipe

ROOT = Path(__file__).parent.parent


def test_a_run_that_has_lost_its_numbers_ends_in_words_and_goes_on_at_its_checkpoint(tmp_path):
    class Diverging(Counter):
        def step(self, index):
            return {"value": float("nan")} if index == 3 else super().step(index)

    with pytest.raises(ValueError, match=r"value is nan in step 4, .* lower the recipe's `rate`"):
        loop.run(Diverging(), tmp_path / "parts", save_every=2)
    loop.run(Counter(), tmp_path / "whole")
    loop.run(Counter(), tmp_path / "parts")
    assert losses(tmp_path / "parts/metrics.csv", "value") == losses(tmp_path / "whole/metrics.csv", "value")


def test_counts_keep_all_their_digits(tmp_path):
    class Large(Counter):
        def step(self, index):
            return {"tokens": 1_048_573.0, "value": 0.123456789}

    loop.run(Large(), tmp_path)
    assert history.metrics(tmp_path)[0] == {"step": 1, "tokens": 1_048_573, "value": 0.123457}


@pytest.mark.parametrize("stop", [3, 4, 6])
def test_an_interrupted_run_resumes_to_the_same_curve(tmp_path, stop):
    loop.run(Counter(), tmp_path / "whole", save_every=2)
    loop.run(Counter(), tmp_path / "parts", save_every=2, stop_after=stop)
    loop.run(Counter(), tmp_path / "parts", save_every=2)
    assert losses(tmp_path / "parts/metrics.csv", "value") == losses(tmp_path / "whole/metrics.csv", "value")


def test_a_crash_between_checkpoints_repeats_the_lost_steps(tmp_path):
    class Crashing(Counter):
        def step(self, index):
            if index == 5:
                raise KeyboardInterrupt
            return super().step(index)

    loop.run(Counter(), tmp_path / "whole", save_every=2)
    with pytest.raises(KeyboardInterrupt):
        loop.run(Crashing(), tmp_path / "parts", save_every=2)
    assert len(losses(tmp_path / "parts/metrics.csv", "value")) == 4
    loop.run(Counter(), tmp_path / "parts", save_every=2)
    assert losses(tmp_path / "parts/metrics.csv", "value") == losses(tmp_path / "whole/metrics.csv", "value")


@pytest.mark.parametrize("text", ["step;value\n1;0,5\n", "step,value\none,2\n", 'step,value\n1,"0,5"\n2,"1,5"\n'])
def test_a_curve_that_another_program_saved_is_named(tmp_path, text):
    loop.run(Counter(), tmp_path, stop_after=2)
    (tmp_path / "metrics.csv").write_text(text)
    with pytest.raises(ValueError, match=r"metrics\.csv is not as it was written \(.*\): take it from a copy"):
        loop.run(Counter(), tmp_path)
    (tmp_path / "metrics.csv").unlink()
    with pytest.raises(ValueError, match=r"metrics\.csv has 0 of the 2 steps of checkpoint\.pt: take it from a copy"):
        loop.run(Counter(), tmp_path)


@pytest.mark.parametrize(
    ("states", "what"), [({"step": 2}, "of another run"), ([1], "of another run"), (b"hi", "damaged")]
)
def test_a_checkpoint_that_is_none_of_the_run_is_named(tmp_path, states, what):
    loop.run(Counter(), tmp_path, stop_after=2)
    file = tmp_path / "checkpoint.pt"
    file.write_bytes(states) if isinstance(states, bytes) else torch.save(states, file)
    with pytest.raises(ValueError, match=rf"checkpoint\.pt is {what}"):
        loop.run(Counter(), tmp_path)


def test_the_card_is_written_from_what_training_and_benchmark_left(trained, data, tmp_path, capsys):
    """End to end from the command line: target, heads, benchmark and card, at a tiny size."""
    (data / "eval").mkdir(exist_ok=True)
    questions = data / "eval" / "chat.jsonl"
    questions.write_text('{"id": "chat/1", "turns": ["the cat sat"]}\n{"id": "chat/2", "turns": ["a red mat"]}\n')
    target, runs, recipes = tmp_path / "model", trained / "run", {}
    shutil.copytree(trained / "out", target)
    said = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "a red mat."}]  # not held out
    (data / "teacher.jsonl").write_text(json.dumps({"messages": said}) + "\n")
    made = growing(mixes={"all": [*MIX, Source("teacher.jsonl", 1.0)]})
    for name, one in (("target", asdict(made)), ("heads", given_both())):
        recipes[name] = tmp_path / f"{name}.json"
        recipes[name].write_text(json.dumps(one))
    common = ["--target", target, "--data", data]
    heads = ["eagle2", "jakiro", *common, "--recipe", recipes["heads"], "--run-folder", tmp_path / "heads"]
    command("train", *heads, "--no-compile")
    for tree in ("default", "wide"):
        wide = ["--set", "total_tokens=60"] * (tree == "wide")
        few = ["--max-new-tokens", 24, *wide]
        command("bench", "--target", target, "--prompts", questions, *few, "--out", tmp_path / f"{tree}.json")
    where = ["--target-recipe", recipes["target"], "--heads-recipe", recipes["heads"]]
    where += ["--default", tmp_path / "default.json", "--wide", tmp_path / "wide.json"]
    report = json.loads((tmp_path / "wide.json").read_text())
    report["rows"][-1]["identical"] = 0.5
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(report))
    assert main([str(one) for one in ["card", *common, *where, "--wide", changed]]) == 2
    assert "the card says that" in capsys.readouterr().err and not (target / "README.md").exists()
    changed.write_text(json.dumps(json.loads((tmp_path / "wide.json").read_text()) | {"weights": {"jakiro": "0"}}))
    assert main([str(one) for one in ["card", *common, *where, "--wide", changed]]) == 2
    assert "the bench of the wide tree is of another jakiro than is here now" in capsys.readouterr().err
    less = json.loads((tmp_path / "default.json").read_text())
    assert less.pop("weights") == {
        "target": fingerprint(target),
        **{name: fingerprint(target / name) for name in ("eagle2", "jakiro")},
    }
    assert len(less.pop("code")) == 64
    (tmp_path / "default.json").write_text(json.dumps(less))  # a report of before says neither
    command("card", *common, *where)
    card = (target / "README.md").read_text()
    seen = sum(sum(losses(runs / f"stage{stage}" / "metrics.csv", "tokens")) for stage in (0, 1))
    assert f"{seen / 1e6:.1f} M tokens seen" in card
    assert card.count("**chat/") == 2 and "60 nodes" in card and "--set total_tokens=60" in card
    assert "| mean | 1.00×, τ 1.00 |" in card
    first = 100 * np.mean(losses(tmp_path / "heads" / "metrics.csv", "jakiro_top1"))
    [run] = history.read(target / "jakiro")
    assert 3 * 128 <= run["distinct"] < 4 * 128  # half of what six steps read; documents are kept whole
    seen = f"{run['distinct']} tokens, each seen {6 * 128 / run['distinct']:.1f} times"
    assert f"| `jakiro` | 6 | 128 | 1 | {seen} | {first:.1f} % |" in card
    assert "held-out prompts of the last mix (none of which are of `teacher.jsonl`): **" in card
    assert "Of the\n2 answers to the first prompts of all sets, " in card


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{", r"bench\.json is not JSON"),
        ("[" * 100_000, r"bench\.json is not JSON"),
        ("[]", r"bench\.json is no report of a benchmark"),
        ('{"schema": "jakiro-tuning/1"}', r"no report of a benchmark \(jakiro-bench/1\): name what `bench` wrote"),
        ('{"schema": "jakiro-bench/1", "settings": {"vanilla": {}}}', "jakiro was not measured: run `bench` with it"),
    ],
)
def test_a_card_is_of_reports_alone_in_which_jakiro_was_measured(tmp_path, written, message):
    (tmp_path / "bench.json").write_text(written)
    with pytest.raises(ValueError, match=message):
        card.read_report(tmp_path / "bench.json")


def test_a_card_is_of_a_target_that_was_trained_with_both_heads(target, tmp_path):
    heads = {"eagle2": tmp_path / "eagle2"}
    with pytest.raises(ValueError, match="the target has no head jakiro, of which the card tells: train it"):
        card.write(SimpleNamespace(heads=heads), tmp_path / "recipe.json", [], {}, tmp_path)
    (tmp_path / "training.json").write_text('[{"steps": 2}]')
    with pytest.raises(ValueError, match=r"training\.json has entries without 'stage'"):
        card.write(SimpleNamespace(heads=target.heads, path=tmp_path), tmp_path / "recipe.json", [], {}, tmp_path)


def test_answers_are_written_by_themselves_and_heads_take_them(trained, data, tmp_path, monkeypatch):
    file, run = tmp_path / "heads.json", tmp_path / "run"
    file.write_text(json.dumps(given_both(answers={"new_tokens": 9, "batch": 4, "temperatures": [0.0]})))
    made = ["--target", trained / "out", "--recipe", file, "--data", data / "chat.jsonl"]
    shared = [*made, "--run-folder", run]
    command("train", "answers", *shared)
    command("train", "answers", *made, "--out", tmp_path / "elsewhere.jsonl")  # for other uses, without a run
    assert (tmp_path / "elsewhere.jsonl").read_text() == (run / "answers.jsonl").read_text()
    monkeypatch.setattr("jakiro.models.hub.local", lambda name: trained / "out" if str(name) == "owner/name" else name)
    command("train", "answers", *shared, "--target", "owner/name")
    written = (run / "answers.jsonl").read_text()
    command("train", "eagle2", *shared, "--out", tmp_path / "heads", "--no-compile")
    assert (run / "answers.jsonl").read_text() == written and written.count("\n") >= 12
    assert (tmp_path / "heads/eagle2/recipe.json").exists()


def test_a_target_without_a_chat_template_takes_one_from_a_file(trained, data, tmp_path, capsys):
    bare, written = tmp_path / "bare", []
    shutil.copytree(trained / "out", bare)
    template = (bare / "chat_template.jinja").rename(tmp_path / "chat.jinja")
    file = tmp_path / "heads.json"
    file.write_text(json.dumps(given_both(answers={"new_tokens": 9, "batch": 4, "temperatures": [0.0]})))
    shared = ["train", "answers", "--recipe", file, "--data", data / "chat.jsonl", "--run-folder"]
    for target, more in ((trained / "out", []), (bare, ["--chat-template", template])):
        run = tmp_path / f"run{len(written)}"
        command(*shared, run, "--target", target, *more)
        written.append((run / "answers.jsonl").read_text())
    assert written[0] == written[1] != ""
    terse = tmp_path / "terse.jinja"
    terse.write_text(
        template.read_text().replace("+ message['role'] +", "+ message['role'].replace('system', 'user') +")
    )
    command(*shared, tmp_path / "told", "--target", bare, "--chat-template", terse, "--system", "cat")
    begin = AutoTokenizer.from_pretrained(bare)("<|user|>cat<|end|><|user|>").input_ids
    prompts = [json.loads(line)["prompt"] for line in (tmp_path / "told/answers.jsonl").read_text().splitlines()]
    assert prompts and all(prompt[: len(begin)] == begin != prompt for prompt in prompts)
    template.write_text(template.read_text() + " ")
    refused = [(run, ["--chat-template", template], "another template"), (tmp_path / "other", [], "no chat template")]
    for run, more, message in refused:
        assert main([str(one) for one in [*shared, run, "--target", bare, *more]]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (["target", "eagle2"], "target stands alone"),
        (["answers", "jakiro"], "answers stands alone"),
        (["eagle3"], "no head"),
    ],
)
def test_what_cannot_be_trained_is_said(trained, data, tmp_path, capsys, what, message):
    line = ["train", *what, "--target", trained / "out", "--data", data, "--run-folder", tmp_path, "--out", tmp_path]
    assert main([str(one) for one in line]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_the_commands_for_a_gpu_make_the_models_and_measure_them(trained, data, tmp_path, monkeypatch):
    """`make gpu-texts`, `gpu-target` and `gpu-heads`, on the CPU at a tiny size."""
    shutil.copytree(data, tmp_path / "data")
    (tmp_path / "data/train").mkdir()
    texts = {"tokens": 40, "batch": 16, "new_tokens": 9, "top_k": 0, "mix": [{"file": "chat.jsonl", "weight": 1}]}
    made = [Source(f"train/teacher{kind}.jsonl", 1.0) for kind in ("", "-own")]
    few = [replace(stage, tokens=600) for stage in growing().stages]  # nothing has to be learnt
    parts = {"dtype": "bfloat16", "parent": "a/teacher", "vocab_size": 290, "mixes": {"all": [*MIX, *made]}}
    recipes = {
        "texts": texts,
        "texts-own": texts | {"own": 1.0, "own_tokens": 20},
        "target": asdict(growing(stages=few, **parts)),
        "heads": given_both(answers={"new_tokens": 9, "batch": 4, "temperatures": [0.0]}, passes=2),
    }
    for name, content in recipes.items():
        (tmp_path / f"{name}-gpu.json").write_text(json.dumps(content))
    questions = tmp_path / "chat.jsonl"
    questions.write_text('{"turns": ["the cat sat"]}\n')
    given = {
        "PYTHON": "python",
        "DEVICE": "cpu",
        "DATA": str(tmp_path / "data"),
        "EVAL": str(questions),
        "RECIPES": str(tmp_path),
        "TEACHER": str(trained / "out"),
        "GPU_RUN": str(tmp_path / "run"),
        "GPU_OUT": str(tmp_path / "model"),
    }
    make = ["make", "--dry-run", "--no-print-directory", "gpu-texts", "gpu-target", "gpu-heads"]
    line = [*make, *map("=".join, given.items())]
    asked = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name, count in {"TURNS": 1, "PASSES": 2, "NEW_TOKENS": 16, "SQUARE_ON_CPU": 64}.items():
        monkeypatch.setattr(limits, name, count)
    with torch._dynamo.config.patch(disable=True):
        for command_line in asked:  # in this process: each would import everything anew
            python, *how = shlex.split(command_line)
            assert [python, *how[:2]] == ["python", "-m", "jakiro"]
            few = ["--max-new-tokens", "24"] if how[2] == "bench" else []
            assert main([*how[2:], *few]) == 0
    assert len(asked) == 5
    target = Target.load(tmp_path / "model")
    assert target.model.dtype == torch.float32 and target.model.config.vocab_size == 290
    rows = json.loads((tmp_path / "model/bench.json").read_text())["rows"]
    assert {row["method"]: row["identical"] for row in rows if row["task"] == "chat"} == dict.fromkeys(
        ("vanilla", "prompt_lookup", "eagle2", "jakiro"), 1.0
    )


def test_every_recipe_that_ships_can_be_read():
    runs = {"heads-cpu-further": 1, "heads-cpu-wider": 2}  # a later run draws other rows
    kinds = {"heads": HeadRecipe, "target": Recipe, "draft-model": Recipe, "texts": TextsRecipe}
    for kind, recipe in kinds.items():
        for file in RECIPES.glob(f"{kind}-*.json"):
            assert recipe.read(file).seed == runs.get(file.stem, 0)
