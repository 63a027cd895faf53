"""The doctor's look at what only Jakiro's heads have: the contrastive feature, from which the last level is drafted."""

from __future__ import annotations

from collections.abc import Iterable

from jakiro.doctor.checks import GOOD, SUSPECT, Finding
from jakiro.doctor.evidence import Text, say_ahead
from jakiro.drafting.eagle3_head import Eagle3Head
from jakiro.drafting.head import Head, JakiroHead
from jakiro.target import Target

LEAST = 1 / 3  # of the agreement of a level with a pass


def contrastive(target: Target, head: Head | Eagle3Head, texts: list[Text], others: Iterable[Finding]) -> list[Finding]:
    """What a level without a pass has right, beside the second level of `others` with one (Jakiro, arXiv 2502.06282).

    Nothing for other heads, nor for those that know too little to be held against themselves.
    """
    passed = next((one.numbers["agreement_by_level"][1] for one in others if one.check == "own features"), None)
    if passed is None or not isinstance(head, JakiroHead):
        return []
    share = say_ahead(target, head, texts).float().mean().item()
    text, numbers = f"{share:.1%} of the second tokens without a pass, {passed:.1%} with one", {"agreement": share}
    if share >= LEAST * passed:
        return [Finding("contrastive level", GOOD, text, numbers)]
    advice = "draft with contrastive=off, or train it with more weight on `contrast`"
    return [Finding("contrastive level", SUSPECT, f"{text}; {advice}", numbers)]
