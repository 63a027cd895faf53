"""The doctor's look at what only Jakiro's heads have: experts, and the contrastive feature, from which the last level
is drafted."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from jakiro.doctor.checks import Finding, suspected
from jakiro.doctor.evidence import Text, Wiring, say, say_ahead, say_apart
from jakiro.drafting.columns import overlap
from jakiro.drafting.eagle3_head import Eagle3Head
from jakiro.drafting.head import Head, JakiroHead
from jakiro.target import Target

LEAST = 1 / 3  # of the agreement of a level with a pass
ALIKE = 0.95  # of their likeliest tokens, which two experts may share at most
LIKELIEST = 10
EFFECT = 0.01  # nats a token by which an expert changes the mixture at least


def of_mixture(target: Target, head: Head | Eagle3Head, texts: list[Text], others: Iterable[Finding]) -> list[Finding]:
    """Both, beside what `others` found; nothing for other heads, nor for those that know too little to be held against
    themselves."""
    levels = next((one.numbers["agreement_by_level"] for one in others if one.check == "own features"), None)
    if levels is None or not isinstance(head, JakiroHead):
        return []
    return [experts(target, head, texts), contrastive(target, head, texts, levels[1])]


def experts(target: Target, head: JakiroHead, texts: list[Text]) -> Finding:
    """Whether each adds something: an expert that another repeats, or that no answer shows, is one for nothing."""
    chosen, best = say_apart(target, head, texts, LIKELIEST)
    whole, names = say(target, head, texts)[0].logprobs, range(len(best))
    alone = (best[..., 0] == chosen).float().mean(-1).tolist()
    effects = [(say(target, head, texts, Wiring(without=one))[0].logprobs - whole).abs().mean().item() for one in names]
    shared = {pair: overlap(best[[*pair]]).mean().item() for pair in combinations(names, 2)}
    numbers = {"agreement_alone": alone, "effect": effects, "shared": [*shared.values()]}
    text = f"alone they agree at {', '.join(f'{one:.1%}' for one in alone)}; two share "
    text += f"{', '.join(f'{one:.0%}' for one in shared.values())} of their {LIKELIEST} likeliest tokens"
    defects = [f"expert {one} changes nothing" for one in names if not effects[one] >= EFFECT]
    defects += [f"expert {second} repeats expert {one}" for (one, second), share in shared.items() if share > ALIKE]
    advice = "a head without it drafts the same; train one whose experts have losses of their own"
    first = next(iter(defects), "")
    return suspected("experts", text, numbers, bool(first), f"{first}: {advice}")


def contrastive(target: Target, head: JakiroHead, texts: list[Text], passed: float) -> Finding:
    """What a level without a pass has right, beside `passed`, which the second level with one has (Jakiro, arXiv
    2502.06282)."""
    share = say_ahead(target, head, texts).float().mean().item()
    text, numbers = f"{share:.1%} of the second tokens without a pass, {passed:.1%} with one", {"agreement": share}
    advice = "draft with contrastive=off, or train it with more weight on `contrast`"
    return suspected("contrastive level", text, numbers, not share >= LEAST * passed, advice)
