"""Muon for the matrices inside the layers, AdamW for everything else, under one learning-rate factor."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from jakiro.training.precision import product_dtype

MUON_LR = 0.02  # K. Jordan, "Muon" (2024): the step of an orthogonalised update
ADAMW_LR = 3e-3
QUINTIC = (3.4445, -4.7750, 2.0315)  # of a Newton-Schulz step, as K. Jordan chose them
SCHEDULES = ("linear", "cosine")


class Muon(torch.optim.Optimizer):
    """Nesterov momentum whose updates are orthogonalised, for matrices (K. Jordan, "Muon", 2024).

    The law of torch.optim.Muon, whose products are bfloat16 everywhere: a processor that emulates them spends most of
    a step there. Here they are float32 on such a one.
    """

    def __init__(self, matrices: list[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One update of every matrix that has a gradient; those of one shape are orthogonalised together.

        There is no closure: torch names it where it lets a sharded optimizer make its states before they are loaded.
        """
        for group in self.param_groups:
            alike: dict[torch.Size, list[nn.Parameter]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike.setdefault(matrix.shape, []).append(matrix)
            for (rows, columns), matrices in alike.items():
                steps = orthogonal(torch.stack([_whole(one) for one in self._directions(matrices, group["momentum"])]))
                steps = [_shared_as(*pair) for pair in zip(matrices, steps, strict=True)]
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, steps, alpha=-group["lr"] * math.sqrt(max(1, rows / columns)))

    def _directions(self, matrices: list[nn.Parameter], momentum: float) -> list[Tensor]:
        """Their gradients with momentum; of many small matrices at once, which a GPU would otherwise wait for."""
        gradients = [matrix.grad for matrix in matrices]
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix.grad)
        buffers = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        return torch._foreach_add(torch._foreach_mul(gradients, 1 - momentum), buffers, alpha=momentum)


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """About the nearest orthogonal matrices to `matrices` [n, a, b]: their singular values are driven near 1."""
    a, b, c = QUINTIC
    tall = matrices.shape[1] > matrices.shape[2]
    found = (matrices.mT if tall else matrices).to(product_dtype(matrices.device))
    found = found / found.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = found @ found.mT
        found = torch.baddbmm(found, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), found, beta=a)
    return found.mT if tall else found


def _whole(matrix: Tensor) -> Tensor:
    """A matrix of which each process has a part, in every one of them."""
    return matrix.full_tensor() if isinstance(matrix, DTensor) else matrix


def _shared_as(matrix: Tensor, whole: Tensor) -> Tensor:
    """What is the same in every process, shared among them as `matrix` is."""
    if not isinstance(matrix, DTensor):
        return whole
    return distribute_tensor(whole, matrix.device_mesh, matrix.placements, src_data_rank=None)


def inner_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The 2-D parameters that are trained and neither embedding nor lm_head."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad and p.ndim == 2]
    return [p for name, p in named if name.split(".")[-2:][0] not in ("embed_tokens", "lm_head")]


class Optimizer:
    """Two optimizers that step together: Muon for the inner matrices, AdamW for all other parameters."""

    def __init__(self, model: nn.Module) -> None:
        inner = inner_matrices(model)
        chosen = {id(p) for p in inner}
        outer = [p for p in model.parameters() if p.requires_grad and id(p) not in chosen]
        self.parts = [
            Muon(inner, lr=MUON_LR, momentum=0.95, weight_decay=0.01),
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


def check_schedule(name: str) -> None:
    """Raises ValueError where there is no such schedule."""
    if name not in SCHEDULES:
        raise ValueError(f"no learning-rate schedule {name!r}; `schedule` of a recipe is {' or '.join(SCHEDULES)}")
