"""A device that is not there: tensors that say they lie on it and are computed on the CPU.

As on a GPU, an operation must not take tensors of both places, and the host learns a value only by waiting for a copy.
Its kind is "meta", which every build of torch lets pass without a driver.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

KIND = "meta"
ASKING = {f"aten::{name}" for name in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero")}
INDEXING = {"aten::index", "aten::index_put_"}  # which may bring an index from the host
COPYING = {"aten::_to_copy", "aten::copy_"}


class Remote(torch.Tensor):
    """What the device holds; `here` has its values."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> Remote:
        with torch.inference_mode(here.is_inference()):
            remote = torch.Tensor._make_wrapper_subclass(
                cls, here.shape, here.stride(), here.storage_offset(), dtype=here.dtype, device=KIND
            )
        remote.here = here
        return remote

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} outside of the device's mode")


@contextmanager
def attached() -> Iterator[Device]:
    """There is such a device."""
    torch.meta = SimpleNamespace(synchronize=lambda *device: None)
    try:
        with _Lists(), Device() as device:
            yield device
    finally:
        del torch.meta


class Device(TorchDispatchMode):
    """Its operations. `waits` are the lines that had to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), func._schema.name
        with self:
            result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:  # in inference mode: an operation made of others
            return result
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        remote = [one for one in given if isinstance(one, Remote)]
        device = kwargs.get("device")
        there = bool(remote) if device is None else torch.device(device).type == KIND
        if not remote and not there:
            return func(*args, **kwargs)
        mixed = any(one.dim() for one in given if not isinstance(one, Remote))
        if mixed and name not in COPYING | INDEXING:
            raise RuntimeError(f"{func} takes tensors of two devices")
        copied = name in COPYING and _crosses(args, there) and not _at_leisure(args, kwargs)
        if name in ASKING or copied or (mixed and name in INDEXING):
            self.waits.append(_line())
        bare = tree_map(lambda one: one.here if isinstance(one, Remote) else one, (args, kwargs))
        if device is not None:
            bare[1]["device"] = "cpu"
        result = func(*bare[0], **bare[1])
        if name == "aten::copy_":
            return args[0]
        known = {id(one.here): one for one in remote}  # what wrote in place gives back what it was given

        def placed(one):
            if not there or not isinstance(one, torch.Tensor):
                return one
            return known[id(one)] if id(one) in known else Remote(one)

        return tree_map(placed, result)


class _Lists(TorchFunctionMode):
    """Lists to tensors there and back, which torch does not let its operations do for such a device."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.tolist and isinstance(args[0], Remote):
            return args[0].cpu().tolist()
        if func is torch.tensor and (device := kwargs.pop("device", None)) is not None:
            return torch.tensor(*args, **kwargs).to(device)
        if func is torch.Tensor.__getitem__ and isinstance(args[1], tuple):
            args = (args[0], tuple(torch.tensor(one) if isinstance(one, list) else one for one in args[1]))
        return func(*args, **kwargs)


def _crosses(args: tuple, there: bool) -> bool:
    """Whether a copy is from one device to the other."""
    if len(args) == 1:
        return isinstance(args[0], Remote) != there
    return isinstance(args[0], Remote) != isinstance(args[1], Remote)


def _at_leisure(args: tuple, kwargs: dict) -> bool:
    """Whether a copy need not be waited for. One to the host is not finished before it is read."""
    return bool(kwargs.get("non_blocking") or (len(args) > 2 and args[2]))


def _line() -> str:
    """Where in the project."""
    own = [frame for frame in traceback.extract_stack() if "/jakiro/" in frame.filename]
    return f"{own[-1].filename.rpartition('/jakiro/')[2]}:{own[-1].lineno}" if own else "elsewhere"
