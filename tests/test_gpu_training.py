"""Training on a CUDA device: `pytest -m gpu`. Skipped elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from recipes import CHAT, SMALL, TEMPLATE, given, losses, recipe
from tiny import tiny_model, tiny_tokenizer

from jakiro.drafting.weights import load_head
from jakiro.target import Target
from jakiro.training import loop, workers
from jakiro.training.head_recipe import HeadRecipe
from jakiro.training.head_rows import Lesson
from jakiro.training.heads import train_heads
from jakiro.training.target import train
from jakiro.training.target_recipe import Stage

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
HEADS = {"eagle2": SMALL, "jakiro": SMALL | {"expert_intermediate_size": 16}}


@pytest.fixture(scope="module")
def accelerator():
    """CPU tests of the same process have set accelerate up for the CPU; it keeps that until it is reset."""
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    yield workers.start("cuda")
    AcceleratorState._reset_state(reset_partial_state=True)


def heads_of(accelerator, data: Path, run: Path, **changes) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = TEMPLATE
    how = HeadRecipe.of(given(heads=HEADS, rate=3.0, **changes))
    train_heads(Lesson(accelerator, tiny_model(), tokenizer, how, data), run, {name: run / name for name in HEADS})


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_target_learns_in_stages_of_rows_of_two_widths(accelerator, data, tmp_path, compiled):
    first = Stage(1, 6000, 64, 4, 2, "all", (1.0, 1.0), short=(32,), unlikelihood=0.1)
    how = recipe(first, replace(first, layers=2, tokens=2000, answers=6), mixes={"all": CHAT})
    train(accelerator, how, data, tmp_path / "run", tmp_path / "out", compiled)
    curves = [losses(tmp_path / f"run/stage{number}/metrics.csv", "loss") for number in (0, 1)]
    assert curves[1][-1] < curves[0][0] - 0.3


def test_heads_learn_from_own_answers_compiled_and_load(accelerator, data, tmp_path):
    how = {"answers": {"new_tokens": 9, "batch": 4, "temperatures": [0, 1]}, "trial": {"every": 10, "prompts": 2}}
    heads_of(accelerator, data, tmp_path, steps=20, epochs=4, passes=2, average=0.5, **how)
    for name in HEADS:
        curve = losses(tmp_path / "metrics.csv", f"{name}_loss")
        assert sum(curve[-5:]) < sum(curve[:5])
        load_head(tmp_path / name, Target.wrap(tiny_model()))
    assert losses(tmp_path / "trials.csv", "step") == [10, 20]


def test_heads_resume_to_the_same_curve(accelerator, data, tmp_path, monkeypatch):
    heads_of(accelerator, data, tmp_path / "whole", steps=6)
    real = loop.run
    monkeypatch.setattr(loop, "run", lambda job, run, main: real(job, run, main, stop_after=3))
    heads_of(accelerator, data, tmp_path / "parts", steps=6)
    monkeypatch.setattr(loop, "run", real)
    heads_of(accelerator, data, tmp_path / "parts", steps=6)
    for name in HEADS:
        whole, parts = (losses(tmp_path / run / "metrics.csv", f"{name}_loss") for run in ("whole", "parts"))
        assert parts == pytest.approx(whole, rel=1e-2)
