"""How well a target copies: `python -m scripts.copying --targets DIR ... --prompts FILE.jsonl`.

Prompts are a request, a colon and an article. Its first sentence is given as the answer, as training on `leads:` has
it: how many of its tokens the target finds likeliest after the true ones before, and their cross-entropy. Once after
the whole prompt, once after its first characters. Prompts whose article does not begin with a sentence are passed over.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from benchmarks import common
from jakiro.commands.arguments import positive
from jakiro.measuring.prompts import read_prompts
from jakiro.target import Target
from jakiro.text import encode
from jakiro.training.leads import lead_of

SCHEMA = "jakiro-copying/1"


def sentence(text: str) -> str:
    """The first sentence of a prompt's article; "" where it has none of an answer's length."""
    return lead_of(" ".join(text.partition(":")[2].split()))


@torch.inference_mode()
def score(target: Target, prompt: str, answer: str) -> tuple[float, float]:
    """Share of an answer's tokens that are the likeliest, and their mean cross-entropy in nats."""
    before, after = encode(target.tokenizer, prompt), target.tokenizer.encode(answer, add_special_tokens=False)
    ids = torch.tensor([before + after], device=target.device)
    logits, said = target.model(ids, use_cache=False).logits[0, len(before) - 1 : -1].float(), ids[0, len(before) :]
    return (logits.argmax(-1) == said).float().mean().item(), cross_entropy(logits, said).item()


def measure(path: Path, texts: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """One target's means over the prompts."""
    target = Target.load(path, options.device, options.dtype)
    found: dict[str, Any] = {"target": str(path), "prompts": len(texts)}
    for name, characters in (("whole", None), ("cut", options.characters)):
        scores = [score(target, text[:characters], sentence(text)) for text in texts]
        found[name] = {"likeliest": mean(one for one, _ in scores), "cross_entropy": mean(one for _, one in scores)}
    return found


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Measure every target on the same prompts. Raises ValueError where none has an article."""
    texts = [one.text for one in read_prompts(options.prompts, options.limit) if sentence(one.text)]
    if not texts:
        raise ValueError("no prompt is a request, a colon and an article that begins with a sentence: name others")
    rows = [measure(path, texts, options) for path in options.targets]
    head = common.head(SCHEMA, torch.device(options.device)) | {"characters": options.characters}
    return head | {"rows": rows}, [[_line(row) for row in rows]]


def _line(row: dict[str, Any]) -> dict[str, str]:
    cells = {"target": row["target"]}
    for name in ("whole", "cut"):
        cells[f"likeliest ({name})"] = common.cell(row[name]["likeliest"])
        cells[f"cross-entropy ({name})"] = common.cell(row[name]["cross_entropy"])
    return cells


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("copying", __doc__, "scripts")
    common.add_device(parser)
    parser.add_argument("--targets", type=Path, nargs="+", required=True, help="folders of targets")
    parser.add_argument("--prompts", type=Path, nargs="+", metavar="FILE.jsonl", required=True)
    parser.add_argument("--limit", type=positive, default=40, help="prompts of each file (default: %(default)s)")
    parser.add_argument("--characters", type=positive, default=600, help="of a cut prompt (default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
