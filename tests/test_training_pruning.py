"""A target that begins as a part of a larger model: which part, with which tokens, and what does not fit."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from recipes import SHAPE, command, recipe
from tiny import tiny_model
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

from jakiro.training import pruning
from jakiro.training.pruning import ROWS, Parent, parent_of, part
from jakiro.training.target_recipe import Stage
from jakiro.training.tokenizer import END, SPECIAL

TEXT = "the cat sat on 12 mats; the dog stood.\n    é"
IDS = np.random.default_rng(0).integers(4, 200, (ROWS, 24))


@pytest.fixture
def parent(trained) -> Parent:
    folder = trained / "out"
    return parent_of(AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder), 290)


def config(parent: Parent, **changes) -> LlamaConfig:
    return LlamaConfig(**{**parent.model.config.to_dict(), "vocab_size": len(parent.tokenizer), **changes})


def llama(**changes) -> Parent:
    """A random Llama whose part keeps all its tokens."""
    model = tiny_model(num_hidden_layers=4, **changes)
    return Parent(model, None, torch.arange(model.config.vocab_size))


def whole(parent: Parent, **changes):
    return LlamaConfig(**{**parent.model.config.to_dict(), **changes})


def test_a_part_of_everything_is_the_parent():
    parent = llama()
    same = part(parent, whole(parent), IDS).eval()
    ids = torch.from_numpy(IDS[:2])
    assert torch.equal(same(input_ids=ids).logits, parent.model(input_ids=ids).logits)


@torch.no_grad()
def test_layers_that_change_nothing_go_first_and_the_ends_stay():
    parent = llama()
    layers = parent.model.model.layers
    for silent in (0, 2):
        layers[silent].self_attn.o_proj.weight.zero_()
        layers[silent].mlp.down_proj.weight.zero_()
    found = part(parent, whole(parent, num_hidden_layers=3), IDS)
    for kept, own in zip((0, 1, 3), found.model.layers, strict=True):
        assert torch.equal(own.mlp.up_proj.weight, layers[kept].mlp.up_proj.weight), kept


@torch.no_grad()
def test_units_that_say_nothing_go_first_and_the_function_stays():
    parent, dead = llama(), torch.tensor([3, 4, 40])
    for layer in parent.model.model.layers:
        layer.mlp.down_proj.weight[:, dead[:2]] = 0  # unread
        layer.mlp.up_proj.weight[dead[2]] = 0  # silent
    found = part(parent, whole(parent, intermediate_size=45), IDS).eval()
    assert found.model.layers[0].mlp.gate_proj.weight.shape == (45, 32)
    ids = torch.from_numpy(IDS[:2])
    torch.testing.assert_close(found(input_ids=ids).logits, parent.model(input_ids=ids).logits, atol=1e-4, rtol=1e-4)


def test_padding_does_not_count():
    parent = llama()
    padded = np.concatenate([IDS, np.zeros_like(IDS)], axis=1)
    one, other = (part(parent, whole(parent, intermediate_size=20, num_hidden_layers=2), ids) for ids in (IDS, padded))
    assert all(torch.equal(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))


def test_the_first_tokens_stay_and_mean_what_they_meant(parent, trained):
    own, before = parent.tokenizer, AutoTokenizer.from_pretrained(trained / "out")
    assert len(own) == 290 and own.convert_ids_to_tokens(range(4)) == [*SPECIAL] and own.eos_token == END
    assert own.decode(own(TEXT)["input_ids"]) == TEXT
    pieces = before.convert_ids_to_tokens(parent.rows[4:].tolist())
    assert own.convert_ids_to_tokens(range(4, 290)) == pieces
    last = before.decode([len(before) - 1])  # whose merge is gone
    assert len(before.tokenize(last)) == 1 and len(own.tokenize(last)) == 2
    weights = part(parent, config(parent), IDS).lm_head.weight
    assert torch.equal(weights[4:], parent.model.lm_head.weight[parent.rows[4:]])
    chat = own.apply_chat_template([{"role": "user", "content": "a"}], add_generation_prompt=True, tokenize=False)
    assert own(chat)["input_ids"] == [1, own.convert_tokens_to_ids("a"), 3, 2]


def test_a_token_that_is_made_in_several_ways_is_one_token(trained):
    """As where a vocabulary without merges was converted into one with all that there could be."""
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    made = json.loads(tokenizer.backend_tokenizer.to_str())
    left, right = next(pair for pair in made["model"]["merges"] if len(pair[0]) > 1)
    made["model"]["merges"].append([left[0], left[1:] + right])
    made["model"]["vocab"].setdefault(left[1:] + right, len(made["model"]["vocab"]))
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(made))
    found = parent_of(AutoModelForCausalLM.from_pretrained(trained / "out"), tokenizer, 300)
    assert len(found.tokenizer) == len(found.rows) == 300
    assert found.tokenizer.decode(found.tokenizer(TEXT)["input_ids"]) == TEXT


def test_a_target_begins_as_a_part_and_goes_on_to_the_same_weights(trained, data, tmp_path):
    stages = [Stage(2, 2000, 32, 4, 1, "all", (0.5, 0.1))]
    shape = SHAPE | {"intermediate_size": 30, "max_position_embeddings": 128}
    made = recipe(*stages, vocab_size=280, model=shape, parent=str(trained / "out"))
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps(asdict(made)))
    line = ["train", "target", "--data", data, "--recipe", file, "--no-compile"]
    command(*line, "--run-folder", tmp_path / "run", "--out", tmp_path / "one")
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "one")
    assert found.config.vocab_size == 280 and found.config.intermediate_size == 30
    assert json.loads((tmp_path / "one/recipe.json").read_text())["parent"] == str(trained / "out")
    file.write_text(json.dumps(asdict(replace(made, parent="somebody/elsewhere"))))
    (tmp_path / "run/stage0/rows.npz").unlink()  # which a stage that is done needs no more
    command(*line, "--run-folder", tmp_path / "run", "--out", tmp_path / "two", "--parent", trained / "out")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "two")
    assert all(torch.equal(*pair) for pair in zip(found.parameters(), again.parameters(), strict=True))


def test_where_all_texts_fit_into_short_rows_a_parent_is_measured_on_those(trained, data, tmp_path, monkeypatch):
    measured, part = [], pruning.part
    monkeypatch.setattr(pruning, "part", lambda whole, config, ids: measured.append(ids) or part(whole, config, ids))
    shape = SHAPE | {"intermediate_size": 30, "max_position_embeddings": 256}
    stage = Stage(2, 600, 256, 1, 1, "all", (0.5, 0.1), short=(128,))
    made = recipe(stage, vocab_size=280, model=shape, parent=str(trained / "out"))
    (tmp_path / "recipe.json").write_text(json.dumps(asdict(made)))
    command("train", "target", "--data", data, "--recipe", tmp_path / "recipe.json", "--no-compile", "--run-folder",
            tmp_path / "run", "--out", tmp_path / "out")  # fmt: skip
    assert measured[0].shape[1] == 129 and measured[0].any()


def refused(capsys, file, data, tmp_path, *more) -> str:
    from jakiro.__main__ import main

    line = ["train", "target", "--data", data, "--recipe", file, "--no-compile", "--run-folder", tmp_path / "run"]
    assert main([str(one) for one in (*line, "--out", tmp_path / "out", *more)]) != 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocab_size": 301}, "of this parent's tokens use 260 to 300"),
        ({"vocab_size": 259}, "of this parent's tokens use 260 to 300"),
        ({"model": SHAPE | {"hidden_size": 64}}, "`model` has hidden_size 64, its parent 32"),
        ({"model": SHAPE | {"intermediate_size": 49}}, "has intermediate_size 49, its parent only 48"),
        ({"stages": [Stage(3, 600, 32, 4, 1, "all", (1.0, 1.0))]}, "has num_hidden_layers 3, its parent only 2"),
    ],
)
def test_what_is_no_part_is_refused_before_rows_are_made(trained, data, tmp_path, capsys, changes, said):
    shape = {"model": SHAPE | {"max_position_embeddings": 128}}
    made = replace(recipe(**shape), parent=str(trained / "out"), **changes)
    (tmp_path / "recipe.json").write_text(json.dumps(asdict(made)))
    assert said in refused(capsys, tmp_path / "recipe.json", data, tmp_path)
    assert not list((tmp_path / "run").rglob("rows.npz"))


def test_other_models_and_other_weights_are_refused(trained, data, tmp_path, capsys):
    with pytest.raises(ValueError, match="part of a Llama, and the parent is a GPT2LMHeadModel"):
        parent_of(tiny_model("gpt2"), None, 300)
    made = recipe(parent=str(trained / "out"), model=SHAPE | {"max_position_embeddings": 128})
    (tmp_path / "recipe.json").write_text(json.dumps(asdict(made)))
    given = (capsys, tmp_path / "recipe.json", data, tmp_path)
    assert "leave out --like" in refused(*given, "--like", trained / "out")
    command("train", "target", "--data", data, "--recipe", given[1], "--no-compile", "--run-folder", tmp_path / "run",
            "--out", tmp_path / "out")  # fmt: skip
    other = AutoModelForCausalLM.from_pretrained(trained / "out")
    other.model.norm.weight.data += 1
    other.save_pretrained(tmp_path / "other")
    AutoTokenizer.from_pretrained(trained / "out").save_pretrained(tmp_path / "other")
    assert "was made from another parent" in refused(*given, "--parent", tmp_path / "other")
    (tmp_path / "recipe.json").write_text(json.dumps(asdict(recipe())))
    assert "--parent is for a recipe that names a `parent`" in refused(*given, "--parent", trained / "out")
