"""Where texts come from: files of the data folder, one JSONL file, datasets of the Hugging Face hub.

A record has its conversation as `messages` (role, content) or, as ShareGPT has it, as `conversations` (from, value).
"""

from __future__ import annotations

import json
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from jakiro.training import leads, recipe_file, stdlib
from jakiro.training.sentences import shorten

DOC = "<|doc|>"  # separates the documents of a plain-text file
HUB = "hub:"  # stands before the name of a dataset
LEADS = "leads:"  # stands before a file of plain text
ROLES = {"human": "user", "gpt": "assistant"}  # ShareGPT's words, and ours


@dataclass(frozen=True, slots=True)
class Source:
    """One line of a recipe: which documents, and how much of the mix they are."""

    file: str  # under the data folder; "stdlib"; "leads:" and a file of plain text; or "hub:owner/name" and ":split"
    weight: float  # share of the tokens, in any unit
    only: tuple[str, ...] = ()  # keep records whose `source` starts with one of these
    without: tuple[str, ...] = ()  # leave out records whose `source` starts with one of these
    longest: int = 0  # characters after which an answer is cut at the end of a sentence; 0 keeps it whole
    turns: int = 2  # user turns that are kept, besides a system message

    @classmethod
    def of(cls, data: dict) -> Source:
        """From JSON's types. Raises TypeError or ValueError naming the field that is unknown, missing or wrong."""
        found = cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in data.items()})
        try:
            recipe_file.check_numbers(found, "weight", "longest")
            recipe_file.check_positive(found, "turns")
        except ValueError as error:
            raise ValueError(f"of the source {found.file}, {error}") from error
        if not found.weight:
            raise ValueError(f"of the source {found.file}, weight is 0: leave the source out")
        return found


def only_source(data: str | Path) -> tuple[Path, list[Source] | None]:
    """The folder of what --data names, and its one source where that is a file or a dataset, not a folder of sources.

    Raises FileNotFoundError for what is neither.
    """
    path = Path(data)
    if path.is_dir():
        return path, None
    if path.is_file():
        return path.parent, [Source(path.name, 1.0)]
    if re.fullmatch(r"[\w.-]+/[\w.-]+(:[\w.-]+)?", str(data)):
        return Path(), [Source(f"{HUB}{data}", 1.0)]
    raise FileNotFoundError(f"{data} is neither a folder, a JSONL file nor a dataset's name (owner/name)")


def held_out(messages: list[dict]) -> bool:
    """One prompt in a hundred is kept for validation, with all of its answers: by what the user says first.

    Where the user says nothing, by what is said first.
    """
    spoken = [message for message in messages if message["content"]]
    first = next((message for message in spoken if message["role"] == "user"), spoken[0])
    return zlib.crc32(first["content"].encode()) % 100 == 0


def read_chats(source: Source, root: Path, validation: bool = False) -> Iterator[list[dict]]:
    """Conversations of one source, shortened as the recipe says; those that are not all text, or without an answer,
    are left out.

    Raises FileNotFoundError for a missing file, ValueError for one that cannot be read, for records that hold no
    conversation, and where the assistant speaks in none.
    """
    roles: set[str] = set()
    for record in _records(source, root):
        name = str(record.get("source", ""))
        if (source.only and not name.startswith(source.only)) or (source.without and name.startswith(source.without)):
            continue
        messages = said = _messages(record, source.file)
        system = messages[:1] if messages and messages[0]["role"] == "system" else []
        messages = system + messages[len(system) :][: 2 * source.turns]
        if not all(isinstance(message["content"], str) for message in messages):
            continue
        roles.update(str(message["role"]) for message in said)
        if source.longest:
            messages = list(_shortened(messages, source.longest))
        answered = any(message["role"] == "assistant" for message in messages)
        if answered and messages[-1]["content"] and held_out(messages) == validation:
            yield messages
    if roles and "assistant" not in roles:
        raise ValueError(
            f"{source.file}: the assistant speaks in no conversation, whose roles are {', '.join(sorted(roles))}: name "
            "them user and assistant (or human and gpt, as ShareGPT does), or leave the source out"
        )


def _shortened(messages: list[dict], longest: int) -> Iterator[dict]:
    """Messages with answers of at most `longest` characters, up to the first of which nothing would be left."""
    for message in messages:
        if message["role"] == "assistant" and message["content"]:
            message = {**message, "content": shorten(message["content"], longest)}
            if not message["content"]:
                return
        yield message


def is_plain(source: Source) -> bool:
    """Whether a source holds documents, not conversations."""
    return source.file.startswith("plain/")


def _records(source: Source, root: Path) -> Iterator[dict]:
    if source.file == "stdlib":
        return stdlib.functions()
    if source.file.startswith(HUB):
        return _dataset(source.file.removeprefix(HUB))
    if source.file.startswith(LEADS):
        return leads.summaries(read_plain(root / source.file.removeprefix(LEADS)))
    return _lines(root / source.file)


def _dataset(name: str) -> Iterator[dict]:
    from datasets import load_dataset

    name, _, split = name.partition(":")
    return iter(load_dataset(name, split=split or "train"))


def _lines(path: Path) -> Iterator[dict]:
    with _text(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number} is not JSON ({error})") from error
            if not isinstance(record, dict):
                raise ValueError(f'{path}, line {number} is no record: write {{"messages": [...]}}, not {line[:80]!r}')
            yield record


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """A text file, compressed where its name ends with .xz. Raises ValueError where it is not what it should be."""
    try:
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
            yield file
    except (EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        kind = "an xz file that is whole" if path.suffix == ".xz" else "text in UTF-8"
        raise ValueError(f"{path} is not {kind} ({error}): fetch it again, or name it as what it is") from error


def _messages(record: dict, file: str) -> list[dict]:
    if "messages" not in record and "conversations" not in record:
        raise ValueError(f"{file}: a record has neither messages nor conversations, but {', '.join(record)}")
    try:
        if "messages" in record:
            return [{**one, "role": one["role"], "content": _whole(one["content"])} for one in record["messages"]]
        turns = [(one["from"], _whole(one["value"])) for one in record["conversations"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file}: a message has not what it needs ({error!r}): {str(record)[:200]}") from error
    return [{"role": ROLES.get(who, who), "content": text} for who, text in turns]


def _whole(text: object) -> object:
    """A text without halves of surrogate pairs, which no tokenizer takes: cut emoji have them."""
    return text.encode("utf-8", errors="replace").decode("utf-8") if isinstance(text, str) else text


def read_plain(path: Path) -> list[str]:
    """The documents of a file that have more than 200 characters.

    Raises FileNotFoundError for a missing file, ValueError for one that cannot be read.
    """
    with _text(path) as file:
        return [text.strip() for text in file.read().split(DOC) if len(text) > 200]
