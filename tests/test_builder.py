"""The builder alone, fed with made-up candidates: many ties, where a wrong order attaches children to wrong parents."""

from __future__ import annotations

import pytest
import torch

from jakiro.drafting.builder import Children, Growth, Kept, best
from jakiro.tree import DraftTree

SIZES = [(1, 1, 5), (3, 1, 2), (2, 4, 9), (4, 3, 12), (5, 4, 60), (3, 3, 1000)]


def grow(width: int, depth: int, seed: int, step: float):
    """A growth whose log-probabilities are multiples of `step` (1.0: nearly all tie), and its levels as lists."""
    generator = torch.Generator().manual_seed(seed)
    growth, levels = Growth(width), []
    for level in range(depth):
        rows = 1 if level == 0 else width
        logprobs = torch.rand(rows, width, generator=generator).mul(-3).div(step).round().mul(step).clamp_max(0.0)
        tokens = torch.stack([torch.randperm(50, generator=generator)[:width] for _ in range(rows)])
        growth.add(Children(tokens, logprobs))
        frontier = growth.frontier() if level < depth - 1 else None
        levels.append((tokens.tolist(), logprobs.tolist(), frontier))
    return growth, levels


def expected(levels, width: int, count: int) -> tuple[list[int], list[int], list[float]]:
    """The same by Python's stable sort over (-score, index)."""
    pool: list[tuple[float, int, int]] = []  # score, token, parent's pool index
    frontier = [(0.0, -1)]
    for tokens, logprobs, _ in levels:
        start = len(pool)
        for row, (score, parent) in enumerate(frontier):
            pool += [
                (float(torch.tensor(score) + torch.tensor(logprobs[row][child])), tokens[row][child], parent)
                for child in range(width)
            ]
        order = sorted(range(start, len(pool)), key=lambda index: (-pool[index][0], index))
        frontier = [(pool[index][0], index) for index in order[:width]]
    kept = sorted(sorted(range(len(pool)), key=lambda index: (-pool[index][0], index))[:count])
    at = {-1: 0} | {index: node for node, index in enumerate(kept, start=1)}
    return [pool[i][1] for i in kept], [at[pool[i][2]] for i in kept], [pool[i][0] for i in kept]


@pytest.mark.parametrize("step", [1.0, 0.25, 1e-6])
@pytest.mark.parametrize(("width", "depth", "count"), SIZES)
def test_rerank_is_a_sort_by_score_then_index(width: int, depth: int, count: int, step: float) -> None:
    for seed in range(5):
        growth, levels = grow(width, depth, seed, step)
        kept = Kept.read(growth.rerank(count))
        tokens, parents, scores = expected(levels, width, count)
        assert (kept.tokens, kept.parents) == (tokens, parents)
        assert kept.scores == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize("step", [1.0, 1e-6])
@pytest.mark.parametrize(("width", "depth", "count"), SIZES)
def test_what_is_kept_is_a_tree(width: int, depth: int, count: int, step: float) -> None:
    for seed in range(5):
        kept = Kept.read(grow(width, depth, seed, step)[0].rerank(count))
        tree = DraftTree([0, *kept.tokens], [-1, *kept.parents], [0.0, *kept.scores])
        assert len(kept.tokens) == min(count, width + (depth - 1) * width**2)
        assert all(0 <= parent < node for node, parent in enumerate(tree.parents[1:], start=1))
        assert all(tree.scores[node] <= tree.scores[tree.parents[node]] for node in range(1, len(tree)))
        assert tree.depths() == sorted(tree.depths()), "shallow before deep, so that pruning levels keeps a beginning"
        assert len(set(zip(tree.parents, tree.tokens, strict=True))) == len(tree), "siblings differ"


def test_frontier_names_its_parents() -> None:
    growth = Growth(2)
    growth.add(Children(torch.tensor([[7, 8]]), torch.tensor([[-1.0, -2.0]])))
    tokens, rows = growth.frontier()
    assert (tokens.tolist(), rows.tolist()) == ([7, 8], [0, 0])
    growth.add(Children(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[-5.0, -6.0], [-0.5, -0.75]])))
    tokens, rows = growth.frontier()
    assert (tokens.tolist(), rows.tolist()) == ([3, 4], [1, 1])
    assert growth.row_ids().tolist() == [-1, 0, 1, 4, 5]


def test_the_best_come_likeliest_first() -> None:
    children = best(torch.tensor([[-3.0, -0.5, -2.0], [-1.0, -4.0, -0.7]]), 2)
    assert children.tokens.tolist() == [[1, 2], [2, 0]]
    assert torch.equal(children.logprobs, torch.tensor([[-0.5, -2.0], [-0.7, -1.0]]))
