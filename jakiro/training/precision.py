"""In which precision training multiplies: bfloat16 where the processor does that itself, float32 elsewhere.

A processor without instructions for bfloat16 emulates them, several times slower than it multiplies in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "sdpa_float32"  # its name among transformers' attentions


def in_bfloat16(device: torch.device) -> bool:
    """Whether products there are best taken in bfloat16. Weights that are trained, and sums, stay in float32 anyway."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type != "cpu" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def product_dtype(device: torch.device) -> torch.dtype:
    """Of weights that are not trained."""
    return torch.bfloat16 if in_bfloat16(device) else torch.float32


def quicken(model: PreTrainedModel) -> None:
    """Let `model` take attention in float32 where autocast would take it in bfloat16 on a CPU.

    Torch's kernel is slower there in bfloat16 than in float32, most in the backward pass of short rows.
    """
    if model.device.type == "cpu" and in_bfloat16(model.device):
        AttentionInterface.register(ATTENTION, _attention)
        AttentionMaskInterface.register(ATTENTION, sdpa_mask)
        model.set_attn_implementation(ATTENTION)


def _attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **given: object
) -> tuple[Tensor, None]:
    with torch.autocast("cpu", enabled=False):
        out, _ = sdpa_attention_forward(module, query.float(), key.float(), value.float(), mask, **given)
    return out.to(query.dtype), None
