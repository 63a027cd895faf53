"""How rounds end, and which are worth a look: functions of the trace."""

from __future__ import annotations

from jakiro.graph import draft_probabilities
from jakiro.trace import StepTrace, Trace
from jakiro.tree import LOWEST

# Ways in which a round ends.
TEXT_END = "text end"  # end of text, length cap, or the target's context is full
NOTHING_DRAFTED = "nothing drafted"
DRAFT_END = "draft end"  # the draft went no further than what was accepted
WRONG = "wrong"  # there were candidates, none of them the target's choice; its rank is not known
CUT = "cut"  # the target's choice was drafted, and cut by the node budget
UNPROPOSED = "unproposed"  # it was not among the candidates

SURE = 0.5  # draft probability from which a rejected candidate is a surprise

# What makes a round worth a look -> its name, and what it means.
MOMENTS = {
    "rescue": ("rescue", "An accepted token was in one expert's top-k alone."),
    "surprise": (
        "sure, but wrong",
        f"The draft gave a candidate a probability of at least {SURE}, and the target preferred another token.",
    ),
    "full": ("all accepted", "Every level of the draft was accepted: a deeper one might have brought more."),
    "cut": ("cut", "The target's choice had been drafted, but did not fit into the node budget."),
}


def ending(trace: Trace, index: int) -> str:
    """Why round `index` brought no more tokens than it did."""
    step = trace.steps[index]
    if index == len(trace.steps) - 1 and trace.stop != "stopped":  # which says nothing about the last round
        return TEXT_END
    if len(step.tree) == 1:
        return NOTHING_DRAFTED
    rank, width = at_stop(step, "pick_rank"), trace.number("top_k") or trace.number("remembered")
    if (step.stop_node, step.bonus) in zip(step.tree.cut.parents, step.tree.cut.tokens, strict=True):
        return CUT
    if rank is None:
        return WRONG if step.tree.below(step.stop_node) else DRAFT_END
    return CUT if width is not None and rank < width and not lacked(step) else UNPROPOSED


def moments(trace: Trace, index: int) -> list[str]:
    """What makes round `index` worth a look: keys of MOMENTS, in their order."""
    step = trace.steps[index]
    tree, ends = step.tree, ending(trace, index)
    source = tree.columns.get("source", [None] * len(tree))
    q = draft_probabilities(tree)
    noisy = trace.settings.get("coupled") is True and trace.temperature > 0  # its q is given the target's noise
    rejected = tree.below(step.stop_node)
    sure = not noisy and any((q[node] or 0) >= SURE and _outdone(trace, step, node) for node in rejected)
    found = {
        "rescue": not alone(trace) and any(source[node] in (0, 1) for node in step.accepted),
        "surprise": ends != TEXT_END and sure,
        "full": ends != TEXT_END and 0 < len(step.accepted) == levels(trace, step),
        "cut": ends == CUT,
    }
    return [name for name in MOMENTS if found[name]]


def _outdone(trace: Trace, step: StepTrace, node: int) -> bool:
    """Whether the target prefers its own choice to a rejected candidate: at a temperature chance may reject one."""
    chosen, own = at_stop(step, "pick_logprob"), step.target_logprobs[node]
    return trace.temperature == 0 or (chosen is not None and own is not None and own < chosen)


def alone(trace: Trace) -> bool:
    """Whether one of two experts alone proposed, by the setting `expert`: it rescues nothing, as it has no rival."""
    return trace.settings.get("expert") in ("0", "1")


def levels(trace: Trace, step: StepTrace) -> int:
    """How deep a draft could get; a copy, as far as it goes."""
    deepest = max(step.tree.depths())
    return deepest if step.tree.copied else trace.number("depth") or deepest


def ended_early(trace: Trace, step: StepTrace) -> bool:
    """Whether nothing was drafted below what was accepted, though a level was to come: so ends a draft model that may
    read less than its target. Of a level that was expanded the best `top_k` are in the tree.
    """
    tree, level = step.tree, len(step.accepted)
    ranks, depths = tree.columns.get("pick_rank"), tree.depths()
    if ranks is None or max(depths) > level:
        return False
    expanded = {depth for depth, rank in zip(depths, ranks, strict=True) if rank is not None}
    if expanded and trace.number("top_k"):
        return level not in expanded
    return not len(tree.cut) and len(tree) < (trace.number("total_tokens") or 0)


def lacked(step: StepTrace) -> bool:
    """Whether the draft's vocabulary has not the target's choice where the walk stopped."""
    return at_stop(step, "pick_draft_logprob") == LOWEST


def expert_ranks(step: StepTrace) -> list[float] | None:
    """Ranks of the target's choice where the walk stopped under expert 0 and expert 1; None where one is not known."""
    ranks = [at_stop(step, f"pick_expert{expert}_rank") for expert in (0, 1)]
    return None if None in ranks else ranks


def at_stop(step: StepTrace, column: str) -> float | None:
    """A column's value at the node where the walk stopped; None where the trace has it not."""
    values = step.tree.columns.get(column)
    return None if values is None else values[step.stop_node]
