"""The trainer end to end at a tiny size: stages that grow, resume to the same curve, heads that load strictly."""

import csv
import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from counter import Counter
from datasets import Dataset
from texts import write_texts
from transformers import AutoModelForCausalLM, AutoTokenizer

from jakiro.__main__ import main
from jakiro.arguments import RECIPES
from jakiro.drafting.head import HeadConfig, HeadOutput
from jakiro.drafting.weights import load_head
from jakiro.target import Target
from jakiro.training import answers, history, loop, repeats, workers
from jakiro.training.answers import Answers
from jakiro.training.data import draw, encode_chats, take
from jakiro.training.growth import grow
from jakiro.training.head_job import Unrolled
from jakiro.training.head_recipe import KINDS, HeadRecipe
from jakiro.training.heads import train_heads
from jakiro.training.losses import TOP, Losses, Wanted, loss_of
from jakiro.training.optim import Optimizer, factor
from jakiro.training.packing import batches, by_width, fill, load_rows, pack, row_widths
from jakiro.training.precision import in_bfloat16
from jakiro.training.sources import Source, only_source, read_chats, shorten
from jakiro.training.target import train
from jakiro.training.target_recipe import Recipe, Stage

pytestmark = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="training needs torch 2.9 or newer")
ROOT = Path(__file__).parent.parent
MIX = [Source("chat.jsonl", 3.0), Source("plain/text.txt.xz", 1.0)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("data"))


def recipe(**changes):
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1}
    stages = [
        Stage(1, 6000, 32, 4, 2, "all", (1.0, 1.0)),
        Stage(2, 4000, 64, 2, 2, "all", (1.0, 0.1), unlikelihood=0.1, answers=6, short=(32,)),
    ]
    return Recipe(300, shape | {"max_position_embeddings": 128}, 0.3, {"all": MIX}, stages, **changes)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(workers.start(), recipe(), data, folder / "run", folder / "out", compiled=False)
    return folder


def losses(path, name="loss"):
    with path.open() as file:
        return [float(row[name]) for row in csv.DictReader(file)]


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
    stages = [replace(stage, schedule="steps") for stage in recipe().stages]
    with pytest.raises(ValueError, match="no learning-rate schedule 'steps'"):
        train(workers.start(), replace(recipe(), stages=stages), data, tmp_path, tmp_path / "out", compiled=False)


def test_growing_keeps_the_function(trained):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    grown = grow(model, 6)
    ids = torch.arange(4, 24)[None]
    assert len(grown.model.layers) == 6
    torch.testing.assert_close(grown(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="not a multiple"):
        grow(model, 3)


def test_unlikelihood_counts_recent_tokens_but_the_next_one_once_each():
    ids = torch.tensor([[5, 7, 5, 5, 9]])
    law = torch.full((1, 4, 10), 0.04)
    law[..., 5], law[..., 7], law[..., 0] = 0.3, 0.2, 0.5
    loss = repeats.token_level(law.log() + 2.0, torch.full((1, 4), 2.0), ids)
    five, seven = -math.log(1 - 0.3), -math.log(1 - 0.2)
    # after 5 comes 7: 5 is recent · after 7 comes 5: 7 is · after 5 comes 5: 7 is · after 5 comes 9: both are
    torch.testing.assert_close(loss, torch.tensor([[five, seven, seven, five + seven]]))


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
    assert repeats.prompts(ids[:, :1], np.ones((2, 1), bool), 2, 0) == []


def test_only_what_an_answer_repeats_is_a_loss(trained):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    messages = [{"role": "user", "content": "the cat sat"}, {"role": "assistant", "content": "on"}]
    ids, said = (np.array([row]) for row in encode_chats(tokenizer, [messages])[0])
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


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 4], True),  # a short block: eight tokens again
        ([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 4], False),  # seven
        ([1, 2, 3, 4, 5] * 3, True),
        ([1, 2, 3, 4, 5] * 2 + [1, 2, 3, 4], False),
        ([5] * 9, True),
        ([1, 2, 3, 4, 5, 9, 1, 2, 3, 4, 5, 8, 1, 2, 3, 4, 5], False),  # never the same block
        ([], False),
    ],
)
def test_an_answer_goes_round_when_it_says_a_block_three_times_in_a_row(ids, expected):
    assert repeats.goes_round(ids) is expected


def test_going_on_from_a_trained_target_is_going_on_with_its_run(trained, data, tmp_path):
    """Of a recipe that has a stage more, the model alone gives what the run folder gives."""
    more = replace(recipe(), stages=[*recipe().stages, Stage(2, 3000, 32, 4, 1, "all", (0.1, 0.1), answers=6)])
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
    other = replace(more, stages=[replace(more.stages[0], tokens=5000), *more.stages[1:]])
    for wrong, why in ((other, "did not go through this recipe's first 2"), (recipe(), "all of the recipe's stages")):
        with pytest.raises(ValueError, match=why):
            train(
                workers.start(), wrong, data, tmp_path / "no", tmp_path / "out", compiled=False, start=trained / "out"
            )
    with pytest.raises(ValueError, match=r"has no training\.json"):
        train(workers.start(), more, data, tmp_path / "no", tmp_path / "out", compiled=False, start=tmp_path)


def mean(sums):
    loss, again, tokens = sums
    return loss / tokens, (again / tokens).item()


def test_a_torch_without_muon_is_told_so(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ValueError, match=r"new in torch 2\.9"):
        Optimizer(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("stop", [3, 4, 6])
def test_an_interrupted_run_resumes_to_the_same_curve(tmp_path, stop):
    loop.run(Counter(), tmp_path / "whole", save_every=2)
    loop.run(Counter(), tmp_path / "parts", save_every=2, stop_after=stop)
    loop.run(Counter(), tmp_path / "parts", save_every=2)
    assert losses(tmp_path / "parts/metrics.csv", "value") == losses(tmp_path / "whole/metrics.csv", "value")


def test_a_crash_between_checkpoints_repeats_the_lost_steps(tmp_path):
    class Crashing(Counter):
        def step(self, index):
            if index == 5:
                raise KeyboardInterrupt
            return super().step(index)

    loop.run(Counter(), tmp_path / "whole", save_every=2)
    with pytest.raises(KeyboardInterrupt):
        loop.run(Crashing(), tmp_path / "parts", save_every=2)
    assert len(losses(tmp_path / "parts/metrics.csv", "value")) == 4
    loop.run(Counter(), tmp_path / "parts", save_every=2)
    assert losses(tmp_path / "parts/metrics.csv", "value") == losses(tmp_path / "whole/metrics.csv", "value")


def head_recipe(steps=6, **changes):
    return HeadRecipe.of(head_given(steps, **changes))


def head_given(steps=6, **changes):
    shape = {"intermediate_size": 24, "num_attention_heads": 2, "bias": False}
    given = {
        "heads": {"eagle2": shape, "jakiro": shape | {"expert_intermediate_size": 16}},
        "mix": [asdict(MIX[0])],
        "own_features": 0.4,
    }
    return {"steps": steps, "row": 32, "rows": 4, "scored": 40, "epochs": 2, **given, **changes}


def train_both(trained, data, run, out, steps=6, start=None, **changes):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    folders = {"eagle2": out / "eagle2", "jakiro": out / "jakiro"}
    how = head_recipe(steps, **changes)
    train_heads(list(folders), workers.start(), model, tokenizer, how, data, run, folders, compiled=False, start=start)
    return folders


def test_heads_go_on_from_heads(trained, data, tmp_path):
    """As after a change of the target: they begin with the loss that they had, and their history has both runs."""
    first = train_both(trained, data, tmp_path / "first", tmp_path / "one", steps=12)
    again = train_both(trained, data, tmp_path / "again", tmp_path / "two", steps=2, start=tmp_path / "one")
    for name, folder in again.items():
        curves = [losses(tmp_path / run / "metrics.csv", f"{name}_loss") for run in ("first", "again")]
        assert curves[1][0] < (curves[0][0] + curves[0][-1]) / 2
        assert [entry["steps"] for entry in history.read(folder)] == [12, 2]
    wide = tmp_path / "wide"
    shutil.copytree(first["jakiro"], wide / "eagle2")
    with pytest.raises(ValueError, match=r"layers\.0\.mlp_moe\.gate\.weight is not expected"):
        train_both(trained, data, tmp_path / "no", tmp_path / "three", start=wide)


@pytest.mark.parametrize("native", [True, False], ids=["bfloat16", "float32"])
def test_heads_learn_and_load(trained, data, tmp_path, monkeypatch, native):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    folders = train_both(trained, data, tmp_path / "whole", tmp_path)
    curve = {name: losses(tmp_path / "whole/metrics.csv", f"{name}_loss") for name in folders}
    assert all(values[-1] < values[0] for values in curve.values())
    target = Target.load(trained / "out")
    for folder in folders.values():
        load_head(folder, target)


@pytest.mark.parametrize("changes", [{}, {"passes": 3, "own_features": 0.0, "average": 0.5}], ids=["sampled", "passes"])
def test_head_training_resumes_to_the_same_curve(trained, data, tmp_path, monkeypatch, changes):
    changes = {**changes, "trial": {"every": 2, "prompts": 2, "new_tokens": 8, "depth": 3}}
    train_both(trained, data, tmp_path / "whole", tmp_path, **changes)
    real = loop.run
    monkeypatch.setattr(loop, "run", lambda job, run, main: real(job, run, main, stop_after=3))
    train_both(trained, data, tmp_path / "parts", tmp_path, **changes)
    monkeypatch.setattr(loop, "run", real)
    train_both(trained, data, tmp_path / "parts", tmp_path, **changes)
    for name in ("eagle2_loss", "jakiro_loss", "jakiro_top1_last"):
        whole, parts = (losses(tmp_path / run / "metrics.csv", name) for run in ("whole", "parts"))
        assert parts == pytest.approx(whole, rel=1e-5)
    tried = [(tmp_path / run / "trials.csv").read_text() for run in ("whole", "parts")]
    assert tried[0] == tried[1]
    assert losses(tmp_path / "whole/trials.csv", "step") == [2, 4, 6]


def test_a_run_is_not_gone_on_with_by_another_recipe(trained, data, tmp_path):
    train_both(trained, data, tmp_path / "run", tmp_path, steps=2)
    with pytest.raises(ValueError, match="choose another --run-folder"):
        train_both(trained, data, tmp_path / "run", tmp_path, steps=3)


def test_a_run_leaves_its_recipe_its_trials_and_its_curves(trained, data, tmp_path):
    trial = {"every": 3, "prompts": 3, "new_tokens": 12, "depth": 3}
    folders = train_both(trained, data, tmp_path / "run", tmp_path, trial=trial)
    kept = json.loads((folders["jakiro"] / "recipe.json").read_text())
    assert kept["steps"] == 6 and kept["heads"]["jakiro"]["losses"]["contrast"] == 0.5
    for way in ("eagle2", "jakiro_mixture", "jakiro_decoupled"):
        tau = losses(tmp_path / "run/trials.csv", f"{way}_tau")
        reached = [losses(tmp_path / "run/trials.csv", f"{way}_accepted{depth}") for depth in (1, 2, 3)]
        assert tau == pytest.approx([1 + sum(shares) for shares in zip(*reached, strict=True)], abs=2e-3)
    page = (tmp_path / "run/curves.html").read_text()
    assert "eagle2_tau" in page and "jakiro_loss" in page and "https://" not in page.split("<body>")[0]
    assert "mixes" in json.loads((trained / "out/recipe.json").read_text())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [5, 9])
def test_a_pass_answers_what_a_draft_of_that_depth_would(kind, at):
    """The third pass over a text against plain calls over the text's beginning, with the head's own features last."""
    torch.manual_seed(1)
    head = KINDS[kind](HeadConfig(16, 24, 2, 30, expert_intermediate_size=12)).eval()
    embeddings, features = torch.randn(2, 12, 16), torch.randn(2, 12, 16)
    unrolled = Unrolled(head, head_recipe(passes=3, own_features=0.0))
    found = unrolled(embeddings, features, torch.zeros_like(features), torch.zeros(2, 12, dtype=torch.bool))
    mixed = lambda out: getattr(out, "mixed", out)  # noqa: E731
    read = features[:, : at + 1].clone()
    for level in range(3):
        if level:
            answer = mixed(head(embeddings[:, : at - 2 + level], read[:, : at - 2 + level]))
            read[:, at - 2 + level] = answer[:, -1]
        last = mixed(head(embeddings[:, : at - 1 + level], read[:, : at - 1 + level]))[:, -1]
        torch.testing.assert_close(found[level].mixed[:, at - 2 + level], last)


def test_the_top_k_loss_and_diversity_change_the_loss_as_their_formulas_say(trained):
    torch.manual_seed(0)
    read = torch.nn.Linear(8, 40, bias=False)
    out = HeadOutput(*torch.randn(2, 1, 4, 8), torch.randn(2, 1, 4, 8), torch.randn(1, 4, 4))
    at = torch.tensor([0, 2])
    soon, later = (Wanted.of(read, torch.randn(2, 8)) for _ in range(2))
    plain, top, apart = (
        loss_of(out, at, read, soon, later, Losses(**kw))[0] for kw in ({}, {"top_k": 0.7}, {"diversity": 0.3})
    )
    logp = read(out.mixed[0, at]).log_softmax(-1)
    wanted = -sum(p * logp[i, t] for i in range(2) for p, t in zip(*soon.law[i].topk(TOP), strict=True))
    torch.testing.assert_close(top - plain, 0.7 * wanted)
    p = [read(expert[0, at]).softmax(-1) for expert in out.experts]
    middle = (p[0] + p[1]) / 2
    js = sum((one * (one / middle).log()).sum() for one in p) / 2
    torch.testing.assert_close(plain - apart, 0.3 * js)


def test_a_target_answers_its_prompts_and_goes_on_after_an_interrupt(trained, data, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    how = Answers(new_tokens=9, batch=4, temperatures=(0.0, 1.0))

    def write(name, tokens):
        return answers.write(
            workers.start(), model, draw(MIX[:1], data, tokenizer, 32, 0), how, tokens, 32, tmp_path / name, seed=0
        )

    whole = write("whole", 400)
    write("parts", 150)
    with (tmp_path / "parts").open("a") as file:
        file.write('{"prompt": [5], "answer": [6]}\n{"prompt": [7')
    assert write("parts", 400) == whole
    assert (tmp_path / "parts").read_text() == (tmp_path / "whole").read_text()
    assert 400 <= sum(len(ids) for ids, _ in whole) < 400 + 4 * 32
    prompts = {tuple(ids[: said.index(True)]) for ids, said in whole}
    assert len(prompts) == len(whole)
    for ids, said in whole[:4]:  # the first batch is greedy
        start = said.index(True)
        wanted = model.generate(torch.tensor([ids[:start]]), max_new_tokens=9, do_sample=False)[0].tolist()
        assert ids == wanted and said == [False] * start + [True] * (len(ids) - start)
    with pytest.raises(ValueError, match="train on fewer rows"):
        write("more", 10**6)


def test_heads_learn_on_the_targets_own_answers(trained, data, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    how = head_recipe(answers={"new_tokens": 9, "batch": 4, "temperatures": [0.0]})
    out = {"eagle2": tmp_path / "eagle2"}
    train_heads(["eagle2"], workers.start(), model, tokenizer, how, data, tmp_path, out, compiled=False)
    written = [json.loads(line)["answer"] for line in (tmp_path / "answers.jsonl").open()]
    said = [token for ids, said in load_rows(tmp_path / "rows.npz", [32]) for token in ids[said].tolist()]
    assert sorted(said) == sorted(token for answer in written for token in answer)
    load_head(tmp_path / "eagle2", Target.load(trained / "out"))


def test_packing_keeps_documents_whole_and_marks_answers(trained, data):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    ids, said = pack(MIX[:1], data, tokenizer, 2000, 64, seed=1)
    again, _ = pack(MIX[:1], data, tokenizer, 2000, 64, seed=1)
    assert (ids == again).all() and ids.shape[1] == 65
    user, end = tokenizer.convert_tokens_to_ids(["<|user|>", "<|end|>"])
    assert (ids[:, 0] == user).all()
    assert not said[ids == 0].any() and not said[ids == user].any()
    for row, answer in zip(ids, said, strict=True):
        assert answer.sum() and row[answer][-1] == end


def test_short_documents_go_into_short_rows_that_are_spread_over_a_stage(trained, data):
    stage = recipe().stages[1]
    widths = row_widths(stage.row, stage.short)
    rows = load_rows(trained / "run" / "stage1" / "rows.npz", widths)
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    documents = take(MIX, data, tokenizer, stage.tokens, stage.row + 1, seed=1)
    narrow, wide = (sorted(ids[ids > 0].tolist()) for ids, _ in rows)
    assert sorted(narrow + wide) == sorted(token for ids, _ in documents for token in ids)
    short, mixed = by_width(documents, widths)
    long = [document for document in documents if len(document[0]) > 33]
    assert [document for document in mixed if len(document[0]) > 33] == long
    assert len(mixed) > len(long)  # short ones fill rows up
    assert all(len(ids) <= 33 for ids, _ in short)
    found = batches(rows, 128)
    assert {ids.shape for ids, _ in found} == {(4, 33), (2, 65)}
    narrow = [ids.shape[1] == 33 for ids, _ in found]
    for end in range(1, len(found)):
        assert abs(sum(narrow[:end]) - end * sum(narrow) / len(narrow)) <= 1
    with pytest.raises(ValueError, match="12 tokens do not divide rows of 64"):
        row_widths(64, (32, 12))


def test_encoding_marks_the_end_of_an_answer_as_said(trained):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    messages = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]
    ids, said = encode_chats(tokenizer, [messages])[0]
    assert ids == tokenizer.apply_chat_template(messages)["input_ids"]
    assert tokenizer.decode([token for token, mine in zip(ids, said, strict=True) if mine]) == "sat<|end|>"


@pytest.mark.parametrize(
    ("text", "longest", "short"),
    [
        ("One. Two. Three.", 99, "One. Two. Three."),
        ("One. Two. Three.", 11, "One. Two."),
        ("no end at all", 5, ""),
        ("Look:\n\n```\ncode\n```\nmore text here. And", 30, "Look:"),
    ],
)
def test_shorten_cuts_at_a_sentence(text, longest, short):
    assert shorten(text, longest) == short


def test_the_card_is_written_from_what_training_and_benchmark_left(trained, data, tmp_path):
    """End to end from the command line: target, heads, benchmark and card, at a tiny size."""
    (data / "eval").mkdir(exist_ok=True)
    questions = data / "eval" / "chat.jsonl"
    questions.write_text('{"id": "chat/1", "turns": ["the cat sat"]}\n{"id": "chat/2", "turns": ["a red mat"]}\n')
    target, runs, recipes = tmp_path / "model", trained / "run", {}
    shutil.copytree(trained / "out", target)
    for name, one in (("target", asdict(recipe())), ("heads", head_given())):
        recipes[name] = tmp_path / f"{name}.json"
        recipes[name].write_text(json.dumps(one))
    common = ["--target", target, "--data", data]
    heads = ["eagle2", "jakiro", *common, "--recipe", recipes["heads"], "--run-folder", tmp_path / "heads"]
    command("train", *heads, "--no-compile")
    for tree in ("default", "wide"):
        wide = ["--set", "total_tokens=60"] * (tree == "wide")
        command("bench", "--target", target, "--prompts", questions, *wide, "--out", tmp_path / f"{tree}.json")
    where = ["--target-recipe", recipes["target"], "--heads-recipe", recipes["heads"]]
    command("card", *common, *where, "--default", tmp_path / "default.json", "--wide", tmp_path / "wide.json")
    card = (target / "README.md").read_text()
    seen = sum(sum(losses(runs / f"stage{stage}" / "metrics.csv", "tokens")) for stage in (0, 1))
    assert f"{seen / 1e6:.1f} M tokens seen" in card
    assert card.count("**chat/") == 2 and "60 nodes" in card and "--set total_tokens=60" in card
    assert "| mean | 1.00×, τ 1.00 |" in card
    first = 100 * np.mean(losses(tmp_path / "heads" / "metrics.csv", "jakiro_top1"))
    assert f"| `jakiro` | 6 | 128 | each seen 2 times | {first:.1f} % |" in card
    assert "Of the\n2 answers to the first prompts of all sets, " in card


def command(*arguments):
    assert main([str(argument) for argument in arguments]) == 0


@pytest.mark.parametrize("form", ["messages", "conversations"])
def test_a_jsonl_file_or_a_dataset_is_a_mix(tmp_path, form):
    """One file by its name, and the same records as a dataset in a format that the hub has, by a local name."""
    turns = [["hello there", "hi"], ["and you", "fine"]] * 60
    if form == "messages":
        records = [
            {form: [{"role": "user", "content": f"{ask} {i}"}, {"role": "assistant", "content": say}]}
            for i, (ask, say) in enumerate(turns)
        ]
    else:
        records = [
            {form: [{"from": "human", "value": f"{ask} {i}"}, {"from": "gpt", "value": say}]}
            for i, (ask, say) in enumerate(turns)
        ]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    root, [source] = only_source(str(file))
    found = list(read_chats(source, root))
    assert len(found) + len(list(read_chats(source, root, validation=True))) == 120
    assert found[0][1] == {"role": "assistant", "content": "hi"}
    (tmp_path / "set").mkdir()
    Dataset.from_list(records).to_parquet(tmp_path / "set" / "train.parquet")
    assert list(read_chats(Source(f"hub:{tmp_path / 'set'}", 1.0), Path())) == found


def test_data_that_is_nothing_is_refused_with_the_remedy(tmp_path):
    assert only_source(str(tmp_path)) == (tmp_path, None)
    assert only_source("someone/chats:test")[1] == [Source("hub:someone/chats:test", 1.0)]
    with pytest.raises(FileNotFoundError, match="neither a folder, a JSONL file nor a dataset"):
        only_source("no such thing")
    file = tmp_path / "bad.jsonl"
    for line, message in (
        ("{", "line 1 is not JSON"),
        ('{"text": "a"}', "neither messages nor conversations, but text"),
    ):
        file.write_text(line)
        with pytest.raises(ValueError, match=message):
            list(read_chats(Source("bad.jsonl", 1.0), tmp_path))
    file.write_text('{"messages": [{"role": "user", "content": [{"type": "image"}]}]}')
    assert list(read_chats(Source("bad.jsonl", 1.0), tmp_path)) == []


def test_a_template_that_writes_earlier_turns_anew_is_cut_there(trained):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    messages = [{"role": role, "content": "cat"} for role in ("user", "assistant") * 2]
    whole, _ = encode_chats(tokenizer, [messages])[0]
    turn = "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}"
    tokenizer.chat_template = (
        "{% for m in messages %}{% if loop.last or m.role == 'user' %}" + turn + "{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    ids, said = encode_chats(tokenizer, [messages])[0]
    assert ids == whole[: len(whole) // 2] and sum(said) == 2


def test_a_template_without_answers_is_refused(trained, data):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    with pytest.raises(ValueError, match="does not show where an answer begins"):
        pack(MIX[:1], data, tokenizer, 100, 32, seed=0)


def test_ids_of_a_large_vocabulary_are_kept_whole():
    rows, said = fill([([70_000, 5], [False, True]), ([3], [True])], 3, seed=0)
    assert rows.dtype == np.uint32 and sorted(rows[rows > 0].tolist()) == [3, 5, 70_000]
    assert said.sum() == 2


def test_answers_are_written_by_themselves_and_heads_take_them(trained, data, tmp_path):
    file, run = tmp_path / "heads.json", tmp_path / "run"
    file.write_text(json.dumps(head_given(answers={"new_tokens": 9, "batch": 4, "temperatures": [0.0]})))
    shared = ["--target", trained / "out", "--recipe", file, "--run-folder", run, "--data", data / "chat.jsonl"]
    command("train", "answers", *shared)
    written = (run / "answers.jsonl").read_text()
    command("train", "eagle2", *shared, "--out", tmp_path / "heads", "--no-compile")
    assert (run / "answers.jsonl").read_text() == written and written.count("\n") >= 12
    assert (tmp_path / "heads/eagle2/recipe.json").exists()


def test_a_target_without_a_chat_template_takes_one_from_a_file(trained, data, tmp_path, capsys):
    bare, written = tmp_path / "bare", []
    shutil.copytree(trained / "out", bare)
    template = (bare / "chat_template.jinja").rename(tmp_path / "chat.jinja")
    file = tmp_path / "heads.json"
    file.write_text(json.dumps(head_given(answers={"new_tokens": 9, "batch": 4, "temperatures": [0.0]})))
    shared = ["train", "answers", "--recipe", file, "--data", data / "chat.jsonl", "--run-folder"]
    for target, more in ((trained / "out", []), (bare, ["--chat-template", template])):
        run = tmp_path / f"run{len(written)}"
        command(*shared, run, "--target", target, *more)
        written.append((run / "answers.jsonl").read_text())
    assert written[0] == written[1] != ""
    template.write_text(template.read_text() + " ")
    refused = [(run, ["--chat-template", template], "another template"), (tmp_path / "other", [], "no chat template")]
    for run, more, message in refused:
        assert main([str(one) for one in [*shared, run, "--target", bare, *more]]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (["target", "eagle2"], "target stands alone"),
        (["answers", "jakiro"], "answers stands alone"),
        (["eagle3"], "no head"),
    ],
)
def test_what_cannot_be_trained_is_said(trained, data, tmp_path, capsys, what, message):
    line = ["train", *what, "--target", trained / "out", "--data", data, "--run-folder", tmp_path, "--out", tmp_path]
    assert main([str(one) for one in line]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_the_two_commands_for_a_gpu_make_the_models_and_measure_them(data, tmp_path):
    """`make gpu-target` and `make gpu-heads`, on the CPU at a tiny size."""
    (tmp_path / "target-gpu.json").write_text(json.dumps(asdict(recipe(dtype="bfloat16"))))
    answers_too = head_given(answers={"new_tokens": 9, "batch": 4, "temperatures": [0.0]}, passes=2)
    (tmp_path / "heads-gpu.json").write_text(json.dumps(answers_too))
    questions = tmp_path / "chat.jsonl"
    questions.write_text('{"turns": ["the cat sat"]}\n')
    given = {
        "PYTHON": sys.executable,
        "DEVICE": "cpu",
        "DATA": data,
        "EVAL": questions,
        "RECIPES": tmp_path,
        "GPU_RUN": tmp_path / "run",
        "GPU_OUT": tmp_path / "model",
    }
    line = ["make", "gpu-target", "gpu-heads", *(f"{name}={value}" for name, value in given.items())]
    environment = os.environ | {"TORCHDYNAMO_DISABLE": "1"}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert Target.load(tmp_path / "model").model.dtype == torch.float32
    rows = json.loads((tmp_path / "model/bench.json").read_text())["rows"]
    assert {row["method"]: row["identical"] for row in rows if row["task"] == "chat"} == dict.fromkeys(
        ("vanilla", "prompt_lookup", "eagle2", "jakiro"), 1.0
    )


def test_every_recipe_that_ships_can_be_read():
    for kind, read in (("heads", HeadRecipe.read), ("target", Recipe.read), ("assistant", Recipe.read)):
        for file in RECIPES.glob(f"{kind}-*.json"):
            assert read(file).seed == 0


@pytest.mark.parametrize(
    ("device", "native", "expected"), [("cpu", True, True), ("cpu", False, False), ("cuda", False, True)]
)
def test_products_are_in_bfloat16_where_the_processor_does_that_itself(monkeypatch, device, native, expected):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert in_bfloat16(torch.device(device)) is expected
