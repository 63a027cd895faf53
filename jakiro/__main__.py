"""The command line: `python -m jakiro trace | bench | tune | train | experiment | card`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jakiro.arguments import RECIPES, parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Bad input prints one line that says what to do, and returns 2."""
    options = parser().parse_args(arguments)
    options.line = shlex.join(["python", "-m", "jakiro", *(sys.argv[1:] if arguments is None else arguments)])
    try:
        return COMMANDS[options.command](options)
    except (ValueError, OSError) as error:
        print(f"jakiro {options.command}: {error}", file=sys.stderr)
        return 2


def trace(options: argparse.Namespace) -> int:
    """Decode one prompt and write its trace."""
    from jakiro.bench import load_methods
    from jakiro.engine import record
    from jakiro.metrics import tau
    from jakiro.text import encode
    from jakiro.trace import save

    check_writable(options.out)
    target, sampling = _target(options), _sampling(options)
    ids = encode(target.tokenizer, options.prompt)
    (make, settings) = load_methods(target, [options.method], _pairs(options.set, "--set"))[options.method]
    run = record(target, make(settings), ids, options.max_new_tokens, sampling, options.method, settings)
    save(run, options.out)
    rate = f"tau {tau(run):.2f}" if run.steps else "no rounds"
    print(f"{options.out}: {len(run.tokens)} tokens in {len(run.steps)} rounds, {rate}, ended by {run.stop}")
    return 0


def bench(options: argparse.Namespace) -> int:
    """Measure methods on prompt files and write bench.json."""
    import json

    from jakiro import bench as benchmark
    from jakiro import report as tables
    from jakiro.limits import limits
    from jakiro.trace import write_text

    check_writable(options.out)
    texts = (
        benchmark.read_prompts(options.prompts, options.limit) if options.prompts else benchmark.examples(options.limit)
    )
    target, samplings = _target(options), _samplings(options)
    methods = benchmark.load_methods(target, options.methods.split(","), _pairs(options.set, "--set"))
    work = (target, texts, methods, options.max_new_tokens, samplings, _peers(options, target), options.repeats)
    journal = benchmark.open_journal(options.out, *work)
    if len(journal):
        print(f"going on with {journal.path}: {len(journal)} prompts are done", file=sys.stderr)
    report = benchmark.run(*work, journal) | {"command": options.line}
    if options.limits:
        report["limits"] = limits(target, methods, texts[0].text)
    write_text(options.out, json.dumps(report, indent=1, allow_nan=False) + "\n")
    journal.close()
    print(tables.as_markdown(report), tables.details(report), sep="\n\n")
    return 0


def _peers(options: argparse.Namespace, target):
    from functools import partial

    from jakiro.peers import generate_peers

    return partial(generate_peers, target) if options.peers else None


def tune(options: argparse.Namespace) -> int:
    """Measure which draft tree suits the target here, print what was found and, with --out, write it."""
    import json
    from dataclasses import asdict

    from jakiro.bench import load_methods
    from jakiro.machine import machine, versions
    from jakiro.trace import write_text
    from jakiro.tuning import Tuner, as_text

    if options.out:
        check_writable(options.out)
    target = _target(options)
    tuner = Tuner(target)
    sizes = dict.fromkeys(("top_k", "depth", "total_tokens"), "auto")
    load_methods(target, [options.method], sizes | _pairs(options.set, "--set"), tuner)
    if not tuner.found:
        raise ValueError("nothing is auto: leave one of top_k, depth and total_tokens out of --set")
    [found] = tuner.found.values()
    if options.out:
        about = {"machine": machine(target.device), "versions": versions(), "command": options.line}
        write_text(options.out, json.dumps(asdict(found) | about, indent=1, allow_nan=False) + "\n")
    print(as_text(found))
    return 0


def train(options: argparse.Namespace) -> int:
    """Train a target, write its answers, or train heads of it."""
    from jakiro.training import workers

    for alone in ("target", "answers"):
        if alone in options.what and len(options.what) > 1:
            raise ValueError(f"{alone} stands alone: first the target, then answers, then the heads")
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    accelerator = workers.start(options.device)
    (_train_target if options.what == ["target"] else _train_heads)(options, accelerator)
    workers.end(accelerator)
    return 0


def _train_target(options: argparse.Namespace, accelerator) -> None:
    from jakiro.training.data import only_source
    from jakiro.training.target import Recipe, train

    if options.out is None:
        raise ValueError("--out is missing: name the folder for the trained target")
    recipe = Recipe.read(options.recipe or RECIPES / "target-cpu.json")
    data, only = only_source(options.data)
    if only:
        recipe = replace(recipe, mixes=dict.fromkeys(recipe.mixes, only))
    train(accelerator, recipe, data, options.run_folder, options.out, options.compile, options.like, options.shard)


def _train_heads(options: argparse.Namespace, accelerator) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from jakiro import hub
    from jakiro.training.data import only_source
    from jakiro.training.head_recipe import HeadRecipe
    from jakiro.training.heads import answer, train_heads

    if options.out is None and not options.target.is_dir():
        raise ValueError("--out is missing: name the folder for the heads of a target that is not a folder here")
    recipe = HeadRecipe.read(options.recipe or RECIPES / "heads-cpu.json")
    data, only = only_source(options.data)
    if only:
        recipe = replace(recipe, mix=only)
    folder = hub.local(options.target)
    hub.check(folder)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    if options.what == ["answers"]:
        options.run_folder.mkdir(parents=True, exist_ok=True)
        file = options.out or options.run_folder / "answers.jsonl"
        answer(accelerator, recipe, model, tokenizer, data, file)
        return
    out = {name: (options.out or options.target) / name for name in options.what}
    given = (options.what, accelerator, model, tokenizer, recipe, data, options.run_folder, out)
    train_heads(*given, options.compile, options.shard)


def experiment(options: argparse.Namespace) -> int:
    """Train the heads of an experiment, decode with each variant, write the report and the page about it."""
    import json

    from transformers import AutoModelForCausalLM, AutoTokenizer

    from jakiro import bench as benchmark
    from jakiro import experiment as experiments
    from jakiro import hub
    from jakiro.findings import as_page
    from jakiro.target import Target
    from jakiro.trace import write_text
    from jakiro.training import workers
    from jakiro.training.data import only_source
    from jakiro.training.heads import train_heads

    for file in filter(None, (options.out, options.page)):
        check_writable(file)
    named = RECIPES / f"{options.what}-cpu.json"
    asked = experiments.Experiment.read(named if named.exists() else Path(options.what))
    texts = (
        benchmark.read_prompts(options.prompts, options.limit) if options.prompts else benchmark.examples(options.limit)
    )
    data, only = only_source(options.data)
    recipe = replace(asked.training, mix=only) if only else asked.training
    folder = hub.local(options.target)
    hub.check(folder)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    heads = {name: options.run_folder / "heads" / name for name in recipe.heads}
    given = (list(heads), workers.start(options.device), model, tokenizer, recipe, data, options.run_folder, heads)
    train_heads(*given, options.compile)
    target = Target.load(options.target, options.device, options.dtype)
    report = experiments.run(target, asked, heads, texts, options.repeats, options.out) | {"command": options.line}
    write_text(options.out, json.dumps(report, indent=1, allow_nan=False) + "\n")
    if options.page:
        write_text(options.page, as_page(report))
    print(as_page(report))
    return 0


def card(options: argparse.Namespace) -> int:
    """Write the model card of a target and its heads."""
    from jakiro.training import card as cards

    target = _target(options)
    runs = {"target": options.target_run, "heads": options.heads_run}
    recipes = {"target": options.target_recipe, "heads": options.heads_recipe}
    reports = {"default": cards.read_report(options.default), "wide": cards.read_report(options.wide)}
    cards.write(target, runs, recipes, reports, options.data)
    return 0


def check_writable(path: Path) -> None:
    """Raise OSError before any work is done if the file cannot be written."""
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"cannot write {path}: the folder {path.parent} is read-only; choose another")


def _target(options: argparse.Namespace):
    from transformers.utils import logging

    from jakiro.machine import settle
    from jakiro.target import Target

    logging.disable_progress_bar()
    heads = _pairs(options.head, "--head")
    target = Target.load(options.target, options.device, options.dtype, heads=heads, graphs=options.graphs)
    settle()
    return target


def _sampling(options: argparse.Namespace):
    from jakiro.verify import Sampling

    return Sampling(options.temperature, options.top_p, options.seed)


def _samplings(options: argparse.Namespace):
    from jakiro.verify import Sampling

    return [Sampling(temperature, options.top_p, options.seed) for temperature in sorted(set(options.temperature))]


def _pairs(items: Sequence[str], flag: str) -> dict[str, str]:
    """["depth=6"] -> {"depth": "6"}."""
    for item in items:
        name, mark, value = item.partition("=")
        if not (name and mark and value):
            raise ValueError(f"{flag} takes name=value, not {item!r}")
    return dict(item.split("=", 1) for item in items)


COMMANDS = {"trace": trace, "bench": bench, "tune": tune, "train": train, "experiment": experiment, "card": card}

if __name__ == "__main__":
    sys.exit(main())
