"""What the benchmarks share: how rounds and memory are measured, how a report is headed and handed over."""

from __future__ import annotations

import argparse
import gc
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch

from jakiro.commands.arguments import DEVICE
from jakiro.commands.checks import check_writable, in_words
from jakiro.drafter import Drafter
from jakiro.engine import decode
from jakiro.files import write_text
from jakiro.machine import machine, versions
from jakiro.measuring.tables import table as as_table
from jakiro.models.loading import DTYPES, check_request
from jakiro.target import Target
from jakiro.trace import StepTrace
from jakiro.verify import GREEDY

PHASES = ("draft_s", "verify_s", "overhead_s")
SETTLE = 2  # rounds left out at the start of a run: a head's pass over the prompt is part of the first
_MEMORY = Path("/proc/self/statm")  # of Linux

Table = Sequence[Mapping[str, str]]  # lines of a Markdown table: column -> cell


def parser(name: str, doc: str | None, folder: str = "benchmarks") -> argparse.ArgumentParser:
    """A parser for `python -m <folder>.<name>` with the one option that all have."""
    shown = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(f"python -m {folder}.{name}", description=doc, formatter_class=shown)
    made.add_argument("--out", type=Path, default=None, help="file for the JSON, which is printed in any case")
    return made


def add_device(made: argparse.ArgumentParser) -> None:
    """--device and --dtype."""
    made.add_argument("--device", default="cpu", help=DEVICE)
    made.add_argument("--dtype", default="float32", choices=list(DTYPES), help="(default: %(default)s)")


def run(
    made: argparse.ArgumentParser,
    measure: Callable[[argparse.Namespace], tuple[dict[str, Any], list[Table]]],
    argv: Sequence[str] | None = None,
) -> int:
    """Parse, measure and hand over: JSON on standard output and in --out, tables on standard error.

    Bad input prints one line that says what to do, and returns 2.
    """
    options = made.parse_args(argv)
    command = shlex.join([*made.prog.split(), *(sys.argv[1:] if argv is None else argv)])
    try:
        if options.out:
            asked = vars(options).get("prompts")
            check_writable(options.out, *(asked if isinstance(asked, list) else ()))
        if "device" in options:
            check_request(options.device, "float32")
        report, tables = measure(options)
    except (ValueError, OSError) as error:
        print(f"{made.prog}: {in_words(error)}", file=sys.stderr)
        return 2
    text = json.dumps({**report, "command": command}, indent=1, allow_nan=False)
    print(text)
    if options.out:
        write_text(options.out, text + "\n")
    print(*map(markdown, tables), sep="\n\n", file=sys.stderr)
    return 0


def head(schema: str, device: torch.device, **more: str) -> dict[str, Any]:
    """A report's first fields. `more` are versions of what it needs besides."""
    return {"schema": schema, "machine": machine(device), "versions": versions() | more}


def markdown(table: Table) -> str:
    """One line a row, the columns of the first."""
    columns = list(table[0])
    return as_table(columns, ([row[name] for name in columns] for row in table))


def cell(value: float | None, digits: int = 2, scale: float = 1.0) -> str:
    """A number for a table, times `scale`; empty where there is none."""
    return "" if value is None else f"{scale * value:.{digits}f}"


def cells(row: Mapping[str, Any]) -> dict[str, str]:
    """The first columns of a `cost` in a table: the method, the context, and its phases in milliseconds."""
    spent = {f"{name.removesuffix('_s')} ms": cell(row[name], scale=1000) for name in (*PHASES, "round_s")}
    return {"method": row["method"], "context": str(row["context"])} | spent


def rounds(target: Target, drafter: Drafter, prompt: list[int], count: int, depth: int) -> list[StepTrace]:
    """`count` consecutive rounds after a prompt, all with room for a whole tree of `depth` levels.

    The first SETTLE rounds of the run are left out. Raises ValueError where the target's context is too short.
    """
    room = (SETTLE + count + 1) * (depth + 1)  # were everything accepted
    if len(prompt) + room > target.context:
        raise ValueError(
            f"{len(prompt)} tokens and {count} rounds of up to {depth + 1} do not fit into the {target.context} that "
            f"{target.name} reads; ask for shorter texts or fewer rounds"
        )
    made = decode(target, drafter, prompt, room, GREEDY, inspect=False)
    _, *steps = islice(made, 1 + SETTLE + count)
    return steps[SETTLE:]


def phases(steps: Sequence[StepTrace]) -> dict[str, float]:
    """Medians over rounds in seconds: of the draft, the target's pass with picks and walk, the rest, and the round."""
    found = {name: median(getattr(step, name) for step in steps) for name in PHASES}
    return found | {"round_s": median(step.seconds for step in steps)}


def cost(method: str, length: int, steps: Sequence[StepTrace]) -> dict[str, Any]:
    """What rounds cost at a length of context: how many there are, the nodes of their trees, and `phases`."""
    nodes = median(len(step.tree) for step in steps)
    return {"method": method, "context": length, "rounds": len(steps), "nodes": nodes} | phases(steps)


def resident_bytes() -> int | None:
    """Memory of this process that is in RAM now, garbage collected before; None where the system does not say."""
    gc.collect()
    if not _MEMORY.exists():
        return None
    return int(_MEMORY.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
