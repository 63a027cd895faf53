"""The decoding loop: draft a tree, score it, walk it, keep the accepted path; one round after another.

Every method runs through this loop, vanilla too. It knows nothing of how trees are made or of what is done with rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sized
from dataclasses import asdict, dataclass, is_dataclass
from datetime import datetime, timezone
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from jakiro.drafter import Context, Drafter, check_columns, within
from jakiro.machine import device_name, dtype_name, versions
from jakiro.programs import now, recording_seconds, upload
from jakiro.target import Target
from jakiro.text import check_ids, pieces
from jakiro.trace import StepTrace, Trace
from jakiro.tree import LOWEST, MAX_CUT, CutNodes, DraftTree
from jakiro.verify import Picks, Sampling, noise_of, pick, walk

TREE_ROWS = 64  # cache rows set aside for a tree; a larger one makes the cache move late in the text


@dataclass(frozen=True, slots=True)
class Prefill:
    """What comes before the first round."""

    first: int  # the target's first token
    seconds: float


def decode(
    target: Target,
    drafter: Drafter,
    prompt: list[int],
    max_new_tokens: int,
    sampling: Sampling,
    inspect: bool = True,
    first: int | None = None,
) -> Iterator[Prefill | StepTrace]:
    """Run to the end of the text: a Prefill, then one StepTrace a round.

    The text ends with an end-of-sequence token, at max_new_tokens, or when prompt and text fill the target's context;
    nothing is emitted past that. `inspect=False` leaves the columns out, `first` is the first token in place of the
    target's own. A run owns all its state, so a consumer may stop at any time. Raises ValueError at once for a prompt
    that is empty, foreign to the vocabulary, or too long, for a `first` that is foreign to it, for a sampling or
    a drafter that is none, and for one that has had a run; in the middle of a run where target or drafter answer NaN.
    """
    limit = _limit(target, prompt, max_new_tokens)
    if first is not None and (not isinstance(first, Integral) or not 0 <= first < target.vocab_size):
        raise ValueError(f"the token {first!s:.40} is outside 0 to {target.vocab_size - 1}, the target's vocabulary")
    if not isinstance(drafter, Drafter):
        raise ValueError(f"{drafter!r:.60} is no drafter: METHODS[name].load(target)(settings) makes one")
    if not isinstance(sampling, Sampling):
        raise ValueError(f"{sampling!r:.60} is no sampling: Sampling(temperature, top_p, seed) is one")
    if drafter.used:
        raise ValueError("this drafter remembers another text: it serves one run; make a new one for each")
    drafter.used = True
    ids = [int(one) for one in prompt]  # not numpy's: a draft may copy them, and a trace holds Python's own
    return _rounds(target, drafter, ids, limit, sampling, inspect, None if first is None else int(first))


@torch.inference_mode()
def _rounds(target, drafter, prompt, limit, sampling, inspect, first) -> Iterator[Prefill | StepTrace]:
    clock = stopwatch(target.device)
    start = clock()
    cache = target.new_cache(len(prompt) + limit + TREE_ROWS, drafter.reads)
    logits, features = target.prefill(torch.tensor(prompt, device=target.device), cache)
    noise = noise_of(sampling, logits)
    last = int(pick(logits[None], [len(prompt)], sampling, noise)) if first is None else first
    seconds = clock() - start
    if not math.isfinite(logits.float().logsumexp(-1)):
        raise target.no_number()
    yield Prefill(last, seconds)
    tokens, read = [*prompt, last], ()
    end = len(prompt) + limit

    def ends(token: int, count: int) -> bool:
        return token in target.ends or len(tokens) + count >= end

    while not ends(last, 0):
        context = Context(tokens, features, end - len(tokens) - 1, noise, *read)
        before = recording_seconds()
        start = clock()
        whole = drafter.draft(context)
        drafted = clock()
        tree = within(whole, context)
        assert min(tree.tokens) >= 0 and max(tree.tokens) < target.vocab_size, "a draft is of the target's tokens"
        positions = [len(tokens) + depth for depth in tree.depths()]  # of the token picked after each node
        spare = context.room == 0 or tree is not whole  # the text's last trees
        ready = now()
        logits, tree_features = target.score(tree.tokens, tree.parents, cache, spare=spare)
        picks = Picks(logits, positions, sampling, noise)
        accepted, last = walk(tree, picks, ends)
        verified = clock()
        kept = [0, *accepted]
        cache.keep(cache.length, kept)
        features = tree_features.index_select(0, upload(kept, target.device))
        tokens += [tree.tokens[node] for node in accepted] + [last]
        seconds = clock() - start
        draft_s, verify_s = drafted - start, verified - ready
        chosen = picks.all() if inspect else []
        read = tree, logits
        tree, logprobs = checked(target, tree, chosen, logits, drafter if inspect else None, tree is whole)
        spent = draft_s, verify_s, seconds - draft_s - verify_s, recording_seconds() - before
        yield StepTrace(tree, accepted, last, logprobs, *spent)


def stop_reason(target: Target, prompt: list[int], tokens: list[int], max_new_tokens: int) -> str:
    """Why a run ended after these generated tokens, one of `trace.STOPS`."""
    if tokens[-1] in target.ends:
        return "eos"
    if len(tokens) >= max_new_tokens:
        return "length"
    return "context" if len(prompt) + len(tokens) >= target.context else "stopped"


def record(
    target: Target,
    drafter: Drafter,
    prompt: list[int],
    max_new_tokens: int,
    sampling: Sampling,
    method: str = "",
    settings: Any = None,
    inspect: bool = True,
) -> Trace:
    """Decode to the end and keep everything. Raises ValueError as `decode` does."""
    prefill, *steps = decode(target, drafter, prompt, max_new_tokens, sampling, inspect)
    return as_trace(target, prompt, max_new_tokens, sampling, prefill, steps, method, settings)


def as_trace(
    target: Target,
    prompt: list[int],
    max_new_tokens: int,
    sampling: Sampling,
    prefill: Prefill,
    steps: list[StepTrace],
    method: str = "",
    settings: Any = None,
) -> Trace:
    """The trace of the rounds so far. `settings` is the method's dataclass or a dict."""
    prompt = [int(one) for one in prompt]  # numpy's are no JSON
    tokens = [prefill.first] + [token for step in steps for token in step.emitted]
    seen = {*prompt, *tokens}
    for step in steps:
        seen.update(step.tree.tokens, step.tree.columns.get("pick", []), step.tree.cut.tokens)
    return Trace(
        method=method,
        settings=asdict(settings) if is_dataclass(settings) else dict(settings or {}),
        target=target.name,
        device=device_name(target.device),
        dtype=dtype_name(target.dtype),
        versions=versions(),
        seed=sampling.seed,
        temperature=float(sampling.temperature),
        top_p=float(sampling.top_p),
        prompt=prompt,
        first=prefill.first,
        pieces=pieces(target.tokenizer, seen),
        prefill_s=prefill.seconds,
        steps=list(steps),
        stop=stop_reason(target, prompt, tokens, max_new_tokens),
        recorded=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        drafter=target.drafters.get(target.heads.get(method), ""),
        threads=torch.get_num_threads() if target.device.type == "cpu" else 0,
        max_new_tokens=int(max_new_tokens),
    )


def check_target(trace: Trace, target: Target) -> None:
    """Raise ValueError for a run of another target."""
    if trace.target != target.name:
        raise ValueError(f"this run was recorded with {trace.target}, and the model loaded here is {target.name}")


def _limit(target: Target, prompt: list[int], max_new_tokens: int) -> int:
    """How many tokens the run may emit, at least one."""
    if isinstance(prompt, (str, Tensor)) or not isinstance(prompt, Sized):
        raise ValueError("the prompt is no list of token ids: encode(target.tokenizer, text) makes one")
    if len(prompt) == 0:  # an array, too
        raise ValueError("the prompt is empty; give at least one token")
    check_ids(prompt, target.vocab_size)
    if not isinstance(max_new_tokens, Integral) or max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {max_new_tokens}; ask for a whole number of at least 1")
    if len(prompt) >= target.context:
        raise ValueError(
            f"the prompt has {len(prompt)} tokens and {target.name} reads {target.context} in all; shorten it"
        )
    return min(int(max_new_tokens), target.context - len(prompt))


def stopwatch(device: torch.device) -> Callable[[], float]:
    """Seconds at which all work handed to the device so far is done. It stands still while a program is recorded."""
    if device.type == "cpu":
        return now
    module = getattr(torch, device.type)  # torch.cuda, torch.mps, torch.xpu
    which = () if device.type == "mps" else (device,)  # there is one of that kind at most

    def clock() -> float:
        module.synchronize(*which)
        return now()

    return clock


def checked(
    target: Target, tree: DraftTree, picks: list[int], logits: Tensor, drafter: Drafter | None, whole: bool
) -> tuple[DraftTree, list[float]]:
    """The tree with the engine's and the drafter's columns (none: as it is), and log p of each node's token after its
    parent, [n], 0.0 at the root. `logits` [n, vocab] are the target's; `whole` trees have all that was drafted.

    Raises ValueError where the logits are no numbers.
    """
    logprobs = logits.float().log_softmax(-1).clamp_min(LOWEST)
    best, given = _given_parent(tree, logprobs)
    if any(map(math.isnan, best)):
        raise target.no_number()
    return tree if drafter is None else _inspected(tree, picks, logprobs, drafter, whole), given


def _inspected(tree: DraftTree, picks: list[int], logprobs: Tensor, drafter: Drafter, whole: bool) -> DraftTree:
    chosen = logprobs.gather(-1, torch.tensor(picks, device=logprobs.device)[:, None])[:, 0]
    columns = {
        **tree.columns,
        "pick": picks,
        "pick_logprob": chosen.tolist(),
        "target_entropy": (-logprobs.exp() * logprobs).sum(-1).tolist(),
        **drafter.inspect(tree, picks),
    }
    check_columns(columns, len(tree))
    cut = drafter.cut(tree) if whole else CutNodes()
    assert len(cut) <= MAX_CUT, f"a trace keeps at most {MAX_CUT} cut nodes of a round: give the best"
    return DraftTree(tree.tokens, tree.parents, tree.scores, columns, cut)


def _given_parent(tree: DraftTree, logprobs: Tensor) -> tuple[list[float], list[float]]:
    """log p of the likeliest token after each node, and of each node's token after its parent, 0.0 at the root."""
    tokens, parents = (upload(part[1:], logprobs.device) for part in (tree.tokens, tree.parents))
    both = torch.cat([logprobs.amax(-1), logprobs[parents, tokens]]).tolist()  # one copy, for which a device is waited
    return both[: len(tree)], [0.0, *both[len(tree) :]]
