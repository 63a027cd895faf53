"""How far a round is from what the device and the bare networks allow.

Two yardsticks. The floor: the bytes that a pass has to read over the bandwidth, or its multiplications over the matmul
rate, whichever takes longer. The ideal round: one bare forward of the target over as many nodes, its inputs made
beforehand, and the draft's bare network passes, each timed alone. Bandwidth is that of reading as many bytes as a
target pass reads, again and again, so a model that fits into a processor's cache is held against that cache. What a
pass of a mixture of experts reads depends on its tokens: such a target has no floor, and all that rests on it is None.
Of a draft only the bytes count. The rate is that of a large square product; on a CPU layers laid out for few rows
(models/products.py) can be quicker, so the floor of a large tree is a yardstick there and no bound.

Seconds are medians over rounds whose tree has its full size, on one prompt; runs, runs whose columns are recorded too
(`traced`), and bare passes take turns, and a turn's rounds are held against its own bare passes. Greedy runs have the
same rounds, so what recording does to them is compared round by round: columns are made when a round's clock has
stopped, so this is what it leaves behind in caches, not the making itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice, product
from statistics import median
from typing import Any

import torch
from tqdm import tqdm

from jakiro.drafter import Context, Drafter
from jakiro.engine import as_trace, decode, stopwatch
from jakiro.models.products import read_by_pass
from jakiro.target import Target
from jakiro.text import encode
from jakiro.trace import StepTrace, Trace, walk_positions
from jakiro.tree import MAX_LEVELS
from jakiro.verify import GREEDY

TURNS = 12  # runs of each method, each followed by bare passes
PASSES = 20  # bare rounds in a turn, the first of which does not count
NEW_TOKENS = 96  # of a run
BLOCK = 8  # rounds without columns, then as many with them
SUMS = 50  # of a buffer, between two readings of the clock
LARGEST = 2 * 2**30  # bytes read to measure bandwidth: beyond any cache, and there is room for it beside the target
SQUARE, SQUARE_ON_CPU = 8192, 1536  # rows of the matrices whose product is timed


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a method."""

    run: Trace
    traced: Trace  # the same with its columns recorded
    bare: list[tuple[float, float]]  # seconds of the target's forward and of the draft's passes, in rounds
    passes: int  # of a draft


def limits(target: Target, methods: dict[str, tuple[Callable, Any]], text: str) -> dict[str, Any]:
    """The device's rates, and for each method (name -> (make, settings)) its pass and round against both yardsticks.

    Of a method that copies in place of some drafts the others count: it drafts without copies here.
    """
    methods = {name: (make, _drafting(settings)) for name, (make, settings) in methods.items()}
    prompt = encode(target.tokenizer, text)
    weights, parameters = read_by_pass(target) or (None, None)
    rates = {
        "bandwidth_bytes_per_s": None if weights is None else read_bandwidth(target, weights),
        "matmul_flops_per_s": matmul_rate(target),
        "weight_bytes": weights,
        "cache_bytes_per_token": target.new_cache(1).row_bytes,
    }
    turns: dict[str, list[Turn]] = {name: [] for name in methods}
    for number, name in tqdm(list(product(range(TURNS), methods)), desc="limits", unit="run", dynamic_ncols=True):
        make, settings = methods[name]
        run, traced = _both(target, make, settings, prompt, first=bool(number % 2))
        if run.steps:
            turns[name].append(Turn(run, traced, *_bare_rounds(target, make(settings), run)))
    return rates | {
        "methods": {
            name: _compare(rates, parameters, turns[name], make(settings).pass_bytes)
            for name, (make, settings) in methods.items()
            if turns[name]
        }
    }


def _drafting(settings: Any) -> Any:
    return replace(settings, lookup=0) if getattr(settings, "lookup", 0) else settings


def _both(target: Target, make: Callable, settings: Any, prompt: list[int], first: bool) -> tuple[Trace, Trace]:
    """The same run without and with its columns recorded, BLOCK rounds of each in turn, of `first` before the other."""
    found: dict[bool, list] = {kind: [] for kind in (first, not first)}
    running = {kind: decode(target, make(settings), prompt, NEW_TOKENS, GREEDY, kind) for kind in found}
    block = [None]
    while block:
        for kind, rounds in found.items():
            rounds += (block := list(islice(running[kind], BLOCK)))
    plain, looked_at = (
        as_trace(target, prompt, NEW_TOKENS, GREEDY, found[kind][0], found[kind][1:]) for kind in (False, True)
    )
    return plain, looked_at


def read_bandwidth(target: Target, size: int) -> float:
    """Bytes a second of summing up a buffer of `size` bytes, of LARGEST, or of half of what a GPU has left: the best of
    many times.

    Off the CPU many sums are waited for together, or the waiting would take longer than a small one.
    """
    if target.device.type == "cuda":
        size = min(size, torch.cuda.mem_get_info(target.device)[0] // 2)
    buffer = torch.ones(max(min(size, LARGEST) // 4, 1), dtype=torch.float32, device=target.device)
    sums = 1 if target.device.type == "cpu" else SUMS
    return sums * buffer.nbytes / min(timed(target.device, lambda: [buffer.sum() for _ in range(sums)], 30))


def matmul_rate(target: Target) -> float:
    """Floating-point operations a second of a large square product in the target's dtype: the best of several."""
    rows = SQUARE_ON_CPU if target.device.type == "cpu" else SQUARE
    left, right = (torch.ones(rows, rows, dtype=target.dtype, device=target.device) for _ in range(2))
    return 2 * rows**3 / min(timed(target.device, lambda: left @ right, 8))


def _compare(rates: dict[str, Any], parameters: int | None, turns: list[Turn], pass_bytes: int) -> dict[str, Any]:
    """A method's part of `limits`, given the device's; `parameters` are those that a pass of the target reads."""
    nodes = max(len(step.tree) for turn in turns for step in turn.run.steps)
    full = [step for turn in turns for step in turn.run.steps if len(step.tree) == nodes]
    (_, length), passes = _typical(turns[0].run), turns[-1].passes
    step_s, round_s = median(step.verify_s for step in full), median(step.seconds for step in full)
    floor = whole = None
    if (bandwidth := rates["bandwidth_bytes_per_s"]) is not None:
        read, flops = rates["weight_bytes"] + length * rates["cache_bytes_per_token"], 2 * nodes * parameters
        floor = max(read / bandwidth, flops / rates["matmul_flops_per_s"])
        whole = floor + passes * pass_bytes / bandwidth
    return {
        "nodes": nodes,
        "context": length,
        "draft_passes": passes,
        "step_s": step_s,
        "step_floor_s": floor,
        "round_s": round_s,
        "round_floor_s": whole,
        "ideal_round_s": median(sum(bare) for turn in turns for bare in turn.bare),
        "ideal_draft_s": median(draft for turn in turns for _, draft in turn.bare),
        "draft_s": median(step.draft_s for step in full),
        "overhead_s": median(step.overhead_s for step in full),
        "step_over_floor": None if floor is None else step_s / floor,
        "round_over_ideal": _over_ideal(turns, nodes),
        "overhead_share": median(step.overhead_s for step in full) / round_s,
        "traced_over_plain": _traced_over_plain(turns),
    }


def _over_ideal(turns: list[Turn], nodes: int) -> float:
    """A turn's rounds with a full tree over its bare ones: the median of all turns, for a machine's speed drifts."""
    rounds = [[step.seconds for step in turn.run.steps if len(step.tree) == nodes] for turn in turns]
    return median(median(own) / median(map(sum, turn.bare)) for own, turn in zip(rounds, turns, strict=True) if own)


def _traced_over_plain(turns: list[Turn]) -> float:
    """Seconds of a round whose columns are recorded over those of the same round without: the median of all rounds.

    On a device whose sums vary, a draft may differ at a tie, and a run then has a round more or less."""
    plain, traced = (
        [median(step.seconds for step in same) for same in zip(*(run.steps for run in kind), strict=False)]
        for kind in ([turn.run for turn in turns], [turn.traced for turn in turns])
    )
    return median(with_columns / without for with_columns, without in zip(traced, plain, strict=False))


def _typical(run: Trace) -> tuple[StepTrace, int]:
    """A round with a full tree in the middle of a run, and the tokens that were committed before its root."""
    nodes = max(len(step.tree) for step in run.steps)
    full = [(step, len(run.prompt) + start - 1) for start, step in walk_positions(run) if len(step.tree) == nodes]
    return full[len(full) // 2]


@torch.inference_mode()
def _bare_rounds(target: Target, drafter: Drafter, run: Trace) -> tuple[list[tuple[float, float]], int]:
    """Seconds of the model's own forward over the tree of a typical round, where that was, and of the draft's passes.

    In turns, as in a round, for each evicts the other from the processor's cache: [(forward, draft)], and the passes.
    """
    step, length = _typical(run)
    parents = step.tree.parents
    text = torch.tensor([*run.prompt, *run.tokens], device=target.device)
    cache = target.new_cache(length + len(parents), drafter.reads)
    features = target.prefill(text[:length], cache)[1]
    forward = target.bare([run.tokens[-1]] * len(parents), parents, cache)
    draft = _bare_draft(drafter, text[: length + 1].tolist(), features, max(1, round(len(run.tokens) / len(run.steps))))
    passes = draft()
    found = []
    for _ in range(PASSES):
        [forward_s] = timed(target.device, forward, 1, warm_up=0)
        [draft_s] = timed(target.device, draft, 1, warm_up=0)
        found.append((forward_s, draft_s))
    return found[1:], passes


def _bare_draft(drafter: Drafter, tokens: list[int], features: torch.Tensor, fresh: int) -> Callable[[], int]:
    """A call that runs the network passes of a draft on `fresh` new tokens and returns their number."""
    drafter.draft(Context(tokens, features, room=MAX_LEVELS))
    context = Context(tokens, features[-fresh:], room=MAX_LEVELS)
    return lambda: drafter.bare(context)


def timed(device: torch.device, work: Callable[[], Any], count: int, warm_up: int = 1) -> list[float]:
    """Seconds of each of `count` calls, the device's work included, after `warm_up` others."""
    clock, found = stopwatch(device), []
    for _ in range(warm_up + count):
        start = clock()
        work()
        found.append(clock() - start)
    return found[warm_up:]
