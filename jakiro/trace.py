"""A recorded run as plain data: no tensors, no model, JSON in and out.

A trace is recorded once, anywhere, and looked at anywhere. The format is public (`jakiro-trace/1`); every view of the
page and every metric is a function of it. This module imports only the standard library.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "jakiro-trace/1"
STOPS = ("eos", "length", "context", "stopped")


class TraceError(ValueError):
    """A trace that cannot be used; the message says where it is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class DraftTree:
    """One round's proposal, in an order in which a parent precedes its children. Node 0 is the root."""

    tokens: list[int]  # [n]
    parents: list[int]  # [n], -1 at the root, else smaller than the node's own index
    scores: list[float]  # [n], log-probability of the path under the draft, 0.0 at the root
    columns: dict[str, list] = field(default_factory=dict)  # name -> [n] of float, int or None (does not apply)

    def __len__(self) -> int:
        return len(self.tokens)

    def depths(self) -> list[int]:
        """Levels below the root, [n]."""
        depths = [0] * len(self)
        for node, parent in enumerate(self.parents[1:], start=1):
            depths[node] = depths[parent] + 1
        return depths

    def children(self) -> list[list[int]]:
        """Children of every node in index order, [n] lists."""
        children: list[list[int]] = [[] for _ in self.tokens]
        for node, parent in enumerate(self.parents[1:], start=1):
            children[parent].append(node)
        return children

    def path(self, node: int) -> list[int]:
        """Nodes from below the root down to `node`; empty for the root itself."""
        path = []
        while node > 0:
            path.append(node)
            node = self.parents[node]
        return path[::-1]


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One round: a tree, what the target kept of it, and what it cost in seconds."""

    tree: DraftTree
    accepted: list[int]  # accepted nodes in path order, root left out
    bonus: int  # the target's own token that ends the round
    target_logprobs: list[float]  # [n], log p of each node's token given its path (temperature 1), 0.0 at the root
    draft_s: float
    verify_s: float
    overhead_s: float

    @property
    def stop_node(self) -> int:
        """The last node that the target agreed with; the bonus follows it."""
        return self.accepted[-1] if self.accepted else 0

    @property
    def emitted(self) -> list[int]:
        """Tokens that this round added to the text."""
        return [self.tree.tokens[node] for node in self.accepted] + [self.bonus]

    @property
    def seconds(self) -> float:
        """Wall time of the round."""
        return self.draft_s + self.verify_s + self.overhead_s


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole run of one method on one prompt, with everything needed to read it without the model."""

    method: str
    settings: dict[str, Any]
    target: str
    device: str
    dtype: str
    versions: dict[str, str]
    seed: int
    temperature: float
    top_p: float
    prompt: list[int]
    first: int  # the token that prefill gives
    pieces: dict[int, str]  # id -> displayable text, for every id that occurs
    prefill_s: float
    steps: list[StepTrace]
    stop: str = "length"  # why the text ended, one of STOPS; "stopped" by whoever ran it, before its end
    recorded: str = ""  # ISO date of the recording
    schema: str = SCHEMA

    @property
    def tokens(self) -> list[int]:
        """The generated token ids, the first one (from prefill) included."""
        return [self.first] + [token for step in self.steps for token in step.emitted]

    @property
    def text(self) -> str:
        """The generated text as displayable pieces run together."""
        return "".join(self.pieces.get(token, f"<{token}>") for token in self.tokens)


def to_json(trace: Trace) -> str:
    """The trace as JSON text. Floats keep seven significant digits, which is what fp32 carries."""
    return json.dumps(_rounded(asdict(trace)), allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def from_json(text: str) -> Trace:
    """Read and validate a trace. Raises TraceError, saying where the text is wrong."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise TraceError(f"not a trace: the file is not JSON ({error}); export it again") from error
    return from_dict(data)


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace whole or not at all. Raises OSError where the path cannot be written."""
    write_text(path, to_json(trace) + "\n")


def load(path: str | Path) -> Trace:
    """Read a trace file. Raises OSError or TraceError, naming the file."""
    try:
        return from_json(Path(path).read_text(encoding="utf-8"))
    except (TraceError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error


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


def from_dict(data: Any) -> Trace:
    """Build a trace from parsed JSON, checking every field. Raises TraceError."""
    if not isinstance(data, dict):
        raise TraceError("not a trace: a JSON object is expected")
    schema = data.get("schema")
    if schema != SCHEMA:
        hint = "update this program to read it" if _newer(schema) else "record it again with this program"
        raise TraceError(f"schema is {schema!r}, this program reads {SCHEMA!r}: {hint}")
    get = _Reader(data, "trace")
    steps = [_step(step, f"steps[{i}]") for i, step in enumerate(get("steps", list))]
    pieces = {_key(key): _typed(value, str, f"pieces[{key}]") for key, value in get("pieces", dict).items()}
    trace = Trace(
        method=get("method", str),
        settings=get("settings", dict),
        target=get("target", str),
        device=get("device", str),
        dtype=get("dtype", str),
        versions=get("versions", dict),
        seed=get("seed", int),
        temperature=get("temperature", float),
        top_p=get("top_p", float),
        prompt=[_typed(token, int, "prompt") for token in get("prompt", list)],
        first=get("first", int),
        pieces=pieces,
        prefill_s=get("prefill_s", float),
        steps=steps,
        stop=_typed(data.get("stop", "length"), str, "stop"),
        recorded=_typed(data.get("recorded", ""), str, "recorded"),
    )
    if trace.stop not in STOPS:
        raise TraceError(f"stop is {trace.stop!r}, expected one of {', '.join(STOPS)}")
    return trace


def _step(data: Any, where: str) -> StepTrace:
    get = _Reader(data, where)
    tree = _tree(get("tree", dict), f"{where}.tree")
    accepted = [_typed(node, int, f"{where}.accepted") for node in get("accepted", list)]
    below = 0
    for node in accepted:
        if not 0 < node < len(tree) or tree.parents[node] != below:
            raise TraceError(f"{where}.accepted is not a path down from the root at node {node}")
        below = node
    logprobs = _numbers(get("target_logprobs", list), len(tree), f"{where}.target_logprobs")
    seconds = {name: get(name, float) for name in ("draft_s", "verify_s", "overhead_s")}
    return StepTrace(tree=tree, accepted=accepted, bonus=get("bonus", int), target_logprobs=logprobs, **seconds)


def _tree(data: Any, where: str) -> DraftTree:
    get = _Reader(data, where)
    tokens = [_typed(token, int, f"{where}.tokens") for token in get("tokens", list)]
    parents = [_typed(parent, int, f"{where}.parents") for parent in get("parents", list)]
    if not tokens or len(parents) != len(tokens) or parents[0] != -1:
        raise TraceError(f"{where} needs as many parents as tokens, at least one, the first parent being -1")
    for node, parent in enumerate(parents[1:], start=1):
        if not 0 <= parent < node:
            raise TraceError(f"{where}.parents[{node}] is {parent}; a parent must come before its child")
    scores = _numbers(get("scores", list), len(tokens), f"{where}.scores")
    columns = {
        name: _numbers(values, len(tokens), f"{where}.columns.{name}", optional=True)
        for name, values in get("columns", dict).items()
    }
    return DraftTree(tokens, parents, scores, columns)


class _Reader:
    """Looks fields up in one JSON object and says where it stands when one is missing or of the wrong type."""

    def __init__(self, data: Any, where: str) -> None:
        self.data, self.where = _typed(data, dict, where), where

    def __call__(self, name: str, kind: type) -> Any:
        if name not in self.data:
            raise TraceError(f"{self.where} has no {name!r}: the file is damaged; export it again")
        return _typed(self.data[name], kind, f"{self.where}.{name}")


def _typed(value: Any, kind: type, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or isinstance(value, bool) or (kind is float and not math.isfinite(value)):
        raise TraceError(f"{where} is {str(value)[:40]!r}, expected a {'finite ' * (kind is float)}{kind.__name__}")
    return value


def _numbers(values: Any, length: int, where: str, optional: bool = False) -> list:
    if not isinstance(values, list) or len(values) != length:
        raise TraceError(f"{where} must be a list of {length} numbers, one for each node")
    for value in values:
        if not (optional and value is None) and not (isinstance(value, int) and not isinstance(value, bool)):
            _typed(value, float, where)
    return values


def _key(key: str) -> int:
    try:
        return int(key)
    except ValueError:
        raise TraceError(f"pieces has the key {key[:40]!r}; token ids are expected") from None


def _newer(schema: Any) -> bool:
    name, _, version = str(schema).partition("/")
    return name == SCHEMA.partition("/")[0] and version.isdigit() and int(version) > int(SCHEMA.partition("/")[2])


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value


def walk_positions(trace: Trace) -> Iterator[tuple[int, StepTrace]]:
    """Each round with the number of generated tokens before it (its root's index in `trace.tokens`, plus one)."""
    count = 1
    for step in trace.steps:
        yield count, step
        count += len(step.emitted)
