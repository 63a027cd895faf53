"""A run in one sentence: what drafting brought, whose candidates saved rounds, where drafts end."""

from __future__ import annotations

from jakiro.diversity import run_diversity
from jakiro.metrics import conditional_acceptance_by_depth, tau, tokens_per_second
from jakiro.trace import Trace


def headline(trace: Trace, title: str, vanilla: Trace | None) -> str:
    """Plain text. `vanilla` is the race's own run of that method, where it has one."""
    if not trace.steps:
        return f"{title} ended with its first token: there are no rounds."
    rounds = len(trace.steps)
    drafted = sum(len(step.tree) - 1 for step in trace.steps) / rounds
    if not drafted:
        return f"{title} drafts nothing: one pass of the target for every token, {rounds} of them."
    accepted = sum(len(step.accepted) for step in trace.steps) / rounds
    text = (
        f"{title} drafted {drafted:.1f} tokens a round, {accepted:.2f} of them were accepted, which makes "
        f"{tau(trace):.2f} tokens a pass of the target{_speed(trace, vanilla)}."
    )
    return " ".join([text, *_rescues(trace), *_weakest(trace)])


def _speed(trace: Trace, vanilla: Trace | None) -> str:
    if vanilla is None or not (base := tokens_per_second(vanilla)) or not (own := tokens_per_second(trace)):
        return ""
    return f" and {own / base:.2f} times vanilla's speed"


def _rescues(trace: Trace) -> list[str]:
    found = run_diversity(trace)
    if found is None or found.rescued_rounds is None or found.accepted_by_source is None:
        return []
    alone = found.accepted_by_source[:2]
    return [
        f"In {found.rescued_rounds} of {len(trace.steps)} rounds one expert alone had accepted tokens: "
        f"{alone[0]} from expert 0, {alone[1]} from expert 1."
    ]


def _weakest(trace: Trace) -> list[str]:
    rates = [(rate, depth) for depth, rate in enumerate(conditional_acceptance_by_depth(trace), 1) if rate is not None]
    if not rates:
        return []
    rate, depth = min(rates)
    return [f"The weakest level is depth {depth}: of the rounds that got there, {rate:.0%} had a token accepted."]
