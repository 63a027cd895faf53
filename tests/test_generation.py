"""Answers to many prompts at once are those that `model.generate` gives to each alone."""

import pytest
import torch
from tiny import VOCAB, tiny_model

from jakiro.models.generation import generate, plain

PROMPTS = [[5, 9, 7], [8, 6, 4, 4, 4, 3, 2], [1, 2]]
ENDS = [3, 17, 45, 77]


@pytest.mark.parametrize(
    ("family", "attention"),
    [("llama", "sdpa"), ("llama", "eager"), ("gpt2", "sdpa"), ("gemma2", "eager"), ("mistral", "sdpa")],
)
def test_greedy_answers_are_those_of_the_model_alone(family, attention):
    model = tiny_model(family, attention)
    written, real = generate(model, PROMPTS, 30, ends=ENDS)
    lengths = set()
    for prompt, row, mask in zip(PROMPTS, written, real, strict=True):
        with plain(model):
            wanted = model.generate(torch.tensor([prompt]), max_new_tokens=30, eos_token_id=ENDS, pad_token_id=0)
        assert row[mask].tolist() == wanted[0].tolist()
        lengths.add(wanted.shape[1] - len(prompt))
    assert written.shape == real.shape == (3, 7 + max(lengths))


def test_answers_that_have_ended_leave_the_batch_and_the_others_stay_as_they_are():
    model, prompts = tiny_model(), [[5, 9, 7], [8, 6, 4], [1, 2, 2], [11, 30, 9], [250, 7, 7]]
    [first], _ = generate(model, prompts[:1], 40, ends=[])
    ends, rows = [0, first[5].item()], []  # what the first says third, and what it does not say before that
    hook = model.register_forward_pre_hook(lambda _, __, given: rows.append(len(given["input_ids"])), with_kwargs=True)
    written, real = generate(model, prompts, 40, ends=ends)
    hook.remove()
    assert rows[0] == 5 and 2 <= min(rows) < 5
    assert written[0][real[0]].tolist() == first[:6].tolist()
    for prompt, row, mask in zip(prompts, written, real, strict=True):
        [alone], _ = generate(model, [prompt], 40, ends=ends)
        assert row[mask].tolist() == alone.tolist()


def test_tokens_are_drawn_by_the_models_law_or_from_its_likeliest():
    model = tiny_model()
    prompt, count, temperature = [5, 9, 7], 4000, 0.7
    law = (model(input_ids=torch.tensor([prompt])).logits[0, -1] / temperature).softmax(dim=-1).detach()
    for top_k in (0, 5):
        torch.manual_seed(1)
        written, _ = generate(model, [prompt] * count, 1, temperature, ends=[], top_k=top_k)
        wanted = law if not top_k else torch.where(law >= law.topk(top_k).values[-1], law, 0)
        wanted = wanted / wanted.sum()
        found = written[:, -1].bincount(minlength=VOCAB) / count
        assert (found - wanted).abs().max() < 4 * (0.25 / count) ** 0.5
        assert found[wanted == 0].sum() == 0


@pytest.mark.parametrize("foreign", [VOCAB, -1])
def test_a_prompt_of_another_models_tokenizer_is_refused(foreign):
    with pytest.raises(ValueError, match=f"outside 0 to {VOCAB - 1}; .* take that and the model from one place"):
        generate(tiny_model(), [[1, 2], [3, foreign]], 4)
