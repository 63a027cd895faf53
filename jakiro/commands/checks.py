"""What is looked at before any work is done, and what is said of files that are not as they should be."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from jakiro.files import destination


def in_words(error: Exception) -> str:
    """What an error says; of one that the system raised over a file ("[Errno 2] ..."), with the remedy."""
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return f"there is no file {error.filename}: check the path"
        case IsADirectoryError():
            return f"{error.filename} is a folder: name a file in it"
        case PermissionError():
            return f"{error.filename} may not be opened: change its permissions, or name another"
    return f"{error.filename}: {error.strerror}"


def check_folder(path: Path) -> None:
    """Raise OSError before any work is done if a folder cannot be made there, or nothing be written into it."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"cannot write into {path}: {there} is a file; name a folder")
    if not os.access(there, os.W_OK):
        raise PermissionError(f"cannot write into {path}: the folder {there} is read-only; choose another")


def check_writable(path: Path, *read: Path | None) -> None:
    """Raise OSError before any work is done if the file cannot be written, or is one of those that are read."""
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; name a file in it")
    if destination(path) in [one.resolve() for one in read if one]:
        raise FileExistsError(f"cannot write {path}: it is read, and would be lost; name another")
    path = destination(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"cannot write {path}: the folder {path.parent} is read-only; choose another")


def check_replaced(path: Path, kind: str, what: str) -> None:
    """Raise FileExistsError where a file is there, not an empty one, that is no JSON of that kind of schema."""
    if not path.exists() or not path.stat().st_size:
        return
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))["schema"]
    except (ValueError, LookupError, TypeError, RecursionError):
        schema = ""
    if not str(schema).startswith(f"{kind}/"):
        raise _taken(path, what)


def tell_replaced(path: Path) -> None:
    """Say before long work that its report takes the place of an earlier one."""
    if path.exists() and path.stat().st_size:
        print(f"{path} is there, and is replaced at the end: stop and name another --out to keep it", file=sys.stderr)


def check_begins(path: Path, beginning: bytes, what: str) -> None:
    """Raise FileExistsError where a file is there, not an empty one, that begins otherwise."""
    if path.exists() and path.read_bytes()[: len(beginning)] not in (b"", beginning):
        raise _taken(path, what)


def _taken(path: Path, what: str) -> FileExistsError:
    return FileExistsError(f"cannot write {path}: it is there, and is no {what}; name another file")
