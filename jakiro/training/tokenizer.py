"""A byte-level BPE tokenizer with a chat template, trained on the texts at hand."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from jakiro.files import replacing
from jakiro.models import hub
from jakiro.models.loading import load_tokenizer
from jakiro.training.claims import claim
from jakiro.training.sources import Source, is_plain, read_chats
from jakiro.training.target_recipe import Recipe

CHARS = 12_000_000  # text that a tokenizer is trained on
PAD, USER, ASSISTANT, END = SPECIAL = ("<|pad|>", "<|user|>", "<|assistant|>", "<|end|>")  # ids 0 to 3
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train on `texts`; any byte can be encoded."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = _pieces()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return byte_level(bpe)


def byte_level(bpe: Tokenizer) -> PreTrainedTokenizerFast:
    """Tokens and merges of bytes, the special ones first, with the chat template."""
    bpe.pre_tokenizer, bpe.decoder = _pieces(), decoders.ByteLevel()
    bpe.add_special_tokens([*SPECIAL])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token=PAD, eos_token=END)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _pieces() -> pre_tokenizers.PreTokenizer:
    """Within which tokens lie. Digits stand alone, so that numbers are read digit by digit."""
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


def tokenizer_of(model: Path, recipe: Recipe) -> PreTrainedTokenizerFast:
    """The tokenizer of a model that `train target` wrote. Raises FileNotFoundError where there is none, ValueError for
    one that is damaged, of another kind, or of another size than the recipe's."""
    hub.check_tokenizer(model)
    tokenizer = load_tokenizer(model, None)
    if tokenizer.pad_token_id != 0 or tokenizer.eos_token != END or not tokenizer.chat_template:
        raise ValueError(f"{model} has a tokenizer of another kind: --like takes a model that `train target` wrote")
    if len(tokenizer) != recipe.vocab_size:
        raise ValueError(f"{model} has {len(tokenizer)} tokens, the recipe {recipe.vocab_size}; change its vocab_size")
    return tokenizer


def tokenizer_for(recipe: Recipe, data: Path, run: Path, files: dict[str, str]) -> PreTrainedTokenizerFast:
    """The run's own, trained the first time on the recipe's last conversations; `files` are the `contents` of its
    sources. Raises ValueError where they do not make as many tokens as the recipe asks for, and where the run has one
    of texts that are no stage's."""
    folder = run / "tokenizer"
    chats = [found for stage in reversed(recipe.stages) if (found := _chats(recipe.mixes[stage.mix]))] or [[]]
    _claim(folder, recipe, chats, files)
    if folder.exists():
        return PreTrainedTokenizerFast.from_pretrained(folder)
    texts: list[str] = []
    for source in chats[0]:
        room = CHARS * source.weight
        for messages in read_chats(source, data):
            text = "\n".join(message["content"] for message in messages)
            texts.append(text)
            room -= len(text)
            if room < 0:
                break
    tokenizer = train_tokenizer(texts, recipe.vocab_size)
    if len(tokenizer) != recipe.vocab_size:
        raise ValueError(
            f"the conversations of the recipe make a vocabulary of {len(tokenizer)} tokens, and it asks for "
            f"{recipe.vocab_size}: change its vocab_size, or give it more of them"
        )
    with replacing(folder) as new:
        tokenizer.save_pretrained(new)
    return tokenizer


def _chats(mix: list[Source]) -> list[Source]:
    """The conversations of a mix, whose weights are now shares of the whole of it."""
    total = sum(source.weight for source in mix)
    return [replace(source, weight=source.weight / total) for source in mix if not is_plain(source)]


def _claim(folder: Path, recipe: Recipe, chats: list[list[Source]], files: dict[str, str]) -> None:
    """Of the first of the chats. A tokenizer that is there may be of the others: stages were appended since."""
    parts = [{"mix": [*map(asdict, one)], "data": {source.file: files[source.file] for source in one}} for one in chats]
    for own in parts:
        with suppress(ValueError):
            return claim(folder, vocab_size=recipe.vocab_size, **own)
    claim(folder, vocab_size=recipe.vocab_size, **parts[0])
