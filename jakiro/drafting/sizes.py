"""The settings of a dynamic draft tree, and the sizes that suit a device."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import torch

from jakiro.settings import check, setting


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """EAGLE-2's three sizes. Its papers count expansions, "depth 5" for what is 6 levels here.

    "auto" is a size to be measured on the target at hand (tuning.py); a drafter is made from numbers only.
    """

    top_k: int | str = setting(
        10, "Children of each expanded node, and nodes expanded on each level.", 1, 64, auto=True
    )
    depth: int | str = setting(6, "Levels below the root.", 1, 16, auto=True)
    total_tokens: int | str = setting(60, "Nodes kept for the target to verify, with the root.", 1, 512, auto=True)
    _: KW_ONLY
    draft_temperature: float = setting(
        1.0,
        "Of the head's probabilities: below 1 likely paths count for more, and trees get deeper and narrower.",
        0.1,
        10.0,
    )
    coupled: bool = setting(
        False,
        "Where the target samples: draft with the noise that it will pick with, so that more is accepted, at top_p 1: "
        "drafts do not know of a lower one, and less may be accepted then. Greedy: no difference.",
    )
    lookup: int = setting(
        0,
        "Where the last so many tokens occurred before, what followed them is copied in place of a draft, without a "
        "pass: prompt lookup. 0: never.",
        0,
        16,
    )

    def __post_init__(self) -> None:
        check(self)


def pool(top_k: int, depth: int) -> int:
    """Nodes below the root that a draft has to choose from."""
    return top_k + (depth - 1) * top_k**2


def sizes(device: torch.device, levels: int = 6) -> dict[str, int]:
    """The default tree. A GPU checks 60 nodes (EAGLE-2's own choice) at 1.0 to 1.9 times the price of one; `levels` are
    what a method's authors draft there.

    On a CPU 60 nodes of the embedded model cost five to seven times one and 8 nodes 1.3 times, so small trees pay: of
    20 these sizes are within 5 % of the quickest for both heads, which has 4 nodes and less to see
    (scripts/tree_sizes.py, benchmarks/tree-sizes-cpu.json).
    """
    if device.type == "cpu":
        return {"top_k": 5, "depth": 2, "total_tokens": 6}
    return {"top_k": 10, "depth": levels, "total_tokens": 60}
