"""Verification: which tokens of a draft tree the target keeps.

The target picks its own next token at every node of the tree. If a child of the node holds that token the walk steps
in, otherwise the token is the round's bonus. For children that are a deterministic function of the prefix (top-k, never
sampled) this has exactly the law of EAGLE's sequential rejection, and of plain sampling. Children may also be chosen
with the noise that the picks are made with (noise.py): more of them are accepted then, and the picks are the same.

The pick at an absolute position is a function of the seed, the position and the target's distribution alone, so every
method emits the same text as vanilla decoding, token for token, at any temperature. What limits this is arithmetic: a
batch of nodes and a single node may differ in the last bits of a logit, which matters at a numeric tie only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from torch import Tensor

from jakiro.noise import DOUBLES, Noise
from jakiro.programs import upload
from jakiro.tree import DraftTree

NUCLEUS_GUESSES = (256, 2048)  # tokens sorted before all are: that would cost a CPU more than the target's pass
MAX_SEED = 2**53  # beyond it readers of JSON do not agree on whole numbers


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target picks: temperature 0 is greedy, top_p keeps the smallest set of likely tokens with that mass."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p"):
            if not isinstance(getattr(self, name), Real):
                raise ValueError(f"{name} is {getattr(self, name)!r:.40}, which is no number; use one, as 1.0")
        if not math.isfinite(self.temperature) or not (self.temperature == 0 or 0.001 <= self.temperature <= 100):
            raise ValueError(f"temperature is {self.temperature}; use 0 for greedy, or a number from 0.001 to 100")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; use a number above 0 and up to 1, where 1 keeps every token")
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral) or not 0 <= self.seed <= MAX_SEED:
            raise ValueError(f"seed is {self.seed!r:.40}; use a whole number from 0 to {MAX_SEED} (2**53)")
        object.__setattr__(self, "seed", int(self.seed))  # numpy's are no JSON


GREEDY = Sampling()


def noise_of(sampling: Sampling, logits: Tensor) -> Noise | None:
    """What a run picks with from such logits; None where it is greedy."""
    if sampling.temperature == 0:
        return None
    return Noise(sampling.seed, sampling.temperature, logits.shape[-1], logits.device)


def pick(logits: Tensor, positions: Sequence[int], sampling: Sampling, noise: Noise | None = None) -> Tensor:
    """The target's token after each row: logits [n, vocab], absolute position of each picked token [n] -> [n].

    Sampling is Gumbel-max: the argmax of log p plus independent Gumbel noise is a draw from p. Rows that pick for the
    same position share their noise; at most one of them lies on the path that the walk takes. The noise is in float64:
    a device that may have none leaves drawing to the CPU, where the result then is. NaN gives some token. `noise` is
    what a run keeps of it, `noise_of` these logits.
    """
    if sampling.temperature == 0:
        return logits.argmax(-1)
    if logits.device.type not in DOUBLES:
        logits = logits.cpu()
    scaled = logits.float() / sampling.temperature
    if sampling.top_p < 1:
        scaled = scaled.masked_fill(~nucleus(scaled, sampling.top_p), -math.inf)
    row = {position: at for at, position in enumerate(dict.fromkeys(positions))}
    drawn = (noise or noise_of(sampling, logits)).at(list(row))  # [distinct positions, vocab]
    rows = upload([row[position] for position in positions], logits.device)
    return (scaled + drawn[rows]).argmax(-1)


class Picks:
    """The target's token after each node of a tree, as the walk asks for it.

    On a CPU each is picked when it is asked for: sampling at every node of a tree may cost more than the target's pass
    over them, and the walk reaches few of them. Elsewhere all are picked at once, which is one wait for the device.
    """

    def __init__(self, logits: Tensor, positions: Sequence[int], sampling: Sampling, noise: Noise | None) -> None:
        """As for `pick`."""
        self._logits, self._positions, self._sampling, self._noise = logits, positions, sampling, noise
        waits = logits.device.type != "cpu"
        self._known = dict(enumerate(pick(logits, positions, sampling, noise).tolist())) if waits else {}

    def __getitem__(self, node: int) -> int:
        if node not in self._known:
            row = slice(node, node + 1)
            self._known[node] = int(pick(self._logits[row], self._positions[row], self._sampling, self._noise))
        return self._known[node]

    def all(self) -> list[int]:
        """Of all nodes, [n]. The run's noise is left as it is: later rounds make theirs as if this was not asked."""
        left = [node for node in range(len(self._positions)) if node not in self._known]
        if left:
            picks = pick(self._logits[left], [self._positions[node] for node in left], self._sampling).tolist()
            self._known |= zip(left, picks, strict=True)
        return [self._known[node] for node in range(len(self._positions))]


def nucleus(logits: Tensor, top_p: float) -> Tensor:
    """Mask [n, vocab] of the smallest set of most probable tokens with mass >= top_p, never empty.

    Equal probabilities at the edge are taken in token-id order, so that the set does not depend on the sort.
    """
    law = logits.softmax(-1)
    guesses = NUCLEUS_GUESSES if logits.device.type == "cpu" else ()  # elsewhere asking for the mass costs more
    for count in (*guesses, law.shape[-1]):
        ordered = law.topk(min(count, law.shape[-1])).values
        if count >= law.shape[-1] or (ordered.double().sum(-1) >= top_p).all():
            break
    mass = ordered.double().cumsum(-1)
    size = (mass - ordered < top_p).sum(-1, keepdim=True)  # tokens whose more probable ones do not reach top_p
    edge = ordered.gather(-1, (size - 1).clamp_min(0))  # a row of NaN has none
    above, equal = law > edge, law == edge
    return above | equal & (equal.cumsum(-1) <= size - above.sum(-1, keepdim=True))


def walk(tree: DraftTree, picks: Sequence[int] | Picks, ends: Callable[[int, int], bool]) -> tuple[list[int], int]:
    """Follow the target's picks [n] down the tree: (accepted nodes in path order, bonus token).

    `ends(token, count)` says whether the text ends with this token, the round's count-th. Such a token is the bonus
    even if a child holds it, since nothing may follow it.
    """
    children, accepted = tree.children(), []
    node = 0
    while True:
        token = picks[node]
        node = children.get((node, token), 0)
        if not node or ends(token, len(accepted) + 1):
            return accepted, token
        accepted.append(node)
