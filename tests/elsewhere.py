"""A device that is not there: tensors that say they lie on it and are computed on the CPU.

As on a GPU, an operation must not take tensors of both places, and the host learns a value only by waiting for a copy.
Its kind is "meta", which every build of torch lets pass without a driver.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import jakiro

KIND = "meta"
PROJECT = f"{Path(jakiro.__file__).parent}{os.sep}"
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
        if _made_of_others(func):  # and seen at all: in inference mode
            with self:
                return func.decompose(*args, **kwargs)
        given: list[torch.Tensor] = []
        _mapped(given.append, (args, kwargs))
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
        args_here, kwargs_here = _mapped(lambda one: one.here if isinstance(one, Remote) else one, (args, kwargs))
        if device is not None:
            kwargs_here["device"] = "cpu"
        result = func(*args_here, **kwargs_here)
        if name == "aten::copy_":
            return args[0]
        known = {id(one.here): one for one in remote}  # what wrote in place gives back what it was given
        return _mapped(lambda one: known[id(one)] if id(one) in known else Remote(one), result) if there else result


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


@cache
def _made_of_others(operation: torch._ops.OpOverload) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), "CompositeImplicitAutograd")


def _mapped(change: Callable, given):
    """`given`, lists, tuples and dictionaries in each other, with `change` made to its tensors. torch's own `tree_map`
    asks a lot more, of each number too, and takes half of a test's time."""
    if isinstance(given, torch.Tensor):
        return change(given)
    if isinstance(given, (list, tuple)):
        return type(given)(_mapped(change, one) for one in given)
    if isinstance(given, dict):
        return {name: _mapped(change, one) for name, one in given.items()}
    return given


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
    frame = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith(PROJECT):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.removeprefix(PROJECT)}:{frame.f_lineno}" if frame else "elsewhere"
