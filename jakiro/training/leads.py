"""Summaries that a small model can learn: a passage of a document, and the sentence that it begins with.

The lead is the usual baseline of news summaries (See et al., arXiv 1704.04368, section 5): it reads well, and all that
it asks of a model is to copy. Copying is learned from many examples, of which a long passage has more than one: asked
for by their first words, its other sentences are quoted in the turns after the summary.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from itertools import pairwise

from jakiro.training.sentences import shorten

ASKED = ("Summarize: {}", "Summarise: {}", "Summarize this text in one sentence:\n\n{}", "{}\n\nTL;DR")
QUOTE = "Quote the sentence that begins with “{}”."
WORDS, QUOTES = (3, 5), 8  # words that a quotation is asked for by, and quotations at most
LEAD = range(40, 320)  # characters of an answer
PASSAGE = (160, 7000)  # characters of a passage, the lead among them; its logarithm is drawn evenly
END = re.compile(r"[.!?][”’\"')]*(?=\s+[A-Z“‘\"'(]|\s*$)")  # of a sentence
PROSE = re.compile(r"[A-Z“‘\"'][^|{}<>`$\\]*[.!?][”’\"')]*")  # a paragraph that is no heading, list, table or code


def summaries(texts: list[str]) -> Iterator[dict]:
    """Yield {"messages"} about each passage of the documents, in order: asked for a summary its lead is the answer, and
    then some of its other sentences are asked for."""
    for number, text in enumerate(texts):
        chance = random.Random(number)
        passage, room = "", _room(chance)
        for paragraph in _paragraphs(text):
            passage = f"{passage} {paragraph}".lstrip()
            if len(passage) < room:
                continue
            passage = shorten(passage, room)
            if (lead := lead_of(passage)) and len(passage) > 2 * len(lead):
                turns = [(chance.choice(ASKED).format(passage), lead), *_quotations(passage, lead, chance)]
                said = [part for turn in turns for part in zip(("user", "assistant"), turn, strict=True)]
                yield {"messages": [{"role": role, "content": content} for role, content in said]}
            passage, room = "", _room(chance)


def _quotations(passage: str, lead: str, chance: random.Random) -> list[tuple[str, str]]:
    """What asks for a passage's sentences but its lead, and they, in any order; no two that begin alike."""
    found = []
    ends = [0, *(match.end() for match in END.finditer(passage))]
    for sentence in (passage[start:end].lstrip() for start, end in pairwise(ends)):
        begin = " ".join(sentence.split()[: chance.randint(*WORDS)])
        if len(sentence) in LEAD and sentence not in lead and passage.count(begin) == 1:
            found.append((QUOTE.format(begin), sentence))
    return chance.sample(found, min(len(found), QUOTES))


def _room(chance: random.Random) -> int:
    return int(math.exp(chance.uniform(*map(math.log, PASSAGE))))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        flat = " ".join(paragraph.split())
        if len(flat) > 80 and PROSE.fullmatch(flat):
            yield flat


def lead_of(passage: str) -> str:
    """The first sentences of a passage, as many as make an answer; "" if they are too long for one."""
    lead = ""
    for match in END.finditer(passage):
        lead = passage[: match.end()]
        if len(lead) >= LEAD.start:
            break
    return lead if len(lead) in LEAD else ""
