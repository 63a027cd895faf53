"""The steps of one stage of target training."""

from __future__ import annotations

import numpy as np
import torch
from accelerate import Accelerator
from transformers import LlamaForCausalLM

from jakiro.training import repeats, workers
from jakiro.training.optim import Optimizer, warm_up
from jakiro.training.target_recipe import Recipe, Stage

ANSWERED = 24  # prompts of a step that the model answers itself, where a stage asks for answers


class StageJob:
    """One stage as the loop wants it."""

    def __init__(
        self,
        accelerator: Accelerator,
        model: LlamaForCausalLM,
        stage: Stage,
        ids: np.ndarray,
        said: np.ndarray,
        compiled: bool,
        recipe: Recipe,
        shard: bool = False,
    ) -> None:
        if shard and stage.answers:
            raise ValueError("a stage with own answers cannot be sharded: set its `answers` to 0, or do not shard")
        self.accelerator, self.stage, self.prompt_weight = accelerator, stage, recipe.prompt_weight
        self.trained = workers.prepare(accelerator, model, shard)
        self.share = workers.share(accelerator, stage.rows)
        self.ids, self.said = ids, said
        self.optimizer = Optimizer(workers.bare(self.trained))
        self.per_step = stage.rows * stage.passes
        self.steps = len(ids) // self.per_step
        self.loss = torch.compile(self._loss) if compiled else self._loss

    def states(self) -> dict[str, object]:
        return dict(zip(("model", "optimizer"), workers.states(self.trained, self.optimizer), strict=True))

    def step(self, index: int) -> dict[str, float]:
        chosen = slice(index * self.per_step, (index + 1) * self.per_step)
        ids = torch.from_numpy(self.ids[chosen].astype(np.int64)).to(self.accelerator.device)
        said = torch.from_numpy(self.said[chosen]).to(self.accelerator.device)[:, 1:]
        real = ids[:, 1:] != 0
        weight = torch.where(said, 1.0, self.prompt_weight) * real
        scale, answer = self.accelerator.num_processes / weight.sum(), 0.0
        metrics = {}
        with workers.local(self.accelerator, self.trained):  # only the last pass exchanges gradients
            if self.stage.answers:
                metrics["repeated"] = self._answer(chosen, index)
            for part in range(0, self.per_step - self.stage.rows, self.stage.rows):
                answer += self._pass(ids, weight, part, scale)
        answer += self._pass(ids, weight, self.per_step - self.stage.rows, scale)
        [answer] = workers.total(self.accelerator, torch.tensor([answer], device=ids.device))
        start, end = self.stage.rate
        done = index / max(1, self.steps - 1)
        factor = (start + (end - start) * done) * warm_up(index, min(60, self.steps // 8))
        torch.nn.utils.clip_grad_norm_(self.trained.parameters(), 1.0)
        self.optimizer.step(factor)
        return {"loss": answer / int((said & real).sum()), "tokens": int(real.sum()), **metrics, "rate": factor}

    def _pass(self, ids: torch.Tensor, weight: torch.Tensor, start: int, scale: torch.Tensor) -> float:
        """Add the gradient of this process's rows of a pass; the sum of their cross-entropies."""
        rows = slice(start + self.share.start, start + self.share.stop)
        losses = self.loss(ids[rows], weight[rows])
        (losses[0] * scale).backward()
        return losses[1].item()

    def _answer(self, chosen: slice, index: int) -> float:
        """Add the gradient of the loss on own answers to this step's prompts; the share of them that is repeated."""
        prompts = repeats.prompts(self.ids[chosen], self.said[chosen], ANSWERED, index)
        mine = prompts[self.accelerator.process_index :: self.accelerator.num_processes]
        sums = torch.zeros(3, device=self.accelerator.device)  # loss, repeated tokens, tokens
        if mine:
            sums = repeats.sequence_level(workers.bare(self.trained), mine, self.stage.answers)
        _, again, tokens = workers.total(self.accelerator, sums)
        if mine:
            (sums[0] * (self.accelerator.num_processes / tokens)).backward()
        return again / tokens if tokens else 0.0

    def _loss(self, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """[2]: the weighted sum of the losses, and the plain sum of the cross-entropy of what the assistant says."""
        with torch.autocast(ids.device.type, dtype=torch.bfloat16):
            logits = self.trained(input_ids=ids[:, :-1], use_cache=False).logits
        logprobs = logits.float().log_softmax(dim=-1)
        entropy = -logprobs.gather(-1, ids[:, 1:, None])[..., 0]
        losses = entropy
        if self.stage.unlikelihood:
            losses = entropy + self.stage.unlikelihood * repeats.token_level(logprobs, ids)
        return torch.stack([(losses * weight).sum(), (entropy * (weight == 1.0)).sum()])
