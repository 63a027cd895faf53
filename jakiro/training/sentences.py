"""Where texts may be cut."""

from __future__ import annotations

import re


def shorten(text: str, longest: int) -> str:
    """Cut at the last end of a paragraph, or else of a sentence, within `longest` characters; "" if none."""
    if len(text) <= longest:
        return text
    head = text[:longest]
    if head.count("```") % 2:
        head = head[: head.rindex("```")]
    ends = [match.end() for match in re.finditer(r"\n\n|[.!?](?=\s)", head)]
    return head[: ends[-1]].rstrip() if ends else ""
