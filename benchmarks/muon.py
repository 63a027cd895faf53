"""What one step of Muon over a target's matrices takes, ours and torch's: `python -m benchmarks.muon`.

Both orthogonalise the same gradients, drawn at random. Torch's takes its products in bfloat16 everywhere, ours in what
the device multiplies best (`product_dtype`). Medians; the two take turns. Torch has one from 2.9 on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks import common
from jakiro.assets import TARGET
from jakiro.measuring.limits import timed
from jakiro.models import hub
from jakiro.models.loading import load_model
from jakiro.training.optim import Muon, inner_matrices
from jakiro.training.precision import product_dtype

SCHEMA = "jakiro-muon/1"
TURNS = 3


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Time both on the target's matrices, which they do not change. Raises ValueError where torch has no Muon."""
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(f"torch has a Muon from 2.9 on, and this is {torch.__version__}: upgrade it to compare")
    device, folder = torch.device(options.device), hub.local(options.target)
    hub.check_weights(folder)
    matrices = inner_matrices(load_model(folder).float().to(device))
    for matrix in matrices:
        matrix.grad = torch.randn_like(matrix)
    still = {"lr": 0.0, "momentum": 0.95, "weight_decay": 0.0}
    ways = {"own_s": Muon(matrices, **still), "torch_s": torch.optim.Muon(matrices, **still)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, optimizer in ways.items():
            found[name] += timed(device, optimizer.step, 1)
    row = {name: median(times) for name, times in found.items()}
    about = {
        "target": hub.title(options.target),
        "matrices": len(matrices),
        "own_dtype": str(product_dtype(device))[6:],
    }
    head = common.head(SCHEMA, device) | about
    return head | row, [[{name.removesuffix("_s"): common.cell(row[name], scale=1000) + " ms" for name in ways}]]


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("muon", __doc__)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id (default: the embedded model)")
    parser.add_argument("--device", default="cpu", help=common.DEVICE)
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
