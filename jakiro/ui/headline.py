"""A run in one sentence: what drafting brought, whose candidates saved rounds, where drafts end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from jakiro.analysis.diversity import run_diversity
from jakiro.metrics import reached, recording, seconds, tau, tokens_per_second, tried
from jakiro.trace import Trace
from jakiro.ui.figures.labels import counted

NOTABLE = 0.05  # of the rounds' seconds, from which on it is said what recording took besides
FEW = 5  # rounds that a level has to be reached in before it can be called the weakest


def headline(trace: Trace, title: str, vanilla: Trace | None) -> str:
    """Plain text. `vanilla` is the run that its speed is held against, where there is one (`metrics.baseline`)."""
    if not trace.steps:
        ended = "was stopped after" if trace.stop == "stopped" else "ended with"
        return f"{title} {ended} its first token: there are no rounds."
    rounds = len(trace.steps)
    drafted = sum(len(step.tree) - 1 for step in trace.steps) / rounds
    if not drafted:
        nothing = "drafts nothing" if trace.method == "vanilla" else "drafted nothing in this run"
        return f"{title} {nothing}: one pass of the target for every token after the first, {rounds} of them."
    accepted = sum(len(step.accepted) for step in trace.steps) / rounds
    text = (
        f"{title} drafted {drafted:.1f} tokens a round, {accepted:.2f} of them were accepted, which makes "
        f"{tau(trace):.2f} tokens a pass of the target{_speed(trace, vanilla)}."
    )
    if trace.stop == "stopped" and not trace.branch:
        text += f" It was stopped after {len(trace.tokens)} tokens."
    return " ".join([text, *_copies(trace), *_rescues(trace), *_weakest(trace)])


def _speed(trace: Trace, vanilla: Trace | None) -> str:
    if vanilla is None or not (base := tokens_per_second(vanilla)) or not (own := tokens_per_second(trace)):
        return ""
    text = f" and {own / base:.2f} times vanilla's speed"
    if max(recording(run) / sum(seconds(run).values()) for run in (trace, vanilla)) < NOTABLE:
        return text
    whole = [(len(run.tokens) - 1) / (sum(seconds(run).values()) + recording(run)) for run in (trace, vanilla)]
    shared = ", though tapes serve all lanes" if trace.threads else ""  # CUDA graphs are each run's own
    return f"{text} ({whole[0] / whole[1]:.2f} times with what recording took{shared})"


def _copies(trace: Trace) -> list[str]:
    """Of a run that copies in place of some drafts."""
    found = [len(step.accepted) for step in trace.steps if step.tree.copied]
    if not found or "lookup" not in trace.settings:
        return []
    return [
        f"In {len(found)} of {len(trace.steps)} rounds it copied from the text in place of a draft, and "
        f"{sum(found) / len(found):.2f} tokens of a copy were accepted."
    ]


def _rescues(trace: Trace) -> list[str]:
    found = run_diversity(trace)
    if found is None or found.rescued_rounds is None or found.accepted_by_source is None:
        return []
    alone = found.accepted_by_source[:2]
    if not any(alone):
        return ["In no round was an accepted token in the top-k of one expert alone."]
    return [
        f"In {found.rescued_rounds} of {len(trace.steps)} rounds an accepted token was in the top-k of one expert "
        f"alone: {counted(alone[0], 'token')} in expert 0's, {alone[1]} in expert 1's."
    ]


def _weakest(trace: Trace) -> list[str]:
    """Of copies alone, or of what was drafted: a copy has levels that no draft beside it has."""
    own = [step for step in trace.steps if not step.tree.copied]
    drafts, of = replace(trace, steps=own or trace.steps), " of its drafts" if 0 < len(own) < len(trace.steps) else ""
    levels = enumerate(zip(pairwise(reached(drafts)), tried(drafts), strict=True), 1)
    rates = [(here / there, depth, here, had, there) for depth, ((there, here), had) in levels if there >= FEW]
    if len(rates) < 2:
        return []  # nothing to be weaker than
    _, depth, here, had, there = min(rates)
    return [
        f"The weakest level{of} is depth {depth}: of the {there} rounds that got there, {had} had candidates that "
        f"could be accepted, and {here} accepted one."
    ]
