"""In which precision training multiplies: bfloat16 where the processor does that itself, float32 elsewhere.

A processor without instructions for bfloat16 emulates them, several times slower than it multiplies in float32.
"""

from __future__ import annotations

import torch


def in_bfloat16(device: torch.device) -> bool:
    """Whether products there are best taken in bfloat16. Weights that are trained, and sums, stay in float32 anyway."""
    return device.type != "cpu" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def product_dtype(device: torch.device) -> torch.dtype:
    """Of weights that are not trained."""
    return torch.bfloat16 if in_bfloat16(device) else torch.float32
