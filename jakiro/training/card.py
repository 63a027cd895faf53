"""The model card of an embedded target and its heads, written from what the training and the benchmark left behind."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

from jakiro.bench import load_methods, read_prompts
from jakiro.drafting.weights import load_head
from jakiro.engine import record
from jakiro.peers import ASSISTANT
from jakiro.report import as_markdown
from jakiro.target import Target
from jakiro.text import decode, encode
from jakiro.training.card_text import CARD, LICENCES
from jakiro.training.head_recipe import HeadRecipe
from jakiro.training.packing import pack, row_widths
from jakiro.training.target_recipe import Recipe
from jakiro.verify import Sampling


def write(
    target: Target, runs: dict[str, Path], recipes: dict[str, Path], reports: dict[str, dict], data: Path
) -> None:
    """Write README.md into the target's folder.

    `runs` and `recipes` name those of "target" and "heads"; `reports` are bench.json contents for the "default" and the
    "wide" tree; `data` is the folder with eval/ and train/. Raises OSError where a file is missing.
    """
    recipe, head_recipe = Recipe.read(recipes["target"]), HeadRecipe.read(recipes["heads"])
    rows = [_metrics(runs["target"] / f"stage{number}") for number in range(len(recipe.stages))]
    loss = held_out_loss(target, recipe, data)
    config = target.model.config
    text = CARD.format(
        name=target.name,
        parameters=target.model.num_parameters() / 1e6,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        vocab=config.vocab_size,
        context=target.context,
        longest=max(stage.row for stage in recipe.stages),
        eagle=_head_size(target, "eagle2"),
        jakiro=_head_size(target, "jakiro"),
        assisted=_assisted(target),
        licences=LICENCES,
        target_recipe=recipes["target"].name,
        head_recipe=recipes["heads"].name,
        tokens=sum(float(row["tokens"]) for stage in rows for row in stage) / 1e6,
        stages=_stages(recipe, rows),
        held_out=loss,
        perplexity=torch.tensor(loss).exp().item(),
        head_steps=head_recipe.steps,
        head_tokens=head_recipe.row * head_recipe.rows,
        of_answers=_of_answers(head_recipe),
        head_losses=_head_losses(_metrics(runs["heads"])),
        **_measured(reports),
        answers="".join(_answers(target, data)),
    )
    (target.path / "README.md").write_text(text, encoding="utf-8")


@torch.inference_mode()
def held_out_loss(target: Target, recipe: Recipe, data: Path, tokens: int = 60_000) -> float:
    """Mean cross-entropy in nats on what the assistant says in conversations that were held out of the last mix."""
    stage = recipe.stages[-1]
    ids, said = pack(recipe.mixes[stage.mix], data, target.tokenizer, tokens, 512, recipe.seed, validation=True)
    total = count = 0.0
    for row, answer in zip(torch.from_numpy(ids.astype("int64")), torch.from_numpy(said), strict=True):
        logits = target.model(input_ids=row[None, :-1].to(target.device)).logits[0].float().cpu()
        losses = F.cross_entropy(logits, row[1:], reduction="none")[answer[1:]]
        total, count = total + losses.sum().item(), count + len(losses)
    return total / count


def _stages(recipe: Recipe, rows: list[list[dict[str, str]]]) -> str:
    lines = ["| layers | tokens (M) | row | mix | against repetition | loss at the end |", "|--:|--:|--:|---|---|--:|"]
    for stage, metrics in zip(recipe.stages, rows, strict=True):
        seen = sum(float(row["tokens"]) for row in metrics) / 1e6
        last = [float(row["loss"]) for row in metrics[-50:]]
        losses = " and ".join(["recent tokens"] * bool(stage.unlikelihood) + ["own answers"] * bool(stage.answers))
        widths = ", ".join(map(str, row_widths(stage.row, stage.short)))
        cells = [stage.layers, f"{seen:.1f}", widths, stage.mix, losses, f"{sum(last) / len(last):.3f}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    notes = [f"\nStage {number}: {stage.note}." for number, stage in enumerate(recipe.stages, 1) if stage.note]
    return "\n".join(lines + notes)


def _of_answers(recipe: HeadRecipe) -> str:
    if recipe.answers is None:
        return ""
    temperatures = " and ".join(f"{one:g}" for one in recipe.answers.temperatures)
    return f"\nThe rows are its own answers (temperature {temperatures}), each seen {recipe.epochs} times."


def _head_losses(rows: list[dict[str, str]]) -> str:
    parts = []
    for name in (key.removesuffix("_top1") for key in rows[0] if key.endswith("_top1")):
        last = rows[-100:]
        top1 = sum(float(row[f"{name}_top1"]) for row in last) / len(last)
        parts.append(f"{name}'s first token is the target's at {100 * top1:.1f} % of positions")
    return ", ".join(parts)


def _measured(reports: dict[str, dict[str, Any]]) -> dict[str, Any]:
    default = reports["default"]
    machine = default["machine"]
    return {
        "machine": f"{machine['device']}, {machine['threads']} threads",
        "dtype": default["dtype"],
        "limit": default["max_new_tokens"],
        "prompts": default["rows"][0]["prompts"],
        **{f"{name}_tree": _tree(report) for name, report in reports.items()},
        **{name: as_markdown(report) for name, report in reports.items()},
        **{f"{name}_command": report["command"] for name, report in reports.items()},
    }


def _tree(report: dict[str, Any]) -> str:
    settings = report["settings"]["jakiro"]
    return f"top_k {settings['top_k']}, depth {settings['depth']}, {settings['total_tokens']} nodes"


def _answers(target: Target, data: Path) -> list[str]:
    parts = []
    make, settings = load_methods(target, ["vanilla"], {})["vanilla"]
    for path in sorted((data / "eval").glob("*.jsonl")):
        for prompt in read_prompts([path], 2):
            ids = encode(target.tokenizer, prompt.text)
            run = record(target, make(settings), ids, 128, Sampling(), "vanilla", inspect=False)
            shown = prompt.text if len(prompt.text) <= 400 else prompt.text[:400] + " [...]"
            parts.append(
                f"**{prompt.id}**\n\n{_quote(shown)}\n\n{_quote(decode(target.tokenizer, run.tokens), '    ')}\n\n"
            )
    return parts


def _quote(text: str, mark: str = "> ") -> str:
    return "\n".join(mark + line for line in text.strip().splitlines())


def _assisted(target: Target) -> str:
    """What there is to say of the small model that transformers' assisted generation takes."""
    if ASSISTANT not in target.heads:
        return ""
    model = AutoModelForCausalLM.from_pretrained(target.heads[ASSISTANT])
    size = f"{model.num_parameters() / 1e6:.1f} M parameters, {model.config.num_hidden_layers} layers"
    recipe = "`python -m jakiro train target --recipe jakiro/training/recipes/assistant-cpu.json --like`"
    return (
        f"`{ASSISTANT}/` ({size}, the same tokenizer, {recipe}) is what transformers' assisted generation\n"
        "drafts with where the benchmark compares with it.\n"
    )


def _head_size(target: Target, name: str) -> float:
    return sum(weight.numel() for weight in load_head(target.heads[name], target).parameters()) / 1e6


def _metrics(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def read_report(path: Path) -> dict[str, Any]:
    """A bench.json."""
    return json.loads(path.read_text(encoding="utf-8"))
