"""torch.compile for the loss of a job, one program for each head and shape, and for the layers of a model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

PROGRAMS = 2048  # of one function in a process: heads x widths of rows x lengths, of all stages and jobs


def compile_loss(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`loss`, compiled for each head and shape that it is called with."""
    return many_programs(torch.compile(loss, dynamic=False))


def compile_layers(layers: nn.ModuleList) -> None:
    """Compile layers in place: one program serves all of one kind, so that a deep model takes no longer than a shallow
    one. They are called within `many_programs`, and as they were within torch.compiler.set_stance("force_eager")."""
    for layer in layers:
        layer.compile(dynamic=False)


def many_programs(fast: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`fast`, which calls compiled functions, for any number of shapes.

    Dynamo makes 8 programs of a function and then goes on without compiling; how many there are is bounded here by the
    recipe, so its limit is lifted while `fast` is called, and only then.
    """

    def call(*given: object) -> Tensor:
        with torch._dynamo.config.patch(recompile_limit=PROGRAMS, accumulated_recompile_limit=PROGRAMS):
            return fast(*given)

    return call
