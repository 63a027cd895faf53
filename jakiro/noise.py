"""Gumbel noise: the argmax of log-probabilities and it is a draw, and whoever has the same noise draws alike.

The target picks with it (verify.py). So may a drafter, whose candidates are then those that the target is likely to
pick, not those that are likely: sampling without communication (Daliri, Musco and Suresh, arXiv 2408.07978).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from jakiro.hashing import GOLDEN, STAGES, mix
from jakiro.programs import upload

DOUBLES = ("cpu", "cuda")  # devices on which float64 can be counted on


class Noise:
    """The noise of a run that samples, made once for whoever asks."""

    def __init__(self, seed: int, temperature: float, vocab: int, device: torch.device) -> None:
        """`temperature` is what the target's logits are divided by before the noise is added."""
        self.temperature = temperature
        self._seed, self._vocab = seed, vocab
        self._device = device if device.type in DOUBLES else torch.device("cpu")
        self._rows: dict[int, Tensor] = {}

    def at(self, positions: Sequence[int]) -> Tensor:
        """Of the tokens at these positions, [positions, vocab] in float64. Earlier ones are forgotten."""
        if missing := [position for position in dict.fromkeys(positions) if position not in self._rows]:
            made = gumbel(self._seed, missing, self._vocab, self._device)
            kept = {position: row for position, row in self._rows.items() if position >= min(positions)}
            self._rows = kept | dict(zip(missing, made, strict=True))
        return torch.stack([self._rows[position] for position in positions])


def gumbel(seed: int, positions: Sequence[int], vocab: int, device: torch.device | str = "cpu") -> Tensor:
    """Standard Gumbel noise [positions, vocab] in float64: a pure function of (seed, position, token id)."""
    keys = [_signed(mix(mix(seed) + position * GOLDEN)) for position in positions]
    tokens = torch.arange(1, vocab + 1, device=device) * _signed(GOLDEN)
    bits = _mix_tensor(upload(keys, torch.device(device))[:, None] + tokens)
    uniform = (_shift(bits, 12).double() + 0.5) * 2.0**-52  # 52 bits: both ends stay exactly off 0 and 1
    return -torch.log(-torch.log(uniform))


def _mix_tensor(values: Tensor) -> Tensor:
    """`mix` on int64, whose products wrap around on every device."""
    for shift, factor in STAGES:
        values = (values ^ _shift(values, shift)) * _signed(factor)
    return values


def _shift(values: Tensor, bits: int) -> Tensor:
    """Shift int64 right without dragging the sign along."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value
