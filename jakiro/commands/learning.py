"""The commands that train: `python -m jakiro train | experiment`."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from jakiro.assets import TARGET
from jakiro.commands.arguments import RECIPES
from jakiro.commands.checks import check_begins, check_folder, check_replaced, check_writable, tell_replaced


def train(options: argparse.Namespace) -> int:
    """Train a target, write its answers or a teacher's texts, or train heads of it."""
    _check(options)
    if options.what == ["texts"]:
        return _write_texts(options)
    options.target = options.target or TARGET
    _huge_pages()
    from jakiro.machine import use_threads
    from jakiro.training import workers

    use_threads(options.threads)
    accelerator = workers.start(options.device)
    (_train_target if options.what == ["target"] else _train_heads)(options, accelerator)
    workers.end(accelerator)
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse what does not go together, or would have no effect."""
    for alone in ("texts", "target", "answers"):
        if alone in options.what and len(options.what) > 1:
            raise ValueError(f"{alone} stands alone: first texts, then the target, then answers, then the heads")
    elsewhere = options.what == ["texts"] or (options.what == ["answers"] and options.out)
    if options.run_folder is None and not elsewhere:
        raise ValueError("--run-folder is missing: name the folder for checkpoints, from which a run goes on")
    if options.run_folder:
        check_folder(options.run_folder)
        _check_recipe(options.recipe, options.run_folder, "--run-folder")
    for name in options.what if options.out and options.recipe else ():
        _check_recipe(options.recipe, options.out if name == "target" else options.out / name, "--out")
    if options.like and options.what != ["target"]:
        raise ValueError("--like is for a target, which takes that model's tokenizer; heads take their target's")
    if options.parent and (options.what != ["target"] or options.start):
        raise ValueError("--parent is for a target that begins, as a part of that model: leave it out")
    if options.like and options.start:
        raise ValueError("--like and --start do not go together: a target that is gone on with keeps its tokenizer")
    if options.chat_template and options.what == ["target"]:
        raise ValueError("--chat-template is for heads, whose target may have none; a trained target has its own")
    if options.system is not None and options.what in (["target"], ["texts"]):
        raise ValueError("--system is for heads and answers; a teacher is told its recipe's `system`: leave it out")
    if options.target and options.what == ["target"]:
        raise ValueError("--target is for heads; a target is written to --out, and goes on from --start: leave it out")
    writes = options.what in (["answers"], ["texts"])
    if options.out and writes:
        check_writable(options.out, Path(options.data), options.recipe, options.chat_template)
    elif options.out:
        check_folder(options.out)
    if writes:
        idle = {"--start": options.start, "--shard": options.shard, "--no-compile": not options.compile}
        if options.what == ["texts"]:
            idle["--run-folder"] = options.run_folder
        if given := [name for name, there in idle.items() if there]:
            raise ValueError(
                f"{given[0]} is for training; {options.what[0]} are written by a model as it is: leave it out"
            )


def _check_recipe(recipe: Path | None, folder: Path, option: str) -> None:
    """Raise ValueError for a recipe that lies where the one of this run is to be written."""
    if recipe and recipe.resolve() == (folder / "recipe.json").resolve():
        raise ValueError(f"{recipe} is read, and would be written over: name another {option}")


def _write_texts(options: argparse.Namespace) -> int:
    from jakiro.machine import use_threads
    from jakiro.training import texts, workers
    from jakiro.training.precision import product_dtype

    if options.target is None or options.out is None:
        raise ValueError("name the teacher, a folder or hub id, with --target, and the JSONL file to write with --out")
    recipe = texts.TextsRecipe.read(options.recipe or RECIPES / "texts-gpu.json")
    use_threads(options.threads)
    accelerator = workers.start(options.device)
    if accelerator.num_processes > 1:
        raise ValueError("texts are written by one process: start it without a launcher")
    recipe, data = _with_data(recipe, options.data)
    model, tokenizer = _model(options)
    model = model.to(accelerator.device, product_dtype(accelerator.device)).eval()
    texts.write(model, tokenizer, recipe, data, options.out)
    workers.end(accelerator)
    return 0


def _train_target(options: argparse.Namespace, accelerator) -> None:
    from jakiro.training.target import train
    from jakiro.training.target_recipe import Recipe

    if options.out is None:
        raise ValueError("--out is missing: name the folder for the trained target")
    recipe = Recipe.read(options.recipe or RECIPES / "target-cpu.json")
    recipe, data = _with_data(recipe, options.data)
    given = (accelerator, recipe, data, options.run_folder, options.out)
    train(*given, options.compile, options.like, options.shard, options.start, options.parent)


def _train_heads(options: argparse.Namespace, accelerator) -> None:
    from jakiro.training.head_recipe import HeadRecipe
    from jakiro.training.head_rows import Lesson, answer
    from jakiro.training.heads import train_heads

    if options.out is None and options.what != ["answers"]:
        if not options.target.is_dir():
            raise ValueError("--out is missing: name the folder for the heads of a target that is not a folder here")
        if options.target.resolve() == TARGET.resolve():
            raise ValueError("--out is missing: the heads that ship with the embedded target would be written over")
    recipe = HeadRecipe.read(options.recipe or RECIPES / "heads-cpu.json")
    if options.what != ["answers"]:
        _check_heads(options.what, recipe)
    recipe, data = _with_data(recipe, options.data)
    lesson = Lesson(accelerator, *_model(options), recipe, data)
    if options.what == ["answers"]:
        answer(lesson, options.out or options.run_folder / "answers.jsonl")
        return
    out = {name: (options.out or options.target) / name for name in options.what}
    train_heads(lesson, options.run_folder, out, options.compile, options.shard, options.start)


def _check_heads(names: list[str], recipe) -> None:
    """Raise ValueError, before a target is loaded, for a head that the recipe has not."""
    from jakiro.training.head_recipe import HeadRecipe

    for name in names:
        if name not in recipe.heads:
            shipped = [file for file in sorted(RECIPES.glob("heads-*.json")) if name in HeadRecipe.read(file).heads]
            other = f"; try --recipe {' or '.join(file.stem for file in shipped)}" if shipped else ""
            raise ValueError(f"the recipe has no head {name!r}; it has {', '.join(recipe.heads)}{other}")


def _with_data(recipe, named: str):
    """A recipe and the folder of its files, where --data names a file or a dataset with that in place of its sources.

    Raises OSError where a file is not there.
    """
    from jakiro.training.sources import check_files, only_source

    data, only = only_source(named)
    several = hasattr(recipe, "mixes")  # a target's
    if only:
        recipe = replace(recipe, **({"mixes": dict.fromkeys(recipe.mixes, only)} if several else {"mix": only}))
    for mix in recipe.mixes.values() if several else [recipe.mix]:
        check_files(mix, data)
    return recipe, data


def experiment(options: argparse.Namespace) -> int:
    """Train the heads of an experiment, decode with each variant, write the report and the page about it."""
    _huge_pages()
    import gc
    import json

    from jakiro.bench import check_lengths
    from jakiro.files import write_text
    from jakiro.machine import settle, use_threads
    from jakiro.measuring import experiment as experiments
    from jakiro.measuring.bootstrap import check_tasks
    from jakiro.measuring.findings import as_page
    from jakiro.measuring.prompts import read_prompts
    from jakiro.training import recipe_file, workers

    for file in filter(None, (options.out, options.page)):
        check_writable(file, *options.prompts, options.what, Path(options.data), options.chat_template)
    if options.page and options.page.resolve() == options.out.resolve():
        raise ValueError(f"--out and --page are both {options.out}: one is JSON, the other Markdown; name two files")
    check_replaced(options.out, "jakiro-bench", "benchmark report")
    asked = experiments.Experiment.read(options.what)
    if options.heads:
        asked = asked.only(options.heads)
    if options.page:
        check_begins(options.page, f"# {asked.question}\n".encode(), "page about this experiment")
    check_folder(options.run_folder)
    texts = read_prompts(options.prompts, options.limit)
    check_tasks([text.task for text in texts])
    recipe, data = _with_data(asked.training, options.data)
    if options.seed is not None:
        recipe = replace(recipe, seed=options.seed)
        recipe_file.check_seed(recipe)
    use_threads()
    accelerator = workers.start(options.device)
    if accelerator.num_processes > 1:
        raise ValueError("an experiment measures speed, so it runs in one process: start it without a launcher")
    heads = {name: options.run_folder / "heads" / name for name in recipe.heads}
    check_lengths(_target(options), texts)
    tell_replaced(options.out)
    gc.collect()
    _train_variants(options, accelerator, recipe, data, heads)
    gc.collect()  # the target that they were trained on, before it is loaded for decoding
    target = _target(options)
    settle()
    report, journal = experiments.run(target, asked, heads, texts, options.repeats, options.out)
    report |= {"command": options.line}
    page = as_page(report)
    write_text(options.out, json.dumps(report, indent=1, allow_nan=False) + "\n")
    if options.page:
        write_text(options.page, page)
    journal.close()  # after that: what could not be written is measured, and is not measured again
    workers.end(accelerator)
    print(page)
    return 0


def _target(options: argparse.Namespace):
    """The target to decode with."""
    from jakiro.target import Target

    told = {"chat_template": options.chat_template, "system": options.system}
    return Target.load(options.target, options.device, options.dtype, **told)


def _train_variants(options: argparse.Namespace, accelerator, recipe, data: Path, heads: dict[str, Path]) -> None:
    """Train all heads of an experiment on a target that nothing holds afterwards."""
    from jakiro.training.head_rows import Lesson
    from jakiro.training.heads import train_heads

    train_heads(Lesson(accelerator, *_model(options), recipe, data), options.run_folder, heads, options.compile)


def _huge_pages() -> None:
    """Let torch ask Linux for huge pages where tensors are large; it looks once, when it makes its first tensor.

    A step of training makes and frees gigabytes, and small pages come one by one.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def _model(options: argparse.Namespace):
    """The target's model and tokenizer, from a folder or hub id."""
    from jakiro.models import hub
    from jakiro.models.loading import load_model, load_tokenizer

    folder = hub.local(options.target)
    hub.check(folder)
    return load_model(folder), load_tokenizer(folder, options.chat_template, options.system)
