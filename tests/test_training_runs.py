"""Runs that are interrupted and gone on with: files are whole, and of what is trained now; what cannot be is said."""

import csv
import gc
import itertools
import json
import os
import resource
import shutil
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import naive_eagle3
import numpy as np
import pytest
import torch
from counter import Counter
from recipes import CHAT, MIX, SMALL, TEMPLATE, given, recipe
from safetensors.torch import load_file
from tiny import tiny_model, tiny_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from jakiro.drafting.eagle3_config import Eagle3Config
from jakiro.drafting.eagle3_head import Eagle3Head
from jakiro.drafting.weights import save_head
from jakiro.files import refilling
from jakiro.target import Target
from jakiro.training import claims, curves, head_rows, history, loop, packing, repeats, workers
from jakiro.training.claims import claim, digest, lies_in
from jakiro.training.head_recipe import HeadRecipe, Plan, new_head
from jakiro.training.head_rows import Lesson
from jakiro.training.heads import train_heads
from jakiro.training.losses import Losses
from jakiro.training.sources import Source
from jakiro.training.target import train
from jakiro.training.target_recipe import Stage

ANSWERS = {"new_tokens": 5, "batch": 4, "temperatures": [0]}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A folder with a random target."""
    folder = tmp_path_factory.mktemp("target")
    tiny_model().save_pretrained(folder)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def train_target(how, data, folder, **more):
    train(workers.start(), how, data, folder / "run", folder / "out", compiled=False, **more)


def train_eagle(target, data, run, model=None, tokenizer=None, shard=False, start=None, **changes):
    model = model or AutoModelForCausalLM.from_pretrained(target)
    tokenizer, how = tokenizer or AutoTokenizer.from_pretrained(target), HeadRecipe.of(given(**changes))
    out = {name: run / name for name in how.heads}
    train_heads(Lesson(workers.start(), model, tokenizer, how, data), run, out, False, shard, start)


def column(file, name):
    with file.open() as lines:
        return [row[name] for row in csv.DictReader(lines)]


# files


def test_what_is_written_in_part_is_not_there(tmp_path, monkeypatch):
    """A crash while rows or weights are written: the next start does not take the half for the whole."""

    def half(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", lambda file, **_: (file.write(b"PK"), half()))
    monkeypatch.setattr(torch, "save", lambda _, file: (file.write_bytes(b"PK"), half()))
    with pytest.raises(KeyboardInterrupt):
        packing.save_rows(tmp_path / "rows.npz", [([3], [True])], [8], seed=0)
    with pytest.raises(KeyboardInterrupt):
        loop.save({"a": torch.ones(1)}, tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


@contextmanager
def room(size):
    """No file may have more bytes: torch and safetensors see what they see on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_said_with_what_could_not_be_written_and_leaves_nothing_half_written(tmp_path):
    with room(9000), pytest.raises(OSError, match=r"cannot write .*model\.pt \(.*\): make room there, or name another"):
        loop.save({"a": torch.ones(9000)}, tmp_path / "model.pt")
    with room(9000), pytest.raises(OSError, match=r"cannot write .*/head \(.*too large.*\): make room there"):
        save_head(tmp_path / "head", new_head(tiny_model(), Plan("eagle2", SMALL, Losses())))
    with (
        room(900),
        pytest.raises(OSError, match=r"cannot write .*/target \(.*too large.*\): make room"),
        refilling(tmp_path / "target", "") as new,
    ):
        tiny_tokenizer().save_pretrained(new)
    loop.write_rows(tmp_path / "metrics.csv", [{"step": 1, "loss": 2.0}])
    with room(90_000), pytest.raises(OSError, match="cannot write"):
        curves.draw(tmp_path)
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["metrics.csv"]


def test_curves_are_drawn_though_a_kill_left_half_of_their_script(tmp_path):
    loop.write_rows(tmp_path / "metrics.csv", [{"step": 1, "loss": 2.0}])
    (tmp_path / "plotly.min.js").write_text("half")
    curves.draw(tmp_path)
    assert (tmp_path / "plotly.min.js").stat().st_size > 10**6


def test_a_crash_while_weights_or_the_tokenizer_are_written_is_made_up_for(data, tmp_path, monkeypatch):
    real, save = torch.save, AutoTokenizer.from_pretrained

    def crash(states, file):
        if str(file).endswith("model.pt"):
            with open(file, "wb") as half:
                half.write(b"half")
            raise KeyboardInterrupt
        real(states, file)

    monkeypatch.setattr(torch, "save", crash)
    with pytest.raises(KeyboardInterrupt):
        train_target(recipe(), data, tmp_path)
    monkeypatch.setattr(torch, "save", real)
    assert len(save(tmp_path / "run" / "tokenizer")) == 300
    train_target(recipe(), data, tmp_path)
    assert (tmp_path / "out" / "config.json").exists()


def test_a_crash_between_metrics_and_checkpoint_leaves_no_hole(tmp_path, monkeypatch):
    loop.run(Counter(), tmp_path / "whole", save_every=2)
    for name in ("save", "write_rows"):  # whichever is written second
        run, calls, real = tmp_path / name, [], getattr(loop, name)

        def crash(*given, calls=calls, real=real):
            calls.append(given)
            if len(calls) == 2:
                raise KeyboardInterrupt
            real(*given)

        monkeypatch.setattr(loop, name, crash)
        with pytest.raises(KeyboardInterrupt):
            loop.run(Counter(), run, save_every=2)
        monkeypatch.setattr(loop, name, real)
        loop.run(Counter(), run, save_every=2)
        for what in ("step", "value"):
            assert column(run / "metrics.csv", what) == column(tmp_path / "whole/metrics.csv", what)


def test_a_checkpoint_is_read_where_there_is_no_gpu(tmp_path, monkeypatch):
    asked, real = [], torch.load
    monkeypatch.setattr(
        torch, "load", lambda *given, **how: (asked.append(how["map_location"]), real(*given, **how))[1]
    )
    loop.run(Counter(), tmp_path, save_every=2, stop_after=2)
    loop.run(Counter(), tmp_path, save_every=2)
    assert asked == ["cpu"]


# of what


def test_a_claim_names_what_differs(tmp_path):
    made, weights = (tmp_path / "run" / name for name in ("rows.npz", "checkpoint.pt"))
    claim(made, recipe={"steps": 3}, data={})  # nothing came of it
    made.touch()
    claim(made, recipe={"steps": (1, 2)}, data={})
    made.write_text("rows")
    claim(made, recipe={"steps": [1, 2]}, data={})
    remedy = r"choose another --run-folder, .* delete .*rows\.npz$"
    with pytest.raises(ValueError, match=rf"made from another recipe and another data .*{remedy}"):
        claim(made, recipe={"steps": [1]}, data={"a": ""})
    made.rename(weights)
    claim(made, [weights.name], recipe={"steps": [1, 2]}, data={})
    with pytest.raises(ValueError, match=r"checkpoint\.pt was made from another recipe .*delete .*checkpoint\.pt$"):
        claim(made, [weights.name], recipe={"steps": [1]}, data={})
    (made.parent / "rows-from.json").unlink()
    with pytest.raises(ValueError, match=r"does not say what it was made from"):
        claim(made, [weights.name], recipe={"steps": [1, 2]}, data={})


def test_of_two_runs_that_begin_at_once_one_is_refused(tmp_path, monkeypatch):
    """The other begins after this one has looked, and before it has written."""
    note = tmp_path / "rows-from.json"

    def other(run):
        note.write_text("{}")
        fcntl.flock(theirs := os.open(note, os.O_RDONLY), fcntl.LOCK_EX)
        held.append(theirs)

    held = []
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr("jakiro.training.claims._check_unused", other)
    with pytest.raises(ValueError, match="another process is writing"):
        claim(tmp_path / "rows.npz", recipe={})
    assert note.read_text() == "{}"
    os.close(held[0])


def test_a_remedy_that_is_followed_is_not_refused(target, data, tmp_path):
    run, how = tmp_path / "run", {"answers": {"new_tokens": 5, "batch": 64, "temperatures": [0]}}
    with pytest.raises(ValueError, match="--chat-template FILE"):
        train_eagle(target, data, run, tokenizer=tiny_tokenizer(template=False), **how)
    with pytest.raises(ValueError, match="lower its new_tokens"):
        train_eagle(target, data, run, **how, trial={"every": 1, "new_tokens": 150})
    with pytest.raises(ValueError, match="fewer `steps`"):
        train_eagle(target, data, run, **how, steps=1000)
    written = (run / "answers.jsonl").read_text().splitlines()
    train_eagle(target, data, run, **how)
    train_eagle(target, data, run, **how, note="said later", remember=0.0, trial={"every": 1, "prompts": 1})
    assert (run / "answers.jsonl").read_text().splitlines() == written[: len(written) // 64 * 64]  # whole batches


def test_rows_of_a_table_may_have_other_columns(tmp_path):
    """As trials have that are asked for otherwise while a run goes on."""
    loop.write_rows(tmp_path / "trials.csv", [{"step": 1, "a": 2}, {"step": 3, "b": 4}])
    assert [column(tmp_path / "trials.csv", name) for name in ("step", "a", "b")] == [["1", "3"], ["2", ""], ["", "4"]]


def test_a_digest_is_of_names_types_shapes_and_values():
    ones = {"a": torch.ones(2, 3), "b": torch.tensor(1.0)}
    others = [
        {"c": ones["a"], "b": ones["b"]},
        {**ones, "a": torch.ones(3, 2)},
        {**ones, "a": torch.ones(2, 3, dtype=torch.bfloat16)},
        {**ones, "b": torch.tensor(1.0001)},
    ]
    assert digest(dict(reversed(ones.items()))) == digest(ones)
    assert len({digest(one) for one in [ones, *others]}) == 5


def test_a_stage_is_not_taken_for_one_of_another_recipe(data, tmp_path):
    first = Stage(1, 600, 32, 4, 1, "all", (1.0, 1.0))
    train_target(recipe(first), data, tmp_path)
    weights = tmp_path / "out/model.safetensors"
    before = weights.stat().st_mtime_ns
    train_target(recipe(replace(first, note="said later")), data, tmp_path)
    assert weights.stat().st_mtime_ns == before  # a benchmark that goes on wants the same files
    train_target(recipe(first, dtype="bfloat16"), data, tmp_path)
    assert {one.dtype for one in load_file(weights).values()} == {torch.bfloat16}
    second = Stage(2, 600, 32, 4, 1, "more", (1.0, 0.1))
    mixes = {"all": CHAT, "more": [Source("plain/text.txt.xz", 1.0)]}
    train_target(recipe(first, second, mixes=mixes), data, tmp_path)  # a stage is appended
    changed = (
        (recipe(replace(first, rate=(0.5, 0.5))), "recipe"),
        (recipe(first, seed=1), "recipe"),
        (recipe(first, mixes={"all": [Source("chat.jsonl", 1.0, longest=20)]}), "mix"),
    )
    for how, what in changed:
        with pytest.raises(ValueError, match=rf"another {what} .*--run-folder"):
            train_target(how, data, tmp_path)
    shutil.copytree(data, tmp_path / "data")
    with (tmp_path / "data/chat.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(ValueError, match=r"another data .*--run-folder"):
        train_target(recipe(first), tmp_path / "data", tmp_path)
    with pytest.raises(ValueError, match=r"tokenizer was made from another vocab_size"):
        train_target(recipe(first, vocab_size=290), data, tmp_path)


def test_a_head_with_tables_of_its_own_is_known_again(tmp_path):
    """What a head for EAGLE-3 saves beside its parameters: a benchmark that goes on wants the same files."""
    (tmp_path / "config.json").write_text(json.dumps(naive_eagle3.config()))
    head = Eagle3Head(Eagle3Config.from_json(tmp_path / "config.json"))
    save_head(tmp_path, head)
    assert not lies_in(tmp_path, head)  # no run of ours wrote it
    history.write(tmp_path, [])
    assert lies_in(tmp_path, head)
    head.d2t += 1
    assert not lies_in(tmp_path, head)


def test_heads_are_not_gone_on_with_on_another_target_or_other_data(target, data, tmp_path):
    train_eagle(target, data, tmp_path / "run")
    train_eagle(target, data, tmp_path / "run")
    with pytest.raises(ValueError, match=r"another target .*--run-folder"):
        train_eagle(target, data, tmp_path / "run", tiny_model(seed=1))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/chat.jsonl").write_text((data / "chat.jsonl").read_text()[:-1])
    with pytest.raises(ValueError, match=r"another data .*--run-folder"):
        train_eagle(target, tmp_path / "other", tmp_path / "run")


def test_heads_that_lie_there_get_the_history_of_the_run_that_made_them(target, data, tmp_path):
    """Notes may change; and a history may be another run's."""
    train_eagle(target, data, tmp_path)
    weights, history = tmp_path / "eagle2/model.safetensors", tmp_path / "eagle2/training.json"
    before, told = weights.stat().st_mtime_ns, json.loads(history.read_text())
    history.write_text(json.dumps([told[0] | {"steps": 999}]))
    train_eagle(target, data, tmp_path, note="said later")
    assert weights.stat().st_mtime_ns == before
    assert json.loads(history.read_text()) == [told[0] | {"note": "said later"}]
    assert json.loads((tmp_path / "eagle2/recipe.json").read_text())["note"] == "said later"


def test_answers_are_not_gone_on_with_by_another_target(target, data, tmp_path):
    how = HeadRecipe.of(given(answers=ANSWERS))
    tokenizer, file = AutoTokenizer.from_pretrained(target), tmp_path / "answers.jsonl"

    def answer(how, model):
        return head_rows.answer(Lesson(workers.start(), model, tokenizer, how, data), file)

    written = answer(how, tiny_model())
    assert answer(replace(how, scored=5), tiny_model()) == written  # nothing that answers depend on
    with pytest.raises(ValueError, match="another target"):
        answer(how, tiny_model(seed=1))
    with pytest.raises(ValueError, match=r"another recipe .*; choose another --run-folder or --out"):
        answer(replace(how, answers=replace(how.answers, new_tokens=6)), tiny_model())
    note = tmp_path / "answers-from.json"
    kept = json.loads(note.read_text())
    note.write_text(json.dumps({name: part for name, part in kept.items() if name != "order of batches"}))
    with pytest.raises(
        ValueError, match=r"made from another order of batches .*; choose another --run-folder or --out"
    ):
        answer(how, tiny_model())  # of a version that answered the shortest prompts of a chunk first
    note.write_text(json.dumps(kept))
    whole = file.read_text()
    for line in ('{"prompt": 5}', "x"):
        file.write_text(whole.replace(whole.splitlines()[0], line))
        with pytest.raises(ValueError, match=r"answers\.jsonl is damaged .*: delete it"):
            answer(how, tiny_model())
    for note in ("5", "{"):
        (tmp_path / "answers-from.json").write_text(note)
        with pytest.raises(
            ValueError, match=r"answers-from\.json, which says what .*answers\.jsonl was made from, is d"
        ):
            answer(how, tiny_model())


def test_files_that_differ_in_their_ending_have_notes_of_their_own(tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "a.txt"
    for file, seed in ((first, 1), (second, 2)):
        claims.claim(file, option="--out", seed=seed)
        file.write_text("text")
    claims.claim(first, option="--out", seed=1)
    claims.claim(second, option="--out", seed=2)
    with pytest.raises(ValueError, match=r"a\.txt was made from another seed \(a\.txt-from\.json: seed was 2, is 1\)"):
        claims.claim(second, option="--out", seed=1)


@pytest.mark.parametrize("name", ["recipe.json", "curves.html", "metrics.csv"])
def test_a_folder_with_files_of_something_else_is_no_runs(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=rf"{name} is of no run, and would be written over: choose another --run-f"):
        claims.claim(tmp_path / "rows.npz", seed=1)
    (tmp_path / name).unlink()
    claims.claim(tmp_path / "rows.npz", seed=1)
    (tmp_path / name).write_text("the run's")
    claims.claim(tmp_path / "trials.csv", trial=1)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "recipe.json", "tokenizer.json"])
def test_a_folder_that_training_did_not_write_is_left(tmp_path, name):
    history.check_own(tmp_path, "stage")
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=rf"{name} was not written by training here, .*: name another --out"):
        history.check_own(tmp_path, "stage")
    history.write(tmp_path, [{"stage": {}}])
    history.check_own(tmp_path, "stage")
    with pytest.raises(ValueError, match="name the folder of a head"):
        history.check_own(tmp_path, "steps")


def test_contents_are_read_and_names_are_not(tmp_path):
    (tmp_path / "a.jsonl").write_text("a")
    sources = [Source("a.jsonl", 1), Source("stdlib", 1), Source("hub:owner/name", 1)]
    first = claims.contents(sources, tmp_path)
    assert [bool(one) for one in first.values()] == [True, False, False]
    (tmp_path / "a.jsonl").write_text("b")
    assert claims.contents(sources, tmp_path)["a.jsonl"] != first["a.jsonl"]
    with pytest.raises(FileNotFoundError):
        claims.contents([Source("gone.jsonl", 1)], tmp_path)


# before the work


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "steps"}, "no learning-rate schedule"),
        ({"dtype": "fp16"}, "dtype of the recipe is 'fp16'"),
        ({"short": [48]}, "do not divide"),
        ({"mix": []}, "no texts"),
        (
            {"mix": [{"file": "plain/text.txt.xz", "weight": 1}], "answers": ANSWERS},
            "asks for `answers`, and its mix holds no conversations",
        ),
        ({"heads": {"jakiro": SMALL}, "trial": {"every": 1, "depth": 1}}, "head 'jakiro' cannot be tried"),
        ({"shard": True}, "leave it out"),
    ],
)
def test_what_is_wrong_with_a_head_recipe_is_said_before_rows_are_made(target, data, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        train_eagle(target, data, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({"dtype": "bf16"}, {}, "dtype of the recipe is 'bf16'"),
        ({"stages": [recipe().stages[0], replace(recipe().stages[0], layers=3)] * 2}, {}, "1 is not a multiple of 3"),
        ({}, {"shard": True}, "leave it out"),
        ({"mixes": {"all": []}}, {}, "the mix 'all' names no texts"),
    ],
)
def test_what_is_wrong_with_a_targets_recipe_is_said_before_rows_are_made(data, tmp_path, changes, more, message):
    with pytest.raises(ValueError, match=message):
        train_target(replace(recipe(), **changes), data, tmp_path, **more)
    assert not (tmp_path / "run").exists()


def test_a_head_is_no_target_to_go_on_from_and_a_target_no_head(target, data, tmp_path):
    train_eagle(target, data, tmp_path)
    with pytest.raises(ValueError, match=r"entries without 'stage': name the folder of a target that `train` wrote"):
        train_target(recipe(), data, tmp_path / "other", start=tmp_path / "eagle2")
    (tmp_path / "start/eagle2").mkdir(parents=True)
    (tmp_path / "start/eagle2/training.json").write_text('[{"stage": {}}]')
    with pytest.raises(ValueError, match=r"entries without 'steps': name the folder of a head that `train` wrote"):
        train_eagle(target, data, tmp_path / "run", start=tmp_path / "start")


def test_a_vocabulary_that_the_texts_do_not_make_is_refused(data, tmp_path):
    with pytest.raises(ValueError, match=r"a vocabulary of .* tokens, and it asks for 5000: change its vocab_size"):
        train_target(recipe(vocab_size=5000), data, tmp_path)
    assert not (tmp_path / "run/tokenizer").exists()


def test_the_tokenizer_is_made_of_the_last_conversations(data, tmp_path):
    """Also where plain text is read after them."""
    mixes = {"all": CHAT, "more": MIX[1:]}
    stages = [Stage(1, 64, 32, 2, 1, mix, (1, 1)) for mix in mixes]
    train_target(recipe(*stages, mixes=mixes), data, tmp_path)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out")) == 300


def test_a_tokenizer_of_other_texts_is_not_kept(data, tmp_path):
    """Also where the rows of those texts are gone."""
    stage = Stage(1, 64, 32, 2, 1, "all", (1, 1))
    train_target(recipe(stage), data, tmp_path)
    note = tmp_path / "run/tokenizer-from.json"
    mixes = {"all": CHAT, "more": [replace(CHAT[0], turns=1)], "both": [CHAT[0], MIX[1]]}
    train_target(recipe(stage, replace(stage, mix="more"), mixes=mixes), data, tmp_path)  # a stage is appended
    written = json.loads(note.read_text())
    assert written["mix"][0]["turns"] == 2 and written["data"].keys() == {"chat.jsonl"}
    other = shutil.copytree(data, tmp_path / "data")
    (other / "plain/text.txt.xz").unlink()
    shutil.rmtree(tmp_path / "run/stage0")
    train_target(recipe(stage), other, tmp_path)
    shutil.rmtree(tmp_path / "run/stage0")
    refused = r"tokenizer was made from another ({}) \(tokenizer-from.json: \1.* was .*, is .*\); .*tokenizer$"
    for mix in ("more", "both"):
        with pytest.raises(ValueError, match=refused.format("mix")):
            train_target(recipe(replace(stage, mix=mix), mixes=mixes), data, tmp_path)
    (other / "chat.jsonl").write_text((data / "chat.jsonl").read_text() * 2)
    with pytest.raises(ValueError, match=refused.format("data")):
        train_target(recipe(stage), other, tmp_path)


def test_another_programs_tokenizer_is_refused(target, data, tmp_path):
    with pytest.raises(ValueError, match="--like takes a model that `train target` wrote"):
        train_target(recipe(), data, tmp_path, like=target)
    with pytest.raises(FileNotFoundError, match="no tokenizer in "):
        train_target(recipe(), data, tmp_path, like=tmp_path / "nowhere")
    cut = shutil.copytree(target, tmp_path / "cut")
    (cut / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"no model can be made of .*cut .* download its JSON files again"):
        train_target(recipe(), data, tmp_path, like=cut)


def test_missing_held_out_prompts_are_said_before_answers_are_written(target, tmp_path):
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "you"}]
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": talk}) + "\n")
    changes = {"trial": {"every": 1}, "answers": ANSWERS}
    with pytest.raises(ValueError, match="no held-out documents"):
        train_eagle(target, tmp_path, tmp_path / "run", **changes)
    assert not (tmp_path / "run" / "answers.jsonl").exists()


def test_a_target_that_can_have_no_head_is_told_before_answers_are_written(target, data, tmp_path):
    changes = {"answers": ANSWERS}
    with pytest.raises(ValueError, match="heads that predict it cannot draft"):
        train_eagle(target, data, tmp_path / "run", tiny_model("modernbert-decoder"), **changes)
    assert not (tmp_path / "run").exists()


def test_an_eagle3_head_of_a_shallow_target_is_refused_before_answers_are_written(target, data, tmp_path):
    changes = {"answers": ANSWERS, "heads": {"eagle3": SMALL}}
    with pytest.raises(ValueError, match="has 2 layers, and an EAGLE-3 head reads three"):
        train_eagle(target, data, tmp_path / "run", tiny_model(num_hidden_layers=2), **changes)
    assert not (tmp_path / "run").exists()


def test_a_target_is_examined_once_before_its_heads_are_trained_and_once_for_it(target, data, tmp_path, monkeypatch):
    """Each time it is run, and listened to by a hook."""
    model, made, real = tiny_model(), [], Target.__init__
    monkeypatch.setattr(
        Target, "__init__", lambda self, *given, **how: (made.append(self), real(self, *given, **how))[1]
    )
    train_eagle(target, data, tmp_path, model, answers=ANSWERS)
    assert len(made) == 2 and len(made[1].decoder._forward_hooks) == 1


def test_a_stage_that_is_done_leaves_no_model_behind(data, tmp_path):
    def alive():
        gc.collect()
        return sum(type(one) is LlamaForCausalLM for one in gc.get_objects())

    before, accelerator = alive(), workers.start()
    train(accelerator, recipe(*recipe().stages * 2), data, tmp_path / "run", tmp_path / "out", compiled=False)
    assert alive() == before


def test_a_stage_learns_from_the_prompts_that_lead_into_a_loop(data, tmp_path, monkeypatch):
    """Here every second answer is taken to go round."""
    first, asked, turn, learn = recipe().stages[0], [], itertools.count(), repeats.sequence_level
    monkeypatch.setattr(repeats, "goes_round", lambda _: next(turn) % 2 == 0)
    monkeypatch.setattr(repeats, "sequence_level", lambda model, ids, new: asked.append(ids) or learn(model, ids, new))
    train_target(recipe(first, replace(first, answers=12, looping=6)), data, tmp_path)
    found = json.loads((tmp_path / "run/stage1/looping.json").read_text())
    assert len(found) == 3 and len(asked) >= 4 and all(ids == found for ids in asked)
    with pytest.raises(ValueError, match="needs `answers`"):
        train_target(recipe(replace(first, looping=6)), data, tmp_path / "other")


def test_own_answers_are_not_sharded_in_any_stage(data, tmp_path):
    last = Stage(1, 600, 32, 4, 1, "all", (1.0, 1.0), answers=6)
    with pytest.raises(ValueError, match="own answers cannot be sharded"):
        train_target(recipe(recipe().stages[0], last), data, tmp_path, shard=True)
    assert not (tmp_path / "run").exists()
    set_up = SimpleNamespace(num_processes=1, process_index=0, distributed_type=workers.DistributedType.FSDP)
    with pytest.raises(ValueError, match="own answers cannot be sharded"):
        train(set_up, recipe(last), data, tmp_path / "run", tmp_path / "out")
