"""Conversations as ids: what is said, how it is packed into rows, and what a mix is read from."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from recipes import MIX
from transformers import AutoTokenizer

from jakiro.training import loop
from jakiro.training.data import draw, encoded, templated
from jakiro.training.packing import Rows, batches, by_width, distinct_tokens, fill, load_rows, pack, save_rows
from jakiro.training.sentences import shorten
from jakiro.training.sources import Source, only_source, read_chats


def test_packing_keeps_documents_whole_and_marks_answers(trained, data):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    ids, said, _ = pack(MIX[:1], data, tokenizer, 2000, 64, seed=1)
    again, *_ = pack(MIX[:1], data, tokenizer, 2000, 64, seed=1)
    assert (ids == again).all() and ids.shape[1] == 65
    user, end = tokenizer.convert_tokens_to_ids(["<|user|>", "<|end|>"])
    assert (ids[:, 0] == user).all()
    assert not said[ids == 0].any() and not said[ids == user].any()
    for row, answer in zip(ids, said, strict=True):
        assert answer.sum() and row[answer][-1] == end


@pytest.mark.parametrize("damage", [b"", b"garbage", b"PK\x03\x04 cut off"])
@pytest.mark.parametrize("read", [loop.read, lambda file: load_rows(file, [8])])
def test_a_damaged_file_of_a_run_is_named(tmp_path, read, damage):
    file = tmp_path / "kept"
    file.write_bytes(damage)
    with pytest.raises(ValueError, match="kept is damaged: delete it"):
        read(file)


def test_a_checkpoint_that_was_cut_off_anywhere_is_named(tmp_path):
    """torch says so in several ways."""
    file = tmp_path / "kept"
    loop.save({"weights": torch.arange(4000.0), "step": 3}, file)
    whole = file.read_bytes()
    for part in range(1, 20):
        file.write_bytes(whole[: len(whole) * part // 20])
        with pytest.raises(ValueError, match="kept is damaged: delete it"):
            loop.read(file)


def test_ids_of_a_large_vocabulary_are_kept_whole():
    rows, said, texts = fill([([70_000, 5], [False, True]), ([3], [True])], 3, seed=0)
    assert rows.dtype == np.uint32 and sorted(rows[rows > 0].tolist()) == [3, 5, 70_000]
    assert said.sum() == 2 and sorted(texts[rows > 0].tolist()) == [0, 0, 1]
    for most, kind in ((65_535, np.uint16), (65_536, np.uint32)):
        rows, *_ = fill([([most], [True])], 3, seed=0)
        assert rows.dtype == kind and rows.max() == most


def test_short_documents_fill_what_long_ones_leave_of_their_rows():
    """Of a row of 9 tokens 6 are taken: another 3 fit, and 3 more do not."""
    six, three, other = (([5] * size, [True] * size) for size in (6, 3, 3))
    assert by_width([six, three, other], [4, 8]) == [[other], [six, three]]
    assert by_width([three, six, other], [4, 8]) == [[three], [six, other]]


def test_batches_of_each_width_are_spread_over_all():
    """Four batches of rows of 4, and in their middle one of rows of 8; a row that fills no batch is left out."""
    narrow, wide = (
        Rows(np.full((count, size + 1), size), np.ones((count, size + 1))) for count, size in ((9, 4), (1, 8))
    )
    assert [(one.ids.shape, one.ids[0, 0]) for one in batches([narrow, wide], 8)] == [
        *[((2, 5), 4)] * 2, ((1, 9), 8), *[((2, 5), 4)] * 2
    ]  # fmt: skip


def test_rows_tell_their_texts_apart_and_how_many_tokens_are_different(tmp_path):
    documents = [([5, 6, 7], [True] * 3), ([8, 9], [True] * 2), ([5, 6, 7], [True] * 3)]
    save_rows(tmp_path / "rows.npz", documents, [8], seed=0)
    [rows] = load_rows(tmp_path / "rows.npz", [8])
    assert rows.ids.tolist() == [[5, 6, 7, 8, 9, 5, 6, 7, 0]] and rows.texts.tolist() == [[0, 0, 0, 1, 1, 2, 2, 2, 3]]
    assert distinct_tokens(tmp_path / "rows.npz") == 5


def test_conversations_are_learned_in_the_form_that_the_template_takes(trained, data):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    tokenizer.chat_template = (
        "{% for m in messages %}<|{{ m.role }}|>{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}"
        "{% endif %}{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    ids, said = next(draw(MIX[:1], data, tokenizer, 65, seed=0))
    assert len([token for token, mine in zip(ids, said, strict=True) if mine]) > 1  # more than its end


@pytest.mark.parametrize("behind", ["", "\n"])  # as ChatML's: what stands behind an end mark is never decoded
def test_encoding_marks_the_end_of_an_answer_as_said(trained, behind):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    tokenizer.chat_template = (
        f"{{% for m in messages %}}<|{{{{ m.role }}}}|>{{{{ m.content }}}}<|end|>{{{{ {behind!r} }}}}{{% endfor %}}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    words = ("the cat", "sat", "and then", "ran")
    messages = [{"role": role, "content": word} for role, word in zip(("user", "assistant") * 2, words, strict=True)]
    ids, said = encoded(tokenizer, templated(tokenizer, messages))[0]
    assert ids == tokenizer.apply_chat_template(messages)["input_ids"]
    assert tokenizer.decode([token for token, mine in zip(ids, said, strict=True) if mine]) == "sat<|end|>ran<|end|>"


def test_an_answers_first_token_is_said_also_where_it_holds_the_requests_last_space(trained):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ 'U: ' if m.role == 'user' else 'A: ' }}{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}{{ 'A: ' }}{% endif %}"
    )
    messages = [{"role": "user", "content": "cat"}, {"role": "assistant", "content": "sat"}]
    ids, said = encoded(tokenizer, templated(tokenizer, messages))[0]
    assert tokenizer.decode(ids[: said.index(True)]) == "U: cat\nA:"
    assert all(said[said.index(True) :])


def test_a_template_that_writes_earlier_turns_anew_shows_each_answer_as_the_last(trained):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    messages = [{"role": role, "content": "cat"} for role in ("user", "assistant") * 2]
    whole, _ = encoded(tokenizer, templated(tokenizer, messages))[0]
    turn = "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}"
    tokenizer.chat_template = (
        "{% for m in messages %}{% if loop.last or m.role == 'user' %}" + turn + "{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    (ids, said), (later, last) = encoded(tokenizer, templated(tokenizer, messages))
    assert ids == whole[: len(whole) // 2] and sum(said) == 2
    assert later == tokenizer.apply_chat_template(messages)["input_ids"] != whole
    assert last == [False] * (len(later) - 2) + [True] * 2


def test_a_template_without_answers_is_refused(trained, data):
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    with pytest.raises(ValueError, match="does not show where an answer begins"):
        pack(MIX[:1], data, tokenizer, 100, 32, seed=0)


@pytest.mark.parametrize(
    ("text", "longest", "short"),
    [
        ("One. Two. Three.", 99, "One. Two. Three."),
        ("One. Two. Three.", 11, "One. Two."),
        ("One. Two. Three.", 9, "One. Two."),  # whose end is the longest that may be
        ("One. Two. Three.", 8, "One."),
        ("no end at all", 5, ""),
        ("Look:\n\n```\ncode\n```\nmore text here. And", 30, "Look:"),
        ("Look:\n\n```\na = 1\n\nb = 2\n```\nwhich has no end", 40, "Look:"),
        ("Look:\n\n```\na\n\nb\n```\nwhich is it. And more", 40, "Look:\n\n```\na\n\nb\n```\nwhich is it."),
    ],
)
def test_shorten_cuts_at_a_sentence(text, longest, short):
    assert shorten(text, longest) == short


@pytest.mark.parametrize("form", ["messages", "conversations"])
def test_a_jsonl_file_or_a_dataset_is_a_mix(tmp_path, form):
    """One file by its name, and the same records as a dataset in a format that the hub has, by a local name."""
    turns = [["hello there", "hi"], ["and you", "fine"]] * 60
    if form == "messages":
        records = [
            {form: [{"role": "user", "content": f"{ask} {i}"}, {"role": "assistant", "content": say}]}
            for i, (ask, say) in enumerate(turns)
        ]
    else:
        records = [
            {form: [{"from": "human", "value": f"{ask} {i}"}, {"from": "gpt", "value": say}]}
            for i, (ask, say) in enumerate(turns)
        ]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    root, [source] = only_source(str(file))
    found = list(read_chats(source, root))
    assert len(found) + len(list(read_chats(source, root, validation=True))) == 120
    assert found[0][1] == {"role": "assistant", "content": "hi"}
    (tmp_path / "set").mkdir()
    Dataset.from_list(records).to_parquet(tmp_path / "set" / "train.parquet")
    assert list(read_chats(Source(f"hub:{tmp_path / 'set'}", 1.0), Path())) == found


def test_data_that_is_nothing_is_refused_with_the_remedy(tmp_path):
    assert only_source(str(tmp_path)) == (tmp_path, None)
    assert only_source("someone/chats:test")[1] == [Source("hub:someone/chats:test", 1.0, turns=0)]
    with pytest.raises(FileNotFoundError, match="neither a folder, a JSONL file nor a dataset"):
        only_source("no such thing")
    file = tmp_path / "bad.jsonl"
    for line, message in (
        ("{", "line 1 is not JSON"),
        ("[" * 100_000, "line 1 is not JSON"),
        ('\n{"messages": []}\n{"text": "a"}', "record 2, has neither messages nor conversations, but text"),
    ):
        file.write_text(line)
        with pytest.raises(ValueError, match=message):
            list(read_chats(Source("bad.jsonl", 1.0), tmp_path))
    file.write_text('{"messages": [{"role": "user", "content": [{"type": "image"}]}]}')
    assert list(read_chats(Source("bad.jsonl", 1.0), tmp_path)) == []
