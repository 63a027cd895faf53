"""Prompts to ids, ids to what is shown."""

from __future__ import annotations

import pytest
from tiny import tiny_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from jakiro.text import as_turn, continued, decode, encode, form_of, pieces, tokenize, with_system


@pytest.fixture(scope="module")
def sentencepiece():
    """A vocabulary in SentencePiece's manner: spaces as ▁, bytes as <0xHH>."""
    words = ["<unk>", "</s>", "▁the", "▁a", "a", "man", "n", "▁", ".", ".."]
    words += [f"<0x{byte:02X}>" for byte in range(256)]
    vocab, merges = {word: at for at, word in enumerate(words)}, [(".", ".")]
    core = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", eos_token="</s>")


@pytest.mark.parametrize("prompt", ["", "  \n\t ", None, 3])
def test_an_empty_prompt_is_refused_with_a_remedy(tokenizer, prompt):
    with pytest.raises(ValueError, match="write a question"):
        encode(tokenizer, prompt)


def test_a_conversation_is_not_called_empty(tokenizer):
    with pytest.raises(ValueError, match=r"the prompt is no text: .* apply_chat_template"):
        encode(tokenizer, [{"role": "user", "content": "hi"}])


def test_half_a_character_is_no_prompt(tokenizer):
    with pytest.raises(ValueError, match="half a character"):
        encode(tokenizer, "caf\ud8e9")


def test_a_prompt_becomes_a_users_turn(tokenizer):
    ids = encode(tokenizer, "the man")
    assert tokenizer.convert_ids_to_tokens(ids) == ["<user>", "the", "Ġ", "m", "an", "<bot>"]
    assert all(type(id) is int for id in ids)


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("begins", [False, True])
def test_without_a_template_it_follows_bos_where_the_tokenizer_puts_that_before_a_text(chat, begins):
    plain = tiny_tokenizer(template=False)
    if begins:
        first = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", plain.bos_token_id)])
        plain._tokenizer.post_processor = first
    assert plain.convert_ids_to_tokens(encode(plain, "the", chat)) == [*["<s>"] * begins, "the"]


def test_plain_on_request(tokenizer):
    assert tokenizer.convert_ids_to_tokens(encode(tokenizer, "the", chat=False)) == ["the"]


def test_a_template_that_refuses_the_prompt_is_said_with_the_remedy():
    picky = tiny_tokenizer()
    picky.chat_template = "{% if 'a' not in messages[0].content %}{{ raise_exception('say a') }}{% endif %}a"
    assert encode(picky, "a")
    with pytest.raises(ValueError, match=r"refuses a user's turn alone \(say a\): give it a message with --system"):
        encode(picky, "b")


@pytest.mark.parametrize("wrong", ["{{ messages[0].content + 1 }}", "{{ messages[0]['content'].a.b }}", "{{ 1 / 0 }}"])
def test_what_else_a_template_raises_is_said_too(wrong):
    own = tiny_tokenizer()
    own.chat_template = wrong
    with pytest.raises(ValueError, match=r"refuses a user's turn alone \(.+\): give it a message with --system"):
        encode(own, "a")


def test_a_template_that_wants_parts_gets_them():
    own = tiny_tokenizer()
    for check in ("{% if part.type == 'text' %}", "{% if part['type'] == 'text' %}"):
        shown = check + "{{ part['text'] }}{% endif %}"
        own.chat_template = "<user>{% for part in messages[0].content %}" + shown + "{% endfor %}<bot>"
        assert encode(own, "the") == own("<user>the<bot>").input_ids
        assert form_of(own)("the") == [{"type": "text", "text": "the"}]
    own.chat_template = "<user>{{ messages[0].content[0].text }}<bot>"
    assert encode(own, "the") == own("<user>the<bot>").input_ids
    own.chat_template = "<user><bot>"
    assert encode(own, "the") == own("<user><bot>").input_ids


ROLES = "{% for one in messages %}[{{ one.role }}]{{ one.content }}{% endfor %}<bot>"
PARTS = ROLES.replace("one.content", "one.content[0].text")


@pytest.mark.parametrize("template", [ROLES, "\n\n  " + ROLES.replace("%}", "%}\n"), PARTS], ids=["", "lines", "parts"])
def test_a_system_message_goes_before_every_prompt_but_those_that_bring_one(template):
    """Whatever is in it, and as the template itself would write it."""
    own, told = (
        tiny_tokenizer(),
        """It's "a" {{ 1 / 0 }} {% endif %} %} {# no #} \\n \\\n\té \N{DECIDUOUS TREE}\u2028 b""",
    )
    own.chat_template = template

    def asked(system):
        turns = [{"role": "system", "content": system}, {"role": "user", "content": "the"}]
        turns = [turn | {"content": form_of(own)(turn["content"])} for turn in turns]
        return own.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)

    expected, others = asked(told), asked("another")
    own.chat_template = with_system(own, told)
    assert as_turn(own, "the") == expected and told in expected and asked("another") == others
    assert encode(own, "the") == own(expected, add_special_tokens=False).input_ids


def test_a_template_may_want_a_system_message():
    own = tiny_tokenizer()
    own.chat_template = "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}" + ROLES
    own.chat_template = with_system(own, "be kind")
    assert as_turn(own, "the") == "[system]be kind[user]the<bot>"


@pytest.mark.parametrize(
    ("template", "system", "message"),
    [
        (ROLES, " \n", "the system message is empty; leave out --system"),
        (None, "a", "has no place; give one with --chat-template"),
        (
            "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
            + ROLES,
            "a",
            r"refuses a system message \(System role not supported\); leave out --system, or give another template",
        ),
        ("<user>{{ messages[-1].content }}<bot>", "be kind", r"refuses a system message \(it leaves it out\)"),
    ],
)
def test_a_system_message_that_the_template_does_not_take_is_refused(template, system, message):
    own = tiny_tokenizer()
    own.chat_template = template
    with pytest.raises(ValueError, match=message):
        with_system(own, system)


def test_no_bos_where_there_is_none(sentencepiece):
    assert sentencepiece.convert_ids_to_tokens(encode(sentencepiece, "an")) == ["▁", "a", "n"]
    assert sentencepiece.bos_token_id is None


def test_a_text_that_goes_on_where_another_ended_gets_no_space_before_it(sentencepiece, tokenizer):
    """And its own is not lost."""
    for text, wanted in (("an", ["a", "n"]), (" an", ["▁", "a", "n"]), ("\n", ["<0x0A>"]), ("..", [".."])):
        assert sentencepiece.convert_ids_to_tokens(continued(sentencepiece, text)) == wanted
    for text in ("the", " the", "\n\n", ".. a", "a", "...\n"):
        assert decode(tokenizer, continued(tokenizer, text)) == text


def test_lone_surrogates_do_not_crash(tokenizer):
    assert "?" in decode(tokenizer, tokenize(tokenizer, "a\ud800b"))


def test_pieces_of_byte_level_tokens(tokenizer):
    ids = tokenizer("the the\n\té€í", add_special_tokens=False).input_ids
    shown = pieces(tokenizer, [*ids, tokenizer.eos_token_id])
    texts = [shown[id] for id in ids]
    assert texts == ["the", " the", "\n", "\t", "⟨C3⟩", "⟨A9⟩", "⟨E2⟩", "⟨82⟩", "⟨AC⟩", "⟨C3⟩", "⟨AD⟩"]
    assert shown[tokenizer.eos_token_id] == "</s>"
    assert decode(tokenizer, [*ids, tokenizer.eos_token_id]) == "the the\n\té€í"


def test_pieces_of_sentencepiece_tokens(sentencepiece):
    ids = {word: sentencepiece.convert_tokens_to_ids(word) for word in ("▁the", "man", "▁", "<0x0A>", "<0xE2>", "</s>")}
    shown = pieces(sentencepiece, ids.values())
    assert [shown[id] for id in ids.values()] == [" the", "man", " ", "\n", "⟨E2⟩", "</s>"]


def test_ids_that_the_tokenizer_does_not_know(tokenizer):
    assert pieces(tokenizer, [299]) == {299: "<299>"}


def test_without_a_tokenizer_ids_stand_for_themselves():
    assert pieces(None, [5, 3, 5]) == {3: "<3>", 5: "<5>"}
    assert decode(None, [5, 3]) == "<5><3>"


def test_every_piece_is_something(tokenizer, sentencepiece):
    for one in (tokenizer, sentencepiece):
        assert all(pieces(one, range(len(one))).values())
