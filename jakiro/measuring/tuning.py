"""Which draft tree is the quickest on a target: the numbers of the tree settings that are auto.

What to expect of a tree: tokens a round, from rounds replayed on the target's own answers (rehearsal.py), over the
seconds of a round: its draft, the target's pass over its nodes, and the overhead. Costs are medians, measured in turn.
After each text the slower half of the shapes (top_k, depth) leaves, down to a few, so that most of the time goes to
those that are close. Drafts and passes that are timed alone are too cheap, so for the last few shapes, and the sizes
that are close to the best, they are timed as they follow one another; what larger passes leave of the caches is not
what these find. Known limits: the answers are few, to the page's examples where no prompts are given, and drawn once
where they are sampled; all passes are timed at one length of the text, the mean, and the draft that reads the prompt is
left out, so that a benchmark of long prompts has fewer tokens a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from tqdm import tqdm

from jakiro.drafter import Drafter
from jakiro.drafting.sizes import TreeSettings, pool
from jakiro.machine import device_name, dtype_name
from jakiro.measuring.curve import Curve, corrected, cost, rising
from jakiro.measuring.prompts import Prompt, examples, spread
from jakiro.measuring.rehearsal import Pulse, Rehearsal, Text, length, rehearse, together, unwatched, verify_cost, write
from jakiro.settings import AUTO, autos
from jakiro.target import Target
from jakiro.verify import GREEDY, Sampling

SCHEMA = "jakiro-tuning/1"
TOP_KS = (2, 3, 5, 10)
DEPTHS = (1, 2, 3, 4, 6, 8)
TOTALS = (2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 60)
FINALISTS = 6  # shapes that are replayed on every text
TEXTS = 12  # prompts that are answered for it
CLOSE = 0.9  # of the best expected speed: smaller and larger trees are out of the question
BEST = 8  # trees that are printed
KEPT = 64  # measurements, the latest: a page may be asked for any temperature

Make = Callable[[Any], Drafter]


@dataclass(frozen=True, slots=True)
class Point:
    """What to expect of one tree."""

    top_k: int
    depth: int
    total_tokens: int
    texts: int  # that it was replayed on; points compare where they have this in common
    rounds: int
    tau: float
    seconds: float  # of a round
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """One measurement, as plain data: `asdict` of it is JSON."""

    method: str
    target: str
    device: str
    dtype: str
    settings: dict[str, Any]  # as asked for, auto among them
    verify: Curve  # between drafts at sizes that are close to the best; others alone, and as much dearer
    draft: list[tuple[int, int, float]]  # (top_k, depth, seconds of a draft)
    overhead_s: float  # of a round
    points: list[Point]  # most tokens a second first; those that left early, after fewer texts, at the end
    chosen: Point
    temperature: float = 0.0  # of the answers
    top_p: float = 1.0
    schema: str = SCHEMA


class Tuner:
    """Measures on one target, each method, settings and way to sample once; what they have in common only once.

    A few of the prompts are answered for it, by default the page's examples.
    """

    def __init__(self, target: Target, prompts: Sequence[Prompt] = ()) -> None:
        self.target, self.prompts = target, spread(prompts or examples(), TEXTS)
        self.found: dict[tuple[str, Any, Sampling], Tuning] = {}
        self._verify: dict[Sampling, Curve] = {}  # of the latest way to sample alone
        # layers that are read, how it is sampled, the latest way alone -> texts, overhead
        self._written: dict[tuple[Sequence[int], Sampling], tuple[list[Text], float]] = {}

    def resolved(
        self, method: str, make: Make, settings: Any, sampling: Sampling = GREEDY, pulse: Pulse = unwatched
    ) -> Any:
        """The settings with numbers for what is auto. Measures the first time: seconds, and nothing else should run.

        The surer the target is of its tokens the larger the tree that pays, so each temperature and top_p has its own.
        What `pulse` raises, which is called all the while, ends the measuring; it then begins again the next time.
        """
        names = autos(settings)
        if not names:
            return settings
        chosen = self.tuning(method, make, settings, sampling, pulse).chosen
        return replace(settings, **{name: getattr(chosen, name) for name in names})

    def waits(self, method: str, settings: Any, sampling: Sampling = GREEDY) -> bool:
        """Whether `resolved` would have to measure."""
        return bool(autos(settings)) and (method, settings, _heat(sampling)) not in self.found

    def tuning(
        self, method: str, make: Make, settings: TreeSettings, sampling: Sampling = GREEDY, pulse: Pulse = unwatched
    ) -> Tuning:
        """What was measured for a method with these settings, sampled so."""
        key = method, settings, _heat(sampling)
        if key not in self.found:
            while len(self.found) >= KEPT:
                del self.found[next(iter(self.found))]
            self.found[key] = self._tune(method, make, settings, _heat(sampling), pulse)
        return self.found[key]

    def _tune(self, method: str, make: Make, settings: TreeSettings, sampling: Sampling, pulse: Pulse) -> Tuning:
        target, trials = self.target, list(candidates(make, settings))
        some = trials[len(trials) // 2].settings  # what the target writes does not depend on how it is drafted
        reads = make(some).reads
        if (reads, sampling) not in self._written:
            self._written = {key: texts for key, texts in self._written.items() if key[1] == sampling}
            self._written[reads, sampling] = write(target, lambda: make(some), self.prompts, sampling, pulse)
        texts, overhead = self._written[reads, sampling]
        if sampling not in self._verify:
            found = verify_cost(target, pulse=pulse, prefix=length(texts), sampling=sampling)
            self._verify = {sampling: sorted(found.items())}
        curve = rising(self._verify[sampling])
        last = compare(target, trials, texts, curve, overhead, pulse)
        longest = sorted(texts, key=lambda text: text.start - text.stop)
        nodes = close([point for trial in last for point in expected(trial, curve, overhead)])
        verify = corrected(curve, together(target, last, longest, nodes, pulse=pulse, sampling=sampling))
        curve = rising(verify)
        points = ranked([point for trial in trials for point in expected(trial, curve, overhead)])
        return Tuning(
            method=method,
            target=target.name,
            device=device_name(target.device),
            dtype=dtype_name(target.dtype),
            settings=asdict(settings),
            verify=verify,
            draft=[(trial.settings.top_k, trial.settings.depth, trial.draft_s) for trial in trials],
            overhead_s=overhead,
            points=points,
            chosen=points[0],
            temperature=sampling.temperature,
            top_p=sampling.top_p,
        )


def _heat(sampling: Sampling) -> Sampling:
    """What of it makes the target surer or less sure."""
    return replace(sampling, seed=0) if sampling.temperature else GREEDY


def candidates(make: Make, settings: TreeSettings) -> Iterator[Rehearsal]:
    """A trial for every shape of the grid that the other settings allow; what is a number stays as it is."""
    top_ks = TOP_KS if settings.top_k == AUTO else (settings.top_k,)
    depths = DEPTHS if settings.depth == AUTO else (settings.depth,)
    for top_k, depth in product(top_ks, depths):
        largest = 1 + pool(top_k, depth)
        auto = settings.total_tokens == AUTO
        totals = sorted({min(total, largest) for total in TOTALS}) if auto else [settings.total_tokens]
        try:
            numbers = replace(settings, top_k=top_k, depth=depth, total_tokens=max(totals))
        except ValueError:  # a depth that the method's other settings refuse
            continue
        yield Rehearsal(make, numbers, totals)


def compare(
    target: Target,
    trials: Sequence[Rehearsal],
    texts: Sequence[Text],
    curve: Curve,
    overhead: float,
    pulse: Pulse = unwatched,
) -> list[Rehearsal]:
    """Replay the trials on the texts; after each, the slower half of those still in leaves. Those that stay."""
    live = list(trials)
    for turn, text in enumerate(tqdm(texts, desc="tuning", unit="text", dynamic_ncols=True, disable=None)):
        if turn:
            live.sort(key=lambda trial: -max(point.tokens_per_s for point in expected(trial, curve, overhead)))
            live = live[: max(FINALISTS, len(live) // 2)]
        rehearse(target, live, text, pulse)
    return live


def expected(trial: Rehearsal, curve: Curve, overhead: float) -> list[Point]:
    """A point for every size of a trial."""
    top_k, depth = trial.settings.top_k, trial.settings.depth
    found = []
    for total in trial.totals:
        rounds, tokens, copies = trial.rounds[total], trial.tokens[total], trial.copies[total]
        drafts = (rounds - copies.total()) * (trial.draft_s + cost(curve, _nodes(top_k, depth, total)))
        copied = sum(count * cost(curve, nodes) for nodes, count in copies.items())
        seconds = (drafts + copied) / rounds + overhead
        tau, rate = tokens / rounds, tokens / rounds / seconds
        found.append(Point(top_k, depth, total, trial.texts, rounds, tau, seconds, rate))
    return found


def close(points: Sequence[Point]) -> list[int]:
    """Nodes of the trees that may be the best of all."""
    least = CLOSE * max(one.tokens_per_s for one in points)
    return sorted({_nodes(one.top_k, one.depth, one.total_tokens) for one in points if one.tokens_per_s >= least})


def _nodes(top_k: int, depth: int, total_tokens: int) -> int:
    """Of a tree that may have no more below its root than there are to choose from."""
    return min(total_tokens, 1 + pool(top_k, depth))


def ranked(points: Sequence[Point]) -> list[Point]:
    """Points of all texts first, and of these the quickest, of equally quick ones the smallest."""
    return sorted(points, key=lambda one: (-one.texts, -one.tokens_per_s, one.total_tokens, one.depth, one.top_k))


def as_text(tuning: Tuning) -> str:
    """The curve, the best few points and the chosen one, as lines for people."""
    least, chosen = tuning.verify[0][1], tuning.chosen
    best = [point for point in tuning.points if point.texts == chosen.texts][:BEST]
    lines = ["nodes    ms  over one"]
    lines += [f"{nodes:5} {1000 * seconds:5.1f} {seconds / least:9.2f}" for nodes, seconds in tuning.verify]
    lines += ["", "top_k  depth  total_tokens   tau  ms a round  tokens/s"]
    lines += [
        f"{one.top_k:5} {one.depth:6} {one.total_tokens:13} {one.tau:5.2f} {1000 * one.seconds:11.1f} "
        f"{one.tokens_per_s:9.1f}"
        for one in best
    ]
    size = f"top_k {chosen.top_k}, depth {chosen.depth}, total_tokens {chosen.total_tokens}"
    where = f"{tuning.target}, {tuning.device}, {tuning.dtype}, temperature {tuning.temperature:g}"
    use = f"use it with: --set top_k={chosen.top_k} --set depth={chosen.depth} --set total_tokens={chosen.total_tokens}"
    return "\n".join([*lines, "", f"{tuning.method} on {where}: {size}", use])
