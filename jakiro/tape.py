"""Tapes: tensor operations written down while Python runs them, and done again without it.

On a CPU a pass of a small model is more Python than work: some thousand operations on a few rows, each reached through
modules, hooks and wrappers that come to the same every time. A tape holds what ATen was asked for, as a TorchScript
function whose interpreter goes from one operation to the next in C++ and without Python's lock.

Unlike a CUDA graph (`programs.py`) it keeps neither addresses nor, as such, shapes: its inputs are given anew in each
call, and so it serves many runs and texts of any length. But what Python decided is written down as it was then. A
number made from an input's size is one of these, so views of what grows are cut before and given as inputs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Sequence
from io import BytesIO
from typing import Any, Generic, TypeVar

import torch
from torch import ScriptObject, Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from jakiro.programs import clock_stopped

T = TypeVar("T")

WAITS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
WORDS = {float("inf"): "float('inf')", float("-inf"): "float('-inf')"}


class Tape(Generic[T]):
    """`work`, which reads `inputs`, written down: call it with others in their place, for what it gives with them.

    What it returns may be any picklable structure with tensors in it, and each call makes a new one. Other tensors that
    it reads or writes, as weights are, stay the same. `work` is run once here, while the clock of `programs.now` stands
    still, and is not kept. Raises RuntimeError where something in it cannot be written down, as a question for the
    value of a tensor.
    """

    def __init__(self, work: Callable[[], T], inputs: Sequence[Tensor]) -> None:
        with clock_stopped():
            scribe = _Scribe(inputs)
            with scribe:
                result = work()
            self._form, leaves = _taken_apart(result)
            self._constants = (scribe.tensors, *scribe.objects.values())
            self._run = torch.jit.CompilationUnit(scribe.source(leaves)).tape
            self(inputs)  # TorchScript prepares itself

    def __call__(self, inputs: Sequence[Tensor]) -> T:
        with torch.jit.optimized_execution(False):  # it would gain nothing, and take its first calls to find that out
            leaves = self._run(inputs, *self._constants)
        return _Filled(self._form, leaves).load()


class Tapes:
    """The tapes of a model, by what they are for; the last `most` that were used, each some megabytes large."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[Hashable, Tape] = {}

    def run(self, key: Hashable, work: Callable[[], T], inputs: Sequence[Tensor]) -> T:
        """What `work` gives, which reads `inputs`, by the tape of that key; it is written where there is none."""
        tape = self._made.pop(key, None) or Tape(work, inputs)
        for oldest in [*self._made][: max(0, len(self._made) + 1 - self._most)]:
            self._made.pop(oldest, None)
        self._made[key] = tape
        return tape(inputs)


class _Scribe(TorchDispatchMode):
    """While active, runs operations and writes them down as lines of TorchScript."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.tensors: list[Tensor] = []  # made before the work, and no inputs
        self.objects: dict[str, list[ScriptObject]] = {}  # packed weights, by the name of their class
        self._lines: list[str] = []
        self._names = {id(one): f"inputs[{at}]" for at, one in enumerate(inputs)}
        self._alive: list[Any] = list(inputs)  # while they are, no other object has their id

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = operation(*args, **kwargs)
        tensors = result if isinstance(result, (list, tuple)) else [result]
        if _waits(operation, args) or not all(isinstance(one, (Tensor, type(None))) for one in tensors):
            raise RuntimeError(f"{operation} asks a tensor for its values")
        schema = operation._schema
        kinds = {one.name: one.type.annotation_str for one in schema.arguments}
        named = dict(zip(kinds, args, strict=False)) | kwargs  # by their names, which tell overloads apart
        if isinstance(result, Tensor) and args and _fills(args[0]):
            named |= {name: _number(one) for name, one in named.items() if kinds[name] == "Tensor"}
        given = [self._word(one, kinds[name]) for name, one in named.items()]
        given[1:] = [f"{name}={word}" for name, word in zip(named, given, strict=True)][1:]
        call = f"torch.ops.{schema.name.replace('::', '.')}({', '.join(given)})"
        if result is None or (isinstance(result, Tensor) and id(result) in self._names):
            self._lines += [call] if schema.is_mutable else []  # else it has given back what it was given
            return result
        name = f"v{len(self._lines)}"
        self._lines.append(f"{name} = {call}")
        for at, one in enumerate(tensors):
            self._known(one, name if isinstance(result, Tensor) else f"{name}[{at}]")
        return result

    def source(self, leaves: Sequence[Tensor]) -> str:
        """The function of the inputs, `tensors` and each list of `objects`."""
        returned = self._word(leaves, "List[Tensor]")
        objects = [f"o{at}: List[{kind}]" for at, kind in enumerate(self.objects)]
        head = ", ".join(["inputs: List[Tensor]", "tensors: List[Tensor]", *objects])
        return "\n    ".join([f"def tape({head}):", *self._lines, f"return {returned}"]) + "\n"

    def _known(self, one: Any, name: str) -> str:
        self._alive.append(one)
        return self._names.setdefault(id(one), name)

    def _word(self, value: Any, kind: str) -> str:
        """How TorchScript says a value where this kind is asked for."""
        if id(value) in self._names:
            return self._names[id(value)]
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return self._known(value, f"tensors[{len(self.tensors) - 1}]")
        if isinstance(value, ScriptObject):
            name = value._type().qualified_name()
            among = self.objects.setdefault(name, [])
            among.append(value)
            return self._known(value, f"o{[*self.objects].index(name)}[{len(among) - 1}]")
        if isinstance(value, (list, tuple)):
            kind = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[List") else kind
            return f"torch.jit.annotate({kind}, [{', '.join(self._word(one, '') for one in value)}])"
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        if isinstance(value, (type(None), bool, int, float, str, torch.dtype, torch.layout, torch.memory_format)):
            return WORDS.get(value, repr(value)) if isinstance(value, float) else repr(value)
        raise RuntimeError(f"a {type(value).__name__} cannot be written down")


def _fills(one: Any) -> bool:
    """Whether it decides, beside a number in float32, of which kind a result is."""
    return isinstance(one, Tensor) and one.dtype == torch.float32 and one.dim() > 0 and one.device.type == "cpu"


def _number(value: Any) -> Any:
    """A number where a tensor is asked for, as a tensor: it would be made one, and that converted, in every call."""
    return torch.tensor(value, dtype=torch.float32) if isinstance(value, float) else value


def _waits(operation: OpOverload, args: Sequence[Any]) -> bool:
    """Whether what Python gets, at least its shape, depends on values of tensors."""
    if operation is torch.ops.aten.index.Tensor:
        return any(one is not None and one.dtype == torch.bool for one in args[1])
    return bool(WAITS & {*operation.tags})


class _Leaves(pickle.Pickler):
    """Leaves tensors out, and keeps them."""

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file)
        self.found: list[Tensor] = []

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, Tensor):
            return None
        self.found.append(value)
        return len(self.found) - 1


def _taken_apart(structure: Any) -> tuple[bytes, list[Tensor]]:
    """A structure without its tensors, and these."""
    file = BytesIO()
    leaves = _Leaves(file)
    leaves.dump(structure)
    return file.getvalue(), leaves.found


class _Filled(pickle.Unpickler):
    """The structure again, with other tensors."""

    def __init__(self, form: bytes, leaves: Sequence[Tensor]) -> None:
        super().__init__(BytesIO(form))
        self._leaves = leaves

    def persistent_load(self, number: int) -> Tensor:
        return self._leaves[number]
