"""The losses of training, compiled and not: the same, however many heads, widths of rows and processes there are."""

import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from recipes import SMALL, given, recipe
from tiny import tiny_model

from jakiro.drafting.head import Head, HeadOutput
from jakiro.methods import on_heads
from jakiro.models.products import Layout
from jakiro.target import Target
from jakiro.training import workers
from jakiro.training.head_job import HeadJob
from jakiro.training.head_recipe import KINDS, HeadRecipe, head_config, new_head
from jakiro.training.losses import Losses, Wanted, loss_of
from jakiro.training.packing import Rows
from jakiro.training.target_job import Batch, StageJob
from jakiro.training.target_recipe import Stage
from jakiro.training.trial import Trial, Trials

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++"))), reason="no C++ compiler")


def job_of(how, widths=(64,), compiled=True):
    model = tiny_model().requires_grad_(False)
    torch.manual_seed(0)
    made = {name: new_head(model, plan) for name, plan in how.heads.items()}
    rng = np.random.default_rng(0)
    rows = [rng.integers(4, 290, (how.rows * 64 // width, width + 1)).astype(np.uint16) for width in widths]
    return HeadJob(workers.start(), Target.wrap(model), made, how, [Rows(ids, ids > 40) for ids in rows], compiled)


@needs_compiler
def test_a_compiled_step_has_the_loss_of_one_that_is_not(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    how = HeadRecipe.of(given())
    plain, fast = (job_of(how, compiled=compiled).step(0) for compiled in (False, True))
    assert fast["eagle2_loss"] == pytest.approx(plain["eagle2_loss"], rel=1e-4)


@needs_compiler
def test_a_compiled_step_reads_a_model_that_trials_decode_with(monkeypatch, tmp_path):
    """Decoding for itself a target lays its weights out, which no compiled loss can read."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr("jakiro.models.products.usual_plan", lambda: (Layout("onednn"),))
    job = job_of(HeadRecipe.of(given(trial={"every": 1})))
    target = Target.wrap(job.model, graphs=False)
    job.trials = Trials(target, [[5, 9, 7]], Trial(1, new_tokens=8), tmp_path / "trials.csv")
    assert all(np.isfinite(job.step(index)["eagle2_loss"]) for index in range(2))
    assert (tmp_path / "trials.csv").read_text().count("\n") == 3


def test_more_heads_and_widths_than_dynamos_limit_are_all_compiled(monkeypatch):
    """Without inductor, which takes long; a step past the limit would raise."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    how = HeadRecipe.of(given(heads={f"head{number}": SMALL | {"kind": "eagle2"} for number in range(5)}))
    job = job_of(how, widths=(32, 64))
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for index in range(2):
            job.step(index)
    assert torch._dynamo.config.recompile_limit == 8


def test_own_features_leave_gradients_to_every_weight_in_bfloat16(monkeypatch):
    """Some versions of torch keep what a pass without gradients has cast."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    job = job_of(HeadRecipe.of(given(own_features=0.5)), compiled=False)
    monkeypatch.setattr(job.optimizers["eagle2"], "step", lambda rate: None)
    job.step(0)
    assert all(weight.grad is not None for weight in job.modules["eagle2"].parameters())


def test_processes_score_the_positions_of_one_at_few_lengths():
    job = job_of(HeadRecipe.of(given(scored=64)), compiled=False)
    said, rows = torch.rand(4, 65) < 0.6, 2
    lengths = set()
    for seed in range(30):
        torch.manual_seed(seed)
        whole, kept = job._positions(said, slice(0, 4))
        assert kept is None and len(whole) == 64
        parts = []
        for index in range(2):
            job.accelerator = SimpleNamespace(num_processes=2)
            torch.manual_seed(seed)
            at, kept = job._positions(said, slice(rows * index, rows * (index + 1)))
            lengths.add(len(at))
            assert len(at) == len(kept) and at.max() < rows * 62
            parts += (at[kept] + index * rows * 62).tolist()
        job.accelerator = workers.start()
        assert sorted(parts) == sorted(whole.tolist())
    assert len(lengths) <= 4


@pytest.mark.parametrize("kind", on_heads(Head))
def test_positions_that_do_not_count_add_nothing(kind):
    torch.manual_seed(0)
    model = tiny_model()
    read, head = model.get_output_embeddings(), KINDS[kind](head_config(model, SMALL))
    features, embeddings = torch.randn(2, 1, 9, 32)
    out = head(embeddings, features)
    out = out if isinstance(out, HeadOutput) else HeadOutput(out, None, None, None)
    losses = Losses(diversity=0.3, top_k=0.5)
    found = []
    for at, kept in (([1, 4], None), ([1, 4, 0, 0], torch.tensor([True, True, False, False]))):
        at = torch.tensor(at)
        soon, later = (Wanted.of(read, features[0, shift:][at], kept) for shift in (1, 1))
        found.append(loss_of(out, at, read, soon, later if out.contrast is not None else None, losses))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_too_few_tokens_for_one_step_are_refused():
    ids = np.zeros((1, 33), np.uint16)
    rows = [Rows(ids, ids > 0)]
    with pytest.raises(ValueError, match="too few tokens for one step of 2 x 1 rows of 32"):
        StageJob(workers.start(), tiny_model(), Stage(1, 64, 32, 1, 2, "all", (1, 1)), rows, [], False, recipe())
    with pytest.raises(ValueError, match="too few tokens for one batch of 4 rows of 64"):
        HeadJob(workers.start(), Target.wrap(tiny_model()), {}, HeadRecipe.of(given(rows=4, row=64)), rows, False)


def test_a_batch_in_which_nothing_is_said_is_left_out():
    """As of prompts that leave room for one token of an answer, which a head reads and never proposes."""
    ids = np.arange(4, 4 + 3 * 65).reshape(3, 65).astype(np.uint16)
    said = np.zeros(ids.shape, bool)
    said[:, -1] = said[1, 40:] = True
    heads = {"eagle2": KINDS["eagle2"](head_config(tiny_model(), SMALL))}
    target, how = Target.wrap(tiny_model()), HeadRecipe.of(given(rows=1))
    job = HeadJob(workers.start(), target, heads, how, [Rows(ids, said)], compiled=False)
    assert len(job.batches) == 1 and (job.batches[0][0] == ids[1]).all()
    assert job.step(1)["eagle2_loss"] > 0


def test_the_loss_that_is_reported_is_of_answers_alone():
    """Whatever the prompts weigh."""
    ids = np.arange(4, 4 + 2 * 33).reshape(2, 33).astype(np.uint16)
    said = np.zeros(ids.shape, bool)
    said[:, 20:] = True
    found = []
    for weight in (0.3, 1.0):
        job = StageJob(
            workers.start(),
            tiny_model(),
            Stage(1, 64, 32, 2, 1, "all", (1, 1)),
            [Rows(ids, said)],
            [],
            False,
            recipe(prompt_weight=weight),
        )
        batch = Batch.of(ids, said, weight, torch.device("cpu"))
        found.append(job._loss(batch.ids, batch.weight, batch.masks[0]))
    assert found[0][1] == found[1][1] and found[0][0] < found[1][0]
