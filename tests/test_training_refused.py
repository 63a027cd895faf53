"""What `train` refuses at once: recipes that are wrong, options that have no effect, devices that it does not get."""

import json
import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
from recipes import given

from jakiro.__main__ import main
from jakiro.training import workers

STAGE = {"layers": 1, "tokens": 1, "row": 8, "rows": 1, "passes": 1, "mix": "a", "rate": [1, 1]}
WRONG = {
    "no heads": ("eagle2", {"steps": 1}, "is not a recipe of heads: it has no 'heads'"),
    "a misspelt field": ("eagle2", given(stepps=1), "is not a recipe of heads: .*'stepps'"),
    "a misspelt shape": ("eagle2", given(heads={"eagle2": {"hiden": 1}}), "unknown field 'hiden'"),
    "a misspelt source": ("eagle2", given(mix=[{"fil": "a"}]), "'fil'"),
    "a list": ("eagle2", [1], "is not a recipe of heads"),
    "no mixes": ("target", given(), "is not a recipe of a target: it has no 'mixes'"),
    "an unknown mix": ("target", {"mixes": {}, "stages": [STAGE]}, "the mix 'a'"),
    "no pass of a stage": ("target", {"mixes": {}, "stages": [STAGE | {"passes": 0}]}, "passes is 0: use a whole"),
    "no pass of a head": ("eagle2", given(passes=0), "passes is 0: use a whole number of at least 1"),
    "no epoch": ("eagle2", given(epochs=0), "epochs is 0"),
    "no step between trials": ("eagle2", given(trial={"every": 0}), "every is 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_recipe_that_is_wrong_is_refused_with_its_name(tmp_path, capsys, case):
    what, written, message = WRONG[case]
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(written))
    line = [
        "train",
        what,
        "--recipe",
        file,
        "--data",
        tmp_path,
        "--run-folder",
        tmp_path / "run",
        "--out",
        tmp_path / "o",
    ]
    assert main([str(one) for one in line]) == 2
    error = capsys.readouterr().err
    assert "mine.json" in error
    assert re.search(message, error), error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["eagle2", "--like", "a"], "--like is for a target"),
        (["target", "--like", "a", "--start", "b"], "--like and --start do not go together"),
        (["target", "--chat-template", "a"], "--chat-template is for heads"),
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


def test_no_thread_is_none_to_train_with(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "eagle2", "--data", str(tmp_path), "--run-folder", str(tmp_path), "--threads", "0"])
    assert "--threads: '0' is not a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(("device", "index"), [("cuda", None), ("cuda:0", None), ("cuda:1", 1)])
def test_the_device_that_is_asked_for_is_the_one_that_training_takes(monkeypatch, device, index):
    asked = []

    def accelerator(cpu, kwargs_handlers):
        asked.extend(kwargs_handlers)
        return SimpleNamespace(device=torch.device("cuda", index))

    monkeypatch.setattr(workers, "Accelerator", accelerator)
    assert workers.start(device).device.index == index
    assert asked[0].timeout >= timedelta(hours=1)  # for the others, while the main process makes rows
    with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES=2"):
        workers.start("cuda:2")
