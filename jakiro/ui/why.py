"""One sentence a round: why it ended where it did, derived from the trace alone."""

from __future__ import annotations

from jakiro.analysis import endings
from jakiro.analysis.endings import at_stop, ended_early, ending, expert_ranks, lacked
from jakiro.graph import draft_logprobs, probability
from jakiro.trace import StepTrace, Trace, kind_of
from jakiro.ui.figures.labels import counted, quote

ENDS = {
    "eos": "The text is finished: the target chose the end token",
    "length": "The length cap is reached: the last token allowed is",
    "context": "The target's context is full: the last token that fits is",
}


def whys(trace: Trace) -> list[str]:
    """Why each round ended: end of text, nothing drafted, the draft stopped there, cut by the budget, not proposed.

    Plain text with token pieces in quotes; it is shown as text, never as mark-up. Ranks count from 1.
    """
    idle = f"{_idle(trace)}: the pass gave one token, the target's own choice"
    ended = [ending(trace, index) for index in range(len(trace.steps))]
    return [
        f"{idle} {_bonus(trace, step)}." if how == endings.NOTHING_DRAFTED else SENTENCES[how](trace, step)
        for step, how in zip(trace.steps, ended, strict=True)
    ]


def _end_of_text(trace: Trace, step: StepTrace) -> str:
    held = any(step.tree.tokens[child] == step.bonus for child in step.tree.below(step.stop_node))
    drafted = ", which the draft had proposed too" if held else ""
    return f"{ENDS[trace.stop]} {_bonus(trace, step)}{drafted}."


def _idle(trace: Trace) -> str:
    """Why rounds without a draft have none."""
    if trace.number("total_tokens") == 1:
        return "The budget of 1 node is the root's, so nothing was drafted"
    if any(_copies(step) for step in trace.steps) and "lookup" not in trace.settings:
        return "The last tokens occur nowhere earlier in the text, so there was nothing to copy"
    if "remembered" in trace.settings:
        return "What may follow the last token is not known yet, so there was nothing to recycle"
    if any(len(step.tree) > 1 for step in trace.steps):
        return "Nothing was drafted in this round"
    return "This method drafts nothing" if trace.method == "vanilla" else "Nothing was drafted in this run"


def _all(trace: Trace, step: StepTrace, what: str, count: int) -> str:
    they = {1: f"The only {what} was", 2: f"Both {what}s were"}.get(count, f"All {count} {what}s were")
    return f"{they} accepted, and the target added {_bonus(trace, step)}."


def _copies(step: StepTrace) -> bool:
    """Whether it is known where tokens were copied from; what has no probabilities may be a guess."""
    return any(place is not None for place in step.tree.columns.get("copied_from", ()))


def _draft_ended(trace: Trace, step: StepTrace) -> str:
    """The draft never looked past the node."""
    if step.tree.copied and len(step.accepted) == len(step.tree) - 1:
        return _all(trace, step, "copied token" if _copies(step) else "drafted token", len(step.accepted))
    depth = trace.number("depth")
    if depth is not None and len(step.accepted) >= depth:
        return _all(trace, step, "level", depth)
    after = _after(trace, step)
    width = trace.number("top_k") if "pick_rank" in step.tree.columns else None
    reason = "the tree has nothing after it" if width is None else f"it was not among the {width} best of its level"
    if ended_early(trace, step):
        model = kind_of(trace.method) == "draft_model"  # whose own context may be full
        reason = "the draft model reads no further" if model else "nothing was drafted there, though there was room"
    return f"The draft stopped at {after}: {reason}, and the target chose {_bonus(trace, step)}."


def _wrong_candidates(trace: Trace, step: StepTrace) -> str:
    """The candidates are known, the rank of the target's choice is not."""
    children = step.tree.below(step.stop_node)
    if step.tree.copied:
        wrong = " or ".join(_candidate(trace, step, child) for child in children)
        what = "copy" if _copies(step) else "draft"
        return f"The {what} went on with {wrong}, but the target chose {_bonus(trace, step)}."
    after, best = _after(trace, step), _favourite(trace, step, children)
    return f"The target chose {_bonus(trace, step)}, which was not proposed after {after}; the draft preferred {best}."


def _cut(trace: Trace, step: StepTrace) -> str:
    score, cutoff = at_stop(step, "pick_score"), at_stop(step, "cutoff")
    budget = trace.number("total_tokens")
    nodes = "the node budget" if budget is None else f"the budget of {counted(budget, 'node')}"
    scores = ""
    if score is not None and cutoff is not None and score <= cutoff:
        own, last = _signed(score), _signed(cutoff)
        than = "that" if own == last else f"{last}, that"
        scores = f": its path score {own} is not above {than} of the last node kept"
    return (
        f"The target chose {_bonus(trace, step)}, which the draft proposed after {_after(trace, step)}"
        f"{_ranked(step, ' (', ')')} but cut to {nodes}{scores}."
    )


def _not_proposed(trace: Trace, step: StepTrace) -> str:
    children = step.tree.below(step.stop_node)
    best = f"; the draft preferred {_favourite(trace, step, children)}" if children else ""
    chose = f"The target chose {_bonus(trace, step)}, which"
    if lacked(step):
        return f"{chose} the draft's vocabulary lacks{best}."
    width = trace.number("top_k")
    limit = "" if width is None else f", top_k is {width}"
    union = trace.settings.get("candidates") == "decoupled"  # what an expert proposes may not be among them
    where = "is not in the tree" if width is None else "was not among the candidates" if union else "was not proposed"
    return f"{chose} {where} after {_after(trace, step)}:{_ranked(step, ' ')}{limit}{_experts(step, width)}{best}."


def _experts(step: StepTrace, width: int | None) -> str:
    """What each expert alone made of the target's choice; the one that would have proposed it first."""
    ranks = expert_ranks(step)
    if ranks is None:
        return ""
    places = [ordinal(rank + 1) for rank in ranks]
    inside = [expert for expert in (0, 1) if width is not None and ranks[expert] < width]
    if len(inside) == 1:
        [own], other = inside, 1 - inside[0]
        return f"; expert {own} alone had it {places[own]}, expert {other} {places[other]}"
    return f"; alone, expert 0 had it {places[0]} and expert 1 {places[1]}"


def _ranked(step: StepTrace, before: str, after: str = "") -> str:
    """The rank of the target's choice in the draft; nothing where it is not known."""
    rank, logq = at_stop(step, "pick_rank"), at_stop(step, "pick_draft_logprob")
    q = "" if logq is None else f" with q {_number(probability(logq))}"
    return "" if rank is None else f"{before}ranked {ordinal(rank + 1)} by the draft{q}{after}"


def _favourite(trace: Trace, step: StepTrace, children: list[int]) -> str:
    best = max(children, key=lambda node: (step.tree.scores[node], -node))
    return _candidate(trace, step, best, probability(draft_logprobs(step.tree)[best]))


def _candidate(trace: Trace, step: StepTrace, node: int, q: float | None = None) -> str:
    """A drafted token with its probabilities, those that are known."""
    pairs = ("q", q), ("p", probability(step.target_logprobs[node]))
    known = ", ".join(f"{name} {_number(share)}" for name, share in pairs if share is not None)
    return quote(trace.piece(step.tree.tokens[node])) + (f" ({known})" if known else "")


def _after(trace: Trace, step: StepTrace) -> str:
    return quote(trace.piece(step.tree.tokens[step.stop_node]))


def _bonus(trace: Trace, step: StepTrace) -> str:
    """The target's own token with its probability, where the trace has it."""
    logp = at_stop(step, "pick_logprob")
    share = "" if logp is None else f" (p {_number(probability(logp))})"
    return quote(trace.piece(step.bonus)) + share


def ordinal(number: float) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    number = int(number)
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _number(share: float) -> str:
    """A probability with two decimals, or two digits where it is smaller."""
    if share >= 0.1 or share == 0:
        return f"{share:.2f}"
    return f"{share:.2g}" if share >= 1e-4 else "< 0.0001"


def _signed(score: float) -> str:
    return f"{round(score, 3) + 0.0:.3f}".replace("-", "−")  # no negative zero


SENTENCES = {
    endings.TEXT_END: _end_of_text,
    endings.DRAFT_END: _draft_ended,
    endings.WRONG: _wrong_candidates,
    endings.CUT: _cut,
    endings.UNPROPOSED: _not_proposed,
}
