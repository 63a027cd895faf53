"""The steps of head training. Several heads are trained side by side and share the target's pass.

The head reads (embedding of x_{t+1}, feature h_t) and predicts h_{t+1}, as in EAGLE (arXiv 2401.15077, section 3.2);
Jakiro's contrastive feature predicts h_{t+2} (released code, half the weight). EAGLE-3's reads three layers instead,
predicts no feature and is held to the target's distribution alone (arXiv 2503.01840).
"""

from __future__ import annotations

import logging

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from jakiro.drafting.eagle3_head import Eagle3Head, layers
from jakiro.drafting.head import Head
from jakiro.programs import compile_work
from jakiro.target import Target
from jakiro.training import workers
from jakiro.training.head_recipe import HeadRecipe
from jakiro.training.losses import Wanted, loss_of, own_loss
from jakiro.training.optim import Optimizer, factor
from jakiro.training.packing import Rows, batches
from jakiro.training.precision import in_bfloat16
from jakiro.training.trial import Trials
from jakiro.training.unrolled import Unrolled, UnrolledEagle3, begins

LOG = logging.getLogger(__name__)


def _within_texts(rows: Rows) -> Rows:
    """The rows, scored only where token t and token t + 2, of which the first is read to draft the other, are of one
    text: a chat says none of its first two tokens, a plain text says all."""
    if rows.texts is None:
        return rows
    said = rows.said.copy()
    said[:, 2:] &= rows.texts[:, 2:] == rows.texts[:, :-2]
    return rows._replace(said=said)


class HeadJob:
    """Steps of head training as the loop wants them."""

    def __init__(
        self,
        accelerator: Accelerator,
        target: Target,
        heads: dict[str, Head | Eagle3Head],
        recipe: HeadRecipe,
        rows: list[Rows],
        compiled: bool = True,
        shard: bool = False,
        trials: Trials | None = None,
    ) -> None:
        self.accelerator, self.recipe, self.device, self.trials = accelerator, recipe, accelerator.device, trials
        found = map(_within_texts, batches(rows, recipe.rows * recipe.row))
        self.batches = [one for one in found if one.said[:, 2:-1].any()]  # else there is nothing to score
        if not self.batches:
            raise ValueError(
                f"there are too few tokens for one batch of {recipe.rows} rows of {recipe.row}: the recipe needs more "
                "steps, fewer epochs, or no short rows"
            )
        self.steps, self.in_bfloat16 = recipe.steps, in_bfloat16(accelerator.device)
        self.known: dict[int, Tensor] = {}  # batch -> features of its rows, in host memory
        self.target, self.model, self.apart = target, target.model, takes_apart(target)
        if not self.apart and accelerator.is_main_process:
            LOG.warning("%s cannot tell the texts of a row apart: in training each sees those before it", target.name)
        self.inner = layers_read(target, heads)
        self.modules = {}
        for name, head in heads.items():
            kind = UnrolledEagle3 if isinstance(head, Eagle3Head) else Unrolled
            self.modules[name] = workers.prepare(accelerator, kind(head, recipe), shard)
        self.optimizers = {name: Optimizer(workers.unwrapped(module)) for name, module in self.modules.items()}
        averaged = self.modules.items() if recipe.average else ()
        self.averages = {name: AveragedModel(workers.unwrapped(module)) for name, module in averaged}
        self.loss = compile_work(self._loss) if compiled else self._loss

    def states(self) -> dict[str, object]:
        found: dict[str, object] = {f"{name} average": average for name, average in self.averages.items()}
        for name, module in self.modules.items():
            found[name], found[f"{name} optimizer"] = workers.states(module, self.optimizers[name])
        return found

    def heads(self) -> dict[str, Head | Eagle3Head]:
        """Copies of the heads as they are, on the CPU. All processes must ask, the main one gets them."""
        found = {}
        for name, module in self.modules.items():
            kept = self.averages[name].module if name in self.averages else module
            states = {key.removeprefix("head."): value for key, value in workers.parameters(kept).items()}
            if not self.accelerator.is_main_process:
                continue
            head = workers.unwrapped(module).head
            found[name] = type(head)(head.config)
            found[name].load_state_dict(states)
        return found

    def step(self, index: int) -> dict[str, float]:
        batch = index % len(self.batches)
        ids, said, texts = self.batches[batch]
        mine = workers.share(self.accelerator, len(ids))
        torch.manual_seed(self.recipe.seed * 1_000_003 + index)
        at, kept = self._positions(torch.from_numpy(said), mine)
        ids = torch.from_numpy(ids[mine].astype(np.int64)).to(self.device)
        known = texts is not None and self.apart  # else a row is one text
        texts = torch.from_numpy(texts[mine, :-1].astype(np.int64)).to(self.device) if known else None
        with torch.no_grad():
            features = self._features(batch, ids[:, :-1], texts)
            embeddings = self.target.embed(ids[:, :-1])
        drawn = self._noise(embeddings[:, 1:], len(said), mine)
        ends = self.recipe.rate, 0.05 * self.recipe.rate
        rate = factor(index, self.steps, ends, self.recipe.schedule, min(50, self.steps // 8))
        move = get_ema_multi_avg_fn(min(self.recipe.average, (1 + index) / (10 + index)))
        found, norms = {}, {}
        for name, module in self.modules.items():
            sums = self.loss(name, embeddings[:, 1:], features, texts, drawn, at, kept)
            (sums[0] * (self.accelerator.num_processes / self.recipe.scored)).backward()
            norms[f"{name}_grad_norm"] = workers.clip(module) / self.accelerator.num_processes
            self.optimizers[name].step(rate)
            if name in self.averages:
                self.averages[name].multi_avg_fn = move
                self.averages[name].update_parameters(workers.unwrapped(module))
            found |= dict(zip((f"{name}_loss", f"{name}_top1", f"{name}_top1_last"), sums.detach(), strict=True))
        found = {name: value / self.recipe.scored for name, value in found.items()} | norms
        sums = workers.total(self.accelerator, torch.stack([*found.values()]))  # waits once
        row = dict(zip(found, sums, strict=True))
        if self.trials and self.trials.due(index + 1, self.steps):
            heads = {name: (self.recipe.heads[name].kind, head) for name, head in self.heads().items()}
            if heads:
                self.trials.run(index + 1, heads)
        return {**row, "rate": rate}

    def _features(self, batch: int, ids: Tensor, texts: Tensor | None = None) -> Tensor:
        """Of the target after each token of its text, [b, s, h], or with the inputs of n layers beside it, three as a
        rule, [b, s, (1 + n) h]. Computed on the fly, remembered if the rows come again."""
        if batch in self.known:
            return self.known[batch].to(self.device)
        where = {} if texts is None else {"position_ids": positions(texts)}
        found = self.target.decoder(input_ids=ids, use_cache=False, output_hidden_states=bool(self.inner), **where)
        inner = [found.hidden_states[layer] for layer in self.inner]
        features = torch.cat([found.last_hidden_state, *inner], dim=-1)
        if self.recipe.epochs > 1 and len(self.known) * features.nbytes < self.recipe.remember * 2**30:
            self.known[batch] = features.cpu()
        return features

    def _positions(self, said: Tensor, mine: slice) -> tuple[Tensor, Tensor | None]:
        """Flat indices t into this process's [rows, width - 2] where token t + 2 is the assistant's, and which count.

        `scored` of them are drawn with replacement from all processes' rows. This one's part is filled up to one of a
        few lengths, so that few programs are compiled; a single process has them all (None).
        """
        scored, count = self.recipe.scored, self.accelerator.num_processes
        at = said[:, 2:-1].float().flatten().multinomial(scored, replacement=True)
        if count == 1:
            return at.to(self.device), None
        width = said.shape[1] - 3
        own = at[(at >= mine.start * width) & (at < mine.stop * width)] - mine.start * width
        step = max(1, scored // (4 * count))
        padding = -len(own) % step if len(own) else step
        kept = torch.arange(len(own) + padding) < len(own)
        return nn.functional.pad(own, (0, padding)).to(self.device), kept.to(self.device)

    def _noise(self, like: Tensor, rows: int, mine: slice) -> tuple[Tensor, Tensor]:
        """Noise [b, s, h] for this process's features, and where it reads own ones, [b, s]; drawn for all rows."""
        shape = (rows, *like.shape[1:])
        noise = (torch.rand(shape, device=self.device)[mine] - 0.5) * (2 * self.recipe.noise)
        own = torch.rand(shape[:2], device=self.device)[mine] < self.recipe.own_features
        return noise.to(like.dtype), own

    def _loss(
        self,
        name: str,
        embeddings: Tensor,
        features: Tensor,
        texts: Tensor | None,
        drawn: tuple,
        at: Tensor,
        kept: Tensor | None,
    ) -> Tensor:
        """[3]: summed over the positions, the loss, and whether the argmax agrees in the first and in the last pass."""
        read, losses, module = self.target.logits, self.recipe.heads[name].losses, self.modules[name]
        hidden = embeddings.shape[-1]
        last, texts = features[..., :hidden], texts if texts is None else texts[:, :-1]
        # no weights that are cast are kept: some versions of torch give a later pass those of one without gradients
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.in_bfloat16, cache_enabled=False):
            soon = Wanted.of(read, last[:, 1:-1].flatten(0, 1)[at], kept)
            if isinstance(own := workers.unwrapped(module), UnrolledEagle3):
                said = module(embeddings, features[:, :-1, hidden:], at, texts)
                parts = [own_loss(logits, own.head.tokens, soon) for logits in said]
            else:
                found = module(embeddings, last[:, :-1], *drawn, texts)
                ahead = found[0].contrast is not None
                later = Wanted.of(read, last[:, 2:].flatten(0, 1)[at], kept) if ahead else None
                parts = [loss_of(out, at, read, soon, later, losses) for out in found]
        weights = [self.recipe.decay**level for level in range(len(parts))]
        loss = sum(weight * part for weight, (part, _) in zip(weights, parts, strict=True)) / sum(weights)
        return torch.stack([loss, parts[0][1].float(), parts[-1][1].float()])


def layers_read(target: Target, heads: dict[str, Head | Eagle3Head]) -> tuple[int, ...]:
    """The layers whose inputs EAGLE-3's heads read; none of others. Raises ValueError where they differ, or as `layers`
    does."""
    read = {layers(target, head.config) for head in heads.values() if isinstance(head, Eagle3Head)}
    if any(len(target.decoder.layers) in one for one in read):
        raise ValueError("heads that read the last layer's output are decoded with, not trained: name other layers")
    if len(read) > 1:
        raise ValueError("EAGLE-3 heads of one run read the same layers: train these one after the other")
    return read.pop() if read else ()


@torch.no_grad()
def takes_apart(target: Target) -> bool:
    """Whether it reads the texts of a row each alone, told where they begin: some that take pictures, too, do not."""
    ids, texts = torch.arange(8, device=target.device)[None] % target.vocab_size, torch.tensor([[0] * 4 + [1] * 4])
    packed = target.decoder(input_ids=ids, position_ids=positions(texts.to(target.device)), use_cache=False)
    alone = target.decoder(input_ids=ids[:, 4:], use_cache=False).last_hidden_state
    return bool((packed.last_hidden_state[:, 4:] - alone).norm() < 0.1 * alone.norm())


def positions(texts: Tensor) -> Tensor:
    """Where in its text each token is, [b, s], from the texts' numbers: by them transformers tells texts apart."""
    at = torch.arange(texts.shape[1], device=texts.device).expand_as(texts)
    return at - torch.where(begins(texts), at, 0).cummax(dim=1).values
