"""A recorded run as plain data: no tensors, no model, JSON in and out.

A trace is recorded once, anywhere, and looked at anywhere. The format is public (`jakiro-trace/1`); every view of the
page and every metric is a function of it. Nothing here needs more than the standard library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from jakiro.files import compact, rounded, write_text
from jakiro.reading import ROUNDING, Fields, TraceError, as_text, ids, numbers, plain, texts, typed
from jakiro.tree import DraftTree, read_tree

SCHEMA = "jakiro-trace/1"
STOPS = ("eos", "length", "context", "stopped")
BRANCHES = ("", "as it was", "what if")
SHORTEST, LONGEST = 1e-12, 1e9  # seconds: what takes any time takes that; rates of others could be infinite


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One round: a tree, what the target kept of it, and what it cost in seconds."""

    tree: DraftTree
    accepted: list[int]  # accepted nodes in path order, root left out
    bonus: int  # the target's own token that ends the round
    target_logprobs: list[float | None]  # [n], log p of a token given its path (temperature 1), 0.0 at the root
    draft_s: float
    verify_s: float
    overhead_s: float
    recording_s: float = 0.0  # in none of them: recording CUDA graphs or tapes (programs.py)

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
        """Wall time of the round, less what recording took in it."""
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
    branch: str = ""  # one of BRANCHES: what rounds are that were decoded again from the middle of a run
    drafter: str = ""  # the head or the model that drafted: its hub id or the end of its path, @ and a hash of weights
    threads: int = 0  # of a CPU, that it was computed with; 0: not known, or not on a CPU
    max_new_tokens: int = 0  # how many the run might have, the first one included; 0: not known
    schema: str = SCHEMA

    def number(self, setting: str) -> int | None:
        """A whole-number setting of at least 1; None where the method has none of that name."""
        value = self.settings.get(setting)
        whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1 and value % 1 == 0
        return int(value) if whole else None

    @property
    def tokens(self) -> list[int]:
        """The generated token ids, the first one (from prefill) included."""
        return [self.first] + [token for step in self.steps for token in step.emitted]

    @property
    def most(self) -> int | None:
        """Tokens that prompt and text might have together, but for the target's context; None where not known."""
        if not self.max_new_tokens and self.stop not in ("length", "context"):
            return None
        return len(self.prompt) + (self.max_new_tokens or len(self.tokens))

    def piece(self, token: int) -> str:
        """The displayable text of a token id; the id in angle brackets where it is not known."""
        return self.pieces.get(token, f"<{token}>")


def kind_of(method: str) -> str:
    """The method whose heads one of another head's name has: eagle2 of "eagle2-mine"."""
    return method.partition("-")[0]


def same_drafter(one: str, other: str) -> bool:
    """Whether two runs' `drafter` are one: by the hashes of their weights; where one has none, by their names."""
    (name, *weights), (called, *others) = (re.split(r"@(?=[0-9a-f]{8}\Z)", drafter) for drafter in (one, other))
    return weights == others if weights and others else name == called


def to_json(trace: Trace) -> str:
    """The trace as JSON text. What was measured keeps seven significant digits, which is what fp32 carries.

    Raises ValueError at a number that is not finite, which JSON has not.
    """
    data = asdict(trace)
    data |= {"steps": rounded(data["steps"]), "prefill_s": rounded(data["prefill_s"])}
    for step in data["steps"]:
        if not step["tree"]["cut"]["tokens"]:
            del step["tree"]["cut"]
        if not step["recording_s"]:
            del step["recording_s"]
    return compact(data)


def from_json(text: str) -> Trace:
    """Read and validate a trace. Raises TraceError, saying where the text is wrong."""
    try:
        data, end = json.JSONDecoder().raw_decode(text := text.strip())
    except (ValueError, RecursionError) as error:  # the latter: brackets within brackets without end
        raise no_trace(error) from error
    if isinstance(data, list) or end < len(text):
        raise TraceError("this is not a trace, but a list or several: jakiro.traces.load_traces reads such a file")
    return from_dict(data)


def no_trace(error: Exception | None = None, kind: str = "") -> TraceError:
    """What to say of a file that is something else: of what kind, if that is known, or from where on it is no JSON."""
    place = f" from line {error.lineno} column {error.colno} on" if isinstance(error, json.JSONDecodeError) else ""
    what = f" (not JSON{place})" if error else f", but {kind}" if kind else ""
    return TraceError(f"this is not a trace{what}: Export → Traces (JSON or NDJSON) gives one, see docs/trace.md")


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace whole or not at all. Raises OSError, or ValueError where it could not be read again."""
    text = to_json(trace)
    from_json(text)
    write_text(path, text + "\n")


def load(path: str | Path) -> Trace:
    """Read a trace file. Raises OSError or TraceError, naming the file."""
    try:
        return from_json(as_text(Path(path).read_bytes()))
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error


def from_dict(data: Any) -> Trace:
    """Build a trace from parsed JSON, checking every field. Raises TraceError."""
    if not isinstance(data, dict) or "schema" not in data:
        raise no_trace(kind="an object without 'schema'" if isinstance(data, dict) else "")
    if (schema := data["schema"]) != SCHEMA:
        hint = "update this program to read it" if _newer(schema) else "record it again with this program"
        raise TraceError(f"schema is {repr(schema)[:60]}, this program reads {SCHEMA!r}: {hint}")
    get = Fields(data, "trace")
    steps = [_step(step, f"steps[{i}]") for i, step in enumerate(get("steps", list))]
    _check_joints(first := get("first", int, 0), steps)
    optional = {one.name: one.default for one in fields(Trace) if one.default is not MISSING}
    trace = Trace(
        method=get("method", str),
        settings=plain(get("settings", dict), "trace.settings"),
        target=get("target", str),
        device=get("device", str),
        dtype=get("dtype", str),
        versions=plain(get("versions", dict), "trace.versions"),
        seed=get("seed", int, 0),
        temperature=get("temperature", float, 0),
        top_p=get("top_p", float, 0, 1),
        prompt=ids(get("prompt", list), "trace.prompt"),
        first=first,
        pieces=texts(get("pieces", dict), "trace.pieces"),
        prefill_s=_seconds(get, "prefill_s"),
        steps=steps,
        **{name: typed(data.get(name, one), type(one), f"trace.{name}") for name, one in optional.items()},
    )
    if not trace.top_p > 0:
        raise TraceError("top_p is 0, expected a number above 0 and up to 1, where 1 keeps every token")
    if trace.stop not in STOPS:
        raise TraceError(f"stop is {trace.stop[:40]!r}, expected one of {', '.join(STOPS)}")
    if trace.branch not in BRANCHES:
        raise TraceError(f"branch is {trace.branch[:40]!r}, expected one of {', '.join(map(repr, BRANCHES))}")
    if trace.threads < 0:
        raise TraceError(f"threads is {trace.threads}, expected at least 0, where 0 is not known")
    if trace.max_new_tokens and trace.max_new_tokens < (count := len(trace.tokens)):
        raise TraceError(f"max_new_tokens is {trace.max_new_tokens}, and there are {count} tokens: leave it out")
    return trace


def _step(data: Any, where: str) -> StepTrace:
    get = Fields(data, where)
    tree = read_tree(get("tree", dict), f"{where}.tree")
    accepted = [typed(node, int, f"{where}.accepted", at) for at, node in enumerate(get("accepted", list))]
    for above, node in pairwise([0, *accepted]):
        if not 0 < node < len(tree) or tree.parents[node] != above:
            how = "it lists places in tree.tokens, each a child of the one before"
            raise TraceError(f"{where}.accepted is not a path down from the root at node {node}: {how}")
    logprobs = numbers(get("target_logprobs", list), len(tree), f"{where}.target_logprobs", optional=True)
    if logprobs[0] != 0:
        raise TraceError(f"{where}.target_logprobs[0] is {logprobs[0]}, expected 0: no token is chosen at the root")
    if (top := max(value for value in logprobs if value is not None)) > ROUNDING:
        raise TraceError(f"{where}.target_logprobs[{logprobs.index(top)}] is {top:g}; a probability's log is at most 0")
    phases = "draft_s", "verify_s", "overhead_s", *({"recording_s"} & data.keys())
    seconds = {name: _seconds(get, name) for name in phases}
    return StepTrace(tree=tree, accepted=accepted, bonus=get("bonus", int, 0), target_logprobs=logprobs, **seconds)


def _check_joints(last: int, steps: list[StepTrace]) -> None:
    """Each round begins with the token before it and, but for the last one, went as far as its tree allows."""
    for index, step in enumerate(steps):
        if (root := step.tree.tokens[0]) != last:
            raise TraceError(f"steps[{index}].tree.tokens[0] is {root}, expected {last}: the token before the round")
        last = step.bonus
        if index + 1 < len(steps) and (step.stop_node, last) in zip(step.tree.parents, step.tree.tokens, strict=True):
            raise TraceError(f"steps[{index}].bonus is {last}, which a child of the last accepted node has: accept it")


def _seconds(get: Fields, name: str) -> float:
    if 0 < (value := get(name, float, 0, LONGEST)) < SHORTEST:
        raise TraceError(f"{get.where}.{name} is {value:g} seconds, expected 0 or at least {SHORTEST:g}")
    return value


def _newer(schema: Any) -> bool:
    found = re.fullmatch("jakiro-trace/([0-9]{1,9})", str(schema))
    return found is not None and int(found[1]) > int(SCHEMA.partition("/")[2])


def walk_positions(trace: Trace) -> Iterator[tuple[int, StepTrace]]:
    """Each round with the number of generated tokens before it (its root's index in `trace.tokens`, plus one)."""
    count = 1
    for step in trace.steps:
        yield count, step
        count += len(step.emitted)
