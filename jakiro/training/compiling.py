"""torch.compile for the loss of a job, one program for each head and shape."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

PROGRAMS = 2048  # of one function in a process: heads x widths of rows x lengths, of all stages and jobs


def compile_loss(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`loss`, compiled for each head and shape that it is called with.

    Dynamo makes 8 programs of a function and then goes on without compiling; how many there are is bounded here by the
    recipe, so its limit is lifted while `loss` is called, and only then.
    """
    fast = torch.compile(loss, dynamic=False)

    def call(*given: object) -> Tensor:
        with torch._dynamo.config.patch(recompile_limit=PROGRAMS, accumulated_recompile_limit=PROGRAMS):
            return fast(*given)

    return call
