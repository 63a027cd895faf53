"""The target's pass over a draft tree as a tape, for CPUs, where Python between operations is half of a small pass."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from jakiro.cache import KVCache, Window
from jakiro.models.windows import Mask
from jakiro.tape import Tapes

Pass = Callable[[Tensor, Tensor, Mask, Window], tuple[Tensor, Tensor]]  # of tokens, positions [n] and the mask


def taped_pass(
    tapes: Tapes, tokens: Tensor, positions: Tensor, mask: Mask, cache: KVCache, forward: Pass
) -> Callable[[], tuple[Tensor, Tensor]]:
    """The pass of these nodes after the committed text: logits [n, vocab], features [n, hidden].

    There is a tape for each number of nodes, for all runs: sizes that grow with the text are those of its inputs.
    """
    window = cache.window(len(tokens))
    masks = mask.values() if isinstance(mask, dict) else [mask]
    inputs = [tokens, positions, *masks, *window.tensors()]
    return lambda: tapes.run((len(tokens), cache.reads), lambda: forward(tokens, positions, mask, window), inputs)
