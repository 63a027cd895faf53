"""Recipes as JSON files, whose mistakes are said with the file and the field."""

from __future__ import annotations

import json
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
