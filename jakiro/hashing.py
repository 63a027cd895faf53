"""The hash that the noise of sampling comes from (noise.py), on whole numbers: for what does without tensors."""

from __future__ import annotations

import math

GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, the increment of splitmix64
STAGES = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))  # splitmix64's xor shifts and multipliers


def mix(value: int) -> int:
    """The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014) on 64 bits."""
    for shift, factor in STAGES:
        value = (value ^ (value & 2**64 - 1) >> shift) * factor & 2**64 - 1
    return value


def gumbel_of(seed: int, position: int, token: int) -> float:
    """One number of `noise.gumbel`, up to rounding."""
    bits = mix(mix(mix(seed) + position * GOLDEN) + (token + 1) * GOLDEN)
    return -math.log(-math.log(((bits >> 12) + 0.5) * 2.0**-52))
