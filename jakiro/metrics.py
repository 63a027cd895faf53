"""Numbers of a run: how much each target pass brought, where the time went, and where two runs part.

Names in `totals` follow vLLM's speculative-decoding metrics. A depth counts levels below the root; the bonus is not
counted as accepted, but it is one of the tokens of its round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, zip_longest
from typing import Any

from jakiro.hashing import gumbel_of
from jakiro.trace import StepTrace, Trace, walk_positions


def tau(trace: Trace) -> float | None:
    """Mean tokens per verify pass, bonus counted = 1 + mean accepted. None for a run without rounds."""
    return _ratio(len(trace.tokens) - 1, len(trace.steps))


def paper_tau(trace: Trace) -> float | None:
    """What the papers of this field print as tau: the same tokens over one round too few.

    The released evaluation code divides by the 0-based index of the last round. Only to compare with published tables.
    """
    return _ratio(len(trace.tokens) - 1, len(trace.steps) - 1)


def running_tau(trace: Trace) -> list[float]:
    """tau up to and including each round, [rounds]."""
    totals = accumulate(len(step.emitted) for step in trace.steps)
    return [total / count for count, total in enumerate(totals, start=1)]


def acceptance_histogram(trace: Trace) -> list[int]:
    """Number of rounds that accepted 0, 1, 2, ... drafted tokens, up to the deepest level drafted."""
    histogram = [0] * (max_depth(trace) + 1)
    for step in trace.steps:
        histogram[len(step.accepted)] += 1
    return histogram


def reached(trace: Trace) -> list[int]:
    """Rounds that accepted at least d tokens, for d = 0, 1, ..., [max depth + 1]."""
    return [sum(len(step.accepted) >= depth for step in trace.steps) for depth in range(max_depth(trace) + 1)]


def tried(trace: Trace) -> list[int]:
    """Rounds that accepted d - 1 tokens and had a candidate after them, for d = 1, 2, ..., [max depth].

    One whose last token had been drafted and ended the text there is left out: it is neither accepted nor rejected.
    """
    found = [0] * max_depth(trace)
    for step in trace.steps:
        children = [step.tree.tokens[node] for node in step.tree.below(step.stop_node)]
        stopped = bool(children) and step.bonus not in children
        for depth in range(len(step.accepted) + stopped):
            found[depth] += 1
    return found


def acceptance_by_depth(trace: Trace) -> list[float]:
    """Share of all rounds that accepted at least d tokens, for d = 1, 2, ..."""
    found = reached(trace)
    return [count / found[0] for count in found[1:]] if found[0] else []


def conditional_acceptance_by_depth(trace: Trace) -> list[float | None]:
    """Of the rounds that accepted d - 1 tokens, the share that accepted the d-th too; None where there was none.

    A round whose tree ended at depth d - 1, or whose text ended there, counts as one that did not.
    """
    return [_ratio(here, above) for above, here in pairwise(reached(trace))]


def max_depth(trace: Trace) -> int:
    """The deepest level drafted in any round; 0 where nothing was drafted."""
    return max((max(step.tree.depths()) for step in trace.steps), default=0)


def seconds(trace: Trace) -> dict[str, float]:
    """Seconds of all rounds by phase: draft, verify, overhead. Prefill is not in it."""
    return {
        phase: sum(getattr(step, f"{phase}_s") for step in trace.steps) for phase in ("draft", "verify", "overhead")
    }


def recording(trace: Trace) -> float:
    """Seconds in which programs were recorded: in no other seconds, and in no speed."""
    return sum(step.recording_s for step in trace.steps)


def time_shares(trace: Trace) -> dict[str, float]:
    """Share of each phase in the time of the rounds; empty where no time was recorded."""
    spent = seconds(trace)
    whole = sum(spent.values())
    return {phase: part / whole for phase, part in spent.items()} if whole > 0 else {}


def tokens_per_second(trace: Trace) -> float | None:
    """Decode speed: tokens after the first over the seconds of the rounds. Prefill and its token are not counted."""
    return _ratio(len(trace.tokens) - 1, sum(seconds(trace).values()))


def clock(trace: Trace) -> list[float]:
    """Seconds on the run's own clock at which each round was done, prefill included, [rounds]."""
    return [*accumulate((step.seconds for step in trace.steps), initial=trace.prefill_s)][1:]


def totals(trace: Trace) -> dict[str, Any]:
    """The run in one row, under vLLM's names where vLLM has one."""
    drafted = sum(len(step.tree) - 1 for step in trace.steps)
    accepted = sum(len(step.accepted) for step in trace.steps)
    return {
        "num_tokens": len(trace.tokens),
        "num_rounds": len(trace.steps),
        "num_draft_tokens": drafted,
        "num_accepted_draft_tokens": accepted,
        "draft_acceptance_rate": _ratio(accepted, drafted),
        "mean_acceptance_length": tau(trace),
        "paper_tau": paper_tau(trace),
        "acceptance_rate_per_position": acceptance_by_depth(trace),
        "conditional_acceptance_rate_per_position": conditional_acceptance_by_depth(trace),
        "acceptance_histogram": acceptance_histogram(trace),
        "tokens_per_second": tokens_per_second(trace),
        "prefill_s": trace.prefill_s,
        **{f"{phase}_s": spent for phase, spent in seconds(trace).items()},
        "recording_s": recording(trace),
    }


STEPS = 4  # ULPs by which two logits were seen to come closer or part with the number of rows in a pass
# dtype -> nats by which rounding moves two logits: STEPS of those from 16 to 32; in float32, where sums differ by more
# than what one rounds, twice what was seen
ROUNDING = {"bfloat16": STEPS * 2.0**-3, "float16": STEPS * 2.0**-6, "float32": 1e-4}


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where two runs on the same prompt emit different tokens."""

    at: int  # index in both token lists
    ours: int | None  # None: this run had ended
    theirs: int | None
    margin: float | None  # by how much the target preferred ours (nats); None where the traces do not say
    tie: bool = False  # rounding in the coarser of the runs' dtypes explains the margin
    edge: bool = False  # it may be that in half precision one pass kept a token at the edge of top_p, the other not


def coarsest(traces: Sequence[Trace]) -> str:
    """The dtype of the runs that rounds most."""
    return max((trace.dtype for trace in traces), key=lambda dtype: ROUNDING.get(dtype, 0.0))


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """Index of the first token that differs (or that only one list has); None for equal lists."""
    pairs = enumerate(zip_longest(ours, theirs))
    return next((i for i, (a, b) in pairs if a != b), None)


def divergence(ours: Trace, theirs: Trace) -> Divergence | None:
    """Where two runs part and by how much the target preferred one token; None for identical outputs, and for outputs
    that are so as far as the shorter one goes, if that run did not end its text.

    The margin is log p(ours) - log p(theirs), where the target samples divided by the temperature and with the noise of
    both. Near zero it means a numeric near-tie (with a top_p, a token at the edge of what is kept may part runs, too).
    Both log-probabilities come from one run where one run knows both; else each from the run that chose it, which have
    the same prefix but may differ by rounding.
    """
    at = first_difference(ours.tokens, theirs.tokens)
    shorter = min(ours, theirs, key=lambda trace: len(trace.tokens))
    if at is None or (at == len(shorter.tokens) and shorter.stop != "eos"):
        return None
    a, b = (trace.tokens[at] if at < len(trace.tokens) else None for trace in (ours, theirs))
    sources = ((ours, ours), (theirs, theirs), (ours, theirs))
    pairs = [(_logprob_at(first, at, a), _logprob_at(second, at, b)) for first, second in sources]
    margin = next((p - q for p, q in pairs if p is not None and q is not None), None)
    if margin is not None and ours.temperature:
        noise = [gumbel_of(ours.seed, len(ours.prompt) + at, token) for token in (a, b)]
        margin = margin / ours.temperature + noise[0] - noise[1]
    dtype = coarsest([ours, theirs])
    tie = margin is not None and abs(margin) <= ROUNDING.get(dtype, 0.0) / (ours.temperature or 1.0)
    edge = dtype in ("bfloat16", "float16") and ours.temperature > 0 and ours.top_p < 1
    return Divergence(at, a, b, margin, tie, edge and not tie)


def comparable(traces: Sequence[Trace]) -> bool:
    """Whether one text was asked of all runs, which lossless methods then give: one target, prompt and sampling.

    Rounds that were decoded again with something changed may give another, so they are like their own kind alone.
    """
    return len({(one.branch, one.target, tuple(one.prompt), *_sampling(one)) for one in traces}) <= 1


def baseline(trace: Trace, traces: Sequence[Trace]) -> int | None:
    """Index of the vanilla run that this one's speed may be held against: asked the same, on the same device."""
    vanilla = (index for index, one in enumerate(traces) if one.method == "vanilla" and comparable([one, trace])
               and (one.device, one.dtype) == (trace.device, trace.dtype))  # fmt: skip
    return next(vanilla, None)


def _sampling(trace: Trace) -> tuple[float, ...]:
    return (trace.temperature, trace.top_p, trace.seed) if trace.temperature else (0,)


def _logprob_at(trace: Trace, at: int, token: int | None) -> float | None:
    """Log p of `token` as the `at`-th token of this run's text under the target; None where the trace does not say."""
    for start, step in walk_positions(trace):
        if token is not None and start <= at < start + len(step.emitted):
            parent = ([0, *step.accepted])[at - start]
            return _logprob_after(step, parent, token)
    return None


def _logprob_after(step: StepTrace, parent: int, token: int) -> float | None:
    if node := step.tree.children().get((parent, token)):
        return step.target_logprobs[node]
    columns = step.tree.columns
    if "pick" in columns and "pick_logprob" in columns and columns["pick"][parent] == token:
        return columns["pick_logprob"][parent]
    return None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
