"""Numbers with as many digits as one sees of them, for shorter JSON."""

from __future__ import annotations

DIGITS = 4  # significant digits of what is only drawn


def rounded(value: float | None, digits: int = DIGITS) -> float | None:
    """The value with few digits, a whole one without a point; an int, like an id, as it is."""
    if value is None or isinstance(value, int):
        return value
    value = float(f"{value:.{digits}g}")
    return int(value) if value.is_integer() else value


def rounded_list(values: list, digits: int = DIGITS) -> list:
    """`rounded` for every value."""
    return [rounded(value, digits) for value in values]
