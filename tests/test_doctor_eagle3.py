"""The doctor on EAGLE-3's head: a sound one has nothing wrong, each defect that is planted is found."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from test_doctor import verdicts
from tiny import tiny_model, tiny_tokenizer
from torch.nn import functional as F

from jakiro.__main__ import main
from jakiro.doctor.checks import entered, examine
from jakiro.doctor.evidence import say, write
from jakiro.drafting.eagle3_config import Eagle3Config
from jakiro.drafting.eagle3_head import Eagle3Head, layers
from jakiro.drafting.weights import save_head
from jakiro.target import Target
from jakiro.text import encode

PROMPTS = [f"the {a}{b}" for a in "abcd" for b in "uvw"]
NEW = 24
SHAPE = Eagle3Config(hidden_size=32, intermediate_size=64, num_attention_heads=4, vocab_size=300, draft_vocab_size=200)


@pytest.fixture(scope="module")
def target():
    target = Target.wrap(tiny_model(num_hidden_layers=9), tiny_tokenizer(), {}, name="tiny")
    target.ends = frozenset()
    return target


@pytest.fixture(scope="module")
def texts(target):
    kept = entered(target, Eagle3Head(SHAPE))
    assert layers(target) == (2, 4, 6) and kept == {1, 2, 3, 4, 5, 6, 7}
    return {
        chat: write(target, [encode(target.tokenizer, one, chat=chat) for one in PROMPTS], NEW, kept)
        for chat in (True, False)
    }


def words(texts, size):
    """The tokens that the target says most often, and others."""
    counts = torch.zeros(300)
    for text in texts:
        counts += torch.bincount(torch.tensor(text.ids[text.start :]), minlength=300)
    return counts.topk(size).indices.sort().values


def taught(target, texts, reads=(2, 4, 6), shift=0, shape=SHAPE, steps=80):
    """A head that knows these texts, fed as asked for."""
    torch.manual_seed(0)
    head = Eagle3Head(shape)
    head.speak(words(texts, shape.draft_vocab_size))
    ids = torch.tensor([text.ids for text in texts])
    count = ids.shape[1] - 2
    inner = torch.stack([torch.cat([text.entering[layer] for layer in reads], -1) for text in texts]).clone()
    embeddings = target.embed(ids[:, [max(0, t + 1 + shift) for t in range(count)]]).clone()
    place = torch.full((300,), -100)
    place[head.tokens] = torch.arange(shape.draft_vocab_size)
    optimizer = torch.optim.AdamW(head.parameters(), lr=8e-3)
    for _ in range(steps):
        fused = head.read(inner[:, :count])
        passes, read, loss = [], fused, 0.0
        for _ in range(2):
            out = head(embeddings, read, passes)
            loss = loss + F.cross_entropy(head.logits(out).flatten(0, 1), place[ids[:, 2:].flatten()])
            read = torch.cat([fused[:, :1], out[:, :-1]], dim=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return head.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def sound(target, texts):
    return taught(target, texts[True])


def test_a_sound_head_has_nothing_wrong(target, texts, sound):
    found = verdicts(target, sound, texts)
    assert {check for check, verdict in found.items() if verdict == "wrong"} == set(), found
    assert found["agreement"] == found["vocabulary"] == found["chat template"] == "good"
    assert not {"features", "features after the final norm"} & found.keys()


def test_a_head_that_wants_the_feature_first_is_found(target, texts, sound):
    head = copy.deepcopy(sound)
    attention = head.midlayer.self_attn
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        projection.weight.copy_(projection.weight.roll(32, dims=1))
    assert verdicts(target, head, texts)["order of the entry"] == "wrong"


@pytest.mark.parametrize(("reads", "name"), [((6, 4, 2), "first"), ((1, 3, 5), "earlier"), ((3, 5, 7), "later")])
def test_a_head_made_for_other_layers_is_found(target, texts, reads, name):
    head = taught(target, texts[True], reads)
    found = {one.check: one for one in examine(target, head, texts[True], texts[False])}["layers that it reads"]
    assert found.verdict == "wrong" and name in found.text


def test_layers_that_a_head_names_wrongly_are_found(target, texts, sound):
    head = copy.deepcopy(sound)
    assert entered(target, Eagle3Head(replace(SHAPE, reads=(1, 4, 7)))) == {1, 2, 4, 5, 6, 7, 8}
    head.config = replace(head.config, reads=(3, 4, 5))
    found = {one.check: one for one in examine(target, head, texts[True], texts[False])}["layers that it reads"]
    assert found.verdict == "wrong" and "the usual layers" in found.text


def test_a_head_that_reads_another_token_is_found(target, texts):
    head = taught(target, texts[True], shift=-1)
    assert verdicts(target, head, texts)["token beside the feature"] == "wrong"


def test_another_rotary_base_is_found(target, texts):
    head = taught(target, texts[True], shape=replace(SHAPE, rope_theta=100.0))
    head.midlayer.self_attn.config = head.config = replace(head.config, rope_theta=1_000_000.0)
    assert verdicts(target, head, texts)["rotary base"] == "wrong"


@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize(
    ("name", "check"), [("norm_before_residual", "residual"), ("norm_output", "answers that it reads")]
)
def test_a_head_that_is_normed_otherwise_than_it_says_is_found(target, texts, name, check, normed):
    """No tensor tells: a config.json that was written anew may lack the field."""
    head = taught(target, texts[True], shape=replace(SHAPE, **{name: normed}))
    assert verdicts(target, head, texts)[check] == "good"
    head.midlayer.config = head.config = replace(head.config, **{name: not normed})
    found = {one.check: one for one in examine(target, head, texts[True], texts[False])}[check]
    assert found.verdict == "wrong" and ("not normed" in found.text) != normed


def test_a_head_that_leaves_half_precision_on_its_own_answers_is_said_to(texts, sound):
    """Its first level is in numbers."""
    half = Target.wrap(tiny_model(num_hidden_layers=9).half(), tiny_tokenizer(), {}, name="tiny")
    half.ends = frozenset()
    told = write(half, [encode(half.tokenizer, one) for one in PROMPTS], NEW, entered(half, sound))
    head = copy.deepcopy(sound)
    head.midlayer.mlp.down_proj.weight.mul_(3000)
    first, second = say(half, head.half(), told, levels=2)
    assert first.logprobs.isfinite().all() and second.logprobs.isnan().any()
    [found] = examine(half, head, told, [])
    assert found.check == "numbers" and "no number in torch.float16: use bfloat16 or float32" in found.text


def test_a_vocabulary_that_lacks_what_the_target_says_is_found(target, texts, sound):
    head = copy.deepcopy(sound)
    said = torch.tensor([token for text in texts[True] for token in text.ids[text.start :]])
    seldom = said.bincount(minlength=300).topk(230).indices[30:].sort().values
    head.speak(seldom)
    assert verdicts(target, head, texts)["vocabulary"] == "suspect"
    found = say(target, head, texts[True])[0]
    assert len(found.logprobs) == torch.isin(said, seldom).sum() < len(said)
    agreement = examine(target, head, texts[True], texts[False])[0]  # of all that the target said, lacking or not
    assert agreement.numbers["agreement"] == pytest.approx(found.right.sum().item() / len(said))
    assert f"of {len(said)} positions" in agreement.text
    head.speak(seldom[~torch.isin(seldom, said)][:1].repeat(200))
    assert [one.check for one in examine(target, head, texts[True], texts[False])] == ["vocabulary"]


def test_a_vocabulary_that_lacks_what_is_said_without_the_template_has_no_numbers_of_it(target, texts):
    chat, plain = ({token for text in texts[chat] for token in text.ids[text.start :]} for chat in (True, False))
    only = sorted(chat - plain)
    head = Eagle3Head(replace(SHAPE, draft_vocab_size=len(only)))
    head.speak(torch.tensor(only))
    found = {one.check: one for one in examine(target, head, texts[True], texts[False])}["chat template"]
    assert (found.verdict, found.numbers) == ("unknown", {})


def test_the_levels_are_those_of_a_draft(target, texts, sound):
    """The second level reads what the first answered, without fc: as a plain run of the head by hand."""
    text, t = texts[True][0], 12
    said = say(target, sound, [text], levels=2)
    with torch.inference_mode():
        embeddings = target.embed(torch.tensor([text.ids[1 : t + 2]]))
        fused = sound.fc(torch.cat([text.entering[layer][:t] for layer in (2, 4, 6)], -1))[None]
        first = sound(embeddings[:, :t], fused)
        logits = sound.logits(sound(embeddings, torch.cat([fused, first[:, -1:]], dim=1))[0, -1])
    own = sound.tokens.tolist()
    before = sum(token in own for token in text.ids[text.start : t + 2])  # positions of which the head has the token
    assert text.ids[t + 2] in own
    expected = logits.log_softmax(-1)[own.index(text.ids[t + 2])]
    assert said[1].logprobs[before] == pytest.approx(expected.item(), abs=1e-4)
    assert said[1].cosine.isnan().all()


def test_the_command_examines_it(target, sound, tmp_path, capsys):
    folder = tmp_path / "target"
    target.model.save_pretrained(folder)
    target.tokenizer.save_pretrained(folder)
    save_head(folder / "eagle3", sound)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"turns": [prompt]}) + "\n" for prompt in PROMPTS[:6]))
    asked = ["doctor", "--target", folder, "--method", "eagle3", "--prompts", prompts, "--out", tmp_path / "d.json"]
    assert main([str(one) for one in asked]) == 0
    found = json.loads((tmp_path / "d.json").read_text())["findings"]
    assert [one["check"] for one in found][:3] == ["keys and shapes", "agreement", "vocabulary"] and len(found) == 14
    assert "all 15 tensors of target/eagle3 fit" in capsys.readouterr().out
    assert load_file(folder / "eagle3/model.safetensors").keys() == sound.state_dict().keys()
