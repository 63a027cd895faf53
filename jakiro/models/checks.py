"""What is tried with a target when it is loaded, so that no model decodes wrongly without a word.

`target` is a `jakiro.target.Target` that is being made.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from jakiro.memory import out_of_memory
from jakiro.models.lengths import UNBOUNDED, check_window, positions, short_factors
from jakiro.models.windows import FORMS
from jakiro.programs import replayable

ATTENTIONS = ("sdpa", "eager")  # flash attention takes no tree mask
REFUSALS = (  # what models raise at a foreign argument
    AttributeError, TypeError, ValueError, RuntimeError, IndexError, AssertionError, ArithmeticError
)  # fmt: skip
ALIKE = 0.5  # cosine of logits and what the output embedding makes of features: a soft cap leaves more
REMEDY = "use a model whose layers are all plain attention"
SIBLINGS, LEAVES = 26, 8  # of the tree that is tried: many siblings, so that a leaf's row is far from its position
PROMPT = 3  # tokens before that tree
WINDOW = 3  # with which a sliding window is tried: the tree's leaves see no token of the prompt
MASKED = 6e4  # what is larger than this no model computes; float16 ends at 65504
MOST_ROWS = 1024  # nodes of the largest tree that rows are kept for, where a row's number must not pass a limit


@torch.inference_mode()
def measure(target: Any) -> tuple[int, list, int]:
    """Context limit, cache shapes and sliding window (0: none), learnt from one token through the model's own cache.

    A model with LongRoPE is used within what its short factors are for, one with chunks of attention within the first.
    Raises ValueError for masks that know no positions, and for states that cannot be taken back: recurrent,
    convolutional or compressed ones.
    """
    config = target.model.config.get_text_config(decoder=True)
    check_window(config)
    cache = DynamicCache(config=target.model.config)
    one = torch.zeros(1, 1, dtype=torch.long, device=target.device)
    try:
        target.model(input_ids=one, use_cache=True, **{target.takes_cache: cache})
    except REFUSALS as error:
        if out_of_memory(error):
            raise
        why = f"does not run in {target.dtype} with a key/value cache: {_what(error)}"
        raise ValueError(f"{target.name} {why}; try another --dtype, or {REMEDY}") from error
    if getattr(config, "attention_layers", None):  # GPT-Neo; nothing of it shows within a window
        raise ValueError(f"{target.name} masks rows of its cache, not positions, so a tree is not its paths; {REMEDY}")
    if getattr(config, "alibi", False):  # Falcon's
        raise ValueError(f"{target.name} has its cache's rows for positions (ALiBi): a tree is not its paths; {REMEDY}")
    limits = [positions(config), *short_factors(config)]
    if getattr(config, "attn_temperature_tuning", None):  # Llama 4 scales queries by their row of the cache
        limits.append(max(1, config.floor_scale - MOST_ROWS))
    if found := getattr(config, "keep_window_size", None):  # Doge leaves out tokens of longer texts
        limits.append(found)
    shapes, windows = [], set()
    for layer in cache.layers:
        stored = getattr(layer, "keys", None) is not None  # a layer may share another's keys, or have no attention
        plain = type(layer) in (DynamicLayer, DynamicSlidingWindowLayer)
        if not plain and (stored or hasattr(layer, "conv_states")):
            raise ValueError(
                f"{target.name} keeps {type(layer).__name__} states, which cannot take back a rejected token; {REMEDY}"
            )
        if isinstance(layer, DynamicSlidingWindowLayer):
            windows.add(int(layer.sliding_window))
        shapes.append(tuple((rows.shape[1], rows.shape[3]) for rows in (layer.keys, layer.values)) if stored else None)
    if not any(shapes):
        raise ValueError(f"{target.name} stores no keys and values in a cache; {REMEDY}")
    window = windows.pop() if windows == {getattr(config, "sliding_window", None)} else 0
    return min(*limits, UNBOUNDED, *windows), shapes, window


@torch.inference_mode()
def check_trees(target: Any) -> tuple[int, int, float]:
    """Score a tree and its deepest paths; they must agree. Returns vocabulary, feature width and logit scale.

    Models that take their positions from a 2-D mask (ALiBi), or ignore masks, would decode wrongly without a word.
    Where no form of masks follows a sliding window, the target's context ends with its window.
    """
    attention = target.model.config._attn_implementation
    if attention not in ATTENTIONS:
        raise ValueError(f"attention is {attention!r}, which takes no tree mask; use one of {', '.join(ATTENTIONS)}")
    try:
        if target.window:
            _choose_form(target)
        paths = _paths(target)
        logits, features = _tree(target)
    except REFUSALS as error:
        if out_of_memory(error):
            raise
        other = "eager" if attention == "sdpa" else "sdpa" if target.model._supports_sdpa else None
        why = f"{_what(error)}; {f'try {other}, or ' if other else ''}use another model"
        raise ValueError(f"{target.name} cannot score a tree with {attention}: {why}") from error
    if paths.isnan().any():
        raise target.no_number()
    if paths.isinf().any():
        raise ValueError(
            f"{target.name} gives tokens an infinite logit in {target.dtype}, which a trace cannot hold: use bfloat16 "
            "or float32; where it masks tokens so, torch.finfo(dtype).min does, too"
        )
    if not (error := _distance(target, logits[-LEAVES:], paths)) < _tolerance(target):
        raise ValueError(
            f"{target.name} scores a tree differently from its paths (relative error {error:.2g}): it does not follow "
            "position ids and 4-D masks, so use another model"
        )
    return logits.shape[-1], features.shape[-1], _logit_scale(target, logits.float(), features)


def _what(error: Exception) -> str:
    """What an error says; its name where that is nothing, as an assertion's often is."""
    return str(error) or type(error).__name__


def _choose_form(target: Any) -> None:
    """Find the form of masks with which the model's sliding layers see a tree's window; else end its context there.

    Tried with a window so short that a few tokens are beyond it: models make their own masks of the config's number.
    """
    config, window = target.model.config.get_text_config(decoder=True), target.window
    try:
        config.sliding_window = UNBOUNDED
        full = _paths(target)
        config.sliding_window = target.window = WINDOW
        paths = _paths(target)
        for form in () if torch.equal(paths, full) else FORMS:
            target.form = form
            try:
                if _distance(target, _tree(target)[0][-LEAVES:], paths) < _tolerance(target):
                    target.window = window
                    return
            except REFUSALS as error:
                if out_of_memory(error):
                    raise
    finally:
        config.sliding_window = window
    target.window, target.context = 0, min(target.context, window)


def _ids(target: Any, count: int) -> list[int]:
    size = target.model.get_input_embeddings().weight.shape[0]
    return [at * max(1, size // count) % size for at in range(count)]


def _tree(target: Any) -> tuple[Tensor, Tensor]:
    """Logits and features of a tree: a root, its children, and a leaf under each of the first of them."""
    ids = _ids(target, PROMPT + 1 + SIBLINGS + LEAVES)
    cache = target.new_cache(len(ids))
    target.prefill(torch.tensor(ids[:PROMPT], device=target.device), cache)
    return target.score(ids[PROMPT:], [-1, *[0] * SIBLINGS, *range(1, LEAVES + 1)], cache)


def _paths(target: Any) -> Tensor:
    """The model's own logits [leaves, vocab] at the end of each path of that tree to a leaf."""
    ids = _ids(target, PROMPT + 1 + SIBLINGS + LEAVES)
    start, (siblings, leaves) = ids[: PROMPT + 1], (ids[PROMPT + 1 :], ids[-LEAVES:])
    paths = [[*start, *pair] for pair in zip(siblings, leaves, strict=False)]
    return target.model(input_ids=torch.tensor(paths, device=target.device)).logits[:, -1].clone()


def _distance(target: Any, found: Tensor, expected: Tensor) -> float:
    """How far logits [n, vocab] are from those expected: the largest relative error of a row; the median one in half
    precision, where rounding moves a token to another expert of a mixture now and then.
    """
    found, expected = _unmasked(found, expected)
    errors = (found - expected).norm(dim=-1) / (expected - expected.mean(dim=-1, keepdim=True)).norm(dim=-1)
    return float(errors.max() if _exact(target) else errors.median())


def _unmasked(found: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """Both without tokens that the model masks: beside logits so large no error of another would count."""
    kept = expected.abs() < MASKED
    return found.float().where(kept, 0.0), expected.float().where(kept, 0.0)


def _tolerance(target: Any) -> float:
    return 0.01 if _exact(target) else 0.1


def _exact(target: Any) -> bool:
    return target.dtype in (torch.float32, torch.float64)


def _logit_scale(target: Any, logits: Tensor, features: Tensor) -> float:
    """What the model multiplies the logits of its output embedding with, before a soft cap.

    1 where it does more to them, 0 where that embedding does not read the features, or there is none. Granite divides,
    Cohere multiplies, under names that mean either: so it is measured.
    """
    try:
        bare = target.model.get_output_embeddings()(features)[..., : logits.shape[-1]].float()
        alike = float(torch.cosine_similarity(bare, logits, dim=-1).mean())
        if cap := getattr(target.model.config.get_text_config(), "final_logit_softcapping", None):
            low = logits.abs() < 0.5 * cap  # what rounding leaves of higher ones says little
            bare, logits = bare[low], cap * (logits[low] / cap).atanh()
        scale = float((logits * bare).sum() / bare.square().sum())
        scaled = (logits - scale * bare).norm() < 0.005 * logits.norm()  # half precision rounds by 0.002
    except (*REFUSALS, NotImplementedError) as error:
        if out_of_memory(error):
            raise
        return 0.0
    if not alike > ALIKE:
        return 0.0
    return scale if scaled and abs(scale - 1) > 0.005 else 1.0


@torch.inference_mode()
def record_if_possible(target: Any, wanted: bool) -> str:
    """Let the target's passes be recorded where, replayed elsewhere in a text, they give the same; else say why not.

    A model that asks for numbers in mid-pass cannot be, and one that keeps a number of its first pass would decode
    wrongly.
    """
    if not wanted:
        return "not asked for"
    if not replayable(target.device) and target.device.type != "cpu":
        return f"{target.device.type} has none"
    ids = [at * target.vocab_size // 9 for at in range(9)]
    answers = []
    try:
        for recorded in (False, True):
            target.record_passes(recorded)
            cache = target.new_cache(16)
            target.prefill(torch.tensor(ids[:2], device=target.device), cache)
            target.score(ids[2:6], [-1, 0, 0, 1], cache)
            cache.keep(2, [0, 1, 3])
            answers.append(target.score(ids[5:9], [-1, 0, 0, 1], cache)[0].float().clone())
    except RuntimeError as error:
        if out_of_memory(error):
            raise
        target.record_passes(False)
        what = str(error).strip().splitlines()[-1]
        if "TorchScript" in str(error):  # it failed when replayed: eager attention keeps how many rows it has read
            what = f"its passes do not work at another length of the text ({what.removeprefix('RuntimeError: ')})"
        return f"{target.name} cannot be recorded: {what}"
    replayed, plain = _unmasked(*reversed(answers))
    error = float((replayed - plain).norm() / (plain - plain.mean()).norm())
    if error < (0.01 if _exact(target) else 0.2):
        return ""
    target.record_passes(False)
    return f"{target.name} answers otherwise when replayed (relative error {error:.2g})"
