"""Where the rounds of a run stopped, and what would have brought a token more: `endings`, told apart further."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from jakiro.analysis import endings
from jakiro.analysis.endings import at_stop, ended_early, ending, expert_ranks, lacked, levels
from jakiro.trace import StepTrace, Trace
from jakiro.tree import MAX_LEVELS

# beside endings' own
FULL, COPY, SHORT, NARROW = "full", "copy", "short", "narrow"
NEAR, LOW, FAR, DRAWN, LACKED = "near", "low", "far", "drawn", "lacked"

PARTED = (NEAR, LOW, FAR, DRAWN)  # of them, those in which an expert alone may have had the target's choice


class Way(NamedTuple):
    """A way for a round to stop."""

    name: str
    more: str  # what would have brought a token more there, or more tokens, in a few words; "" where nothing is known
    remedy: str  # that in a sentence


STOPS = {
    FULL: Way("all levels accepted", "a deeper draft", "a deeper draft might have brought more"),
    COPY: Way(
        "all of a copy accepted",
        "a larger total_tokens",
        "a copy is as long as a tree has nodes: a larger total_tokens might have brought more",
    ),
    SHORT: Way("the draft went no further", "", "nothing was drafted there, though the budget had room"),
    NARROW: Way(
        "not expanded",
        "a larger top_k",
        "the accepted node was not among the best of its level: a larger top_k expands more",
    ),
    endings.CUT: Way(
        "cut by the budget",
        "a larger total_tokens",
        "the target's choice was drafted: a larger total_tokens would have kept it",
    ),
    NEAR: Way(
        "just below the top-k",
        "twice the top_k",
        "the target's choice was among the next top_k: twice the top_k may have it",
    ),
    LOW: Way(
        "below top-k and budget",
        "more of both",
        "the target's choice was among the next top_k, but too low for the tree: top_k and total_tokens have to grow",
    ),
    FAR: Way(
        "far below the top-k",
        "a better drafter",
        "the target's choice ranked below twice the top_k: that takes a better drafter",
    ),
    DRAWN: Way(
        "an unlikely draw",
        "coupled drafts",
        "the target drew what it finds unlikely itself: a better drafter may not have it, a coupled one knows the draw",
    ),
    LACKED: Way(
        "not in the vocabulary",
        "another drafter",
        "the draft's vocabulary lacks the target's choice: that takes another drafter",
    ),
    endings.WRONG: Way("not drafted", "", "the target chose another token; what would have had it is not known"),
    endings.NOTHING_DRAFTED: Way("nothing drafted", "", "there was no draft to accept"),
    endings.TEXT_END: Way("end of the text", "", "nothing may follow"),
}


@dataclass(frozen=True, slots=True)
class Stopped:
    """The rounds that stopped in one way."""

    where: str  # of STOPS
    rounds: int
    alone: int | None  # of them, those in which one expert alone had the target's choice in its top-k; None: not known


def stop(trace: Trace, index: int) -> str:
    """Where round `index` stopped: a key of STOPS."""
    step, ends = trace.steps[index], ending(trace, index)
    if ends == endings.DRAFT_END:
        if len(step.accepted) >= levels(trace, step):
            longer = step.tree.copied and trace.number("lookup") and len(step.accepted) < MAX_LEVELS
            return COPY if longer else FULL
        if ended_early(trace, step):
            return SHORT
        narrow = "pick_rank" in step.tree.columns and "top_k" in trace.settings  # else every node is expanded
        return NARROW if narrow else endings.WRONG
    if ends == endings.UNPROPOSED:
        if lacked(step):
            return LACKED
        rank, width = at_stop(step, "pick_rank"), trace.number("top_k")
        if width is None:
            return endings.WRONG
        if rank >= 2 * width:
            if _drawn(trace, step, 2 * width):
                return DRAWN
            return endings.WRONG if _next_of_one(trace, step, 2 * width) else FAR
        score, cutoff = at_stop(step, "pick_score"), at_stop(step, "cutoff")
        full = _filled(trace, index, width)  # else there was room for a node of any score
        return LOW if full and score is not None and cutoff is not None and score <= cutoff else NEAR
    return ends


def _filled(trace: Trace, index: int, width: int) -> bool:
    """Whether a round's nodes filled the budget, or did before levels were cut off that the text has no room for: of
    EAGLE's tree, which chooses from `width` nodes on the first level and their children on each further one."""
    tree, budget, depth = trace.steps[index].tree, trace.number("total_tokens") or 0, trace.number("depth") or 0
    room = sum(len(step.emitted) for step in trace.steps[index : index + depth + 1]) - 1  # or `depth` at least
    short = trace.stop in ("length", "context") and max(tree.depths()) == room < depth
    return len(tree) >= budget or (short and 1 + width + (depth - 1) * width**2 >= budget)


def _drawn(trace: Trace, step: StepTrace, width: int) -> bool:
    """Whether the target drew its choice, unknown to the draft, and may not have it among its own likeliest `width`: at
    most so many tokens have a probability of 1 / `width` or more."""
    logprob = at_stop(step, "pick_logprob")
    unknown = trace.temperature > 0 and trace.settings.get("coupled") is not True
    return unknown and (logprob is None or logprob < -math.log(width))


def _next_of_one(trace: Trace, step: StepTrace, width: int) -> bool:
    """Whether an expert that proposes by itself has the target's choice among its likeliest `width`: ranks put it last,
    as none does now, so they do not tell what more candidates would bring."""
    apart = trace.settings.get("candidates") == "decoupled" and not endings.alone(trace)
    return apart and min(expert_ranks(step) or [width]) < width


def stops(trace: Trace) -> list[Stopped]:
    """Counts over the run of the ways that occur, in the order of STOPS."""
    found: dict[str, list[bool | None]] = defaultdict(list)
    for index, step in enumerate(trace.steps):
        found[stop(trace, index)].append(_alone(trace, step))
    ways = [(where, found[where]) for where in STOPS if where in found]
    return [Stopped(where, len(alone), None if {*alone} == {None} else sum(map(bool, alone))) for where, alone in ways]


def _alone(trace: Trace, step: StepTrace) -> bool | None:
    """Whether one of two experts alone would have proposed the target's choice where the walk stopped."""
    ranks, width = expert_ranks(step), trace.number("top_k")
    return None if ranks is None or width is None else sum(rank < width for rank in ranks) == 1
