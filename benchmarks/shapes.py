"""Step costs at published shapes, with random weights: `python -m benchmarks.shapes --shape llama-2-7b --device cuda`.

A target of Llama-2-7B's or Llama-3-8B's shape and heads of the shapes published for it, all random, decode random text
at several lengths of context by vanilla, EAGLE-2 and Jakiro with the papers' tree (top_k 10, 6 levels, 60 nodes).
Random heads have next to nothing accepted, so the context stays where it was put; a round's cost does not depend on
what is accepted, but for the rows that the head reads for accepted tokens (one here, tau of them in real use).

Seconds are medians over rounds, methods and lengths interleaved; the first rounds of a run, with the prompt's own pass
through the head, are left out. `round_over_step` is a round over a round of vanilla at the same length. From it comes
`implied_speedup`, what the published acceptance would give on this machine: published true tau / round_over_step. It is
a calculation: nothing here was accepted. Figures named `published` are others' (published.py says whose).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

import torch
from tqdm import tqdm
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks import common
from benchmarks.published import LLAMA_3_8B, VICUNA_7B, Published
from jakiro.bench import Methods
from jakiro.commands.arguments import positive
from jakiro.drafting.config import HeadConfig
from jakiro.drafting.fused import FusedEagle, FusedJakiro
from jakiro.drafting.head import EagleHead, JakiroHead
from jakiro.drafting.sizes import TreeSettings
from jakiro.machine import peak_bytes, reset_peak
from jakiro.measuring.limits import read_bandwidth
from jakiro.methods.eagle2 import Eagle2Drafter
from jakiro.methods.jakiro import JakiroDrafter, JakiroSettings
from jakiro.methods.vanilla import Settings, VanillaDrafter
from jakiro.models.loading import DTYPES, check_request
from jakiro.target import Target
from jakiro.trace import StepTrace

SCHEMA = "jakiro-shapes/1"
TREE = {"top_k": 10, "depth": 6, "total_tokens": 60}  # of EAGLE-2 and Jakiro at 7B, root and all six levels counted


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama's sizes, and whether its head's fc has a bias."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    max_position_embeddings: int
    rope_theta: float = 10000.0
    bias: bool = True
    published: Published | None = None


SHAPES = {
    "llama-2-7b": Shape(4096, 11008, 32, 32, 32, 32000, 4096, published=VICUNA_7B),
    "llama-3-8b": Shape(4096, 14336, 32, 32, 8, 128256, 8192, 500000.0, bias=False, published=LLAMA_3_8B),
    "tiny": Shape(64, 96, 2, 4, 2, 512, 1024),
}
LENGTHS = {"llama-2-7b": (128, 512, 1024, 1920), "llama-3-8b": (128, 512, 1024, 1920), "tiny": (64, 256)}


@contextmanager
def made_on(device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    """New weights are made there and of that type, with no copy of another."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(before)


def random_target(shape: Shape, name: str, device: torch.device, dtype: torch.dtype, **how: bool) -> Target:
    """A Llama of that shape that never ends its text."""
    fields = asdict(shape)
    sizes = {field: fields[field] for field in fields if field not in ("rope_theta", "bias", "published")}
    rope = {"rope_type": "default", "rope_theta": shape.rope_theta}
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    with made_on(device, dtype):
        model = LlamaForCausalLM(LlamaConfig(**sizes, **ends, rope_parameters=rope))
    return Target.wrap(model, name=f"{name} (random weights)", **how)


def random_methods(shape: Shape, target: Target) -> Methods:
    """Vanilla, and heads of the published layout made for that shape."""
    config = HeadConfig(
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_attention_heads=shape.num_attention_heads,
        vocab_size=shape.vocab_size,
        num_key_value_heads=shape.num_key_value_heads,
        rope_theta=shape.rope_theta,
        max_position_embeddings=shape.max_position_embeddings,
        bias=shape.bias,
    )
    with made_on(target.device, target.dtype):
        eagle = FusedEagle(EagleHead(config).eval().requires_grad_(False))
        jakiro = FusedJakiro(JakiroHead(config).eval().requires_grad_(False))
    return {
        "vanilla": (lambda settings: VanillaDrafter(), Settings()),
        "eagle2": (lambda settings: Eagle2Drafter(eagle, target, settings), TreeSettings(**TREE)),
        "jakiro": (lambda settings: JakiroDrafter(jakiro, target, settings), JakiroSettings(**TREE)),
    }


def measure(target: Target, methods: Methods, lengths: Sequence[int], count: int, repeats: int) -> list[dict[str, Any]]:
    """One row for each length and method, from `repeats` runs of `count` rounds each."""
    draw = torch.Generator().manual_seed(0)
    texts = {n: torch.randint(target.vocab_size, (n,), generator=draw).tolist() for n in lengths}
    found: dict[tuple[int, str], list[StepTrace]] = {(n, name): [] for n in lengths for name in methods}
    for repeat in tqdm(range(-1, repeats), desc="shapes", unit="turn", dynamic_ncols=True):
        for (length, name), steps in found.items():
            make, settings = methods[name]
            depth = getattr(settings, "depth", 0)
            run = common.rounds(target, make(settings), texts[length], count, depth)
            steps += run if repeat >= 0 else []  # the first turn warms up
    return [_row(length, name, steps, found[length, "vanilla"]) for (length, name), steps in found.items()]


def _row(length: int, method: str, steps: list[StepTrace], base: list[StepTrace]) -> dict[str, Any]:
    found = common.cost(method, length, steps)
    accepted = mean(len(step.accepted) for step in steps)
    over = found["round_s"] / common.phases(base)["round_s"]
    return found | {"accepted_per_round": accepted, "round_over_step": over}


def compared(row: dict[str, Any], published: Published | None) -> dict[str, Any]:
    """The row with what the published figures make of it; None where there are none for its method."""
    ratio = tau = speedup = None
    if published and row["method"] != "vanilla":
        ratio = published.round_over_step(row["method"])
        tau, speedup = (found.get(row["method"]) for found in (published.tau_true, published.speedup))
    return row | {
        "published_round_over_step": ratio,
        "published_tau_true": tau,
        "published_speedup": speedup,
        "implied_speedup": tau and tau / row["round_over_step"],
    }


def floors(target: Target, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a step of vanilla must read, over the bandwidth: seconds at least, and how often vanilla needs that."""
    table = target.model.get_input_embeddings().weight.nbytes  # a step reads one row of it
    weights = sum(one.nbytes for one in target.model.parameters()) - table
    bandwidth = read_bandwidth(target, weights)
    steps = []
    for row in rows:
        if row["method"] == "vanilla":
            floor = (weights + row["context"] * target.new_cache(1).row_bytes) / bandwidth
            steps.append({"context": row["context"], "floor_s": floor, "step_over_floor": row["round_s"] / floor})
    return {"bandwidth_bytes_per_s": bandwidth, "weight_bytes": weights, "steps": steps}


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Build, measure, compare."""
    check_request(options.device, options.dtype, compile=options.compile)
    device, shape = torch.device(options.device), SHAPES[options.shape]
    torch.manual_seed(0)
    reset_peak(device)
    how = {"graphs": options.graphs, "compile": options.compile}
    target = random_target(shape, options.shape, device, DTYPES[options.dtype], **how)
    methods = random_methods(shape, target)
    lengths = options.lengths or LENGTHS[options.shape]
    rows = measure(target, methods, sorted(set(lengths)), options.rounds, options.repeats)
    rows = [compared(row, shape.published) for row in rows]
    peak = peak_bytes(device)
    head = common.head(SCHEMA, target.device) | {
        "shape": options.shape,
        "sizes": {name: value for name, value in asdict(shape).items() if name != "published"},
        "dtype": options.dtype,
        "graphs": target.graphs,
        "tapes": target.tapes is not None,
        "compiled": target.compiled,
        "settings": {name: asdict(settings) for name, (_, settings) in methods.items()},
        "parameters": sum(one.numel() for one in target.model.parameters()),
        "published": shape.published and shape.published.as_dict(),
    }
    return head | {"rows": rows, "peak_bytes": peak, "floor": floors(target, rows)}, [[_line(row) for row in rows]]


def _line(row: dict[str, Any]) -> dict[str, str]:
    return {
        **common.cells(row),
        "round / step": common.cell(row["round_over_step"]),
        "published": common.cell(row["published_round_over_step"]),
        "published tau": common.cell(row["published_tau_true"]),
        "implied speed-up": common.cell(row["implied_speedup"]),
        "published speed-up": common.cell(row["published_speedup"]),
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("shapes", __doc__)
    common.add_device(parser)
    parser.add_argument("--no-graphs", dest="graphs", action="store_false", help="without CUDA graphs")
    parser.add_argument("--compile", action="store_true", help="with fewer kernels by torch.compile")
    parser.add_argument("--shape", choices=list(SHAPES), default="tiny", help="(default: %(default)s)")
    parser.add_argument("--lengths", type=positive, nargs="+", help="tokens of context; default: four up to 1,920")
    parser.add_argument("--rounds", type=positive, default=50, help="of a run (default: %(default)s)")
    runs = "runs of each length and method (default: %(default)s)"
    parser.add_argument("--repeats", type=positive, default=3, help=runs)
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
