"""From documents to rows of token ids: packed whole, so that a row always starts where a document starts.

Rows may be of several widths, each document in the narrowest that holds it: attention costs less there.
"""

from __future__ import annotations

import random
from bisect import bisect_right, insort
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from jakiro.files import replacing
from jakiro.training.data import Document, draw, take
from jakiro.training.sources import Source

OPEN_ROWS = 64  # rows that wait for a document that fits


class Rows(NamedTuple):
    """Rows of one width, [n, width + 1] each."""

    ids: np.ndarray  # uint16 or uint32
    said: np.ndarray  # whether the assistant says it
    texts: np.ndarray | None = None  # uint16: of which text of its row it is; None: not known


def pack(
    sources: list[Source], root: Path, tokenizer, tokens: int, row: int, seed: int, validation: bool = False
) -> Rows:
    """Rows of `row` + 1 ids, holding at least `tokens` tokens."""
    return fill(take(draw(sources, root, tokenizer, row + 1, seed, validation), tokens), row, seed)


def fill(documents: list[Document], row: int, seed: int) -> Rows:
    """Documents whole in rows of `row` + 1 ids, shuffled.

    A document goes into the fullest open row that has room. What stays empty is padding (id 0), which is never said.
    """
    width = row + 1
    rows: list[list[Document]] = []
    waiting: list[tuple[int, list[Document]]] = []  # tokens in a row, and its documents; the fullest row comes last
    for document in documents:
        length = len(document[0])
        fits = bisect_right(waiting, width - length, key=itemgetter(0))
        taken, row_ = waiting.pop(fits - 1) if fits else (0, [])
        row_.append(document)
        insort(waiting, (taken + length, row_), key=itemgetter(0))
        if len(waiting) > OPEN_ROWS:
            rows.append(waiting.pop()[1])
    rows += [row_ for _, row_ in waiting]
    random.Random(seed).shuffle(rows)
    most = max((max(ids, default=0) for row_ in rows for ids, _ in row_), default=0)
    packed = np.zeros((len(rows), width), np.uint16 if most < 2**16 else np.uint32)
    answers, texts = np.zeros((len(rows), width), bool), np.zeros((len(rows), width), np.uint16)
    for i, row_ in enumerate(rows):
        at = 0
        for ids, said in row_:
            packed[i, at : at + len(ids)], answers[i, at : at + len(ids)] = ids, said
            at += len(ids)
            texts[i, at:] += 1
    return Rows(packed, answers, texts)


def save_rows(file: Path, documents: list[Document], widths: list[int], seed: int) -> None:
    """Rows of several widths, the narrowest first, whole or not at all; `load_rows` reads them."""
    found = {}
    for width, own in zip(widths, by_width(documents, widths), strict=True):
        for name, part in fill(own, width, seed)._asdict().items():
            found[f"{name} {width}"] = part
    distinct = sum(map(len, {tuple(ids) for ids, _ in documents}))
    with replacing(file) as new, new.open("wb") as out:
        np.savez(out, distinct=distinct, **found)


def distinct_tokens(file: Path) -> int:
    """Tokens of different documents in what `save_rows` wrote."""
    with np.load(file) as kept:
        return int(kept["distinct"])


def by_width(documents: list[Document], widths: list[int]) -> list[list[Document]]:
    """Documents for rows of each width: the narrowest that holds them, or what longer ones leave free in wider rows."""
    found: list[list[Document]] = [[] for _ in widths]
    free = [0] * len(widths)  # tokens in rows opened by documents that fit in no narrower ones
    for document in documents:
        size = len(document[0])
        own = next(at for at, width in enumerate(widths) if size <= width + 1)
        wider = next((at for at in range(own + 1, len(widths)) if free[at] >= size), own)
        free[wider] += widths[own] + 1 - size if wider == own else -size
        found[wider].append(document)
    return found


def load_rows(file: Path, widths: list[int]) -> list[Rows]:
    """What `save_rows` wrote. Raises ValueError naming a file that is damaged."""
    try:
        with np.load(file) as kept:
            return [Rows(*(kept[f"{name} {width}"] for name in Rows._fields)) for width in widths]
    except (BadZipFile, EOFError, KeyError, ValueError) as error:
        raise ValueError(f"{file} is damaged: delete it, and the rows are made again") from error


def batches(rows: list[Rows], tokens: int) -> list[Rows]:
    """Rows of several widths in batches of `tokens` tokens of one width each, the widths spread evenly over them."""
    found = []
    for one in rows:
        each = tokens // (one.ids.shape[1] - 1)
        count = len(one.ids) // each
        chunks = [slice(index * each, (index + 1) * each) for index in range(count)]
        parts = [Rows(*(part if part is None else part[chunk] for part in one)) for chunk in chunks]
        found += [((index + 0.5) / count, part) for index, part in enumerate(parts)]
    return [one for _, one in sorted(found, key=itemgetter(0))]


def row_widths(row: int, short: tuple[int, ...]) -> list[int]:
    """The narrowest first. Raises ValueError where a batch of rows cannot be as many tokens of narrower ones, or where
    a width is named twice."""
    if wrong := [width for width in short if not isinstance(width, int) or not 0 < width < row or row % width]:
        raise ValueError(f"short rows of {wrong[0]} tokens do not divide rows of {row}; change `short`")
    if len({*short}) < len(short):
        raise ValueError(f"`short` is {list(short)}: name each width once")
    return [*sorted(short), row]
