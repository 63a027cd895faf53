"""What a head is trained on: losses at positions of a text, against what the target says there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from jakiro.drafting.head import HeadOutput

Read = Callable[[Tensor], Tensor]  # what the target says of features: [..., h] -> [..., vocab]
TOP = 10  # tokens of the top_k loss, as published


@dataclass(frozen=True, slots=True)
class Losses:
    """Weights of what a head is trained on; entropies are against the target's distribution."""

    feature: float = 1.0  # smooth L1 between predicted and true features
    mixture: float = 1.0  # cross-entropy of what the predicted feature says; Jakiro: the experts' weighted sum L
    decoupled: float = 0.5  # Jakiro: cross-entropy of w0 p0 + w1 p1, the experts' own, as the gate mixes them
    # Jakiro: feature and cross-entropy of R, half as in haiduo/Jakiro, jakiro/train/main.py. At L's positions, so R
    # learns what follows an answer's end, too, which the release leaves out.
    contrast: float = 0.5
    contrast_entropy: float = 1.0  # Jakiro: of R's cross-entropy beside its feature, 0.1 there
    diversity: float = 0.0  # Jakiro: minus the Jensen-Shannon divergence of the experts' distributions
    top_k: float = 0.0  # cross-entropy over the target's TOP likeliest tokens alone (HASS, section 3.1)


class Wanted(NamedTuple):
    """What a head should say at k positions, all of which count unless `kept` says which do."""

    features: Tensor  # [k, h]
    law: Tensor  # [k, vocab], the target's distribution; 0 at positions that do not count
    best: Tensor  # [k], its likeliest token; -1 at those
    kept: Tensor | None  # [k] bool

    @classmethod
    def of(cls, read: Read, features: Tensor, kept: Tensor | None = None) -> Wanted:
        law = read(features).float().softmax(dim=-1)
        best = law.argmax(dim=-1)
        if kept is not None:
            law, best = law * kept[:, None], torch.where(kept, best, -1)
        return cls(features, law, best, kept)

    def total(self, values: Tensor) -> Tensor:
        """The sum of values [..., k, n] over the positions that count."""
        return values.sum() if self.kept is None else (values * self.kept[:, None]).sum()


def loss_of(
    out: HeadOutput, at: Tensor, read: Read, soon: Wanted, later: Wanted | None, losses: Losses
) -> tuple[Tensor, Tensor]:
    """Of one pass, summed over the positions that count; and at how many the likeliest token is the target's."""
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
    apart, entropy = _distance(contrast, later), _entropy(_logprobs(read, contrast), later.law)
    loss = loss + losses.contrast * (apart + losses.contrast_entropy * entropy)
    if losses.decoupled or losses.diversity:
        own = torch.stack([_logprobs(read, _take(expert, at)) for expert in out.experts])  # [N, k, vocab]
        gates = _take(out.gates, at).float()[:, : len(own)].log_softmax(dim=-1)
        loss = loss + losses.decoupled * _entropy((own + gates.T[..., None]).logsumexp(dim=0), soon.law)
        middle = own.logsumexp(dim=0) - math.log(len(own))
        loss = loss - losses.diversity * soon.total(own.exp() * (own - middle)) / len(own)
    return loss, agree


def own_loss(logits: Tensor, tokens: Tensor, soon: Wanted) -> tuple[Tensor, Tensor]:
    """Of one pass of a head with a vocabulary of its own, whose logits [k, n] are of the target's `tokens` [n]: as
    `loss_of`. A position counts by the probability that the target gives to these tokens together."""
    logprobs = logits.float().log_softmax(dim=-1)
    agree = (tokens[logprobs.argmax(dim=-1)] == soon.best).sum()
    return _entropy(logprobs, soon.law[:, tokens]), agree


def _logprobs(read: Read, features: Tensor) -> Tensor:
    return read(features).float().log_softmax(dim=-1)


def _distance(predicted: Tensor, wanted: Wanted) -> Tensor:
    apart = F.smooth_l1_loss(predicted.float(), wanted.features.float(), reduction="none")
    return wanted.total(apart.mean(dim=-1, keepdim=True))


def _entropy(logprobs: Tensor, law: Tensor) -> Tensor:
    return -(law * logprobs).sum()


def _take(answers: Tensor, at: Tensor) -> Tensor:
    """Answers [b, s, h] of a head at flat indices into [b, s - 1]: [k, h]. The last one has nothing to be held to."""
    return answers[:, :-1].flatten(0, 1)[at]
