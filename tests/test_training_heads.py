"""Heads trained on a tiny target: they learn, load strictly, go on and resume to the same curve."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from recipes import MIX, SMALL, head_recipe, losses, train_both
from tiny import tiny_model
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config

from jakiro.drafting.config import HeadConfig
from jakiro.drafting.head import EagleHead, Head, HeadOutput, JakiroHead
from jakiro.drafting.weights import head_tensors, load_head
from jakiro.methods import on_heads
from jakiro.models.generation import generate
from jakiro.target import Target
from jakiro.training import answers, head_job, history, loop, workers
from jakiro.training import heads as heads_module
from jakiro.training.answers import Answers
from jakiro.training.data import draw
from jakiro.training.growth import widen
from jakiro.training.head_job import HeadJob
from jakiro.training.head_recipe import KINDS, HeadRecipe, head_config
from jakiro.training.head_rows import Lesson, answer
from jakiro.training.heads import train_heads
from jakiro.training.losses import TOP, Losses, Wanted, loss_of
from jakiro.training.packing import Rows, load_rows
from jakiro.training.trial import Trial, Trials
from jakiro.training.unrolled import Unrolled


def test_heads_go_on_from_heads(trained, data, tmp_path):
    """As after a change of the target: they begin with the loss that they had, and their history has both runs."""
    first = train_both(trained, data, tmp_path / "first", tmp_path / "one", steps=12)
    again = train_both(trained, data, tmp_path / "again", tmp_path / "two", steps=2, start=tmp_path / "one")
    for name, folder in again.items():
        curves = [losses(tmp_path / run / "metrics.csv", f"{name}_loss") for run in ("first", "again")]
        assert curves[1][0] < (curves[0][0] + curves[0][-1]) / 2
        assert [entry["steps"] for entry in history.read(folder)] == [12, 2]
    with pytest.raises(ValueError, match="would be written over: name another --out"):
        train_both(trained, data, tmp_path / "no", tmp_path / "one", start=tmp_path / "one")
    with pytest.raises(
        ValueError, match=r"--start takes the folder that holds eagle2/, and .*/one/eagle2 is a head: give"
    ):
        train_both(trained, data, tmp_path / "no", tmp_path / "three", start=tmp_path / "one" / "eagle2")
    with pytest.raises(ValueError, match="out is the folder of a model: name another --run-folder"):
        train_both(trained, data, trained / "out", tmp_path / "three")
    wide = tmp_path / "wide"
    shutil.copytree(first["jakiro"], wide / "eagle2")
    with pytest.raises(ValueError, match=r"layers\.0\.mlp_moe\.gate\.weight is not expected"):
        train_both(trained, data, tmp_path / "no", tmp_path / "three", start=wide)


def test_a_run_of_before_a_field_goes_on_with_it_as_it_was(trained, data, tmp_path):
    train_both(trained, data, tmp_path / "run", tmp_path / "one", steps=2)
    note = tmp_path / "run" / "rows-from.json"
    kept = json.loads(note.read_text())
    for head in kept["recipe"]["heads"].values():
        del head["seed"], head["losses"]["contrast_entropy"]
    note.write_text(json.dumps(kept))
    train_both(trained, data, tmp_path / "run", tmp_path / "two", steps=2)
    assert len(losses(tmp_path / "run" / "metrics.csv", "jakiro_loss")) == 2
    kept["recipe"]["heads"]["jakiro"]["seed"] = 3
    note.write_text(json.dumps(kept))
    with pytest.raises(ValueError, match=r"\(rows-from\.json: recipe\.heads\.jakiro\.seed was 3, is None"):
        train_both(trained, data, tmp_path / "run", tmp_path / "two", steps=2)


def test_a_run_folder_is_no_heads_folder(trained, data, tmp_path):
    with pytest.raises(ValueError, match="is the folder of a head, too: name another --run-folder"):
        train_both(trained, data, tmp_path / "out" / "eagle2", tmp_path / "out", steps=2)
    assert not (tmp_path / "out").exists()


def test_a_head_has_its_own_beginning(trained, data, tmp_path):
    """By a seed of its own, and nothing else of the run depends on it: two that begin alike end alike."""
    names = {"first": {"seed": 5}, "same": {"seed": 5}, "other": {"seed": 6}, "usual": {}}
    heads = {name: SMALL | {"kind": "eagle2"} | seed for name, seed in names.items()}
    out = {name: tmp_path / name for name in heads}
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    given = AutoTokenizer.from_pretrained(trained / "out"), head_recipe(2, heads=heads), data
    train_heads(Lesson(workers.start(), model, *given), tmp_path / "run", out, compiled=False)
    found = {name: head_tensors(folder)["fc.weight"] for name, folder in out.items()}
    assert torch.equal(found["first"], found["same"])
    assert not any(torch.equal(found["first"], found[name]) for name in ("other", "usual"))
    written = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert HeadRecipe.of(written).heads["other"].seed == 6


@pytest.mark.parametrize("kind", [EagleHead, JakiroHead])
def test_widening_keeps_the_function_and_all_new_units_learn(kind):
    narrow, wide = (kind(HeadConfig(32, inner, 2, 50, expert_intermediate_size=inner)) for inner in (24, 40))
    given = torch.randn(2, 1, 5, 32)
    before = narrow(*given)
    wide.load_state_dict(widen(narrow.state_dict(), wide))
    for one, two in zip(*((out if kind is JakiroHead else [out]) for out in (before, wide(*given))), strict=True):
        torch.testing.assert_close(one, two)
    out = wide(*given)
    (out.mixed if kind is JakiroHead else out).square().sum().backward()
    downs = [weight.grad for name, weight in wide.named_parameters() if "down_proj" in name]
    assert downs
    assert all((grad[:, 24:] != 0).any(0).all() for grad in downs)


def test_heads_go_on_computing_as_they_did(trained, data, tmp_path):
    """Other attention heads or positions would fit the same weights."""
    train_both(trained, data, tmp_path / "first", tmp_path / "one", steps=2)
    for name, value in (("num_attention_heads", 4), ("rope_theta", 5e5), ("rms_norm_eps", 1e-3)):
        shared = {"num_key_value_heads": 2} if name == "num_attention_heads" else {}  # keys as wide as they were
        heads = {"eagle2": SMALL | shared | {name: value}}
        with pytest.raises(ValueError, match=f"the head in .*eagle2 has {name} .*, the recipe .* --recipe "):
            model, tokenizer = (kind.from_pretrained(trained / "out") for kind in (AutoModelForCausalLM, AutoTokenizer))
            lesson = Lesson(workers.start(), model, tokenizer, head_recipe(2, heads=heads), data)
            train_heads(lesson, tmp_path / "no", {"eagle2": tmp_path / "two"}, compiled=False, start=tmp_path / "one")


def test_rows_beyond_the_targets_context_are_refused(trained, data, tmp_path):
    for more in ({}, {"answers": {"new_tokens": 9, "batch": 4, "temperatures": [0.0]}}):
        with pytest.raises(ValueError, match="`row` of the recipe is 256, and the target's context 128 tokens"):
            train_both(trained, data, tmp_path / "run", tmp_path, row=256, **more)
    assert not (tmp_path / "run").exists()


def test_the_recipe_beside_a_head_is_one(trained, data, tmp_path):
    folders = train_both(trained, data, tmp_path / "run", tmp_path, steps=2)
    for folder in folders.values():
        assert HeadRecipe.read(folder / "recipe.json") == head_recipe(2)


def test_texts_by_another_models_tokenizer_are_refused(trained, data, tmp_path):
    model, tokenizer = (kind.from_pretrained(trained / "out") for kind in (AutoModelForCausalLM, AutoTokenizer))
    model.resize_token_embeddings(100)
    out = {"eagle2": tmp_path / "eagle2"}
    with pytest.raises(ValueError, match=r"a text has ids outside 0 to 99; .* from one place"):
        train_heads(Lesson(workers.start(), model, tokenizer, head_recipe(), data), tmp_path / "run", out)
    assert not out["eagle2"].exists()


def test_where_texts_of_a_row_see_one_another_is_said(trained, data, tmp_path, caplog, monkeypatch):
    for apart in (True, False):
        monkeypatch.setattr(head_job, "takes_apart", lambda _, apart=apart: apart)
        folder = train_both(trained, data, tmp_path / f"{apart}", tmp_path / f"{apart}-out", steps=2)["eagle2"]
        assert history.read(folder)[-1]["apart"] == apart
        assert ("cannot tell the texts of a row apart" in caplog.text) == (not apart)


def test_a_run_of_before_a_metric_goes_on(trained, data, tmp_path):
    train_both(trained, data, tmp_path / "run", tmp_path / "one", steps=2)
    file = tmp_path / "run" / "metrics.csv"
    rows = loop.kept_rows(file, 2)
    loop.write_rows(file, [{name: rows[0][name] for name in rows[0] if "norm" not in name}, rows[1]])
    assert [len(row) for row in history.metrics(tmp_path / "run")] == [len(rows[0]) - 2, len(rows[0])]
    train_both(trained, data, tmp_path / "run", tmp_path / "two", steps=2)


def test_no_token_is_drafted_from_another_text():
    ids = np.ones((1, 8), np.uint16)
    texts = np.array([[1, 1, 1, 2, 2, 2, 2, 0]], np.uint16)
    rows = Rows(ids, np.array([[1, 1, 1, 1, 1, 1, 1, 0]], bool), texts)
    assert head_job._within_texts(rows).said.tolist() == [[True, True, True, False, False, True, True, False]]
    assert head_job._within_texts(rows._replace(texts=None)).said is rows.said


def test_heads_are_written_in_the_recipes_dtype(trained, data, tmp_path):
    """In float16 unless it says otherwise, from one run folder."""
    halves = train_both(trained, data, tmp_path / "run", tmp_path / "halves", steps=2)
    whole = train_both(trained, data, tmp_path / "run", tmp_path / "whole", steps=2, dtype="float32")
    for name in halves:
        rounded, exact = (head_tensors(folders[name]) for folders in (halves, whole))
        assert {one.dtype for one in rounded.values()} == {torch.float16}
        assert all(torch.equal(one, exact[key].half()) for key, one in rounded.items())
        assert any((one.float() != exact[key]).any() for key, one in rounded.items())


def test_heads_go_on_wider_and_never_narrower(trained, data, tmp_path):
    """Losses begin where they were; the folder that is written says the new width."""
    heads = {"eagle2": SMALL | {"intermediate_size": 40}, "jakiro": SMALL | {"expert_intermediate_size": 24}}
    train_both(trained, data, tmp_path / "first", tmp_path / "one", steps=2)
    same = train_both(trained, data, tmp_path / "same", tmp_path / "two", start=tmp_path / "one")
    wide = train_both(trained, data, tmp_path / "wide", tmp_path / "three", start=tmp_path / "one", heads=heads)
    for name in same:
        curves = [losses(tmp_path / run / "metrics.csv", f"{name}_loss") for run in ("same", "wide")]
        assert curves[0][0] == pytest.approx(curves[1][0], rel=2e-3)
        assert curves[0][-1] != curves[1][-1]
    found = {name: load_head(folder, Target.load(trained / "out")).config for name, folder in wide.items()}
    assert (found["eagle2"].intermediate_size, found["jakiro"].expert_intermediate_size) == (40, 24)
    with pytest.raises(
        ValueError,
        match=r"gate_proj\.weight has shape \[40, 32\], expected \[24, 32\].* --recipe .*three/eagle2/recipe\.json",
    ):
        train_both(trained, data, tmp_path / "no", tmp_path / "four", start=tmp_path / "three")
    (tmp_path / "three" / "eagle2" / "recipe.json").unlink()
    with pytest.raises(ValueError, match=r"expected \[32, 24\]$"):
        train_both(trained, data, tmp_path / "no", tmp_path / "four", start=tmp_path / "three")


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


def test_a_run_that_was_stopped_while_it_wrote_a_head_goes_on(trained, data, tmp_path, monkeypatch):
    save = heads_module.save_head

    def full(folder, head):
        save(folder, head)
        raise OSError("No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(heads_module, "save_head", full)
        train_both(trained, data, tmp_path / "run", tmp_path, steps=2)
    folders = train_both(trained, data, tmp_path / "run", tmp_path, steps=2)
    assert all((folder / "recipe.json").is_file() for folder in folders.values())


def test_a_head_that_is_trained_further_drafts_at_its_temperature(trained, data, tmp_path):
    """Which no weight tells, and a config.json may have been given by hand."""
    first = train_both(trained, data, tmp_path / "run", tmp_path / "one", steps=2)
    for folder in first.values():
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"draft_temperature": 0.7}))
    further = train_both(trained, data, tmp_path / "again", tmp_path / "two", steps=2, start=tmp_path / "one")
    target = Target.load(trained / "out")
    assert {load_head(folder, target).config.draft_temperature for folder in further.values()} == {0.7}


def test_a_run_is_not_gone_on_with_by_another_recipe(trained, data, tmp_path):
    train_both(trained, data, tmp_path / "run", tmp_path, steps=2)
    with pytest.raises(ValueError, match="choose another --run-folder"):
        train_both(trained, data, tmp_path / "run", tmp_path, steps=3)


def test_other_trials_are_no_part_of_the_same_curve(trained, data, tmp_path):
    trial = {"every": 1, "prompts": 2, "new_tokens": 8, "depth": 3}
    train_both(trained, data, tmp_path / "run", tmp_path, steps=2, trial=trial)
    message = r"trials\.csv was made from another trial \(.*-from\.json: trial\.prompts was 2, is 1\); .*trials\.csv"
    with pytest.raises(ValueError, match=message):
        train_both(trained, data, tmp_path / "run", tmp_path, steps=2, trial=trial | {"prompts": 1})


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


def test_a_trial_decodes_every_prompt_with_a_drafter_of_its_own(trained, tmp_path):
    """A drafter remembers its text: what one prompt left would stand before the next."""
    target = Target.load(trained / "out")
    head = KINDS["eagle2"](head_config(target.model, SMALL))
    trials = Trials(target, [[5, 9, 7, 6]] * 3, Trial(1, new_tokens=8, depth=3), tmp_path / "trials.csv")
    [(_, make)] = trials._ways("eagle2", head)
    made = []
    trials._lengths(lambda: made.append(make()) or made[-1])
    assert len(set(map(id, made))) == 3


def test_a_head_takes_the_shape_of_a_target_that_names_it_otherwise():
    """GPT-2 says n_embd and n_head, and no inner width."""
    model = AutoModelForCausalLM.from_config(GPT2Config(n_embd=32, n_head=4, n_layer=1, vocab_size=50))
    found = head_config(model, {"intermediate_size": 48})
    assert (found.hidden_size, found.num_attention_heads, found.vocab_size) == (32, 4, 50)
    with pytest.raises(ValueError, match="type gpt2 does not say intermediate_size: say it in the recipe"):
        head_config(model, {})
    uneven = tiny_model()
    uneven.config.num_attention_heads = 3  # of a width of their own, as gpt-oss has them: 32 is not three
    with pytest.raises(ValueError, match="not 3 heads of even width, as a target of type llama has it: say num_attent"):
        head_config(uneven, {})


@pytest.mark.parametrize("wrong", [{"draft_vocab_size": 99_999}, {"draft_temperature": 20}, {"intermediate_size": 0}])
def test_what_is_wrong_of_a_recipe_is_to_be_changed_there(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} .*: change that in the recipe, at its head$"):
        head_config(tiny_model(), SMALL | wrong, KINDS["eagle3"].Config)


def test_a_head_of_one_pass_is_called_without_a_mask():
    features, called = torch.zeros(1, 4, 8), []
    for passes in (1, 2):
        how = head_recipe(passes=passes, own_features=0.0)
        unrolled = Unrolled(lambda *given: called.append(given[2]) or given[1], how)
        unrolled(features, features, features, torch.zeros(1, 4, dtype=torch.bool))
    assert called == [None, [], []]


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("kind", [*on_heads(Head), "eagle3"])
def test_texts_of_a_row_see_nothing_of_one_another(kind, passes):
    """Features and what heads say of them are those of each text alone."""
    model, how = tiny_model(num_hidden_layers=4), head_recipe(passes=passes, own_features=0.0)
    ids = torch.randint(4, 290, (1, 17), generator=torch.Generator().manual_seed(0))
    texts = torch.tensor([[0] * 6 + [1] * 11])
    head = KINDS[kind](head_config(model, SMALL, KINDS[kind].Config)).eval()
    given = [Rows(ids.numpy(), np.ones((1, 17), bool))]
    job = HeadJob(
        workers.start(), Target.wrap(model), {kind: head}, replace(how, rows=1, row=16), given, compiled=False
    )
    unrolled = job.modules[kind]

    def said(ids, texts=None):
        features, embeddings = job._features(0, ids, texts), model.get_input_embeddings()(ids)[:, 1:]
        job.known.clear()
        texts = texts if texts is None else texts[:, :-1]
        if kind == "eagle3":
            at = torch.arange(ids.shape[1] - 2)
            return torch.stack(unrolled(embeddings, features[:, :-1, 32:], at, texts), dim=1)
        none = torch.zeros(embeddings.shape[:2], dtype=torch.bool)
        found = unrolled(embeddings, features[:, :-1], torch.zeros_like(embeddings), none, texts)
        return torch.stack([out.mixed[0] for out in found], dim=1)

    packed, first, last = said(ids, texts), said(ids[:, :6]), said(ids[:, 6:])
    torch.testing.assert_close(packed[: len(first)], first)
    torch.testing.assert_close(packed[6:], last)
    assert not torch.allclose(said(ids)[6:], last, atol=1e-2)


@pytest.mark.parametrize("kind", on_heads(Head))
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


def test_each_further_loss_changes_the_loss_as_its_formula_says(trained):
    torch.manual_seed(0)
    read = torch.nn.Linear(8, 40, bias=False)
    out = HeadOutput(*torch.randn(2, 1, 4, 8), torch.randn(2, 1, 4, 8), torch.randn(1, 4, 4))
    at = torch.tensor([0, 2])
    soon, later = (Wanted.of(read, torch.randn(2, 8)) for _ in range(2))
    plain, top, apart, alone = (
        loss_of(out, at, read, soon, later, Losses(**kw))[0]
        for kw in ({}, {"top_k": 0.7}, {"diversity": 0.3}, {"decoupled": 0.0})
    )
    logp = read(out.mixed[0, at]).log_softmax(-1)
    wanted = -sum(p * logp[i, t] for i in range(2) for p, t in zip(*soon.law[i].topk(TOP), strict=True))
    torch.testing.assert_close(top - plain, 0.7 * wanted)
    p = [read(expert[0, at]).softmax(-1) for expert in out.experts]
    middle = (p[0] + p[1]) / 2
    js = sum((one * (one / middle).log()).sum() for one in p) / 2
    torch.testing.assert_close(plain - apart, 0.3 * js)
    weights = out.gates[0, at, :2].softmax(-1)  # the others are of the contrastive feature
    law = weights[:, :1] * p[0] + weights[:, 1:] * p[1]
    torch.testing.assert_close(plain - alone, 0.5 * -(soon.law * law.log()).sum())


def test_a_position_that_does_not_count_agrees_with_nothing():
    """Whatever the head's choice is there, token 0 among them."""
    for choice in range(3):
        said = 9.0 * torch.eye(3)[[choice, choice]]
        wanted = Wanted.of(torch.nn.Identity(), said, torch.tensor([True, False]))
        out = HeadOutput(said[None, [0, 1, 1]], None, None, None)
        loss, agree = loss_of(out, torch.tensor([0, 1]), torch.nn.Identity(), wanted, None, Losses())
        assert agree == 1 and loss.isfinite()


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
    assert write("whole", 150) == whole[: len(write("fewer", 150))]  # more are there than are wanted
    with pytest.raises(ValueError, match="train on fewer rows"):
        write("more", 10**6)


def test_neither_a_temperature_nor_what_is_left_out_is_of_some_lengths(tmp_path, monkeypatch):
    """Of prompts of many lengths, where the tokens that are wanted are there in the middle of a chunk."""
    heats = []

    def generated(_, prompts, new_tokens, heat, ends):
        heats.append(heat)
        return [[1]] * len(prompts)

    monkeypatch.setattr(answers, "generated", generated)
    lengths = np.random.default_rng(0).integers(1, 100, 3200).tolist()
    prompts = [[4 + at // 200, 4 + at % 200, *[9] * size] for at, size in enumerate(lengths)]

    def write(name, tokens, seed=0):
        documents = (([*prompt, 1], [False] * len(prompt) + [True]) for prompt in prompts)
        how = Answers(new_tokens=1, batch=4, temperatures=(0.0, 0.8))
        found = answers.write(workers.start(), None, documents, how, tokens, 200, tmp_path / name, seed)
        return np.array([len(ids) for ids, _ in found])

    used = write("whole", 160_000)
    sampled = np.repeat(heats, 4) > 0
    assert used[sampled].mean() == pytest.approx(used[~sampled].mean(), rel=0.05)
    half = np.mean([write(f"half {seed}", 800, seed).mean() for seed in range(80)])  # of the first chunk
    assert half == pytest.approx(np.mean(lengths[:32]) + 3, rel=0.1)
    for tokens in (3000, 9000, 160_000):  # as where it is interrupted
        write("parts", tokens)
    assert (tmp_path / "parts").read_text() == (tmp_path / "whole").read_text()


def test_answers_follow_no_law_of_the_targets_own_and_end_where_they_are_told(trained, data, tmp_path):
    """A checkpoint's repetition penalty is not the engine's; the tokenizer's end of a turn is."""
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    prompts = [[5, 9, 7], [8, 6]]
    plain, _ = generate(model, prompts, 12)
    model.generation_config.update(repetition_penalty=5.0, no_repeat_ngram_size=1)
    found, real = generate(model, prompts, 12)
    assert found.tolist() == plain.tolist() and model.generation_config.repetition_penalty == 5.0
    third = plain[0, 5].item()
    _, real = generate(model, prompts, 12, ends=[third])
    assert real[0].sum() == 3 + plain[0, 3:].tolist().index(third) + 1


def test_heads_learn_on_the_targets_own_answers(trained, data, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    how = head_recipe(answers={"new_tokens": 9, "batch": 4, "temperatures": [0.0]})
    out = {"eagle2": tmp_path / "eagle2"}
    train_heads(Lesson(workers.start(), model, tokenizer, how, data), tmp_path, out, compiled=False)
    written = [json.loads(line)["answer"] for line in (tmp_path / "answers.jsonl").open()]
    said = [token for ids, said, _ in load_rows(tmp_path / "rows.npz", [32]) for token in ids[said].tolist()]
    assert sorted(said) == sorted(token for answer in written for token in answer)
    load_head(tmp_path / "eagle2", Target.load(trained / "out"))


def test_a_target_answers_in_the_precision_of_training(trained, data, tmp_path, monkeypatch):
    """Whatever its file holds: a processor that has no instructions for bfloat16 emulates it, several times slower."""
    model = AutoModelForCausalLM.from_pretrained(trained / "out", dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    asked = head_recipe(answers={"new_tokens": 9, "batch": 4, "temperatures": [0.0]})
    used = []

    def generated(model, prompts, *how):
        used.append(model.dtype)
        return [[5]] * len(prompts)

    monkeypatch.setattr(answers, "generated", generated)
    for native in (True, False):
        monkeypatch.setattr("jakiro.training.precision.in_bfloat16", lambda device, native=native: native)
        lesson = Lesson(workers.start(), model.bfloat16(), tokenizer, asked, data)
        answer(lesson, tmp_path / f"{native}.jsonl")
        assert set(used) == {torch.bfloat16 if native else torch.float32}
        used.clear()
