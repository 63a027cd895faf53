"""Method settings: frozen dataclasses whose fields carry their own help and range.

A field made by `setting` is one control of the page and one `--set name=value` of the command line. What values it may
take is said once, where the field is declared; `check` holds it at construction and `build` reads text into it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, field, fields, replace
from typing import Any, TypeVar

T = TypeVar("T")
AUTO = "auto"  # value of a setting whose number is to be measured (tuning.py)
_WORDS = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}


def setting(
    default: Any,
    help: str,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] | None = None,
    auto: bool = False,
) -> Any:
    """A dataclass field with one control's worth of description. Its type is the default's: bool, int, float or str.

    `low` and `high` are inclusive bounds of a number, `choices` the only values of a text. With
    `auto` a number may also be AUTO.
    """
    only = tuple(choices) if choices else None
    return field(default=default, metadata={"help": help, "low": low, "high": high, "auto": auto, "choices": only})


def check(settings: Any) -> None:
    """Raise ValueError at the first field that is of the wrong type or outside its range. For `__post_init__`."""
    for one in fields(settings):
        if not _fits(one, value := getattr(settings, one.name)):
            other = f", or {AUTO}" if one.metadata.get("auto") else ""
            raise ValueError(f"{one.name} must be {_allowed(one)}{other}, not {value!r:.40}")


def build(cls: type[T], base: T | None, changes: Mapping[str, Any]) -> T:
    """`base` (None: the class's own defaults) with `changes` applied; values may be text, as a command line gives it.

    Raises ValueError with the remedy: an unknown name lists the known ones, a bad value its allowed range.
    """
    known = {one.name: one for one in fields(cls)}
    for name in changes:
        if name not in known:
            raise ValueError(f"unknown setting {str(name)[:40]!r}; known: {', '.join(known) or 'none'}")
    values = {name: _read(known[name], value) for name, value in changes.items()}
    return replace(cls() if base is None else base, **values)


def autos(settings: Any) -> tuple[str, ...]:
    """Names of the fields that are AUTO."""
    return tuple(one.name for one in fields(settings) if _is_auto(one, getattr(settings, one.name)))


def check_numbers(settings: Any) -> None:
    """Raise ValueError where a number is still to be measured: nothing is drafted with AUTO."""
    if names := autos(settings):
        raise ValueError(f"{names[0]} must be a number here, not {AUTO}: `python -m jakiro tune` finds one")


def written(value: Any) -> str:
    """A setting's value as people write it."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _is_auto(one: Field, value: Any) -> bool:
    return bool(one.metadata.get("auto")) and isinstance(value, str) and value.strip().lower() == AUTO


def _read(one: Field, value: Any) -> Any:
    """The value in the field's own type; what cannot be read is returned as it is, for `check` to refuse."""
    kind = type(one.default)
    if _is_auto(one, value):
        return AUTO
    if isinstance(value, str) and kind is bool:
        return _WORDS.get(value.strip().lower(), value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if (isinstance(value, str) and kind in (int, float)) or (whole and kind is float):
        try:
            return kind(value)
        except (ValueError, OverflowError):
            return value
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)  # sliders deliver floats
    return value


def _fits(one: Field, value: Any) -> bool:
    low, high, choices = (one.metadata.get(name) for name in ("low", "high", "choices"))
    if one.metadata.get("auto") and value == AUTO:
        return True
    if type(value) is not type(one.default):
        return False
    if isinstance(value, (bool, str)):
        return choices is None or value in choices
    finite = isinstance(value, int) or math.isfinite(value)
    return finite and (low is None or value >= low) and (high is None or value <= high)


def _allowed(one: Field) -> str:
    low, high, choices = (one.metadata.get(name) for name in ("low", "high", "choices"))
    if choices:
        return f"one of {', '.join(choices)}"
    if isinstance(one.default, bool):
        return "on or off"
    noun = {int: "a whole number", float: "a finite number", str: "text"}[type(one.default)]
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    if low is not None:
        return f"{noun} of at least {low}"
    return noun if high is None else f"{noun} of at most {high}"
