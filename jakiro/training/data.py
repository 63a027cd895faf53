"""From conversations and plain text to documents of token ids, in an order that a seed fixes.

A recipe names sources with weights; documents are drawn source by source in those proportions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jakiro.text import form_of
from jakiro.training.sources import NOTABLE, Source, is_plain, read_chats, read_plain, warn

AHEAD = 1024  # documents that are encoded together

Document = tuple[list[int], list[bool]]  # token ids, and which of them the assistant says


class Templated(NamedTuple):
    """A text of a conversation up to an answer, its last one unless another text follows."""

    text: str
    spans: list[tuple[int, int]]  # where in it the assistant speaks
    wrong: str = ""  # why there is none of it, and what to do


def encoded(tokenizer, conversations: list[Templated]) -> list[Document]:
    """Token ids of conversations, and which of them the assistant says (as far as its end mark): those that end in what
    it says, as a token may hold a space that the request for an answer ends in."""
    texts = [one.text for one in conversations]
    made = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    return [
        (ids, [any(start < at <= end for start, end in one.spans) for _, at in offsets])
        for ids, offsets, one in zip(made["input_ids"], made["offset_mapping"], conversations, strict=True)
    ]


def templated(tokenizer, messages: list[dict], form: Callable[[str], object] = str) -> list[Templated]:
    """A conversation in the tokenizer's chat template, its contents in that form (`form_of`): one text. Where that
    writes earlier turns anew as a conversation grows, another text begins, whose answers are those that come; nothing
    is left of a conversation that the template refuses.

    Raises ValueError where the tokenizer has no template.
    """
    if not tokenizer.chat_template:
        raise ValueError("the target's tokenizer has no chat template: give it one with --chat-template FILE")
    if not tokenizer.is_fast:
        raise ValueError("the target's tokenizer does not tell where tokens lie in a text: it needs a tokenizer.json")
    messages = [{**message, "content": form(message["content"])} for message in messages]
    found, text, spans = [], "", []
    for end, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        if not end:
            return [Templated("", [], "the assistant speaks first: begin with what the user says")]
        try:
            asked = tokenizer.apply_chat_template(messages[:end], add_generation_prompt=True, tokenize=False)
            whole = tokenizer.apply_chat_template(messages[: end + 1], tokenize=False)
        except Exception as error:  # a template is a program, and raises what it likes
            return [Templated("", [], f"the chat template refuses it ({error}): change its roles, or the template")]
        if not whole.startswith(asked):
            break
        if not asked.startswith(text):
            found.append(Templated(text, spans))
            spans = []
        _, end_mark, behind = whole[len(asked) :].partition(tokenizer.eos_token or "\0")
        spans.append((len(asked), len(whole) - len(behind) * bool(end_mark)))  # as a line's end, never decoded
        text = whole
    wrong = "the tokenizer's chat template does not show where an answer begins: mend the template"
    return [*found, Templated(text, spans, "" if spans else wrong)]


@dataclass(slots=True)
class Texts:
    """One source's texts, and what was encoded of them: that stays, as it may be drawn many times."""

    items: list
    known: dict[int, list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=dict)  # lists take nine times that
    refused: Counter[str] = field(default_factory=Counter)  # why nothing is left of a conversation -> of how many


Shelf = dict[tuple, Texts]  # for those who draw from the same sources again and again, by one tokenizer


class Documents:
    """Endless documents of one source in shuffled order, as (ids, said) pairs of at most `longest` tokens.

    Conversations are given whole or cut at the end, and left out where they are cut before their answer; of those that
    are several texts (`templated`) the first, or `every` one. Of a long plain text, a window that starts at a line's
    end. `wrong` is why there are none, or "".
    """

    def __init__(
        self,
        source: Source,
        root: Path,
        tokenizer,
        longest: int,
        seed: int,
        validation: bool = False,
        shelf: Shelf | None = None,
        every: bool = False,
    ) -> None:
        self.tokenizer, self.longest, self.plain = tokenizer, longest, is_plain(source)
        self.validation, self.source, self.every = validation, source, every
        self.random = random.Random(f"{seed} {source.file} {source.only}")
        shelf = {} if shelf is None else shelf
        key = replace(source, weight=1.0), validation, 0 if self.plain else longest, every
        if fresh := key not in shelf:
            shelf[key] = Texts(self._read(root))
        self.items, self.known, self.refused = shelf[key].items, shelf[key].known, shelf[key].refused
        self.order: list[int] = []
        self.coming: list[tuple[np.ndarray, np.ndarray]] = []
        self.wrong = self._look()
        if fresh and not (self.wrong or self.plain or validation):
            self._tell()

    def draw(self) -> Document:
        """The next document; there must be one."""
        while not self.coming:
            if not self.order:
                self._shuffle()
            if self.order[-1] not in self.known:
                self._encode(len(self.order))
            self.coming = [*self.known[self.order.pop()]]
        ids, said = self.coming.pop(0)
        return self._window(ids) if self.plain else (ids.tolist(), said.tolist())

    def _window(self, ids: np.ndarray) -> Document:
        start = self.random.randrange(max(1, len(ids) - self.longest))
        if len(ids) <= self.longest:
            return ids.tolist(), [True] * len(ids)
        start = next((at + 1 for at in range(start, len(ids) - 1) if "\n" in self.pieces[ids[at]]), 0)
        window = ids[start : start + self.longest].tolist()
        return window, [True] * len(window)

    def _read(self, root: Path) -> list:
        if not self.plain:
            return list(read_chats(self.source, root, self.validation))
        texts = read_plain(root / self.source.file)
        held = range(0, len(texts), 100) if len(texts) > 1 else ()  # one alone is to learn from
        return [text for i, text in enumerate(texts) if (i in held) == self.validation]

    def _look(self) -> str:
        """Why there is nothing to draw, and what to do about it; "" where there is something."""
        file = self.source.file
        if not self.items and self.validation:
            less = "leave `trial` out of the recipe, or give more data"
            return f"{file} has no held-out documents (one in a hundred is): {less}"
        if not self.items and self.plain:
            return f"{file} has no document of more than 200 characters: give longer ones, or leave the source out"
        if not self.items:
            chosen = self.source.only or self.source.without
            remedy = "check its `only` and `without` in the recipe" if chosen else "give conversations with an answer"
            return f"{file} has no documents: {remedy}"
        self._shuffle()
        for end in range(len(self.order), 0, -AHEAD):
            self._encode(end)
            if any(self.known[index] for index in self.order[max(0, end - AHEAD) : end]):
                return ""
        if self.refused.total() == len(self.items):
            return f"{file}: no conversation can be taken, mostly because {self.refused.most_common(1)[0][0]}"
        what, remedy = "conversation", "raise `row` in the recipe, or leave the source out"
        if self.validation:
            what = "held-out conversation"
            remedy = "leave `trial` out of the recipe, lower its new_tokens, or give more data"
        return f"{file}: no {what} comes to its answer within {self.longest} tokens: {remedy}"

    def _tell(self) -> None:
        """Say of how many of the conversations that were looked at nothing is drawn, where they are many."""
        none = sum(not found for found in self.known.values())
        if none > NOTABLE * len(self.known):
            whys = self.refused + Counter({f"no answer begins in {self.longest} tokens": none - self.refused.total()})
            why = whys.most_common(1)[0][0]
            warn(f"{self.source.file}: {none} of {len(self.known)} conversations are left out, mostly because {why}")

    def _shuffle(self) -> None:
        self.order = list(range(len(self.items)))
        self.random.shuffle(self.order)

    def _encode(self, end: int) -> None:
        """Know the AHEAD documents before `end` in the order: many at once, which tokenizers do in parallel."""
        which = [index for index in self.order[max(0, end - AHEAD) : end] if index not in self.known]
        if not which:
            return
        items = [self.items[index] for index in which]
        if self.plain:
            found = [[(ids, [])] for ids in self.tokenizer(items, add_special_tokens=False)["input_ids"]]
        else:
            form = form_of(self.tokenizer)
            shown = [templated(self.tokenizer, item, form)[: None if self.every else 1] for item in items]
            self.refused.update(one.wrong for texts in shown for one in texts if one.wrong)
            made = iter(encoded(self.tokenizer, [one for texts in shown for one in texts]))
            cut = [[[part[: self.longest] for part in pair] for pair in islice(made, len(texts))] for texts in shown]
            found = [[(ids, said) for ids, said in pairs if any(said)] for pairs in cut]
        for index, pairs in zip(which, found, strict=True):
            self.known[index] = [(np.array(ids, np.uint32), np.array(said, bool)) for ids, said in pairs]

    @cached_property
    def pieces(self) -> list[str]:
        """The text of every token."""
        return self.tokenizer.batch_decode([[id] for id in range(len(self.tokenizer))])


def draw(
    sources: list[Source],
    root: Path,
    tokenizer,
    longest: int,
    seed: int,
    validation: bool = False,
    shelf: Shelf | None = None,
    every: bool = False,
) -> Iterator[Document]:
    """Documents of at most `longest` tokens without end, always from the source that is furthest behind its share.

    `every` is as `Documents` has it. Of what is held out, sources that have nothing are left out. Raises ValueError
    where another source has nothing, or all have.
    """
    found = [Documents(source, root, tokenizer, longest, seed, validation, shelf, every) for source in sources]
    documents = [one for one in found if not one.wrong]
    if not documents or (not validation and len(documents) < len(found)):
        raise ValueError(next(one.wrong for one in found if one.wrong))
    total = sum(one.source.weight for one in documents)
    shares = [one.source.weight / total for one in documents]
    drawn = [0] * len(documents)
    while True:
        which = min(range(len(documents)), key=lambda i: drawn[i] / shares[i])
        document = documents[which].draw()
        drawn[which] += len(document[0])
        yield document


def take(documents: Iterator[Document], tokens: int) -> list[Document]:
    """The first of them that have at least `tokens` tokens in all."""
    taken, count = [], 0
    for document in documents:
        taken.append(document)
        count += len(document[0])
        if count >= tokens:
            return taken
    raise AssertionError("documents are drawn without end")
