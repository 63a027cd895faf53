"""A stand-in for CUDA graphs on a CPU: record every tensor operation of a piece of work, and do them again.

As with a CUDA graph, a replay reads and writes the very tensors of the recording, and everything that Python decided
meanwhile is frozen. What would wait for the device, or bring numbers from the host, is refused. Unlike a CUDA graph,
memory that the work let go is not used again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

T = TypeVar("T")

REFUSED = {
    f"aten::{name}"
    for name in ("item", "_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "lift_fresh")
}


class Tape(TorchDispatchMode):
    """While active, runs operations and writes them down."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name in REFUSED:
            raise RuntimeError(f"{func} cannot be recorded")
        result = func(*args, **(kwargs or {}))
        given = {address(one) for one in tensors((args, kwargs))}
        made = tensors(result)
        fresh = any(address(one) not in given for one in made)
        self.calls.append((func, args, kwargs or {}, made if fresh else []))
        return result

    def replay(self) -> None:
        for func, args, kwargs, made in self.calls:
            now = func(*args, **kwargs)
            if made:
                for old, new in zip(made, tensors(now), strict=True):
                    old.copy_(new)


def tensors(tree) -> list[torch.Tensor]:
    """Those that have a storage: a weight that is laid out for oneDNN has none."""
    return [one for one in tree_leaves(tree) if isinstance(one, torch.Tensor) and not one.is_mkldnn]


def address(one: torch.Tensor) -> int:
    return one.untyped_storage().data_ptr()


def record(work: Callable[[], T], device: torch.device) -> Callable[[], T]:
    """For `programs._RECORDERS`."""
    for _ in range(2):
        work()
    tape = Tape()
    with tape:
        result = work()
    for *_, made in tape.calls:
        for one in made:
            one.zero_()  # a recording computes nothing

    def replay() -> T:
        tape.replay()
        return result

    return replay
