"""What the losses compare: which position of a head's answers is held to which of the target's, and what is kept."""

import copy
import csv

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from recipes import SMALL, given, recipe
from tiny import tiny_model
from torch import nn

from jakiro.drafting.head import HeadOutput
from jakiro.target import Target
from jakiro.training import loop, repeats, workers
from jakiro.training.head_job import HeadJob
from jakiro.training.head_recipe import KINDS, HeadRecipe, head_config
from jakiro.training.optim import Optimizer
from jakiro.training.packing import Rows
from jakiro.training.target_job import Batch, StageJob
from jakiro.training.target_recipe import Stage

SAID = 20  # the one token of a row that the assistant says


@pytest.fixture(autouse=True)
def in_float32(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)


def job_of(ids, model=None, kind="jakiro", at=SAID, **changes):
    """Of a head on a batch of rows, of each of which one token is said, or more."""
    how = HeadRecipe.of(given(rows=len(ids), heads={kind: SMALL}, **changes))
    model, said = model or tiny_model(), np.zeros(ids.shape, bool)
    said[:, at] = True
    heads = {kind: KINDS[kind](head_config(model, SMALL))}
    return HeadJob(workers.start(), Target.wrap(model), heads, how, [Rows(ids, said)], compiled=False)


class Right(nn.Module):
    """A head that answers with the target's own features: of the next token, and in contrast of the one after it."""

    def __init__(self, features):
        super().__init__()
        self.features, self.nothing = features, nn.Parameter(torch.zeros(()))

    def forward(self, *_):
        mixed = self.features[:, 1:] + self.nothing
        contrast = F.pad(self.features[:, 2:], (0, 0, 0, 1)) + self.nothing
        return [HeadOutput(mixed, contrast, torch.stack([mixed, mixed]), torch.zeros(*mixed.shape[:2], 4))]


@pytest.mark.parametrize("scale", [1.0, 6.0])
@pytest.mark.parametrize(
    ("loss", "ahead", "share"),
    [("feature", None, 1), ("mixture", 0, 1), ("decoupled", 0, 1), ("contrast", 1, 1), ("contrast", 1, 0.1)],
)
def test_a_head_that_is_right_has_the_loss_of_the_target_itself(loss, ahead, share, scale):
    """No distance, the first token, and the entropy of what the target says of the token that is said, or the next.

    Also where the target divides what its output embedding says, and in the second of two equal rows.
    """
    ids = np.random.default_rng(0).integers(4, 290, (1, 65)).astype(np.uint16).repeat(2, axis=0)
    model = tiny_model("granite", logits_scaling=scale)
    weights = dict.fromkeys(("feature", "mixture", "decoupled", "contrast"), 0.0) | {"contrast_entropy": share}
    job = job_of(ids, model, losses=weights | {loss: 1.0})
    tokens = torch.from_numpy(ids.astype(np.int64))[:, :-1]
    with torch.no_grad():
        job.modules["jakiro"] = Right(job.model.get_decoder()(input_ids=tokens).last_hidden_state)
        logits = job.model(input_ids=tokens).logits[0]
    found = job.step(0)
    law = torch.distributions.Categorical(logits=logits[SAID - 1 + (ahead or 0)])
    assert found["jakiro_top1"] == 1
    wanted = 0.0 if ahead is None else share * law.entropy().item()
    assert found["jakiro_loss"] == pytest.approx(wanted, abs=1e-5)


def test_the_moving_average_is_what_is_kept():
    """Whose decay is less in the first steps: 2 / 11 in the second one."""
    job = job_of(np.random.default_rng(0).integers(4, 290, (1, 65)).astype(np.uint16), steps=20, average=0.2)
    wanted = None
    for index in range(3):
        job.step(index)
        now = {name: weight.detach().clone() for name, weight in job.modules["jakiro"].head.named_parameters()}
        wanted = {name: wanted[name].lerp(now[name], (0, 9 / 11, 0.8)[index]) for name in now} if wanted else now
    kept = dict(job.heads()["jakiro"].named_parameters())
    torch.testing.assert_close(kept, wanted)
    assert any((kept[name] - now[name]).abs().max() > 1e-4 for name in now)


def test_a_targets_loss_is_the_cross_entropy_of_the_next_token():
    """Of what is said, and by its weight of what is asked; padding has none."""
    ids, said = np.random.default_rng(0).integers(4, 290, (2, 33)).astype(np.uint16), np.zeros((2, 33), bool)
    said[0, 7:12], said[1, 20:29], ids[:, 29:] = True, True, 0
    stage = Stage(1, 64, 32, 2, 1, "all", (1, 1))
    job = StageJob(workers.start(), tiny_model(), stage, [Rows(ids, said)], [], False, recipe(prompt_weight=0.3))
    batch = Batch.of(ids, said, 0.3, torch.device("cpu"))
    with torch.no_grad():
        found = job._loss(batch.ids, batch.weight, batch.masks[0])
        logits = tiny_model()(input_ids=batch.ids[:, :-1]).logits
    each = F.cross_entropy(logits.flatten(0, 1), batch.ids[:, 1:].flatten(), reduction="none").view(2, 32)
    said, asked = torch.from_numpy(said[:, 1:]), torch.from_numpy(~said & (ids > 0))[:, 1:]
    torch.testing.assert_close(found, torch.stack([each[said].sum() + 0.3 * each[asked].sum(), each[said].sum()]))
    row = job.step(0)  # tells of the mean over the 5 and 9 tokens that are said, and of all 28 of either row
    assert row["loss"] == pytest.approx(each[said].mean().item()) and row["tokens"] == 2 * 28


@pytest.mark.parametrize("kind", ["head", "target"])
def test_a_run_ends_before_the_weights_of_a_gradient_that_is_no_number_are_kept(kind, tmp_path):
    """In its last step, whose loss is finite: the norm of the one before is in the CSV file, nothing of this one."""
    ids = np.random.default_rng(0).integers(4, 290, (1, 65)).astype(np.uint16)
    if kind == "head":
        job = job_of(ids, steps=2)
        module, name = job.modules["jakiro"], "jakiro_grad_norm"
    else:
        rows = [Rows(np.repeat(ids, 2, 0), np.ones((2, 65), bool))]
        job = StageJob(workers.start(), tiny_model(), Stage(1, 64, 64, 1, 1, "all", (1, 1)), rows, [], False, recipe())
        module, name = job.trained, "grad_norm"
    loop.run(job, tmp_path, stop_after=1)
    before = (tmp_path / "checkpoint.pt").read_bytes(), (tmp_path / "metrics.csv").read_text()
    assert float(next(csv.DictReader(before[1].splitlines()))[name]) > 0
    next(module.parameters()).register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(ValueError, match=f"^{name} is (nan|inf) in step 2"):
        loop.run(job, tmp_path)
    assert before == ((tmp_path / "checkpoint.pt").read_bytes(), (tmp_path / "metrics.csv").read_text())


@pytest.fixture
def gradients(monkeypatch):
    """Of a module, by name, as its optimizer gets them, but not clipped."""
    clipped = []

    def unclipped(_, most):
        clipped.append(most)
        return torch.tensor(2.5)

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", unclipped)
    monkeypatch.setattr(Optimizer, "step", lambda *_: None)
    yield lambda module: {name: weight.grad for name, weight in module.named_parameters() if weight.grad is not None}
    assert clipped == [1.0]


def test_a_step_of_a_target_has_the_gradient_of_its_whole_batch(gradients):
    """Of two passes of which one says more, with both losses against repetition."""
    rng = np.random.default_rng(0)
    ids, said = rng.integers(4, 24, (4, 33)).astype(np.uint16), np.zeros((4, 33), bool)
    said[:2, 5:], said[2:, 20:24], ids[3, 24:] = True, True, 0
    model = tiny_model()
    model.lm_head.weight.data = 0.1 * model.model.embed_tokens.weight.detach()  # which likes to say a token again
    stage = Stage(1, 128, 32, 2, 2, "all", (1, 1), unlikelihood=0.5, answers=12)
    job = StageJob(
        workers.start(), copy.deepcopy(model), stage, [Rows(ids, said)], [], False, recipe(prompt_weight=0.3)
    )
    found = job.step(0)
    assert [ids.shape for ids, *_ in job.passes] == [(2, 33)] * 2

    tokens = torch.from_numpy(ids.astype(np.int64))
    logits = model(input_ids=tokens[:, :-1]).logits
    each = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
    each = each + 0.5 * repeats.token_level(logits, logits.logsumexp(-1), tokens)
    weight = torch.where(torch.from_numpy(said[:, 1:]), 1.0, 0.3) * (tokens[:, 1:] > 0)
    asked = [*tokens[:2, :5].tolist(), *tokens[2:, :20].tolist()]
    own, again, answered = repeats.sequence_level(model, asked, 12)
    assert again > 0 and found["repeated"] == pytest.approx((again / answered).item())
    ((each * weight).sum() / weight.sum() + own / answered).backward()
    torch.testing.assert_close(gradients(job.trained), gradients(model))


def test_a_step_of_a_head_has_the_gradient_of_its_passes(gradients, monkeypatch):
    """The first reads what the head itself says, with noise; the second counts half."""
    ids, seen = np.random.default_rng(0).integers(4, 290, (1, 65)).astype(np.uint16), {}
    job = job_of(ids, kind="eagle2", at=slice(20, 40), passes=2, decay=0.5, own_features=1.0, noise=0.2)

    def watch(name, draw):
        monkeypatch.setattr(job, name, lambda *given: seen.setdefault(name, draw(*given)))

    watch("_noise", job._noise)
    watch("_positions", job._positions)
    head = copy.deepcopy(job.modules["eagle2"].head)
    found = job.step(0)
    (noise, _), (at, _) = seen["_noise"], seen["_positions"]
    assert 0.19 < noise.abs().max() <= 0.2 and noise.mean().abs() < 0.02
    assert {*at.tolist()} <= {*range(18, 38)} and len(at) == 24

    tokens, model = torch.from_numpy(ids.astype(np.int64))[:, :-1], job.model
    with torch.no_grad():
        features = model.model(input_ids=tokens).last_hidden_state
        embeddings, first = model.get_input_embeddings()(tokens)[:, 1:], features[:, :-1]
        wanted = features[0, 1:-1][at]
        own = torch.cat([first[:, :1], head(embeddings, first)[:, :-1]], dim=1)
    passes = []
    once = head(embeddings, own + noise, passes)
    twice = head(embeddings, torch.cat([first[:, :1], once[:, :-1]], dim=1), passes)
    losses = []
    for answer in (once[0, :-1][at], twice[0, :-1][at]):
        entropy = F.cross_entropy(model.lm_head(answer), model.lm_head(wanted).softmax(-1))
        losses.append(entropy + F.smooth_l1_loss(answer, wanted))
    loss = (losses[0] + 0.5 * losses[1]) / 1.5
    loss.backward()
    assert found["eagle2_loss"] == pytest.approx(loss.item())
    torch.testing.assert_close(gradients(job.modules["eagle2"].head), gradients(head))
