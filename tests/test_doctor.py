"""Each defect of the doctor's list, planted in a head that is otherwise sound, is found; a sound head has none."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_model, tiny_tokenizer
from torch import nn
from torch.nn import functional as F

from jakiro.__main__ import main
from jakiro.doctor import checks
from jakiro.doctor.checks import Finding, examine
from jakiro.doctor.evidence import Said, Wiring, say, say_ahead, write
from jakiro.doctor.mixture import experts, of_mixture
from jakiro.doctor.visit import visit
from jakiro.drafting.config import HeadConfig
from jakiro.drafting.head import EagleHead, HeadOutput, JakiroHead, SwiGLU
from jakiro.drafting.weights import save_head
from jakiro.heed import heedless
from jakiro.models.loading import last_norm
from jakiro.target import Target
from jakiro.text import encode
from jakiro.ui.live import examinations
from jakiro.ui.models import Models, RequestError

PROMPTS = [f"the {a}{b}" for a in "abcd" for b in "uvw"]
NEW = 24
SHAPE = HeadConfig(hidden_size=32, intermediate_size=64, num_attention_heads=4, vocab_size=300)


@pytest.fixture(scope="module")
def target():
    target = Target.wrap(tiny_model(), tiny_tokenizer(), {}, name="tiny")
    target.ends = frozenset()
    return target


@pytest.fixture(scope="module")
def texts(target):
    return {chat: answers(target, chat) for chat in (True, False)}


def answers(target, chat):
    return write(target, [encode(target.tokenizer, prompt, chat=chat) for prompt in PROMPTS], NEW)


def taught(target, texts, kind=EagleHead, shape=SHAPE, inner=False, shift=0, feature=1.0, steps=80):
    """A head that knows these texts, fed as asked for."""
    torch.manual_seed(0)
    head = kind(shape)
    ids = torch.tensor([text.ids for text in texts])
    count = ids.shape[1] - 2
    read = torch.stack([text.inner if inner else text.features for text in texts]).clone()
    wanted = torch.stack([text.features for text in texts]).clone()[:, 1 : count + 1]
    beside = ids[:, [max(0, t + 1 + shift) for t in range(count)]]
    embeddings = target.embed(beside).clone()
    optimizer = torch.optim.AdamW(head.parameters(), lr=8e-3)
    for _ in range(steps):
        out = head(embeddings, read[:, :count])
        out = out if kind is EagleHead else out.mixed
        features = last_norm(target.decoder)(out) if inner else out
        logits = F.linear(features, target.model.get_output_embeddings().weight.clone())
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 2:].flatten())
        loss = loss + feature * F.smooth_l1_loss(features, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return head.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def sound(target, texts):
    return taught(target, texts[True])


def verdicts(target, head, texts):
    return {one.check: one.verdict for one in examine(target, head, texts[True], texts[False])}


@pytest.mark.parametrize("kind", [EagleHead, JakiroHead])
def test_a_sound_head_has_nothing_wrong(target, texts, sound, kind):
    head = sound if isinstance(sound, kind) else taught(target, texts[True], kind)
    found = verdicts(target, head, texts)
    assert {check for check, verdict in found.items() if verdict == "wrong"} == set(), found
    assert found["agreement"] == found["features"] == found["chat template"] == "good"


def test_a_head_that_wants_the_feature_first_is_found(target, texts, sound):
    head = copy.deepcopy(sound)
    head.fc.weight = nn.Parameter(head.fc.weight.roll(32, dims=1), requires_grad=False)
    assert verdicts(target, head, texts)["order of the entry"] == "wrong"


def test_a_head_made_before_the_final_norm_is_found(target, texts):
    head = taught(target, texts[True], inner=True)
    assert verdicts(target, head, texts)["features after the final norm"] == "wrong"


def test_an_unsure_head_was_not_made_before_the_final_norm(target, texts, sound):
    """In that wiring a norm stands behind the head, which makes it surer; here both have the same features."""
    head = copy.deepcopy(sound)
    head.register_forward_hook(lambda module, given, answer: 0.2 * answer)
    alike = [replace(text, inner=text.features) for text in texts[True]]
    found = verdicts(target, head, {True: alike, False: texts[False]})
    assert found["features after the final norm"] == "good"


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_head_that_reads_another_token_is_found(target, texts, shift):
    head = taught(target, texts[True], shift=shift)
    assert verdicts(target, head, texts)["token beside the feature"] == "wrong"


def test_another_rotary_base_is_found(target, texts):
    head = taught(target, texts[True], shape=replace(SHAPE, rope_theta=100.0))
    attention = head.layers[0].self_attn
    attention.config = head.config = replace(head.config, rope_theta=1_000_000.0)
    found = {one.check: one for one in examine(target, head, texts[True], texts[False])}["rotary base"]
    assert found.verdict == "wrong" and "with 100:" in found.text


def turned(head, order):
    """The head with the rows of its queries and keys in another order, as a checkpoint may have them."""
    head = copy.deepcopy(head)
    attention = head.layers[0].self_attn
    rows = torch.arange(head.config.head_dim).view(order).T.flatten()
    for name in ("q_proj", "k_proj", "q_norm", "k_norm"):
        for weight in getattr(attention, name, nn.Module()).parameters():
            weight.data = weight.data.unflatten(0, (-1, len(rows)))[:, rows].flatten(0, 1)
    return head


@pytest.mark.parametrize(("order", "name"), [((2, -1), "pairs to halves"), ((-1, 2), "halves to pairs")])
def test_queries_and_keys_in_another_order_are_found(target, texts, sound, order, name):
    head = turned(sound, order)
    found = {one.check: one for one in examine(target, head, texts[True], texts[False])}["queries and keys"]
    assert found.verdict == "wrong" and f"better with their rows from {name}:" in found.text
    torch.manual_seed(0)
    whole = EagleHead(replace(SHAPE, num_key_value_heads=2, qkv_bias=True, qk_norm=True)).requires_grad_(False)
    for weight in whole.parameters():
        weight.normal_()
    plain, back = say(target, whole, texts[True])[0], say(target, turned(whole, order), texts[True], Wiring(rows=name))
    torch.testing.assert_close(back[0].logprobs, plain.logprobs)


@pytest.mark.parametrize("kind", [EagleHead, JakiroHead])
def test_gate_and_up_exchanged_are_found(target, texts, kind):
    head = taught(target, texts[True], kind)
    before = say(target, head, texts[True])[0].logprobs
    for part in [one for one in head.modules() if isinstance(one, SwiGLU)]:
        part.gate_proj.weight, part.up_proj.weight = part.up_proj.weight, part.gate_proj.weight
    assert verdicts(target, head, texts)["gate and up projection"] == "wrong"
    assert say(target, head, texts[True], Wiring(exchanged=True))[0].logprobs.equal(before)


def test_a_head_of_text_without_the_template_is_found(target, texts):
    head = taught(target, texts[False])
    found = {one.check: one for one in examine(target, head, texts[True], texts[False])}["chat template"]
    assert found.verdict == "suspect" and "give the template and --system that it was trained with" in found.text


def test_a_head_that_predicts_no_features_is_found(target, texts):
    head = taught(target, texts[True], feature=0.0)
    found = verdicts(target, head, texts)
    assert found["agreement"] == "good" and found["features"] == found["own features"] == "suspect"


def test_a_head_that_is_too_sure_is_found(target, texts, sound):
    head, factor = copy.deepcopy(sound), 4.0  # its answer four times as long, all else equal
    layer = head.layers[0]
    for weight in (head.fc.weight, head.fc.bias, layer.mlp.down_proj.weight):
        weight.mul_(factor)
    for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
        projection.weight.div_(factor)
    right = [say(target, one, texts[True])[0].right for one in (sound, head)]
    assert right[0].equal(right[1])
    assert verdicts(target, head, texts)["calibration"] == "suspect"


def judged(right, sure, law):
    """What a head says, of which only this counts."""
    nothing = torch.zeros(len(right))
    return Said(nothing, nothing[:, None], nothing, *map(torch.tensor, (sure, law, right)), nothing, [])


def test_calibration_adds_up_what_is_too_much_and_too_little():
    """Three quarters of the choices are surer than the target by 0.2, one is less sure by 0.4."""
    found = checks._calibration(judged([True] * 4, [0.9, 0.9, 0.9, 0.1], [0.7, 0.6, 0.8, 0.5]))
    assert found.numbers["expected_calibration_error"] == pytest.approx(0.75 * 0.2 + 0.25 * 0.4)
    assert [(round(row["q"], 6), round(row["accepted"], 6), row["positions"]) for row in found.numbers["bins"]] == [
        (0.1, 0.5, 1), (0.9, 0.7, 3)
    ]  # fmt: skip
    assert found.verdict == "suspect" and "gives its first choice 70.0%, the target 65.0% (error 0.25)" in found.text
    assert checks._calibration(judged([True] * 2, [1.0, 0.8], [0.9, 0.7])).verdict == "good"


@pytest.mark.parametrize(("last", "verdict"), [(4, "good"), (3, "suspect")])
def test_a_level_may_be_right_half_as_often_as_the_one_above(last, verdict):
    levels = [judged([at < count for at in range(10)], [0.5] * 10, [0.5] * 10) for count in (10, 8, last)]
    found = checks._levels(levels)
    assert found.verdict == verdict and found.numbers["agreement_by_level"] == pytest.approx([1.0, 0.8, last / 10])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_layers_that_share_keys_are_read_whole(attention):
    """Gemma 4, asked for a number of logits, leaves all other tokens out of them."""
    kinds = ["sliding_attention", "full_attention"] * 2
    sizes = {"head_dim": 8, "global_head_dim": 8, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 300}
    sharing = {"num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": kinds, "sliding_window": 8}
    target = Target.wrap(tiny_model("gemma4_text", attention=attention, **sizes, **sharing), tiny_tokenizer())
    target.ends = frozenset()
    [text] = write(target, [[5, 6, 7, 8, 9, 10, 11]], 10)
    assert len(text.features) == len(text.inner) == len(text.ids)


def test_a_gain_is_paired_by_position():
    """Of 1, 2 and 3 nats: 2 in the mean, give or take 1 / sqrt(3)."""
    said = judged([True] * 3, [0.5] * 3, [0.5] * 3)
    other = replace(said, heated=torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]))
    assert checks._gain(said, other) == pytest.approx((2.0, 3**-0.5))


def test_a_wiring_that_only_makes_a_head_surer_is_no_gain(target, texts, sound, monkeypatch):
    """As a norm on what an unsure head reads may do: it would be said to have been made for that."""
    said = say(target, sound, texts[True])[0]
    read = target.logits
    monkeypatch.setattr(target, "logits", lambda features: read(features) / 2)  # of the head's, and of the target's
    unsure = say(target, sound, texts[True])[0]
    assert (said.logprobs - unsure.logprobs).mean() > 10 * checks.GAIN and said.right.equal(unsure.right)
    assert checks._gain(unsure, said)[0] == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("sure", [1, 30])
def test_an_untrained_head_is_found_and_nothing_else_is_blamed(target, texts, sure):
    """However sure it is of what it says, so that whatever makes it less so is a gain."""
    torch.manual_seed(1)
    head = EagleHead(SHAPE).eval().requires_grad_(False)
    head.fc.weight.mul_(sure)
    found = verdicts(target, head, texts)
    assert found.pop("agreement") == "wrong" and set(found.values()) == {"unknown"}, found


def test_a_head_with_its_halves_exchanged_was_made_for_that_alone(target, texts, sound):
    head = copy.deepcopy(sound)
    head.fc.weight = nn.Parameter(head.fc.weight.roll(32, dims=1), requires_grad=False)
    found = verdicts(target, head, texts)
    assert [check for check, verdict in found.items() if verdict == "wrong"] == ["agreement", "order of the entry"]
    assert not {"calibration", "own features", "features"} & found.keys()  # of a head that is fed wrongly


def test_a_head_that_knows_little_is_not_good(texts):
    various = replace(texts[True][0], ids=[*range(42)], start=0)
    said = Said(*[torch.zeros(40)] * 5, torch.arange(40) % 5 == 0, torch.zeros(40), [various])
    found = checks._agreement(said)
    assert found.verdict == "suspect" and found.numbers["agreement"] == 8 / 40


def test_a_head_is_not_held_against_the_commonest_token_of_one_loop(target, texts, sound):
    said = say(target, sound, texts[True])[0]
    loop = replace(texts[True][0], ids=[*texts[True][0].ids[: texts[True][0].start], *[7] * 9, 8])
    perfect = replace(said, right=torch.ones(10, dtype=torch.bool), texts=[loop])
    assert checks._agreement(perfect).verdict == "good"
    guessed = replace(perfect, right=torch.arange(10) > 0)
    assert checks._agreement(guessed).verdict == "wrong"


def test_a_wiring_that_gives_no_number_is_left_out(target, texts, sound, monkeypatch):
    plain = checks.say

    def broken(target, head, texts, wiring, levels):
        found = plain(target, head, texts, wiring, levels)
        if wiring.shift == -1:
            found = [replace(found[0], logprobs=found[0].logprobs * torch.nan)]
        return found

    monkeypatch.setattr(checks, "say", broken)
    said = plain(target, sound, texts[True])[0]
    others = {"before": Wiring(shift=-1), "after": Wiring(shift=1)}
    found = checks._wiring(target, sound, said, "token", others)
    assert found.verdict == "good" and "the next: after" in found.text
    found = checks._wiring(target, sound, said, "token", {"before": others["before"]})
    assert found.verdict == "unknown" and found.numbers == {}


@pytest.mark.parametrize(
    ("gain", "error", "verdict"), [(0.2, 0.1, "good"), (0.2, 0.01, "wrong"), (0.04, 0.001, "good")]
)
def test_a_gain_that_is_noise_or_small_blames_no_wiring(target, texts, sound, monkeypatch, gain, error, verdict):
    monkeypatch.setattr(checks, "_gain", lambda *given: (gain, error))
    said = say(target, sound, texts[True])[0]
    assert checks._wiring(target, sound, said, "token", {"the same": Wiring()}).verdict == verdict


@pytest.mark.parametrize(("spread", "verdict"), [(0.1, "suspect"), (9.0, "good")])
def test_a_gain_that_is_noise_does_not_blame_the_template(target, texts, sound, monkeypatch, spread, verdict):
    said = say(target, sound, texts[True])[0]
    signs = 1 - 2 * (torch.arange(len(said.wanted)) % 2)
    given, other = (replace(said, logprobs=said.wanted + more) for more in (0, 0.2 + spread * signs))
    monkeypatch.setattr(checks, "say", lambda *asked: [other])
    found = checks._template(target, sound, given, texts[False])
    assert found.verdict == verdict and found.numbers["nats_gained_without"] == pytest.approx(0.2, abs=0.02)


def test_no_number_without_the_template_is_none_of_the_report(target, texts, sound, monkeypatch):
    said = say(target, sound, texts[True])[0]
    monkeypatch.setattr(checks, "say", lambda *asked: [replace(said, logprobs=said.logprobs * torch.nan)])
    found = checks._template(target, sound, said, texts[False])
    assert found.verdict == "unknown" and "no number in torch.float32" in found.text and found.numbers == {}


def test_without_answers_to_bare_prompts_the_template_is_not_judged(target, texts, sound):
    found = {one.check: one for one in examine(target, sound, texts[True][:4], [])}["chat template"]
    assert found.verdict == "unknown" and found.text.startswith("without the template no answer")
    bare = Target.wrap(target.model, tiny_tokenizer(template=False), {}, name="bare")
    found = {one.check: one for one in examine(bare, sound, texts[False][:4], [])}["chat template"]
    assert found.verdict == "unknown" and "has no chat template" in found.text


def test_what_the_target_accepts_is_under_its_soft_cap(target, texts):
    capped = Target.wrap(tiny_model("gemma2", "eager"), tiny_tokenizer(), {}, name="capped")
    text = answers(capped, True)[0]
    logits = capped.model(torch.tensor([text.ids])).logits[0, text.start - 1 : -1]
    law = logits.log_softmax(-1).gather(-1, torch.tensor(text.ids[text.start :])[:, None])[:, 0]
    torch.manual_seed(1)
    said = say(capped, EagleHead(SHAPE).eval().requires_grad_(False), [text])[0]
    assert said.wanted.numpy() == pytest.approx(law.numpy(), abs=1e-4)
    assert all(one.logits is None for one in texts[True])  # without a cap none are kept


def test_the_levels_are_those_of_a_draft(target, texts, sound):
    """The second level reads what the first answered, on the target's tokens: as a plain run of the head by hand."""
    text = texts[True][0]
    said = say(target, sound, [text], levels=2)
    t = 12
    with torch.inference_mode():
        embeddings = target.embed(torch.tensor([text.ids[1 : t + 2]]))
        first = sound(embeddings[:, :t], text.features[None, :t])
        read = torch.cat([text.features[None, :t], first[:, -1:]], dim=1)
        second = target.logits(sound(embeddings, read)[0, -1]).log_softmax(-1)[text.ids[t + 2]]
    assert said[1].logprobs[t - text.start + 2] == pytest.approx(second.item(), abs=1e-4)


def test_a_wiring_is_what_it_says(target, texts, sound):
    """The default is that of the engine, so it is what a draft gives its tokens."""
    plain = say(target, sound, texts[True][:3])[0]
    assert say(target, sound, texts[True][:3], Wiring(theta=sound.config.rope_theta))[0].logprobs.equal(plain.logprobs)
    assert not say(target, sound, texts[True][:3], Wiring(swapped=True))[0].logprobs.equal(plain.logprobs)


@pytest.fixture(scope="module")
def folder(target, sound, tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    target.model.save_pretrained(folder)
    target.tokenizer.save_pretrained(folder)
    save_head(folder / "eagle2", sound)
    return folder


def test_the_command_prints_writes_and_tells_by_its_status(folder, tmp_path, capsys):
    out = tmp_path / "doctor.json"
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"turns": [prompt]}) + "\n" for prompt in PROMPTS[:6]))
    asked = ["doctor", "--target", str(folder), "--method", "eagle2", "--prompts", str(prompts), "--out", str(out)]
    assert main(asked) == 0
    assert "✓ good" in capsys.readouterr().out
    report = json.loads(out.read_text())
    assert report["schema"] == "jakiro-doctor/1" and len(report["findings"]) == 12
    assert main(["doctor", "--target", str(folder), "--method", "vanilla"]) == 2
    assert "vanilla has no head; examine one of eagle2, eagle3, jakiro" in capsys.readouterr().err


def test_a_head_that_does_not_load_is_the_first_finding(folder, capsys):
    file = folder / "eagle2" / "model.safetensors"
    tensors = load_file(file)
    save_file({key: tensor for key, tensor in tensors.items() if key != "fc.weight"}, file)
    assert main(["doctor", "--target", str(folder), "--method", "eagle2"]) == 1
    assert "fc.weight is missing" in capsys.readouterr().out
    save_file(tensors, file)


def test_a_head_that_holds_what_is_no_number_is_told_from_one_that_overflows(folder, capsys):
    file = folder / "eagle2" / "model.safetensors"
    tensors = load_file(file)
    save_file(tensors | {"fc.weight": tensors["fc.weight"].clone().fill_diagonal_(torch.nan)}, file)
    assert main(["doctor", "--target", str(folder), "--method", "eagle2"]) == 1
    assert "no number in torch.float32: fc.weight has such, so download the head again" in capsys.readouterr().out
    save_file(tensors, file)


def test_a_copy_of_another_models_embedding_is_found(folder):
    target = Target.load(folder)
    file, own = folder / "eagle2" / "model.safetensors", target.model.get_input_embeddings().weight
    tensors = load_file(file)
    for given, count in ((own, 0), (own.flip(0), 1)):
        save_file(tensors | {"embed_tokens.weight": given.contiguous()}, file)
        found = [one for one in visit(target, "eagle2", PROMPTS[:6]) if one.check == "embedding"]
        assert [one.verdict for one in found] == ["suspect"] * count
    assert "another model's" in found[0].text
    save_file(tensors, file)


def test_another_methods_head_is_found(folder):
    target = Target.load(folder, heads={"jakiro": folder / "eagle2"})
    [found] = visit(target, "jakiro", PROMPTS)
    assert found.verdict == "wrong" and "holds a head of kind" in found.text


def test_a_method_that_there_is_not_is_refused(target):
    for method in ("nobody", "x" * 5000):
        with pytest.raises(ValueError, match=f"unknown method '{method[:40]}'"):
            visit(target, method, PROMPTS)


def test_a_target_that_writes_too_little_says_why(folder):
    target = Target.load(folder)
    with pytest.raises(ValueError, match="no prompt leaves room for 64 new tokens in the target's context of 160"):
        visit(target, "eagle2", ["the a" * 100])
    target.ends = frozenset(range(300))
    with pytest.raises(ValueError, match="no answer of the target has more than 2 tokens"):
        visit(target, "eagle2", PROMPTS[:2])


def test_the_page_asks_it_of_the_loaded_target(folder):
    models = Models(lambda: Target.load(folder))
    models.start()
    examine = examinations(models, PROMPTS[:4], None)
    found = examine({"method": "eagle2", "nonce": 1}, heedless)
    assert found["findings"][0]["check"] == "keys and shapes" and len(found["findings"]) == 12
    assert models.status()["heads"] == ["eagle2"]
    with pytest.raises(RequestError, match="vanilla has no head; examine one of eagle2, eagle3, jakiro"):
        examine({"method": "vanilla"}, heedless)


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_the_contrastive_feature_is_held_against_the_token_after_the_next(target, texts, monkeypatch, ahead):
    """What stands for h_{t + 2} has x_{t + 3}, which the target chose after it, as likeliest."""
    given = iter(texts[True])

    def answer(head, embeddings, read, passes):
        features = next(given).features
        true = torch.cat([features, features[-1:]])[ahead : ahead + len(features) - 2][None]
        return HeadOutput(torch.zeros_like(true), true, true[None], true[..., :4])

    monkeypatch.setattr(JakiroHead, "forward", answer)
    right = say_ahead(target, JakiroHead(SHAPE), texts[True])
    assert len(right) == sum(len(text.ids) - 3 - max(0, text.start - 3) for text in texts[True])
    assert bool(right.all()) == (ahead == 2)


@pytest.fixture(scope="module")
def mixture(target, texts):
    return taught(target, texts[True], JakiroHead, replace(SHAPE, num_local_experts=3))


@pytest.mark.parametrize(
    ("defect", "said"),
    [("none", ""), ("repeated", "expert 2 repeats expert 0"), ("unheard", "expert 1 changes nothing"),
     ("empty", "expert 1 changes nothing")],
)  # fmt: skip
def test_an_expert_for_nothing_is_found(target, texts, mixture, defect, said):
    head = copy.deepcopy(mixture)
    layer = head.layers[0].mlp_moe
    if defect == "repeated":
        layer.experts[2].load_state_dict(layer.experts[0].state_dict())
    elif defect == "empty":
        layer.experts[1].up_proj.weight.zero_()
    elif defect == "unheard":
        layer.register_forward_hook(lambda module, given, out: (out[0], out[1].index_fill(-1, torch.tensor(1), -50)))
    found = experts(target, head, texts[True])
    assert (found.verdict, said in found.text) == ("suspect" if said else "good", True), found
    assert len(found.numbers["effect"]) == len(found.numbers["agreement_alone"]) == len(found.numbers["shared"]) == 3


def test_an_expert_alone_says_its_own(target, texts, mixture):
    """One whose answer is the mixture's agrees as often as that."""
    alone = copy.deepcopy(mixture)
    alone.layers[0].mlp_moe.register_forward_hook(
        lambda module, given, out: (out[0], torch.tensor([-50.0, -50.0, 50.0] * 2).expand_as(out[1]))
    )
    share = say(target, alone, texts[True])[0].right.float().mean().item()
    found = experts(target, alone, texts[True])
    assert found.numbers["agreement_alone"][2] == pytest.approx(share) and f"{share:.1%}; two share" in found.text


@pytest.mark.parametrize(("share", "verdict"), [(0.4, "good"), (0.1, "suspect")])
def test_a_contrastive_level_may_be_right_a_third_as_often_as_a_pass(target, texts, monkeypatch, share, verdict):
    levels = Finding("own features", "good", "", {"agreement_by_level": [0.7, 0.6]})
    monkeypatch.setattr("jakiro.doctor.mixture.say_ahead", lambda *given: torch.arange(10) < 10 * share)
    _, found = of_mixture(target, JakiroHead(SHAPE), texts[True], [levels])
    assert (found.verdict, "contrastive=off" in found.text) == (verdict, verdict == "suspect")
    assert f"{share:.1%} of the second tokens without a pass, 60.0% with one" in found.text
    assert of_mixture(target, EagleHead(SHAPE), texts[True], [levels]) == []
    assert of_mixture(target, JakiroHead(SHAPE), texts[True], []) == []  # which knows too little
