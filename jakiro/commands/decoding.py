"""Commands that run the target: trace, bench, tune, doctor, card."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from jakiro.commands.arguments import MEASURED, how_to_load
from jakiro.commands.checks import check_replaced, check_writable, tell_replaced


def trace(options: argparse.Namespace) -> int:
    """Decode one prompt and write its trace."""
    from jakiro import text
    from jakiro.bench import load_methods
    from jakiro.engine import as_trace, decode
    from jakiro.methods import changed
    from jakiro.metrics import tau
    from jakiro.trace import save
    from jakiro.traces import within_limits
    from jakiro.ui.figures.labels import counted
    from jakiro.verify import Sampling

    check_writable(options.out, options.chat_template)
    check_replaced(options.out, "jakiro-trace", "trace of one run")
    sampling = Sampling(options.temperature, options.top_p, options.seed)
    heads, changes = _heads(options), pairs(options.set, "--set")
    changed([options.method], changes)
    target = _target(options, heads)
    ids = text.encode(target.tokenizer, options.prompt)
    [(make, settings)] = load_methods(target, [options.method], changes, sampling).values()
    length = options.max_new_tokens
    rounds = decode(target, make(settings), ids, length, sampling)
    prefill, steps = next(rounds), list(within_limits(rounds))
    run = as_trace(target, ids, length, sampling, prefill, steps, options.method, settings)
    if run.stop == "stopped":
        why = "a file of traces may hold no more rounds or nodes; lower --max-new-tokens or total_tokens"
        print(f"the run was stopped early: {why}", file=sys.stderr)
    save(run, options.out)
    rate = f"tau {tau(run):.2f}" if run.steps else "no rounds"
    made = f"{counted(len(run.tokens), 'token')} in {counted(len(run.steps), 'round')}"
    print(text.decode(target.tokenizer, run.tokens))
    print(f"{options.out}: {made}, {rate}, ended by {run.stop}")
    return 0


def bench(options: argparse.Namespace) -> int:
    """Measure methods on prompt files and write bench.json."""
    import json

    from jakiro import bench as benchmark
    from jakiro.files import write_text
    from jakiro.measuring import tables, variants
    from jakiro.measuring.bootstrap import check_tasks, intervals
    from jakiro.measuring.limits import limits
    from jakiro.measuring.peers import generate_peers
    from jakiro.measuring.prompts import read_prompts
    from jakiro.methods import changed, with_heads
    from jakiro.settings import autos
    from jakiro.ui.figures.labels import counted
    from jakiro.verify import Sampling

    check_writable(options.out, *options.prompts, options.variants, options.chat_template)
    check_replaced(options.out, "jakiro-bench", "benchmark report")
    if options.max_new_tokens < 2:
        raise ValueError("--max-new-tokens must be at least 2: speeds and tau are of tokens after the first")
    texts = read_prompts(options.prompts, options.limit)
    heads = _heads(options)  # whose methods the variants may name
    named = with_heads(MEASURED, heads)
    if options.methods is not None:
        named = [name.strip() for name in options.methods.split(",")]
    if twice := [name for name in named if named.count(name) > 1]:
        raise ValueError(f"--methods names {twice[0]} twice: leave one of them out")
    compared = variants.read(options.variants) if options.variants else []
    if compared:
        check_tasks([text.task for text in texts])
        if options.set:
            raise ValueError("beside --variants there is no --set: give each variant its own `set`")
        if options.methods is not None:
            raise ValueError("beside --variants there is no --methods: each variant names its own `method`")
    samplings = [Sampling(heat, options.top_p, options.seed) for heat in sorted(set(options.temperature))]
    changes = pairs(options.set, "--set")
    changed(named, changes)
    target = _target(options, heads)
    own = variants.folders(target, compared)
    asked = variants.asked_for(target, compared, own) if compared else benchmark.asked_for(target, named, changes)
    peers = generate_peers(target) if options.peers else None
    if taken := [name for name in peers or () if name in asked]:
        raise ValueError(f"the label {taken[0]!r} is taken by a decoder of transformers: give that variant another")
    work = benchmark.Benchmark(target, texts, asked, options.max_new_tokens, samplings, peers, options.repeats)
    journal = work.open_journal(options.out, own)
    tell_replaced(options.out)
    if len(journal):
        print(f"going on with {journal.path}: {counted(len(journal), 'prompt')} of it done", file=sys.stderr)
    work = work.settled(journal)
    report = work.run(journal) | {"command": options.line}
    if found := {name: autos(settings) for name, (_, settings) in asked.items() if autos(settings)}:
        report["auto"] = {"settings": found, "temperature": samplings[0].temperature, "top_p": samplings[0].top_p}
    if options.limits:
        report["limits"] = limits(target, work.methods, texts[0].text)
    told = [part(report) for part in (tables.as_markdown, tables.details, tables.chosen, tables.allowed)]
    for names in [[one.label for one in compared]] if compared else variants.of_one_kind(report):
        found = intervals(journal.samples(), names, names[0])
        report["intervals"] = report.get("intervals", []) + found
        told.append(variants.as_markdown(found, names[0]))
    write_text(options.out, json.dumps(report, indent=1, allow_nan=False) + "\n")
    journal.close()
    print(*filter(None, told), sep="\n\n")
    return 0


def tune(options: argparse.Namespace) -> int:
    """Measure which draft tree suits the target here, print what was found and, with --out, write it."""
    from dataclasses import asdict

    from jakiro.bench import load_methods
    from jakiro.measuring.prompts import read_prompts
    from jakiro.measuring.tuning import Tuner, as_text
    from jakiro.methods import changed, check_tree
    from jakiro.verify import Sampling

    if options.out:
        check_writable(options.out, *options.prompts, options.chat_template)
        check_replaced(options.out, "jakiro-tuning", "report of tune")
    heads = _heads(options)
    check_tree(options.method)
    texts = read_prompts(options.prompts, options.limit)
    sampling = Sampling(options.temperature, options.top_p)
    sizes = dict.fromkeys(("top_k", "depth", "total_tokens"), "auto") | pairs(options.set, "--set")
    changed([options.method], sizes)
    target = _target(options, heads)
    tuner = Tuner(target, texts)
    load_methods(target, [options.method], sizes, sampling, tuner)
    if not tuner.found:
        raise ValueError("nothing is auto: leave one of top_k, depth and total_tokens out of --set")
    [found] = tuner.found.values()
    _write_found(options, target, asdict(found))
    print(as_text(found))
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Examine a head; 1 where something about it is wrong."""
    from jakiro.doctor.visit import as_json, as_text, visit
    from jakiro.measuring.prompts import read_prompts
    from jakiro.methods import check_known

    if options.out:
        check_writable(options.out, *options.prompts, options.chat_template)
        check_replaced(options.out, "jakiro-doctor", "report of doctor")
    heads = _heads(options)
    check_known(options.method)
    texts = read_prompts(options.prompts, options.limit)
    target = _target(options, heads, fitting=False)  # that they do not fit is a finding
    findings = visit(target, options.method, [one.text for one in texts])
    _write_found(options, target, as_json(findings))
    print(as_text(findings))
    return int(any(one.verdict == "wrong" for one in findings))


def _write_found(options: argparse.Namespace, target, found: dict[str, Any]) -> None:
    """Where --out names a file, what was found, on what and by which command."""
    import json

    from jakiro.files import write_text
    from jakiro.machine import machine, versions

    if options.out:
        about = {"machine": machine(target.device), "versions": versions(), "command": options.line}
        write_text(options.out, json.dumps(found | about, indent=1, allow_nan=False) + "\n")


def card(options: argparse.Namespace) -> int:
    """Write the model card of a target and its heads."""
    from jakiro.training import card as cards

    target = _target(options)
    reports = {"default": cards.read_report(options.default), "wide": cards.read_report(options.wide)}
    cards.write(target, options.target_recipe, options.heads_recipe, reports, options.data)
    return 0


def _heads(options: argparse.Namespace) -> dict[str, str]:
    """Method -> its head, which may be a second one of a method's: its name is known from here on."""
    from jakiro.methods import meet

    heads = pairs(options.head, "--head")
    meet(heads)
    return heads


def _target(options: argparse.Namespace, heads: dict[str, str] | None = None, fitting: bool = True):
    from transformers.utils import logging

    from jakiro.machine import settle, use_threads
    from jakiro.methods import check_fit
    from jakiro.target import Target

    logging.disable_progress_bar()
    use_threads()
    if fitting and heads:
        check_fit(options.target, heads)
    target = Target.load(options.target, heads=heads, **how_to_load(options))
    settle()
    return target


def pairs(items: Sequence[str], flag: str) -> dict[str, str]:
    """["depth=6"] -> {"depth": "6"}."""
    found: dict[str, str] = {}
    for item in items:
        name, mark, value = item.partition("=")
        if not (name and mark and value):
            raise ValueError(f"{flag} takes name=value, not {item!r}")
        if name in found:
            raise ValueError(f"{flag} {name} is given twice: leave one of them out")
        found[name] = value
    return found
