"""What `train` refuses at once: recipes that are wrong, options that have no effect, devices that it does not get."""

import json
import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
from recipes import SHAPE, given

from jakiro.__main__ import main
from jakiro.training import workers
from jakiro.training.head_recipe import HeadRecipe

ANSWERS = {"new_tokens": 9, "batch": 4}
STAGE = {"layers": 1, "tokens": 1, "row": 8, "rows": 1, "passes": 1, "mix": "a", "rate": [1, 1]}
SOURCE = {"file": "a", "weight": 1}


def target_with(model=(), **changes):
    """A recipe of a target whose one stage has changes."""
    shape = {"vocab_size": 300, "prompt_weight": 0.3, "model": dict(model), "mixes": {"a": [SOURCE]}}
    return "target", shape | {"stages": [STAGE | changes]}


WRONG = {
    "no heads": ("eagle2", {"steps": 1}, "is not a recipe of heads: it has no 'heads'"),
    "heads without one": ("eagle2", given(heads={}), "`heads` is empty: name at least one"),
    "a misspelt field": ("eagle2", given(stepps=1), "is not a recipe of heads: .*'stepps'"),
    "a misspelt shape": ("eagle2", given(heads={"eagle2": {"hiden": 1}}), "unknown field 'hiden'"),
    "a misspelt source": ("eagle2", given(mix=[{"fil": "a"}]), "'fil'"),
    "a list": ("eagle2", [1], "is not a recipe of heads"),
    "a list of heads": (
        "eagle2",
        given(heads=["eagle2"]),
        "of another kind than belongs there, as a list in place of an",
    ),
    "a text for a mix": ("eagle2", given(mix="chat.jsonl"), "of another kind than belongs there"),
    "no mixes": ("target", given(), "is not a recipe of a target: it has no 'mixes'"),
    "an unknown mix": ("target", {"mixes": {}, "stages": [STAGE]}, "the mix 'a'"),
    "no pass of a stage": ("target", {"mixes": {}, "stages": [STAGE | {"passes": 0}]}, "passes is 0: use a whole"),
    "no pass of a head": ("eagle2", given(passes=0), "passes is 0: use a whole number of at least 1"),
    "no epoch": ("eagle2", given(epochs=0), "epochs is 0"),
    "no step between trials": ("eagle2", given(trial={"every": 0}), "every is 0"),
    "no weight": ("eagle2", given(mix=[SOURCE | {"weight": 0}]), "of the source a, weight is 0: leave the source out"),
    "less than no weight": ("eagle2", given(mix=[SOURCE | {"weight": -1}]), "weight is -1: use a number of at least 0"),
    "less than no turn": ("eagle2", given(mix=[SOURCE | {"turns": -1}]), "of the source a, turns is -1"),
    "no temperature": ("eagle2", given(answers=ANSWERS | {"temperatures": []}), "temperatures is empty: name at least"),
    "a temperature in words": ("eagle2", given(answers=ANSWERS | {"temperatures": ["hot"]}), "temperatures is .'hot'"),
    "a rate in words": ("eagle2", given(rate="fast"), "rate is 'fast': use a number of at least 0"),
    "noise in words": ("eagle2", given(noise="0.1"), "noise is '0.1': use a number"),
    "a rate beyond all numbers": ("eagle2", given(rate=1e300), "rate is 1e.300: use .* at most 1e.15"),
    "decay in words": ("eagle2", given(decay="1"), "decay is '1'"),
    "a share above one": (
        "eagle2",
        given(own_features=2),
        "own_features is 2: use a number of at least 0 and at most 1",
    ),
    "an average that stands still": ("eagle2", given(average=1), "average is 1, which keeps the weights after the"),
    "an average that runs away": ("eagle2", given(average=1.5), "average is 1.5: use a number of at least 0 and at"),
    "a loss in words": ("eagle2", given(losses={"feature": "1"}), "feature is '1': use a number of at least"),
    "a width twice": ("eagle2", given(short=[32, 32]), r"`short` is \[32, 32\]: name each width once"),
    "a width in words": ("eagle2", given(short=["32"]), "short rows of 32 tokens do not divide"),
    "a stage's width twice": (*target_with(short=[4, 4]), "name each width once"),
    "tokens in words": (*target_with(tokens="many"), "tokens is 'many'"),
    "a stage's rate in words": (*target_with(rate=["1", 1]), "rate is .'1', 1.: use a number"),
    "half a rate": (*target_with(rate=[1]), r"rate is \[1\]: use two numbers"),
    "a misspelt model": (*target_with({"hiden_size": 8}), "`model` has an unknown field 'hiden_size'"),
    "a model of words": (*target_with({"hidden_size": "8"}), "no model can be made of `model`"),
    "a negative model": (*target_with({"hidden_size": -8}), "no model can be made of `model`"),
    "heads that share nothing": (*target_with({"num_attention_heads": 7}), "no model can be made of `model`"),
    "the mean with itself": (*target_with(average=1), "average is 1 in stage 1: name one before it, or 0"),
    "half a stage": (*target_with(average=0.5), "average is 0.5 in stage 1"),
    "rows beyond the context": (
        *target_with({"max_position_embeddings": 3}),
        "a stage has rows of 8 tokens, its model positions for 3",
    ),
    "answers beyond the context": (
        *target_with({"max_position_embeddings": 8}, answers=8),
        "a stage has answers of 8 tokens, its model positions for 8: lower `answers`",
    ),
    "answers as long as rows": (
        "eagle2",
        given(answers=ANSWERS | {"new_tokens": 64, "temperatures": [0]}),
        "leave no room for prompts",
    ),
    "a vocabulary twice": (
        *target_with({"vocab_size": 8}),
        "`model` says vocab_size, which the recipe's own vocab_size",
    ),
    "a seed in words": ("eagle2", given(seed="3"), "seed is '3'; use a whole number of at least 0"),
    "a seed beyond torch's": ("eagle2", given(seed=2**62), "seed is .*; use a whole number .* below 1000000000000"),
    "a target's seed beyond torch's": ("target", target_with()[1] | {"seed": -1}, "seed is -1; use a whole number"),
    "fewer steps than epochs": ("eagle2", given(epochs=3), "steps is 2, and each row is seen 3 times: lower `epochs`"),
    "half an answer": (*target_with(answers=1.5), "answers is 1.5: it should be a valid integer"),
    "true for one": ("eagle2", given(steps=True), "steps is True: use a whole number"),
    "a file that is a number": ("eagle2", given(mix=[SOURCE | {"file": 5}]), "file is 5: it should be a valid string"),
    "a name that is a number": ("eagle2", given(mix=[SOURCE | {"only": [1]}]), "only is .1,.: it should be a valid"),
    "a part of a character": ("eagle2", given(mix=[SOURCE | {"longest": 500.5}]), "longest is 500.5: it should be a"),
    "many dtypes": ("target", target_with()[1] | {"dtype": []}, r"dtype is \[\]: it should be a valid string"),
    "a head elsewhere": ("eagle2", given(heads={"../a": {"kind": "eagle2"}}), "a head is called '../a'"),
    "a head called as the count": ("eagle2", given(heads={"step": {"kind": "eagle2"}}), "a head is called 'step'"),
    "key heads that are not shared": (*target_with(SHAPE | {"num_key_value_heads": 3}), "no model can be made"),
    "nothing inside": (*target_with(SHAPE | {"intermediate_size": 0}), "no model .* intermediate_size is 0"),
    "layers twice": (*target_with({"num_hidden_layers": 8}), "which each stage's layers gives: leave it out there"),
}


def train(what, recipe, folder):
    line = [
        "train",
        what,
        "--recipe",
        recipe,
        "--data",
        folder,
        "--run-folder",
        folder / "run",
        "--out",
        folder / "out",
    ]
    return main([str(one) for one in line])


def test_a_recipe_of_brackets_without_end_is_named(tmp_path):
    (tmp_path / "mine.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"mine\.json is not a recipe of heads"):
        HeadRecipe.read(tmp_path / "mine.json")


@pytest.mark.parametrize("case", WRONG)
def test_a_recipe_that_is_wrong_is_refused_with_its_name(tmp_path, capsys, case):
    what, written, message = WRONG[case]
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(written))
    assert train(what, file, tmp_path) == 2
    error = capsys.readouterr().err
    assert "mine.json" in error
    assert re.search(message, error), error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["eagle2", "--like", "a"], "--like is for a target"),
        (["target", "--like", "a", "--start", "b"], "--like and --start do not go together"),
        (["target", "--chat-template", "vicuna"], "--chat-template is for heads"),
        (["target", "--system", "a"], "--system is for heads and answers"),
        (["target", "--target", "a"], "--target is for heads"),
        (["answers", "--out", "."], "it is a folder"),
        (["answers", "--start", "a"], "--start is for training"),
        (["answers", "--shard"], "--shard is for training"),
        (["answers", "--no-compile"], "--no-compile is for training"),
        (["eagle2"], "the heads that ship with the embedded target would be written over"),
        (["eagle2", "--device", "gpu7"], "device is 'gpu7'"),
        (["eagle2", "--device", "cpu:1"], "training takes number 0 of what it sees: use 'cpu'"),
    ],
)
def test_options_that_have_no_effect_are_refused(tmp_path, capsys, line, message):
    assert main(["train", *line, "--data", str(tmp_path), "--run-folder", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "recipe", "option"),
    [("eagle2", "run", "--run-folder"), ("eagle2", "out/eagle2", "--out"), ("target", "out", "--out")],
)
def test_a_recipe_that_would_be_written_over_is_refused(tmp_path, capsys, what, recipe, option):
    file = tmp_path / recipe / "recipe.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(given()))
    assert train(what, file, tmp_path) == 2
    assert f"recipe.json is read, and would be written over: name another {option}" in capsys.readouterr().err
    assert json.loads(file.read_text()) == given()


def test_no_thread_is_none_to_train_with(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "eagle2", "--data", str(tmp_path), "--run-folder", str(tmp_path), "--threads", "0"])
    assert "--threads: '0' is not a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(("device", "index"), [("cuda", None), ("cuda:0", None), ("cuda:1", 1)])
def test_the_device_that_is_asked_for_is_the_one_that_training_takes(monkeypatch, device, index):
    asked = []

    def accelerator(cpu, kwargs_handlers, **own):
        asked.extend(kwargs_handlers)
        return SimpleNamespace(device=torch.device("cuda", index))

    monkeypatch.setattr(workers, "Accelerator", accelerator)
    assert workers.start(device).device.index == index
    assert asked[0].timeout >= timedelta(hours=1)  # for the others, while the main process makes rows
    with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES=2"):
        workers.start("cuda:2")
