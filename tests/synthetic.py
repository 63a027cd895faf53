"""Plausible made-up traces for tests and for the scrub benchmark. Deterministic, in memory, never shown to a user.

All methods "decode" the same text, as real ones do; the candidates, probabilities and times are random numbers that
obey the format's rules (scores fall along paths, siblings differ, the walk is the longest matching path).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import pairwise

from jakiro.trace import StepTrace, Trace
from jakiro.tree import DraftTree

VOCABULARY = 400
PICKED = ("pick_expert0_rank", "pick_expert1_rank")
PROPOSED = ("source", "expert0_rank", "expert1_rank", "expert0_logprob", "expert1_logprob", "overlap", "js")
EOS = 0
WORDS = [
    start + end
    for start in ("wa", "the", "li", "mor", "ca", "st", "pro")
    for end in ("s", "n", "ght", "ther", "ke", "ow")
]
ODD = (
    "\n",
    "\t",
    "\n\n",
    "<b>",
    "&amp;",
    "</a>",
    "<0xE2>",
    "日本",
    " antidisestablishmentarianism",
    "$x$",
    " 42",
    ".",
    ",",
)


def pieces() -> dict[int, str]:
    """Token id -> text, with white space, mark-up, bytes and long words among them."""
    table = {EOS: "</s>"}
    for token in range(1, VOCABULARY):
        odd = token % 17 == 0
        table[token] = ODD[token // 17 % len(ODD)] if odd else f" {WORDS[token % len(WORDS)]}"
    return table


def text(length: int, seed: int = 0) -> list[int]:
    """Token ids of the text that every method decodes."""
    draw = random.Random(f"text {seed}")
    return [draw.randrange(1, VOCABULARY) for _ in range(length)]


def vanilla_trace(tokens: list[int], stop: str = "length") -> Trace:
    """One token a round; the tree is its root."""
    steps = [
        _step(DraftTree([root], [-1], [0.0], _picks([bonus], [-0.4])), [], bonus, [0.0], (0.0, 0.01, 0.001))
        for root, bonus in pairwise(tokens)
    ]
    return _trace("vanilla", {}, tokens[0], steps, stop)


def lookup_trace(tokens: list[int], seed: int = 0) -> Trace:
    """Chains copied from the context: some rounds find nothing, some copy wrongly."""
    draw, steps, at = random.Random(f"lookup {seed}"), [], 0
    while at + 1 < len(tokens):
        right = min(draw.choice((0, 0, 1, 3, 5)), len(tokens) - at - 2)
        wrong = draw.choice((0, 2, 3))
        chain = tokens[at : at + right + 1] + [(tokens[at + right + 1] + 1 + i) % VOCABULARY for i in range(wrong)]
        picks = tokens[at + 1 : at + right + 2] + [1] * wrong
        columns = {"copied_from": [None, *range(3, 2 + len(chain))]} | _picks(picks, [-0.2] * len(chain))
        tree = DraftTree(chain, list(range(-1, len(chain) - 1)), [0.0] * len(chain), columns)
        logprobs = [0.0] + [-0.2] * right + [-4.0] * wrong
        steps.append(_step(tree, list(range(1, right + 1)), tokens[at + right + 1], logprobs, (0.0005, 0.012, 0.001)))
        at += right + 1
    return _trace("prompt_lookup", {"depth": 8}, tokens[0], steps, "length")


def tree_trace(
    rounds: int = 20,
    nodes: int = 60,
    depth: int = 6,
    top_k: int = 8,
    experts: bool = True,
    seed: int = 0,
    skill: float = 0.7,
) -> Trace:
    """A run of a trained head: two experts with every column, or one head with none of the experts' columns.

    `skill` is the chance that the draft's first choice is the target's. At least `rounds` * 1 tokens of `text(..., 0)`.
    """
    tokens = text(rounds * (depth + 1) + 1)
    draw, steps, at = random.Random(f"tree {seed} {experts}"), [], 0
    for _ in range(rounds):
        grower = _Grower(draw, tokens[at:], depth, top_k, experts, skill)
        steps.append(grower.step(nodes))
        at += len(steps[-1].emitted)
    settings = {"depth": depth, "top_k": top_k, "total_tokens": nodes}
    return _trace("jakiro" if experts else "eagle2", settings, tokens[0], steps, "length")


@dataclass
class _Node:
    token: int
    parent: int
    depth: int
    score: float
    p: float
    on_path: bool
    columns: dict[str, float | None] = field(default_factory=dict)


class _Grower:
    """Grows a round's tree as EAGLE-2 does: top_k children of each level's top_k nodes, then the best by score."""

    def __init__(self, draw, future: list[int], depth: int, top_k: int, experts: bool, skill: float) -> None:
        self.draw, self.future, self.depth, self.top_k = draw, future, depth, top_k
        self.experts, self.skill = experts, skill
        self.nodes = [_Node(future[0], -1, 0, 0.0, 0.0, True)]

    def step(self, total: int) -> StepTrace:
        level = [0]
        for depth in range(1, self.depth + 1):
            born = [child for parent in level for child in self._expand(parent, depth)]
            level = sorted(born, key=lambda i: (-self.nodes[i].score, i))[: self.top_k]
        kept = sorted(range(len(self.nodes)), key=lambda i: (-self.nodes[i].score, i))[:total]
        cutoff = self.nodes[kept[-1]].score
        kept.sort()
        place = {old: new for new, old in enumerate(kept)}
        nodes = [self.nodes[i] for i in kept]
        columns = {name: [node.columns.get(name) for node in nodes] for name in self._names()}
        columns["cutoff"] = [cutoff] * len(nodes)
        parents = [place.get(node.parent, -1) for node in nodes]
        tree = DraftTree([node.token for node in nodes], parents, [node.score for node in nodes], columns)
        accepted = [i for i, node in enumerate(nodes) if node.on_path and i]
        bonus = self.future[len(accepted) + 1]
        times = (0.006 + 0.002 * self.draw.random(), 0.014 + 0.003 * self.draw.random(), 0.0015)
        return _step(tree, accepted, bonus, [node.p for node in nodes], times)

    def _expand(self, parent: int, depth: int) -> list[int]:
        above, draw = self.nodes[parent], self.draw
        pick = self.future[depth] if above.on_path else draw.randrange(1, VOCABULARY)
        rank = 0 if draw.random() < self.skill else draw.choice((1, 1, 2, 3, 5, 7, 9, 14, 40))
        p_pick = draw.uniform(0.3, 0.98)
        logq = [math.log(q) for q in self._falling(draw.uniform(0.4, 0.95), max(self.top_k, rank + 1))]
        others = draw.sample([t for t in range(1, VOCABULARY) if t != pick], self.top_k)
        above.columns |= self._picked(pick, p_pick, rank, logq[rank], above.score)
        facts = self._router(depth)
        found, rest = [], self._falling(0.6, self.top_k)
        for place in range(self.top_k):
            here = place == rank
            logp = math.log(p_pick if here else (1 - p_pick) * rest[place] * 0.9)
            columns = {"rank": place, "logprob": logq[place]} | (facts | self._proposal(place) if self.experts else {})
            token = pick if here else others[place]
            self.nodes.append(
                _Node(token, parent, depth, above.score + logq[place], logp, above.on_path and here, columns)
            )
            found.append(len(self.nodes) - 1)
        return found

    def _picked(self, pick: int, p: float, rank: int, logq: float, score: float) -> dict[str, float | None]:
        found = {"pick": pick, "pick_logprob": math.log(p), "target_entropy": 2.5 * (1 - p), "pick_rank": rank}
        found |= {"pick_draft_logprob": logq, "pick_score": score + logq}
        if self.experts:
            found |= {"pick_expert0_rank": max(0, rank + self.draw.randrange(-2, 6)), "pick_expert1_rank": rank + 2}
        return found

    def _router(self, depth: int) -> dict[str, float]:
        gate = min(max(self.draw.gauss(0.62 - 0.05 * depth, 0.18), 0.02), 0.98)
        overlap = self.draw.randrange(2, self.top_k + 1) / self.top_k
        return {"gate0": gate, "gate1": 1 - gate, "overlap": overlap, "js": 0.6 * (1 - overlap)}

    def _proposal(self, place: int) -> dict[str, float]:
        source = self.draw.choice((0, 0, 1, 2, 2, 2) if place < 3 else (0, 0, 1, 1, 2, 3))
        inside, outside = place, self.top_k + place
        ranks = [inside if source in (0, 2) else outside, inside if source in (1, 2) else outside]
        logs = [-0.4 - 0.7 * rank for rank in ranks]
        return {
            "expert0_rank": ranks[0], "expert1_rank": ranks[1], "expert0_logprob": logs[0], "expert1_logprob": logs[1],
            "source": source, "head": 0,
        }  # fmt: skip

    def _falling(self, first: float, count: int) -> list[float]:
        left, found = 1.0, []
        for _ in range(count):
            found.append(left * first)
            left *= 1 - first
            first = self.draw.uniform(0.25, 0.6)
        return sorted(found, reverse=True)

    def _names(self) -> list[str]:
        for node in self.nodes:
            if self.experts and node.depth >= self.depth - 1:  # the last level has no proposers
                silent = PICKED if node.depth < self.depth else PROPOSED
                node.columns |= dict.fromkeys(silent) | ({"head": 1} if node.depth == self.depth else {})
        return sorted({name for node in self.nodes for name in node.columns})


def _picks(picks: list[int], logprobs: list[float]) -> dict[str, list]:
    return {"pick": picks, "pick_logprob": logprobs, "target_entropy": [0.7] * len(picks)}


def _step(tree: DraftTree, accepted: list[int], bonus: int, logprobs: list[float], times: tuple) -> StepTrace:
    return StepTrace(tree, accepted, bonus, logprobs, *times)


def _trace(method: str, settings: dict, first: int, steps: list[StepTrace], stop: str) -> Trace:
    return Trace(
        method=method, settings=settings, target="synthetic", device="cpu", dtype="float32", versions={}, seed=0,
        temperature=0.0, top_p=1.0, prompt=[5, 6, 7], first=first, pieces=pieces(), prefill_s=0.05, steps=steps,
        stop=stop, recorded="2026-01-01",
    )  # fmt: skip
