"""Reading a Hugging Face folder's model and tokenizer, with what is wrong with them in words."""

from __future__ import annotations

from json import JSONDecodeError
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from jinja2 import TemplateError
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AttentionInterface,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from jakiro.models.attention import sdpa
from jakiro.models.checks import ATTENTIONS
from jakiro.programs import replayable

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
DEVICES = ("cpu", "cuda", "mps", "xpu")
# What a chat template raises: its own refusals, and those of what it does with a message.
REFUSED = (TemplateError, TypeError, LookupError, AttributeError, ValueError, ArithmeticError)
# What transformers raises over JSON files of a model that are cut off or say what cannot be.
DAMAGED = (StrictDataclassError, ArithmeticError, KeyError, TypeError, JSONDecodeError)


def load_model(folder: Path, **how: Any) -> PreTrainedModel:
    """The folder's model; `how` is what `from_pretrained` takes.

    Raises ValueError where weights cannot be read, are missing or of another shape: transformers would draw those at
    random and only log it.
    """
    how |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        model, info = AutoModelForCausalLM.from_pretrained(folder, **how)
    except (SafetensorError, UnpicklingError, EOFError, RuntimeError) as error:
        raise ValueError(f"the weights in {folder} cannot be read ({error}): download them again") from error
    except DAMAGED as error:
        raise _damaged(folder, error) from error
    wrong = dict.fromkeys(info["missing_keys"], "is missing")
    wrong |= {key: f"has shape {list(one)}, expected {list(other)}" for key, one, other in info["mismatched_keys"]}
    if wrong:
        key, more = min(wrong), f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise ValueError(
            f"the weights in {folder} do not fit its config.json ({key} {wrong[key]}{more}): download both again"
        )
    return model


def load_tokenizer(folder: Path, template: str | Path | None) -> PreTrainedTokenizerBase:
    """The folder's tokenizer, with the chat template in a file where one is given.

    Raises OSError for a file that cannot be read, ValueError for a template that cannot be used.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except DAMAGED as error:
        raise _damaged(folder, error) from error
    if template is not None:
        tokenizer.chat_template = Path(template).read_text(encoding="utf-8")
    try:
        if tokenizer.chat_template:
            turns = [{"role": "user", "content": "a"}]
            tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    except REFUSED as error:
        where = f"{template or folder} has no chat template that takes a user's turn alone ({error})"
        raise ValueError(f"{where}: give a Jinja file as models have, with --chat-template FILE") from error
    return tokenizer


def _damaged(folder: Path, error: Exception) -> ValueError:
    what = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ValueError(f"no model can be made of {folder} ({what}): download its JSON files again")


def decoder_of(model: PreTrainedModel) -> nn.Module:
    """The part of a model whose last hidden state its output embedding reads.

    For a few models transformers' own search ends at the whole model (Llama 4) or at that embedding (ModernBERT).
    """
    found = model.get_decoder()
    astray = found is model or found is model.get_output_embeddings()
    return getattr(model, "model", found) if astray else found


def choose_kernels(device: torch.device) -> None:
    """Which kernels this process takes attention with from here on: ours where we have any.

    On CUDA not cuDNN's: it plans for every shape anew, and a text has another length in every round.
    """
    AttentionInterface.register("sdpa", sdpa)
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)


def check_request(device: str, dtype: str, attention: str | None = None, compile: bool = False) -> None:
    """Raise ValueError with what would go wrong, before anything is fetched or loaded."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; use one of {', '.join(DTYPES)}")
    if attention not in (None, *ATTENTIONS):
        raise ValueError(f"attention is {attention!r}; use one of {', '.join(ATTENTIONS)}, which take tree masks")
    kind, mark, number = device.partition(":")
    if kind not in DEVICES or (mark and not number.isdigit()):
        raise ValueError(f"device is {device!r}; use one of {', '.join(DEVICES)}, or cuda:1 for the second GPU")
    count = 1 if kind == "cpu" else getattr(torch, kind).device_count()
    if int(number or 0) >= count:
        raise ValueError(f"device is {device!r}, but torch sees {count or 'no'} {kind.upper()} device here; use cpu")
    if compile and not replayable(torch.device(device)):
        raise ValueError(f"only CUDA graphs are compiled, and {kind} has none: leave out --compile")
