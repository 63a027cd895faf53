"""Two losses against repetition (Welleck et al., Neural Text Generation with Unlikelihood Training, arXiv 1908.04319).

At every token of the data: less probability for what was there a moment ago (section 5.1). On the model's own greedy
answers: less for the tokens of an n-gram that the answer already had (section 5.2). The first is cheap; the second sees
the loops that the model really falls into.
"""

from __future__ import annotations

import random

import numpy as np
import torch
import torch.nn.functional as F
from transformers import PreTrainedModel

from jakiro.training.answers import generate

RECENT = 96  # tokens back that the token-level loss looks
GRAM = 4  # tokens that make a repetition on the sequence level
LONGEST = 768  # tokens of a prompt that is answered
CERTAIN = 1 - 1e-5  # probabilities above it count as this much


def token_level(logprobs: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Loss [b, s] on probability given to recent tokens that do not come next.

    logprobs [b, s, vocab] after ids[:, :-1]; ids [b, s + 1]. Section 5.1, over the last RECENT tokens instead of all.
    """
    padded = F.pad(ids[:, :-1], (RECENT - 1, 0))
    recent = padded.unfold(1, RECENT, 1)  # [b, s, RECENT]
    seen = torch.zeros_like(logprobs, dtype=torch.bool).scatter(-1, recent, True)
    seen = seen.scatter(-1, ids[:, 1:, None], False)
    seen[..., 0] = False  # padding
    doubt = torch.log1p(-logprobs.exp().clamp_max(CERTAIN))
    return -(doubt * seen).sum(dim=-1)


def prompts(ids: np.ndarray, said: np.ndarray, count: int, seed: int) -> list[list[int]]:
    """Up to `count` user turns of about one length from packed rows, each with its assistant mark, drawn by `seed`.

    They come from everywhere in a row: where rows are filled up with short conversations, long ones come first.
    """
    found = []
    for row, answer in zip(ids, said, strict=True):
        edges = np.flatnonzero(np.diff(answer, prepend=True))  # where a turn of the user begins, and where it ends
        turns = [row[start:end].tolist() for start, end in zip(edges[::2], edges[1::2], strict=False)]
        found += [turn for turn in turns if len(turn) <= LONGEST]
    found.sort(key=len)
    groups = [found[start : start + count] for start in range(0, len(found), count)]
    return random.Random(seed).choice(groups) if groups else []


def sequence_level(model: PreTrainedModel, prompts: list[list[int]], new_tokens: int) -> torch.Tensor:
    """[3]: the summed loss of the model's greedy answers of at most `new_tokens`, their repeated tokens, their tokens.

    Section 5.2: a token is repeated if it is part of a GRAM-gram that the same answer had before. Gradients flow
    through the probabilities of the repeated tokens, not through the choice of the answer.
    """
    width = max(map(len, prompts))
    written, attention = generate(model, prompts, new_tokens)
    written, attention = written.clone(), attention.clone()  # out of inference mode
    answer, real = written[:, width:], attention[:, width:]
    again = repeated(answer) & real
    positions = (attention.cumsum(dim=1) - 1).clamp_min(0)
    with torch.autocast(model.device.type, dtype=torch.bfloat16):
        features = model.model(
            input_ids=written[:, :-1], attention_mask=attention[:, :-1], position_ids=positions[:, :-1], use_cache=False
        ).last_hidden_state
        logits = model.lm_head(features[:, width - 1 :])
    logprobs = logits.float().log_softmax(dim=-1).gather(-1, answer[..., None])[..., 0]
    doubt = torch.log1p(-logprobs.exp().clamp_max(CERTAIN))
    return torch.stack([-(doubt * again).sum(), again.sum().float(), real.sum().float()])


def repeated(ids: torch.Tensor) -> torch.Tensor:
    """Which tokens of ids [b, s] are part of a GRAM-gram that the same row had before, [b, s] bool."""
    again = torch.zeros_like(ids, dtype=torch.bool)
    if ids.shape[1] < GRAM:
        return again
    grams = ids.unfold(1, GRAM, 1)  # [b, s - GRAM + 1, GRAM]
    same = (grams[:, :, None] == grams[:, None]).all(dim=-1)  # [b, i, j]
    starts = same.tril(diagonal=-1).any(dim=-1)
    for offset in range(GRAM):
        again[:, offset : offset + starts.shape[1]] |= starts
    return again
