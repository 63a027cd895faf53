"""What draft trees would cost and bring on a target, without decoding with each of them.

The text that the target writes does not depend on how it is drafted, and a head reads true features only. So what a
tree would have had accepted at a place of a finished text is the longest path of that tree along the text: it takes a
draft, but no pass of the target. A draft of the most nodes answers for all fewer ones, which are its best by score.
Rounds are then replayed from place to place as decoding would have gone. This counts exactly what decoding the same
texts would accept, up to the last bits of features, which come from one pass over the whole text here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, cycle, product
from statistics import mean, median
from typing import Any, TypeVar

import torch
from torch import Tensor

from jakiro.drafter import Context, Drafter
from jakiro.engine import decode, stopwatch
from jakiro.measuring.prompts import Prompt
from jakiro.noise import Noise
from jakiro.programs import now
from jakiro.target import Target
from jakiro.text import encode
from jakiro.tree import DraftTree
from jakiro.verify import GREEDY, Picks, Sampling, noise_of

Pulse = Callable[[], None]  # called before every piece of the work; what it raises ends the work
Piece = TypeVar("Piece")

NODES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 60)  # sizes of trees whose pass is timed
TURN = 2  # passes of a size in a turn
ROUND = 2  # tokens by which a round brings the text on
PREFIX = 200  # tokens in the cache meanwhile, where no texts say how many
LENGTH = 96  # tokens of an answer at which rounds may begin: of first words alone more is accepted
TAIL = 9  # tokens after them, so that the last rounds can be as long as others


def unwatched() -> None:
    """The pulse of work that nobody ends."""


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt and what the target answers to it."""

    ids: list[int]
    start: int  # the answer's first token, root of the first round
    stop: int  # rounds begin before it
    features: Tensor  # [len(ids), hidden]
    noise: Noise | None = None  # that it was picked with


def watched(pieces: Iterable[Piece], pulse: Pulse) -> Iterator[Piece]:
    """The pieces, with a pulse before the work on each."""
    for piece in pieces:
        pulse()
        yield piece


def verify_cost(
    target: Target,
    nodes: Sequence[int] = NODES,
    repeats: int = 9,
    pulse: Pulse = unwatched,
    prefix: int = PREFIX,
    sampling: Sampling = GREEDY,
) -> dict[int, float]:
    """Median seconds of one target pass over a tree of n nodes after a prefix, with the picks of a walk; sizes in turn.

    Of a size's turn the last pass counts, for a run has the same size again and again, and what it needs in the caches.
    """
    seconds = _passes(target, prefix, max(nodes), sampling)
    times: dict[int, list[float]] = {n: [] for n in nodes}
    for _ in range(1 + repeats):
        for n, found in watched(times.items(), pulse):
            found.append([seconds(n) for _ in range(TURN)][-1])
    return {n: median(found[1:]) for n, found in times.items()}  # the first turn warms up


@torch.inference_mode()
def _passes(target: Target, prefix: int, most: int, sampling: Sampling) -> Callable[[int], float]:
    """Seconds of a target pass over a tree of up to `most` nodes after a prefix, or after what there is room for.

    Picks are for places that move on, as those of a text do: where the target samples, each has noise of its own. They
    are as many as the walk asks for that ends halfway down.
    """
    prefix = max(1, min(prefix, target.context - most))
    cache = target.new_cache(prefix + most)
    logits, _ = target.prefill(torch.arange(prefix, device=target.device) % target.vocab_size, cache)
    noise, places = noise_of(sampling, logits), count(prefix + 1, ROUND)

    @torch.inference_mode()
    def seconds(n: int) -> float:
        parents = [-1, *((node - 1) // 2 for node in range(1, n))]
        depths = [(node + 1).bit_length() - 1 for node in range(n)]
        start, place = now(), next(places)
        tokens = [token % target.vocab_size for token in range(n)]
        logits, _ = target.score(tokens, parents, cache)
        picks = Picks(logits, [place + depth for depth in depths], sampling, noise)
        for depth in range(1 + depths[-1] // 2):
            picks[2**depth - 1]
        return now() - start

    return seconds


@torch.inference_mode()
def write(
    target: Target,
    make: Callable[[], Drafter],
    prompts: Sequence[Prompt],
    sampling: Sampling = GREEDY,
    pulse: Pulse = unwatched,
) -> tuple[list[Text], float]:
    """The target's answers to prompts, and the median overhead of the rounds that drafted them.

    Raises ValueError where none of them fits into the target's context, or no answer goes beyond its first token.
    """
    texts: list[Text] = []
    overheads: list[float] = []
    for prompt in prompts:
        ids = encode(target.tokenizer, prompt.text)
        if len(ids) + LENGTH + TAIL <= target.context:
            drafter = make()
            events = decode(target, drafter, ids, LENGTH + TAIL, sampling, inspect=False)
            prefill, *steps = watched(events, pulse)
            whole = [*ids, prefill.first, *(token for step in steps for token in step.emitted)]
            if steps:
                cache = target.new_cache(len(whole), drafter.reads)
                logits, features = target.prefill(torch.tensor(whole, device=target.device), cache)
                stop, noise = min(len(ids) + LENGTH, len(whole) - 1), noise_of(sampling, logits)
                texts.append(Text(whole, len(ids), stop, features, noise))
                overheads += [step.overhead_s for step in steps]
    if not texts:
        raise ValueError(
            f"auto finds no tree: {target.name} answers none of the prompts with more than a token within its context "
            f"of {target.context:,}, of which an answer takes {LENGTH + TAIL}; choose shorter or other prompts"
        )
    return texts, median(overheads)


def length(texts: Sequence[Text]) -> int:
    """Tokens before a round, in the mean."""
    return round(mean((text.start + text.stop) / 2 for text in texts))


class Rehearsal:
    """One shape of tree at several sizes, and its tally over texts."""

    def __init__(self, make: Callable[[Any], Drafter], settings: Any, totals: Sequence[int]) -> None:
        """`settings` are those of the drafter, with the largest of `totals` as total_tokens."""
        assert settings.total_tokens == max(totals), "the largest tree answers for all"
        self.make, self.settings, self.totals = make, settings, totals
        self.texts = 0
        self.rounds, self.tokens = (dict.fromkeys(totals, 0) for _ in range(2))  # of each size, and what these gave
        self.copies = {total: Counter() for total in totals}  # nodes -> how many of these rounds copied so many
        self.times: list[float] = []  # of drafts, without those that read a prompt; a copy takes none

    @property
    def draft_s(self) -> float:
        """Median seconds of a draft."""
        return median(self.times or [0.0])

    def read(self, text: Text, clock: Callable[[], float]) -> Iterator[None]:
        """Replay the rounds on a text, a token a step. A draft is made where a round of some size begins."""
        drafter, seen, times = self.make(self.settings), 0, []
        places = dict.fromkeys(self.totals, text.start)
        for at in range(text.start, text.stop):
            here = [total for total, place in places.items() if place == at]
            if here:
                context = _context(text, seen, at)
                start = clock()
                tree = drafter.draft(context)
                times += [] if tree.copied else [clock() - start]
                seen, needed = at, sizes_needed(tree, text.ids[at + 1 : -1])  # the last token can only be a bonus
                for total in here:
                    emitted = bisect_right(needed, total) + 1
                    places[total] = at + emitted
                    self.rounds[total] += 1
                    self.copies[total].update([min(total, len(tree))] * tree.copied)
                    self.tokens[total] += emitted
            yield
        self.texts += 1
        self.times += times[1:] or times


def _context(text: Text, seen: int, at: int) -> Context:
    """Of a draft under the text's token `at` by a drafter that has read the features before `seen`."""
    return Context(text.ids[: at + 1], text.features[seen:at], len(text.ids) - at, text.noise)


@torch.inference_mode()
def rehearse(target: Target, trials: Sequence[Rehearsal], text: Text, pulse: Pulse = unwatched) -> None:
    """All trials on a text, in turn at every token."""
    clock = stopwatch(target.device)
    for _ in watched(zip(*(trial.read(text, clock) for trial in trials), strict=True), pulse):
        pass


@torch.inference_mode()
def together(
    target: Target,
    trials: Sequence[Rehearsal],
    texts: Sequence[Text],
    nodes: Sequence[int],
    repeats: int = 9,
    pulse: Pulse = unwatched,
    sampling: Sampling = GREEDY,
) -> dict[int, float]:
    """What rounds cost: drafts and passes of the target in turn, for each finds in the caches what the other left.

    Every trial drafts at every place of a text, which gives its `times` anew, and after each draft comes a pass; one
    text after the other, until each size has had its repeats, in turns as above. Median seconds of a pass over n nodes.
    """
    seconds, clock = _passes(target, length(texts), max(nodes), sampling), stopwatch(target.device)
    sizes = cycle([(size, turn == TURN - 1) for size in nodes for turn in range(TURN)])
    times: dict[int, list[float]] = {n: [] for n in nodes}
    for trial in trials:
        trial.times = []
    for text, trial in product(texts, trials):
        if min(map(len, times.values())) >= repeats and trial.times:
            continue
        drafter, seen, drafts = trial.make(trial.settings), 0, []
        for at in watched(range(text.start, text.stop), pulse):
            start = clock()
            tree = drafter.draft(_context(text, seen, at))
            drafts += [] if tree.copied else [clock() - start]
            size, counts = next(sizes)
            spent = seconds(size)
            times[size] += [spent] if counts else []
            seen = at
        trial.times += drafts[1:] or drafts  # without the one that reads the prompt
    return {n: median(found or [seconds(n)]) for n, found in times.items()}


def sizes_needed(tree: DraftTree, following: Sequence[int]) -> list[int]:
    """For each node of the tree's path along the tokens: the total_tokens from which a smaller tree has it. Rising.

    A tree of n nodes is the root and the best n - 1 by (-score, index), so its path is the beginning of this one.
    """
    order = sorted(range(1, len(tree)), key=lambda node: (-tree.scores[node], node))
    size = {node: place for place, node in enumerate(order, start=2)}
    return [size[node] for node in tree.along(following)]
