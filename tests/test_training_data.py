"""Conversations with a system message, what is held out, and the prompts of a mix that has few."""

import json
from dataclasses import replace

import pytest
from recipes import TEMPLATE, head_recipe
from texts import message, write_texts
from tiny import CONTEXT, tiny_model, tiny_tokenizer

from jakiro.__main__ import main
from jakiro.training import sources, workers
from jakiro.training.answers import prompts_of
from jakiro.training.data import draw, take
from jakiro.training.head_rows import Lesson, check_target
from jakiro.training.sources import Source, held_out, only_source, read_chats
from jakiro.training.trial import Trial, held_out_prompts


def write(folder, *conversations):
    folder.mkdir(exist_ok=True)
    (folder / "chat.jsonl").write_text("".join(json.dumps({"messages": one}) + "\n" for one in conversations))
    return folder


def talk(number, *before):
    return [*before, message("user", f"question {number}"), message("assistant", f"answer {number}. And more.")]


def both(source, folder):
    return [one for held in (False, True) for one in read_chats(source, folder, held)]


def test_what_is_held_out_is_decided_by_what_the_user_says(tmp_path):
    system = message("system", "You are kind.")
    folder = write(tmp_path, *(talk(number, system) for number in range(1000)))
    held = list(read_chats(Source("chat.jsonl", 1.0), folder, validation=True))
    assert 2 <= len(held) <= 30
    assert [held_out(one[1:]) for one in held] == [True] * len(held)  # as without the system message
    assert held_out(talk(3)) == held_out(talk(3, system)) and isinstance(held_out([message("assistant", "a")]), bool)


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_conversations_whose_user_says_nothing_are_not_all_held_out(tmp_path, nothing):
    folder = write(tmp_path, *([message("user", nothing), message("assistant", f"answer {i}.")] for i in range(300)))
    assert len(list(read_chats(Source("chat.jsonl", 1.0), folder))) > 250
    assert held_out([message("user", nothing), message("assistant", " ")]) in (True, False)


def test_a_prompt_that_differs_in_the_space_around_it_is_held_out_with_the_other():
    """Templates of Llama 3 and Gemma strip it: it would be learned from and tried on."""
    for text in map(str, range(300)):
        ways = [held_out([message("user", way), message("assistant", "a")]) for way in (text, f"{text}\n", f" {text}")]
        assert len({*ways}) == 1


def test_half_an_emoji_is_read_as_a_question_mark(tmp_path):
    record = {"messages": [message("user", "\ud83d hi"), message("assistant", "ok \udc00.")]}
    (tmp_path / "chat.jsonl").write_text(json.dumps(record))
    [found] = both(Source("chat.jsonl", 1.0), tmp_path)
    assert [one["content"] for one in found] == ["? hi", "ok ?."]


def test_a_system_message_is_no_turn_and_is_not_shortened(tmp_path):
    system = message("system", "One sentence. Another, which is long. A third.")
    folder = write(tmp_path, [*talk(1, system), *talk(2), *talk(3)])
    for turns in (1, 2):
        [found] = both(Source("chat.jsonl", 1.0, longest=12, turns=turns), folder)
        assert found[0] == system and [one["role"] for one in found[1:]] == ["user", "assistant"] * turns
        assert {one["content"] for one in found if one["role"] == "assistant"} <= {"answer 1.", "answer 2."}
        assert found[1]["content"] == "question 1"


CALL = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add", "arguments": "{}"}}]}
ASKED = [message("user", "what is 1 + 2?"), CALL, message("tool", "3"), message("assistant", "It is 3.")]


def test_a_turn_is_kept_with_all_that_answers_it(tmp_path):
    """A tool's call and its answer are part of it. What --data names is kept whole."""
    whole = [message("system", "add"), *ASKED, *talk(2), *talk(3)]
    folder = write(tmp_path, whole)
    for turns, kept in ((1, 5), (2, 7), (3, 9), (0, 9)):
        [found] = both(Source("chat.jsonl", 1.0, turns=turns), folder)
        assert [one["role"] for one in found] == [one["role"] for one in whole[:kept]]
        assert found[2] == CALL | {"content": ""}  # as templates take it
    root, [source] = only_source(folder / "chat.jsonl")
    assert len(both(source, root)[0]) == 9


IMAGE = [{"type": "image"}, {"type": "text", "text": "what is this?"}]
PARTS = [{"type": "text", "text": "answer"}, {"type": "text", "text": " 1."}]


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        ([*talk(1), message("user", "and?"), message("assistant", "")], 3),
        ([*talk(1), message("user", "and?"), message("assistant", ""), *talk(2)], 3),
        ([*talk(1), message("user", IMAGE), message("assistant", "A cat.")], 2),
        ([message("user", "hello"), message("assistant", PARTS)], 2),
        ([message("user", "hello"), CALL, message("tool", "3")], 0),
        ([message("user", "hello"), {"role": "assistant", "tool_calls": [3]}, message("tool", "3"), talk(1)[1]], 4),
        ([message("user", "hello"), message("assistant", ""), message("tool", "3"), talk(1)[1], *talk(2)], 6),
        ([message("user", "hello"), message("assistant", None), *talk(1)], 0),
        ([message("user", IMAGE), message("assistant", "A cat.")], 0),
    ],
)
def test_of_a_conversation_what_comes_before_no_text_is_kept(tmp_path, messages, kept):
    found = both(Source("chat.jsonl", 1.0, turns=0), write(tmp_path, messages))
    assert [len(one) for one in found] == [kept] * (kept > 0)
    assert all(isinstance(message["content"], str) for one in found for message in one)
    assert {one[1]["content"] for one in found} <= {"answer 1. And more.", "answer 1.", ""}


@pytest.mark.parametrize("bad", [1, 30])
def test_conversations_that_are_left_out_are_told_once_where_they_are_many(tmp_path, caplog, bad):
    sources.warn.cache_clear()
    folder = write(tmp_path, *map(talk, range(100)), *([message("user", IMAGE)] for _ in range(bad)))
    both(Source("chat.jsonl", 1.0), folder)
    told = f"chat.jsonl: {bad} of {100 + bad} conversations have no answer in text, and are left out"
    assert caplog.messages == [told] * (bad > 1)


@pytest.mark.parametrize(
    "record", [{"messages": [{"role": "user"}]}, {"conversations": [{"from": "gpt"}]}, {"messages": 3}]
)
def test_a_message_without_content_is_refused_by_the_files_name(tmp_path, record):
    (tmp_path / "chat.jsonl").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"chat\.jsonl, record 1: a message has not what it needs"):
        list(read_chats(Source("chat.jsonl", 1.0), tmp_path))


def test_what_is_kept_of_a_source_is_a_few_bytes_a_token(tmp_path):
    shelf, tokenizer = {}, tiny_tokenizer()
    tokenizer.chat_template = TEMPLATE
    mix = [Source("chat.jsonl", 1.0), Source("plain/text.txt.xz", 1.0)]
    drawn = take(draw(mix, write_texts(tmp_path / "data"), tokenizer, 40, 0, shelf=shelf), 900)
    kept = [pair for texts in shelf.values() for found in texts.known.values() for pair in found]
    assert len(shelf) == 2 and all(ids.nbytes + said.nbytes <= 5 * len(ids) for ids, said in kept)
    assert {type(one) for ids, said in drawn for one in (ids, said)} == {list}
    assert {(type(ids[0]), type(said[0])) for ids, said in drawn} == {(int, bool)}


def test_prompts_end_where_a_mix_has_no_others():
    def documents():
        while True:
            for prompt in ([1, 2], [3], [4] * 9, []):
                yield [*prompt, 7], [False] * len(prompt) + [True]

    assert list(prompts_of(documents(), 5)) == [[1, 2], [3]]
    assert list(prompts_of(documents(), 0, patience=50)) == []


def prompts(folder, mix=None, model=None, **how):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = TEMPLATE
    return held_out_prompts(
        model or tiny_model(), tokenizer, Trial(1, **how), mix or [Source("chat.jsonl", 1.0)], folder, seed=0
    )


def held(count):
    return [one for one in map(talk, range(100_000)) if held_out(one)][:count]


def test_a_small_mix_has_the_held_out_prompts_that_it_has(tmp_path):
    """Twice the same prompt comes before others; and what there is too few of is not waited for."""
    found = held(5)
    folder = write_texts(tmp_path / "data")
    write(folder, *(one for talk in found for one in (talk, [*talk[:1], message("assistant", "otherwise")])))
    mix = [Source("chat.jsonl", 1.0), Source("plain/text.txt.xz", 1.0)]
    assert len(prompts(folder, mix, prompts=12, new_tokens=8)) == 5
    assert len(prompts(folder, prompts=3, new_tokens=8)) == 3


def test_held_out_prompts_that_are_all_too_long_are_said(tmp_path):
    long = [[message("user", one[0]["content"]), *one[1:]] for one in held(3)]
    with pytest.raises(ValueError, match="leave `trial` out of the recipe"):
        prompts(write(tmp_path, *long), new_tokens=150)


def test_what_a_target_is_trained_and_tried_on_may_be_as_long_as_it_reads(tmp_path):
    """YaRN stretches positions, and many a config leaves their number as it was."""
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0}
    model = tiny_model(max_position_embeddings=CONTEXT // 4, rope_parameters=rope)
    assert prompts(write(tmp_path, *held(3)), model=model, new_tokens=CONTEXT // 2)
    lesson = Lesson(workers.start(), model, tiny_tokenizer(), head_recipe(row=CONTEXT, short=[]), tmp_path)
    assert check_target(lesson).context == CONTEXT
    with pytest.raises(ValueError, match=f"`row` of the recipe is {CONTEXT + 1}, and the target's context {CONTEXT}"):
        check_target(replace(lesson, recipe=head_recipe(row=CONTEXT + 1, short=[])))


def test_one_bad_line_is_one_line_on_the_command_line(tmp_path, capsys):
    tiny_model(max_position_embeddings=1024).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "chat.jsonl").write_text('{"messages": [{"role": "user"}]}\n')
    line = [
        "train",
        "eagle2",
        "--target",
        tmp_path / "model",
        "--data",
        tmp_path / "chat.jsonl",
        "--run-folder",
        tmp_path,
    ]
    assert main([str(one) for one in line]) == 2
    assert "chat.jsonl, record 1: a message has not what it needs" in capsys.readouterr().err
