"""A draft model: a small language model with the target's vocabulary drafts from the text alone.

Speculative decoding as it was first published (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318). What
those sample is a chain; here the draft model grows EAGLE-2's tree by its own probabilities, of which `top_k` 1 is a
chain. A level takes a pass over its frontier; rows of the draft before that the text went on along are not read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from jakiro.drafter import Context, Drafter
from jakiro.drafting.builder import best
from jakiro.drafting.copying import copying
from jakiro.drafting.drafter import TreeDrafter
from jakiro.drafting.passes import Step
from jakiro.drafting.sizes import TreeSettings, sizes
from jakiro.drafting.weights import OnHead
from jakiro.models import hub
from jakiro.models.loading import alike, load_model, read_tokenizer
from jakiro.models.products import lay_out, read_by_pass
from jakiro.noise import Noise
from jakiro.settings import build
from jakiro.target import Target
from jakiro.tree import LOWEST, DraftTree

T = TypeVar("T")
ROOM = 256  # rows that a run's cache begins with
REMEDY = "a draft model needs its target's tokenizer; use one of the same family"
RENAMED = 0.01  # of the target's tokens may be others in the draft model: special ones of another release


class DraftModelDrafter(TreeDrafter):
    """Proposes the likeliest tokens after each path of the tree."""

    def __init__(self, model: Target, target: Target, settings: TreeSettings) -> None:
        self.model, self.vocab = model, min(model.vocab_size, target.vocab_size)
        super().__init__(target, settings, self.vocab)
        self._cache = model.new_cache(ROOM)  # the text, and after it the tree's nodes but the last level's
        self._length = 0  # of the text in it
        self._tokens: list[int] = []  # of the tree, whose root is the text's last token
        self._parents: list[int] = []

    @property
    def pass_bytes(self) -> int:
        """Of the draft model's parameters; of a mixture of experts none are counted."""
        return (read_by_pass(self.model) or (0,))[0]

    def idle(self, context: Context) -> bool:
        """Also where the draft model cannot read as long a text."""
        return super().idle(context) or self.levels(context) < 1

    def levels(self, context: Context) -> int:
        """No deeper than there is room, and than the draft model can read: a level is a pass."""
        return min(self.settings.depth, context.room, self.model.context - len(context.tokens) + 1)

    def run(self, work: Callable[..., T], context: Context, *more: Tensor, kind: Hashable = None) -> T:
        """Right away: a pass is told on the host what the one before it proposed."""
        return work(context.tokens, context.features, *more)

    def begin(self, tokens: list[int], features: Tensor) -> Step:
        return self._step(self._read(tokens), 0)

    def follow(self, level: int, tokens: Tensor, rows: Tensor, before: Step) -> Step:
        return self._step(self._score(*torch.stack([tokens, rows]).tolist()), level)

    @torch.inference_mode()
    def bare(self, context: Context) -> int:
        if self.idle(context):
            return 0
        self._length, depth = self._length - 1, self.levels(context)  # the root alone is read again
        self._read(context.tokens)
        for _ in range(1, depth):
            self._score(context.tokens[-1:] * self.width, [0] * self.width)
        return depth

    def logits(self, features: Tensor) -> Tensor:
        """Those of the model [n, its vocab] for the tokens that the target has, too."""
        return features[..., : self.vocab]

    def coupling(self, noise: Noise, start: int) -> Tensor:
        return super().coupling(noise, start)[:, : self.vocab]

    def widened(self, logprobs: Tensor) -> Tensor:
        if more := self.target.vocab_size - self.vocab:
            return torch.nn.functional.pad(logprobs.clamp_min(LOWEST + 1), (0, more), value=LOWEST)
        return logprobs

    def _step(self, logits: Tensor, level: int) -> Step:
        logprobs = self.logprobs(logits, level)
        return Step(best(logprobs, self.width), None, (logprobs,))

    def _read(self, tokens: list[int]) -> Tensor:
        """Read what is new of the text, its last token always: the logits after that, [1, vocab]."""
        cache, drafted = self._cache, DraftTree(self._tokens, self._parents, [])
        cache.keep(self._length, [node - 1 for node in drafted.along(tokens[self._length : -1])])
        fresh = self._ids(tokens[cache.length :])
        if cache.length:
            count, room = len(fresh), self.model.context - cache.length
            fresh += [0] * (min(1 << (count - 1).bit_length(), room) - count)  # few lengths: each is recorded
            logits = self.model.score(fresh, range(-1, len(fresh) - 1), cache)[0][count - 1 : count]
            cache.keep(cache.length, range(count))
        else:
            logits = self.model.prefill(torch.tensor(fresh, device=self.model.device), cache)[0][None]
        self._length, self._tokens, self._parents = len(tokens), tokens[-1:], [-1]
        return logits

    def _score(self, tokens: list[int], rows: list[int]) -> Tensor:
        """Hang a level's frontier [k] under the given rows of the level above: the logits after it, [k, vocab]."""
        known = len(self._tokens)
        above = max(0, known - self.width)  # the first node of that level
        self._tokens += tokens
        self._parents += [above + row for row in rows]
        logits = self.model.score(self._ids(tokens), self._parents, self._cache, known)[0]
        self._cache.keep(self._cache.length, range(len(tokens)))
        return logits

    def _ids(self, tokens: Sequence[int]) -> list[int]:
        """What the model reads for them: its last one for those that only the target has, which pad its vocabulary."""
        return [min(token, self.model.vocab_size - 1) for token in tokens]


class DraftModel(OnHead):
    """Another language model, which has not to be trained for its target."""

    name = "draft_model"
    title = "Draft model"
    summary = "A small language model of the same vocabulary guesses the next tokens from the text alone."
    settings = TreeSettings
    head = PreTrainedModel
    needs = "draft model"

    def defaults(self, target: Target) -> TreeSettings:
        """What suits the target's device, and the draft_temperature that the model's config.json asks for, if any.

        Raises ValueError where the target has no draft model.
        """
        config = json.loads((self.folder(target) / "config.json").read_text(encoding="utf-8"))
        asked = {"draft_temperature": config.get("draft_temperature", 1.0)}
        return build(TreeSettings, TreeSettings(**sizes(target.device)), asked)

    def load(self, target: Target) -> Callable[[TreeSettings], Drafter]:
        """Read the model, in the target's dtype. Raises OSError or ValueError where it cannot draft for the target."""
        folder = self.opened(target)
        hub.check_weights(folder)
        weights = load_model(folder, dtype=target.dtype, **alike(target.model))
        lay_out(weights.to(target.device))
        recorded = bool(target.graphs or target.tapes)
        model = Target(weights, name=hub.place(folder), path=folder, graphs=recorded, compile=target.compiled)
        check_vocabulary(model, target)
        return lambda settings: copying(DraftModelDrafter(model, target, settings), settings)


def check_vocabulary(model: Target, target: Target) -> None:
    """Raise ValueError where an id is another token to the draft model than to its target.

    Their numbers of ids may differ where tokenizers agree: models of one family are padded differently.
    """
    if target.tokenizer is None:
        if model.vocab_size != target.vocab_size:
            raise ValueError(f"{model.name} has {model.vocab_size} tokens, the target {target.vocab_size}: {REMEDY}")
        return
    check_tokens(model.path, target.tokenizer, target.name)


def check_tokens(folder: Path, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Raise OSError or ValueError where the model in a folder has other tokens than the target called `name`."""
    hub.check_tokenizer(folder)
    ours, theirs = tokenizer.get_vocab(), read_tokenizer(folder).get_vocab()
    others = [token for token, id in ours.items() if theirs.get(token) != id]
    if len(others) > RENAMED * len(ours):
        few = ", ".join(map(repr, sorted(others, key=ours.get)[:3]))
        raise ValueError(f"{hub.place(folder)} has other ids than {name} for {len(others)} tokens ({few}): {REMEDY}")
