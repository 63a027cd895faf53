"""What a head's config.json says, read as raw JSON.

`AutoConfig` of current transformers moves `rope_theta` out of the attributes, so that code which asks for it silently
falls back to 10000; the published heads are therefore read without it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

_BY_TRANSFORMERS = ("llama3", "yarn")  # rope types whose frequencies transformers works out
_ROPE_TYPES = ("default", "linear", "dynamic", *_BY_TRANSFORMERS)
_ROPE_NAMES = ("type", "rope_type", "rope_theta", "mrope_section", "partial_rotary_factor")  # no numbers of a type
_NEEDED = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
_OPTIONAL = ("num_key_value_heads", "head_dim", "max_position_embeddings")
_OPTIONAL += ("num_local_experts", "expert_intermediate_size")
_NUMBERS = ("rms_norm_eps", "draft_temperature")
_CHOICES = ("bias", "qkv_bias", "qk_norm")
_SHAPE = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "vocab_size")
_SHAPE += ("max_position_embeddings",)


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """Shape of a one-layer draft head in the published EAGLE and Jakiro layout. Names are those of config.json."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    vocab_size: int
    num_key_value_heads: int = 0  # 0: as many as attention heads
    head_dim: int = 0  # 0: hidden_size / num_attention_heads
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_type: str = "default"  # default, linear, dynamic, llama3 or yarn
    rope_factor: float = 1.0  # of linear and dynamic
    max_position_embeddings: int = 2048  # where dynamic rope scaling sets in
    bias: bool = True  # of fc; where a head is read, this and the next two are what its file has
    qkv_bias: bool = False
    qk_norm: bool = False  # queries and keys are normed, head by head, as Qwen3's are
    num_local_experts: int = 0  # 0: one dense MLP (EAGLE), 2: Jakiro as published
    expert_intermediate_size: int = 0  # inner width of an expert; 0: hidden_size, as published
    draft_temperature: float = 1.0  # default of the setting: what measured best with this head; 1: as published
    rope_numbers: tuple[tuple[str, float | None], ...] = ()  # what config.json says of llama3 or yarn, factor included
    frequencies: tuple[float, ...] = field(default=(), init=False, compare=False, repr=False)  # theirs, [head_dim / 2]
    rope_scale: float = field(default=1.0, init=False, compare=False, repr=False)  # what cos and sin are multiplied by

    def __post_init__(self) -> None:
        if not self.num_key_value_heads:
            object.__setattr__(self, "num_key_value_heads", self.num_attention_heads)
        if not self.expert_intermediate_size:
            object.__setattr__(self, "expert_intermediate_size", self.hidden_size)
        for name in (*_SHAPE, "expert_intermediate_size"):
            if type(value := getattr(self, name)) is not int or not 1 <= value < 2**31:
                raise ValueError(f"{name} must be a whole number of at least 1 and below 2**31, not {value!r}")
        if type(self.head_dim) is not int or not 0 <= self.head_dim < 2**31 or self.head_dim % 2:
            raise ValueError(f"head_dim must be an even whole number below 2**31, not {self.head_dim!r}")
        if not self.head_dim:
            object.__setattr__(self, "head_dim", width_of(self.hidden_size, self.num_attention_heads))
        for name in ("rms_norm_eps", "rope_theta", "rope_factor"):
            if type(value := getattr(self, name)) not in (int, float) or not 0 < value < 1e15:
                raise ValueError(f"{name} must be a number above 0, not {value!r}")
        for one in fields(self):
            if type(one.default) is bool and type(value := getattr(self, one.name)) is not bool:
                raise ValueError(f"{one.name} must be true or false, not {value!r}")
        if not self.head_dim or self.head_dim % 2:
            raise ValueError(f"hidden_size {self.hidden_size} is not {self.num_attention_heads} heads of even width")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(f"{self.num_attention_heads} heads cannot share {self.num_key_value_heads} key heads")
        if self.rope_type not in _ROPE_TYPES:
            raise ValueError(f"rope scaling {self.rope_type!r} is not known to heads; known: {', '.join(_ROPE_TYPES)}")
        if type(count := self.num_local_experts) is not int or count == 1 or not 0 <= count < 1000:
            raise ValueError(f"num_local_experts is {count!r}; a head has none, or 2 to 999")
        if type(self.draft_temperature) not in (int, float) or not 0.1 <= self.draft_temperature <= 10:
            raise ValueError(f"draft_temperature is {self.draft_temperature}; use a number from 0.1 to 10")
        object.__setattr__(self, "draft_temperature", float(self.draft_temperature))
        object.__setattr__(self, "rope_numbers", tuple(map(tuple, self.rope_numbers)))  # lists in a recipe
        if self.rope_type in _BY_TRANSFORMERS:
            shape = self.head_dim, self.max_position_embeddings
            frequencies, scale = _by_transformers(self.rope_type, self.rope_theta, *shape, self.rope_numbers)
            object.__setattr__(self, "frequencies", frequencies)
            object.__setattr__(self, "rope_scale", scale)

    @classmethod
    def from_json(cls, path: str | Path) -> HeadConfig:
        """Read config.json. Raises FileNotFoundError or ValueError, naming the file and the field."""
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls._from_dict(raw)
        except KeyError as error:
            raise ValueError(f"{path} has no {error}: this is not the config.json of a draft head") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def _from_dict(cls, raw: dict[str, Any], **more: Any) -> HeadConfig:
        if not isinstance(raw, dict):
            raise ValueError("it holds no object: this is not the config.json of a draft head")
        if "transformer_layer_config" in raw and raw.get("speculators_model_type") == "eagle3":
            raise ValueError("it is of an EAGLE-3 head: give it as --head eagle3=DIR, and this method one of its own")
        if "transformer_layer_config" in raw:
            raise ValueError("it is in the format of speculators: use a head in the layout of EAGLE or Jakiro")
        rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
        if not isinstance(rope, dict):
            raise ValueError(f"rope scaling is {rope!r}; heads have null, or an object with type and factor")
        if nested := [name for name, one in rope.items() if isinstance(one, dict)]:
            raise ValueError(f"rope scaling is given by kinds of layers ({nested[0]}); heads have one for their layer")
        for name, only in (("num_hidden_layers", 1), ("hidden_act", "silu")):
            if raw.get(name, only) != only:
                raise ValueError(f"{name} is {raw[name]!r}; draft heads of this layout have {only!r}")
        for part in (raw, rope):
            if (share := part.get("partial_rotary_factor")) not in (None, 1):
                raise ValueError(f"partial_rotary_factor is {share!r}; draft heads of this layout turn all numbers")
        type_ = rope.get("rope_type") or rope.get("type") or "default"
        type_ = "default" if type_ == "mrope" else type_  # one position thrice, where there is no picture
        named = {name: one for name, one in rope.items() if name not in _ROPE_NAMES}
        if type_ in ("linear", "dynamic") and (named.keys() != {"factor"} or not named["factor"]):
            raise ValueError(f"rope scaling {type_!r} is of {named}; heads know it with a factor and nothing else")
        more |= {name: raw[name] for name in _NEEDED}
        more |= {name: raw[name] for name in _OPTIONAL if raw.get(name)}  # null and 0: the default
        more |= {name: raw[name] for name in _NUMBERS if name in raw}
        more |= {name: raw[name] for name in _CHOICES if raw.get(name) is not None}
        return cls(
            rope_theta=_given(10000.0, rope.get("rope_theta"), raw.get("rope_theta")),
            rope_type=type_,
            rope_factor=_given(1.0, rope.get("factor")),
            rope_numbers=tuple(named.items()) if type_ in _BY_TRANSFORMERS else (),
            **more,
        )

    def to_json(self) -> str:
        """The config as published heads write it, a one-layer Llama config, and fields of our own where needed."""
        return json.dumps(self._as_dict(), indent=2) + "\n"

    def _as_dict(self) -> dict[str, Any]:
        scaling = None if self.rope_type == "default" else {"type": self.rope_type, "factor": self.rope_factor}
        if self.rope_numbers:
            scaling = {"rope_type": self.rope_type, **dict(self.rope_numbers)}
        raw = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "num_hidden_layers": 1,
            "hidden_act": "silu",
            **{name: getattr(self, name) for name in (*_SHAPE, "rms_norm_eps", "rope_theta")},
            "rope_scaling": scaling,
            "bias": self.bias,
            "qkv_bias": self.qkv_bias,
            "tie_word_embeddings": False,
        }
        if self.num_local_experts:
            raw |= {
                "num_local_experts": self.num_local_experts,
                "num_experts_per_tok": self.num_local_experts,
                "expert_intermediate_size": self.expert_intermediate_size,
            }
        if self.head_dim != width_of(self.hidden_size, self.num_attention_heads):
            raw["head_dim"] = self.head_dim
        if self.qk_norm:
            raw["qk_norm"] = True
        if self.draft_temperature != 1:
            raw["draft_temperature"] = self.draft_temperature
        return raw


def _given(default: float, *found: Any) -> Any:
    """The first that is not null."""
    return next((one for one in found if one is not None), default)


def width_of(hidden: int, heads: int) -> int:
    """Of each head where they share the hidden size; 0 where it does not come out even."""
    return 0 if hidden % heads else hidden // heads


@cache
def _by_transformers(
    rope_type: str, theta: float, dim: int, longest: int, numbers: tuple[tuple[str, float | None], ...]
) -> tuple[tuple[float, ...], float]:
    """Frequencies [dim / 2] and the factor of cos and sin. Raises ValueError where the numbers are not of that type."""
    rope = dict(numbers) | {"rope_type": rope_type, "rope_theta": theta}
    sizes = {"hidden_size": dim, "num_attention_heads": 1, "head_dim": dim, "max_position_embeddings": longest}
    try:
        found, scale = ROPE_INIT_FUNCTIONS[rope_type](LlamaConfig(**sizes, rope_parameters=rope))
    except (KeyError, TypeError, ArithmeticError, StrictDataclassError) as error:
        raise ValueError(f"rope scaling {rope_type!r} cannot be made of {dict(numbers)}: {error!r}") from error
    return tuple(found.tolist()), float(scale)
