"""Summaries made of documents: what is asked, what is answered, and what no passage is made of."""

import lzma

import pytest

from jakiro.training.claims import contents
from jakiro.training.leads import LEAD, PASSAGE, QUOTE, QUOTES, WORDS, lead_of, summaries
from jakiro.training.sources import Source, held_out, read_chats

LEADS = Source("leads:plain/news.txt.xz", 1.0)
FIRST = "The river rose after three days of rain, and two villages were cut off."
MORE = "Boats brought food and water to those who had stayed. Nobody could say when the road would be open again."


def article(paragraphs=40):
    """A document with what is no prose between its paragraphs."""
    odd = "# The river\n\n- one item. And another item of a list that goes on for more than eighty characters here.\n\n"
    return odd + "\n\n".join(f"{FIRST} {MORE}" for _ in range(paragraphs))


def test_a_passage_is_answered_with_its_lead():
    found = [one["messages"] for one in summaries([article(120)])]
    assert len(found) >= 2
    for asked, said, *_ in found:
        assert said == {"role": "assistant", "content": FIRST}
        assert asked["role"] == "user" and FIRST in asked["content"] and "item" not in asked["content"]
        assert len(asked["content"]) < PASSAGE[1] + 100


def test_a_short_first_sentence_brings_the_next_along():
    short = "It rained. Then it rained for three more days, and the river rose."
    first = next(summaries([f"{short} {MORE} {MORE} " * 30]))
    assert first["messages"][1]["content"] == short and len(short) in LEAD and len("It rained.") not in LEAD


def test_other_sentences_of_a_passage_are_quoted_by_their_first_words():
    boat = "brought food and water to house"
    text = "\n\n".join(f"Boat {i} {boat} {i}. {'Too long, ' * 40}so no answer." for i in range(200))
    for one in summaries([text]):
        passage, _, *turns = (message["content"] for message in one["messages"])
        assert len(turns) // 2 == min(passage.count(boat) - 1, QUOTES)  # all but the lead
        for asked, said in zip(turns[::2], turns[1::2], strict=True):
            begin = asked.removeprefix(QUOTE.partition("{}")[0]).removesuffix("”.")
            assert said.startswith(begin) and len(begin.split()) in range(WORDS[0], WORDS[1] + 1)
            assert passage.count(said) == 1 == passage.count(begin) and boat in said


def test_sentences_that_begin_alike_are_not_asked_for():
    """Nobody could say which of them is meant."""
    boat = "The boats brought food and water to house"
    alike = "\n\n".join(f"{boat} {i} of many. {boat} {i} again." for i in range(200))
    found = [one["messages"] for one in summaries([alike] * 9)]
    assert found and {len(messages) for messages in found} == {2}


def test_a_passage_is_at_least_twice_as_long_as_its_summary():
    long = f"The river rose {'and rose ' * 20}until it fell."
    assert len(long) in LEAD and not list(summaries([f"{long} Nobody was hurt."] * 60))
    assert list(summaries([f"{long} {MORE} {MORE} {MORE}"] * 60))


def test_a_lead_ends_with_the_first_sentence_that_makes_it_long_enough():
    just = "The river rose after three days of rain."
    assert len(just) == LEAD.start and lead_of(f"{just} {MORE}") == just
    assert lead_of(f"{just[4:].capitalize()} It fell. {MORE}") == f"{just[4:].capitalize()} It fell."


def test_the_marks_that_close_a_sentence_are_its_own():
    said = [f"“The water of river {i} is in our houses.” Boat {i} took all of us up into the hills." for i in range(99)]
    found = [one["messages"][3::2] for one in summaries(["\n\n".join(said)] * 9)]
    assert any(found) and all(message["content"][0] in "“B" for turns in found for message in turns)
    assert {message["content"][-2:] for turns in found for message in turns} == {".”", "s."}


def test_a_lead_in_quotation_marks_keeps_the_one_that_closes_it():
    said = "“The water of the river is in our houses.”"
    first = next(summaries([f"{said} {MORE} {MORE} " * 30]))
    assert first["messages"][1]["content"] == said


@pytest.mark.parametrize(
    "text", ["", "No end to be seen here " * 300, ("A sentence, " * 40 + "which is too long. ") * 12, "Too little."]
)
def test_nothing_is_made_of_what_has_no_lead(text):
    assert list(summaries([text])) == []


def test_it_is_a_source_like_others(tmp_path):
    (tmp_path / "plain").mkdir()
    file = tmp_path / "plain" / "news.txt.xz"
    with lzma.open(file, "wt") as out:
        out.write("\n<|doc|>\n".join(article(40 + i) for i in range(8)))
    chats = list(read_chats(LEADS, tmp_path))
    assert chats and not any(map(held_out, chats))
    assert chats == list(read_chats(LEADS, tmp_path))
    before = contents([LEADS], tmp_path)
    assert list(before) == [LEADS.file] and before[LEADS.file]
    file.write_bytes(lzma.compress(article(9).encode()))
    assert contents([LEADS], tmp_path) != before


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"news\.txt"):
        list(read_chats(LEADS, tmp_path))
