"""Where texts may be cut."""

from __future__ import annotations

import re


def shorten(text: str, longest: int) -> str:
    """Cut at the last end of a paragraph, or else of a sentence, within `longest` characters; "" if none."""
    if len(text) <= longest:
        return text
    ends = [match.end() for match in re.finditer(r"\n\n|[.!?](?=\s)", text[: longest + 1])]
    outside = [end for end in ends if end <= longest and text[:end].count("```") % 2 == 0]  # of blocks of code
    return text[: outside[-1]].rstrip() if outside else ""
