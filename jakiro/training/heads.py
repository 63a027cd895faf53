"""Draft heads on a target's features. Several heads can be trained side by side and share the target's pass.

The head reads (embedding of x_{t+1}, feature h_t) and predicts h_{t+1}, as in EAGLE (arXiv 2401.15077, section 3.2);
Jakiro's contrastive feature predicts h_{t+2} (released code, half the weight). Below the first level of a draft tree a
head reads its own predictions, so it is trained on them too, in one of two ways: `own_features` puts them here and
there among the target's (scheduled sampling, arXiv 1506.03099); `passes` reads them level after level, each seeing what
it would see in a draft (HASS, arXiv 2408.15766, section 3.2; EAGLE-3's training-time test, arXiv 2503.01840).
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from jakiro.drafting.head import EagleHead, Head, HeadConfig, HeadOutput, JakiroHead
from jakiro.drafting.weights import save_head
from jakiro.training import answers, loop, workers
from jakiro.training.answers import Answers
from jakiro.training.data import Document, Source, draw, fill, pack
from jakiro.training.optim import Optimizer, warm_up
from jakiro.training.trial import Trial, Trials

KINDS: dict[str, type[Head]] = {"eagle2": EagleHead, "jakiro": JakiroHead}
TOP = 10  # tokens of the top_k loss, as published


@dataclass(frozen=True, slots=True)
class Losses:
    """Weights of what a head is trained on; entropies are against the target's distribution."""

    feature: float = 1.0  # smooth L1 between predicted and true features
    mixture: float = 1.0  # cross-entropy of what the predicted feature says; Jakiro: the experts' weighted sum L
    decoupled: float = (
        0.5  # Jakiro: cross-entropy of w0 p0 + w1 p1, the experts' own distributions as the gate mixes them
    )
    contrast: float = 0.5  # Jakiro: feature and cross-entropy of R, half as in the released code, jakiro/train/main.py
    diversity: float = 0.0  # Jakiro: minus the Jensen-Shannon divergence of the experts' distributions
    top_k: float = 0.0  # cross-entropy over the target's TOP likeliest tokens alone (HASS, section 3.1)


@dataclass(frozen=True, slots=True)
class Plan:
    """One head of a recipe."""

    kind: str
    shape: dict  # fields of HeadConfig that differ from the target's
    losses: Losses


@dataclass(frozen=True, slots=True)
class HeadRecipe:
    """Everything a run of head training is made of, read from JSON."""

    steps: int
    row: int  # tokens in a row
    rows: int  # rows in a step
    mix: list[Source]
    heads: dict[str, Plan]  # name -> head; a name that is no kind needs `kind`
    scored: int  # positions of a step at which logits are compared, drawn among what the assistant says
    answers: Answers | None = None  # train on the target's own answers to the mix's prompts, instead of on its text
    epochs: int = 1  # times that each row is seen
    remember: float = 8.0  # GiB of host memory for the target's features; rows beyond them are read anew every time
    passes: int = 1  # levels of a draft that are unrolled
    decay: float = 1.0  # weight of a pass's losses over those of the pass before
    noise: float = 0.1  # half-width of the uniform noise on input features
    own_features: float = 0.0  # share of the first pass's input features that are the head's own predictions
    average: float = 0.0  # decay of the moving average of the weights that is kept; 0 keeps the last ones
    rate: float = 0.5  # of the optimizer's base learning rates
    trial: Trial | None = None  # decode held-out prompts now and then
    seed: int = 0

    @classmethod
    def read(cls, path: Path) -> HeadRecipe:
        """Raises OSError, or TypeError naming the field that is unknown or missing."""
        return cls.of(json.loads(path.read_text()))

    @classmethod
    def of(cls, data: dict) -> HeadRecipe:
        """From JSON's types. `losses` of the recipe hold for every head, and a head's own come on top."""
        data = dict(data)
        mix = [Source(**{k: tuple(v) if isinstance(v, list) else v for k, v in s.items()}) for s in data.pop("mix", [])]
        common = data.pop("losses", {})
        heads = {name: _plan(name, dict(one), common) for name, one in data.pop("heads").items()}
        if how := data.pop("answers", None):
            data["answers"] = Answers(**{**how, "temperatures": tuple(how["temperatures"])})
        if how := data.pop("trial", None):
            data["trial"] = Trial(**how)
        return cls(mix=mix, heads=heads, **data)


def _plan(name: str, one: dict, common: dict) -> Plan:
    kind, losses = one.pop("kind", name), Losses(**{**common, **one.pop("losses", {})})
    if kind not in KINDS:
        raise ValueError(f"head {name!r} of the recipe is of kind {kind!r}; known: {', '.join(KINDS)}")
    return Plan(kind, one, losses)


def train_heads(
    names: list[str],
    accelerator: Accelerator,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: HeadRecipe,
    data: Path,
    run: Path,
    out: dict[str, Path],
    compiled: bool = True,
    shard: bool = False,
) -> None:
    """Train the heads named in `names` on `model` (the target) and write one head folder for each into `out`.

    The recipe is written beside the weights. Raises ValueError where the recipe has no such head.
    """
    if unknown := [name for name in names if name not in recipe.heads]:
        raise ValueError(f"the recipe has no head {unknown[0]!r}; it has {', '.join(recipe.heads)}")
    if not recipe.mix:
        raise ValueError("the recipe names no texts: give --data one JSONL file, or the name of a dataset")
    recipe = replace(recipe, heads={name: recipe.heads[name] for name in names})
    heads = {}
    for name, plan in recipe.heads.items():
        torch.manual_seed(recipe.seed)
        heads[name] = KINDS[plan.kind](_shape(model, plan.shape))
    rows = rows_of(accelerator, recipe, model, tokenizer, data, run)
    model = model.to(accelerator.device, torch.bfloat16).eval().requires_grad_(False)
    trials = Trials.of(model, tokenizer, recipe.trial, recipe.mix, data, run, recipe.seed) if recipe.trial else None
    job = HeadJob(accelerator, model, heads, recipe, rows, compiled, shard, trials)
    loop.run(job, run, accelerator.is_main_process)
    for name, head in job.heads().items():
        save_head(out[name], head)
        (out[name] / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1) + "\n")


def _shape(model: PreTrainedModel, changes: dict) -> HeadConfig:
    """The shape of one of the target's own layers where the recipe names no other; rope scaling is left out."""
    target = model.config.get_text_config().to_dict()
    names = {one.name for one in fields(HeadConfig)} - {"num_local_experts", "bias"}
    taken = {name: target[name] for name in names if target.get(name) is not None}
    theta = (target.get("rope_parameters") or {}).get("rope_theta", target.get("rope_theta"))
    return HeadConfig(**{**taken, **({"rope_theta": theta} if theta else {}), **changes})


class Unrolled(nn.Module):
    """A head that drafts along a text: DDP and FSDP see one call a step."""

    def __init__(self, head: Head, recipe: HeadRecipe) -> None:
        super().__init__()
        self.head, self.recipe = head, recipe

    def forward(self, embeddings: Tensor, features: Tensor, noise: Tensor, own: Tensor) -> list[HeadOutput]:
        """What each pass answers, from embeddings of x_{t+1} and features h_t, noise on them, all [b, s, h], and
        where the first pass reads the head's own predictions, [b, s] bool."""
        read = features
        if self.recipe.own_features:
            with torch.no_grad():
                read = torch.where(own[..., None], _next(features, self._head(embeddings, features)), features)
        found = [self._head(embeddings, read + noise, passes := [])]
        for _ in range(self.recipe.passes - 1):
            found.append(self._head(embeddings, _next(features, found[-1]), passes))
        return found

    def _head(self, embeddings: Tensor, features: Tensor, passes: list | None = None) -> HeadOutput:
        out = self.head(embeddings, features, passes)
        return out if isinstance(out, HeadOutput) else HeadOutput(out, None, None, None)


def _next(features: Tensor, out: HeadOutput) -> Tensor:
    """What the next level reads at each position: the answer at the one before it."""
    return torch.cat([features[:, :1], out.mixed[:, :-1].to(features.dtype)], dim=1)


class HeadJob:
    """Steps of head training as the loop wants them."""

    def __init__(
        self,
        accelerator: Accelerator,
        model: PreTrainedModel,
        heads: dict[str, Head],
        recipe: HeadRecipe,
        rows: tuple[np.ndarray, np.ndarray],
        compiled: bool = True,
        shard: bool = False,
        trials: Trials | None = None,
    ) -> None:
        self.accelerator, self.recipe, self.device, self.trials = accelerator, recipe, accelerator.device, trials
        self.share = workers.share(accelerator, recipe.rows)
        self.ids, self.said = rows
        self.steps = recipe.steps
        self.batches = len(self.ids) // recipe.rows
        self.known: dict[int, Tensor] = {}  # batch -> features of its rows, in host memory
        self.model = model
        self.modules = {name: workers.prepare(accelerator, Unrolled(one, recipe), shard) for name, one in heads.items()}
        self.optimizers = {name: Optimizer(workers.bare(module)) for name, module in self.modules.items()}
        self.averages = {name: self._average(module) for name, module in self.modules.items() if recipe.average}
        self.loss = torch.compile(self._loss) if compiled else self._loss

    def states(self) -> dict[str, object]:
        found: dict[str, object] = {f"{name} average": average for name, average in self.averages.items()}
        for name, module in self.modules.items():
            found[name], found[f"{name} optimizer"] = workers.states(module, self.optimizers[name])
        return found

    def heads(self) -> dict[str, Head]:
        """Copies of the heads as they are, on the CPU. All processes must ask, the main one gets them."""
        found = {}
        for name, module in self.modules.items():
            kept = self.averages[name].module if name in self.averages else module
            states = {key.removeprefix("head."): value for key, value in workers.parameters(kept).items()}
            if not self.accelerator.is_main_process:
                continue
            head = workers.bare(module).head
            found[name] = type(head)(head.config)
            found[name].load_state_dict(states)
        return found

    def step(self, index: int) -> dict[str, float]:
        batch = index % self.batches
        chosen = slice(batch * self.recipe.rows, (batch + 1) * self.recipe.rows)
        torch.manual_seed(self.recipe.seed * 1_000_003 + index)
        at = self._positions(torch.from_numpy(self.said[chosen]))
        ids = torch.from_numpy(self.ids[chosen][self.share].astype(np.int64)).to(self.device)
        with torch.no_grad():
            features = self._features(batch, ids[:, :-1])
            embeddings = self.model.get_input_embeddings()(ids[:, :-1])
        given = embeddings[:, 1:], features[:, :-1], *self._noise(features[:, :-1])
        factor = self.recipe.rate * warm_up(index, min(50, self.steps // 8)) * (1.0 - 0.95 * index / self.steps)
        row = {}
        for name, module in self.modules.items():
            sums = self.loss(name, given, features, at)
            (sums[0] * (self.accelerator.num_processes / self.recipe.scored)).backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            self.optimizers[name].step(factor)
            if name in self.averages:
                self.averages[name].update_parameters(workers.bare(module))
            means = workers.total(self.accelerator, sums / self.recipe.scored)
            row |= dict(zip((f"{name}_loss", f"{name}_top1", f"{name}_top1_last"), means, strict=True))
        if self.trials and self.trials.due(index + 1, self.steps):
            heads = {name: (self.recipe.heads[name].kind, head) for name, head in self.heads().items()}
            if heads:
                self.trials.run(index + 1, heads)
        return {**row, "rate": factor}

    def _features(self, batch: int, ids: Tensor) -> Tensor:
        """Of the target after each token, [b, s, h]. Computed on the fly, remembered if the rows come again."""
        if batch in self.known:
            return self.known[batch].to(self.device)
        features = self.model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        if self.recipe.epochs > 1 and len(self.known) * features.nbytes < self.recipe.remember * 2**30:
            self.known[batch] = features.cpu()
        return features

    def _average(self, module: nn.Module) -> AveragedModel:
        if isinstance(module, workers.FSDPModule):
            raise ValueError("a moving average of sharded heads is not kept: set `average` to 0, or do not shard")
        return AveragedModel(workers.bare(module), multi_avg_fn=get_ema_multi_avg_fn(self.recipe.average))

    def _positions(self, said: Tensor) -> Tensor:
        """Flat indices t into this process's [rows, row - 2] where token t + 2 is the assistant's.

        `scored` of them are drawn with replacement from all processes' rows.
        """
        at = said[:, 2:-1].float().flatten().multinomial(self.recipe.scored, replacement=True)
        width = said.shape[1] - 3
        mine = (at >= self.share.start * width) & (at < self.share.stop * width)
        return (at[mine] - self.share.start * width).to(self.device)

    def _noise(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Noise [b, s, h] for this process's features, and where it reads own ones, [b, s]; drawn for all rows."""
        shape = (self.recipe.rows, *features.shape[1:])
        noise = (torch.rand(shape, device=self.device)[self.share] - 0.5) * (2 * self.recipe.noise)
        own = torch.rand(shape[:2], device=self.device)[self.share] < self.recipe.own_features
        return noise.to(features.dtype), own

    def _loss(self, name: str, given: tuple[Tensor, ...], features: Tensor, at: Tensor) -> Tensor:
        """[3]: summed over the positions, the loss, and whether the argmax agrees in the first and in the last pass."""
        read, losses = self.model.get_output_embeddings(), self.recipe.heads[name].losses
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            found = self.modules[name](*given)
            soon = Wanted.of(read, features[:, 1:-1].flatten(0, 1)[at])
            ahead = found[0].contrast is not None
            later = Wanted.of(read, features[:, 2:].flatten(0, 1)[at]) if ahead else None
            parts = [loss_of(out, at, read, soon, later, losses) for out in found]
        weights = [self.recipe.decay**level for level in range(len(found))]
        loss = sum(weight * part for weight, (part, _) in zip(weights, parts, strict=True)) / sum(weights)
        return torch.stack([loss, parts[0][1].float(), parts[-1][1].float()])


class Wanted(NamedTuple):
    """What a head should say at k positions."""

    features: Tensor  # [k, h]
    law: Tensor  # [k, vocab], the target's distribution
    best: Tensor  # [k], its likeliest token

    @classmethod
    def of(cls, read: nn.Module, features: Tensor) -> Wanted:
        law = read(features).float().softmax(dim=-1)
        return cls(features, law, law.argmax(dim=-1))


def loss_of(
    out: HeadOutput, at: Tensor, read: nn.Module, soon: Wanted, later: Wanted | None, losses: Losses
) -> tuple[Tensor, Tensor]:
    """Of one pass, summed over the positions; and at how many of them the likeliest token is the target's."""
    mixed = _take(out.mixed, at)
    logprobs = _logprobs(read, mixed)
    agree = (logprobs.argmax(dim=-1) == soon.best).sum()
    loss = losses.feature * _distance(mixed, soon) + losses.mixture * _entropy(logprobs, soon.law)
    if losses.top_k:
        likely, tokens = soon.law.topk(TOP)
        loss = loss - losses.top_k * (likely * logprobs.gather(-1, tokens)).sum()
    if later is None:
        return loss, agree
    contrast = _take(out.contrast, at)
    loss = loss + losses.contrast * (_distance(contrast, later) + _entropy(_logprobs(read, contrast), later.law))
    if losses.decoupled or losses.diversity:
        own = torch.stack([_logprobs(read, _take(expert, at)) for expert in out.experts])  # [N, k, vocab]
        gates = _take(out.gates, at).float()[:, : len(own)].log_softmax(dim=-1)
        loss = loss + losses.decoupled * _entropy((own + gates.T[..., None]).logsumexp(dim=0), soon.law)
        middle = own.logsumexp(dim=0) - math.log(len(own))
        loss = loss - losses.diversity * (own.exp() * (own - middle)).sum() / len(own)
    return loss, agree


def _logprobs(read: nn.Module, features: Tensor) -> Tensor:
    return read(features).float().log_softmax(dim=-1)


def _distance(predicted: Tensor, wanted: Wanted) -> Tensor:
    return F.smooth_l1_loss(predicted.float(), wanted.features.float(), reduction="none").mean(dim=-1).sum()


def _entropy(logprobs: Tensor, law: Tensor) -> Tensor:
    return -(law * logprobs).sum()


def _take(answers: Tensor, at: Tensor) -> Tensor:
    """Answers [b, s, h] of a head at flat indices into [b, s - 1]: [k, h]. The last one has nothing to be held to."""
    return answers[:, :-1].flatten(0, 1)[at]


def rows_of(
    accelerator: Accelerator, recipe: HeadRecipe, model: PreTrainedModel, tokenizer, data: Path, run: Path
) -> tuple[np.ndarray, np.ndarray]:
    """The rows to train on, made where `run` does not hold them yet: the mix's text, or the target's own answers."""
    run.mkdir(parents=True, exist_ok=True)
    cached, seed = run / "rows.npz", recipe.seed + 77
    missing = not cached.exists()
    accelerator.wait_for_everyone()  # all have looked before one writes
    if missing and recipe.answers:
        own = answer(accelerator, recipe, model, tokenizer, data, run / "answers.jsonl")
    if missing and accelerator.is_main_process:
        ids, said = (
            fill(own, recipe.row, seed)
            if recipe.answers
            else pack(recipe.mix, data, tokenizer, _needed(recipe), recipe.row, seed)
        )
        np.savez(cached, ids=ids, said=said)
    accelerator.wait_for_everyone()
    loaded = np.load(cached)
    return loaded["ids"], loaded["said"]


def answer(
    accelerator: Accelerator, recipe: HeadRecipe, model: PreTrainedModel, tokenizer, data: Path, file: Path
) -> list[Document]:
    """The target's own answers, as the recipe asks for; `file` is gone on with. Raises ValueError if none are asked."""
    if not recipe.answers:
        raise ValueError("the recipe says nothing of `answers`: how many new tokens, batch size and temperatures")
    seed, width = recipe.seed + 77, recipe.row + 1
    prompts = draw(recipe.mix, data, tokenizer, width, seed)
    model = model.to(accelerator.device)
    return answers.write(accelerator, model, prompts, recipe.answers, _needed(recipe), width, file, seed)


def _needed(recipe: HeadRecipe) -> int:
    return int(recipe.steps / recipe.epochs * recipe.rows * recipe.row)
