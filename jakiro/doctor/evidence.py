"""What a head says along texts that its target wrote itself, fed as it should be and in ways in which it should not.

A head reads (embedding of x_{t+1}, feature h_t) and stands for h_{t+1}, which the target's output embedding turns into
x_{t+2} (EAGLE, arXiv 2401.15077, section 3.2). EAGLE-3's reads what enters three layers at t instead, and has an output
of its own. A head that was made for another wiring does better when it gets it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from jakiro.drafting.eagle3_head import Eagle3Head, layers
from jakiro.drafting.head import Head, HeadOutput, JakiroHead, SwiGLU
from jakiro.heed import Heed, heedless
from jakiro.models.generation import generate
from jakiro.models.loading import last_norm
from jakiro.target import Target

SHORT = 2  # tokens: an answer that has no more says nothing of a head
BATCH = 16  # prompts answered at once
HEATS = tuple(2 ** (half / 2) for half in range(-6, 3))  # temperatures: an unsure head does best at a low one
ORDERS = {"pairs to halves": lambda half: (half, 2), "halves to pairs": lambda half: (2, half)}  # of a head's rows


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt and the target's greedy answer to it."""

    ids: list[int]  # [n]
    start: int  # index of the answer's first token
    features: Tensor  # [n, h], after the final norm
    inner: Tensor | None  # [n, h], before it; None where the target's last norm is not known by name
    logits: Tensor | None  # [n - start, vocab], before the answer's tokens; None where `Target.logits` gives the same
    entering: dict[int, Tensor] = field(default_factory=dict)  # layer of the target -> what enters it, [n, h]


@dataclass(frozen=True, slots=True)
class Wiring:
    """How a head is fed. The default is how this project, EAGLE and Jakiro feed it."""

    swapped: bool = False  # [feature; embedding] instead of [embedding; feature]
    layers: tuple[int, ...] = ()  # whose inputs EAGLE-3's head reads; (): as it says, or those of the published ones
    inner: bool = False  # features before the target's final norm
    normed: bool = False  # the target's final norm after the head
    shift: int = 0  # the token beside h_t is x_{t + 1 + shift}
    theta: float | None = None  # base of the rotary embedding; None: the head's own
    exchanged: bool = False  # gate_proj and up_proj of what is feed-forward
    without: int | None = None  # expert of a mixture that adds nothing to it
    rows: str = ""  # queries and keys in another order, as in checkpoints whose rotary pairs are neighbours: ORDERS
    residual: bool = False  # EAGLE-3's begins its residual with what the others do: normed or not
    output: bool = False  # EAGLE-3's is fed with what the others are on further levels: normed or not


@dataclass(frozen=True, slots=True)
class Said:
    """A head's answers at the m positions whose token the target chose in an answer, and the head has."""

    logprobs: Tensor  # [m], log q of the target's choice
    heated: Tensor  # [m, HEATS], the same at each of these temperatures
    wanted: Tensor  # [m], log p of it under the target
    sure: Tensor  # [m], q of the head's own first choice
    law: Tensor  # [m], p of that choice under the target: how often it is accepted at temperature 1
    right: Tensor  # [m], bool: it is the target's own first choice
    cosine: Tensor  # [m], between its feature and the target's; nan where it predicts none
    texts: list[Text]  # that they are along


@torch.inference_mode()
def write(
    target: Target,
    prompts: list[list[int]],
    new_tokens: int,
    entered: Collection[int] = (),
    heed: Heed = heedless,
) -> list[Text]:
    """The target's greedy answers to prompts, a batch at a time, with the features of every token, and what enters some
    of the target's layers there; those of more than SHORT tokens. `heed` is called before each batch."""
    found = []
    for at in range(0, len(prompts), BATCH):
        heed(at / len(prompts))
        batch = prompts[at : at + BATCH]
        for prompt, row, real in zip(batch, *generate(target.model, batch, new_tokens, ends=target.ends), strict=True):
            ids = row[real].tolist()
            if len(ids) - len(prompt) > SHORT:
                found.append(_read(target, ids, len(prompt), entered))
    return found


def _read(target: Target, ids: list[int], start: int, entered: Collection[int]) -> Text:
    """One plain pass over a text whose answer begins at `start`."""
    norm, outer, inner = last_norm(target.decoder), [], []
    hooks = [target.decoder.register_forward_hook(lambda _, __, output: outer.append(output[0][0]))]
    if norm:
        hooks.append(norm.register_forward_pre_hook(lambda _, inputs: inner.append(inputs[0][0])))
    try:
        given = torch.tensor([ids], device=target.device)
        asked = torch.arange(start - 1, len(ids), device=target.device)  # as in `Target.prefill`, no number
        out = target.model(input_ids=given, use_cache=False, logits_to_keep=asked, output_hidden_states=bool(entered))
    finally:
        for hook in hooks:
            hook.remove()
    logits = out.logits[0, :-1]
    bare = target.logits(outer[0][start - 1 : -1])[:, : logits.shape[-1]].float()
    capped = (logits.float() - bare).norm() > 0.005 * bare.norm()  # half precision rounds by 0.002
    states = [*(state[0] for state in (out.hidden_states or ())[:-1]), *inner]  # the last of those is normed
    entering = {layer: states[layer] for layer in entered}
    return Text(ids, start, outer[0], inner[0] if inner else None, logits if capped else None, entering)


@torch.inference_mode()
def say(
    target: Target, head: Head | Eagle3Head, texts: list[Text], wiring: Wiring = Wiring(), levels: int = 1
) -> list[Said]:
    """What the head says, a `Said` for each of `levels`: the first is fed with the target's features, each further one
    with what the one before answered, as the levels of a draft are, on the target's own tokens."""
    head = _wired(head, wiring)
    parts: list[list[tuple[Tensor, ...]]] = [[] for _ in range(levels)]
    for text in texts:
        for level, out in enumerate(_passes(target, head, text, wiring, levels)):
            parts[level].append(_judged(target, head, text, _answer(out), wiring))
    return [Said(*(torch.cat(columns) for columns in zip(*part, strict=True)), texts) for part in parts]


@torch.inference_mode()
def say_ahead(target: Target, head: JakiroHead, texts: list[Text]) -> Tensor:
    """Whether what the contrastive feature at t has as likeliest is x_{t + 3}, [m] bool, where that is an answer's."""
    found = []
    for text in texts:
        [out] = _passes(target, head, text)
        said = slice(max(0, text.start - 3), len(text.ids) - 3)
        best = target.logits(out.contrast[0, said]).argmax(dim=-1)
        found.append(best == torch.tensor(text.ids[3:], device=best.device)[said])
    return torch.cat(found).cpu()


@torch.inference_mode()
def say_apart(target: Target, head: JakiroHead, texts: list[Text], count: int) -> tuple[Tensor, Tensor]:
    """The target's choices [m] in answers, and the tokens that each of N experts alone has likeliest, [N, m, count]."""
    chosen, found = [], []
    for text in texts:
        [out] = _passes(target, head, text)
        said = slice(max(0, text.start - 2), len(text.ids) - 2)
        found.append(torch.stack([target.logits(one[0, said]).topk(count).indices for one in out.experts]))
        chosen += text.ids[2:][said]
    return torch.tensor(chosen), torch.cat(found, dim=1).cpu()


def _wired(head: Head | Eagle3Head, wiring: Wiring) -> Head | Eagle3Head:
    head = copy.deepcopy(head)
    layer = head.midlayer if isinstance(head, Eagle3Head) else head.layers[0]
    attention = layer.self_attn
    if wiring.residual:
        layer.config = replace(layer.config, norm_before_residual=not layer.config.norm_before_residual)
    if wiring.output:
        head.config = replace(head.config, norm_output=not head.config.norm_output)
    if wiring.theta is not None:
        attention.config = replace(attention.config, rope_theta=wiring.theta)
    if wiring.exchanged:
        for one in layer.modules():
            if isinstance(one, SwiGLU):
                one.gate_proj, one.up_proj = one.up_proj, one.gate_proj
    if wiring.without is not None:
        down = layer.mlp_moe.experts[wiring.without].down_proj
        down.weight = nn.Parameter(torch.zeros_like(down.weight), requires_grad=False)
    if wiring.rows:
        for part in ("q_proj", "k_proj", "q_norm", "k_norm"):
            for name, weight in getattr(attention, part, nn.Module()).named_parameters():
                pairs = weight.unflatten(0, (-1, *ORDERS[wiring.rows](attention.config.head_dim // 2)))
                ordered = nn.Parameter(pairs.transpose(1, 2).flatten(0, 2), requires_grad=False)
                setattr(getattr(attention, part), name, ordered)
    if wiring.swapped:
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        for entry in projections if isinstance(head, Eagle3Head) else (head.fc,):
            entry.weight = nn.Parameter(torch.cat(entry.weight.chunk(2, dim=1)[::-1], dim=1), requires_grad=False)
    return head


def _passes(
    target: Target, head: Head | Eagle3Head, text: Text, wiring: Wiring = Wiring(), levels: int = 1
) -> list[Tensor | HeadOutput]:
    """What the head gives at t = 0 .. n - 3, [1, s, h], level by level."""
    count = len(text.ids) - 2
    tokens = torch.tensor([[text.ids[max(0, t + 1 + wiring.shift)] for t in range(count)]], device=target.device)
    embeddings = getattr(head, "embed_tokens", target.embed)(tokens)
    if isinstance(head, Eagle3Head):
        entering = [text.entering[layer][:count] for layer in wiring.layers or layers(target, head.config)]
        read = head.read(torch.cat(entering, dim=-1))[None]
    else:
        read = (text.inner if wiring.inner else text.features)[None, :count]
    found: list[Tensor | HeadOutput] = []
    passes: list = []
    for _ in range(levels):
        if found:
            read = torch.cat([read[:, :1], _answer(found[-1])[None, :-1]], dim=1)
        found.append(head(embeddings, read, passes))
    return found


def _answer(out: Tensor | HeadOutput) -> Tensor:
    """[s, h] of what a head gives."""
    return (out.mixed if isinstance(out, HeadOutput) else out)[0]


def _judged(target: Target, head: Head | Eagle3Head, text: Text, answer: Tensor, wiring: Wiring) -> tuple[Tensor, ...]:
    count = len(text.ids) - 2
    said = slice(max(0, text.start - 2), count)  # t whose x_{t + 2} is the answer's
    chosen = torch.tensor(text.ids[2:], device=answer.device)[said]
    own = text.features[1 : count + 1][said]
    law = target.logits(own) if text.logits is None else text.logits[-len(chosen) :]
    law = law.float().log_softmax(dim=-1)
    answer = last_norm(target.decoder)(answer[said]) if wiring.normed else answer[said]
    if isinstance(head, Eagle3Head):
        logits, tokens, cosine = head.logits(answer), head.tokens, law.new_full(chosen.shape, torch.nan)
    else:
        logits, tokens = target.logits(answer), torch.arange(law.shape[-1], device=law.device)
        cosine = torch.cosine_similarity(answer.float(), own.float(), dim=-1)
    logits = logits.float()
    logprobs = logits.log_softmax(dim=-1)
    place = chosen.new_full((law.shape[-1],), -1)  # of each of the target's tokens among the head's
    place[tokens] = torch.arange(len(tokens), device=law.device)
    sure, best = logprobs.max(dim=-1)
    best = tokens[best]
    ours, theirs, accepted = (part.gather(-1, ids[:, None])[:, 0] for part, ids in
                              ((logprobs, place[chosen].clamp_min(0)), (law, chosen), (law, best)))  # fmt: skip
    had, at = place[chosen] >= 0, place[chosen].clamp_min(0)[:, None]
    spread = torch.stack([(logits / heat).logsumexp(dim=-1) for heat in HEATS], dim=-1)
    heated = logits.gather(-1, at) / torch.tensor(HEATS, device=at.device) - spread
    return tuple(one[had].cpu() for one in (ours, heated, theirs, sure.exp(), accepted.exp(), best == chosen, cosine))
