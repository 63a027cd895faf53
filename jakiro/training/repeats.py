"""Two losses against repetition (Welleck et al., Neural Text Generation with Unlikelihood Training, arXiv 1908.04319).

At every token of the data: less probability for what was there a moment ago (section 5.1). On the model's own greedy
answers: less for the tokens of an n-gram that the answer already had (section 5.2). The first is cheap; the second sees
the loops that the model really falls into, and learns most from prompts that lead into one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm
from transformers import PreTrainedModel

from jakiro.models.generation import generate, generated
from jakiro.training.answers import batches
from jakiro.training.precision import in_bfloat16

RECENT = 96  # tokens back that the token-level loss looks
GRAM = 4  # tokens that make a repetition on the sequence level
LONGEST = 768  # tokens of a prompt that is answered
ROUND = 8  # tokens, at least, that an answer says again before it is taken to go round
CERTAIN = 1 - 1e-5  # probabilities above it count as this much
BATCH = 64  # prompts answered at once in search of loops


def token_level(logits: torch.Tensor, total: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Loss [b, s] on probability given to recent tokens that do not come next.

    logits [b, s, vocab] after ids[:, :-1], their logsumexp `total` [b, s]; ids [b, s + 1]. Section 5.1, over the last
    RECENT tokens instead of all, each counted once; only their probabilities are computed.
    """
    read = ids[:, :-1]
    again = F.pad(read, (0, RECENT - 1)).unfold(1, RECENT, 1)[..., 1:] == read[..., None]
    gap = torch.where(again.any(dim=-1), again.int().argmax(dim=-1) + 1, RECENT)  # to where the token comes next
    recent, gaps = (F.pad(one, (RECENT - 1, 0)).unfold(1, RECENT, 1) for one in (read, gap))  # [b, s, RECENT]
    back = torch.arange(RECENT - 1, -1, -1, device=ids.device)
    counted = (gaps > back) & (recent != ids[:, 1:, None]) & (recent != 0)  # 0 is padding
    likely = (logits.gather(-1, recent) - total[..., None]).exp()
    return -(torch.log1p(-likely.clamp_max(CERTAIN)) * counted).sum(dim=-1)


def room(model: PreTrainedModel, new_tokens: int) -> int:
    """Tokens that a prompt may have, so that the model's context takes it and `new_tokens` of an answer."""
    return min(LONGEST, model.config.max_position_embeddings - new_tokens)


def prompts(
    ids: Sequence[np.ndarray], said: Sequence[np.ndarray], count: int, seed: int, longest: int = LONGEST
) -> list[list[int]]:
    """Up to `count` user turns of about one length from packed rows, each with its assistant mark, drawn by `seed`.

    They have at most `longest` tokens, and come from everywhere in a row: where rows are filled up with short
    conversations, long ones come first.
    """
    found = []
    for row, answer in zip(ids, said, strict=True):
        edges = np.flatnonzero(np.diff(answer, prepend=True))  # where a turn of the user begins, and where it ends
        turns = [row[start:end].tolist() for start, end in zip(edges[::2], edges[1::2], strict=False)]
        found += [turn for turn in turns if len(turn) <= longest]
    return of_one_length(found, count, seed)


def of_one_length(prompts: list[list[int]], count: int, seed: int) -> list[list[int]]:
    """Up to `count` of the prompts that are about as long as one another, drawn by `seed`; none of none."""
    found = sorted(prompts, key=len)
    parts = -(-len(found) // count)  # of nearly one size: else few prompts would be drawn as often as many
    groups = [found[len(found) * part // parts : len(found) * (part + 1) // parts] for part in range(parts)]
    return random.Random(seed).choice(groups) if groups else []


def looping(model: PreTrainedModel, prompts: Sequence[list[int]], new_tokens: int) -> list[list[int]]:
    """Those of the prompts to which the model's greedy answer of at most `new_tokens` tokens goes round."""
    found = []
    with tqdm(total=len(prompts), desc="in search of loops", unit="prompt") as bar:
        for some in batches(iter(prompts), BATCH):
            asked = zip(some, generated(model, some, new_tokens), strict=True)
            found += [prompt for prompt, answer in asked if goes_round(answer)]
            bar.update(len(some))
    return found


def sequence_level(model: PreTrainedModel, prompts: list[list[int]], new_tokens: int) -> torch.Tensor:
    """[3]: the summed loss of the model's greedy answers of at most `new_tokens`, their repeated tokens, their tokens.

    Section 5.2: a token is repeated if it is part of a GRAM-gram that the same answer had before. Gradients flow
    through the probabilities of the repeated tokens, not through the choice of the answer.
    """
    width = max(map(len, prompts))
    training = model.training
    model.eval()  # else of a greedy answer something would drop out
    written, attention = generate(model, prompts, new_tokens)
    model.train(training)
    written, attention = written.clone(), attention.clone()  # out of inference mode
    answer, real = written[:, width:], attention[:, width:]
    again = repeated(answer) & real
    positions = (attention.cumsum(dim=1) - 1).clamp_min(0)
    with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=in_bfloat16(model.device)):
        features = model.model(
            input_ids=written[:, :-1], attention_mask=attention[:, :-1], position_ids=positions[:, :-1], use_cache=False
        ).last_hidden_state
        logits = model.lm_head(features[:, width - 1 :])
    logprobs = logits.float().log_softmax(dim=-1).gather(-1, answer[..., None])[..., 0]
    doubt = torch.log1p(-logprobs.exp().clamp_max(CERTAIN))
    return torch.stack([-(doubt * again).sum(), again.sum().float(), real.sum().float()])


def goes_round(ids: Sequence[int]) -> bool:
    """Whether a block of tokens is said three times in a row, the last two times at least ROUND tokens."""
    for block in range(1, len(ids) // 3 + 1):
        same = 0
        for token, before in zip(ids[block:], ids, strict=False):
            same = same + 1 if token == before else 0
            if same == max(2 * block, ROUND):
                return True
    return False


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
