"""What the config.json of an EAGLE-3 head says, in the published layout or in that of vLLM's speculators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .config import HeadConfig

OWN = ("draft_vocab_size", "target_hidden_size")  # what other heads' config.json has not
NORMS = (("norm_before_fc",), ("fc_norm",), ("norm_before_residual",), ("norm_output", "return_hidden_post_norm"))
TOLD = ("by_inputs", "embed_requires_grad")
LAYERS = 3  # whose inputs a head reads where it names none, and that a target has at least
LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
OUTPUTS = "target_layer_ids"  # what DeepSpec's heads have instead: layers whose outputs are read
LAYER = "transformer_layer_config"


@dataclass(frozen=True, slots=True)
class Eagle3Config(HeadConfig):
    """Shape of an EAGLE-3 head; names are those of config.json."""

    bias: bool = False
    draft_vocab_size: int = 0  # tokens that can be drafted; 0: all of vocab_size
    target_hidden_size: int = 0  # width of the target; 0: hidden_size
    reads: tuple[int, ...] = ()  # layers of the target as config.json names them, if it does: see `layers`
    by_inputs: bool = False  # it names those whose inputs are read, whatever they are
    embed_requires_grad: bool = False  # it has an embedding of its own even where it is as wide as the target
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_before_residual: bool = False
    norm_output: bool = False
    window: int = 0  # tokens that its attention was made to see; 0: all. Here it sees all

    def __post_init__(self) -> None:
        usual = {"draft_vocab_size": self.vocab_size, "target_hidden_size": self.hidden_size}
        for name, value in usual.items():
            if type(given := getattr(self, name)) is not int or given < 0:
                raise ValueError(f"{name} must be a whole number of at least 1, not {given!r}")
            object.__setattr__(self, name, given or value)
        HeadConfig.__post_init__(self)
        object.__setattr__(self, "reads", tuple(self.reads))
        if any(type(layer) is not int for layer in self.reads):
            raise ValueError(f"{LAYER_IDS} must be whole numbers, not {list(self.reads)}")
        if self.norm_before_fc and self.fc_norm:
            raise ValueError("norm_before_fc and fc_norm are both true: give a head with one of them")
        if self.draft_vocab_size > self.vocab_size:
            raise ValueError(f"draft_vocab_size is {self.draft_vocab_size}, and vocab_size {self.vocab_size}")
        if self.hidden_size == self.entering_size:
            raise ValueError(
                f"hidden_size is {self.hidden_size}, {self.entering_size // self.target_hidden_size} times "
                "target_hidden_size: the head's own answers cannot be told from the target's features, so give it "
                "another width"
            )

    @property
    def entering_size(self) -> int:
        """Numbers that fc reads of a token: what enters each of the target's layers."""
        return (len(self.reads) or LAYERS) * self.target_hidden_size

    @classmethod
    def _from_dict(cls, raw: dict[str, Any], **more: Any) -> Eagle3Config:
        if not isinstance(raw, dict):
            return super(Eagle3Config, cls)._from_dict(raw)
        if isinstance(layer := raw.get(LAYER), dict):
            if (kind := raw.get("speculators_model_type")) != "eagle3":
                raise ValueError(f"speculators_model_type is {kind!r}: use a head of type 'eagle3'")
            said = {name: value for name, value in raw.items() if name != LAYER and value is not None}
            raw = layer | {"norm_before_residual": True, "by_inputs": True} | said  # what vLLM takes it for
        if raw.get("draft_vocab_size"):  # published ones may have their target's number of layers beside it
            raw = raw | {"num_hidden_layers": 1}  # more than one in the file are refused by their keys
        said = raw.get("eagle_config") or {}  # some heads have these there
        if not isinstance(said, dict):
            raise ValueError(f"eagle_config is {said!r}; heads have null, or an object")
        more = {name: raw[name] or 0 for name in OWN if name in raw}
        more |= {name: raw[name] for name in TOLD if raw.get(name) is not None}
        for name, *others in NORMS:
            given = [part[one] for part in (raw, said) for one in (name, *others) if part.get(one) is not None]
            more[name] = next((one for one in given if type(one) is not bool), any(given))
        if raw.get("layer_types") == ["sliding_attention"] and raw.get("use_sliding_window", True):
            more["window"] = raw.get("sliding_window") or 0
        if False in (raw.get("use_aux_hidden_state"), said.get("use_aux_hidden_state")):
            raise ValueError("use_aux_hidden_state is false: heads that read the last hidden state alone are not known")
        named, outputs = raw.get(LAYER_IDS) or said.get(LAYER_IDS) or [], raw.get(OUTPUTS) or []
        for name, ids in ((LAYER_IDS, named), (OUTPUTS, outputs)):
            if not isinstance(ids, list) or any(type(one) is not int for one in ids):
                raise ValueError(f"{name} must be whole numbers in a list, not {ids!r}")
        if outputs and not named:
            named, more["by_inputs"] = [layer + 1 for layer in outputs], True
        return super(Eagle3Config, cls)._from_dict(raw, reads=tuple(named), **more)

    def _as_dict(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in OWN} | {name: True for name, *_ in NORMS if getattr(self, name)}
        own |= {name: True for name in TOLD if getattr(self, name)}
        if self.reads:
            own[LAYER_IDS] = self.reads
        return super(Eagle3Config, self)._as_dict() | own | {"architectures": ["LlamaForCausalLMEagle3"]}
