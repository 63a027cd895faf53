"""Text to token ids, and ids back to text that can be shown: whole, or token by token."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from numbers import Integral
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

FORMS: tuple[Callable[[str], Any], ...] = (str, lambda text: [{"type": "text", "text": text}])  # of a message's content
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # byte fallback of SentencePiece vocabularies


def encode(tokenizer: PreTrainedTokenizerBase, prompt: str, chat: bool = True) -> list[int]:
    """The prompt's ids: as a user's turn where the tokenizer has a chat template, else plain, after its bos token if it
    puts that before a text.

    Raises ValueError for a prompt that is no text, has nothing in it or half a character, and where the chat template
    refuses it.
    """
    if prompt is not None and not isinstance(prompt, str):
        raise ValueError(
            "the prompt is no text: write a question as one; a conversation's ids are what the tokenizer's own "
            "apply_chat_template gives"
        )
    if not prompt or not prompt.strip():
        raise ValueError("the prompt is empty; write a question or choose an example")
    if half(prompt):
        raise ValueError("the prompt has half a character (a lone surrogate), which cannot be shown; leave it out")
    if chat and tokenizer.chat_template:
        return tokenize(tokenizer, as_turn(tokenizer, prompt))
    ids = tokenize(tokenizer, prompt)
    return [tokenizer.bos_token_id, *ids] if begins(tokenizer) else ids


def half(text: str) -> bool:
    """Whether a text has half a character, a lone surrogate, as bytes that are not UTF-8 leave behind."""
    return any("\ud800" <= char <= "\udfff" for char in text)


def check_ids(ids: Sequence[int], size: int, what: str = "the prompt") -> None:
    """Raise ValueError where ids are not all of a vocabulary of `size` tokens: another model's tokenizer made them."""
    if (
        not all(isinstance(one, Integral) and not isinstance(one, bool) for one in ids)
        or not 0 <= min(ids) <= max(ids) < size
    ):
        raise ValueError(
            f"{what} has ids outside 0 to {size - 1}; encode it with the target's tokenizer, and take that and the "
            "model from one place"
        )


def begins(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether it puts its bos token before a text."""
    return tokenizer.bos_token_id is not None and tokenizer("").input_ids[:1] == [tokenizer.bos_token_id]


def as_turn(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    """The prompt as a user's turn in the tokenizer's chat template, up to where the answer begins.

    Raises ValueError where the template refuses it.
    """
    turn = [{"role": "user", "content": form_of(tokenizer)(prompt)}]
    try:
        return tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    except Exception as error:  # a template is a program, and raises what it likes
        raise ValueError(
            f"the chat template refuses a user's turn alone ({_why(error)}): give it a message with --system, or "
            "another template with --chat-template FILE"
        ) from error


def with_system(tokenizer: PreTrainedTokenizerBase, system: str, given: str = "--system") -> str:
    """Its chat template, such that conversations which do not begin with a system message begin with this one.

    Raises ValueError for an empty message, and where there is no template, or one that takes no such message. `given`
    is what says the message, to be named in the remedy.
    """
    if not system.strip():
        raise ValueError(f"the system message is empty; leave out {given}")
    if not tokenizer.chat_template:
        raise ValueError("without a chat template a system message has no place; give one with --chat-template")
    form, alone = form_of(tokenizer), tokenizer.get_chat_template()
    told, asked = {"role": "system", "content": form(system)}, {"role": "user", "content": form("a")}
    try:
        shown = tokenizer.apply_chat_template([told, asked], add_generation_prompt=True, tokenize=False)
        why = "" if system.strip() in shown else "it leaves it out"
    except Exception as error:  # as above
        why = _why(error)
    if why:
        remedy = f"leave out {given}, or give another template with --chat-template"
        raise ValueError(f"the chat template refuses a system message ({why}); {remedy}")
    first = f"{{% set messages = [{told!a}] + messages %}}"
    return f"{{% if messages[0]['role'] != 'system' %}}{first}{{% endif %}}\n{alone}"


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, TemplateError) else repr(error)


def form_of(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], Any]:
    """What its chat template takes as the content of a message: the text, or a list of one part.

    Templates of models that take pictures, too, may leave out what is no list.
    """
    for form in FORMS:
        turns = ([{"role": "user", "content": form(one)}] for one in "ab")
        try:
            if len({tokenizer.apply_chat_template(turn, tokenize=False) for turn in turns}) > 1:
                return form
        except Exception:  # it does not take that form; what it refuses altogether is said where it is asked
            continue
    return str


def tokenize(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The ids of a text and nothing else, its leading space included."""
    text = text.encode("utf-8", errors="replace").decode("utf-8")  # lone surrogates, which tokenizers refuse
    return tokenizer(text, add_special_tokens=False).input_ids


def continued(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The ids of a text that goes on where another ended: without the space that some tokenizers put before a text."""
    for before in (".", "\n", "a"):  # the first that does not become one token with the text's beginning
        ids, whole = tokenize(tokenizer, before), tokenize(tokenizer, before + text)
        if whole[: len(ids)] == ids:
            return whole[len(ids) :]
    return tokenize(tokenizer, text)


def decode(tokenizer: PreTrainedTokenizerBase | None, ids: Sequence[int]) -> str:
    """The text of a run of ids, without special tokens."""
    if tokenizer is None:
        return "".join(f"<{id}>" for id in ids)
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def pieces(tokenizer: PreTrainedTokenizerBase | None, ids: Iterable[int]) -> dict[int, str]:
    """Displayable text of each id by itself, its leading space included.

    Bytes that are no whole character by themselves show as ⟨E2⟩, special tokens by their name, ids outside the
    tokenizer's vocabulary as <id>. Never empty.
    """
    if tokenizer is None:
        return {id: f"<{id}>" for id in sorted(set(ids))}
    anchor = tokenizer("a", add_special_tokens=False).input_ids[-1:]
    before = tokenizer.decode(anchor, clean_up_tokenization_spaces=False)
    special = set(tokenizer.all_special_ids)
    return {id: _piece(tokenizer, id, anchor, before, id in special) or f"<{id}>" for id in sorted(set(ids))}


def _piece(tokenizer: PreTrainedTokenizerBase, id: int, anchor: list[int], before: str, special: bool) -> str:
    token = tokenizer.convert_ids_to_tokens(id) if id < len(tokenizer) else None
    if token is None or special:
        return token or ""
    if byte := _BYTE.fullmatch(token):
        return _show(bytes([int(byte[1], 16)]))
    # After another token, since decoders drop the leading space of a text.
    text = tokenizer.decode([*anchor, id], clean_up_tokenization_spaces=False)[len(before) :]
    table = _byte_of_letter()
    if "\ufffd" in text and all(letter in table for letter in token):
        return _show(bytes(table[letter] for letter in token))
    return text or token


def _show(data: bytes) -> str:
    """UTF-8 as text, bytes that do not belong to a whole character as glyphs."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        glyphs = "".join(f"⟨{byte:02X}⟩" for byte in data[error.start : error.end])
        return data[: error.start].decode("utf-8") + glyphs + _show(data[error.end :])


@cache
def _byte_of_letter() -> dict[str, int]:
    """Byte-level vocabularies write each byte as a letter: itself where that prints, else one from U+0100 up."""
    return {letter: byte for byte, letter in bytes_to_unicode().items()}
