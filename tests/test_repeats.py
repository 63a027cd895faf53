"""The losses against repetition, and what counts as one."""

import math

import numpy as np
import pytest
import torch
from tiny import tiny_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from jakiro.training import repeats
from jakiro.training.data import encoded, templated


def test_unlikelihood_counts_recent_tokens_but_the_next_one_once_each():
    ids = torch.tensor([[5, 7, 5, 5, 9]])
    law = torch.full((1, 4, 10), 0.04)
    law[..., 5], law[..., 7], law[..., 0] = 0.3, 0.2, 0.5
    loss = repeats.token_level(law.log() + 2.0, torch.full((1, 4), 2.0), ids)
    five, seven = -math.log(1 - 0.3), -math.log(1 - 0.2)
    # after 5 comes 7: 5 is recent · after 7 comes 5: 7 is · after 5 comes 5: 7 is · after 5 comes 9: both are
    torch.testing.assert_close(loss, torch.tensor([[five, seven, seven, five + seven]]))


def test_unlikelihood_looks_as_far_back_as_it_says(monkeypatch):
    """After one token, two, three and four that all differ, the last three are recent."""
    monkeypatch.setattr(repeats, "RECENT", 3)
    loss = repeats.token_level(torch.full((1, 4, 10), 0.04).log(), torch.zeros(1, 4), torch.tensor([[5, 6, 7, 8, 9]]))
    torch.testing.assert_close(loss / -math.log(1 - 0.04), torch.tensor([[1.0, 2.0, 3.0, 3.0]]))


def test_what_fills_up_an_answer_that_has_ended_is_not_repeated(monkeypatch):
    """Of 10 tokens 4 are said again, of 2 none, whatever number of zeros follows them."""
    answers = [[11, 12, 13, 14, 11, 12, 13, 14, 15, 16], [17, 18, *[0] * 8]]
    written = torch.tensor([[5, 9, 7, *answer] for answer in answers])
    monkeypatch.setattr(repeats, "generate", lambda *given: (written, written != 0))
    _, again, tokens = repeats.sequence_level(tiny_model(), [[5, 9, 7]] * 2, 10).tolist()
    assert (again, tokens) == (4, 12)


def test_nothing_of_a_greedy_answer_drops_out_in_training(monkeypatch):
    model, write, written = tiny_model(attention_dropout=0.5).train(), repeats.generate, []
    monkeypatch.setattr(repeats, "generate", lambda *given: written.append(write(*given)[0].tolist()) or write(*given))
    for _ in range(3):
        repeats.sequence_level(model, [[5, 9, 7]], 10)
    assert written == [written[0]] * 3 and model.training


def test_tokens_of_a_gram_that_came_before_are_repeated():
    ids = torch.tensor([[1, 2, 3, 4, 9, 1, 2, 3, 4, 5, 1, 2, 3, 6], [7, 7, 7, 7, 7, 7, 8, 9, 7, 7, 7, 1, 2, 3]])
    again = [[at for at, mark in enumerate(row) if mark] for row in repeats.repeated(ids).tolist()]
    assert again == [[5, 6, 7, 8], [1, 2, 3, 4, 5]]
    assert not repeats.repeated(ids[:, :3]).any()


def test_prompts_come_from_everywhere_in_a_row_and_have_about_one_length():
    row = [(1, 0), (2, 1), (3, 0), (4, 0), (5, 0), (6, 1), (7, 1), (8, 0), (9, 0), (10, 1), (0, 0)]  # (id, said)
    plain = [(1, 1)] * 5 + [(2, 0), (3, 1)] + [(0, 0)] * 4  # begins in the middle of a text
    ids, said = (np.array([[pair[at] for pair in one] for one in (row, plain)]) for at in (0, 1))
    drawn = [repeats.prompts(ids, said.astype(bool), 2, seed) for seed in range(20)]
    assert {str(one) for one in drawn} == {"[[1], [2]]", "[[8, 9], [3, 4, 5]]"}
    assert drawn == [repeats.prompts(ids, said.astype(bool), 2, seed) for seed in range(20)]
    lengths = [list(map(len, repeats.prompts(ids, said.astype(bool), 4, 0, longest))) for longest in (2, 3)]
    assert lengths == [[1, 1, 2], [1, 1, 2, 3]]
    assert repeats.prompts(ids[:, :1], np.ones((2, 1), bool), 2, 0) == []


def test_no_prompt_is_drawn_much_more_often_than_another():
    prompts = [[0] * length for length in range(1, 26)]
    drawn = [repeats.of_one_length(prompts, 24, seed) for seed in range(50)]
    assert {(len(one), len(one[0])) for one in drawn} == {(12, 1), (13, 13)}
    assert repeats.of_one_length([], 24, 0) == []


def test_only_what_an_answer_repeats_is_a_loss(trained):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    messages = [{"role": "user", "content": "the cat sat"}, {"role": "assistant", "content": "on"}]
    ids, said = (np.array([row]) for row in encoded(tokenizer, templated(tokenizer, messages))[0])
    prompts = repeats.prompts(ids, said, 8, seed=0)
    assert tokenizer.decode(prompts[0]) == "<|user|>the cat sat<|end|><|assistant|>"
    prompts.append(prompts[0][1:])  # of another length
    with torch.no_grad():  # every token is followed by itself
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.norm.weight.fill_(1.0)
        rows = torch.nn.functional.normalize(model.model.embed_tokens.weight, dim=-1)
        model.model.embed_tokens.weight.copy_(rows)
        model.lm_head.weight.copy_(rows)
    assert repeats.looping(model, prompts, 12) == prompts[::-1]  # the shorter one comes first
    last = torch.tensor([prompts[0][-1:]])
    p = model(last).logits[0, -1].softmax(-1)[last[0, 0]].item()
    loss, share = mean(repeats.sequence_level(model, prompts, 12))
    assert share == pytest.approx(11 / 12)  # all but the first token
    assert loss.item() == pytest.approx(-math.log(1 - p) * 11 / 12, rel=0.05)
    loss.backward()
    with torch.no_grad():
        model.lm_head.weight -= 0.01 * model.lm_head.weight.grad
        lower, _ = mean(repeats.sequence_level(model, prompts, 12))
        assert lower.item() < loss.item()
        model.lm_head.weight.copy_(rows.roll(1, dims=0))  # every token is followed by the next id
        loss, share = mean(repeats.sequence_level(model, prompts, 12))
    assert (loss.item(), share) == (0.0, 0.0) and repeats.looping(model, prompts, 12) == []


def mean(sums):
    loss, again, tokens = sums
    return loss / tokens, (again / tokens).item()


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 4], True),  # a short block: eight tokens again
        ([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 4], False),  # seven
        ([1, 2, 3, 4, 5] * 3, True),
        ([1, 2, 3, 4, 5] * 2 + [1, 2, 3, 4, 9], False),  # nine of ten: the third time is another
        ([5] * 9, True),
        ([1, 2, 3, 4, 5, 9, 1, 2, 3, 4, 5, 8, 1, 2, 3, 4, 5], False),  # never the same block
        ([], False),
    ],
)
def test_an_answer_goes_round_when_it_says_a_block_three_times_in_a_row(ids, expected):
    assert repeats.goes_round(ids) is expected
