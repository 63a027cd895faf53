"""EAGLE-3 heads trained on a tiny target: what a pass reads, the head's own words, and that they load and go on."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from recipes import given, losses
from safetensors.torch import save_file
from tiny import tiny_model
from transformers import AutoTokenizer

from jakiro.drafting.eagle3_config import Eagle3Config
from jakiro.drafting.eagle3_head import Eagle3Head
from jakiro.drafting.weights import read_tensors
from jakiro.engine import record
from jakiro.methods import METHODS
from jakiro.target import Target
from jakiro.training import workers
from jakiro.training.head_job import HeadJob
from jakiro.training.head_recipe import HeadRecipe, new_head
from jakiro.training.head_rows import Lesson
from jakiro.training.heads import give_words, train_heads
from jakiro.training.losses import Wanted, own_loss
from jakiro.training.packing import Rows
from jakiro.training.unrolled import UnrolledEagle3
from jakiro.verify import Sampling

HEAD = {"intermediate_size": 24, "num_attention_heads": 2, "draft_vocab_size": 60}


def how(**changes):
    return HeadRecipe.of(given(**{"heads": {"eagle3": HEAD}, "passes": 3, "steps": 30, "rate": 2.0} | changes))


@pytest.fixture(scope="module")
def deep(trained):
    """A target of nine layers whose tokenizer has learned the texts."""
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    torch.manual_seed(3)
    return tiny_model(num_hidden_layers=9, vocab_size=len(tokenizer)), tokenizer


def train(deep, data, folder, start=None, **changes):
    model, tokenizer = deep
    out = {"eagle3": folder / "heads" / "eagle3"}
    lesson = Lesson(workers.start(), model, tokenizer, how(**changes), data)
    train_heads(lesson, folder / "run", out, False, start=start)
    return out["eagle3"]


def test_a_head_learns_loads_and_drafts(deep, data, tmp_path):
    folder = train(deep, data, tmp_path, trial={"every": 30, "prompts": 2, "new_tokens": 12})
    curve = losses(tmp_path / "run/metrics.csv", "eagle3_loss")
    assert np.mean(curve[-3:]) < np.mean(curve[:3]) - 0.2
    [row] = (tmp_path / "run/trials.csv").read_text().splitlines()[1:]
    assert float(row.split(",")[1]) >= 1
    target = Target.wrap(deep[0].float(), deep[1], heads={"eagle3": folder})
    target.ends = frozenset()
    prompt = deep[1]("the cat sat")["input_ids"]
    texts = []
    for name in ("vanilla", "eagle3"):
        method = METHODS[name]
        settings = method.defaults(target)
        texts.append(record(target, method.load(target)(settings), prompt, 24, Sampling(), name, settings).tokens)
    assert texts[0] == texts[1]


def test_its_words_are_the_assistants_most_frequent_ones(deep):
    head = new_head(deep[0], how().heads["eagle3"])
    ids = np.array([[5, 7, 7, 9, 9, 9, 200, 0]], np.uint16)
    said = np.array([[0, 1, 1, 1, 1, 1, 0, 0]], bool)
    give_words(head, [Rows(ids, said)], deep[0])
    assert {7, 9} <= set(head.tokens.tolist()) and len(head.tokens.unique()) == 60
    assert torch.equal(head.t2d.nonzero()[:, 0], head.tokens)
    read_out = deep[0].get_output_embeddings().weight[head.tokens]
    torch.testing.assert_close(head.lm_head.weight, read_out)
    give_words(head, [Rows(ids, said)], deep[0], scale=0.25)  # as Cohere's
    torch.testing.assert_close(head.lm_head.weight, 0.25 * read_out)


def test_the_layers_that_it_names_are_read(deep, data, tmp_path):
    folder = train(deep, data, tmp_path / "one", steps=2, heads={"eagle3": HEAD | {"reads": [3, 4, 5]}})
    assert Eagle3Config.from_json(folder / "config.json").reads == (3, 4, 5)
    with pytest.raises(ValueError, match="an EAGLE-3 head reads what enters layers of LlamaForCausalLM"):
        train(deep, data, tmp_path / "two", steps=2, heads={"eagle3": HEAD | {"reads": [3, 4, 90]}})
    assert not (tmp_path / "two" / "run").exists()
    with pytest.raises(ValueError, match="read the last layer's output are decoded with, not trained"):
        train(deep, data, tmp_path / "two", steps=2, heads={"eagle3": HEAD | {"reads": [3, 4, 9]}})
    usual = train(deep, data, tmp_path / "usual", steps=2, heads={"eagle3": HEAD | {"reads": [2, 4, 6]}})
    train(deep, data, tmp_path / "on", start=usual.parent, steps=2)
    with pytest.raises(ValueError, match=r"has reads \(3, 4, 5\), the recipe \(\)"):
        train(deep, data, tmp_path / "two", start=folder.parent, steps=2)
    heads = {
        name: Eagle3Head(Eagle3Config(32, 48, 4, 300, reads=reads)) for name, reads in (("a", ()), ("b", (3, 4, 5)))
    }
    rows = [Rows(np.ones((64, 33), np.uint16), np.ones((64, 33), bool))]
    target = Target.wrap(deep[0], deep[1])
    assert HeadJob(workers.start(), target, {"b": heads["b"]}, how(), rows, False).inner == (3, 4, 5)
    with pytest.raises(ValueError, match="read the same layers"):
        HeadJob(workers.start(), target, heads, how(), rows, False)


def test_a_head_goes_on_with_the_words_it_has(deep, data, tmp_path):
    first = train(deep, data, tmp_path / "one", steps=3)
    again = train(deep, data, tmp_path / "two", start=first.parent, steps=2, rate=0.0)
    one, two = (read_tensors(folder) for folder in (first, again))
    assert one.keys() == two.keys() and torch.equal(one["d2t"], two["d2t"]) and torch.equal(one["t2d"], two["t2d"])
    torch.testing.assert_close(one["lm_head.weight"], two["lm_head.weight"])
    renamed = {key.replace("midlayer.", "layers.0."): value for key, value in one.items()}  # as others name it
    save_file(renamed, first / "model.safetensors")
    three = read_tensors(train(deep, data, tmp_path / "three", start=first.parent, steps=2, rate=0.0))
    assert one.keys() == three.keys()


@pytest.mark.parametrize("norms", [{}, {"fc_norm": True, "norm_output": True, "norm_before_residual": True}])
@pytest.mark.parametrize("at", [5, 9])
def test_a_pass_answers_what_a_draft_of_that_depth_would(at, norms):
    """The third pass over a text against plain calls over the text's beginning, with the head's own answers last."""
    torch.manual_seed(1)
    head = Eagle3Head(Eagle3Config(16, 24, 2, 30, draft_vocab_size=20, **norms)).eval()
    embeddings, inner = torch.randn(2, 12, 16), torch.randn(2, 12, 48)
    rows = torch.arange(22)  # all of both texts but their last ones
    found = UnrolledEagle3(head, how())(embeddings, inner, rows)
    read = head.read(inner)[:, : at + 1].clone()
    for level in range(3):
        end = at - 1 + level
        answers = head(embeddings[:, :end], read[:, :end])
        torch.testing.assert_close(found[level].view(2, 11, 20)[:, end - 1], head.logits(answers[:, -1]))
        if end <= at:
            read[:, end] = answers[:, -1]


def test_the_job_reads_the_layers_that_decoding_reads(deep):
    model = deep[0].requires_grad_(False)
    target = Target.wrap(model)
    ids = np.random.default_rng(0).integers(4, 290, (8, 65)).astype(np.uint16)
    job = HeadJob(
        workers.start(), target, {"eagle3": new_head(model, how().heads["eagle3"])}, how(), [Rows(ids, ids > 0)]
    )
    text = torch.from_numpy(ids[:1, :-1].astype(np.int64))
    features = job._features(0, text)
    inner = target.prefill(text[0], target.new_cache(80, (2, 4, 6)))[1]
    torch.testing.assert_close(features[0, :, 32:], inner)
    torch.testing.assert_close(features[0, :, :32], target.prefill(text[0], target.new_cache(80))[1])


def test_a_position_counts_by_what_the_target_gives_to_the_heads_words():
    torch.manual_seed(0)
    tokens = torch.tensor([1, 4, 5])
    logits, law = torch.randn(2, 3), torch.tensor([[0.1, 0.2, 0.1, 0.1, 0.3, 0.2], [0.9, 0.02, 0.02, 0.02, 0.02, 0.02]])
    soon = Wanted(torch.zeros(2, 1), law, law.argmax(-1), None)
    loss, agree = own_loss(logits, tokens, soon)
    logprobs = logits.log_softmax(-1)
    expected = -sum(law[row, token] * logprobs[row, own] for row in range(2) for own, token in enumerate(tokens))
    torch.testing.assert_close(loss, expected)
    assert int(agree) == int(logits[0].argmax() == 1)


def test_a_head_is_as_wide_as_its_target(deep):
    with pytest.raises(ValueError, match="target_hidden_size of a head is 48 in the recipe"):
        new_head(deep[0], how(heads={"eagle3": HEAD | {"target_hidden_size": 48}}).heads["eagle3"])


def test_an_embedding_of_its_own_is_refused_as_it_is_not_trained(deep, data, tmp_path):
    with pytest.raises(ValueError, match="head 'eagle3' has embed_requires_grad, an embedding that is not trained"):
        how(heads={"eagle3": HEAD | {"embed_requires_grad": True}})
    folder = train(deep, data, tmp_path / "one", steps=2)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"embed_requires_grad": True}))
    with pytest.raises(ValueError, match="has an embedding of its own, which is not trained: start with another"):
        train(deep, data, tmp_path / "two", start=folder.parent, steps=2)


def test_how_a_head_counts_the_layers_that_it_names_is_kept(deep, data, tmp_path):
    """The outputs of 1, 3, 5 are the inputs of 2, 4, 6, and not those of 1, 3, 5."""
    named = HEAD | {"reads": [1, 3, 5]}
    folder = train(deep, data, tmp_path / "one", steps=2, heads={"eagle3": named})
    with pytest.raises(ValueError, match="has by_inputs False, the recipe True: it goes on in its own shape"):
        train(deep, data, tmp_path / "two", start=folder.parent, steps=2, heads={"eagle3": named | {"by_inputs": True}})
    usual = HEAD | {"reads": [2, 4, 6], "by_inputs": True}
    train(deep, data, tmp_path / "three", start=folder.parent, steps=2, heads={"eagle3": usual})


def test_its_config_is_read_as_it_is_written(tmp_path):
    config = Eagle3Config(32, 48, 4, 300, num_key_value_heads=2, head_dim=16, draft_vocab_size=90)
    config = replace(config, fc_norm=True, norm_output=True, qk_norm=True)
    (tmp_path / "config.json").write_text(config.to_json())
    assert Eagle3Config.from_json(tmp_path / "config.json") == config
    assert json.loads(config.to_json())["architectures"] == ["LlamaForCausalLMEagle3"]
