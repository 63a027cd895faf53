"""Published figures that the benchmarks stand beside their own. Every one names its source.

A published tau divides by one round too few (the 0-based index of the last round), in EAGLE's and Jakiro's code alike;
`tau_true` counts every round: computed from the raw logs where they are public, else estimated, as `tau_true_is` says.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Published:
    """Figures of one target on one GPU, temperature 0, over the same six sets of 80 questions: `source` says how."""

    source: str
    model: str
    gpu: str
    step_ms: float | None  # wall time of a run over its rounds, prefill included: one token a round
    round_ms: dict[str, float] = field(default_factory=dict)  # method -> the same with a draft tree of 60 nodes
    speedup: dict[str, float] = field(default_factory=dict)  # method -> over vanilla, as measured there
    tau_as_published: dict[str, float] = field(default_factory=dict)
    tau_true: dict[str, float] = field(default_factory=dict)
    tau_true_is: str = "counted in the logs"

    def round_over_step(self, method: str) -> float | None:
        """A round's time over that of a round of one token."""
        return self.round_ms[method] / self.step_ms if self.step_ms and method in self.round_ms else None

    def as_dict(self) -> dict[str, Any]:
        """All fields, and round_over_step of every method."""
        return asdict(self) | {"round_over_step": {method: self.round_over_step(method) for method in self.round_ms}}


VICUNA_7B = Published(
    source="raw logs in github.com/haiduo/Jakiro, jakiro/outputs/A40 (commit f8b018d), six sets pooled",
    model="Vicuna-7B v1.3, fp16: the shape of Llama-2-7B",
    gpu="NVIDIA A40",
    step_ms=30.7,
    round_ms={"eagle2": 50.3, "jakiro": 48.5},
    speedup={"eagle2": 2.71, "jakiro": 2.82},
    tau_as_published={"eagle2": 4.68, "jakiro": 4.69},
    tau_true={"eagle2": 4.48, "jakiro": 4.49},
)
LLAMA_3_8B = Published(
    source="README of github.com/AMD-AIG-AIMA/Gumiho (EAGLE-2 run again by its authors), mean of six sets",
    model="Llama-3-8B-Instruct",
    gpu="AMD, model not named with the table",
    step_ms=None,
    speedup={"eagle2": 2.12},
    tau_as_published={"eagle2": 4.35},
    tau_true={"eagle2": 4.16},
    tau_true_is="estimated: as published, times 4.48 / 4.68, which is what the Vicuna-7B logs lose by counting right",
)
