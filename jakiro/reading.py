"""Fields of a trace's JSON, checked one by one: what is wrong is named with its place and what to do."""

from __future__ import annotations

import json
import math
import re
from typing import Any

LARGEST = 2**53  # of whole numbers: beyond it JSON's readers do not agree
HUGE = 1e100  # of other numbers: far beyond it their sums are infinite
LIMITS = {int: LARGEST, float: HUGE}
NAMES = {
    int: "a whole number of at most 2^53",
    float: "a number of at most 1e100",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
ROUNDING = 1e-6
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair: it stands for no character, and cannot be sent


class TraceError(ValueError):
    """A trace that cannot be used; the message says where it is wrong and what to do."""


def as_text(data: bytes) -> str:
    """What a file of traces says. Raises TraceError where it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        raise TraceError(f"the file is not UTF-8 text ({error}); write it again as UTF-8") from error


class Fields:
    """The fields of one JSON object."""

    def __init__(self, data: Any, where: str) -> None:
        self.data, self.where = typed(data, dict, where), where

    def __call__(self, name: str, kind: type, low: float = -math.inf, high: float = math.inf) -> Any:
        """The field `name` as `kind`, numbers within [low, high]. Raises TraceError where it is missing or not so."""
        if name not in self.data:
            raise TraceError(f"{self.where} has no {name!r}: export it again, or write it as docs/trace.md says")
        value = typed(self.data[name], kind, f"{self.where}.{name}")
        if kind in (int, float) and not low <= value <= high:
            span = f"at least {low:g}" if high == math.inf else f"{low:g} to {high:g}"
            raise TraceError(f"{self.where}.{name} is {value:g}, expected {span}")
        return value


def typed(value: Any, kind: type, where: str, at: int | None = None) -> Any:
    """The value as that kind, which it must be: 2 and 2.0 are either, numbers are finite, text can be sent. It is at
    `where`, or the `at`-th there."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= HUGE:
        value = float(value)
    elif kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    limit = LIMITS.get(kind)
    wrong = not isinstance(value, kind) or isinstance(value, bool)
    if wrong or (limit is not None and not abs(value) <= limit):
        many = isinstance(value, (list, dict))  # and within one another, who knows how deep
        shown = NAMES[type(value)] if many else json.dumps(value)[:40]
        raise TraceError(f"{where}{'' if at is None else f'[{at}]'} is {shown}, expected {NAMES[kind]}")
    if kind is str:
        _sendable(value, where)
    elif kind is dict:
        for name in value:
            _sendable(name, where)
    return value


def ids(values: list, where: str) -> list[int]:
    """Token ids."""
    found = [typed(value, int, where, at) for at, value in enumerate(values)]
    for at, value in enumerate(found):
        if value < 0:
            raise TraceError(f"{where}[{at}] is {value}; token ids count from 0")
    return found


def numbers(
    values: Any, length: int, where: str, optional: bool = False, share: bool = False, count: bool = False
) -> list:
    """`length` finite numbers, whole ones kept as they are, up to where JSON's readers agree on them: None among them
    where `optional`, a `share` from 0 to 1, a `count` whole and from 0."""
    if not isinstance(values, list) or len(values) != length:
        raise TraceError(f"{where} must be a list of {length} numbers, one for each node")
    found = []
    for at, value in enumerate(values):
        if not (optional and value is None):
            value = typed(value, int if count or (type(value) is int and abs(value) <= LARGEST) else float, where, at)
            if count and value < 0:
                raise TraceError(f"{where}[{at}] is {value}, expected at least 0, or null where it is not known")
            if share and not 0 <= value <= 1 + ROUNDING:
                raise TraceError(f"{where}[{at}] is the share {value:g}, expected 0 to 1")
        found.append(value)
    return found


def plain(values: dict, where: str) -> dict[str, Any]:
    """An object of texts, numbers, truth values and nulls."""
    for name, value in values.items():
        if isinstance(value, (list, dict)):
            raise TraceError(f"{where}.{name} is {NAMES[type(value)]}, expected text, a number, true, false or null")
        if value is not None and not isinstance(value, bool):
            typed(value, type(value), f"{where}.{name}")
    return values


def texts(values: dict, where: str) -> dict[int, str]:
    """Token id -> text."""
    found = {}
    for key, value in values.items():
        digits = key.isascii() and key.isdigit() and len(key) <= len(str(LARGEST))
        if not digits or int(key) > LARGEST:
            raise TraceError(f"{where} has the key {key[:40]!r}; token ids are expected")
        found[int(key)] = typed(value, str, f"{where}[{key[:40]}]")
    return found


def _sendable(text: str, where: str) -> None:
    """Raise TraceError for what is no text that can be encoded."""
    if half := _HALF.search(text):
        raise TraceError(f"{where} has half a character, {half[0]!r}: leave it out, or write U+FFFD for it")
