"""Token text made fit for a figure: one line, short, white space visible, nothing that plotly would read as mark-up.

Plotly renders a subset of HTML (<b>, <a href>, &entities;) and, where MathJax is loaded, $formulas$. Tokens come from a
model or an imported file, so they are escaped for it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from unicodedata import bidirectional

GLYPHS = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥"}
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "@": "&#64;"}
ITSELF: Mapping[str, str] = MappingProxyType({})  # titles of no method
LEFT_TO_RIGHT = "\u200e"
QUOTED = 24  # characters of a token in a sentence


def visible(piece: str) -> str:
    """The text on one line: glyphs for white space, code points for what has no shape or reorders its neighbours."""
    return _closed("".join(GLYPHS.get(char) or _shown(char, at) for at, char in enumerate(piece)) or "∅")


def _short(piece: str, limit: int) -> str:
    """At most `limit` characters of the visible text, the cut marked by an ellipsis."""
    text = visible(piece[: limit + 1])
    return text if len(text) <= limit else _closed(text[: limit - 1] + "…")


def _closed(text: str) -> str:
    """With letters that are written leftwards, so that a number after it is not drawn among them."""
    return text + LEFT_TO_RIGHT if any(bidirectional(char) in ("R", "AL") for char in text) else text


def escape(text: str) -> str:
    """Text that plotly shows as it stands."""
    return "".join(ESCAPES.get(char, char) for char in text)


def label(piece: str, limit: int = 12) -> str:
    """A token's label in a figure."""
    return escape(_short(piece, limit))


def quote(piece: str) -> str:
    """A token inside a sentence of plain text."""
    return f"“{_short(piece, QUOTED)}”"


def percent(share: float) -> str:
    """A share on a figure. What would be rounded to nothing is not nothing."""
    return f"{100 * share:.0f}%" if share > 0.005 else escape("<1%")


def of_method(name: str, titles: Mapping[str, str]) -> str:
    """What a method is called; that of another head, "eagle2-mine", by its kind and that name where it is not here."""
    kind, _, own = name.partition("-")
    return titles.get(name) or (f"{titles[kind]} ({own})" if own and kind in titles else name)


def counted(number: int, noun: str) -> str:
    """1 round, 2 rounds."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _shown(char: str, at: int) -> str:
    """The character; its code point where it is a control, format, surrogate, private or foreign space character, or a
    mark at the beginning, which has nothing to be put on."""
    shapeless = "CZM" if at == 0 else "CZ"
    return f"·{ord(char):X}" if unicodedata.category(char)[0] in shapeless else char
