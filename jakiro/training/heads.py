"""Draft heads of a target: from a recipe to folders of weights."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from jakiro.drafting.config import HeadConfig
from jakiro.drafting.eagle3_head import Eagle3Head, layers
from jakiro.drafting.head import Head
from jakiro.drafting.weights import load_weights, own_tensors, save_head
from jakiro.files import write_text
from jakiro.models.loading import DTYPES
from jakiro.target import Target
from jakiro.training import history, loop, workers
from jakiro.training.claims import claim, digest, lies_in
from jakiro.training.growth import widen
from jakiro.training.head_job import HeadJob, layers_read
from jakiro.training.head_recipe import HeadRecipe, Plan, new_head
from jakiro.training.head_rows import Lesson, asked, check_target, rows_of
from jakiro.training.optim import check_schedule
from jakiro.training.packing import Rows, distinct_tokens, row_widths
from jakiro.training.precision import product_dtype
from jakiro.training.recipe_file import check_dtype
from jakiro.training.trial import Trials, held_out_prompts, ways

UNSEEN = ("num_attention_heads", "num_key_value_heads", "rms_norm_eps", "rope_theta", "rope_type", "rope_factor")
UNSEEN += ("rope_numbers", "reads", "by_inputs", "norm_before_residual", "norm_output")


def train_heads(
    lesson: Lesson,
    run: Path,
    out: dict[str, Path],
    compiled: bool = True,
    shard: bool = False,
    start: Path | None = None,
) -> None:
    """Train the heads of the recipe that `out` names on the lesson's target and write each into its folder there.

    The recipe is written beside the weights. With `start`, a folder of heads by name, they are trained further, as
    after a target has changed; the recipe may make their feed-forward parts wider. Raises ValueError where no head can
    draft for the target, where the recipe has no such head or cannot be trained so, where `run` is one of another
    recipe, target, `start` or of other data, or where a head of `start` has another shape or would be written over.
    """
    _check(lesson, list(out), shard)
    _check_folders(out, run, start)
    recipe = replace(lesson.recipe, heads={name: lesson.recipe.heads[name] for name in out})
    lesson, accelerator, model = replace(lesson, recipe=recipe), lesson.accelerator, lesson.model
    model.to(accelerator.device)
    checked = check_target(lesson)
    heads, done = {}, {}
    for name, plan in recipe.heads.items():
        torch.manual_seed(recipe.seed if plan.seed is None else plan.seed)
        heads[name] = new_head(model, plan)
        done[name] = history.read(start / name, "steps") if start else []
        if start:
            _go_on(heads[name], plan, start / name, checked)
    layers_read(checked, heads)
    _claim(lesson, run, heads if start else None)
    write_text(run / "recipe.json", json.dumps(asdict(recipe), indent=1) + "\n")
    how = recipe.trial
    held = held_out_prompts(model, lesson.tokenizer, how, recipe.mix, lesson.data, recipe.seed) if how else []
    rows = rows_of(lesson, run)
    target = Target.wrap(model.to(product_dtype(accelerator.device)), lesson.tokenizer, graphs=False)
    for head in heads.values():
        if isinstance(head, Eagle3Head) and not start:
            give_words(head, rows, model, target.logit_scale)
    trials = Trials(target, held, how, run / "trials.csv") if how else None
    job = HeadJob(accelerator, target, heads, recipe, rows, compiled, shard, trials)
    loop.run(job, run, accelerator.is_main_process)
    for name, head in job.heads().items():
        told = [*done[name], _told(recipe, name, run) | {"apart": job.apart}]
        history.begin(out[name], told)
        if not lies_in(out[name], head.to(DTYPES[recipe.dtype])):
            save_head(out[name], head)
        write_text(out[name] / "recipe.json", (run / "recipe.json").read_text(encoding="utf-8"))
        history.write(out[name], told)


def _go_on(head: Head | Eagle3Head, plan: Plan, start: Path, target: Target) -> None:
    """Let a head begin as the one in `start` is. Raises ValueError where that has another shape, naming the recipe that
    it was trained by where that lies beside it."""
    try:
        load_weights(head, widen(own_tensors(start, head), head), start)
        _check_alike(head.config, start, target)
    except ValueError as error:
        recipe = start / "recipe.json"
        raise ValueError(f"{error} (trained by --recipe {recipe})" if recipe.is_file() else error) from error
    if "draft_temperature" not in plan.shape:  # no weight tells it
        had = type(head.config).from_json(start / "config.json").draft_temperature
        head.config = replace(head.config, draft_temperature=had)


def _claim(lesson: Lesson, run: Path, begun: dict[str, Head | Eagle3Head] | None) -> None:
    """Write down what the run is made from, or hold it against what was; `begun` are heads that are trained further."""
    with lesson.accelerator.main_process_first():
        start = {name: digest(head.state_dict()) for name, head in begun.items()} if begun else None
        made, later = lesson.made_from(), ("checkpoint.pt", "trials.csv")
        claim(run / "rows.npz", later, today={"recipe": lambda kept: asked(HeadRecipe.of(kept))}, **made, start=start)
        if lesson.recipe.trial:
            claim(run / "trials.csv", trial=asdict(lesson.recipe.trial))


def _told(recipe: HeadRecipe, name: str, run: Path) -> dict:
    """What a run did for a head, for its history."""
    top1 = round(history.late(history.metrics(run), f"{name}_top1", 100), 4)
    seen = {"steps": recipe.steps, "tokens": recipe.row * recipe.rows, "passes": recipe.passes}
    distinct = distinct_tokens(run / "rows.npz")
    read = {"distinct": distinct, "temperatures": recipe.answers and recipe.answers.temperatures}
    return {**seen, **read, "top1": top1, "note": recipe.note}


def _check(lesson: Lesson, names: list[str], shard: bool) -> None:
    """Raise ValueError before anything is done if the heads cannot be trained so."""
    accelerator, recipe = lesson.accelerator, lesson.recipe
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


def _check_alike(config: HeadConfig, start: Path, target: Target) -> None:
    """Raise ValueError where a head computes otherwise than that in `start`, in a way that its weights do not tell."""
    has = type(config).from_json(start / "config.json")
    if getattr(has, "embed_requires_grad", False):
        raise ValueError(f"the head in {start} has an embedding of its own, which is not trained: start with another")
    for name in UNSEEN:
        own, asked = (getattr(one, name, None) for one in (has, config))
        if own != asked and not (name in ("reads", "by_inputs") and layers(target, has) == layers(target, config)):
            raise ValueError(f"the head in {start} has {name} {own}, the recipe {asked}: it goes on in its own shape")


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
