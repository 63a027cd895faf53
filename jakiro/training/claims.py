"""What the files of a run were made from: they are gone on with by the same alone.

A run keeps rows, answers and weights so that it can be interrupted. Of another recipe, target or data they would be
taken for its own, so what they were made from is written beside the first of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, uint8

from jakiro.files import write_text
from jakiro.training.sources import HUB, Source

BLOCK = 1 << 20  # bytes that are read at once


def claim(made: Path, **parts: Any) -> None:
    """Write down what `made`, a file to be made, is made from; where that was done before, hold `parts` against it.

    The parts are JSON-able, by what they are called. Raises ValueError naming the parts that differ.
    """
    made.parent.mkdir(parents=True, exist_ok=True)
    note, own = made.with_name(f"{made.stem}-from.json"), json.loads(json.dumps(parts))
    remedy = "choose another --run-folder"
    if note.exists():
        kept = json.loads(note.read_text(encoding="utf-8"))
        if other := [name for name in own | kept if own.get(name) != kept.get(name)]:
            raise ValueError(f"{made} was made from another {' and another '.join(other)} ({note.name}); {remedy}")
    elif made.exists():
        raise ValueError(f"{made} does not say what it was made from ({note.name} is missing); {remedy}")
    else:
        write_text(note, json.dumps(own, indent=1) + "\n")


def digest(weights: Mapping[str, Tensor]) -> str:
    """Of a state dict: names, types, shapes and values; 16 hexadecimal digits."""
    found = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().contiguous().flatten().view(uint8).numpy())
    return found.hexdigest()[:16]


def contents(sources: Iterable[Source], root: Path) -> dict[str, str]:
    """Of the sources' files under `root`: name -> digest of what is in it; "" for what is no file.

    Raises OSError for a missing file.
    """
    files = sorted({source.file for source in sources})
    return {file: "" if file == "stdlib" or file.startswith(HUB) else _file_digest(root / file) for file in files}


def _file_digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()[:16]
