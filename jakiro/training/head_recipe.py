"""What a run of head training is made of, and the shape of the heads that it begins with."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

from torch import nn
from transformers import PreTrainedModel

from jakiro.drafting.config import HeadConfig
from jakiro.drafting.eagle3_head import Eagle3Head
from jakiro.drafting.head import Head
from jakiro.methods import METHODS, on_heads
from jakiro.training import recipe_file
from jakiro.training.answers import Answers
from jakiro.training.losses import Losses
from jakiro.training.packing import row_widths
from jakiro.training.sources import Source
from jakiro.training.trial import Trial

KINDS: dict[str, type[Head | Eagle3Head]] = {name: METHODS[name].head for name in on_heads((Head, Eagle3Head))}


@dataclass(frozen=True, slots=True)
class Plan:
    """One head of a recipe."""

    kind: str
    shape: dict  # fields of its config that differ from the target's
    losses: Losses
    seed: int | None = None  # of the weights that it begins with; None: the recipe's


@dataclass(frozen=True, slots=True)
class HeadRecipe:
    """Everything a run of head training is made of, read from JSON."""

    steps: int
    row: int  # tokens in a row
    rows: int  # rows in a step
    mix: list[Source]
    heads: dict[str, Plan]  # name -> head; a name that is no kind needs `kind`
    scored: int  # positions of a step at which logits are compared, drawn among what the assistant says
    short: tuple[int, ...] = ()  # narrower rows, for documents that fit in them: attention costs less there
    answers: Answers | None = None  # train on the target's own answers to the mix's prompts, instead of on its text
    epochs: int = 1  # times that each row is seen
    remember: float = 8.0  # GiB of host memory per process for the target's features; rows beyond are read anew
    passes: int = 1  # levels of a draft that are unrolled
    decay: float = 1.0  # weight of a pass's losses over those of the pass before
    noise: float = 0.1  # half-width of the uniform noise on input features; the release's falls as texts get longer
    own_features: float = 0.0  # share of the first pass's input features that are the head's own predictions
    average: float = 0.0  # decay of the moving average of the weights that is kept, at most (1 + n) / (10 + n) after n
    # steps, so that the first ones are forgotten; 0 keeps the last weights
    rate: float = 0.5  # of the optimizer's base learning rates, at its highest; it falls to a twentieth of that
    schedule: str = "cosine"  # how it falls, or linear
    trial: Trial | None = None  # decode held-out prompts now and then
    seed: int = 0
    dtype: str = "float16"  # of the weights as they are written
    note: str = ""  # for the model card

    @classmethod
    def read(cls, path: Path) -> HeadRecipe:
        """Raises OSError, or ValueError naming the file and the field that is unknown or missing."""
        return recipe_file.read(path, cls.of, "a recipe of heads")

    @classmethod
    def of(cls, data: dict) -> HeadRecipe:
        """From JSON's types. `losses` of the recipe hold for every head, and a head's own come on top.

        Raises TypeError, KeyError or ValueError naming the field that is unknown, missing or wrong.
        """
        data = dict(data)
        mix = [Source.of(source) for source in data.pop("mix", [])]
        common = data.pop("losses", {})
        heads = {name: _plan(name, dict(one), common) for name, one in data.pop("heads").items()}
        if how := data.pop("answers", None):
            how = {**how, "temperatures": tuple(how["temperatures"])}
            data["answers"] = recipe_file.made(Answers, how, "`answers`")
        if how := data.pop("trial", None):
            data["trial"] = recipe_file.made(Trial, how, "`trial`")
        if not heads:
            raise ValueError("`heads` is empty: name at least one")
        if "step" in heads:  # as a checkpoint calls how far it is
            raise ValueError("a head is called 'step': give it another name")
        if odd := [name for name in heads if not re.fullmatch(r"\w[\w.-]*", name)]:
            raise ValueError(f"a head is called {odd[0]!r}, which names its folder: use letters, digits, _, . and -")
        own = {"mix": mix, "heads": heads, "short": tuple(data.pop("short", ()))}
        found = recipe_file.made(cls, data | own, "the recipe")
        recipe_file.check_positive(found, "steps", "row", "rows", "scored", "epochs", "passes")
        recipe_file.check_numbers(found, "remember", "decay", "noise", "rate")
        recipe_file.check_numbers(found, "own_features", "average", high=1.0)
        if found.average == 1:
            raise ValueError("average is 1, which keeps the weights after the first step: use a number below 1")
        if found.steps < found.epochs:
            raise ValueError(f"steps is {found.steps}, and each row is seen {found.epochs} times: lower `epochs`")
        recipe_file.check_seed(found)
        row_widths(found.row, found.short)
        if found.answers:
            recipe_file.check_positive(found.answers, "new_tokens", "batch")
            recipe_file.check_numbers(found.answers, "temperatures")
            if not found.answers.temperatures:
                raise ValueError("temperatures is empty: name at least one; 0 is greedy")
            if (asked := found.answers.new_tokens) >= found.row:
                raise ValueError(f"answers of {asked} tokens leave no room for prompts in rows of {found.row}")
        if found.trial:
            recipe_file.check_positive(found.trial, *Trial.__slots__)
        return found


def _plan(name: str, one: dict, common: dict) -> Plan:
    kind, weights = one.pop("kind", name), {**common, **one.pop("losses", {})}
    losses = recipe_file.made(Losses, weights, "`losses`")
    recipe_file.check_numbers(losses, *Losses.__slots__, low=-recipe_file.LARGEST)
    seed = one.pop("seed", None)
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**63):
        raise ValueError(f"seed of head {name!r} is {seed!r}; use a whole number of at least 0")
    one = {**one.pop("shape", {}), **one}  # as a run writes it beside the weights
    if kind not in KINDS:
        raise ValueError(f"head {name!r} of the recipe is of kind {kind!r}; known: {', '.join(KINDS)}")
    if unknown := one.keys() - {field.name for field in fields(KINDS[kind].Config) if field.init}:
        raise ValueError(f"head {name!r} of the recipe has an unknown field {min(unknown)!r}")
    if one.get("embed_requires_grad"):
        raise ValueError(f"head {name!r} has embed_requires_grad, an embedding that is not trained: leave that out")
    return Plan(kind, one, losses, seed)


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
        if any(name in str(error) for name in changes):
            raise ValueError(f"{error}: change that in the recipe, at its head") from error
        own = "num_attention_heads, num_key_value_heads and intermediate_size"
        raise ValueError(f"{error}, as {target} has it: say {own} in the recipe, at each head") from error
