"""Dependencies point one way. Read from the source, so that imports inside functions count too."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "jakiro").rglob("*.py"))

VIEWS = {"metrics", "graph", "analysis"}  # functions of traces
LOOP = {
    "trace",
    "verify",
    "cache",
    "target",
    "text",
    "settings",
    "machine",
    "programs",
    "noise",
    "tape",
    "models",
    "drafter",
    "engine",
    "heed",
}
ALLOWED = {  # part -> the parts of ours that it may import; more than one name deep where a folder needs it
    "reading": set(),
    "files": set(),
    "tree": {"reading"},
    "trace": {"reading", "files", "tree"},
    "traces": {"trace"},
    "settings": set(),
    "text": set(),
    "machine": set(),
    "memory": set(),
    "programs": set(),
    "hashing": set(),
    "heed": set(),
    "noise": {"hashing", "programs"},
    "tape": {"programs"},
    "assets": set(),
    **{view: {"trace", "hashing"} | VIEWS for view in VIEWS},
    "verify": {"programs", "noise"},
    "cache": {"programs"},
    "models": {"cache", "machine", "memory", "programs", "tape", "text"},
    "target": {"cache", "models", "programs", "tape"},
    "drafter": {"noise"},
    "engine": {"drafter", "trace", "verify", "target", "text", "machine", "models", "programs"},
    "drafting": {"drafter", "target", "settings", "programs", "noise", "tape", "models"},
    "methods": LOOP | {"drafting"},
    "branch": LOOP | {"metrics"},
    "compare": LOOP,
    "doctor": LOOP | {"analysis", "drafting", "methods"},
    "training": LOOP | {"drafting", "methods", "bench", "measuring.prompts", "measuring.report", "measuring.tables"},
    "bench": LOOP
    | {"metrics", "methods", "measuring.prompts", "measuring.report", "measuring.journal", "measuring.tuning"},
    "measuring": set(),
    "measuring.prompts": {"assets", "measuring.report", "text"},
    "measuring.report": set(),
    "measuring.tables": {"measuring.report"},
    "measuring.journal": {"measuring.report"},
    "measuring.peers": LOOP | {"bench", "methods"},
    "measuring.variants": LOOP | {"bench", "methods", "training", "measuring.tables", "measuring.bootstrap"},
    "measuring.limits": LOOP,
    "measuring.rehearsal": LOOP | {"measuring.prompts"},
    "measuring.curve": set(),
    "measuring.tuning": LOOP | {"drafting", "measuring.curve", "measuring.prompts", "measuring.rehearsal"},
    "measuring.bootstrap": {"measuring.report"},
    "measuring.experiment": LOOP
    | {"analysis", "methods", "training", "bench", "drafting"}
    | {"measuring.prompts", "measuring.bootstrap", "measuring.variants"},
    "measuring.findings_text": set(),
    "measuring.findings": {"measuring.findings_text", "measuring.report", "measuring.tables", "measuring.bootstrap"},
    "ui.figures": {"trace", "measuring.report"} | VIEWS,
    "ui": LOOP
    | VIEWS
    | {"traces", "branch", "compare", "doctor", "methods", "assets", "memory", "ui.figures"}
    | {"measuring.report", "measuring.findings", "measuring.tuning"},
    "commands": set(),
    "commands.arguments": {"assets"},
    "commands.checks": set(),
    "commands.sharing": {"analysis", "commands.checks", "traces", "metrics", "trace", "ui", "ui.figures"},
    "commands.learning": LOOP
    | {"assets", "commands.arguments", "commands.checks", "bench", "training"}
    | {"measuring.prompts", "measuring.experiment", "measuring.findings", "measuring.bootstrap"},
    "commands.decoding": LOOP
    | {"metrics", "traces", "commands.arguments", "commands.checks", "methods", "training", "bench", "doctor"}
    | {"ui.figures"}
    | {"measuring.tables", "measuring.limits", "measuring.peers", "measuring.tuning", "measuring.prompts"}
    | {"measuring.variants", "measuring.bootstrap"},
    "__main__": {
        "memory",
        *(f"commands.{name}" for name in ("arguments", "checks", "decoding", "learning", "sharing")),
    },
}
DEEP = {"ui.figures"} | {part for part in ALLOWED if part.startswith(("measuring.", "commands."))}
TENSORS = {"torch", "transformers", "safetensors", "tokenizers"}


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def part_of(module: str) -> str:
    """The row of the table that a module of ours falls under: "jakiro.ui.figures.tree" -> "ui.figures"."""
    inner = module.split(".")[1:]
    deep = ".".join(inner[:2])
    return deep if deep in DEEP else ".".join(inner[:1])


@cache
def imports(file: Path) -> set[str]:
    """Every module that a file names in an import, absolute, with `from a import b` as a.b where that is a module."""
    found = set()
    package = module_of(file).split(".")[: None if file.name == "__init__.py" else -1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) - node.level + 1], node.module or ""]).strip(".")
            base = base if node.level else node.module
            names = {f"{base}.{alias.name}" for alias in node.names}
            modules = {name for name in names if is_module(name)}
            found.update(modules or {base})
    return found


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def ours(file: Path) -> set[str]:
    return {name for name in imports(file) if name.split(".")[0] == "jakiro" and name != "jakiro"}


FILE_OF = {module_of(file): file for file in FILES}


def reached_from(file: Path) -> set[Path]:
    """It, and files of ours that importing it runs."""
    found, ahead = set(), [file]
    while ahead:
        if (one := ahead.pop()) not in found:
            found.add(one)
            ahead += [FILE_OF[name] for name in ours(one)]
    return found


def test_the_reader_of_imports_sees_every_form(tmp_path, monkeypatch):
    package = tmp_path / "jakiro" / "ui"
    package.mkdir(parents=True)
    for name in ("jakiro/__init__.py", "jakiro/trace.py", "jakiro/ui/__init__.py", "jakiro/ui/page.py"):
        (tmp_path / name).touch()
    file = package / "race.py"
    file.write_text(
        "import torch.nn\nfrom . import page\nfrom ..trace import A\nfrom jakiro import trace\ndef f():\n import os"
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert imports(file) == {"torch.nn", "jakiro.ui.page", "jakiro.trace", "os"}
    assert part_of("jakiro.ui.figures.tree") == "ui.figures" and part_of("jakiro.ui.page") == "ui"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_follow_the_table(file):
    part = part_of(module_of(file))
    if not part:
        assert not ours(file)
        return
    assert part in ALLOWED, f"say in ALLOWED what {part} may import"
    for name in ours(file):
        assert part_of(name) in ALLOWED[part] | {part, "files", "tree"}, f"{module_of(file)} must not import {name}"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_methods_are_reached_through_the_registry(file):
    """Only METHODS names a method, so that adding one is one file and one line."""
    module = module_of(file)
    named = {name for name in ours(file) if name.startswith("jakiro.methods.")}
    assert not named or module == "jakiro.methods"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_what_looks_at_traces_needs_no_tensors(file):
    part = part_of(module_of(file))
    if part in {"trace", "traces", "settings", "measuring.report", "measuring.tables", "ui.figures"} | VIEWS:
        outside = {name.split(".")[0] for one in reached_from(file) for name in imports(one)} - {"jakiro"}
        assert not outside & TENSORS
        if part in ("trace", "settings"):
            assert outside <= sys.stdlib_module_names
