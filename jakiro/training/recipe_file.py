"""Recipes as JSON files, whose mistakes are said with the file and the field."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from jakiro.models.loading import DTYPES

T = TypeVar("T")
LARGEST = 1e15  # number; float32 and int64 hold it
SEEDS = 10**12  # that are taken; a million times as many are seeds of torch still


def read(path: Path, of: Callable[[dict[str, Any]], T], what: str) -> T:
    """What `of` makes of a JSON file that holds `what`. Raises OSError, or ValueError naming the file and the field."""
    try:
        made = of(json.loads(path.read_text(encoding="utf-8-sig")))
        check_types(made)
        return made
    except KeyError as error:
        raise ValueError(f"{path} is not {what}: it has no {error}") from error
    except (TypeError, AttributeError) as error:
        odd = "a part of it is of another kind than belongs there, as a list in place of an object"
        raise ValueError(f"{path} is not {what}: {odd} ({error})") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not {what}: {error}") from error


def made(kind: type[T], given: Any, what: str) -> T:
    """A dataclass from a JSON object. Raises ValueError saying what of `what` is unknown, missing or refused."""
    if not isinstance(given, dict):
        raise ValueError(f"{what} is {given!r}, expected an object with {', '.join(one.name for one in fields(kind))}")
    known = {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(kind)}
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"{what} has the unknown field {unknown[0]!r}; known are {', '.join(known)}")
    if missing := [name for name, needed in known.items() if needed and name not in given]:
        raise ValueError(f"{what} has no {missing[0]!r}")
    try:
        return kind(**given)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def check_types(made: object) -> None:
    """Raise ValueError at the first field of a dataclass, or of one within it, whose value is not of the field's type.

    Strictly: no text for a number, no `true` for 1, no 2.0 for a whole number.
    """
    for name, kind in get_type_hints(type(made)).items():
        value = getattr(made, name)
        try:
            _adapter(kind).validate_python(value, strict=True)
        except ValidationError as error:
            what = error.errors()[0]["msg"].removeprefix("Input should be ")
            raise ValueError(f"{name} is {value!r}: it should be {what}") from error
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        for part in parts:
            for one in part if isinstance(part, list) else [part]:  # a mix among mixes
                if is_dataclass(one):
                    check_types(one)


@cache
def _adapter(kind: Any) -> TypeAdapter:
    return TypeAdapter(kind)


def check_positive(made: object, *names: str) -> None:
    """Raise ValueError at the first of the fields that is no whole number of at least 1."""
    for name in names:
        value = getattr(made, name)
        if type(value) is not int or not 1 <= value <= LARGEST:
            raise ValueError(f"{name} is {value!r}: use a whole number of at least 1")


def check_numbers(made: object, *names: str, low: float = 0.0, high: float = LARGEST) -> None:
    """Raise ValueError at the first of the fields that is no number from `low` to `high`; of a tuple, each."""
    for name in names:
        value = getattr(made, name)
        for one in value if isinstance(value, tuple) else (value,):
            if type(one) not in (int, float) or not low <= one <= high:
                raise ValueError(f"{name} is {value!r}: use a number of at least {low:g} and at most {high:g}")


def check_seed(made: Any) -> None:
    """Raise ValueError where the field `seed` is none from which each step's own seed can be made for torch."""
    if type(made.seed) is not int or not 0 <= made.seed < SEEDS:
        raise ValueError(f"seed is {made.seed!r}; use a whole number of at least 0 and below {SEEDS}")


def check_dtype(dtype: str) -> None:
    """Raise ValueError for a dtype that weights cannot be written in."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype of the recipe is {dtype!r}; use one of {', '.join(DTYPES)}")
