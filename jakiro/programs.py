"""Programs: a fixed sequence of tensor operations on fixed addresses, recorded once and replayed as one launch.

On CUDA a program is a CUDA graph: a round of small kernels is bound by the time that each takes to be launched from
Python, and a graph launches them all. A recording sees tensors only. What Python decided meanwhile (shapes, slices,
numbers) is part of it, so whatever changes from round to round must be in a tensor that the program reads.

Recording takes far longer than replaying. A run records its own programs, since caches are part of them: one for each
shape, the target's again for every 256 rows that the text has grown by, the draft's again where its buffers are full.
`now` is the clock that stops meanwhile: a round's seconds are those of a replay. `recording_seconds` is what it leaves
out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

SHAPES = 2048  # compiled programs of one function in a process
WARM_UPS = 2  # calls before a recording: libraries set themselves up in their first


class _Pause(threading.local):
    seconds = 0.0


_pause = _Pause()
_recording = threading.Lock()


def now() -> float:
    """`time.perf_counter` less the seconds that this thread has spent recording programs."""
    return time.perf_counter() - recording_seconds()


def recording_seconds() -> float:
    """What this thread has spent recording programs so far."""
    return _pause.seconds


@contextmanager
def clock_stopped() -> Iterator[None]:
    """What is done within is recording."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _pause.seconds += time.perf_counter() - start


def replayable(device: torch.device) -> bool:
    """Whether programs can be recorded on this kind of device."""
    return device.type in _RECORDERS


def record(work: Callable[[], T], device: torch.device) -> Callable[[], T]:
    """The program of `work`: every call does it again and gives the same tensors, refilled.

    `work` may be called several times here, and must come to the same each time. It must not wait for the device, as
    `.item()` does. Tensors that it returns are valid until the program's next call. `work` is not kept. Raises
    RuntimeError where something in it cannot be recorded.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # what was asked of it before is not the recording's
    with clock_stopped():
        return _RECORDERS[device.type](work, device)


def compile_work(work: Callable[..., T]) -> Callable[..., T]:
    """`work` by torch.compile, one program for each shape that it is called with."""
    return many_programs(torch.compile(work, dynamic=False))


def many_programs(fast: Callable[..., T]) -> Callable[..., T]:
    """`fast`, which calls compiled functions, for any number of shapes.

    Dynamo makes 8 programs of a function and then goes on without compiling; how many there are is bounded by who asks,
    so its limit is lifted while `fast` is called, and only then. A call raises ValueError where nothing can be
    compiled.
    """

    def call(*given: object, **named: object) -> T:
        with torch._dynamo.config.patch(recompile_limit=SHAPES, accumulated_recompile_limit=SHAPES):
            try:
                return fast(*given, **named)
            except torch._dynamo.exc.ShortenTraceback as error:  # what a backend raises, and where it has no Triton
                raise ValueError(
                    f"torch.compile fails ({str(error).splitlines()[0]}): see that a C++ compiler is there, and on a "
                    "GPU Triton, or do without (in training --no-compile, else leave out --compile)"
                ) from error

    return call


def upload(values: Sequence[int], device: torch.device) -> Tensor:
    """Whole numbers as int64 on the device, sent without waiting for it."""
    if device.type != "cuda" or not len(values):
        return torch.tensor(values, dtype=torch.int64, device=device)
    return torch.tensor(values, dtype=torch.int64, pin_memory=True).to(device, non_blocking=True)


def _cuda_graph(work: Callable[[], T], device: torch.device) -> Callable[[], T]:
    """Record on a stream of its own, as CUDA asks for. One at a time: waits are refused in the whole process."""
    with _recording, torch.cuda.device(device):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # a recording that fails leaves its stream set
            for _ in range(WARM_UPS - 1):
                work()
            with _refused_waits():
                work()
            graph = torch.cuda.CUDAGraph()
            with _own_workspaces(), torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
                result = work()
        torch.cuda.synchronize()

    def replay() -> T:
        graph.replay()
        return result

    return replay


@contextmanager
def _refused_waits() -> Iterator[None]:
    """What waits for the device raises RuntimeError: within a recording it would leave the allocator in disorder."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@contextmanager
def _own_workspaces() -> Iterator[None]:
    """A recording's products get scratch memory of their own: streams recur, and two graphs would share theirs."""
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()


_RECORDERS: dict[str, Callable] = {"cuda": _cuda_graph}  # by type of device
