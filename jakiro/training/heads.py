"""Draft heads of a target: from a recipe to folders of weights."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from jakiro.drafting.config import HeadConfig
from jakiro.drafting.eagle3_head import Eagle3Head, layers
from jakiro.drafting.weights import load_weights, own_tensors, save_head
from jakiro.files import write_text
from jakiro.models.generation import end_ids
from jakiro.models.loading import DTYPES
from jakiro.target import Target
from jakiro.text import check_ids
from jakiro.training import answers, history, loop, workers
from jakiro.training.claims import claim, contents, digest, lies_in
from jakiro.training.data import Document, draw, take
from jakiro.training.growth import widen
from jakiro.training.head_job import HeadJob, layers_read
from jakiro.training.head_recipe import HeadRecipe, new_head
from jakiro.training.optim import check_schedule
from jakiro.training.packing import Rows, distinct_tokens, load_rows, row_widths, save_rows
from jakiro.training.precision import product_dtype
from jakiro.training.recipe_file import check_dtype
from jakiro.training.sources import is_plain
from jakiro.training.trial import Trials, held_out_prompts, ways

FREE = ("note", "trial", "remember", "dtype")  # fields of a recipe on which neither rows nor a run's weights depend
UNSEEN = ("num_attention_heads", "num_key_value_heads", "rms_norm_eps", "rope_theta", "rope_type", "rope_factor")
UNSEEN += ("rope_numbers", "reads", "by_inputs", "norm_before_residual", "norm_output")


def train_heads(
    names: list[str],
    accelerator: Accelerator,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: HeadRecipe,
    data: Path,
    run: Path,
    out: dict[str, Path],
    compiled: bool = True,
    shard: bool = False,
    start: Path | None = None,
) -> None:
    """Train the heads named in `names` on `model` (the target) and write one head folder for each into `out`.

    The recipe is written beside the weights. With `start`, a folder of heads by name, they are trained further, as
    after a target has changed; the recipe may make their feed-forward parts wider. Raises ValueError where no head can
    draft for the target, where the recipe has no such head or cannot be trained so, where `run` is one of another
    recipe, target, `start` or of other data, or where a head of `start` has another shape or would be written over.
    """
    _check(names, accelerator, recipe, shard)
    _check_folders({name: out[name] for name in names}, run, start)
    recipe = replace(recipe, heads={name: recipe.heads[name] for name in names})
    model = model.to(accelerator.device)
    checked = _check_target(recipe, model)
    heads, done = {}, {}
    for name, plan in recipe.heads.items():
        torch.manual_seed(recipe.seed if plan.seed is None else plan.seed)
        heads[name] = new_head(model, plan)
        done[name] = history.read(start / name, "steps") if start else []
        if start:
            load_weights(heads[name], widen(own_tensors(start / name, heads[name]), heads[name]), start / name)
            _check_alike(heads[name].config, start / name, checked)
            if "draft_temperature" not in plan.shape:  # no weight tells it
                had = type(heads[name].config).from_json(start / name / "config.json").draft_temperature
                heads[name].config = replace(heads[name].config, draft_temperature=had)
    layers_read(checked, heads)
    with accelerator.main_process_first():
        begun = {name: digest(head.state_dict()) for name, head in heads.items()} if start else None
        made = _made_from(recipe, model, tokenizer, data)
        later = ("checkpoint.pt", "trials.csv")
        claim(run / "rows.npz", later, today={"recipe": lambda kept: _asked(HeadRecipe.of(kept))}, **made, start=begun)
    if recipe.trial:
        with accelerator.main_process_first():
            claim(run / "trials.csv", trial=asdict(recipe.trial))
    write_text(run / "recipe.json", json.dumps(asdict(recipe), indent=1) + "\n")
    asked = held_out_prompts(model, tokenizer, recipe.trial, recipe.mix, data, recipe.seed) if recipe.trial else []
    rows = rows_of(accelerator, recipe, model, tokenizer, data, run)
    target = Target.wrap(model.to(product_dtype(accelerator.device)), tokenizer, graphs=False)
    for head in heads.values():
        if isinstance(head, Eagle3Head) and not start:
            give_words(head, rows, model, target.logit_scale)
    trials = Trials(target, asked, recipe.trial, run / "trials.csv") if recipe.trial else None
    job = HeadJob(accelerator, target, heads, recipe, rows, compiled, shard, trials)
    loop.run(job, run, accelerator.is_main_process)
    for name, head in job.heads().items():
        told = [*done[name], _told(recipe, name, run) | {"apart": job.apart}]
        history.begin(out[name], told)
        if not lies_in(out[name], head.to(DTYPES[recipe.dtype])):
            save_head(out[name], head)
        write_text(out[name] / "recipe.json", (run / "recipe.json").read_text(encoding="utf-8"))
        history.write(out[name], told)


def _told(recipe: HeadRecipe, name: str, run: Path) -> dict:
    """What a run did for a head, for its history."""
    top1 = round(history.late(history.metrics(run), f"{name}_top1", 100), 4)
    seen = {"steps": recipe.steps, "tokens": recipe.row * recipe.rows, "passes": recipe.passes}
    distinct = distinct_tokens(run / "rows.npz")
    read = {"distinct": distinct, "temperatures": recipe.answers and recipe.answers.temperatures}
    return {**seen, **read, "top1": top1, "note": recipe.note}


def _check(names: list[str], accelerator: Accelerator, recipe: HeadRecipe, shard: bool) -> None:
    """Raise ValueError before anything is done if the heads cannot be trained so."""
    if unknown := [name for name in names if name not in recipe.heads]:
        raise ValueError(f"the recipe has no head {unknown[0]!r}; it has {', '.join(recipe.heads)}")
    check_schedule(recipe.schedule)
    check_dtype(recipe.dtype)
    row_widths(recipe.row, recipe.short)
    workers.share(accelerator, recipe.rows)  # narrower rows are a multiple of them
    if recipe.average and workers.sharded(accelerator, shard):
        raise ValueError("a moving average of sharded heads is not kept: set `average` to 0, or do not shard")
    workers.check_shard(accelerator, shard)
    for name in names if recipe.trial else ():
        try:
            ways(recipe.heads[name].kind, recipe.trial)
        except ValueError as error:
            raise ValueError(f"head {name!r} cannot be tried as `trial` of the recipe says: {error}") from error


def _check_folders(out: dict[str, Path], run: Path, start: Path | None) -> None:
    """Raise ValueError where a folder is not what it is named as, or something else would be written over."""
    for name, folder in out.items():
        if start and folder.resolve() == (start / name).resolve():
            raise ValueError(f"the heads in {start}, where they start, would be written over: name another --out")
        if folder.resolve() == run.resolve():
            raise ValueError(f"{run} is the folder of a head, too: name another --run-folder")
        history.check_own(folder, "steps")
        if start and not (start / name).is_dir() and (start / history.FILE).is_file():
            raise ValueError(f"--start takes the folder that holds {name}/, and {start} is a head: give {start.parent}")
    if (run / "config.json").exists():
        raise ValueError(f"{run} is the folder of a model: name another --run-folder")


def _check_target(recipe: HeadRecipe, model: PreTrainedModel) -> Target:
    """Raise ValueError where no head can draft for the target, or rows go beyond its positions."""
    target = Target.wrap(model, graphs=False)
    target.hook.remove()
    target.check_heads()
    config = model.config.get_text_config()
    if config.hidden_size != target.hidden_size:
        widths = f"layers of {config.hidden_size} and an output of {target.hidden_size}"
        raise ValueError(f"{type(model).__name__} has {widths}, which no head is made for: use another target")
    context = getattr(config, "max_position_embeddings", None)
    if context and recipe.row > context:
        raise ValueError(f"`row` of the recipe is {recipe.row}, and the target's context {context} tokens: lower it")
    return target


def _check_alike(config: HeadConfig, start: Path, target: Target) -> None:
    """Raise ValueError where a head computes otherwise than that in `start`, in a way that its weights do not tell."""
    has = type(config).from_json(start / "config.json")
    if getattr(has, "embed_requires_grad", False):
        raise ValueError(f"the head in {start} has an embedding of its own, which is not trained: start with another")
    for name in UNSEEN:
        own, asked = (getattr(one, name, None) for one in (has, config))
        if own != asked and not (name in ("reads", "by_inputs") and layers(target, has) == layers(target, config)):
            raise ValueError(f"the head in {start} has {name} {own}, the recipe {asked}: it goes on in its own shape")


def _made_from(recipe: HeadRecipe, model: PreTrainedModel, tokenizer, data: Path) -> dict[str, Any]:
    """What a run's files depend on. Raises ValueError where the recipe has no mix, or one that asks nothing where the
    target is to answer, OSError where a file is missing."""
    if not recipe.mix:
        raise ValueError("the recipe names no texts: give --data one JSONL file, or the name of a dataset")
    if recipe.answers and all(map(is_plain, recipe.mix)):
        raise ValueError("the recipe asks for `answers`, and its mix holds no conversations: name a source of them")
    target = {"target": digest(model.state_dict()), "template": tokenizer.chat_template}
    return {"recipe": _asked(recipe), **target, "data": contents(recipe.mix, data)}


def _asked(recipe: HeadRecipe) -> dict[str, Any]:
    """What of a recipe a run depends on."""
    return {name: value for name, value in asdict(recipe).items() if name not in FREE}


def give_words(head: Eagle3Head, rows: list[Rows], model: PreTrainedModel, scale: float = 1.0) -> None:
    """The tokens that the assistant says most often, as the head's own, to begin with as the target reads them out.

    `scale` is what the target multiplies its logits with.
    """
    said = np.concatenate([one.ids[one.said] for one in rows])
    counts = torch.from_numpy(np.bincount(said, minlength=head.config.vocab_size))
    tokens = counts.topk(head.config.draft_vocab_size).indices.sort().values
    head.speak(tokens)
    with torch.no_grad():
        head.lm_head.weight.copy_(scale * model.get_output_embeddings().weight[tokens])


def rows_of(
    accelerator: Accelerator, recipe: HeadRecipe, model: PreTrainedModel, tokenizer, data: Path, run: Path
) -> list[Rows]:
    """The rows to train on, of each width: the mix's text, or the target's own answers. `run` keeps them."""
    cached, seed, widths = run / "rows.npz", recipe.seed + 77, row_widths(recipe.row, recipe.short)
    missing = not cached.exists()
    accelerator.wait_for_everyone()  # all have looked before one writes
    if missing and recipe.answers:
        own = _answers(accelerator, recipe, model, tokenizer, data, run / "answers.jsonl")
    if missing and accelerator.is_main_process:
        if not recipe.answers:
            own = take(draw(recipe.mix, data, tokenizer, recipe.row + 1, seed), _needed(recipe))
        save_rows(cached, own, widths, seed)
    accelerator.wait_for_everyone()
    rows = load_rows(cached, widths)
    ids = [edge for one in rows if one.ids.size for edge in (one.ids.min(), one.ids.max())]
    check_ids(ids, len(model.get_input_embeddings().weight), "a text")
    return rows


def answer(
    accelerator: Accelerator, recipe: HeadRecipe, model: PreTrainedModel, tokenizer, data: Path, file: Path
) -> list[Document]:
    """The target's own answers, as the recipe asks for; `file` is gone on with.

    Raises ValueError if none are asked for, or if `file` has those of another target, other data or asked otherwise.
    """
    if not recipe.answers:
        raise ValueError("the recipe says nothing of `answers`: how many new tokens, batch size and temperatures")
    model = model.to(accelerator.device)
    _check_target(recipe, model)
    return _answers(accelerator, recipe, model, tokenizer, data, file)


def _answers(
    accelerator: Accelerator, recipe: HeadRecipe, model: PreTrainedModel, tokenizer, data: Path, file: Path
) -> list[Document]:
    with accelerator.main_process_first():
        made = _made_from(recipe, model, tokenizer, data)
        made["recipe"] = {name: made["recipe"][name] for name in ("mix", "answers", "row", "seed")}
        claim(file, option="--run-folder or --out", **made, **{"order of batches": answers.ORDER})
    seed, width = recipe.seed + 77, recipe.row + 1
    prompts = draw(recipe.mix, data, tokenizer, width, seed)
    ends = end_ids(model, tokenizer)
    model = model.to(product_dtype(accelerator.device))  # a file's bfloat16 is emulated by many a processor
    return answers.write(accelerator, model, prompts, recipe.answers, _needed(recipe), width, file, seed, ends)


def _needed(recipe: HeadRecipe) -> int:
    return int(recipe.steps / recipe.epochs * recipe.rows * recipe.row)
