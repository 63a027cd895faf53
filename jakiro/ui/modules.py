"""The viewer's modules as the browser gets them: read and compressed once, at an address that changes with them.

So the browser keeps them for ever, and after a new deployment none of an older one is used.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path


class Modules:
    """What lies in a folder of JavaScript modules when this is made."""

    def __init__(self, folder: Path) -> None:
        texts = {file.name: file.read_bytes() for file in sorted(folder.glob("*.js"))}
        self.compressed = {name: gzip.compress(text, mtime=0) for name, text in texts.items()}
        self.path = f"viewer/{hashlib.sha256(b''.join(self.compressed.values())).hexdigest()[:12]}"

    def addresses(self) -> list[str]:
        """Of all modules, relative to the page."""
        return [f"{self.path}/{name}" for name in self.compressed]
