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


def fixed_pass(cache: KVCache, nodes: int, forward: Pass) -> FixedPass:
    """The pass for that many padded nodes after the committed text, recorded at its first run.

    Those that see fewer rows than there are by now will not be asked for again, and hold memory: they go.
    """
    rows = min(-(-(cache.length + nodes) // ROWS) * ROWS, cache.capacity)
    if (nodes, rows) not in cache.programs:
        for passed in [key for key in cache.programs if key[1] <= cache.length]:
            del cache.programs[passed]
        cache.programs[nodes, rows] = FixedPass(cache, nodes, rows, forward)
    return cache.programs[nodes, rows]


class FixedPass:
    """One program: `load` a tree, then call it."""

    def __init__(self, cache: KVCache, nodes: int, rows: int, forward: Pass) -> None:
        """For trees of `nodes` padded nodes that see `rows` cache rows, their own among them."""
        self._nodes, self._device = nodes, cache.device
        self._numbers = 8 * (2 * nodes + 1)  # bytes of token ids, positions and the committed length as int64
        self._inputs = torch.zeros(self._numbers + nodes * nodes, dtype=torch.uint8, device=cache.device)
        self._work: Callable | None = lambda: _forward(*self._unpack(), cache, rows, forward)
        self._program: Callable[[], tuple[Tensor, Tensor]] | None = None

    def load(self, tokens: list[int], levels: list[int], seen: Tensor, length: int) -> None:
        """The next tree: ids and depths of its m nodes, which nodes see which [m, m]; and the committed length."""
        pad = self._nodes - len(tokens)
        numbers = [*tokens, *[0] * pad, *(length + level for level in levels), *[length] * pad, length]
        every = torch.eye(self._nodes, dtype=torch.bool)  # a padding node sees the text and itself
        every[: len(tokens), : len(tokens)] = seen
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
        n = self._nodes
        tokens, positions, length = self._inputs[: self._numbers].view(torch.int64).split([n, n, 1])
        return tokens, positions, length, self._inputs[self._numbers :].view(torch.bool).view(n, n)


def _forward(
    tokens: Tensor, positions: Tensor, length: Tensor, seen: Tensor, cache: KVCache, rows: int, forward: Pass
) -> tuple[Tensor, Tensor]:
    nodes = len(tokens)
    own = torch.arange(nodes, device=tokens.device) + length  # the tree's rows
    into = torch.arange(rows, device=tokens.device) - length  # of each row: which node is it?
    inside = (into >= 0) & (into < nodes)
    node = into.clamp(0, nodes - 1)
    visible = (into < 0) | (inside & seen.index_select(1, node))
    places = torch.where(into < 0, into + length, positions.index_select(0, node))  # each row's position
    return forward(tokens, positions, visible, places, cache.fixed(rows, own))
