"""What is drawn of a source: conversations whose answer is seen, plain texts whole; and what is said of others."""

import contextlib
import gzip
import json
import lzma
import re
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import datasets
import pytest
from huggingface_hub.errors import HTTPError
from recipes import TEMPLATE, given
from texts import message
from tiny import tiny_tokenizer
from transformers import AutoModelForCausalLM

from jakiro.__main__ import main
from jakiro.training import data, sources, workers
from jakiro.training.data import Documents, draw
from jakiro.training.head_recipe import HeadRecipe
from jakiro.training.head_rows import Lesson, rows_of
from jakiro.training.sources import Source, check_files, held_out, only_source, read_chats, read_plain

CHAT = Source("chat.jsonl", 1.0)
STRICT = "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}" + TEMPLATE


def talks(count, held=False):
    """Conversations that are held out, or not."""
    every = ([message("user", f"ask {i}"), message("assistant", f"say {i}.")] for i in range(100_000))
    return list(islice((one for one in every if held_out(one) == held), count))


def write(file, conversations):
    file.write_text("".join(json.dumps({"messages": one}) + "\n" for one in conversations))


def tokenizer(template=TEMPLATE):
    made = tiny_tokenizer()
    made.chat_template = template
    return made


def drawn(folder, count=12, template=TEMPLATE, longest=99, sources=(CHAT,), validation=False):
    """The texts of the documents that come first."""
    made = tokenizer(template)
    found = islice(draw(list(sources), folder, made, longest, 0, validation), count)
    return [made.decode(ids) for ids, said in found if any(said)]


def text(conversation):
    return "".join(f"<{one['role']}>{one['content']}" for one in conversation)


SPOKEN = "{% if messages[0].role == 'system' %}{{ messages[0].content + 1 }}{% endif %}" + TEMPLATE
SYSTEM, BEFORE = message("system", "be kind"), message("assistant", "welcome")


@pytest.mark.parametrize(
    ("start", "template", "reason"),
    [
        (SYSTEM, STRICT, r"the chat template refuses it \(no system here\): change its roles, or the template"),
        (
            SYSTEM,
            SPOKEN,
            r"the chat template refuses it \(can only concatenate .*\): change its roles, or the template",
        ),
        (BEFORE, TEMPLATE, "the assistant speaks first: begin with what the user says"),
    ],
)
def test_conversations_that_no_template_takes_are_left_out(tmp_path, monkeypatch, start, template, reason):
    monkeypatch.setattr(data, "AHEAD", 1)  # such a one is encoded alone
    good, bad = talks(4), [[start, *one] for one in talks(4)]
    write(tmp_path / "chat.jsonl", good + bad)
    assert sorted(drawn(tmp_path, template=template)) == sorted(map(text, good * 3))
    write(tmp_path / "chat.jsonl", bad)
    with pytest.raises(ValueError, match=rf"chat\.jsonl: no conversation can be taken, mostly because {reason}"):
        drawn(tmp_path, template=template)


def test_conversations_without_an_answer_are_left_out_and_unknown_roles_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "AHEAD", 1)
    good = talks(2)
    write(tmp_path / "chat.jsonl", [good[0], good[1][:1], [message("user", "?"), message("bot", "!")]])
    assert drawn(tmp_path) == [text(good[0])] * 12
    write(tmp_path / "chat.jsonl", [[message("user", f"ask {i}"), message("bot", "!")] for i in range(9)])
    with pytest.raises(
        ValueError, match=r"chat\.jsonl: the assistant speaks in no conversation, whose roles are bot, user: name"
    ):
        drawn(tmp_path)


ANEW = (  # as Qwen3's, which shows an empty thought in the last answer alone
    "{% for m in messages %}<{{ m.role }}>{{ '#' if loop.last and m.role == 'assistant' }}{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_heads_learn_every_answer_of_a_template_that_writes_the_earlier_ones_anew(trained, tmp_path):
    """Others draw the first, whose prompt no one else's answer is in."""
    talk = [message(role, f"{role[0]}{i}") for i in range(3) for role in ("user", "assistant")]
    write(tmp_path / "chat.jsonl", [talk])
    texts = [text(talk[:end]) + f"<assistant>#a{end // 2}" for end in (1, 3, 5)]
    assert drawn(tmp_path, 3, ANEW, sources=[replace(CHAT, turns=0)]) == texts[:1] * 3
    made, model = tokenizer(ANEW), AutoModelForCausalLM.from_pretrained(trained / "out")
    recipe = HeadRecipe.of(given(mix=[{"file": "chat.jsonl", "weight": 1, "turns": 0}], rows=1, row=99))
    [rows] = rows_of(Lesson(workers.start(), model, made, recipe, tmp_path), tmp_path)
    learned = [
        (made.decode(ids[texts == number]), made.decode(ids[(texts == number) & said]))
        for ids, said, texts in zip(*rows, strict=True)
        for number in {*texts[said].tolist()}
    ]
    assert {*learned} == {(one, f"#a{i}") for i, one in enumerate(texts)}


def test_a_template_is_blamed_where_it_shows_no_answer_of_a_whole_source(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "AHEAD", 1)
    hidden = "{% if messages[0].content == 'ask 0' %}{{ messages|length }}{% else %}" + TEMPLATE + "{% endif %}"
    write(tmp_path / "chat.jsonl", talks(3))
    assert set(drawn(tmp_path, template=hidden)) == set(map(text, talks(3)[1:]))
    write(tmp_path / "chat.jsonl", talks(1))
    with pytest.raises(ValueError, match="does not show where an answer begins: mend the template"):
        drawn(tmp_path, template=hidden)


def test_conversations_that_are_cut_before_their_answer_are_left_out(tmp_path):
    """A step of them alone would have nothing to learn."""
    good, long = talks(3), [[message("user", one[0]["content"] + "!" * 99), one[1]] for one in talks(3)]
    write(tmp_path / "chat.jsonl", good + long)
    assert sorted(drawn(tmp_path)) == sorted(map(text, good * 4))
    write(tmp_path / "chat.jsonl", long)
    with pytest.raises(
        ValueError, match=r"chat\.jsonl: no conversation comes to its answer within 99 tokens: raise `row`"
    ):
        drawn(tmp_path)


def test_a_source_that_holds_nothing_out_does_not_stop_a_trial(tmp_path):
    write(tmp_path / "chat.jsonl", talks(3, held=True))
    write(tmp_path / "small.jsonl", talks(3))
    small = Source("small.jsonl", 1.0)
    assert sorted(drawn(tmp_path, sources=(small, CHAT), validation=True)) == sorted(map(text, talks(3, held=True) * 4))
    with pytest.raises(ValueError, match=r"small\.jsonl has no held-out documents .*: leave `trial` out .* more data"):
        drawn(tmp_path, sources=(small, small), validation=True)
    with pytest.raises(ValueError, match=r"chat\.jsonl has no documents: give conversations with an answer$"):
        drawn(tmp_path, sources=(small, CHAT))
    with pytest.raises(ValueError, match=r"small\.jsonl has no documents: check its `only` and `without`"):
        drawn(tmp_path, sources=(replace(small, only=("nobody",)),))


def test_a_plain_text_that_is_the_only_one_is_learned_from(tmp_path):
    (tmp_path / "plain").mkdir()
    one = "the cat sat on a mat\n" * 20
    (tmp_path / "plain/texts.txt").write_text(one)
    plain = Source("plain/texts.txt", 1.0)
    assert drawn(tmp_path, 1, longest=1000, sources=[plain]) == [one.strip()]
    with pytest.raises(ValueError, match="has no held-out documents"):
        drawn(tmp_path, sources=[plain], validation=True)
    (tmp_path / "plain/texts.txt").write_text("short")
    with pytest.raises(ValueError, match=r"plain/texts\.txt has no document of more than 200 characters: give longer"):
        drawn(tmp_path, sources=[plain])


def test_sources_get_their_share_of_tokens(tmp_path):
    """Three of four: six documents of 600 tokens, and four of 300."""
    (tmp_path / "plain").mkdir()
    mix = [Source(f"plain/{name}.txt", weight) for name, weight in (("long", 3.0), ("short", 1.0))]
    for source, one in zip(mix, ("x" * 600, "y" * 300), strict=True):
        (tmp_path / source.file).write_text(one)
    assert Counter(drawn(tmp_path, 10, longest=600, sources=mix)) == {"x" * 600: 6, "y" * 300: 4}


def test_one_plain_text_in_a_hundred_is_held_out(tmp_path, caplog):
    (tmp_path / "plain").mkdir()
    texts = [f"{number:03} " + "x" * 200 for number in range(200)]
    (tmp_path / "plain/texts.txt").write_text("<|doc|>".join(texts))
    plain, made = Source("plain/texts.txt", 1.0), tokenizer()
    learned, held = (Documents(plain, tmp_path, made, 300, 0, validation).items for validation in (False, True))
    assert held == [texts[0], texts[100]] and {*learned} == {*texts} - {*held}
    assert caplog.messages == []


def test_conversations_that_are_refused_or_cut_are_told_where_they_are_many(tmp_path, caplog, monkeypatch):
    sources.warn.cache_clear()
    long = [[message("user", one[0]["content"] + "!" * 99), one[1]] for one in talks(20)]
    write(tmp_path / "chat.jsonl", [*talks(70), *([BEFORE, *one] for one in talks(10)), *long])
    drawn(tmp_path)  # of all but one, which is held out
    why = "no answer begins in 99 tokens"
    assert caplog.messages == [f"chat.jsonl: 29 of 99 conversations are left out, mostly because {why}"]
    monkeypatch.setattr(data, "AHEAD", 10)
    drawn(tmp_path)  # of those that were looked at so far
    assert re.match(r"chat\.jsonl: \d of 10 conversations are left out", caplog.messages[1])


def test_a_plain_text_that_fits_is_given_whole_and_a_longer_one_from_a_lines_end(tmp_path):
    (tmp_path / "plain").mkdir()
    held, short, long = ("".join(f"{name} {i}\n" for i in range(n)) for name, n in (("h", 60), ("s", 60), ("l", 900)))
    (tmp_path / "plain/texts.txt").write_text("<|doc|>".join((held, short, long)))
    made = tokenizer()
    texts = Documents(Source("plain/texts.txt", 1.0), tmp_path, made, 600, 0)
    found = [made.decode(texts.draw()[0]) for _ in range(12)]
    assert found.count(short.strip()) == 6
    assert all(one.startswith("l ") and one in long for one in found if one != short.strip())


@pytest.mark.parametrize("long", [1, 3])
def test_a_conversation_ends_before_an_answer_of_which_nothing_is_left(tmp_path, long):
    """An answer with nothing in it would be learnt."""
    asked = [*talks(1)[0], message("user", "and?"), message("assistant", "Yes. No.")]
    asked[long] = message("assistant", "a sentence that does not come to its end")
    write(tmp_path / "chat.jsonl", [asked])
    found = list(read_chats(Source("chat.jsonl", 1.0, longest=12), tmp_path))
    assert found == [asked[:3]] * (long == 3)


@pytest.mark.parametrize("name", ["chat.jsonl.xz", "chat.jsonl.gz", "plain/texts.txt.xz"])
@pytest.mark.parametrize("content", ["whole", "cut", "spoilt", "other"])
def test_a_file_that_is_compressed_is_read_whole_or_named(tmp_path, name, content):
    (tmp_path / "plain").mkdir()
    said = talks(200)
    text = "\n".join(json.dumps({"messages": talk}) for talk in said).encode()
    whole = {"xz": lzma, "gz": gzip}[name[-2:]].compress(text)
    middle = len(whole) // 2
    spoilt = whole[:middle] + b"\0" * 9 + whole[middle + 9 :]
    parts = {"whole": whole, "cut": whole[:-20], "spoilt": spoilt, "other": b"{}"}
    (tmp_path / name).write_bytes(parts[content])
    expected = contextlib.nullcontext()
    if content != "whole":
        expected = pytest.raises(ValueError, match=rf"{name} is not a whole \.{name[-2:]} file .*: fetch it again")
    with expected:
        found = read_plain(tmp_path / name) if "plain" in name else list(read_chats(Source(name, 1.0), tmp_path))
        assert len(found) == (1 if "plain" in name else 200) and ("plain" in name or found == said)


def test_empty_lines_and_a_mark_at_the_beginning_are_passed_over(tmp_path):
    """As in a file of questions: editors leave them."""
    one, other = (json.dumps({"messages": talk}) for talk in talks(2))
    (tmp_path / "chat.jsonl").write_text(f"{one}\n\n{other}\n \n", encoding="utf-8-sig")
    assert list(read_chats(CHAT, tmp_path)) == talks(2)


def test_a_line_that_is_no_record_and_a_file_that_is_no_text_are_named(tmp_path):
    (tmp_path / "chat.jsonl").write_text('[{"role": "user"}]\n')
    with pytest.raises(ValueError, match=r"chat\.jsonl, line 1 is no record: write"):
        drawn(tmp_path)
    (tmp_path / "chat.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"chat\.jsonl is not text in UTF-8"):
        drawn(tmp_path)


@pytest.mark.parametrize("named", ["chats/mine.jsonl", "chats/mine.json", "chats/mine.jsonl.xz", "here/mine"])
def test_a_path_that_is_not_there_is_no_dataset(tmp_path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(FileNotFoundError, match=f"{named} is neither a folder, a JSONL file nor .*: check the path"):
        only_source(named)


@pytest.mark.parametrize("error", [FileNotFoundError("gone\nmore"), ValueError("Unknown split"), HTTPError("slow")])
def test_a_dataset_that_the_hub_does_not_give_is_said_with_what_to_check(monkeypatch, error):
    def load_dataset(name, split):
        raise error

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    why = str(error).splitlines()[0]
    with pytest.raises(FileNotFoundError, match=rf"no owner/name here, .* of that name \({why}\): check the path, the"):
        list(read_chats(Source("hub:owner/name:odd", 1.0), Path()))


def test_a_dataset_that_needs_a_script_is_said_with_what_to_do(monkeypatch):
    def load_dataset(name, split):
        raise RuntimeError("Dataset scripts are no longer supported")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(ValueError, match=r"owner/name cannot be read \(Dataset scripts .*\): use one without a script"):
        list(read_chats(Source("hub:owner/name", 1.0), Path()))


def test_a_file_of_a_recipe_that_data_has_not_is_said_with_what_to_give(tmp_path, capsys):
    line = ["--data", tmp_path, "--run-folder", tmp_path / "run", "--out", tmp_path / "out"]
    for what in (["target"], ["eagle2", "--target", tmp_path]):
        assert main(["train", *map(str, [*what, *line])]) == 2
        said = capsys.readouterr().err
        assert f"there is no file {tmp_path}/" in said and "as one JSONL file, --data FILE.jsonl" in said
    check_files([Source("stdlib", 1.0), Source("hub:owner/name", 1.0)], tmp_path)


@pytest.mark.parametrize("named", ["chats.parquet", "saved"])
def test_datasets_files_are_said_to_be_written_as_jsonl(tmp_path, capsys, named):
    chats = datasets.Dataset.from_list([{"messages": talk} for talk in talks(3)])
    chats.to_parquet(tmp_path / "chats.parquet")
    chats.save_to_disk(tmp_path / "saved")
    line = ["--data", tmp_path / named, "--run-folder", tmp_path / "run", "--out", tmp_path / "out"]
    assert main(["train", "target", *map(str, line)]) == 2
    said = capsys.readouterr().err
    assert "JSONL" in said and "a dataset's to_json" in said
    chats.to_json(tmp_path / "chats.jsonl")
    assert [*read_chats(Source("chats.jsonl", 1.0), tmp_path)] == talks(3)


def test_a_head_that_the_recipe_has_not_is_said_before_its_target_is_looked_for(tmp_path, capsys):
    line = ["--data", tmp_path, "--run-folder", tmp_path / "run", "--target", tmp_path, "--out", tmp_path / "out"]
    for name, remedy in (("eagle3", "; try --recipe .*heads-cpu-eagle3"), ("nobody", "$")):
        assert main(["train", name, *map(str, line)]) == 2
        assert re.search(f"the recipe has no head '{name}'; it has eagle2, jakiro{remedy}", capsys.readouterr().err)
