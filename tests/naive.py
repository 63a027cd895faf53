"""Drafting done the slow way, to compare with: whole causal runs of the trainable head, plain softmax, Python lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jakiro.drafting.config import HeadConfig
from jakiro.drafting.head import EagleHead, Head, JakiroHead
from jakiro.noise import gumbel
from jakiro.target import Target
from jakiro.tree import DraftTree
from jakiro.verify import GREEDY, Sampling

CONFIGS = {
    "plain": HeadConfig(hidden_size=32, intermediate_size=48, num_attention_heads=4, vocab_size=300),
    "grouped": HeadConfig(
        hidden_size=32,
        intermediate_size=40,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=10,
        vocab_size=300,
        rope_theta=100.0,
        rope_type="linear",
        rope_factor=2.0,
        bias=False,
        qkv_bias=True,
        expert_intermediate_size=24,
    ),
    "many": HeadConfig(
        hidden_size=32,
        intermediate_size=48,
        num_attention_heads=4,
        vocab_size=300,
        num_local_experts=4,
        expert_intermediate_size=16,
    ),
}


def strong(cls: type[Head], config: HeadConfig = CONFIGS["plain"], seed: int = 1) -> Head:
    """A head whose weights are large enough for mistakes to show, and its answers flat enough for rows to mix."""
    torch.manual_seed(seed)
    head = cls(config).eval().requires_grad_(False)
    for weight in head.parameters():
        weight.copy_(torch.randn_like(weight) * (weight.shape[-1] ** -0.5 if weight.dim() > 1 else 1.0))
    return head


@dataclass(frozen=True)
class Answer:
    """What the head says after a path: features [h] and the draft's log-probabilities [vocab]."""

    features: Tensor
    logprobs: Tensor
    experts: Tensor | None = None  # [N, vocab]
    gates: Tensor | None = None  # [2 N], raw
    ahead: Tensor | None = None  # [vocab], by R


class Oracle:
    """Answers for any path below the root of `tokens`, each by one causal run over the text and the path."""

    def __init__(
        self,
        head: Head,
        target: Target,
        tokens: Sequence[int],
        decoupled: bool = False,
        temperature: float = 1.0,
        coupled: Sampling = GREEDY,
        expert: str = "all",
    ) -> None:
        """`coupled`: what the target samples with, where drafts share its noise. `expert`: which drafts alone."""
        self.head, self.target, self.decoupled, self.temperature = head, target, decoupled, temperature
        self.coupled, self.expert = coupled, expert
        with torch.no_grad():
            output = target.model(torch.tensor([tokens[:-1]]), output_hidden_states=True)
        self.features, self.tokens = output.hidden_states[-1][0], list(tokens[1:])
        self._seen: dict[tuple[int, ...], Answer] = {}

    @torch.no_grad()
    def __call__(self, path: tuple[int, ...]) -> Answer:
        if path not in self._seen:
            fed = [self(path[:end]).features[None] for end in range(len(path))]
            embeddings = self.target.embed(torch.tensor([self.tokens + list(path)]))
            position = 1 + len(self.tokens) + len(path)  # of the token that is asked for
            self._seen[path] = self._read(self.head(embeddings, torch.cat([self.features, *fed])[None]), position)
        return self._seen[path]

    def _read(self, output, position: int) -> Answer:
        if isinstance(self.head, EagleHead):
            return Answer(output[0, -1], self._log(output[0, -1], position))
        mixed, contrast, gates = output.mixed[0, -1], output.contrast[0, -1], output.gates[0, -1]
        if self.expert != "all":
            mixed = output.experts[int(self.expert), 0, -1]
        experts = self._log(output.experts[:, 0, -1], position)
        logprobs = self._log(mixed, position)
        if self.decoupled:
            logprobs = (gates[: len(experts)].softmax(0)[:, None] * experts.exp()).sum(0).log()
        return Answer(mixed, logprobs, experts, gates, self._log(contrast, position + 1))

    def _log(self, features: Tensor, position: int) -> Tensor:
        logits = perturbed(self.target.logits(features), position, self.coupled)
        return (logits / self.temperature).softmax(-1).log()


def perturbed(logits: Tensor, position: int, sampling: Sampling, ids: Sequence[int] | None = None) -> Tensor:
    """As the target's are before it picks for that position. `ids`: the target's id of each of the logits [..., n]."""
    if sampling.temperature == 0:
        return logits
    ids = range(logits.shape[-1]) if ids is None else ids
    noise = gumbel(sampling.seed, [position], max(ids) + 1)[0, list(ids)]
    return (logits.double() / sampling.temperature + noise).float()


def draft(oracle: Oracle, root: int, settings) -> DraftTree:
    """Expand and rerank with sorted lists; the last level by the released indexing where `aligned` is off."""
    contrastive = getattr(settings, "contrastive", False)
    pool: list[tuple[float, tuple[int, ...]]] = []
    before, frontier = [], [(0.0, ())]
    for level in range(settings.depth):
        found = []
        for row, (score, path) in enumerate(frontier):
            if contrastive and level == settings.depth - 1:
                logprobs = oracle(path[:-1] if settings.aligned else before[row][1]).ahead
                candidates = logprobs.topk(settings.top_k).indices.tolist()
            else:
                logprobs = oracle(path).logprobs
                candidates = _candidates(oracle(path), settings.top_k, oracle.decoupled)
            found += [(score + float(logprobs[token]), (*path, token)) for token in candidates]
        pool += found
        before, frontier = frontier, sorted(found, key=lambda node: -node[0])[: settings.top_k]
    best = sorted(range(len(pool)), key=lambda index: (-pool[index][0], index))[: settings.total_tokens - 1]
    kept = [pool[index] for index in sorted(best)]
    at = {(): 0} | {path: node for node, (_, path) in enumerate(kept, start=1)}
    return DraftTree(
        [root, *(path[-1] for _, path in kept)],
        [-1, *(at[path[:-1]] for _, path in kept)],
        [0.0, *(score for score, _ in kept)],
    )


def _candidates(answer: Answer, width: int, decoupled: bool) -> list[int]:
    if not decoupled:
        return answer.logprobs.topk(width).indices.tolist()
    union = {token for one in answer.experts for token in one.topk(width).indices.tolist()}
    return sorted(union, key=lambda token: -float(answer.logprobs[token]))[:width]


def head_for(name: str, shape: str) -> Head:
    """A strong head of a method on one of CONFIGS."""
    return strong({"eagle2": EagleHead, "jakiro": JakiroHead}[name], CONFIGS[shape])
