"""Muon for the matrices inside the layers, AdamW for everything else, under one learning-rate factor."""

from __future__ import annotations

import math

import torch
from torch import nn

MUON_LR = 0.02  # K. Jordan, "Muon" (2024): the step of an orthogonalised update
ADAMW_LR = 3e-3
SCHEDULES = ("linear", "cosine")


class Optimizer:
    """Two optimizers that step together. Matrices are the 2-D parameters that are neither embedding nor lm_head.

    Raises ValueError where torch has no Muon.
    """

    def __init__(self, model: nn.Module) -> None:
        check_muon()
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        inner = [p for name, p in named if p.ndim == 2 and not name.startswith(("model.embed_tokens", "lm_head"))]
        chosen = {id(p) for p in inner}
        outer = [p for _, p in named if id(p) not in chosen]
        self.parts = [
            torch.optim.Muon(inner, lr=MUON_LR, momentum=0.95, nesterov=True, weight_decay=0.01),
            torch.optim.AdamW(outer, lr=ADAMW_LR, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self.rates = [MUON_LR, ADAMW_LR]

    def step(self, factor: float) -> None:
        """One update at `factor` times the base learning rates, then clear the gradients."""
        for part, rate in zip(self.parts, self.rates, strict=True):
            for group in part.param_groups:
                group["lr"] = rate * factor
            part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> dict:
        return {str(i): part.state_dict() for i, part in enumerate(self.parts)}

    def load_state_dict(self, state: dict) -> None:
        if "0" not in state:
            raise ValueError("this run began with --shard: go on with it, or name another --run-folder")
        for i, part in enumerate(self.parts):
            part.load_state_dict(state[str(i)])


def factor(step: int, steps: int, rate: tuple[float, float], schedule: str, warm: int) -> float:
    """Learning-rate factor of a step: from the first to the second of `rate`, after a linear warm-up over `warm` steps.

    Cosine (arXiv 1608.03983, section 3) stays near the ends for longer than linear does.
    """
    done = step / max(1, steps - 1)
    if schedule == "cosine":
        done = (1 - math.cos(math.pi * done)) / 2
    start, end = rate
    return (start + (end - start) * done) * min(1.0, (step + 1) / max(1, warm))


def check_muon() -> None:
    """Raises ValueError where torch has no Muon."""
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(
            f"training uses torch.optim.Muon, new in torch 2.9; this is {torch.__version__}: upgrade torch"
        )


def check_schedule(name: str) -> None:
    """Raises ValueError where there is no such schedule."""
    if name not in SCHEDULES:
        raise ValueError(f"no learning-rate schedule {name!r}; `schedule` of a recipe is {' or '.join(SCHEDULES)}")
