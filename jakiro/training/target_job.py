"""The steps of one stage of target training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from transformers import LlamaForCausalLM

from jakiro.programs import compile_work, many_programs
from jakiro.training import repeats, workers
from jakiro.training.optim import Optimizer, factor
from jakiro.training.packing import Rows, batches
from jakiro.training.precision import in_bfloat16, quicken
from jakiro.training.target_recipe import Recipe, Stage

ANSWERED = 24  # prompts of a step that the model answers itself, where a stage asks for answers


class Batch(NamedTuple):
    """The rows of a forward pass."""

    ids: torch.Tensor  # [b, s + 1]
    weight: torch.Tensor  # [b, s], of the losses after each of the first s
    masks: tuple[torch.Tensor, torch.Tensor]  # where the token after it is the assistant's, and where there is one

    @classmethod
    def of(cls, ids: np.ndarray, said: np.ndarray, prompt_weight: float, device: torch.device) -> Batch:
        tokens = torch.from_numpy(ids.astype(np.int64)).to(device)
        real = tokens[:, 1:] != 0
        answer = torch.from_numpy(said[:, 1:]).to(device) & real
        return cls(tokens, torch.where(answer, 1.0, prompt_weight) * real, (answer, real))


def passes_of(rows: list[Rows], stage: Stage) -> list[Rows]:
    """The rows of each forward pass of a stage. Raises ValueError where there are too few for a step."""
    passes = batches(rows, stage.rows * stage.row)
    if len(passes) < stage.passes:
        raise ValueError(
            f"a stage has too few tokens for one step of {stage.passes} x {stage.rows} rows of {stage.row}: raise its "
            "tokens"
        )
    return passes


class StageJob:
    """One stage as the loop wants it."""

    def __init__(
        self,
        accelerator: Accelerator,
        model: LlamaForCausalLM,
        stage: Stage,
        rows: list[Rows],
        looping: list[list[int]],
        compiled: bool,
        recipe: Recipe,
        shard: bool = False,
    ) -> None:
        self.accelerator, self.stage, self.prompt_weight = accelerator, stage, recipe.prompt_weight
        self.seed = recipe.seed
        self.looping = looping
        self.in_bfloat16 = in_bfloat16(accelerator.device)
        quicken(model.to(accelerator.device))
        self.trained = workers.prepare(accelerator, model, shard)
        self.passes = passes_of(rows, stage)
        self.optimizer = Optimizer(workers.unwrapped(self.trained))
        self.steps = len(self.passes) // stage.passes
        self.loss, self.held_to = self._loss, self._held_to
        if compiled:
            for layer in model.model.layers:  # one program serves all: a deep model takes no longer than a shallow one
                layer.compile(dynamic=False)  # called within `many_programs`, or with stance force_eager
            self.loss, self.held_to = many_programs(self._loss), compile_work(self._held_to)

    def states(self) -> dict[str, object]:
        return dict(zip(("model", "optimizer"), workers.states(self.trained, self.optimizer), strict=True))

    def step(self, index: int) -> dict[str, float]:
        torch.manual_seed(self.seed * 1_000_003 + index)  # what drops out
        chosen = self.passes[index * self.stage.passes : (index + 1) * self.stage.passes]
        parts = [Batch.of(one.ids, one.said, self.prompt_weight, self.accelerator.device) for one in chosen]
        scale = self.accelerator.num_processes / sum(one.weight.sum() for one in parts)
        answer = torch.zeros(1, device=self.accelerator.device)
        metrics = {}
        with workers.local(self.accelerator, self.trained):  # only the last pass exchanges gradients
            if self.stage.answers:
                metrics["repeated"] = self._answer(chosen, index)
            for batch in parts[:-1]:
                answer += self._pass(batch, scale)
        answer += self._pass(parts[-1], scale)
        rate = factor(index, self.steps, self.stage.rate, self.stage.schedule, min(60, self.steps // 8))
        norm = workers.clip(self.trained)[None] / self.accelerator.num_processes
        self.optimizer.step(rate)
        answer, norm = workers.total(self.accelerator, torch.cat([answer, norm]))  # waits for the device, once a step
        said, real = (
            int(sum(mask.sum() for mask in masks)) for masks in zip(*(one.masks for one in parts), strict=True)
        )
        return {"loss": answer / said, "tokens": real, **metrics, "grad_norm": norm, "rate": rate}

    def _pass(self, batch: Batch, scale: torch.Tensor) -> torch.Tensor:
        """Add the gradient of this process's rows of a pass; the sum of their cross-entropies."""
        mine = workers.share(self.accelerator, len(batch.ids))
        losses = self.loss(batch.ids[mine], batch.weight[mine], batch.masks[0][mine])
        (losses[0] * scale).backward()
        return losses[1].detach()

    def _answer(self, chosen: list[Rows], index: int) -> float:
        """Add the gradient of the loss on own answers, to prompts that led into a loop or to this step's; the share of
        the answers that is repeated."""
        if self.stage.looping:
            prompts = repeats.of_one_length(self.looping, ANSWERED, index)
        else:
            ids, said = ([row for one in chosen for row in one[part]] for part in (0, 1))
            longest = repeats.room(workers.unwrapped(self.trained), self.stage.answers)
            prompts = repeats.prompts(ids, said, ANSWERED, index, longest)
        mine = prompts[self.accelerator.process_index :: self.accelerator.num_processes]
        sums = torch.zeros(3, device=self.accelerator.device)  # loss, repeated tokens, tokens
        if mine:
            with torch.compiler.set_stance("force_eager"):  # answers grow: each length would be another program
                sums = repeats.sequence_level(workers.unwrapped(self.trained), mine, self.stage.answers)
        _, again, tokens = workers.total(self.accelerator, sums)
        if mine:
            (sums[0] * (self.accelerator.num_processes / tokens)).backward()
        return again / tokens if tokens else 0.0

    def _loss(self, ids: torch.Tensor, weight: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        """[2]: the weighted sum of the losses, and the plain sum of the cross-entropy where `answer` is true."""
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=self.in_bfloat16):
            logits = self.trained(input_ids=ids[:, :-1], use_cache=False).logits
        return self.held_to(logits, ids, weight, answer)

    def _held_to(self, logits: torch.Tensor, ids: torch.Tensor, weight: torch.Tensor, answer: torch.Tensor):
        logits = logits.float()
        total = logits.logsumexp(dim=-1)
        entropy = total - logits.gather(-1, ids[:, 1:, None])[..., 0]
        losses = entropy
        if self.stage.unlikelihood:
            losses = entropy + self.stage.unlikelihood * repeats.token_level(logits, total, ids)
        return torch.stack([(losses * weight).sum(), (entropy * answer).sum()])
