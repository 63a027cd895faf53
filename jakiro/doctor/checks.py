"""The doctor's check list: each check is a measurement, a verdict, and a sentence that says what to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import torch

from jakiro.analysis import calibration
from jakiro.doctor.evidence import ORDERS, SHORT, Said, Text, Wiring, say
from jakiro.drafting.eagle3_head import Eagle3Head, layers
from jakiro.drafting.head import Head
from jakiro.models.loading import last_norm
from jakiro.target import Target

GOOD, SUSPECT, WRONG, UNKNOWN = ("good", "suspect", "wrong", "unknown")
GAIN = 0.05  # nats a token that another wiring must bring at least, on average
SIGMA = 4.0  # and by how many standard errors
LITTLE = 0.25  # agreement at which a draft of first choices brings a third of a token a pass
LEVELS = 4
BINS = 5
MOST = 0.9  # of an answer's tokens, at least, that a head should have in its vocabulary
THETAS = (100.0, 10_000.0, 100_000.0, 500_000.0, 1_000_000.0)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    verdict: str  # GOOD, SUSPECT, WRONG or UNKNOWN
    text: str
    numbers: dict[str, object] = field(default_factory=dict)


def entered(target: Target, head: Head | Eagle3Head) -> set[int]:
    """The target's layers whose inputs the checks of a head need."""
    if not isinstance(head, Eagle3Head):
        return set()
    return {layer for some in (layers(target, head.config), *_other_layers(target, head).values()) for layer in some}


def _other_layers(target: Target, head: Eagle3Head) -> dict[str, tuple[int, ...]]:
    """What EAGLE-3's head may have been made for instead of what it is said to read."""
    reads, usual = layers(target, head.config), layers(target)
    found = {"the last of them first": reads[::-1]}
    if reads != usual and len(reads) == len(usual):
        found["the usual layers"] = usual
    for name, step in (("what enters a layer earlier", -1), ("what enters a layer later", 1)):
        if min(reads) + step >= 0 and max(reads) + step < len(target.decoder.layers):
            found[name] = tuple(layer + step for layer in reads)
    return found


def examine(target: Target, head: Head | Eagle3Head, texts: list[Text], plain: list[Text]) -> list[Finding]:
    """All checks of a head that has been loaded. `plain` are answers to the same prompts without the chat template."""
    own = isinstance(head, Eagle3Head)
    vocabulary = [_vocabulary(head, texts)] if own else []
    if vocabulary and not vocabulary[0].numbers["share"]:
        return vocabulary
    said, second, *_ = levels = say(target, head, texts, levels=LEVELS)
    if any(level.logprobs.isnan().any() for level in levels):
        lost = next((name for name, one in head.state_dict().items() if not one.isfinite().all()), "")
        other = "use bfloat16 or float32" if target.dtype == torch.float16 else "use another head"
        remedy = f"{lost} has such, so download the head again, or train it anew" if lost else other
        return [Finding("numbers", WRONG, f"it answers with what is no number in {target.dtype}: {remedy}")]
    fed = partial(_wiring, target, head)
    found = [_agreement(said), *vocabulary]
    found.append(fed(said, "order of the entry", {"[feature; embedding]": Wiring(swapped=True)}))
    if own:
        others = {name: Wiring(layers=some) for name, some in _other_layers(target, head).items()}
        residual, output = (_turned(one) for one in (head.config.norm_before_residual, head.config.norm_output))
        found.append(fed(said, "layers that it reads", others))
        found.append(fed(said, "residual", {residual: Wiring(residual=True)}))
        found.append(fed(second, "answers that it reads", {output: Wiring(output=True)}, level=1))
    else:
        found.append(_norm(target, head, said))
    beside = {"the token of the feature itself": Wiring(shift=-1), "the token after next": Wiring(shift=1)}
    bases = {*THETAS, _own_theta(target)} - {head.config.rope_theta}
    found.append(fed(said, "token beside the feature", beside))
    found.append(fed(said, "rotary base", {f"{theta:g}": Wiring(theta=theta) for theta in sorted(bases)}))
    found.append(fed(said, "queries and keys", {f"their rows from {name}": Wiring(rows=name) for name in ORDERS}))
    found.append(fed(said, "gate and up projection", {"the two exchanged": Wiring(exchanged=True)}))
    found.append(_template(target, head, said, plain))
    if not _guesses(said):
        found += [_levels(levels), _calibration(said), *([] if own else [_cosine(said)])]
    return found


def _chance(texts: list[Text]) -> float:
    """What the plainest drafter there is would reach: always the commonest token."""
    tokens = Counter(token for text in texts for token in text.ids[text.start :])
    return max(tokens.values()) / tokens.total()


def _positions(texts: list[Text]) -> int:
    """Where a head is asked. One that lacks the token there says nothing of it, and is wrong."""
    return sum(len(text.ids) - max(text.start, 2) for text in texts)


def _guesses(said: Said) -> bool:
    """Whether a head that said this knows little more of the texts. Why is then not to be told from how sure it is, nor
    from what makes it less so."""
    chance = _chance(said.texts)
    return said.right.sum().item() / _positions(said.texts) - chance <= 0.5 * min(chance, 1 - chance)


def _agreement(said: Said) -> Finding:
    positions, guess = _positions(said.texts), _chance(said.texts)
    share = said.right.sum().item() / positions
    numbers = {"agreement": share, "commonest_token": guess, "positions": positions}
    text = f"its first choice is the target's at {share:.1%} of {positions} positions"
    if _guesses(said):
        text += f"; always naming the commonest token would reach {guess:.1%}: it is untrained, damaged, made for "
        return Finding("agreement", WRONG, f"{text}another target, or for another way of being fed (below)", numbers)
    if share < LITTLE:
        text += ": too few to gain much; it is trained too little, or some of its weights are in the wrong place"
        return Finding("agreement", SUSPECT, text, numbers)
    return Finding("agreement", GOOD, text, numbers)


def _vocabulary(head: Eagle3Head, texts: list[Text]) -> Finding:
    """How much of what the target says the head can draft at all."""
    said = torch.tensor([token for text in texts for token in text.ids[text.start :]])
    share, words = torch.isin(said, head.tokens.cpu()).float().mean().item(), head.config.draft_vocab_size
    text = f"{share:.1%} of what the target says is among its {words:,} tokens"
    if share < 1:
        text += "; the others it never drafts, and they are left out below"
    advice = "train one whose tokens are those of such texts"
    if not share:
        return Finding("vocabulary", WRONG, f"{text}; {advice}", {"share": share})
    return suspected("vocabulary", text, {"share": share}, share < MOST, advice)


def _turned(normed: bool) -> str:
    return "what is not normed" if normed else "what is normed"


def _wiring(
    target: Target, head: Head | Eagle3Head, said: Said, check: str, others: dict[str, Wiring], level: int = 0
) -> Finding:
    """Whether the head does better on a level when it is fed otherwise, and knows the texts then."""
    answers = {name: say(target, head, said.texts, wiring, level + 1)[level] for name, wiring in others.items()}
    answers = {name: answer for name, answer in answers.items() if answer.logprobs.isfinite().all()}
    if not answers:
        return Finding(check, UNKNOWN, f"fed in other ways it answers with what is no number in {target.dtype}")
    knowing = {name: answer for name, answer in answers.items() if not _guesses(answer)}
    if not knowing and _guesses(said):
        return Finding(check, UNKNOWN, "fed otherwise it is no better than always naming the commonest token, either")
    gains = {name: _gain(said, answer) for name, answer in (knowing or answers).items()}
    best = max(gains, key=lambda name: gains[name][0])
    gain, error = gains[best]
    numbers = {f"nats_gained_with {name}": gained for name, (gained, _) in gains.items()}
    if best in knowing and gain > GAIN and gain > SIGMA * error:
        text = f"it does better with {best}: {gain:.2f} nats a token (± {error:.2f}); it was made for that"
        return Finding(check, WRONG, text, numbers)
    return Finding(check, GOOD, f"no other way does better (the next: {best}, {gain:+.2f} nats a token)", numbers)


def _norm(target: Target, head: Head, said: Said) -> Finding:
    check = "features after the final norm"
    if last_norm(target.decoder) is None:
        return Finding(check, UNKNOWN, "this target's last norm is not known by name")
    normed = say(target, head, said.texts, Wiring(normed=True))[0]  # by itself it makes a head that is unsure surer
    own = max(said, normed, key=lambda one: one.logprobs.mean().item())
    return _wiring(target, head, own, check, {"features before the final norm": Wiring(inner=True, normed=True)})


def _own_theta(target: Target) -> float:
    config = target.model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    return float(rope.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0)


def _template(target: Target, head: Head | Eagle3Head, said: Said, plain: list[Text]) -> Finding:
    """Whether the head follows the target better on text without the chat template than on text with it.

    Texts differ in how sure the target is, so a head is held against it: log q of its choices less log p.
    """
    check = "chat template"
    if not plain:
        why = "the target has no chat template, so prompts are plain text"
        if target.tokenizer.chat_template:
            why = f"without the template no answer of the target has more than {SHORT} tokens"
        return Finding(check, UNKNOWN, why)
    other = say(target, head, plain)[0]
    without, as_given = (one.logprobs - one.wanted for one in (other, said))
    if min(len(without), len(as_given)) < 2:
        return Finding(check, UNKNOWN, "without the template the target writes too little that the head has words for")
    if without.isnan().any():
        return Finding(check, UNKNOWN, f"without the template it answers with what is no number in {target.dtype}")
    gap = (without.mean() - as_given.mean()).item()
    error = (without.var() / len(without) + as_given.var() / len(as_given)).sqrt().item()
    numbers = {"nats_gained_without": gap, "agreement_without": other.right.float().mean().item()}
    if _guesses(said) and _guesses(other):
        why = "without the template it is no better than always naming the commonest token, either"
        return Finding(check, UNKNOWN, why, numbers)
    if gap > GAIN and gap > SIGMA * error:
        text = f"it is closer to the target on text without the template: {gap:.2f} nats a token (± {error:.2f})"
        advice = "give the template and --system that it was trained with, or train it on text with these"
        return Finding(check, SUSPECT, f"{text}; {advice}", numbers)
    text = f"not clearly closer to the target on text without the template: {gap:+.2f} nats a token (± {error:.2f})"
    return Finding(check, GOOD, text, numbers)


def _levels(levels: list[Said]) -> Finding:
    """Level by level on its own features, against the first, which is fed with the target's."""
    shares = [level.right.float().mean().item() for level in levels]
    text = f"{shares[0]:.1%} on the target's features, on its own " + ", ".join(f"{share:.1%}" for share in shares[1:])
    numbers = {"agreement_by_level": shares}
    strange = any(below < 0.5 * above for above, below in pairwise(shares))
    advice = "its own features are strange to it: train it with more `passes`"
    return suspected("own features", text, numbers, strange, advice)


def _calibration(said: Said) -> Finding:
    """Whether its first choice is accepted as often as it says, at temperature 1, where a token is accepted with its
    probability under the target."""
    found = calibration.binned(zip(said.sure.tolist(), said.law.tolist(), strict=True), BINS)
    rows = [{"q": one.q, "accepted": one.chosen, "positions": one.candidates} for one in found]
    error, q, accepted = calibration.error(found), said.sure.mean().item(), said.law.mean().item()
    text = f"at temperature 1 it gives its first choice {q:.1%}, the target {accepted:.1%} (error {error:.2f})"
    numbers = {"expected_calibration_error": error, "bins": rows}
    advice = "trees that are grown and cut by its probabilities suffer, unless a draft_temperature makes up for it"
    return suspected("calibration", text, numbers, error > 0.15, advice)


def _cosine(said: Said) -> Finding:
    cosine = said.cosine.mean().item()
    text = f"cosine of its features and the target's: {cosine:.2f} on average"
    advice = "a head that was trained to predict features comes above that, and its deeper levels read them"
    return suspected("features", text, {"cosine": cosine}, cosine < 0.5, advice)


def suspected(check: str, text: str, numbers: dict[str, object], suspect: bool, advice: str) -> Finding:
    """A finding that is good, or suspect and comes with advice."""
    return Finding(check, SUSPECT, f"{text}; {advice}", numbers) if suspect else Finding(check, GOOD, text, numbers)


def _gain(said: Said, other: Said) -> tuple[float, float]:
    """Mean gain in log q, paired by position, and its standard error; each at the temperature that suits it best, since
    a wiring that only makes an unsure head surer is none that it was made for."""
    ours, theirs = (one.heated[:, one.heated.mean(dim=0).argmax()] for one in (said, other))
    gains = (theirs - ours).double()
    error = gains.std() / len(gains) ** 0.5 if len(gains) > 1 else torch.tensor(torch.inf)
    return gains.mean().item(), error.item()
