"""Files, written whole or not at all, or line by line; what cannot be written is named."""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

WEIGHT_FILES = "model*.safetensors*"  # shards and their index, as Hugging Face names them
ABANDONED = 3600.0  # seconds after which what was being written is not written on
SHOWN = 60  # characters of a value in an error
SUFFIX = 8  # characters that `tempfile` puts behind a prefix
_HELD: dict[str, int] = {}  # path -> descriptor, of what other processes are kept from


def destination(path: str | Path) -> Path:
    """The file that a path names, past links. Raises OSError where something is there that a file must not replace."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(f"cannot write {path}: it is no regular file; name another")
    return Path(os.path.realpath(path))


def write_text(path: str | Path, text: str) -> None:
    """Replace a file in one step, so that a crash or a full disk leaves the old one or none. Raises OSError."""
    with replacing(destination(path)) as new:
        new.write_text(text, encoding="utf-8")


def compact(data: Any) -> str:
    """JSON text as short as it gets. Raises ValueError at a number that JSON has not."""
    return json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def rounded(data: Any) -> Any:
    """The same with seven significant digits of its fractions, which is what fp32 carries."""
    if isinstance(data, float):
        return float(f"{data:.7g}")
    if isinstance(data, dict):
        return {key: rounded(item) for key, item in data.items()}
    if isinstance(data, list):
        return [rounded(item) for item in data]
    return data


def append_lines(path: Path, values: Iterable[Any]) -> None:
    """Add each value to a file as a line of JSON, at once. Raises OSError."""
    with _telling(path), path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(value) + "\n" for value in values)


def hold(path: Path) -> None:
    """Keep other processes that ask from a file that is there, until `release` or this one's end.

    Raises ValueError where another has it. Of processes that a launcher started the first asks for all.
    """
    release(path)
    if fcntl is None or int(os.environ.get("RANK", 0)):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise ValueError(f"another process is writing {path}: wait for it, or name another place") from error
        return  # a file system that has no locks
    _HELD[os.path.realpath(path)] = descriptor


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let other processes that ask for the same folder wait meanwhile, where there are locks."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that has none
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def release(*paths: Path) -> None:
    """Let others have what was held; without a path, all of it."""
    for path in map(os.path.realpath, paths) if paths else [*_HELD]:
        if (descriptor := _HELD.pop(path, None)) is not None:
            os.close(descriptor)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Name the file or folder where it cannot be written; torch, safetensors and tokenizers, which raises a plain
    `Exception`, have errors of their own for that."""
    try:
        yield
    except Exception as error:
        own = type(error) is Exception or type(error).__name__ == "SafetensorError"
        if not own and not isinstance(error, (OSError, RuntimeError)):
            raise
        why = getattr(error, "strerror", None) or error
        raise OSError(f"cannot write {path} ({why}): make room there, or name another place") from error


@contextmanager
def refilling(folder: str | Path, stale: str) -> Iterator[Path]:
    """Where to write files that are to lie in `folder`: they move there when all are written.

    What fails while they are written leaves what was there, and raises OSError. Files of before that match `stale` go;
    others stay. Those that move may be read by whom the umask lets.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _clear(folder, ".new-")
    with _telling(folder), tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as beside:
        yield Path(beside)
        for old in folder.glob(stale) if stale else ():
            old.unlink()
        os.umask(mask := os.umask(0o077))  # there is no way to ask for it alone
        for new in Path(beside).iterdir():
            if new.is_file():
                new.chmod(0o666 & ~mask)  # safetensors writes for the owner alone
            os.replace(new, folder / new.name)


def _clear(folder: Path, prefix: str) -> None:
    """Remove what a process that was killed left beside a file, which may be as large as that."""
    for left in folder.glob(f"{glob.escape(prefix)}{'?' * SUFFIX}"):
        if left.is_dir() and time.time() - left.stat().st_mtime > ABANDONED:
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Where to write what is to lie at `path`, a file or a folder; it takes that name in one step at the end.

    What fails in between leaves what was there, and raises OSError. A folder at `path` must be empty or none.
    """
    path = Path(path)
    _clear(path.parent, f".{path.name}.")
    with _telling(path), tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as beside:
        yield Path(beside) / path.name
        os.replace(Path(beside) / path.name, path)


def differing(old: Any, new: Any, name: str = "") -> str:
    """The first field in which two JSON values differ, and what it was and is."""
    if isinstance(old, dict) and isinstance(new, dict):
        at = next(key for key in old | new if (key in old, old.get(key)) != (key in new, new.get(key)))
        return differing(old.get(at), new.get(at), f"{name}.{at}".removeprefix("."))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        at = next(index for index, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1])
        return differing(old[at], new[at], f"{name}[{at}]")
    was, now = repr(old), repr(new)
    if was[:SHOWN] != now[:SHOWN]:
        return f"{name} was {was[:SHOWN]}, is {now[:SHOWN]}"
    if isinstance(old, list):
        return f"{name} had {len(old)} entries, has {len(new)}"
    parted = next((at for at, pair in enumerate(zip(was, now, strict=False)) if pair[0] != pair[1]), SHOWN)
    at = parted - SHOWN // 2  # from the beginning both would look alike
    return f"{name} was …{was[at : at + SHOWN]}, is …{now[at : at + SHOWN]}"
