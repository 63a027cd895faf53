"""How far a model's positions reach, as its config.json says."""

from __future__ import annotations

from typing import Any

UNBOUNDED = 1 << 20  # context of a model whose config names none


def short_factors(config: Any) -> list[int]:
    """Lengths up to which LongRoPE (Ding et al., arXiv 2402.13753) rotates by its short factors.

    Its deepest position chooses the factors of a whole pass, so across that length a tree is not what its paths are.
    """
    return [rope["original_max_position_embeddings"] for rope in _ropes(config) if rope.get("rope_type") == "longrope"]


def positions(config: Any) -> int:
    """How many there are. Where a config stretches them by YaRN or linearly and leaves its limit as it was, they are as
    many as vLLM takes (`_get_and_verify_max_len`): the factor times those of before."""
    named = getattr(config, "max_position_embeddings", None) or UNBOUNDED
    if type(named) is not int or named < 1:
        raise ValueError(f"config.json has max_position_embeddings of {named!r}, and needs a number above 0: mend it")
    reach = [named]
    for rope in _ropes(config):
        before = rope.get("original_max_position_embeddings") or named
        if rope.get("rope_type") in ("yarn", "linear") and named >= before:
            factor = rope.get("factor", 1)
            if type(factor) not in (int, float) or not 0 < factor < UNBOUNDED:
                raise ValueError(
                    f"config.json has a rotary factor of {factor!r}, and a number above 0 is needed: mend it"
                )
            reach.append(int(factor * before))
    return max(reach)


def _ropes(config: Any) -> list[dict[str, Any]]:
    """Rotary parameters, of each type of layer where they differ."""
    ropes = getattr(config, "rope_parameters", None) or {}
    return [rope for rope in ropes.values() if isinstance(rope, dict)] or [ropes]


def check_window(config: Any) -> None:
    """Raise ValueError for a sliding window that is no number."""
    if not isinstance(window := getattr(config, "sliding_window", None), int | None):
        raise ValueError(
            f"config.json has a sliding_window of {window!r}, and a whole number or null is needed: mend it"
        )
