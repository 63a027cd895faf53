"""Draft heads on a target's features. Several heads can be trained side by side and share the target's pass.

The head reads (embedding of x_{t+1}, feature h_t) and predicts h_{t+1}, as in EAGLE (arXiv 2401.15077, section 3.2);
Jakiro's contrastive feature predicts h_{t+2} (released code, half the weight). Two things differ from the published
recipes: the cross-entropy weighs as much as the feature loss, and some input features are the head's own predictions
(scheduled sampling, arXiv 1506.03099), since that is what it reads below the first level of a draft tree.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from jakiro.drafting.head import EagleHead, HeadConfig, JakiroHead
from jakiro.drafting.weights import save_head
from jakiro.training import answers, loop
from jakiro.training.answers import Answers
from jakiro.training.data import Source, draw, fill, pack
from jakiro.training.optim import Optimizer, warm_up

KINDS = {"eagle2": EagleHead, "jakiro": JakiroHead}


@dataclass(frozen=True, slots=True)
class HeadRecipe:
    """Everything a run of head training is made of, read from JSON."""

    steps: int
    row: int  # tokens in a row
    rows: int  # rows in a step
    mix: list[Source]
    heads: dict[str, dict]  # kind -> fields of HeadConfig that the target does not give
    scored: int  # positions of a step at which logits are compared, drawn among what the assistant says
    answers: Answers | None = None  # train on the target's own answers to the mix's prompts, instead of on its text
    epochs: int = 1  # times that each row is seen; the target's pass over it is made once and remembered
    feature_weight: float = 1.0
    contrast_weight: float = 0.5  # released code, jakiro/train/main.py
    decoupled_weight: float = 0.5  # loss of the gate-weighted mixture of the experts' own distributions
    noise: float = 0.1  # half-width of the uniform noise on input features
    own_features: float = 0.4  # share of input features that are the head's own predictions
    rate: float = 0.5  # of the optimizer's base learning rates
    seed: int = 0

    @classmethod
    def read(cls, path: Path) -> HeadRecipe:
        """Raises OSError, or TypeError naming the field that is unknown or missing."""
        data = json.loads(path.read_text())
        mix = [Source(**{k: tuple(v) if isinstance(v, list) else v for k, v in s.items()}) for s in data.pop("mix")]
        if how := data.pop("answers", None):
            data["answers"] = Answers(**{**how, "temperatures": tuple(how["temperatures"])})
        return cls(mix=mix, **data)


def train_heads(
    kinds: list[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: HeadRecipe,
    data: Path,
    run: Path,
    out: dict[str, Path],
    compiled: bool = True,
) -> None:
    """Train the heads named in `kinds` on `model` (the target) and write one head folder for each into `out`."""
    shape = model.config.get_text_config()
    heads = {}
    for kind in kinds:
        torch.manual_seed(recipe.seed)
        config = HeadConfig(
            hidden_size=shape.hidden_size,
            vocab_size=shape.vocab_size,
            max_position_embeddings=shape.max_position_embeddings,
            **recipe.heads[kind],
        )
        heads[kind] = KINDS[kind](config).to(model.device).train()
    job = HeadJob(model, heads, recipe, _rows(recipe, model, tokenizer, data, run), compiled)
    loop.run(job, run)
    for kind, head in heads.items():
        save_head(out[kind], head.cpu())


class HeadJob:
    """Steps of head training as the loop wants them."""

    def __init__(
        self,
        model: PreTrainedModel,
        heads: dict[str, nn.Module],
        recipe: HeadRecipe,
        rows: tuple[np.ndarray, np.ndarray],
        compiled: bool,
    ) -> None:
        self.recipe, self.heads, self.device = recipe, heads, model.device
        self.ids, self.said = rows
        self.steps = recipe.steps
        self.batches = len(self.ids) // recipe.rows
        self.known: dict[int, Tensor] = {}  # batch -> features of its rows, in host memory
        self.optimizers = {kind: Optimizer(head) for kind, head in heads.items()}
        self.model = model.to(torch.bfloat16).eval().requires_grad_(False)
        wrap = torch.compile if compiled else (lambda function: function)
        self.features = wrap(self._features)
        self.losses = {
            kind: wrap(_eagle_loss if isinstance(head, EagleHead) else _jakiro_loss) for kind, head in heads.items()
        }

    def states(self) -> dict[str, object]:
        return {**self.heads, **{f"{kind} optimizer": optimizer for kind, optimizer in self.optimizers.items()}}

    def step(self, index: int) -> dict[str, float]:
        torch.manual_seed(self.recipe.seed * 1_000_003 + index)
        batch = index % self.batches
        chosen = slice(batch * self.recipe.rows, (batch + 1) * self.recipe.rows)
        ids = torch.from_numpy(self.ids[chosen].astype(np.int64)).to(self.device)
        said = torch.from_numpy(self.said[chosen]).to(self.device)
        with torch.no_grad():
            if batch not in self.known:
                self.known[batch] = self.features(ids[:, :-1]).cpu()
            features = self.known[batch].to(self.device)
            embeddings = self.model.get_input_embeddings()(ids[:, :-1])
        at = self._positions(said)
        factor = self.recipe.rate * warm_up(index, min(50, self.steps // 8)) * (1.0 - 0.95 * index / self.steps)
        row = {}
        for kind, head in self.heads.items():
            loss, agreement = self.losses[kind](
                head, self.model.get_output_embeddings(), features, embeddings, at, self.recipe
            )
            loss.backward()
            nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            self.optimizers[kind].step(factor)
            row |= {f"{kind}_loss": loss.item(), f"{kind}_top1": agreement.item()}
        return {**row, "rate": factor}

    def _features(self, ids: Tensor) -> Tensor:
        """Features h [b, s, h] of the target after each token."""
        return self.model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state

    def _positions(self, said: Tensor) -> Tensor:
        """[scored] flat indices t into [rows, row - 2] where token t + 2 is the assistant's, drawn with replacement."""
        return said[:, 2:-1].float().flatten().multinomial(self.recipe.scored, replacement=True)


def _eagle_loss(
    head, lm_head, features: Tensor, embeddings: Tensor, at: Tensor, recipe: HeadRecipe
) -> tuple[Tensor, Tensor]:
    with torch.autocast(features.device.type, dtype=torch.bfloat16):
        mixed = head(embeddings[:, 1:], _inputs(lambda e, f: head(e, f), features, embeddings, recipe))
        loss, agreement = _head_loss(lm_head, mixed[:, :-1], features[:, 1:-1], at, recipe)
    return loss, agreement


def _jakiro_loss(
    head, lm_head, features: Tensor, embeddings: Tensor, at: Tensor, recipe: HeadRecipe
) -> tuple[Tensor, Tensor]:
    with torch.autocast(features.device.type, dtype=torch.bfloat16):
        out = head(embeddings[:, 1:], _inputs(lambda e, f: head(e, f).mixed, features, embeddings, recipe))
        loss, agreement = _head_loss(lm_head, out.mixed[:, :-1], features[:, 1:-1], at, recipe)
        contrast, _ = _head_loss(lm_head, out.contrast[:, :-1], features[:, 2:], at, recipe)
        truth = lm_head(_take(features[:, 1:-1], at)).float().softmax(dim=-1)
        gates = _take(out.gates[:, :-1], at).float()[:, :2].log_softmax(dim=-1)
        own = [lm_head(_take(expert[:, :-1], at)).float().log_softmax(dim=-1) for expert in out.experts]
        merged = torch.logaddexp(gates[:, :1] + own[0], gates[:, 1:] + own[1])
        decoupled = -(truth * merged).sum(dim=-1).mean()
    return loss + recipe.contrast_weight * contrast + recipe.decoupled_weight * decoupled, agreement


def _inputs(predict, features: Tensor, embeddings: Tensor, recipe: HeadRecipe) -> Tensor:
    """Input features [b, s - 1, h]: the target's with noise, here and there replaced by the head's own prediction."""
    true = features[:, :-1]
    with torch.no_grad():
        guess = predict(embeddings[:, 1:], true)
    own = torch.cat([true[:, :1], guess[:, :-1]], dim=1)  # own[t] predicts h_t from what came before
    swap = torch.rand(true.shape[:2], device=true.device)[..., None] < recipe.own_features
    noise = (torch.rand_like(true) - 0.5) * (2 * recipe.noise)
    return torch.where(swap, own.to(true.dtype), true + noise)


def _head_loss(lm_head, predicted: Tensor, wanted: Tensor, at: Tensor, recipe: HeadRecipe) -> tuple[Tensor, Tensor]:
    """Smooth L1 on features plus cross-entropy against the target's distribution, and how often the argmax agrees."""
    predicted, wanted = _take(predicted, at), _take(wanted, at)
    distance = F.smooth_l1_loss(predicted.float(), wanted.float())
    logits, truth = lm_head(predicted).float(), lm_head(wanted).float()
    entropy = -(truth.softmax(dim=-1) * logits.log_softmax(dim=-1)).sum(dim=-1).mean()
    agreement = (logits.argmax(dim=-1) == truth.argmax(dim=-1)).float().mean()
    return recipe.feature_weight * distance + entropy, agreement


def _take(x: Tensor, at: Tensor) -> Tensor:  # [b, s, h], [k] -> [k, h]
    return x.flatten(0, 1)[at]


def _rows(recipe: HeadRecipe, model, tokenizer, data: Path, run: Path) -> tuple[np.ndarray, np.ndarray]:
    cached = run / "rows.npz"
    if not cached.exists():
        run.mkdir(parents=True, exist_ok=True)
        (run / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1) + "\n")
        needed = int(recipe.steps / recipe.epochs * recipe.rows * recipe.row)
        seed, width = recipe.seed + 77, recipe.row + 1
        if recipe.answers:
            prompts = draw(recipe.mix, data, tokenizer, width, seed)
            own = answers.write(model, prompts, recipe.answers, needed, width, run / "answers.jsonl", seed)
            ids, said = fill(own, recipe.row, seed)
        else:
            ids, said = pack(recipe.mix, data, tokenizer, needed, recipe.row, seed)
        np.savez(cached, ids=ids, said=said)
    loaded = np.load(cached)
    return loaded["ids"], loaded["said"]
