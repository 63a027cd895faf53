"""Two ways of drafting at the same prefixes: both draft after every token of one finished text.

The text leads both, whatever they propose (teacher forcing), so at each place their trees can be compared (pairs.py).
"""

from __future__ import annotations

from functools import partial

import torch

from jakiro.drafter import Context, Drafter, within
from jakiro.engine import TREE_ROWS, check_target, checked
from jakiro.heed import Heed, heedless
from jakiro.target import Target
from jakiro.trace import StepTrace, Trace
from jakiro.verify import Sampling, noise_of, pick, walk

MOST_PLACES = 256  # tokens of a text at which both draft


@torch.inference_mode()
def along(
    target: Target,
    drafter: Drafter,
    trace: Trace,
    most: int = MOST_PLACES,
    heed: Heed = heedless,
) -> list[StepTrace]:
    """What `drafter` drafts after each of the first tokens of the run's text, with the target's pass over it.

    In every step `accepted` is the tree's path along the text and `bonus` the token after it; no times are taken. A run
    that was stopped goes on as this target would. `heed` is called before each. Raises ValueError where the run is
    another target's, or this target cannot read it.
    """
    check_target(trace, target)
    ids = trace.prompt + trace.tokens
    if not trace.prompt or max(ids) >= target.vocab_size or len(ids) > target.context:
        raise ValueError(
            f"{target.name} cannot read this run: it takes a prompt, ids below {target.vocab_size:,} and at most "
            f"{target.context:,} tokens; the run was recorded with another model of that name"
        )
    start, sampling = len(trace.prompt), Sampling(trace.temperature, trace.top_p, trace.seed)
    cache = target.new_cache(len(ids) + TREE_ROWS, drafter.reads)
    most_tokens = min(target.context, trace.most or target.context)
    logits, features = target.prefill(torch.tensor(trace.prompt, device=target.device), cache)
    noise = noise_of(sampling, logits)

    def ends(left: int, token: int, count: int) -> bool:
        return token in target.ends if trace.stop == "stopped" else count >= left

    steps = []
    end = min(start + most, len(ids) - 1)
    for at in range(start, end):
        heed((at - start) / (end - start))
        context = Context(ids[: at + 1], features, most_tokens - at - 2, noise)
        whole = drafter.draft(context)
        tree = within(whole, context)
        logits, seen = target.score(tree.tokens, tree.parents, cache)
        picks = pick(logits, [at + 1 + depth for depth in tree.depths()], sampling, noise).tolist()
        cache.keep(cache.length, [0])
        features = seen[:1].clone()
        for node, token in zip([0, *tree.along(ids[at + 1 :])], ids[at + 1 :], strict=False):
            picks[node] = token  # the text's, though another sampler chose it
        path, bonus = walk(tree, picks, partial(ends, len(ids) - 1 - at))
        tree, logprobs = checked(target, tree, picks, logits, drafter, tree is whole)
        steps.append(StepTrace(tree, path, bonus, logprobs, 0.0, 0.0, 0.0))
    return steps
