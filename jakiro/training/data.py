"""From chat files and plain text to rows of token ids, in an order that a seed fixes.

A recipe names sources with weights; documents are drawn source by source in those proportions and packed whole into
rows, so that a row always starts where a document starts.
"""

from __future__ import annotations

import json
import lzma
import random
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jakiro.training import stdlib
from jakiro.training.tokenizer import ASSISTANT, END, USER

DOC = "<|doc|>"  # separates the documents of a plain-text file
OPEN_ROWS = 64  # rows that wait for a document that fits

Document = tuple[list[int], list[bool]]  # token ids, and which of them the assistant says


@dataclass(frozen=True, slots=True)
class Source:
    """One line of a recipe: which documents, and how much of the mix they are."""

    file: str  # under the data folder, or "stdlib"
    weight: float  # share of the tokens, in any unit
    only: tuple[str, ...] = ()  # keep records whose `source` starts with one of these
    without: tuple[str, ...] = ()  # leave out records whose `source` starts with one of these
    longest: int = 0  # characters after which an answer is cut at the end of a sentence; 0 keeps it whole
    turns: int = 2  # user turns that are kept


def held_out(messages: list[dict]) -> bool:
    """One prompt in a hundred is kept for validation, with all of its answers."""
    return zlib.crc32(messages[0]["content"].encode()) % 100 == 0


def read_chats(source: Source, root: Path, validation: bool = False) -> Iterator[list[dict]]:
    """Conversations of one source, shortened as the recipe says. Raises FileNotFoundError for a missing file."""
    for record in stdlib.functions() if source.file == "stdlib" else _records(root / source.file):
        name = record["source"]
        if (source.only and not name.startswith(source.only)) or (source.without and name.startswith(source.without)):
            continue
        messages = record["messages"][: 2 * source.turns]
        if source.longest:
            messages = [
                m if m["role"] == "user" else {**m, "content": shorten(m["content"], source.longest)} for m in messages
            ]
        if messages[-1]["content"] and held_out(messages) == validation:
            yield messages


def shorten(text: str, longest: int) -> str:
    """Cut at the last end of a paragraph, or else of a sentence, within `longest` characters; "" if none."""
    if len(text) <= longest:
        return text
    head = text[:longest]
    if head.count("```") % 2:
        head = head[: head.rindex("```")]
    ends = [match.end() for match in re.finditer(r"\n\n|[.!?](?=\s)", head)]
    return head[: ends[-1]].rstrip() if ends else ""


def encode_chat(tokenizer, messages: list[dict]) -> Document:
    """Token ids of a conversation, and which of them the assistant says (its end mark included)."""
    user, assistant, end = tokenizer.convert_tokens_to_ids([USER, ASSISTANT, END])
    ids, said = [], []
    for message in messages:
        mine = message["role"] == "assistant"
        body = tokenizer.encode(message["content"], add_special_tokens=False)
        ids += [assistant if mine else user, *body, end]
        said += [False] + [mine] * (len(body) + 1)
    return ids, said


class Documents:
    """Endless documents of one source in shuffled order, as (ids, said) pairs of at most `longest` tokens."""

    def __init__(
        self, source: Source, root: Path, tokenizer, longest: int, seed: int, validation: bool = False
    ) -> None:
        self.tokenizer, self.longest = tokenizer, longest
        self.random = random.Random(f"{seed} {source.file} {source.only}")
        if source.file.startswith("plain/"):
            texts = _plain(root / source.file)
            self.items = [text for i, text in enumerate(texts) if (i % 100 == 0) == validation]
        else:
            self.items = list(read_chats(source, root, validation))
        if not self.items:
            raise ValueError(f"{source.file} has no documents for {source}; check `only` and `without` in the recipe")
        self.order: list[int] = []

    def draw(self) -> Document:
        """The next document."""
        if not self.order:
            self.order = list(range(len(self.items)))
            self.random.shuffle(self.order)
        item = self.items[self.order.pop()]
        if isinstance(item, str):  # a window of a long text, starting at a paragraph
            start = self.random.randrange(max(1, len(item) - 3 * self.longest))
            start = item.find("\n", start) + 1
            ids = self.tokenizer.encode(item[start : start + 6 * self.longest], add_special_tokens=False)
            return ids[: self.longest], [True] * min(len(ids), self.longest)
        ids, said = encode_chat(self.tokenizer, item)
        return ids[: self.longest], said[: self.longest]


def draw(
    sources: list[Source], root: Path, tokenizer, longest: int, seed: int, validation: bool = False
) -> Iterator[Document]:
    """Documents of at most `longest` tokens without end, always from the source that is furthest behind its share."""
    documents = [Documents(source, root, tokenizer, longest, seed, validation) for source in sources]
    total = sum(source.weight for source in sources)
    shares = [source.weight / total for source in sources]
    drawn = [0] * len(sources)
    while True:
        which = min(range(len(sources)), key=lambda i: drawn[i] / shares[i])
        document = documents[which].draw()
        drawn[which] += len(document[0])
        yield document


def pack(
    sources: list[Source], root: Path, tokenizer, tokens: int, row: int, seed: int, validation: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `row` + 1 ids (uint16) and what the assistant says in them (bool), holding at least `tokens` tokens."""
    drawn, count = [], 0
    for document in draw(sources, root, tokenizer, row + 1, seed, validation):
        drawn.append(document)
        count += len(document[0])
        if count >= tokens:
            return fill(drawn, row, seed)
    raise AssertionError("documents are drawn without end")


def fill(documents: list[Document], row: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents whole in rows of `row` + 1 ids (uint16), and what the assistant says in them (bool), rows shuffled.

    A document goes into the fullest open row that has room. What stays empty is padding (id 0), which is never said.
    """
    width = row + 1
    rows: list[Document] = []
    waiting: list[Document] = []
    for ids, said in documents:
        fitting = [entry for entry in waiting if len(entry[0]) + len(ids) <= width]
        if fitting:
            entry = max(fitting, key=lambda entry: len(entry[0]))
            entry[0].extend(ids)
            entry[1].extend(said)
        else:
            waiting.append((list(ids), list(said)))
        if len(waiting) > OPEN_ROWS:
            waiting.sort(key=lambda entry: len(entry[0]))
            rows.append(waiting.pop())
    rows += waiting
    random.Random(seed).shuffle(rows)
    packed = np.zeros((len(rows), width), np.uint16)
    answers = np.zeros((len(rows), width), bool)
    for i, (ids, said) in enumerate(rows):
        packed[i, : len(ids)], answers[i, : len(ids)] = ids, said
    return packed, answers


def _records(path: Path) -> Iterator[dict]:
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _plain(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [text.strip() for text in file.read().split(DOC) if len(text) > 200]
