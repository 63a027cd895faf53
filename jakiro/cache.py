"""The target's key/value cache of one run: preallocated, written in place, compacted in place.

All layers of one head shape live in one tensor, so that keeping the accepted path of a draft tree is one gather and one
write for the whole model. Addresses stay fixed for the run unless a tree outgrows the storage.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from jakiro.programs import upload

Shape = tuple[int, int]  # heads, width of a head
Slots = dict[Shape, Tensor]  # by shape: [slots, 1, heads, rows, width]; a slot is one layer's keys or values
Places = list[tuple[tuple[Shape, int], tuple[Shape, int]] | None]  # each layer's two slots; None: it stores nothing
Views = list[tuple[Tensor, Tensor] | None]  # [1, heads, rows, width] of each layer's keys and values
ROOM = 256  # rows that a storage has to spare when it has moved


def argument_of(model: PreTrainedModel) -> str:
    """What a model's forward calls its cache: `cache` since transformers 5.24, `past_key_values` before that."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


class Rows(Cache):
    """A `transformers` cache for one sequence: `length` rows are committed, and a pass sees these and its own."""

    def __init__(self, layers: int, length: int, reads: Sequence[int]) -> None:
        """`reads`: layers whose inputs are the features of passes, in place of the last hidden state."""
        super().__init__(layers=[DynamicLayer() for _ in range(layers)])  # models ask them of their kind alone
        self.length, self.reads = length, tuple(reads)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The committed rows, the same for all layers."""
        return self.length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Rows that a pass of `query_length` tokens sees, and the position of the first."""
        return self.length + query_length, 0


class KVCache(Rows):
    """The cache of a run.

    A forward pass writes its rows after the committed ones and sees them; they count once `keep` has committed them,
    and the next pass overwrites the others.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[Shape, Shape] | None],
        capacity: int,
        dtype: torch.dtype,
        device: torch.device | str,
        reads: Sequence[int] = (),
    ) -> None:
        """`shapes`: the key's and the value's shape of each layer, or None for a layer that stores nothing."""
        super().__init__(len(shapes), 0, reads)
        self.capacity = capacity
        self.device = torch.device(device)
        self.programs: dict[Any, Any] = {}  # what was recorded on the present storage, for the cache's user
        flat = [shape for pair in shapes if pair for shape in pair]
        free = {shape: count() for shape in flat}
        self._slots: Places = [pair and tuple((shape, next(free[shape])) for shape in pair) for pair in shapes]
        self._storage = {
            shape: torch.zeros(flat.count(shape), shape[0], capacity, shape[1], dtype=dtype, device=device)
            for shape in dict.fromkeys(flat)
        }  # [slots of this shape, heads, capacity, width]
        self._rows = self._views()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: keys and values of a token in all layers."""
        return sum(storage.nbytes for storage in self._storage.values()) // self.capacity

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args, **kwargs
    ) -> tuple[Tensor, Tensor]:
        """Write [1, heads, n, width] after the committed rows; return the committed and the new rows."""
        start = self.length
        end = start + key_states.shape[2]
        keys, values = self._rows[layer_idx]
        keys[:, :, start:end] = key_states
        values[:, :, start:end] = value_states
        return keys[:, :, :end], values[:, :, :end]

    def keep(self, base: int, rows: Sequence[int]) -> None:
        """Commit the given rows, counted from `base` and rising, as the rows right after `base`; forget all others."""
        moved = next((at for at, row in enumerate(rows) if row != at), len(rows))  # those before it are in place
        if moved < len(rows):
            for storage in self._storage.values():
                source = upload(rows[moved:], storage.device) + base
                storage[:, :, base + moved : base + len(rows)] = storage.index_select(2, source)
        self.length = base + len(rows)

    def reserve(self, rows: int) -> None:
        """Make room for so many rows after the committed ones, moving the storage if it is too small.

        It becomes a multiple of ROOM, with so many rows or more to spare: a growing text does not move it each round,
        and programs that see all rows are those that see a multiple of them.
        """
        wanted = self.length + rows
        if wanted > self.capacity:
            missing = (-(-wanted // ROOM) + 1) * ROOM - self.capacity
            self.capacity += missing
            for shape, storage in self._storage.items():
                self._storage[shape] = torch.nn.functional.pad(storage, (0, 0, 0, missing))
            self._rows = self._views()
            self.programs.clear()

    def fixed(self, rows: int, at: Tensor) -> FixedRows:
        """The storage for a recorded pass, which sees the first `rows` rows and writes its own at `at` [n]."""
        return FixedRows(self._rows, rows, at, self.reads)

    def window(self, rows: int) -> Window:
        """The storage for a pass that is given views of it: of its own rows after those committed, and of all rows."""
        end = self.length + rows
        own, seen = (
            {shape: storage.unsqueeze(1)[..., start:end, :] for shape, storage in self._storage.items()}
            for start in (self.length, 0)
        )
        return Window(own, seen, self._slots, self.length, self.reads)

    def _views(self) -> Views:
        """Each layer's keys and values, [1, heads, capacity, width]."""
        return [pair and tuple(self._storage[shape][at, None] for shape, at in pair) for pair in self._slots]


class Window(Rows):
    """A `KVCache` for one pass, as views: no number of what is committed goes into what is done with them."""

    def __init__(self, own: Slots, seen: Slots, places: Places, length: int, reads: tuple[int, ...]) -> None:
        super().__init__(len(places), length, reads)
        self._own, self._seen, self._places = own, seen, places

    def tensors(self) -> list[Tensor]:
        """All views."""
        return [*self._own.values(), *self._seen.values()]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args, **kwargs
    ) -> tuple[Tensor, Tensor]:
        """Write [1, heads, n, width] into the pass's own rows; return all rows."""
        keys, values = self._places[layer_idx]
        for (shape, at), states in ((keys, key_states), (values, value_states)):
            self._own[shape][at].copy_(states)
        return self._seen[keys[0]][keys[1]], self._seen[values[0]][values[1]]


class FixedRows(Rows):
    """A `KVCache` for a recorded pass: as many rows whatever is committed; the mask tells them apart."""

    def __init__(self, layers: Views, rows: int, at: Tensor, reads: tuple[int, ...]) -> None:
        super().__init__(len(layers), rows - len(at), reads)  # as if the pass's own were the last ones
        self._layers, self._count, self._at = layers, rows, at

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args, **kwargs
    ) -> tuple[Tensor, Tensor]:
        """Write [1, heads, n, width] into the pass's own rows; return all rows."""
        keys, values = self._layers[layer_idx]
        keys.index_copy_(2, self._at, key_states)
        values.index_copy_(2, self._at, value_states)
        return keys[:, :, : self._count], values[:, :, : self._count]

    def stores(self, layer: int) -> bool:
        """Whether that layer has rows of its own."""
        return self._layers[layer] is not None

    def of_layer(self, layer: int) -> OneLayer:
        """The same for that layer alone."""
        return OneLayer([self._layers[layer]], self._count, self._at, self.reads)


class OneLayer(FixedRows):
    """Rows of a single layer, which asks for them by a number that is not looked at: a compiled one would be made for
    that number alone."""

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args, **kwargs
    ) -> tuple[Tensor, Tensor]:
        """As before."""
        return super().update(key_states, value_states, 0)
