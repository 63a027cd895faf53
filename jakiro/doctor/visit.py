"""What the command line and the page have the doctor do: load a head, let the target write, examine, report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jakiro.doctor.checks import GOOD, SUSPECT, WRONG, Finding, entered, examine
from jakiro.doctor.evidence import SHORT, write
from jakiro.doctor.mixture import of_mixture
from jakiro.drafting.eagle3_head import Eagle3Head, load_eagle3
from jakiro.drafting.head import Head
from jakiro.drafting.weights import EMBEDDING, foreign, head_tensors, load_head
from jakiro.heed import Heed, heedless
from jakiro.methods import METHODS, check_known, on_heads
from jakiro.models import hub
from jakiro.target import Target
from jakiro.text import encode

MARKS = {"good": "✓", "suspect": "?", "wrong": "✗", "unknown": "–"}
NEW_TOKENS = 64


def patients() -> list[str]:
    """The methods whose heads can be examined: EAGLE's kind, which guesses the target's next feature, and EAGLE-3's."""
    return on_heads((Head, Eagle3Head))


def visit(target: Target, method: str, prompts: Sequence[str], heed: Heed = heedless) -> list[Finding]:
    """All findings on the head of `method`; only the first where it cannot be loaded. Raises ValueError for a method
    that has no head or one of a kind that is not known here, or where the target writes too little."""
    check_known(method)
    if method not in patients():
        what = "a head of a kind that the doctor does not know" if method in on_heads() else "no head"
        raise ValueError(f"{method} has {what}; examine one of {', '.join(patients())}")
    if why := METHODS[method].unavailable(target):
        raise ValueError(why)
    try:
        kind, folder = METHODS[method].head, target.heads[method]
        head = load_eagle3(folder, target) if kind is Eagle3Head else load_head(folder, target, kind)
    except (ValueError, OSError) as error:
        return [Finding("keys and shapes", WRONG, str(error))]
    told = f"all {len(head.state_dict())} tensors of {hub.place(folder)} fit {target.name}"
    loaded = Finding("keys and shapes", GOOD, told)
    copy = None if hasattr(head, "embed_tokens") else head_tensors(folder).get(EMBEDDING)
    other = [Finding("embedding", SUSPECT, why)] if (why := foreign(copy, target)) else []
    asked = _ids(target, prompts, chat=True)
    if not asked:
        room = f"{NEW_TOKENS} new tokens in the target's context of {target.context:,}"
        raise ValueError(f"no prompt leaves room for {room}: choose shorter ones")
    inner = entered(target, head)
    chat = bool(target.tokenizer.chat_template)
    parts = 3 if chat else 2  # of the work: answers, texts without the template of a chat model, checks
    texts = write(target, asked, NEW_TOKENS, inner, lambda done: heed(done / parts))
    if not texts:
        raise ValueError(f"no answer of the target has more than {SHORT} tokens: choose other prompts")
    asked = _ids(target, prompts, chat=False) if chat else []
    plain = write(target, asked, NEW_TOKENS, inner, lambda done: heed((1 + done) / parts))
    heed((parts - 1) / parts)
    found = examine(target, head, texts, plain)
    return [loaded, *other, *found, *of_mixture(target, head, texts, found)]


def as_text(findings: Sequence[Finding]) -> str:
    """One line a check."""
    width = max(len(one.check) for one in findings)
    return "\n".join(f"{MARKS[one.verdict]} {one.verdict:8}{one.check:{width}}  {one.text}" for one in findings)


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """For a file."""
    rows = [{"check": one.check, "verdict": one.verdict, "text": one.text, **one.numbers} for one in findings]
    return {"schema": "jakiro-doctor/1", "findings": rows}


def _ids(target: Target, prompts: Sequence[str], chat: bool) -> list[list[int]]:
    found = (encode(target.tokenizer, prompt, chat=chat) for prompt in prompts)
    return [ids for ids in found if len(ids) + NEW_TOKENS < target.context]
