"""What the files of a run were made from: they are gone on with by the same alone.

A run keeps rows, answers and weights so that it can be interrupted. Of another recipe, target or data they would be
taken for its own, so what they were made from is written beside the first of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn, uint8

from jakiro.drafting.weights import read_tensors
from jakiro.files import alone, differing, hold, write_text
from jakiro.training import history
from jakiro.training.sources import HUB, LEADS, Source

SUFFIXES = (".npz", ".csv", ".jsonl", "")  # of what a run makes by itself
WRITTEN = ("recipe.json", "curves.html", "metrics.csv")  # in the folder of a run, whatever it trains
BLOCK = 1 << 20  # bytes that are read at once


def claim(
    made: Path,
    later: Collection[str] = (),
    option: str = "--run-folder",
    today: Mapping[str, Callable[[Any], Any]] = MappingProxyType({}),
    **parts: Any,
) -> None:
    """Write down what `made`, a file to be made, is made from; where it is there already, hold `parts` against that.

    The parts are JSON-able, by what they are called; `later` are the names of files beside `made` that are made from
    it, and `option` says where they are. `today` has what makes a part that was written before one as it is written
    now. Other processes are kept from it. Raises ValueError naming the parts that differ, and the files.
    """
    made.parent.mkdir(parents=True, exist_ok=True)
    name = made.stem if made.suffix in SUFFIXES else made.name  # what anyone names: `a.json` and `a.txt` may both be
    note, own = made.with_name(f"{name}-from.json"), json.loads(json.dumps(parts))
    if note.exists():
        hold(note)
    found = [str(one) for one in (made, *map(made.with_name, later)) if one.is_dir() or _holds(one)]
    if not found:
        if "--out" not in option:
            _check_unused(made.parent)
        with alone(made.parent):
            if note.exists():  # of who began meanwhile
                hold(note)
            write_text(note, json.dumps(own, indent=1) + "\n")
            return hold(note)  # another file by now
    remedy = f"choose another {option}, or begin anew here: delete {', '.join(found)}"
    if not note.exists():
        raise ValueError(f"{found[0]} does not say what it was made from ({note.name} is missing); {remedy}")
    try:
        kept = dict(json.loads(note.read_text(encoding="utf-8")))
        kept |= {name: json.loads(json.dumps(read(kept[name]))) for name, read in today.items() if name in kept}
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{note}, which says what {found[0]} was made from, is damaged ({error}); {remedy}") from error
    if other := [name for name in own | kept if own.get(name) != kept.get(name)]:
        how = differing(*({name: parts[name] for name in other if name in parts} for parts in (kept, own)))
        what = f"another {' and another '.join(other)} ({note.name}: {how})"
        raise ValueError(f"{found[0]} was made from {what}; {remedy}")


def _check_unused(run: Path) -> None:
    """Raise ValueError where a folder in which nothing was begun has files that a run would write over."""
    there = [run / name for name in WRITTEN if _holds(run / name)]
    if there and not any(run.glob("*-from.json")):
        raise ValueError(f"{there[0]} is of no run, and would be written over: choose another --run-folder")


def _holds(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0


def digest(weights: Mapping[str, Tensor]) -> str:
    """Of a state dict: names, types, shapes and values; 16 hexadecimal digits."""
    found = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().contiguous().flatten().view(uint8).numpy())
    return found.hexdigest()[:16]


def lies_in(folder: Path, module: nn.Module) -> bool:
    """Whether a run that was done before has written these very weights: a benchmark that goes on wants the same files.

    Tied parameters count once, as they are saved.
    """
    if not (folder / history.FILE).exists():
        return False
    try:
        saved = module.state_dict().keys()
        own = [pair for pair in (*module.named_parameters(), *module.named_buffers()) if pair[0] in saved]
        return digest(read_tensors(folder)) == digest(dict(own))
    except (OSError, ValueError):
        return False  # other files, or not whole


def contents(sources: Iterable[Source], root: Path) -> dict[str, str]:
    """Of the sources' files under `root`: name -> digest of what is in it; "" for what is no file.

    Raises OSError for a missing file.
    """
    files = sorted({source.file for source in sources})
    none = {file for file in files if file == "stdlib" or file.startswith(HUB)}
    return {file: "" if file in none else _file_digest(root / file.removeprefix(LEADS)) for file in files}


def _file_digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()[:16]
