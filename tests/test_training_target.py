"""A target trained in stages that grow, at a tiny size, and its going on."""

import shutil
from dataclasses import replace

import pytest
import torch
from recipes import CHAT, MIX, SHAPE, growing, losses, recipe
from safetensors.torch import load_file, save_file
from tiny import tiny_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from jakiro.training import history, loop, optim, repeats, workers
from jakiro.training.data import draw, take
from jakiro.training.growth import grow
from jakiro.training.optim import Muon, Optimizer, factor, inner_matrices, orthogonal
from jakiro.training.packing import batches, by_width, load_rows, row_widths
from jakiro.training.precision import ATTENTION, in_bfloat16, quicken
from jakiro.training.target import _stages_of, train
from jakiro.training.target_recipe import Stage


def test_training_learns_and_writes_a_hugging_face_folder(trained):
    first, second = (losses(trained / "run" / f"stage{i}" / "metrics.csv") for i in (0, 1))
    assert second[-1] < first[0] - 0.5
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    assert model.config.num_hidden_layers == 2
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "the cat"}], add_generation_prompt=True)[
        "input_ids"
    ]
    assert tokenizer.decode(ids) == "<|user|>the cat<|end|><|assistant|>"
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id


def test_learning_rate_warms_up_and_falls_as_its_schedule_says():
    rates = {name: [factor(i, 9, (1.0, 0.2), name, 2) for i in range(9)] for name in ("linear", "cosine")}
    assert rates["linear"] == pytest.approx([0.5, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    cosine = [1, 0.9696, 0.8828, 0.7531, 0.6, 0.4469, 0.3172, 0.2304, 0.2]
    assert rates["cosine"] == pytest.approx([0.5, *cosine[1:]], abs=1e-4)


def test_a_schedule_that_there_is_not_is_refused(data, tmp_path):
    stages = [replace(stage, schedule="steps") for stage in growing().stages]
    with pytest.raises(ValueError, match="no learning-rate schedule 'steps'"):
        train(workers.start(), replace(growing(), stages=stages), data, tmp_path, tmp_path / "out", compiled=False)


def test_growing_keeps_the_function(trained):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    grown = grow(model, 6)
    ids = torch.arange(4, 24)[None]
    assert len(grown.model.layers) == 6
    torch.testing.assert_close(grown(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="not a multiple"):
        grow(model, 3)


def test_a_stage_may_end_in_the_mean_with_an_earlier_one(trained, data, tmp_path):
    """From the run's folder and from the model alone, also when it is done already."""
    last = Stage(2, 1000, 32, 4, 1, "all", (0.1, 0.1))
    plain, averaged = (
        replace(growing(), stages=[*growing().stages, last, replace(last, average=average)]) for average in (0, 3)
    )
    shutil.copytree(trained / "run", tmp_path / "run")
    found = {}
    for name, how, run in (("ends", plain, "run"), ("mean", averaged, "run"), ("alone", averaged, "other")):
        start = trained / "out" if run == "other" else None
        train(workers.start(), how, data, tmp_path / run, tmp_path / name, compiled=False, start=start)
        found[name] = AutoModelForCausalLM.from_pretrained(tmp_path / name).state_dict()
    before = torch.load(tmp_path / "run/stage2/model.pt", weights_only=True)
    for name, weight in found["mean"].items():
        assert torch.equal(weight, (found["ends"][name] + before[name]) / 2), name
        assert torch.equal(weight, found["alone"][name]), name
    assert not torch.equal(found["mean"]["model.norm.weight"], found["ends"]["model.norm.weight"])
    early = replace(averaged, stages=[*averaged.stages[:3], replace(averaged.stages[3], average=1)])
    with pytest.raises(ValueError, match="training starts after 2"):
        train(workers.start(), early, data, tmp_path / "no", tmp_path / "out", compiled=False, start=trained / "out")


def test_what_training_starts_from_is_whole(trained, data, tmp_path):
    """transformers would draw what is missing at random."""
    more = replace(growing(), stages=[*growing().stages, Stage(2, 3000, 32, 4, 1, "all", (0.1, 0.1))])
    start, no = shutil.copytree(trained / "out", tmp_path / "start"), tmp_path / "no"

    def refused(message):
        with pytest.raises((ValueError, OSError), match=message):
            train(workers.start(), more, data, no, tmp_path / "out", compiled=False, start=start)
        assert not (tmp_path / "out").exists()

    weights = load_file(start / "model.safetensors")
    first = next(iter(weights))
    save_file({name: weight for name, weight in weights.items() if name != first}, start / "model.safetensors")
    refused(f"{first} is missing")
    (start / "model.safetensors").write_bytes(b"cut off")
    refused("cannot be read")
    (start / "config.json").rename(start / "elsewhere.json")
    refused(r"no model in .*start: give a folder with config\.json")
    for text, message in (
        ("{", "is damaged"), ("5", "lists no entries"), ("[]", "lists no entries"), ('[{"stage": {}}]', "is none"),
    ):  # fmt: skip
        (start / "training.json").write_text(text)
        refused(f"training.json .*{message}")


def test_going_on_from_a_trained_target_is_going_on_with_its_run(trained, data, tmp_path):
    """Of a recipe that has a stage more, the model alone gives what the run folder gives."""
    more = replace(growing(), stages=[*growing().stages, Stage(2, 3000, 32, 4, 1, "all", (0.1, 0.1), answers=6)])
    shutil.copytree(trained / "run", tmp_path / "run")
    outs = {name: tmp_path / name for name in ("run", "start")}
    train(workers.start(), more, data, outs["run"], tmp_path / "one", compiled=False)
    train(workers.start(), more, data, outs["start"], tmp_path / "two", compiled=False, start=trained / "out")
    curves = [losses(folder / "stage2" / "metrics.csv") for folder in outs.values()]
    assert curves[0] == curves[1] and len(curves[0]) > 10
    told = [history.read(tmp_path / name) for name in ("one", "two")]
    assert told[0] == told[1] and len(told[0]) == 3
    seen = losses(outs["run"] / "stage2" / "metrics.csv", "tokens")
    assert told[0][2]["tokens"] == sum(seen) and Stage.of(told[0][2]["stage"]) == more.stages[2]
    folder = tmp_path / "one"
    (folder / "model.safetensors").write_bytes(b"")  # as of an earlier, smaller model: it would be read first
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    train(workers.start(), more, data, outs["run"], folder, compiled=False)
    assert len(AutoModelForCausalLM.from_pretrained(folder).model.layers) == 2
    for name, value in (("rope_theta", 5e4), ("num_key_value_heads", 2), ("intermediate_size", 40)):
        other = replace(more, model=more.model | {name: value})
        with pytest.raises(ValueError, match=r"the recipe .*: change its `model`"):
            train(
                workers.start(), other, data, tmp_path / "no", tmp_path / "out", compiled=False, start=trained / "out"
            )
    other = replace(more, stages=[replace(more.stages[0], tokens=5000), *more.stages[1:]])
    for wrong, why in ((other, "did not go through this recipe's first 2"), (growing(), "all of the recipe's stages")):
        with pytest.raises(ValueError, match=why):
            train(
                workers.start(), wrong, data, tmp_path / "no", tmp_path / "out", compiled=False, start=trained / "out"
            )
    noted = replace(more, stages=[replace(stage, note="said later") for stage in more.stages])
    assert _stages_of(trained / "out", noted) == told[0][:2]
    with pytest.raises(ValueError, match="would be written over: name another --out"):
        train(workers.start(), more, data, tmp_path / "no", trained / "out", compiled=False, start=trained / "out")
    for made in ({"like": trained / "out"}, {"parent": trained / "out"}):
        with pytest.raises(ValueError, match="would be written over: name another --out"):
            train(workers.start(), more, data, tmp_path / "no", trained / "out", compiled=False, **made)
    with pytest.raises(ValueError, match=r"has no training\.json"):
        train(workers.start(), more, data, tmp_path / "no", tmp_path / "out", compiled=False, start=tmp_path)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_stage_that_is_stopped_goes_on_to_the_same_curve_and_weights(data, tmp_path, monkeypatch, dropout):
    real = loop.run

    def stopped(job, run, main):
        real(job, run, main, stop_after=2)
        raise KeyboardInterrupt

    def go(name):
        how = recipe(model=SHAPE | {"attention_dropout": dropout})
        train(workers.start(), how, data, tmp_path / name, tmp_path / f"{name}-out", compiled=False)

    go("whole")
    monkeypatch.setattr(loop, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        go("parts")
    monkeypatch.setattr(loop, "run", real)
    go("parts")
    whole, parts = (losses(tmp_path / name / "stage0/metrics.csv") for name in ("whole", "parts"))
    assert len(whole) > 4 and parts == pytest.approx(whole, rel=1e-5)
    weights = (load_file(tmp_path / f"{name}-out/model.safetensors") for name in ("whole", "parts"))
    torch.testing.assert_close(*weights)


def test_short_documents_go_into_short_rows_that_are_spread_over_a_stage(trained, data):
    stage = growing().stages[1]
    widths = row_widths(stage.row, stage.short)
    rows = load_rows(trained / "run" / "stage1" / "rows.npz", widths)
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    documents = take(draw(MIX, data, tokenizer, stage.row + 1, seed=1), stage.tokens)
    narrow, wide = (sorted(ids[ids > 0].tolist()) for ids, *_ in rows)
    assert sorted(narrow + wide) == sorted(token for ids, _ in documents for token in ids)
    short, mixed = by_width(documents, widths)
    long = [document for document in documents if len(document[0]) > 33]
    assert [document for document in mixed if len(document[0]) > 33] == long
    assert len(mixed) > len(long)  # short ones fill rows up
    assert all(len(ids) <= 33 for ids, _ in short)
    found = batches(rows, 128)
    assert {one.ids.shape for one in found} == {(4, 33), (2, 65)}
    narrow = [one.ids.shape[1] == 33 for one in found]
    for end in range(1, len(found)):
        assert abs(sum(narrow[:end]) - end * sum(narrow) / len(narrow)) <= 1
    with pytest.raises(ValueError, match="12 tokens do not divide rows of 64"):
        row_widths(64, (32, 12))


def test_what_several_draw_from_is_encoded_once_and_gives_the_same_documents(trained, data, monkeypatch):
    tokenizer, shelf = AutoTokenizer.from_pretrained(trained / "out"), {}
    alone = [take(draw(MIX, data, tokenizer, 33, seed), 3000) for seed in (1, 2)]
    first = take(draw(MIX, data, tokenizer, 33, 1, shelf=shelf), 3000)
    monkeypatch.setattr("jakiro.training.data.encoded", None)
    assert [first, take(draw(MIX, data, tokenizer, 33, 2, shelf=shelf), 3000)] == alone


def test_a_later_stage_of_too_few_tokens_is_said_before_the_first_is_trained(data, tmp_path):
    stages = [Stage(1, tokens, 32, 4, 2, "all", (1.0, 1.0)) for tokens in (600, 100)]
    for _ in range(2):  # also where its rows are there
        with pytest.raises(ValueError, match="too few tokens for one step of 2 x 4 rows of 32: raise its tokens"):
            train(workers.start(), recipe(*stages), data, tmp_path / "run", tmp_path / "out", compiled=False)
    assert not (tmp_path / "run" / "stage0" / "metrics.csv").exists()


def test_own_answers_stay_within_the_models_context(data, tmp_path, monkeypatch):
    """Prompts are of up to 12 tokens, and would be of more."""
    asked, learn, look = [], repeats.sequence_level, repeats.looping

    def learned(model, prompts, new):
        asked.extend(prompts)
        return learn(model, prompts, new)

    def looked(model, prompts, new):
        asked.extend(prompts)
        return look(model, prompts, new)

    monkeypatch.setattr(repeats, "sequence_level", learned)
    monkeypatch.setattr(repeats, "looping", looked)
    stage = Stage(1, 600, 32, 4, 1, "all", (1.0, 1.0), answers=20)
    how = recipe(stage, replace(stage, looping=8), model=SHAPE | {"max_position_embeddings": 32})
    train(workers.start(), how, data, tmp_path / "run", tmp_path / "out", compiled=False)
    assert asked and max(map(len, asked)) <= 12


def test_a_later_stage_without_texts_is_said_before_the_first_is_trained(data, tmp_path):
    nobodys = {"all": CHAT, "none": [replace(CHAT[0], only=("nobody",))]}
    how = recipe(*(Stage(1, 600, 32, 4, 1, mix, (1.0, 1.0)) for mix in ("all", "none", "all")), mixes=nobodys)
    with pytest.raises(ValueError, match="has no documents"):
        train(workers.start(), how, data, tmp_path / "run", tmp_path / "out", compiled=False)
    assert not (tmp_path / "run" / "stage0" / "metrics.csv").exists()


def test_muon_is_for_the_matrices_inside_the_layers():
    """Four of attention and three of the feed-forward part in each of three layers; AdamW has the rest."""
    model = tiny_model(tie_word_embeddings=False)
    assert len(inner_matrices(model)) == 3 * 7
    outer = {id(one) for group in Optimizer(model).parts[1].param_groups for one in group["params"]}
    assert {id(model.lm_head.weight), id(model.get_input_embeddings().weight)} < outer
    assert len(outer) == 2 + 3 * 2 + 1  # with the norms


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has one from 2.9 on")
def test_muon_steps_as_torchs_own_does():
    torch.manual_seed(0)
    own = [torch.nn.Parameter(torch.randn(shape)) for shape in ((24, 16), (16, 24), (24, 16))]
    theirs = [torch.nn.Parameter(one.detach().clone()) for one in own]
    optimizers = Muon(own, 0.02, 0.95, 0.01), torch.optim.Muon(theirs, 0.02, 0.01, 0.95)
    for _ in range(3):
        for one, other in zip(own, theirs, strict=True):
            one.grad = torch.randn(one.shape)
            other.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for one, other in zip(own, theirs, strict=True):
        assert torch.allclose(one, other, atol=0.002)  # its products are bfloat16


@pytest.mark.parametrize("native", [True, False])
def test_an_update_is_orthogonal_in_the_precision_of_the_processor(monkeypatch, native):
    dtype = torch.bfloat16 if native else torch.float32
    monkeypatch.setattr(optim, "product_dtype", lambda device: dtype)
    torch.manual_seed(0)
    made = orthogonal(torch.stack([torch.randn(40, 8) * scale for scale in (1e3, 1.0)]))
    assert made.dtype == dtype
    assert ((torch.linalg.svdvals(made.float()) - 1).abs() < 0.35).all()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("native", [True, False])
def test_products_are_in_bfloat16_where_the_processor_does_that_itself(monkeypatch, device, native):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native)
    assert in_bfloat16(torch.device(device)) is native


def test_attention_in_float32_trains_alike_where_products_are_in_bfloat16(monkeypatch, trained):
    """The same loss and gradients within bfloat16's precision, also of padded rows."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    ids, seen = torch.arange(4, 44).view(2, 20), torch.ones(2, 20, dtype=torch.long)
    seen[0, :6] = 0
    for mask in (None, seen):
        found = []
        for change in (lambda model: None, quicken):
            model = AutoModelForCausalLM.from_pretrained(trained / "out")
            change(model)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            logits[:, 8:].float().square().mean().backward()
            found.append((logits[:, 8:], model.model.layers[0].self_attn.k_proj.weight.grad))
        for usual, quick in zip(*found, strict=True):
            torch.testing.assert_close(quick, usual, atol=0.03 * usual.abs().max().item(), rtol=0)
    assert model.config._attn_implementation == ATTENTION
