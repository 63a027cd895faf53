"""Chat pairs "docstring -> function" from the running interpreter's standard library (PSF licence).

Half of the functions are asked for in words, half as a head to complete.
"""

from __future__ import annotations

import ast
import sysconfig
import zlib
from collections.abc import Iterator
from pathlib import Path

LONGEST = 900  # characters of a function that a small model can be asked to write


def functions() -> Iterator[dict]:
    """Yield {"source", "messages"} for every documented short function, in path order."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if not {"test", "tests", "idlelib", "site-packages", "lib2to3"} & set(parts):
            yield from _pairs(path, ".".join(parts).removesuffix(".py"))


def _pairs(path: Path, module: str) -> Iterator[dict]:
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (UnicodeDecodeError, SyntaxError):  # some stdlib fixtures are meant not to parse
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or len(node.body) < 2:
            continue
        doc = ast.get_docstring(node)
        if not doc or node.name.startswith("_"):
            continue
        bare = ast.FunctionDef(**{**dict(ast.iter_fields(node)), "body": node.body[1:], "decorator_list": []})
        code = ast.unparse(ast.fix_missing_locations(bare))
        if len(code) <= LONGEST:
            wish = doc.split("\n\n")[0].replace("\n", " ").strip()
            if zlib.crc32(node.name.encode()) % 2:
                head = code.partition("\n")[0]
                prompt = f'Complete this function.\n\n{head}\n    """{wish}"""'
            else:
                prompt = f"Write a Python function `{node.name}`: {wish}"
            yield {
                "source": f"python/cpython:{module}",
                "messages": [
                    {"role": "user", "content": prompt},
                    {"role": "assistant", "content": f"```python\n{code}\n```"},
                ],
            }
