"""The trainer end to end at a tiny size: stages that grow, resume to the same curve, heads that load strictly."""

import csv
import json
import math
import random
import shutil
from dataclasses import asdict

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from jakiro.__main__ import main
from jakiro.drafting.weights import load_head
from jakiro.target import Target
from jakiro.training import answers, loop, repeats
from jakiro.training.answers import Answers
from jakiro.training.data import Source, draw, encode_chat, pack, shorten
from jakiro.training.heads import HeadRecipe, train_heads
from jakiro.training.optim import Optimizer
from jakiro.training.target import Recipe, Stage, grow, train

pytestmark = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="training needs torch 2.9 or newer")
WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "red",
    "mat",
    "and",
    "then",
    "saw",
    "two",
    "small",
    "dogs",
    "run",
    "over",
    "one",
    "green",
    "hill",
    "near",
    "that",
    "old",
    "house",
]
MIX = [Source("chat.jsonl", 3.0), Source("plain/text.txt.xz", 1.0)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with one chat file and one plain file of random sentences."""
    import lzma

    folder = tmp_path_factory.mktemp("data")
    (folder / "plain").mkdir()
    rng = random.Random(0)

    def sentence(n):
        return " ".join(rng.choices(WORDS, k=n)) + "."

    with (folder / "chat.jsonl").open("w") as file:
        for _ in range(400):
            turns = [{"role": "user", "content": sentence(5)}, {"role": "assistant", "content": sentence(9)}]
            file.write(json.dumps({"source": "made", "messages": turns}) + "\n")
    with lzma.open(folder / "plain" / "text.txt.xz", "wt") as file:
        file.write("\n<|doc|>\n".join("\n".join(sentence(12) for _ in range(40)) for _ in range(8)))
    return folder


def recipe(**changes):
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1}
    stages = [
        Stage(1, 6000, 32, 4, 2, "all", (1.0, 1.0)),
        Stage(2, 4000, 32, 4, 2, "all", (1.0, 0.1), unlikelihood=0.1, answers=6),
    ]
    return Recipe(300, shape | {"max_position_embeddings": 128}, 0.3, {"all": MIX}, stages, **changes)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(recipe(), data, folder / "run", folder / "out", compiled=False)
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
    loss = repeats.token_level(law.log(), ids)
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
    turn = encode_chat(tokenizer, [{"role": "user", "content": "the cat sat"}, {"role": "assistant", "content": "on"}])
    ids, said = (np.array([row]) for row in turn)
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
    last = torch.tensor([prompts[0][-1:]])
    p = model(last).logits[0, -1].softmax(-1)[last[0, 0]].item()
    loss, share = repeats.sequence_level(model, prompts, 12)
    assert share == pytest.approx(11 / 12)  # all but the first token
    assert loss.item() == pytest.approx(-math.log(1 - p) * 11 / 12, rel=0.05)
    loss.backward()
    with torch.no_grad():
        model.lm_head.weight -= 0.001 * model.lm_head.weight.grad
        lower, _ = repeats.sequence_level(model, prompts, 12)
        assert lower.item() < loss.item()
        model.lm_head.weight.copy_(rows.roll(1, dims=0))  # every token is followed by the next id
        loss, share = repeats.sequence_level(model, prompts, 12)
    assert (loss.item(), share) == (0.0, 0.0)


def test_a_torch_without_muon_is_told_so(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ValueError, match=r"new in torch 2\.9"):
        Optimizer(torch.nn.Linear(2, 2))


class Counter:
    """A job whose metric depends on its saved state and on the step, so that a lost or doubled step shows."""

    steps = 7

    def __init__(self):
        self.value = 1.0

    def states(self):
        return {"counter": self}

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]

    def step(self, index):
        self.value = self.value * 1.1 + index
        return {"value": self.value}


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
    shape = {"intermediate_size": 24, "num_attention_heads": 2, "bias": False}
    heads = {"eagle2": shape, "jakiro": shape | {"expert_intermediate_size": 16}}
    return HeadRecipe(steps=steps, row=32, rows=4, mix=MIX[:1], heads=heads, scored=40, epochs=2, **changes)


def train_both(trained, data, run, out, steps=6):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    folders = {"eagle2": out / "eagle2", "jakiro": out / "jakiro"}
    train_heads(list(folders), model, tokenizer, head_recipe(steps), data, run, folders, compiled=False)
    return folders


def test_heads_learn_resume_and_load(trained, data, tmp_path):
    folders = train_both(trained, data, tmp_path / "whole", tmp_path)
    curve = {name: losses(tmp_path / "whole/metrics.csv", f"{name}_loss") for name in folders}
    assert all(values[-1] < values[0] for values in curve.values())
    target = Target.load(trained / "out")
    for folder in folders.values():
        load_head(folder, target)


def test_head_training_resumes_to_the_same_curve(trained, data, tmp_path, monkeypatch):
    train_both(trained, data, tmp_path / "whole", tmp_path)
    real = loop.run
    monkeypatch.setattr(loop, "run", lambda job, run: real(job, run, stop_after=3))
    train_both(trained, data, tmp_path / "parts", tmp_path)
    monkeypatch.setattr(loop, "run", real)
    train_both(trained, data, tmp_path / "parts", tmp_path)
    for name in ("eagle2_loss", "jakiro_loss"):
        whole, parts = (losses(tmp_path / run / "metrics.csv", name) for run in ("whole", "parts"))
        assert parts == pytest.approx(whole, rel=1e-5)


def test_a_target_answers_its_prompts_and_goes_on_after_an_interrupt(trained, data, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    how = Answers(new_tokens=9, batch=4, temperatures=(0.0, 1.0))

    def write(name, tokens):
        return answers.write(model, draw(MIX[:1], data, tokenizer, 32, 0), how, tokens, 32, tmp_path / name, seed=0)

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
    how = head_recipe(answers=Answers(new_tokens=9, batch=4, temperatures=(0.0,)))
    train_heads(["eagle2"], model, tokenizer, how, data, tmp_path, {"eagle2": tmp_path / "eagle2"}, compiled=False)
    written = [json.loads(line)["answer"] for line in (tmp_path / "answers.jsonl").open()]
    rows = np.load(tmp_path / "rows.npz")
    assert sorted(rows["ids"][rows["said"]].tolist()) == sorted(token for answer in written for token in answer)
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


def test_encode_chat_marks_the_end_of_an_answer_as_said(trained):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    messages = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]
    ids, said = encode_chat(tokenizer, messages)
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
    for name, one in (("target", recipe()), ("heads", head_recipe())):
        recipes[name] = tmp_path / f"{name}.json"
        recipes[name].write_text(json.dumps(asdict(one)))
    common = ["--target", target, "--data", data]
    heads = ["eagle2", "jakiro", *common, "--recipe", recipes["heads"], "--run-folder", tmp_path / "heads"]
    command("train", *heads, "--no-compile")
    for tree in ("default", "wide"):
        wide = ["--set", "total_tokens=60"] * (tree == "wide")
        command("bench", "--target", target, "--prompts", questions, *wide, "--out", tmp_path / f"{tree}.json")
    where = ["--target-run", runs, "--heads-run", tmp_path / "heads", "--default", tmp_path / "default.json"]
    where += [
        "--target-recipe",
        recipes["target"],
        "--heads-recipe",
        recipes["heads"],
        "--wide",
        tmp_path / "wide.json",
    ]
    command("card", *common, *where)
    card = (target / "README.md").read_text()
    seen = sum(sum(losses(runs / f"stage{stage}" / "metrics.csv", "tokens")) for stage in (0, 1))
    assert f"{seen / 1e6:.1f} M tokens seen" in card
    assert card.count("**chat/") == 2 and "60 nodes" in card and "--set total_tokens=60" in card
    assert "| mean | 1.00×, τ 1.00 |" in card


def command(*arguments):
    assert main([str(argument) for argument in arguments]) == 0
