"""Reading a Hugging Face folder's model and tokenizer, with what is wrong with them in words."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    AttentionInterface,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

from jakiro.memory import out_of_memory
from jakiro.models.attention import sdpa
from jakiro.models.checks import ATTENTIONS, REMEDY
from jakiro.models.hub import place
from jakiro.programs import replayable
from jakiro.text import as_turn, begins, with_system

LOG = logging.getLogger(__name__)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
NORMS = ("norm", "final_layernorm", "final_layer_norm", "ln_f")  # names of a decoder's last norm
RECURRENT = ("linear_attention", "conv", "hybrid", "hybrid_sliding")  # kinds of layers in a config
COMPRESSED = ("indexed_attention", "compressed_sparse_attention", "heavily_compressed_attention")  # DeepSeek's
DEVICES = ("cpu", "cuda", "mps", "xpu")
# What transformers raises over JSON files of a model that are cut off or say what cannot be.
DAMAGED = (
    StrictDataclassError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, JSONDecodeError,
    RecursionError,
)  # fmt: skip
MOST_LAYERS = 10_000  # of a number beyond it transformers would make as many
FOREIGN = ("trust_remote_code", "does not recognize this architecture")  # in what it says of a repository's own code


class Sizes(NamedTuple):
    """What a head must fit of its target, under the names of `jakiro.target.Target`; None: config.json does not say."""

    name: str
    hidden_size: int | None
    vocab_size: int | None


def load_model(folder: Path, **how: Any) -> PreTrainedModel:
    """The folder's model; `how` is what `from_pretrained` takes. One that takes pictures, too, is read whole.

    Raises ValueError where transformers has no such model or needs other packages for it, and where weights cannot be
    read, are missing or of another shape: transformers would draw those at random and only log it.
    """
    how |= {"output_loading_info": True, "ignore_mismatched_sizes": True, "trust_remote_code": False}
    try:
        with _in_words(folder):
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            if config._attn_implementation not in ATTENTIONS:  # flash attention, say, which takes no trees
                config._attn_implementation = how.get("attn_implementation")
            _check_quantized(folder, config)
            model, info = _reader(folder, config).from_pretrained(folder, config=config, **how)
    except (SafetensorError, UnpicklingError, EOFError, RuntimeError) as error:
        if out_of_memory(error):
            raise
        raise ValueError(f"the weights in {folder} cannot be read ({error}): download them again") from error
    wrong = dict.fromkeys(info["missing_keys"], "is missing")
    wrong |= {key: f"has shape {list(one)}, expected {list(other)}" for key, one, other in info["mismatched_keys"]}
    if wrong:
        key, more = min(wrong), f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise ValueError(
            f"the weights in {folder} do not fit its config.json ({key} {wrong[key]}{more}): download both again"
        )
    return model


def _check_quantized(folder: Path, config: PreTrainedConfig) -> None:
    """Raise ValueError for quantized weights that transformers has no reader of, as MLX's: it would draw others."""
    said = getattr(config, "quantization_config", None) or getattr(config, "quantization", None) or {}
    kind = said.get("quant_method", "without a quant_method")
    if said and kind not in AUTO_QUANTIZATION_CONFIG_MAPPING and not {"load_in_4bit", "load_in_8bit"} & said.keys():
        remedy = "use the model's weights as they are without quantization"
        raise ValueError(f"{folder} is quantized in a way that transformers does not read ({kind}): {remedy}")


def check_layers(folder: Path) -> None:
    """Raise ValueError, before weights are read, where config.json has layers that `checks.measure` would refuse."""
    kinds = getattr(_text_config(folder), "layer_types", None) or ()
    if found := next((kind for kind in RECURRENT + COMPRESSED if kind in kinds), None):
        raise ValueError(f"{folder} has {found} layers, whose states cannot take back a rejected token; {REMEDY}")


def sizes(folder: Path) -> Sizes:
    """Of the model in a folder, whose weights are not read."""
    config = _text_config(folder)
    return Sizes(place(folder), *(getattr(config, name, None) for name in ("hidden_size", "vocab_size")))


def _text_config(folder: Path) -> PreTrainedConfig:
    with _in_words(folder):
        return AutoConfig.from_pretrained(folder, trust_remote_code=False).get_text_config(decoder=True)


def alike(model: PreTrainedModel) -> dict[str, Any]:
    """How to load another model with the attention of this one, where that is eager: the other may need it, too."""
    eager = getattr(model.config, "_attn_implementation", None) == "eager"
    return {"attn_implementation": "eager"} if eager else {}


def _reader(folder: Path, config: PreTrainedConfig) -> type:
    layers = getattr(config.get_text_config(decoder=True), "num_hidden_layers", 1)
    if not isinstance(layers, int) or not 0 < layers <= MOST_LAYERS:
        raise ValueError(f"{folder}/config.json has a num_hidden_layers of {layers!s:.40}: mend it")
    if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
        return AutoModelForCausalLM
    if type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return AutoModelForImageTextToText
    raise ValueError(f"{folder} holds a model of type {config.model_type}, which writes no text by itself: use another")


def read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The folder's tokenizer as it is, whatever its chat template. Raises ValueError for a damaged one."""
    try:
        with _in_words(folder):
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except UnicodeDecodeError as error:
        raise ValueError(f"a file of the tokenizer in {folder} is not UTF-8 ({error}): download it again") from error
    if type(longest := tokenizer.model_max_length) not in (int, float):
        raise ValueError(f"{folder}/tokenizer_config.json has a model_max_length of {longest!r}: make it a number")
    return tokenizer


def load_tokenizer(folder: Path, template: str | Path | None, system: str | None = None) -> PreTrainedTokenizerBase:
    """The folder's tokenizer, with the chat template in a file, and with a system message in it, where they are given.

    Raises OSError for a file that cannot be read, ValueError for a template or message that cannot be used.
    """
    try:
        tokenizer = read_tokenizer(folder)
        if template is not None:
            tokenizer.chat_template = Path(template).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"the chat template of {template or folder} is not UTF-8: write it again as that") from error
    try:
        if template is not None and not tokenizer.chat_template.strip():
            raise ValueError("the file is empty: give a chat template, or leave out --chat-template")
        if system is not None:
            tokenizer.chat_template = with_system(tokenizer, system)
        text, other = (as_turn(tokenizer, one) if tokenizer.chat_template else "" for one in ("a", "b"))
        if text and text == other:
            raise ValueError(
                "the chat template leaves out what the user says, which is in `messages`; give another with "
                "--chat-template FILE"
            )
    except ValueError as error:
        raise ValueError(f"{template or folder}: {error}") from error
    if template and tokenizer.chat_template and begins(tokenizer) and tokenizer.bos_token not in text:
        said = "%s writes no %s, with which this model's texts begin: put {{ bos_token }} first in it"
        LOG.warning(said, template, tokenizer.bos_token)
    return tokenizer


@contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    """What transformers raises over a folder's files, as a ValueError with the remedy."""
    try:
        yield
    except ImportError as error:
        remedy = "install it, or use the model's weights as they are without quantization"
        raise ValueError(f"{folder} needs another package ({one_line(error)}): {remedy}") from error
    except DAMAGED as error:
        what = f"{type(error).__name__}: {one_line(error)}"
        raise ValueError(f"no model can be made of {folder} ({what}): download its JSON files again") from error
    except ValueError as error:
        if not any(part in str(error) for part in FOREIGN):
            raise
        what, remedy = one_line(error).partition(". ")[0], "only architectures of transformers itself can be targets"
        raise ValueError(f"{folder} cannot be read ({what}): {remedy}") from error


def one_line(error: Exception) -> str:
    """What an error says in several lines."""
    return " ".join(str(error).split())


def decoder_of(model: PreTrainedModel) -> nn.Module:
    """The part of a model whose last hidden state its output embedding reads.

    For a few models transformers' own search ends at the whole model (Llama 4) or at that embedding (ModernBERT).
    """
    found = model.get_decoder()
    astray = found is model or found is model.get_output_embeddings()
    return getattr(model, "model", found) if astray else found


def last_norm(decoder: nn.Module) -> nn.Module | None:
    """The norm between a decoder's last layer and the output embedding; None where it is not known by name."""
    return next((getattr(decoder, name) for name in NORMS if hasattr(decoder, name)), None)


def entered(decoder: nn.Module, layer: int) -> nn.Module:
    """A layer of a decoder, or, as the one after the last, its final norm."""
    return [*decoder.layers, last_norm(decoder)][layer]


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
    kind, mark, number = str(device).partition(":")
    if kind not in DEVICES or (mark and not number.isdecimal()):
        raise ValueError(f"device is {device!r}; use one of {', '.join(DEVICES)}, or cuda:1 for the second GPU")
    count = 1 if kind == "cpu" else getattr(torch, kind).device_count()
    if int(number or 0) >= count:
        raise ValueError(f"device is {device!r}, but torch sees {count or 'no'} {kind.upper()} device here; use cpu")
    if kind == "mps" and dtype == "float64":
        raise ValueError("an MPS device has no float64: use float32")
    if compile and kind == "cuda" and dtype == "bfloat16" and not torch.cuda.is_bf16_supported(False):
        raise ValueError("this GPU emulates bfloat16, which torch.compile leaves as it is: use float16 or float32")
    if compile and not replayable(torch.device(device)):
        raise ValueError(f"only CUDA graphs are compiled, and {kind} has none: leave out --compile")
