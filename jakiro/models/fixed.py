"""The target's pass over a draft tree as a recorded program, for devices where launching kernels is what takes time.

Shapes do not depend on the text: nodes are padded to a size that recurs, and the pass sees as many cache rows whatever
is committed. What differs between rounds is one packed copy to the device: token ids, positions, the committed length
and which nodes see which. The mask is made from it there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from jakiro.cache import FixedRows, KVCache
from jakiro.programs import record

NODES = 4  # trees of more than one node are padded to a multiple of this
ROWS = 256  # and the rows that a pass sees, to one of this

Pass = Callable[[Tensor, Tensor, Tensor, Tensor, FixedRows], tuple[Tensor, Tensor]]  # tokens to rows, see `_forward`


def padded(nodes: int) -> int:
    """The number of nodes that a tree of so many is padded to."""
    return nodes if nodes == 1 else -(-nodes // NODES) * NODES


def fixed_pass(cache: KVCache, nodes: int, known: int, forward: Pass, spare: bool) -> FixedPass:
    """The pass for that many padded nodes after the committed rows, recorded at its first run.

    The last `known` of those rows are of the same tree. Programs that see fewer rows than there are by now will not be
    asked for again, and hold memory: they go. With `spare` one that is recorded for more nodes will do.
    """
    rows = min(-(-(cache.length + nodes) // ROWS) * ROWS, cache.capacity)
    key = nodes, known, rows
    if spare and key not in cache.programs:
        fits = [one for one in cache.programs if one[1:] == key[1:] and nodes < one[0] <= rows - cache.length]
        key = min(fits, default=key)
    if key not in cache.programs:
        for passed in [one for one in cache.programs if one[-1] <= cache.length - known]:
            del cache.programs[passed]
        cache.programs[key] = FixedPass(cache, *key, forward)
    return cache.programs[key]


class FixedPass:
    """One program: `load` a tree, then call it."""

    def __init__(self, cache: KVCache, nodes: int, known: int, rows: int, forward: Pass) -> None:
        """For `nodes` padded nodes of trees of which `known` are in the cache; they see `rows` rows, their own too."""
        self._nodes, self._known, self._device = nodes, known, cache.device
        self._sizes = [nodes, known + nodes, 1]  # token ids, the tree's positions and the length of the text before it
        self._numbers = 8 * sum(self._sizes)  # bytes of these as int64
        self._inputs = torch.zeros(self._numbers + nodes * self._sizes[1], dtype=torch.uint8, device=cache.device)
        self._work: Callable | None = lambda: _forward(*self._unpack(), cache, rows, forward)
        self._program: Callable[[], tuple[Tensor, Tensor]] | None = None

    def load(self, tokens: list[int], levels: list[int], seen: Tensor, length: int) -> None:
        """The next nodes: ids of m; depths of all nodes of their tree, `known + m`; which of these the m see, [m, known
        + m]; and the length of the text before the tree."""
        pad = self._nodes - len(tokens)
        numbers = [*tokens, *[0] * pad, *(length + level for level in levels), *[length] * pad, length]
        own = torch.eye(self._nodes, dtype=torch.bool)  # a padding node sees the text and itself
        every = torch.nn.functional.pad(own, (self._known, 0))
        every[: len(tokens), : len(levels)] = seen
        host = torch.cat([torch.tensor(numbers).view(torch.uint8), every.flatten().view(torch.uint8)])
        if self._device.type == "cuda":
            host = host.pin_memory()
        self._inputs.copy_(host, non_blocking=True)

    def __call__(self) -> tuple[Tensor, Tensor]:
        """Logits [nodes, vocab] and features [nodes, hidden], padding included; valid until the next call."""
        if self._program is None:
            self._program = record(self._work, self._device)
            self._work = None
        return self._program()

    def _unpack(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        tokens, positions, length = self._inputs[: self._numbers].view(torch.int64).split(self._sizes)
        return tokens, positions, length, self._inputs[self._numbers :].view(torch.bool).view(self._sizes[:2])


def _forward(
    tokens: Tensor, positions: Tensor, length: Tensor, seen: Tensor, cache: KVCache, rows: int, forward: Pass
) -> tuple[Tensor, Tensor]:
    nodes, known = len(positions), len(positions) - len(tokens)
    own = torch.arange(known, nodes, device=tokens.device) + length  # the rows of these tokens
    into = torch.arange(rows, device=tokens.device) - length  # of each row: which node is it?
    inside = (into >= 0) & (into < nodes)
    node = into.clamp(0, nodes - 1)
    visible = (into < 0) | (inside & seen.index_select(1, node))
    places = torch.where(into < 0, into + length, positions.index_select(0, node))  # each row's position
    return forward(tokens, positions[known:], visible, places, cache.fixed(rows, own))
