"""The forms in which models take masks when some of their layers see a sliding window of the text."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Mask = Tensor | dict[str, Tensor]
Form = Callable[[Tensor, Tensor], Mask]  # of what full attention sees, and what a window does: both [1, 1, n, rows]


def by_kind(full: Tensor, near: Tensor) -> Mask:
    """One for each kind of layer, under the config's names (Gemma, gpt-oss)."""
    return {"full_attention": full, "sliding_attention": near}


def alone(full: Tensor, near: Tensor) -> Mask:
    """The window's, where all layers have it (Mistral)."""
    return near


FORMS: tuple[Form, ...] = (by_kind, alone)
