"""Summaries that a small model can learn: a passage of a document, and the sentence that it begins with.

The lead is the usual baseline of news summaries (See et al., arXiv 1704.04368, section 5): it reads well, and all that
it asks of a model is to copy.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator

from jakiro.training.sentences import shorten

ASKED = ("Summarize: {}", "Summarise: {}", "Summarize this text in one sentence:\n\n{}", "{}\n\nTL;DR")
LEAD = range(40, 320)  # characters of an answer
PASSAGE = (160, 4000)  # characters of a passage, the lead among them; its logarithm is drawn evenly
SENTENCE = re.compile(r"(?<=[.!?])[”’\"')]*\s+(?=[A-Z“‘\"'(])")
PROSE = re.compile(r"[A-Z“‘\"'][^|{}<>`$\\]*[.!?][”’\"')]*")  # a paragraph that is no heading, list, table or code


def summaries(texts: list[str]) -> Iterator[dict]:
    """Yield {"messages"} that ask for a summary of each passage of the documents and answer with its lead, in order."""
    for number, text in enumerate(texts):
        chance = random.Random(number)
        passage, room = "", _room(chance)
        for paragraph in _paragraphs(text):
            passage = f"{passage} {paragraph}".lstrip()
            if len(passage) < room:
                continue
            passage = shorten(passage, room)
            if (lead := lead_of(passage)) and len(passage) > 2 * len(lead):
                said = [("user", chance.choice(ASKED).format(passage)), ("assistant", lead)]
                yield {"messages": [{"role": role, "content": content} for role, content in said]}
            passage, room = "", _room(chance)


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
    for end in [match.start() for match in SENTENCE.finditer(passage)]:
        lead = passage[:end]
        if len(lead) >= LEAD.start:
            break
    return lead if len(lead) in LEAD else ""
