"""The model card of an embedded target and its heads, written from what the training and the benchmark left behind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from jakiro.bench import SCHEMA, load_methods
from jakiro.drafting.weights import load_head
from jakiro.engine import record
from jakiro.measuring.prompts import Prompt, read_prompts
from jakiro.measuring.report import prompts_a_task
from jakiro.measuring.tables import as_markdown
from jakiro.methods import DRAFT_MODEL, METHODS
from jakiro.models.hub import fingerprint
from jakiro.models.loading import load_model
from jakiro.target import Target
from jakiro.text import decode, encode
from jakiro.training import history
from jakiro.training.data import Documents
from jakiro.training.packing import pack, row_widths
from jakiro.training.repeats import goes_round
from jakiro.training.target_recipe import Recipe, Stage
from jakiro.verify import GREEDY

CARD = Path(__file__).with_name("card.md")  # its words, with places for what is filled in here
BEGUN = """\
It began as a part of [{parent}](https://huggingface.co/{parent}): as many of its layers, {units} units of the
feed-forward part of each, and the first tokens of its vocabulary (`jakiro/training/pruning.py`).

"""
GROWING = " of growing depth (new layers start as the identity)"
ANSWERED = 10  # prompts of each evaluation set whose answers are looked at
HEADS = ("eagle2", "jakiro")
SHOWN = 2  # of them, on the card


def write(target: Target, made: Path, heads: list[Path], reports: dict[str, dict], data: Path) -> None:
    """Write README.md into the target's folder.

    `made` is the target's recipe, `heads` are those of its heads in the order in which they were run; `reports` are
    bench.json contents for the "default" and the "wide" tree; `data` is the folder with eval/ and train/. Raises
    OSError where a file is missing, and ValueError where a model's history or a head is, or where a report is not what
    it says.
    """
    if missing := [name for name in HEADS if name not in target.heads]:
        raise ValueError(f"the target has no head {missing[0]}, of which the card tells: train it, without --out")
    stages = history.read(target.path, "stage")
    recipe = Recipe.read(made)
    loss = held_out_loss(target, recipe, data)
    answers = _answers(target, data)
    config = target.model.config
    folders = {"target": target.path} | {name: target.heads[name] for name in HEADS}
    text = CARD.read_text(encoding="utf-8").format(
        name=target.name,
        parameters=target.model.num_parameters() / 1e6,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        vocab=config.vocab_size,
        context=target.context,
        longest=max(entry["stage"]["row"] for entry in stages),
        eagle=_head_size(target, "eagle2"),
        jakiro=_head_size(target, "jakiro"),
        assisted=_draft_model(target),
        base=f"base_model: {recipe.parent}\n" if recipe.parent else "",
        target_recipe=made.name,
        begun=BEGUN.format(parent=recipe.parent, units=config.intermediate_size) if recipe.parent else "",
        growing=GROWING if len({entry["stage"]["layers"] for entry in stages}) > 1 else "",
        head_recipes=_in_turn(heads),
        tokens=sum(entry["tokens"] for entry in stages) / 1e6,
        stages=_stages(stages),
        held_out=loss,
        unheld=_unheld(target, recipe, data),
        perplexity=torch.tensor(loss).exp().item(),
        head_runs=_head_runs(target),
        **measured(reports, target.name, {name: fingerprint(folder) for name, folder in folders.items()}),
        answered=len(answers),
        round=sum(answer.goes_round for answer in answers),
        answers="".join(map(str, filter(lambda answer: answer.shown, answers))),
    )
    (target.path / "README.md").write_text(text, encoding="utf-8")


@torch.inference_mode()
def held_out_loss(target: Target, recipe: Recipe, data: Path, tokens: int = 60_000) -> float:
    """Mean cross-entropy in nats on what the assistant says in conversations that were held out of the last mix."""
    stage = recipe.stages[-1]
    ids, said, _ = pack(recipe.mixes[stage.mix], data, target.tokenizer, tokens, 512, recipe.seed, validation=True)
    total = count = 0.0
    for row, answer in zip(torch.from_numpy(ids.astype("int64")), torch.from_numpy(said), strict=True):
        logits = target.model(input_ids=row[None, :-1].to(target.device)).logits[0].float().cpu()
        losses = F.cross_entropy(logits, row[1:], reduction="none")[answer[1:]]
        total, count = total + losses.sum().item(), count + len(losses)
    return total / count


def _unheld(target: Target, recipe: Recipe, data: Path) -> str:
    """Which sources of the last mix `held_out_loss` tells nothing of, as half a sentence; "" where there are none."""
    mix = recipe.mixes[recipe.stages[-1].mix]
    found = [one for one in mix if Documents(one, data, target.tokenizer, 513, recipe.seed, validation=True).wrong]
    names = ", ".join(dict.fromkeys(f"`{one.file}`" for one in found))
    return f" (none of which are of {names})" if names else ""


def _stages(entries: list[dict[str, Any]]) -> str:
    lines = ["| layers | tokens (M) | row | mix | against repetition | training loss, last 50 steps |"]
    lines.append("|--:|--:|--:|---|---|--:|")
    notes = []
    for number, entry in enumerate(entries, 1):
        stage = Stage.of(entry["stage"])
        own = "own answers" + " that went round" * bool(stage.looping)
        losses = " and ".join(["recent tokens"] * bool(stage.unlikelihood) + [own] * bool(stage.answers))
        widths = ", ".join(map(str, row_widths(stage.row, stage.short)))
        cells = [stage.layers, f"{entry['tokens'] / 1e6:.1f}", widths, stage.mix, losses, f"{entry['loss']:.3f}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
        mean = f"then the mean of its weights and those after stage {stage.average}" * bool(stage.average)
        notes += [f"\nStage {number}: {one}." for one in (mean, stage.note) if one]
    return "\n".join(lines + notes)


def _head_runs(target: Target) -> str:
    lines = ["| head | steps | tokens of a step | passes | rows | first token is the target's, in training |"]
    lines.append("|---|--:|--:|--:|---|--:|")
    for name in HEADS:
        for entry in history.read(target.heads[name], "steps"):
            distinct, seen = entry["distinct"], entry["steps"] * entry["tokens"]
            rows = f"{distinct:,} tokens, each seen {seen / distinct:.1f} times"
            if entry["temperatures"]:
                heats = " and ".join(f"{one:g}" for one in entry["temperatures"])
                rows = f"its own answers (temperature {heats}), {rows}"
            head = f"`{name}`" + f", {entry['note']}" * bool(entry["note"])
            top1 = f"{100 * entry['top1']:.1f} %"
            cells = [head, entry["steps"], entry["tokens"], entry["passes"], rows, top1]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _in_turn(recipes: list[Path]) -> str:
    return ", then `--start` from there with ".join(f"`jakiro/training/recipes/{one.name}`" for one in recipes)


def measured(reports: dict[str, dict[str, Any]], target: str, weights: dict[str, str] | None = None) -> dict[str, Any]:
    """What the card says of the reports. Raises ValueError where they are of another model than `target`, or say that
    they are of others than these `weights`: name -> `fingerprint`."""
    for name, report in reports.items():
        if report["target"] != target:
            raise ValueError(
                f"the bench of the {name} tree is of {report['target']}, and the card of {target}: measure that one"
            )
        of = report.get("weights", {})
        if other := [one for one, own in (weights or {}).items() if of.get(one, own) != own]:
            raise ValueError(
                f"the bench of the {name} tree is of another {other[0]} than is here now: measure this one"
            )
        if any(row["temperature"] or (row["method"] in METHODS and row["identical"] != 1) for row in report["rows"]):
            raise ValueError(
                f"the card says that all was measured at temperature 0 and that every method gave vanilla's ids, and "
                f"in the bench of the {name} tree that is not so: measure it in float32"
            )
    default = reports["default"]
    machine = default["machine"]
    return {
        "machine": f"{machine['device']}, {machine['threads']} threads",
        "dtype": default["dtype"],
        "limit": default["max_new_tokens"],
        **{f"{name}_tree": _tree(report) for name, report in reports.items()},
        **{f"{name}_asked": _asked(report) for name, report in reports.items()},
        **{name: as_markdown(report) for name, report in reports.items()},
        **{f"{name}_command": report["command"] for name, report in reports.items()},
    }


def _tree(report: dict[str, Any]) -> str:
    settings = report["settings"]["jakiro"]
    sizes = f"top_k {settings['top_k']}, depth {settings['depth']}, {settings['total_tokens']} nodes"
    return f"{sizes}, draft_temperature {settings['draft_temperature']}"


def _asked(report: dict[str, Any]) -> str:
    """As "10 prompts of each set, one repeat"."""
    repeats = max(row["repeats"] for row in report["rows"])
    often = f"the median of {repeats} repeats" if repeats > 1 else "one repeat"
    return f"{prompts_a_task(report)} prompts of each set, {often}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the target says to an evaluation prompt."""

    prompt: Prompt
    text: str
    goes_round: bool  # says a block three times in a row
    shown: bool  # on the card

    def __str__(self) -> str:
        asked = self.prompt.text if len(self.prompt.text) <= 400 else self.prompt.text[:400] + " [...]"
        return f"**{self.prompt.id}**\n\n{_quote(asked)}\n\n{_quote(self.text, '    ')}\n\n"


def _answers(target: Target, data: Path) -> list[Answer]:
    found = []
    make, settings = load_methods(target, ["vanilla"], {})["vanilla"]
    for path in sorted((data / "eval").glob("*.jsonl")):
        for number, prompt in enumerate(read_prompts([path], ANSWERED)):
            ids = encode(target.tokenizer, prompt.text)
            tokens = record(target, make(settings), ids, 128, GREEDY, "vanilla", inspect=False).tokens
            found.append(Answer(prompt, decode(target.tokenizer, tokens), goes_round(tokens), number < SHOWN))
    return found


def _quote(text: str, mark: str = "> ") -> str:
    return "\n".join(mark + line for line in text.strip().splitlines())


def _draft_model(target: Target) -> str:
    """What there is to say of the small language model beside it."""
    if DRAFT_MODEL not in target.heads:
        return ""
    model = load_model(target.heads[DRAFT_MODEL])
    size = f"{model.num_parameters() / 1e6:.1f} M parameters, {model.config.num_hidden_layers} layers"
    folder = f"assets/models/{target.name}"
    return (
        f"`{DRAFT_MODEL}/` ({size}, the same tokenizer) is a language model of its own, to draft with as speculative\n"
        "decoding first did, and for transformers' assisted generation in the benchmark; it was made by\n"
        "`python -m jakiro train target --recipe jakiro/training/recipes/draft-model-cpu.json "
        f"--like {folder} --data DIR --run-folder runs/{DRAFT_MODEL} --out {folder}/{DRAFT_MODEL}`.\n"
    )


def _head_size(target: Target, name: str) -> float:
    return sum(weight.numel() for weight in load_head(target.heads[name], target).parameters()) / 1e6


def read_report(path: Path) -> dict[str, Any]:
    """A bench.json in which jakiro was measured. Raises OSError, or ValueError where the file is something else."""
    text = path.read_text(encoding="utf-8")
    try:
        report = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}): name what `bench` wrote with --out") from error
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise ValueError(f"{path} is no report of a benchmark ({SCHEMA}): name what `bench` wrote with --out")
    if "jakiro" not in report.get("settings", {}):
        raise ValueError(f"in {path} jakiro was not measured: run `bench` with it among the --methods")
    return report
