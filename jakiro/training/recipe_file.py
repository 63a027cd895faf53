"""Recipes as JSON files, whose mistakes are said with the file and the field."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def read(path: Path, of: Callable[[dict[str, Any]], T], what: str) -> T:
    """What `of` makes of a JSON file that holds `what`. Raises OSError, or ValueError naming the file and the field."""
    text = path.read_text(encoding="utf-8")
    try:
        return of(json.loads(text))
    except KeyError as error:
        raise ValueError(f"{path} is not {what}: it has no {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is not {what}: {error}") from error


def check_positive(made: object, *names: str) -> None:
    """Raise ValueError at the first of the fields that is no whole number of at least 1."""
    for name in names:
        value = getattr(made, name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}: use a whole number of at least 1")


def check_numbers(made: object, *names: str, low: float = 0.0, high: float = math.inf) -> None:
    """Raise ValueError at the first of the fields that is no finite number from `low` to `high`; of a tuple, each."""
    for name in names:
        value = getattr(made, name)
        for one in value if isinstance(value, tuple) else (value,):
            if not isinstance(one, int | float) or not math.isfinite(one) or not low <= one <= high:
                at_most = f" and at most {high:g}" if math.isfinite(high) else ""
                at_least = f" of at least {low:g}" if math.isfinite(low) else ""
                raise ValueError(f"{name} is {value!r}: use a number{at_least}{at_most}")
