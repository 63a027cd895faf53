"""The shape of a head that is to be trained."""

from __future__ import annotations

from dataclasses import MISSING, fields

from torch import nn
from transformers import PreTrainedModel

from jakiro.drafting.config import HeadConfig
from jakiro.training.head_recipe import KINDS, Plan


def new_head(model: PreTrainedModel, plan: Plan) -> nn.Module:
    """A head of random weights. Raises ValueError as `head_config` does."""
    kind = KINDS[plan.kind]
    return kind(head_config(model, plan.shape, kind.Config))


def head_config(model: PreTrainedModel, changes: dict, kind: type[HeadConfig] = HeadConfig) -> HeadConfig:
    """The shape of one of the target's own layers where the recipe names no other; rope scaling is left out.

    Raises ValueError naming what neither of them says, and where the recipe says what the target alone decides.
    """
    config = model.config.get_text_config()  # whose attributes have common names, whatever its file calls them
    names = [one.name for one in fields(kind) if one.init and one.name not in ("num_local_experts", "bias", "head_dim")]
    shape = {name: getattr(config, name) for name in names if getattr(config, name, None) is not None}
    if theta := (getattr(config, "rope_parameters", None) or {}).get("rope_theta"):
        shape["rope_theta"] = theta
    shape, target = shape | changes, f"a target of type {config.model_type}"
    if missing := [one.name for one in fields(kind) if one.default is MISSING and one.name not in shape]:
        raise ValueError(f"{target} does not say {missing[0]}: say it in the recipe, at each head")
    for name in ("hidden_size", "vocab_size", "target_hidden_size"):
        if name in shape and shape[name] != (has := getattr(config, name.removeprefix("target_"), shape[name])):
            raise ValueError(f"{name} of a head is {shape[name]} in the recipe, and {has} of the target: leave it out")
    try:
        return kind(**shape)
    except ValueError as error:
        own = "num_attention_heads, num_key_value_heads and intermediate_size"
        raise ValueError(f"{error}, as {target} has it: say {own} in the recipe, at each head") from error
