"""From conversations and plain text to documents of token ids, in an order that a seed fixes.

A recipe names sources with weights; documents are drawn source by source in those proportions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from jakiro.training.sources import Source, read_chats, read_plain

AHEAD = 1024  # documents that are encoded together

Document = tuple[list[int], list[bool]]  # token ids, and which of them the assistant says


def encode_chats(tokenizer, conversations: list[list[dict]]) -> list[Document]:
    """Token ids of conversations in the tokenizer's chat template, and which of them the assistant says (its end mark
    included). Where a template writes earlier turns anew as a conversation grows, it is cut before that.

    Raises ValueError where the tokenizer has no template."""
    if not tokenizer.chat_template:
        raise ValueError("the target's tokenizer has no chat template: give it one with --chat-template FILE")
    texts, spans = zip(*(_templated(tokenizer, messages) for messages in conversations), strict=True)
    encoded = tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
    return [
        (ids, [any(start <= at < end for start, end in said) for at, _ in offsets])
        for ids, offsets, said in zip(encoded["input_ids"], encoded["offset_mapping"], spans, strict=True)
    ]


def _templated(tokenizer, messages: list[dict]) -> tuple[str, list[tuple[int, int]]]:
    """The text of a conversation up to its last answer, and where in it the assistant speaks."""
    text, spans = "", []
    for end, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        asked = tokenizer.apply_chat_template(messages[:end], add_generation_prompt=True, tokenize=False)
        whole = tokenizer.apply_chat_template(messages[: end + 1], tokenize=False)
        if not asked.startswith(text) or not whole.startswith(asked):
            break
        spans.append((len(asked), len(whole)))
        text = whole
    return text, spans


class Documents:
    """Endless documents of one source in shuffled order, as (ids, said) pairs of at most `longest` tokens.

    Conversations are given whole or cut at the end; of a long plain text, a window that starts at a line's end.
    """

    def __init__(
        self, source: Source, root: Path, tokenizer, longest: int, seed: int, validation: bool = False
    ) -> None:
        self.tokenizer, self.longest, self.plain = tokenizer, longest, source.file.startswith("plain/")
        self.random = random.Random(f"{seed} {source.file} {source.only}")
        if self.plain:
            texts = read_plain(root / source.file)
            self.items = [text for i, text in enumerate(texts) if (i % 100 == 0) == validation]
        else:
            self.items = list(read_chats(source, root, validation))
        if not self.items:
            what = "held-out documents (one in a hundred is)" if validation else "documents"
            raise ValueError(f"{source.file} has no {what} for {source}; check `only` and `without` in the recipe")
        self.order: list[int] = []
        self.known: dict[int, Document] = {}  # what was encoded stays, as it may be drawn many times

    def draw(self) -> Document:
        """The next document."""
        if not self.order:
            self.order = list(range(len(self.items)))
            self.random.shuffle(self.order)
        if self.order[-1] not in self.known:
            self._encode([index for index in self.order[-AHEAD:] if index not in self.known])
        ids, said = self.known[self.order.pop()]
        if not self.plain:
            return ids, said
        start = self.random.randrange(max(1, len(ids) - self.longest))
        start = next((at + 1 for at in range(start, len(ids) - 1) if "\n" in self.pieces[ids[at]]), 0)
        window = ids[start : start + self.longest]
        return window, [True] * len(window)

    def _encode(self, which: list[int]) -> None:
        """Many at once, which tokenizers do in parallel."""
        items = [self.items[index] for index in which]
        if self.plain:
            found = [(ids, []) for ids in self.tokenizer(items, add_special_tokens=False)["input_ids"]]
        else:
            found = [(ids[: self.longest], said[: self.longest]) for ids, said in encode_chats(self.tokenizer, items)]
            if not any(ids for ids, _ in found):
                raise ValueError(
                    "the tokenizer's chat template does not show where an answer begins: mend the template"
                )
        self.known.update(zip(which, found, strict=True))

    @cached_property
    def pieces(self) -> list[str]:
        """The text of every token."""
        return self.tokenizer.batch_decode([[id] for id in range(len(self.tokenizer))])


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


def take(
    sources: list[Source], root: Path, tokenizer, tokens: int, longest: int, seed: int, validation: bool = False
) -> list[Document]:
    """Documents of at most `longest` tokens, at least `tokens` in all."""
    taken, count = [], 0
    for document in draw(sources, root, tokenizer, longest, seed, validation):
        taken.append(document)
        count += len(document[0])
        if count >= tokens:
            return taken
    raise AssertionError("documents are drawn without end")
