"""A target's layers, made by torch.compile, for recorded passes.

A layer of a Hugging Face model is some forty kernels, most of which add, scale or turn a few numbers: where weights are
small or bandwidth is high, a pass over a few tokens is their number rather than their work. Compiled, a layer is some
fifteen. One program serves all layers of one kind: each is given its own rows of the cache, so that which layer it is
does not matter. A pass of another shape (nodes, or rows that it sees) is another program, made where it is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from jakiro.cache import FixedRows
from jakiro.programs import compile_work


def compile_layers(decoder: nn.Module) -> None:
    """Let the layers of a decoder run compiled in recorded passes, and as they are in all others.

    Raises ValueError where the decoder has no list of layers.
    """
    layers = [child for child in decoder.children() if isinstance(child, nn.ModuleList)]
    if len(layers) != 1:
        raise ValueError(f"{type(decoder).__name__} has no list of layers to compile: leave out --compile")
    for index, layer in enumerate(layers[0]):
        layer.forward = _forward(layer.forward, index)


def _forward(plain: Callable[..., Any], index: int) -> Callable[..., Any]:
    fast = compile_work(plain)

    def forward(*given: Any, **named: Any) -> Any:
        rows = next((one for one in (*given, *named.values()) if isinstance(one, FixedRows)), None)
        if rows is None or not rows.stores(index):
            return plain(*given, **named)
        own = rows.of_layer(index)
        given = [own if one is rows else one for one in given]
        return fast(*given, **{name: own if one is rows else one for name, one in named.items()})

    return forward
