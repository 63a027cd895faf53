"""What if: some rounds of a run decoded again from where one of them began, with something changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, zip_longest
from typing import Any

from jakiro.drafter import Drafter
from jakiro.engine import Prefill, as_trace, check_target, decode
from jakiro.heed import Heed, heedless
from jakiro.metrics import first_difference, tau
from jakiro.settings import build, check_numbers, written
from jakiro.target import Target
from jakiro.trace import StepTrace, Trace, same_drafter, walk_positions
from jakiro.tree import MAX_LEVELS
from jakiro.verify import Sampling

MOST_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Change:
    """What is other than it was. None: as it was."""

    settings: dict[str, Any] = field(default_factory=dict)
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    forced: tuple[int, ...] = ()  # tokens that stand after the round's root, whatever the target chooses
    rounds: int = 10


def branch(
    target: Target,
    method: Any,
    make: Callable[[Any], Drafter],
    trace: Trace,
    index: int,
    change: Change,
    heed: Heed = heedless,
) -> tuple[Trace, Trace]:
    """Rounds from round `index` on, with the run's own settings and with the changed ones.

    Only the prefix comes from the trace: both are decoded now, in turns, so that their times can be compared. So are
    the rounds before, if a drafter learns from what they rejected; those of a branch are not known. `heed` is called
    after every turn; the rounds before are no share of the work. Raises ValueError, saying why, where the trace is not
    this target's, where there is no such round, or for a bad change.
    """
    check_target(trace, target)
    if not 0 <= index < len(trace.steps):
        raise ValueError(f"there is no round {index + 1!s:.40}: this run has {len(trace.steps)}")
    if not 1 <= change.rounds <= MOST_ROUNDS:
        raise ValueError(f"rounds must be from 1 to {MOST_ROUNDS}, not {change.rounds!s:.40}")
    had = build(method.settings, None, trace.settings)  # with the defaults of what it was recorded without
    settings = build(method.settings, had, change.settings)
    for one in (had, settings):
        check_numbers(one)
    was = {"temperature": trace.temperature, "top_p": trace.top_p, "seed": trace.seed}
    given = {name: getattr(change, name) for name in was if getattr(change, name) is not None}
    own, other = Sampling(**was), Sampling(**was | given)
    start = [start for start, _ in walk_positions(trace)][index]  # tokens before the round, its root the last of them
    text = trace.prompt + trace.tokens[:start]
    if change.forced and len(text) + len(change.forced) > target.context:
        raise ValueError(
            f"{len(change.forced)} forced tokens do not fit after the {len(text)} before them: {target.name} reads "
            f"{target.context} in all; force fewer, or choose an earlier round"
        )
    sides = [
        _Side("as it was", trace, method.name, text, had, own, change.rounds),
        _Side("what if", trace, method.name, [*text, *change.forced], settings, other, change.rounds),
    ]
    memory = _memory(target, make(had), trace, index, own, heed)
    steps: list[list[StepTrace]] = [[] for _ in sides]
    turns = zip_longest(*(side.decoded(target, make, memory) for side in sides))  # whatever slows a machine slows both
    for count, turn in enumerate(turns, 1):
        heed(count / change.rounds)
        for found, step in zip(steps, turn, strict=True):
            if step is not None:
                found.append(step)
    as_was, would = (side.traced(target, found) for side, found in zip(sides, steps, strict=True))
    return as_was, would


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two ways in which rounds of a run are decoded again."""

    which: str  # as the trace calls it
    trace: Trace  # of the run
    method: str  # that drafts now: of another head than the run says, where that has another name here
    text: list[int]  # before the rounds, the first one's root the last of it
    settings: Any
    sampling: Sampling
    rounds: int

    @property
    def most(self) -> int:
        """The run's cap as it is from here on; 0: it had none."""
        return 0 if self.trace.most is None else max(2, self.trace.most - len(self.text) + 1)

    @property
    def length(self) -> int:
        """The cap for decoding: a run that could not go on has rounds that cannot either."""
        enough = _enough(self.settings, self.rounds)
        return min(enough, self.most or enough)

    def decoded(self, target: Target, make: Callable[[Any], Drafter], memory: dict | None) -> Iterator[StepTrace]:
        drafter = make(self.settings)
        if memory is not None:
            drafter.memory = dict(memory)
        *prompt, first = self.text
        events = decode(target, drafter, prompt, self.length, self.sampling, first=first)
        return islice((event for event in events if not isinstance(event, Prefill)), self.rounds)

    def traced(self, target: Target, steps: list[StepTrace]) -> Trace:
        *prompt, first = self.text
        start = Prefill(first, 0.0)  # both clocks start at the round
        found = as_trace(target, prompt, self.length, self.sampling, start, steps, self.method, self.settings)
        filled = {found.stop, self.trace.stop} == {"length", "context"}  # the cap that it was held to is the context's
        return replace(found, branch=self.which, stop="context" if filled else found.stop, max_new_tokens=self.most)


def _memory(target: Target, drafter: Drafter, trace: Trace, index: int, sampling: Sampling, heed: Heed) -> dict | None:
    """What the drafter knew when it drafted round `index`; None for one that knows the text alone."""
    if drafter.memory is None:
        return None
    if trace.branch:
        raise ValueError(
            "these rounds began in the middle of a run, and what their drafter had learnt before is not kept: choose a "
            "round of the run itself"
        )
    length = trace.max_new_tokens or len(trace.tokens)
    events = decode(target, drafter, trace.prompt, length, sampling, inspect=False, first=trace.first)
    for _ in islice(events, index + 2):  # the prefill, the rounds before, this one
        heed(0.0)
    return drafter.memory


def _enough(settings: Any, rounds: int) -> int:
    """A length cap that so many rounds, after their first token, cannot reach; the cache is made for it."""
    copies = min(settings.total_tokens - 1, MAX_LEVELS) if getattr(settings, "lookup", 0) else 0
    return 2 + rounds * (1 + max(copies, getattr(settings, "depth", MAX_LEVELS)))


def told(as_was: Trace, would: Trace, index: int, title: str) -> str:
    """What was changed, and what that did to tau, to what a round drafts and to the text."""
    changes = _changes(as_was, would)
    return (
        f"{title} from round {index + 1} on, with {', '.join(changes) or 'nothing changed'}, beside the same rounds "
        "decoded again unchanged: "
        f"tau {_beside(_tau(would), _tau(as_was))}, drafted a round {_beside(_drafted(would), _drafted(as_was))}, "
        f"{_text(as_was, would)}.{_read(as_was)}"
    )


def _read(as_was: Trace) -> str:
    """What both sides pay at first, of which a run has a share in its prefill."""
    return " The first draft reads all the text before it, which is in both speeds." if as_was.drafter else ""


def _beside(new: str, old: str) -> str:
    return f"{new} both times" if new == old else f"{new} instead of {old}"


def parted(trace: Trace, as_was: Trace, index: int) -> str:
    """Where the rounds that were decoded again as they were are not those of the run; "" where they are."""
    rounds = zip(trace.steps[index:], as_was.steps, strict=False)
    ends = ((old, new.emitted[: len(old.emitted)] if old is trace.steps[-1] else new.emitted) for old, new in rounds)
    at = next((number for number, (old, new) in enumerate(ends, index + 1) if old.emitted != new), None)
    if at is None:
        return ""
    same = same_drafter(trace.drafter, as_was.drafter)
    heads = "" if same else f": {trace.drafter} drafted then, {as_was.drafter} now"
    return (
        f"What is unchanged is not what was recorded, from round {at} on{heads}. Another head, machine or "
        "version can do that."
    )


def _changes(as_was: Trace, would: Trace) -> list[str]:
    before, after = (asdict(Sampling(one.temperature, one.top_p, one.seed)) | one.settings for one in (as_was, would))
    found = [f"{name} {written(after[name])} instead of {written(before[name])}" for name in after
             if after[name] != before[name]]  # fmt: skip
    forced = _after_root(as_was, would)[: len(would.prompt) - len(as_was.prompt)]
    return found + ["“{}” forced".format("".join(would.piece(one) for one in forced))] * bool(forced)


def _after_root(as_was: Trace, one: Trace) -> list[int]:
    """The text of either run after the round's root, which neither decoded."""
    return [*one.prompt, *one.tokens][len(as_was.prompt) + 1 :]


def _text(as_was: Trace, would: Trace) -> str:
    ours, theirs = _after_root(as_was, as_was), _after_root(as_was, would)
    shared = min(len(ours), len(theirs))
    at = first_difference(ours[:shared], theirs[:shared])
    if at is None:
        return f"the same text as far as both went ({shared} token{'s' * (shared != 1)})"
    return f"another text from token {at + 1} after the root on"


def _tau(trace: Trace) -> str:
    return f"{tau(trace):.2f}" if trace.steps else "none"


def _drafted(trace: Trace) -> str:
    return f"{sum(len(step.tree) - 1 for step in trace.steps) / len(trace.steps):.1f}" if trace.steps else "none"
