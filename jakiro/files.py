"""Files, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_text(path: str | Path, text: str) -> None:
    """Replace a file in one step, so that a crash or a full disk leaves the old one or none."""
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes it private
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Where to write what is to lie at `path`, a file or a folder; it takes that name in one step at the end.

    What fails in between leaves what was there. A folder at `path` must be empty or none.
    """
    path = Path(path)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as beside:
        yield Path(beside) / path.name
        os.replace(Path(beside) / path.name, path)
