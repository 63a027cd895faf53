"""Which kinds of tokens drafts get right: the text's tokens by class, told apart by what they look like."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from jakiro.trace import Trace

# The classes of tokens, and what is in them.
CLASSES = {
    "word start": "letters after white space, or at the beginning",
    "continuation": "other letters, and what follows an apostrophe",
    "digit": "digits",
    "punctuation": "marks of prose",
    "whitespace": "spaces and line ends",
    "other": "symbols of code, mixtures, parts of characters, special tokens such as the end of the text",
}
PROSE = frozenset(".,;:!?'\"()-–—…“”‘’")
APOSTROPHES = "'’"


@dataclass(frozen=True, slots=True)
class Count:
    """The tokens of one class that rounds emitted."""

    name: str
    tokens: int
    accepted: int  # of them drafted; the others are the target's own

    @property
    def share(self) -> float | None:
        """Of the tokens that were drafted and accepted; None where there are none."""
        return self.accepted / self.tokens if self.tokens else None


def token_class(text: str, before: str) -> str:
    """The class of a token's text, given the text before it.

    A word starts after white space or at the beginning; letters that go on with one are a continuation, as are those of
    “'s”. Marks that are put on letters are letters. What is neither letters, digits, white space nor the punctuation of
    prose is something other.
    """
    bare = text.strip()
    if not bare:
        return "whitespace"
    if all(char.isdigit() for char in bare):
        return "digit"
    if _letters(bare):
        return "word start" if text[0].isspace() or not before or before[-1].isspace() else "continuation"
    if text[0] in APOSTROPHES and _letters(text[1:]):
        return "continuation"
    return "punctuation" if PROSE.issuperset(bare) else "other"


def _letters(text: str) -> bool:
    """Whether a text has nothing else, and has some."""
    return bool(text) and all(unicodedata.category(char)[0] in "LM" for char in text)


def by_class(trace: Trace) -> list[Count]:
    """The tokens of all rounds, counted by class, [CLASSES]. The first one, from prefill, is nobody's draft."""
    counts = {name: [0, 0] for name in CLASSES}
    before = trace.piece(trace.first)
    for step in trace.steps:
        for index, token in enumerate(step.emitted):
            text = trace.piece(token)
            count = counts[token_class(text, before)]
            count[0] += 1
            count[1] += index < len(step.accepted)
            before = text
    return [Count(name, *count) for name, count in counts.items()]
