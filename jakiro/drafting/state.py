"""What a head remembers within one run: keys and values of the text so far and of the tree that is growing.

The text's rows come from true target features only and stay. The tree's rows are overwritten each round. They lie
before the text's and grow towards the front, so that the keys of a level are always one slice, the text never moves
and its mask is zeros, not rebuilt (on CUDA it hides the rows that are not yet filled):

    [ level d-1 | ... | level 2 | level 1 | text row 0 | text row 1 | ... ]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from jakiro.programs import compile_work, record, upload

from .fused import FusedHead
from .head import rope_tables

T = TypeVar("T")
ROWS = 256  # of the text, which buffers of recorded rounds begin with


class Rows(NamedTuple):
    """A pass's n rows in a head's memory and the s rows that it sees, these among them: views of what is kept."""

    new_keys: Tensor  # [key heads, n, d], to be written
    new_values: Tensor
    keys: Tensor  # [key heads, s, d]
    values: Tensor
    cos: Tensor  # [n or 1, 1, d]
    sin: Tensor
    mask: Tensor | None = None  # [n, s] of a level; of this,
    above: Tensor | None = None  # what its rows see of the levels before, which they have from their parents,
    block: Tensor | None = None  # and of one another, [n, n]


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

    def run(
        self, work: Callable[..., T], tokens: Sequence[int], features: Tensor, *more: Tensor, kind: Hashable = None
    ) -> T:
        """What `work` makes of the text's next tokens [m], features [m, h] and `more`, with one `extend` and then
        levels. `kind`: what else decides on the work."""
        self._advance(len(tokens))
        return work(upload(tokens, features.device), features, *more)

    def extend(self, tokens: Tensor, features: Tensor) -> Tensor:
        """Write the text's newest rows and return u of the last one, [1, h].

        Row j pairs features [m, h] of a token with the embedding of the token after it, tokens [m]; it sits at the
        position of the feature. Only the last row's answer is asked for, so only it attends.
        """
        rows = self._text(len(tokens))
        entry, query = self._enter(rows, tokens, features)
        return self.head.attend(entry[-1:], query[-1:], rows.keys, rows.values, None)

    def level(self, index: int, tokens: Tensor, features: Tensor, parents: Tensor) -> Tensor:
        """u [width, h] of the frontier that is `index` levels below the root's children, all at one position.

        tokens [width], features [width, h] of their parents, `parents` [width]: each node's row in the pass before.
        """
        rows = self._level(index)
        if index:
            rows.above.copy_(rows.above.index_select(0, parents))
        rows.block.copy_(self._own)
        entry, query = self._enter(rows, tokens, features)
        return self.head.attend(entry, query, rows.keys, rows.values, rows.mask)

    def _enter(self, rows: Rows, tokens: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Write a pass's rows: its u0 [n, h] and queries [n, heads, d]."""
        entry = self.head.enter(self.embed(tokens), features)
        query, keys, values = self.head.project(entry, rows.cos, rows.sin)
        rows.new_keys.copy_(keys.transpose(0, 1))
        rows.new_values.copy_(values.transpose(0, 1))
        return entry, query

    def _newest(self, most: int, tokens: Sequence[int], features: Tensor) -> tuple[Sequence[int], Tensor]:
        """A round's new tokens and features; where they are more than that, the last one, the others being read."""
        if len(tokens) <= most:
            return tokens, features
        self._advance(len(tokens) - 1)
        self._enter(HeadState._text(self, len(tokens) - 1), upload(tokens[:-1], features.device), features[:-1])
        return tokens[-1:], features[-1:]

    def _advance(self, count: int) -> None:
        """Count so many more text rows, for which there is room then."""
        self.length += count
        if self.length > self.capacity:
            self._grow(self.length, self.length - count)

    def _text(self, count: int) -> Rows:
        """The last rows of the text."""
        start, end = self.length - count, self.length
        new, seen = slice(self.tree + start, self.tree + end), slice(self.tree, self.tree + end)
        return self._rows(new, seen, self._cos[start:end], self._sin[start:end])

    def _level(self, index: int) -> Rows:
        start = self.tree - (index + 1) * self.width
        below, seen = start + self.width, slice(start, self.tree + self._seen)
        masks = (self._mask[:, seen], self._mask[:, below : self.tree], self._mask[:, start:below])
        return self._rows(slice(start, below), seen, *self._turn(index), *masks)

    def _rows(self, new: slice, seen: slice, *others: Tensor) -> Rows:
        views = (part[:, rows] for rows in (new, seen) for part in (self._keys, self._values))
        return Rows(*views, *others)

    @property
    def _seen(self) -> int:
        """Text rows that a level attends to, as far as the mask lets it."""
        return self.length

    def _turn(self, index: int) -> tuple[Tensor, Tensor]:
        """Rotation of a level's position, [1, 1, d] each."""
        here = slice(self.length + index, self.length + index + 1)
        return self._cos[here], self._sin[here]

    def _allocate(self, capacity: int) -> None:
        config, rows = self.head.config, self.tree + capacity
        self.capacity = capacity
        shape = (config.num_key_value_heads, rows, config.head_dim)
        self._keys, self._values = (torch.zeros(shape, **self._like) for _ in range(2))  # [key heads, rows, d]
        self._mask = torch.zeros(self.width, rows, **self._like)  # additive; 0 over the text
        positions = torch.arange(capacity + self.levels, device=self._like["device"])
        self._cos, self._sin = (table[:, None].to(**self._like) for table in rope_tables(config, positions))

    def _grow(self, least: int, filled: int) -> None:
        keys, values, used = self._keys, self._values, self.tree + filled
        self._allocate(max(-(-(least + 128) // 256) * 256, 2 * self.capacity))  # sizes that recur from text to text
        self._keys[:, :used] = keys[:, :used]
        self._values[:, :used] = values[:, :used]


class TapedState(HeadState):
    """The same with a round's work on a tape, which all runs with this head share: its views are made beforehand."""

    def __init__(
        self, head: FusedHead, embed: Callable[[Tensor], Tensor], width: int, levels: int, key: Hashable
    ) -> None:
        """`key`: what else decides on the work, beside its name and the number of new tokens."""
        super().__init__(head, embed, width, levels)
        self._key = key
        self._views: list[Rows] = []

    def run(
        self, work: Callable[..., T], tokens: Sequence[int], features: Tensor, *more: Tensor, kind: Hashable = None
    ) -> T:
        """As before, written down the first time. `work` is known by its name."""
        tokens, features = self._newest(self.levels + 2, tokens, features)
        self._advance(len(tokens))
        given = upload(tokens, features.device)
        self._views = [super()._text(len(tokens)), *map(super()._level, range(self.levels))]
        inputs = [given, features, *more, *(one for rows in self._views for one in rows if one is not None)]
        key = (self._key, work.__name__, len(tokens), kind)
        return self.head.tapes.run(key, lambda: work(given, features, *more), inputs)

    def _text(self, count: int) -> Rows:
        return self._views[0]

    def _level(self, index: int) -> Rows:
        return self._views[1 + index]


class FixedState(HeadState):
    """The same on fixed shapes, so that a round's work can be recorded: all rows are attended to, under a mask.

    What differs between rounds (the new rows, where they go, and how many there are) is read from tensors.
    """

    def __init__(
        self, head: FusedHead, embed: Callable[[Tensor], Tensor], width: int, levels: int, fresh: int, compile: bool
    ) -> None:
        """`fresh`: new tokens of a recorded round at most; where there are more, all but one are read before it. With
        `compile`, a round's work is made by torch.compile."""
        self._programs: dict[Hashable, Callable[[], Any]] = {}
        self._more: list[Tensor] = []
        super().__init__(head, embed, width, levels, capacity=ROWS)
        self._fresh, self._compile = fresh, compile
        self._numbers = torch.zeros(fresh + 2, dtype=torch.int64, device=self._like["device"])
        self._tokens, self._start, self._count = self._numbers.split([fresh, 1, 1])
        self._features = torch.zeros(fresh, head.feature_size, **self._like)

    def run(
        self, work: Callable[..., T], tokens: Sequence[int], features: Tensor, *more: Tensor, kind: Hashable = None
    ) -> T:
        """As before, replayed from the second time on. `work` is known by its name."""
        tokens, features = self._newest(self._fresh, tokens, features)
        if self.length + self._fresh > self.capacity:
            self._grow(self.length + self._fresh, self.length)
        numbers = [*tokens, *[0] * (self._fresh - len(tokens)), self.length, len(tokens)]
        self._numbers.copy_(upload(numbers, features.device), non_blocking=True)
        self._features[: len(tokens)] = features
        self.length += len(tokens)
        self._more = self._more or [torch.empty_like(one) for one in more]
        own = self._more[: len(more)]
        for kept, one in zip(own, more, strict=True):
            kept.copy_(one)
        key = (work.__name__, kind)
        if key not in self._programs:
            made = compile_work(work) if self._compile else work
            self._programs[key] = record(lambda: made(self._tokens, self._features, *own), features.device)
        return self._programs[key]()

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
