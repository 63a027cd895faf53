"""Where texts come from: files of the data folder, one JSONL file, datasets of the Hugging Face hub.

A record has its conversation as `messages` (role, content) or, as ShareGPT has it, as `conversations` (from, value).
"""

from __future__ import annotations

import gzip
import json
import logging
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TextIO

from huggingface_hub.errors import HTTPError

from jakiro.models.hub import first_line
from jakiro.training import leads, recipe_file, stdlib
from jakiro.training.sentences import shorten

LOG = logging.getLogger(__name__)
DOC = "<|doc|>"  # separates the documents of a plain-text file
OPEN = {".xz": lzma.open, ".gz": gzip.open}  # what is compressed is called so
HUB = "hub:"  # stands before the name of a dataset
LEADS = "leads:"  # stands before a file of plain text
NOTABLE = 0.05  # share of a source's conversations that are left out, above which it is said
ROLES = {"human": "user", "gpt": "assistant"}  # ShareGPT's words, and ours


@dataclass(frozen=True, slots=True)
class Source:
    """One line of a recipe: which documents, and how much of the mix they are."""

    file: str  # under the data folder; "stdlib"; "leads:" and a file of plain text; or "hub:owner/name" and ":split"
    weight: float  # share of the tokens, in any unit
    only: tuple[str, ...] = ()  # keep records whose `source` starts with one of these
    without: tuple[str, ...] = ()  # leave out records whose `source` starts with one of these
    longest: int = 0  # characters after which an answer is cut at the end of a sentence; 0 keeps it whole
    turns: int = 2  # user turns that are kept with all that answers them, besides a system message; 0 keeps all

    @classmethod
    def of(cls, data: dict) -> Source:
        """From JSON's types. Raises TypeError or ValueError naming the field that is unknown, missing or wrong."""
        data = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
        found = recipe_file.made(cls, data, "a source")
        try:
            recipe_file.check_numbers(found, "weight", "longest", "turns")
        except ValueError as error:
            raise ValueError(f"of the source {found.file}, {error}") from error
        if not found.weight:
            raise ValueError(f"of the source {found.file}, weight is 0: leave the source out")
        return found


def only_source(data: str | Path) -> tuple[Path, list[Source] | None]:
    """The folder of what --data names, and its one source where that is a file or a dataset, not a folder of sources.

    Of that all turns are kept. Raises FileNotFoundError for what is none of them: what ends as a file does, or would be
    in a folder that is here, is no dataset.
    """
    path = Path(data)
    if path.is_dir():
        return path, None
    if path.is_file():
        return path.parent, [Source(path.name, 1.0, turns=0)]
    local = path.suffix in (".jsonl", ".json", *OPEN) or path.parent.is_dir()
    if not local and re.fullmatch(r"[\w.-]+/[\w.-]+(:[\w.-]+)?", str(data)):
        return Path(), [Source(f"{HUB}{data}", 1.0, turns=0)]
    raise FileNotFoundError(
        f"{data} is neither a folder, a JSONL file nor a dataset's name (owner/name): check the path"
    )


def check_files(sources: Iterable[Source], root: Path) -> None:
    """Raise FileNotFoundError for the first file of a recipe that is not under `root`, which --data names."""
    for source in sources:
        file = root / source.file.removeprefix(LEADS)
        if source.file != "stdlib" and not source.file.startswith(HUB) and not file.is_file():
            raise FileNotFoundError(
                f"there is no file {file}, which this recipe reads from --data: name the folder that has it "
                "(docs/training.md), or give your own chats as one JSONL file, --data FILE.jsonl (a dataset's to_json)"
            )


def held_out(messages: list[dict]) -> bool:
    """One prompt in a hundred is kept for validation, with all of its answers: by what the user says first.

    Where the user says nothing, by what is said first. Space around it does not count: many templates leave it out.
    """
    spoken = [message for message in messages if message["content"].strip()] or messages
    first = next((message for message in spoken if message["role"] == "user"), spoken[0])
    return zlib.crc32(first["content"].strip().encode()) % 100 == 0


def read_chats(source: Source, root: Path, validation: bool = False) -> Iterator[list[dict]]:
    """Conversations of one source, shortened as the recipe says, up to the first message that is no text or an answer
    with nothing in it; those without an answer before are left out. How many is said where it is a notable share.

    Raises FileNotFoundError for a missing file, ValueError for one that cannot be read, for records that hold no
    conversation, and where the assistant speaks in none.
    """
    roles: set[str] = set()
    count, unanswered = 0, 0
    for number, record in enumerate(_records(source, root), start=1):
        name = str(record.get("source", ""))
        if (source.only and not name.startswith(source.only)) or (source.without and name.startswith(source.without)):
            continue
        messages = _messages(record, f"{source.file}, record {number}")
        roles.update(str(message["role"]) for message in messages if isinstance(message["content"], str))
        messages = list(_usable(_first_turns(messages, source.turns), source.longest))
        answered = any(message["role"] == "assistant" and message["content"] for message in messages)
        count, unanswered = count + 1, unanswered + (not answered)
        if answered and held_out(messages) == validation:
            yield messages
    if roles and "assistant" not in roles:
        raise ValueError(
            f"{source.file}: the assistant speaks in no conversation, whose roles are {', '.join(sorted(roles))}: name "
            "them user and assistant (or human and gpt, as ShareGPT does), or leave the source out"
        )
    if unanswered > NOTABLE * count:
        within = f" that ends a sentence within {source.longest} characters" if source.longest else ""
        warn(f"{source.file}: {unanswered} of {count} conversations have no answer in text{within}, and are left out")


def _first_turns(messages: list[dict], turns: int) -> list[dict]:
    """What comes before the user speaks once more than `turns` times; all where that is 0."""
    asked = [at for at, message in enumerate(messages) if message["role"] == "user"]
    return messages[: asked[turns]] if 0 < turns < len(asked) else messages


def _usable(messages: list[dict], longest: int) -> Iterator[dict]:
    """Messages up to the first that is no text, or an answer of which nothing is there or left: answers have at most
    `longest` characters, unless that is 0. A call of a tool, which the tool answers, need say nothing."""
    for message, after in zip_longest(messages, messages[1:]):
        text = message["content"]
        if not isinstance(text, str):
            return
        if message["role"] == "assistant":
            message = {**message, "content": shorten(text, longest) if longest else text}
            if not message["content"] and (text or not after or after["role"] == "user"):
                return
        yield message


@cache
def warn(what: str) -> None:
    """Say it once: a source is read by stages, for its tokenizer and for what is held out."""
    LOG.warning("%s", what)


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
    try:
        return iter(load_dataset(name, split=split or "train"))
    except RuntimeError as error:
        remedy = "use one without a script, or give its conversations as a JSONL file"
        raise ValueError(f"the dataset {name} cannot be read ({error}): {remedy}") from error
    except (OSError, ValueError, HTTPError) as error:
        raise FileNotFoundError(
            f"there is no {name} here, and the hub did not give a dataset of that name ({first_line(error)}): check "
            "the path, the name, the split (owner/name:split) and the network"
        ) from error


def _lines(path: Path) -> Iterator[dict]:
    with _text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number} is not JSON ({error}): write one object a line") from error
            if not isinstance(record, dict):
                raise ValueError(f'{path}, line {number} is no record: write {{"messages": [...]}}, not {line[:80]!r}')
            yield record


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """A text file, compressed as its name says. Raises ValueError where it is not what it should be."""
    try:
        with OPEN.get(path.suffix, open)(path, "rt", encoding="utf-8-sig") as file:
            yield file
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        kind = f"a whole {path.suffix} file" if path.suffix in OPEN else "text in UTF-8"
        remedy = "fetch it again, name it as what it is, or write its chats as JSONL (as a dataset's to_json does)"
        raise ValueError(f"{path} is not {kind} ({error}): {remedy}") from error


def _messages(record: dict, what: str) -> list[dict]:
    if "messages" not in record and "conversations" not in record:
        has = ", ".join(record) or "nothing"
        raise ValueError(
            f"{what}, has neither messages nor conversations, but {has}: write "
            '{"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}'
        )
    try:
        if "messages" in record:
            return [{**one, "role": one["role"], "content": _content(one)} for one in record["messages"]]
        turns = [(one["from"], _whole(one["value"])) for one in record["conversations"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{what}: a message has not what it needs ({error!r}): {str(record)[:200]}") from error
    return [{"role": ROLES.get(str(who), who), "content": text} for who, text in turns]


def _content(message: dict) -> object:
    """What a message says; a call of tools may have no content."""
    text = message.get("content") if message.get("tool_calls") else message["content"]
    return "" if text is None and message["role"] == "assistant" else _whole(text)


def _whole(text: object) -> object:
    """A text, or the parts of one, without halves of surrogate pairs, which no tokenizer takes: cut emoji have them."""
    if isinstance(text, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in text):
        text = "".join(part["text"] for part in text)
    return text.encode("utf-8", errors="replace").decode("utf-8") if isinstance(text, str) else text


def read_plain(path: Path) -> list[str]:
    """The documents of a file that have more than 200 characters.

    Raises FileNotFoundError for a missing file, ValueError for one that cannot be read.
    """
    with _text(path) as file:
        return [text.strip() for text in file.read().split(DOC) if len(text) > 200]
