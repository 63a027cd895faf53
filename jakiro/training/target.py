"""A small Llama-architecture target from text, grown in depth as it learns.

A run is a sequence of stages. A later stage may be deeper (growth.py); shallow ones see most of the tokens at a
fraction of the cost.
"""

from __future__ import annotations

import copy
import json
import logging
import zlib
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import torch
from accelerate import Accelerator
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from jakiro.files import WEIGHT_FILES, refilling
from jakiro.models import hub
from jakiro.models.loading import DTYPES, load_model, load_tokenizer
from jakiro.training import history, loop, pruning, workers
from jakiro.training.claims import claim, contents, digest, lies_in
from jakiro.training.growth import check_growth, grow, mean, silence
from jakiro.training.optim import check_schedule
from jakiro.training.packing import row_widths
from jakiro.training.recipe_file import check_dtype
from jakiro.training.target_job import StageJob
from jakiro.training.target_recipe import AS_SAVED, Recipe, Stage
from jakiro.training.target_rows import Stages
from jakiro.training.tokenizer import END, PAD, tokenizer_for, tokenizer_of

LOG = logging.getLogger(__name__)


def train(
    accelerator: Accelerator,
    recipe: Recipe,
    data: Path,
    run: Path,
    out: Path,
    compiled: bool = True,
    like: Path | None = None,
    shard: bool = False,
    start: Path | None = None,
    parent: Path | None = None,
) -> None:
    """Train all stages that `run` does not yet hold and write a Hugging Face folder to `out`, with the recipe.

    With the tokenizer of the model `like`, or one of the run's own. `start` is a model that went through the recipe's
    first stages: the others are trained on top. `parent` is where the recipe's parent lies. Raises ValueError where
    `like` has another vocabulary than the recipe or a tokenizer of another kind, the recipe's model is no part of its
    parent, `start` has another shape, went through other stages or would be written over, a stage cannot be trained
    so, or `run` holds a stage of another recipe, other data, tokenizer, parent or `start`.
    """
    done = _stages_of(start, recipe) if start else []
    todo = list(enumerate(recipe.stages))[len(done) :]
    _check(accelerator, recipe, len(done), shard)
    for given in filter(None, (start, like, parent, recipe.parent and Path(recipe.parent))):
        if out.resolve() == given.resolve():
            raise ValueError(f"{given}, which this target is made from, would be written over: name another --out")
    history.check_own(out, "stage")
    files = contents([source for stage in recipe.stages for source in recipe.mixes[stage.mix]], data)
    run.mkdir(parents=True, exist_ok=True)
    with accelerator.main_process_first():
        whole = _parent(recipe, parent, start, like)
        if start or like:
            tokenizer = tokenizer_of(start or like, recipe)
        else:
            tokenizer = whole.tokenizer if whole else tokenizer_for(recipe, data, run, files)
    model = _model_of(start, recipe, tokenizer) if start else None
    origin = {"tokenizer": _words(tokenizer), "start": digest(model.state_dict()) if model else None}
    origin |= {"parent": digest(whole.model.state_dict())} if whole else {}
    stages, shelf = Stages(recipe, tokenizer, data, run), {}
    with accelerator.main_process_first():  # all rows at once: texts are encoded once, and what is wrong is soon known
        for number, _ in todo:
            folder, later = stages.folder(number), ("looping.json", "checkpoint.pt", "model.pt")
            claim(folder / "rows.npz", later, **_made_from(recipe, number, files), **origin)
            if not (folder / "model.pt").exists():
                stages.make_rows(number, shelf)
    del shelf
    if whole and not (stages.folder(0) / "model.pt").exists():
        whole.model.to(accelerator.device)
        ids = next(one.ids for one in reversed(stages.rows(0)) if len(one.ids))[: pruning.ROWS]
        model = pruning.part(whole, _config(recipe, tokenizer, recipe.stages[0].layers), ids)
    del whole
    named = {stage.average for stage in recipe.stages}
    after = {len(done): copy.deepcopy(model.state_dict())} if model else {}  # so many stages, where they are named
    for number, stage in todo:
        folder = stages.folder(number)
        model = grow(model, stage.layers) if model else build(recipe, tokenizer, stage.layers)
        missing = not (folder / "model.pt").exists()
        accelerator.wait_for_everyone()  # all have looked before one writes
        if missing:
            with accelerator.main_process_first():
                looping = stages.looping(number, model.to(accelerator.device))
            _learn(StageJob(accelerator, model, stage, stages.rows(number), looping, compiled, recipe, shard), folder)
            accelerator.free_memory()  # it keeps what it prepared
            accelerator.wait_for_everyone()
            model = build(recipe, tokenizer, stage.layers)  # whole and bare, whatever it was prepared for
        model.load_state_dict(loop.read(folder / "model.pt"))
        if stage.average:
            model.load_state_dict(mean(model.state_dict(), after[stage.average]))
        after[number + 1] = copy.deepcopy(model.state_dict()) if number + 1 in named else None
        rows = history.metrics(folder)
        seen = {"tokens": int(sum(row["tokens"] for row in rows)), "loss": round(history.late(rows, "loss", 50), 4)}
        done.append({"stage": asdict(stage), **seen})
    if accelerator.is_main_process:
        _write(model, tokenizer, recipe, done, out)


def _learn(job: StageJob, folder: Path) -> None:
    """Do what is missing of a stage and keep its weights."""
    loop.run(job, folder, job.accelerator.is_main_process)
    states = workers.parameters(job.trained)
    if job.accelerator.is_main_process:
        loop.save(states, folder / "model.pt")


def _write(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, done: list[dict], out: Path
) -> None:
    """The folder of the model, unless just these weights are there, with tokenizer, recipe and history."""
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    there = lies_in(out, model.to(DTYPES[recipe.dtype]))
    history.begin(out, done)
    stale = [] if there else sorted(child.name for child in out.iterdir() if (child / "config.json").is_file())
    if stale:
        LOG.warning("%s has heads for other weights, which draft worse now: train anew %s", out, ", ".join(stale))
    with refilling(out, "" if there else WEIGHT_FILES) as new:
        if not there:
            model.save_pretrained(new, max_shard_size="9MB")
        tokenizer.save_pretrained(new)
        (new / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1) + "\n", encoding="utf-8")
        history.write(new, done)


def _parent(recipe: Recipe, folder: Path | None, start: Path | None, like: Path | None) -> pruning.Parent | None:
    """What the recipe says that a target begins as a part of, where it begins here."""
    if folder and not recipe.parent:
        raise ValueError("--parent is for a recipe that names a `parent`, and this one does not")
    if not recipe.parent or start:
        return None
    if like:
        raise ValueError("a target with a parent has its tokens, not those of another model: leave out --like")
    folder = hub.local(folder or Path(recipe.parent))
    hub.check(folder)
    whole = pruning.parent_of(load_model(folder, dtype=torch.float32), load_tokenizer(folder, None), recipe.vocab_size)
    pruning.check_shape(whole.model.config, _config(recipe, whole.tokenizer, recipe.stages[0].layers))
    return whole


def build(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, layers: int) -> LlamaForCausalLM:
    """A fresh model of `layers` layers."""
    torch.manual_seed(recipe.seed)
    model = LlamaForCausalLM(_config(recipe, tokenizer, layers))
    for layer in model.model.layers:
        silence(layer)
    return model


def _config(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, layers: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=recipe.vocab_size,
        num_hidden_layers=layers,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
        pad_token_id=tokenizer.convert_tokens_to_ids(PAD),
        **recipe.model,
    )


def _model_of(start: Path, recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """The model that training starts from. Raises ValueError where the recipe's is another."""
    hub.check_weights(start)
    model = load_model(start, dtype=torch.float32)
    has = model.config.to_dict()
    for name, value in _config(recipe, tokenizer, model.config.num_hidden_layers).to_dict().items():
        if name not in AS_SAVED and has.get(name) != value:
            raise ValueError(f"the model in {start} has {name} {has.get(name)}, the recipe {value}: change its `model`")
    return model


def _check(accelerator: Accelerator, recipe: Recipe, done: int, shard: bool) -> None:
    """Raise ValueError before anything is done if a stage after the first `done` cannot be trained so."""
    check_dtype(recipe.dtype)
    for before, stage in pairwise(recipe.stages):
        check_growth(before.layers, stage.layers)
    for stage in recipe.stages[done:]:
        if not recipe.mixes[stage.mix]:
            raise ValueError(f"the mix {stage.mix!r} names no texts: name sources, or give --data one JSONL file")
        check_schedule(stage.schedule)
        row_widths(stage.row, stage.short)
        workers.share(accelerator, stage.rows)  # narrower rows are a multiple of them
        if stage.average and stage.average < done:
            raise ValueError(f"a stage is averaged with those after {stage.average}, and training starts after {done}")
        if stage.looping and not stage.answers:
            raise ValueError("a stage with `looping` needs `answers`: the tokens of an answer")
        if stage.answers and workers.sharded(accelerator, shard):
            raise ValueError("a stage with own answers cannot be sharded: set its `answers` to 0, or do not shard")
    workers.check_shard(accelerator, shard)


def _made_from(recipe: Recipe, number: int, files: dict[str, str]) -> dict[str, dict]:
    """What the weights after stage `number` depend on: no later stage, no note, and not how they are written."""
    stages = _without_notes(recipe.stages[: number + 1])
    stages[-1] = replace(stages[-1], average=0)  # which comes after it
    mixes = {stage.mix: recipe.mixes[stage.mix] for stage in stages}
    own = {source.file: files[source.file] for mix in mixes.values() for source in mix}
    asked = asdict(replace(recipe, stages=stages, mixes=mixes))
    del asked["dtype"], asked["parent"]  # whose weights are asked for by themselves
    return {"recipe": asked, "data": own}


def _without_notes(stages: list[Stage]) -> list[Stage]:
    return [replace(stage, note="") for stage in stages]


def _words(tokenizer: PreTrainedTokenizerFast) -> str:
    """A digest of the vocabulary."""
    return f"{zlib.crc32(json.dumps(sorted(tokenizer.get_vocab().items())).encode()):08x}"


def _stages_of(start: Path, recipe: Recipe) -> list[dict]:
    """What `start` went through, which must be the recipe's first stages, but not all of them."""
    done = history.read(start, "stage")
    try:
        stages = [Stage.of(entry["stage"]) for entry in done]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{start / history.FILE} has a stage that is none ({error!r}): take it from a copy") from error
    if _without_notes(stages) != _without_notes(recipe.stages[: len(stages)]):
        raise ValueError(f"{start} did not go through this recipe's first {len(stages)} stages ({history.FILE} tells)")
    if len(stages) == len(recipe.stages):
        raise ValueError(f"{start} went through all of the recipe's stages: add one to go on with")
    return done
