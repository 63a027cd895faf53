"""What a head remembers within one run: keys and values of the text so far and of the tree that is growing.

The text's rows come from true target features only and stay. The tree's rows are overwritten each round. They lie
before the text's and grow towards the front, so that the keys of a level are always one slice, the text never moves
and its mask is zeros, not rebuilt (on CUDA it hides the rows that are not yet filled):

    [ level d-1 | ... | level 2 | level 1 | text row 0 | text row 1 | ... ]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from jakiro.programs import compile_work, record, upload

from .fused import FusedHead
from .head import rope_tables

T = TypeVar("T")


class HeadState:
    """Keys, values and tree mask of one run over a shared head. Buffers double when the text outgrows them."""

    def __init__(
        self, head: FusedHead, embed: Callable[[Tensor], Tensor], width: int, levels: int, capacity: int = 1024
    ) -> None:
        """For trees of `levels` passes of `width` nodes below the root's own pass; `embed` maps ids to [n, h]."""
        like = head.qkv.weight
        self.head, self.embed = head, embed
        self.width, self.levels, self.tree = width, levels, width * levels
        self.length = 0  # text rows
        self._like = {"dtype": like.dtype, "device": like.device}
        self._own = torch.full((width, width), -torch.inf, **self._like).fill_diagonal_(0.0)
        self._allocate(capacity)

    def run(self, work: Callable[[Tensor, Tensor], T], tokens: Sequence[int], features: Tensor) -> T:
        """What `work` makes of the text's next tokens [m] and features [m, h], with one `extend` and then levels."""
        return work(upload(tokens, features.device), features)

    def extend(self, tokens: Tensor, features: Tensor) -> Tensor:
        """Append text rows and return u of the last one, [1, h].

        Row j pairs features [m, h] of a token with the embedding of the token after it, tokens [m]; it sits at the
        position of the feature. Only the last row's answer is asked for, so only it attends.
        """
        start, end = self.length, self.length + len(tokens)
        if end > self.capacity:
            self._grow(end)
        entry = self.head.enter(self.embed(tokens), features)
        query, keys, values = self.head.project(entry, self._cos[start:end], self._sin[start:end])
        self._write(self.tree + start, keys, values)
        self.length = end
        text = slice(self.tree, self.tree + end)
        return self.head.attend(entry[-1:], query[-1:], self._keys[:, text], self._values[:, text], None)

    def level(self, index: int, tokens: Tensor, features: Tensor, rows: Tensor) -> Tensor:
        """u [width, h] of the frontier that is `index` levels below the root's children, all at one position.

        tokens [width], features [width, h] of their parents, rows [width]: each node's parent in the pass before.
        """
        start = self.tree - (index + 1) * self.width
        below = start + self.width
        if index:
            self._mask[:, below : self.tree] = self._mask[:, below : self.tree].index_select(0, rows)
        self._mask[:, start:below] = self._own
        entry = self.head.enter(self.embed(tokens), features)
        query, keys, values = self.head.project(entry, *self._turn(index))
        self._write(start, keys, values)
        seen = slice(start, self.tree + self._seen)
        return self.head.attend(entry, query, self._keys[:, seen], self._values[:, seen], self._mask[:, seen])

    @property
    def _seen(self) -> int:
        """Text rows that a level attends to, as far as the mask lets it."""
        return self.length

    def _turn(self, index: int) -> tuple[Tensor, Tensor]:
        """Rotation of a level's position, [1, 1, d] each."""
        here = slice(self.length + index, self.length + index + 1)
        return self._cos[here], self._sin[here]

    def _write(self, start: int, keys: Tensor, values: Tensor) -> None:
        rows = slice(start, start + len(keys))
        self._keys[:, rows] = keys.transpose(0, 1)
        self._values[:, rows] = values.transpose(0, 1)

    def _allocate(self, capacity: int) -> None:
        config, rows = self.head.config, self.tree + capacity
        self.capacity = capacity
        shape = (config.num_key_value_heads, rows, config.head_dim)
        self._keys, self._values = (torch.zeros(shape, **self._like) for _ in range(2))  # [key heads, rows, d]
        self._mask = torch.zeros(self.width, rows, **self._like)  # additive; 0 over the text
        positions = torch.arange(capacity + self.levels, device=self._like["device"])
        self._cos, self._sin = (table[:, None].to(**self._like) for table in rope_tables(config, positions))

    def _grow(self, least: int) -> None:
        keys, values, used = self._keys, self._values, self.tree + self.length
        self._allocate(max(least, 2 * self.capacity))
        self._keys[:, :used] = keys[:, :used]
        self._values[:, :used] = values[:, :used]


class FixedState(HeadState):
    """The same on fixed shapes, so that a round's work can be recorded: all rows are attended to, under a mask.

    What differs between rounds (the new rows, where they go, and how many there are) is read from tensors.
    """

    def __init__(
        self,
        head: FusedHead,
        embed: Callable[[Tensor], Tensor],
        width: int,
        levels: int,
        capacity: int = 256,
        fresh: int = 1,
        compile: bool = False,
    ) -> None:
        """`fresh`: new tokens of a recorded round at most; where there are more, all but one are read before it. With
        `compile`, a round's work is made by torch.compile."""
        self._programs: dict[str, Callable[[], Any]] = {}
        super().__init__(head, embed, width, levels, capacity)
        self._fresh, self._compile = fresh, compile
        self._numbers = torch.zeros(fresh + 2, dtype=torch.int64, device=self._like["device"])
        self._tokens, self._start, self._count = self._numbers.split([fresh, 1, 1])
        self._features = torch.zeros(fresh, head.feature_size, **self._like)

    def run(self, work: Callable[[Tensor, Tensor], T], tokens: Sequence[int], features: Tensor) -> T:
        """As before, replayed from the second time on. `work` is known by its name."""
        if len(tokens) > self._fresh:
            super().extend(upload(tokens[:-1], features.device), features[:-1])
            tokens, features = tokens[-1:], features[-1:]
        if self.length + self._fresh > self.capacity:
            self._grow(self.length + self._fresh)
        numbers = [*tokens, *[0] * (self._fresh - len(tokens)), self.length, len(tokens)]
        self._numbers.copy_(upload(numbers, features.device), non_blocking=True)
        self._features[: len(tokens)] = features
        self.length += len(tokens)
        if work.__name__ not in self._programs:
            made = compile_work(work) if self._compile else work
            self._programs[work.__name__] = record(lambda: made(self._tokens, self._features), features.device)
        return self._programs[work.__name__]()

    def extend(self, tokens: Tensor, features: Tensor) -> Tensor:
        """u of the last new row, [1, h]. Rows after it are written, too, but never seen: the next ones replace them."""
        rows = torch.arange(len(tokens), device=tokens.device) + self._start
        entry = self.head.enter(self.embed(tokens), features)
        query, keys, values = self.head.project(entry, self._cos.index_select(0, rows), self._sin.index_select(0, rows))
        self._keys.index_copy_(1, self.tree + rows, keys.transpose(0, 1))
        self._values.index_copy_(1, self.tree + rows, values.transpose(0, 1))
        columns = torch.arange(self.capacity, device=tokens.device)
        visible = torch.zeros(self.capacity, **self._like).masked_fill(columns >= self._start + self._count, -torch.inf)
        self._mask[:, self.tree :] = visible
        entry, query = (part.index_select(0, self._count - 1) for part in (entry, query))
        text = slice(self.tree, None)
        return self.head.attend(entry, query, self._keys[:, text], self._values[:, text], visible[None])

    @property
    def _seen(self) -> int:
        return self.capacity

    def _turn(self, index: int) -> tuple[Tensor, Tensor]:
        here = self._start + self._count + index
        return self._cos.index_select(0, here), self._sin.index_select(0, here)

    def _allocate(self, capacity: int) -> None:
        super()._allocate(capacity)
        self._programs.clear()
