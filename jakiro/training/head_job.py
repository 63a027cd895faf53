"""The steps of head training. Several heads are trained side by side and share the target's pass.

The head reads (embedding of x_{t+1}, feature h_t) and predicts h_{t+1}, as in EAGLE (arXiv 2401.15077, section 3.2);
Jakiro's contrastive feature predicts h_{t+2} (released code, half the weight). Below the first level of a draft tree a
head reads its own predictions, so it is trained on them too, in one of two ways: `own_features` puts them here and
there among the target's (scheduled sampling, arXiv 1506.03099); `passes` reads them level after level, each seeing what
it would see in a draft (HASS, arXiv 2408.15766, section 3.2; EAGLE-3's training-time test, arXiv 2503.01840).
"""

from __future__ import annotations

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from jakiro.drafting.head import Head, HeadOutput
from jakiro.target import Target
from jakiro.training import workers
from jakiro.training.compiling import compile_loss
from jakiro.training.head_recipe import HeadRecipe
from jakiro.training.losses import Wanted, loss_of
from jakiro.training.optim import Optimizer, factor
from jakiro.training.packing import Rows, batches
from jakiro.training.precision import in_bfloat16
from jakiro.training.trial import Trials


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
        passes = [] if self.recipe.passes > 1 else None  # one pass needs no mask
        found = [self._head(embeddings, read + noise, passes)]
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
        target: Target,
        heads: dict[str, Head],
        recipe: HeadRecipe,
        rows: list[Rows],
        compiled: bool = True,
        shard: bool = False,
        trials: Trials | None = None,
    ) -> None:
        self.accelerator, self.recipe, self.device, self.trials = accelerator, recipe, accelerator.device, trials
        found = batches(rows, recipe.rows * recipe.row)
        self.batches = [(ids, said) for ids, said in found if said[:, 2:-1].any()]  # else there is nothing to score
        if not self.batches:
            raise ValueError(
                f"there are too few tokens for one batch of {recipe.rows} rows of {recipe.row}: the recipe needs more "
                "steps, fewer epochs, or no short rows"
            )
        self.steps, self.in_bfloat16 = recipe.steps, in_bfloat16(accelerator.device)
        self.known: dict[int, Tensor] = {}  # batch -> features of its rows, in host memory
        self.target, self.model = target, target.model
        self.modules = {name: workers.prepare(accelerator, Unrolled(one, recipe), shard) for name, one in heads.items()}
        self.optimizers = {name: Optimizer(workers.unwrapped(module)) for name, module in self.modules.items()}
        self.averages = {name: self._average(module) for name, module in self.modules.items() if recipe.average}
        self.loss = compile_loss(self._loss) if compiled else self._loss

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
            head = workers.unwrapped(module).head
            found[name] = type(head)(head.config)
            found[name].load_state_dict(states)
        return found

    def step(self, index: int) -> dict[str, float]:
        batch = index % len(self.batches)
        ids, said = self.batches[batch]
        mine = workers.share(self.accelerator, len(ids))
        torch.manual_seed(self.recipe.seed * 1_000_003 + index)
        at, kept = self._positions(torch.from_numpy(said), mine)
        ids = torch.from_numpy(ids[mine].astype(np.int64)).to(self.device)
        with torch.no_grad():
            features = self._features(batch, ids[:, :-1])
            embeddings = self.model.get_input_embeddings()(ids[:, :-1])
        given = embeddings[:, 1:], features[:, :-1], *self._noise(features[:, :-1], len(said), mine)
        ends = self.recipe.rate, 0.05 * self.recipe.rate
        rate = factor(index, self.steps, ends, self.recipe.schedule, min(50, self.steps // 8))
        found = {}
        for name, module in self.modules.items():
            sums = self.loss(name, given, features, at, kept)
            (sums[0] * (self.accelerator.num_processes / self.recipe.scored)).backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            self.optimizers[name].step(rate)
            if name in self.averages:
                self.averages[name].update_parameters(workers.unwrapped(module))
            found |= dict(zip((f"{name}_loss", f"{name}_top1", f"{name}_top1_last"), sums.detach(), strict=True))
        means = workers.total(self.accelerator, torch.stack([*found.values()]) / self.recipe.scored)  # waits once
        row = dict(zip(found, means, strict=True))
        if self.trials and self.trials.due(index + 1, self.steps):
            heads = {name: (self.recipe.heads[name].kind, head) for name, head in self.heads().items()}
            if heads:
                self.trials.run(index + 1, heads)
        return {**row, "rate": rate}

    def _features(self, batch: int, ids: Tensor) -> Tensor:
        """Of the target after each token, [b, s, h]. Computed on the fly, remembered if the rows come again."""
        if batch in self.known:
            return self.known[batch].to(self.device)
        features = self.target.decoder(input_ids=ids, use_cache=False).last_hidden_state
        if self.recipe.epochs > 1 and len(self.known) * features.nbytes < self.recipe.remember * 2**30:
            self.known[batch] = features.cpu()
        return features

    def _average(self, module: nn.Module) -> AveragedModel:
        return AveragedModel(workers.unwrapped(module), multi_avg_fn=get_ema_multi_avg_fn(self.recipe.average))

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

    def _noise(self, features: Tensor, rows: int, mine: slice) -> tuple[Tensor, Tensor]:
        """Noise [b, s, h] for this process's features, and where it reads own ones, [b, s]; drawn for all rows."""
        shape = (rows, *features.shape[1:])
        noise = (torch.rand(shape, device=self.device)[mine] - 0.5) * (2 * self.recipe.noise)
        own = torch.rand(shape[:2], device=self.device)[mine] < self.recipe.own_features
        return noise.to(features.dtype), own

    def _loss(self, name: str, given: tuple[Tensor, ...], features: Tensor, at: Tensor, kept: Tensor | None) -> Tensor:
        """[3]: summed over the positions, the loss, and whether the argmax agrees in the first and in the last pass."""
        read, losses = self.target.logits, self.recipe.heads[name].losses
        # no weights that are cast are kept: some versions of torch give a later pass those of one without gradients
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.in_bfloat16, cache_enabled=False):
            found = self.modules[name](*given)
            soon = Wanted.of(read, features[:, 1:-1].flatten(0, 1)[at], kept)
            ahead = found[0].contrast is not None
            later = Wanted.of(read, features[:, 2:].flatten(0, 1)[at], kept) if ahead else None
            parts = [loss_of(out, at, read, soon, later, losses) for out in found]
        weights = [self.recipe.decay**level for level in range(len(found))]
        loss = sum(weight * part for weight, (part, _) in zip(weights, parts, strict=True)) / sum(weights)
        return torch.stack([loss, parts[0][1].float(), parts[-1][1].float()])
