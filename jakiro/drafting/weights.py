"""Head checkpoints: read strictly, written in the published layout.

A head that loads with a key left out is not an error that shows: decoding stays lossless and is merely slow. So every
key and shape must fit, and what does not is named. Only `embed_tokens.weight` is free to be there or not: it is a copy
of the target's own embedding, and where it is not, the head was made for another target; and of an EAGLE-3 head for all
of the target's vocabulary its output, in whose place the target's is taken (`eagle3_head.py`).
"""

from __future__ import annotations

import logging
import pickle
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from jakiro.files import WEIGHT_FILES, refilling
from jakiro.models.hub import check_fetched, check_shards, signed
from jakiro.models.loading import Sizes
from jakiro.target import Target

from .config import HeadConfig
from .head import EagleHead, Head, JakiroHead
from .sizes import TreeSettings, sizes

LOG = logging.getLogger(__name__)
EMBEDDING = "embed_tokens.weight"
SAMPLE = 1024  # rows of an embedding that are compared
PADDED = 0.01  # of a target's tokens may be more or fewer in a head's config.json: added ones, or none
ALIKE = 0.99  # cosine of a row and its copy, at least
SHARD_BYTES = 15 * 2**20 - 2**16  # files of at most 15 MiB, header included

_ROUTER = "layers.0.mlp_moe.gate.weight"
_EXPERT = "layers.0.mlp_moe.experts.0"
_QUERY = "layers.0.self_attn.q_proj.weight"
_OTHER = "layers.0."  # what an EAGLE-3 head's layer is called in some files
_KINDS: dict[type[Head], str] = {EagleHead: "EAGLE", JakiroHead: "Jakiro"}
H = TypeVar("H", bound=Head)
C = TypeVar("C", bound=HeadConfig)


def load_head(folder: str | Path, target: Target, kind: type[H] = Head) -> H:
    """The head in `folder`, in the target's dtype and on its device, ready to decode.

    Reads config.json and model.safetensors or pytorch_model.bin, or the shards of either. Raises FileNotFoundError or
    ValueError, naming the file, key or shape that does not fit, also where the head is not of the class `kind`.
    """
    folder = Path(folder)
    target.check_heads()
    config = read_config(folder, target, HeadConfig)
    tensors = head_tensors(folder)
    drop_copy(tensors, target, folder)
    cls = _class_of(tensors, folder)
    if not issubclass(cls, kind):
        raise ValueError(f"{folder} holds a head of kind {_KINDS[cls]}; this method needs one of kind {_KINDS[kind]}")
    if cls is JakiroHead:
        config = replace(config, num_local_experts=len(tensors[_ROUTER]) // 2)
    if cls is JakiroHead and f"{_EXPERT}.gate_proj.weight" in tensors:
        config = replace(config, expert_intermediate_size=len(tensors[f"{_EXPERT}.gate_proj.weight"]))
    if len(tensors.get(_QUERY, ())) == config.hidden_size:
        config = replace(config, head_dim=0)  # EAGLE's first code divides, whatever config.json says
    config = replace(config, **extras(tensors))
    with torch.device("meta"):
        head = cls(config)
    check_keys(head.state_dict(), tensors, config, folder)
    tensors = {key: tensor.to(target.device, target.dtype) for key, tensor in tensors.items()}
    head.load_state_dict(tensors, assign=True)
    return head.eval().requires_grad_(False)


def load_weights(head: Head, tensors: dict[str, Tensor], folder: Path) -> None:
    """Put weights that were read from `folder` into a head. Raises ValueError naming what does not fit."""
    check_keys(head.state_dict(), tensors, head.config, folder)
    head.load_state_dict(tensors)


def save_head(folder: str | Path, module: Head) -> None:
    """Write config.json and safetensors, sharded as Hugging Face does where large.

    A head that was there before stays until both are written.
    """
    tensors = {key: tensor.detach().contiguous() for key, tensor in module.state_dict().items()}
    with refilling(folder, WEIGHT_FILES) as new:
        (new / "config.json").write_text(module.config.to_json(), encoding="utf-8")
        save_torch_state_dict(tensors, new, max_shard_size=SHARD_BYTES)


def own_tensors(folder: Path, head: nn.Module) -> dict[str, Tensor]:
    """As `head_tensors`, but for the copy of the target's embedding that one like `head` may bring, which has none."""
    kept = head.state_dict()
    return {key: one for key, one in head_tensors(folder).items() if key != EMBEDDING or key in kept}


def drop_copy(tensors: dict[str, Tensor], target: Target, folder: Path) -> None:
    """Take the copy of the target's embedding out of a head's tensors, with a warning where it is none."""
    if why := foreign(tensors.pop(EMBEDDING, None), target):
        LOG.warning("%s: %s", folder, why)


def foreign(copy: Tensor | None, target: Target) -> str:
    """Why a head's copy of the target's embedding, [vocab, hidden], is another model's; "" where it is not, or is none.

    Judged by the median cosine of a sample of rows: some are of tokens that no text has.
    """
    if copy is None:
        return ""
    own = target.model.get_input_embeddings().weight
    if copy.shape[1:] != own.shape[1:]:
        return f"its copy of the embedding has shape {list(copy.shape)}: was it made for {target.name}?"
    rows = torch.linspace(0, min(len(copy), len(own)) - 1, SAMPLE).long()
    pairs = copy[rows].float(), own[rows.to(own.device)].float().cpu()
    if (cosine := torch.cosine_similarity(*pairs, dim=-1).median().item()) > ALIKE:
        return ""
    return f"its copy of the embedding is another model's (cosine {cosine:.2f}): was it made for {target.name}?"


def head_tensors(folder: Path) -> dict[str, Tensor]:
    """As `read_tensors`, by their published keys: without the prefixes of what a head was wrapped in when it was saved,
    and without rotary frequencies, which config.json gives."""
    found = {key: one for key, one in read_tensors(folder).items() if not key.endswith("rotary_emb.inv_freq")}
    for prefix in ("module.", "model."):
        bare = {key.removeprefix(prefix): one for key, one in found.items()}  # of some keys: an output has none
        found = bare if len(bare) == len(found) else found
    if f"{_OTHER}hidden_norm.weight" in found:
        found = {key.replace(_OTHER, "midlayer.", 1): one for key, one in found.items()}
    return found


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a checkpoint folder by key, on the CPU. Raises FileNotFoundError or ValueError with the file."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return _read_file(folder / name)
        if index.is_file():
            return {key: tensor for shard in check_shards(index) for key, tensor in _read_file(folder / shard).items()}
    raise FileNotFoundError(f"{folder} has neither model.safetensors nor pytorch_model.bin")


def _read_file(path: Path) -> dict[str, Tensor]:
    check_fetched(path)
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, LookupError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); download it again") from error
    if not isinstance(tensors, dict) or not all(isinstance(one, Tensor) for one in tensors.values()):
        raise ValueError(f"{path} does not hold tensors by name; save the head's state_dict() in it")
    return dict(tensors)


def read_config(folder: Path, target: Target | Sizes, kind: type[C]) -> C:
    """The head's config.json, with the target's vocabulary where that is padded otherwise.

    Raises FileNotFoundError, or ValueError where it was made for a target of other sizes.
    """
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} has no config.json: give a folder that holds a draft head")
    config = kind.from_json(folder / "config.json")
    features = getattr(config, "target_hidden_size", config.hidden_size)  # width of what it reads of the target
    own, has = getattr(config, "draft_vocab_size", 0), target.vocab_size or 0
    if own < min(config.vocab_size, has) and abs(config.vocab_size - has) <= PADDED * has:
        config = replace(config, vocab_size=has)
    for name, made_for in (("hidden_size", features), ("vocab_size", config.vocab_size)):
        if (has := getattr(target, name)) not in (None, made_for):
            who = target.name or "this one"
            raise ValueError(f"the head in {folder} was made for a target of {name} {made_for}; {who} has {has}")
    return config


def _class_of(tensors: dict[str, Tensor], folder: Path) -> type[Head]:
    """Which head the keys describe (released Jakiro and Jakiro* checkpoints differ only here)."""
    if any(key.endswith(".hidden_norm.weight") for key in tensors):  # of `midlayer` or `layers.0`
        raise ValueError(
            f"{folder} holds an EAGLE-3 head: give it as --head eagle3=DIR, and this method one of its own"
        )
    if _ROUTER not in tensors:
        return EagleHead
    rows = len(tensors[_ROUTER])
    if rows == 2:
        raise ValueError(f"{folder} holds a Jakiro* head (router of 2 rows), which is not supported; use a Jakiro head")
    if rows % 2:
        raise ValueError(f"{folder}: {_ROUTER} has {rows} rows; a Jakiro head has two for each expert")
    if f"{_EXPERT}.fc.weight" in tensors:
        raise ValueError(f"{folder} has GELU experts ({_EXPERT}.fc.weight), which are not supported; SwiGLU ones are")
    return JakiroHead


def extras(tensors: dict[str, Tensor]) -> dict[str, bool]:
    """Which biases a head has, and whether queries and keys are normed, as its config would say it: that of a published
    one does not always. Attention has all three biases or none."""
    ends = {"qkv_bias": tuple(f"self_attn.{name}_proj.bias" for name in "qkv"), "qk_norm": "self_attn.q_norm.weight"}
    own = {name: any(key.endswith(end) for key in tensors) for name, end in ends.items()}
    return {"bias": "fc.bias" in tensors, **own}


def check_keys(expected: dict[str, Tensor], found: dict[str, Tensor], config: HeadConfig, folder: Path) -> None:
    """Raise ValueError where the tensors found differ from those expected, naming each key and shape."""
    problems = [f"{key} is missing" for key in expected if key not in found]
    problems += [f"{key} is not expected" for key in found if key not in expected]
    problems += [
        f"{key} has shape {list(found[key].shape)}, expected {list(tensor.shape)}"
        for key, tensor in expected.items()
        if key in found and found[key].shape != tensor.shape
    ]
    if problems:
        raise ValueError(f"the head in {folder} (hidden size {config.hidden_size}) does not fit: {'; '.join(problems)}")


class OnHead:
    """What methods with a draft tree from a trained head have in common (`methods.Method`)."""

    name: str
    settings: type[TreeSettings]
    head: type[nn.Module]
    levels: int = 6  # of a draft on a GPU, if nothing else is asked for
    needs: str = ""  # in words; "": a head of its name

    def defaults(self, target: Target) -> TreeSettings:
        """What suits the target's device and the head. Raises as `HeadConfig.from_json` does."""
        config = self.head.Config.from_json(self.folder(target) / "config.json")
        return self.settings(**sizes(target.device, self.levels), draft_temperature=config.draft_temperature)

    def unavailable(self, target: Target) -> str:
        if self.name in target.heads:
            return ""
        where = f"put one into the target's folder as {self.name}/, or pass --head {self.name}=DIR"
        return f"no {self.needs or f'{self.name} head'} for this target: {where}"

    def folder(self, target: Target) -> Path:
        """Of the target's head, or of what stands for one. Raises ValueError where it has none."""
        if why := self.unavailable(target):
            raise ValueError(why)
        return Path(target.heads[self.name])

    def opened(self, target: Target) -> Path:
        """The folder, which is read now: traces will name what it holds. Raises as `folder` does."""
        folder = self.folder(target)
        target.drafters[folder] = signed(folder)
        return folder
