"""A draft tree as a pass of the target needs it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def seen_of(parents: Sequence[int]) -> tuple[list[int], Tensor]:
    """Each node's depth, and which nodes it sees: its ancestors and itself, boolean [n, n]."""
    levels: list[int] = []
    rows: list[bytearray] = []
    for node, parent in enumerate(parents):
        row = bytearray(rows[parent]) if node else bytearray(len(parents))
        row[node] = 1
        rows.append(row)
        levels.append(levels[parent] + 1 if node else 0)
    seen = torch.frombuffer(bytearray().join(rows), dtype=torch.bool)
    return levels, seen.view(len(parents), len(parents))
