"""A teacher's texts: what is asked and answered, and that they are made once."""

import json

import pytest
from recipes import CHAT, TEMPLATE, command
from transformers import AutoModelForCausalLM, AutoTokenizer

from jakiro.__main__ import main
from jakiro.training.sources import Source, read_chats
from jakiro.training.texts import Teacher, TextsRecipe, asked, write

MADE = {"tokens": 60, "batch": 4, "new_tokens": 9, "top_k": 0, "mix": [{"file": "chat.jsonl", "weight": 1}]}


def made(**changes):
    return TextsRecipe.of(MADE | changes)


@pytest.fixture
def teacher(trained):
    folder = trained / "out"
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def records(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_texts_are_written_from_the_command_line_and_a_target_can_be_trained_on_them(trained, data, tmp_path):
    (tmp_path / "texts.json").write_text(json.dumps(MADE))
    line = ["train", "texts", "--target", trained / "out", "--data", data, "--recipe", tmp_path / "texts.json"]
    command(*line, "--out", tmp_path / "texts.jsonl")
    chats = list(read_chats(Source("texts.jsonl", 1.0), tmp_path))
    assert len(chats) >= 4 and {len(chat) for chat in chats} == {2}
    assert {chat[0]["content"] for chat in chats} <= {chat[0]["content"] for chat in read_chats(CHAT[0], data)}
    command(*line[:4], "--data", data / "chat.jsonl", *line[6:], "--out", tmp_path / "file.jsonl")
    assert (tmp_path / "file.jsonl").read_text() == (tmp_path / "texts.jsonl").read_text()


def test_an_interrupted_run_goes_on_to_the_same_texts(teacher, data, tmp_path):
    write(*teacher, made(own=0.5, own_tokens=20), data, tmp_path / "whole.jsonl")
    write(*teacher, made(own=0.5, own_tokens=20, tokens=20), data, tmp_path / "parts.jsonl")
    lines = (tmp_path / "parts.jsonl").read_bytes()
    (tmp_path / "parts.jsonl").write_bytes(lines[:-7])  # as an interrupt in the middle of a line leaves it
    write(*teacher, made(own=0.5, own_tokens=20), data, tmp_path / "parts.jsonl")
    assert (tmp_path / "parts.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    assert len({record["batch"] for record in records(tmp_path / "whole.jsonl")}) > 1


def test_what_is_whole_is_not_written_again(teacher, data, tmp_path, monkeypatch):
    """A finished file; a batch before the interrupt."""
    file = tmp_path / "texts.jsonl"
    write(*teacher, made(), data, file)
    whole, real, asked = file.read_text(), Teacher.answers, []
    monkeypatch.setattr(Teacher, "answers", lambda *given: asked.append(given) or real(*given))
    write(*teacher, made(), data, file)
    assert file.read_text() == whole and not asked
    file.write_text(whole[: whole.index('"batch": 1')])  # the first batch, and half a line
    write(*teacher, made(), data, file)
    assert file.read_text() == whole and len(asked) == len({record["batch"] for record in records(file)}) - 1


@pytest.mark.parametrize("line", ["x", "[]", '{"batch": 0}', '{"batch": 0, "tokens": 3, "messages": []}'])
def test_a_damaged_line_is_named(teacher, data, tmp_path, line):
    file = tmp_path / "texts.jsonl"
    write(*teacher, made(), data, file)
    file.write_text(file.read_text().replace(file.read_text().splitlines()[1], line))
    with pytest.raises(ValueError, match=r"texts\.jsonl is damaged in line 2 \(.*: delete from there on"):
        write(*teacher, made(), data, file)


def test_a_prompt_whose_answer_is_of_no_use_is_not_asked_again(teacher, data, tmp_path, monkeypatch):
    """Also after an interrupt: what a batch draws depends on how many are asked in it."""

    def answers(_, prompts, seed):
        return [("" if prompt == "say nothing" else f"one of {len(prompts)}", 9) for prompt in prompts]

    monkeypatch.setattr(Teacher, "prompts", lambda _, seed: ["say nothing", f"say {seed}"])
    monkeypatch.setattr(Teacher, "answers", answers)
    write(*teacher, made(own=1), data, tmp_path / "whole.jsonl")
    for tokens in (20, 60):
        write(*teacher, made(own=1, tokens=tokens), data, tmp_path / "parts.jsonl")
    assert (tmp_path / "parts.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    chats = list(read_chats(Source("whole.jsonl", 1.0), tmp_path))
    assert [chat[1]["content"] for chat in chats] == ["one of 2", *["one of 1"] * 6]


def test_texts_of_another_teacher_are_not_gone_on_with(teacher, data, tmp_path):
    model, tokenizer = teacher
    write(model, tokenizer, made(), data, tmp_path / "texts.jsonl")
    with pytest.raises(ValueError, match=r"\(texts-from\.json: recipe\.system was '', is 'Be brief\.'\)"):
        write(model, tokenizer, made(system="Be brief."), data, tmp_path / "texts.jsonl")
    model.lm_head.weight.data += 1
    with pytest.raises(ValueError, match="was made from another teacher"):
        write(model, tokenizer, made(), data, tmp_path / "texts.jsonl")


def test_prompts_are_asked_once_by_shares_and_none_that_are_held_out(data, tmp_path):
    for name, count in (("few", 5), ("many", 400)):
        chat = [{"role": "user", "content": ""}, {"role": "assistant", "content": "yes"}]
        lines = [json.dumps({"messages": [chat[0] | {"content": f"{name} {i % count}"}, chat[1]]}) for i in range(500)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    mix = [{"file": "few.jsonl", "weight": 1}, {"file": "many.jsonl", "weight": 3}]
    found = list(asked(made(mix=mix), tmp_path))
    assert len(found) == len(set(found))
    assert [sum(text.startswith(name) for text in found[:16]) for name in ("few", "many")] == [4, 12]
    held = {chat[0]["content"] for file in mix for chat in read_chats(Source.of(file), tmp_path, validation=True)}
    assert held and not held & set(found)
    assert max(map(len, asked(made(mix=mix, longest=6), tmp_path))) == 6


def test_the_teacher_is_told_what_its_pupils_are_not(teacher, data, tmp_path, monkeypatch):
    model, tokenizer = teacher
    tokenizer.chat_template = TEMPLATE
    seen = []
    monkeypatch.setattr(
        "jakiro.training.texts.tokenize", lambda _, text: (seen.append(text), tokenizer(text)["input_ids"])[1]
    )
    write(model, tokenizer, made(system="Be brief.", own=0.5), data, tmp_path / "texts.jsonl")
    assert any(text.startswith("<system>Be brief.<user>") and text.endswith("<assistant>") for text in seen)
    assert "<user>" in seen  # what comes before a prompt of its own
    assert "Be brief." not in (tmp_path / "texts.jsonl").read_text()


def test_answers_that_go_round_or_do_not_end_are_left_out(teacher, monkeypatch):
    model, tokenizer = teacher
    told = Teacher(model, tokenizer, made())
    end = next(iter(told.ends))
    ids = {"round": tokenizer("a cat sat " * 8)["input_ids"], "open": tokenizer("the cat sat on")["input_ids"]}
    ids |= {"cut": tokenizer("It sat. It s")["input_ids"], "whole": [*tokenizer("the red cat")["input_ids"], end]}
    monkeypatch.setattr(told, "_written", lambda *_: list(ids.values()))
    answers = dict(zip(ids, [text for text, _ in told.answers(["?"] * 4, 0)], strict=True))
    assert answers == {"round": "", "open": "", "cut": "It sat.", "whole": "the red cat"}


def test_a_teacher_that_writes_nothing_of_use_is_left(teacher, data, tmp_path, monkeypatch):
    monkeypatch.setattr(Teacher, "prompts", lambda *_: [])
    monkeypatch.setattr(Teacher, "answers", lambda _, prompts, seed: [("", 9)] * len(prompts))
    for own in (0, 1):
        with pytest.raises(ValueError, match="of 20 batches nothing can be used"):
            write(*teacher, made(own=own), data, tmp_path / f"{own}.jsonl")
    assert len(records(tmp_path / "0.jsonl")) == 20 * 4


def test_prompts_of_its_own_end_in_time_and_are_one_paragraph(teacher, monkeypatch):
    model, tokenizer = teacher
    told = Teacher(model, tokenizer, made())
    end = next(iter(told.ends))
    texts = ["where did the cat sit", "too short", "two of them\n\nin two parts"]
    ids = [[*tokenizer(text)["input_ids"], end] for text in texts] + [tokenizer("one without its end")["input_ids"]]
    monkeypatch.setattr(told, "_written", lambda *_: ids)
    assert told.prompts(0) == texts[:1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"own": 2}, "own is 2: use a share"),
        ({"batch": 0}, "batch is 0: use a whole number"),
        ({"seed": 10**12}, "seed is 1000000000000; use a whole number"),
        (
            {"tokens": 10**6},
            "of 20 batches nothing can be used: the mix may have no more prompts.* of 1000000 tokens, and they",
        ),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(teacher, data, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        write(*teacher, made(**changes), data, tmp_path / "texts.jsonl")


def test_a_teacher_needs_a_template_that_keeps_what_is_asked(teacher):
    model, tokenizer = teacher
    for template, message in ((None, "has no chat template"), ("<user>", "does not show what the user says")):
        tokenizer.chat_template = template
        with pytest.raises(ValueError, match=message):
            Teacher(model, tokenizer, made())


@pytest.mark.parametrize(
    ("system", "why"),
    [("{{ raise_exception('System role not supported') }}", "System role not supported"), ("", "it leaves it out")],
)
def test_a_teacher_that_takes_no_system_message_is_refused_before_it_writes(
    trained, data, tmp_path, capsys, system, why
):
    """Gemma's template raises at one. The recipes that ship have one."""
    shown = "{% for m in messages %}{% if m.role == 'user' %}<user>{{ m.content }}{% else %}" + system + "{% endif %}"
    (tmp_path / "own.jinja").write_text(shown + "{% endfor %}<assistant>")
    (tmp_path / "texts.json").write_text(json.dumps(MADE | {"system": "Be brief."}))
    line = ["train", "texts", "--target", trained / "out", "--data", data, "--recipe", tmp_path / "texts.json"]
    line += ["--chat-template", tmp_path / "own.jinja", "--out", tmp_path / "texts.jsonl"]
    assert main([*map(str, line)]) == 2
    told = f"refuses a system message ({why}); leave out the recipe's `system`, or give another template"
    assert told in capsys.readouterr().err
    assert not (tmp_path / "texts.jsonl").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["texts", "target"], "texts stands alone"),
        (["texts"], "name the teacher"),
        (["texts", "--target", "t", "--out", "x.jsonl", "--device", "gpu"], "use cpu or cuda"),
        (["texts", "--run-folder", "run", "--out", "x.jsonl"], "--run-folder is for training"),
        (["target", "--out", "x"], "--run-folder is missing"),
        (["answers"], "--run-folder is missing"),
    ],
)
def test_what_does_not_go_together_is_said(data, capsys, more, message):
    assert main(["train", *more, "--data", str(data)]) == 2
    assert message in capsys.readouterr().err
