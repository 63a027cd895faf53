"""The walk and the keyed sampler: the mathematics of losslessness."""

from __future__ import annotations

import itertools
import math
import random
from types import SimpleNamespace

import pytest
import torch
from tiny import random_tree

from jakiro import hashing, verify
from jakiro import noise as noise_module
from jakiro.noise import Noise, gumbel
from jakiro.tree import DraftTree
from jakiro.verify import GREEDY, Picks, Sampling, noise_of, nucleus, pick, walk


def never(token: int, count: int) -> bool:
    return False


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"temperature": 1e-9},
        {"temperature": "0.5"},
        {"temperature": None},
        {"top_p": "1"},
        {"top_p": 0.0},
        {"top_p": 1.01},
        {"top_p": math.nan},
        {"seed": -1},
        {"seed": 2**53 + 1},
        {"seed": 1.5},
        {"seed": True},
    ],
)
def test_sampling_refuses_what_has_no_meaning(bad):
    with pytest.raises(ValueError, match="use"):
        Sampling(**bad)


def test_hash_is_splitmix64():
    """The first outputs of the reference generator seeded with 0."""
    states = [step * hashing.GOLDEN for step in (1, 2, 3)]
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [hashing.mix(state) for state in states] == expected
    signed = torch.tensor([noise_module._signed(state) for state in states])
    assert noise_module._mix_tensor(signed).tolist() == [noise_module._signed(value) for value in expected]


def test_noise_depends_on_seed_position_and_token_alone():
    noise = gumbel(3, [7, 8, 2**31], 50)
    assert torch.equal(gumbel(3, [8], 20), noise[1:2, :20])
    assert [hashing.gumbel_of(3, 7, token) for token in range(50)] == pytest.approx(noise[0].tolist(), rel=1e-12)
    assert noise.unique().numel() == noise.numel()
    assert not torch.equal(gumbel(4, [7], 50), noise[:1])
    assert gumbel(0, range(200), 500).isfinite().all()


def test_a_run_makes_the_noise_of_each_position_once(monkeypatch):
    made, make = [], noise_module.gumbel
    monkeypatch.setattr(noise_module, "gumbel", lambda *given: made.append(list(given[1])) or make(*given))
    noise = Noise(3, 0.8, 50, torch.device("cpu"))
    assert torch.equal(noise.at([7, 8]), make(3, [7, 8], 50))
    assert torch.equal(noise.at(range(8, 11)), make(3, [8, 9, 10], 50))
    assert torch.equal(noise.at([10, 8, 10]), make(3, [10, 8, 10], 50))
    assert made == [[7, 8], [9, 10]] and len(noise._rows) == 3


def test_picks_with_a_runs_noise_are_those_without():
    torch.manual_seed(1)
    logits, sampling = torch.randn(5, 40), Sampling(0.7, 0.9, seed=11)
    noise = noise_of(sampling, logits)
    for positions in ([4, 5, 5, 6, 6], [5, 6, 6, 7, 7]):
        assert torch.equal(pick(logits, positions, sampling, noise), pick(logits, positions, sampling))
    assert noise_of(GREEDY, logits) is None


def test_on_a_cpu_the_walk_alone_is_picked_for(monkeypatch):
    """And asking for all picks afterwards gives the same, and leaves the run's noise as it was."""
    torch.manual_seed(1)
    logits, sampling = torch.randn(4, 40), Sampling(0.7, 0.9, seed=11)
    whole = pick(logits, [8, 9, 9, 10], sampling).tolist()
    noise, rows = noise_of(sampling, logits), []
    monkeypatch.setattr(verify, "pick", lambda *given: rows.append(len(given[0])) or pick(*given))
    picks = Picks(logits, [8, 9, 9, 10], sampling, noise)
    tree = DraftTree([7, (whole[0] + 1) % 40, whole[0], (whole[2] + 1) % 40], [-1, 0, 0, 2], [0.0, -1.0, -2.0, -3.0])
    assert walk(tree, picks, never) == ([2], whole[2]) and rows == [1, 1]
    assert picks[2] == whole[2] and rows == [1, 1]
    assert picks.all() == whole == picks.all() and rows == [1, 1, 2]
    assert list(noise._rows) == [9]


def test_elsewhere_all_picks_are_made_at_once(monkeypatch):
    calls = []
    monkeypatch.setattr(verify, "pick", lambda *given: calls.append(given) or torch.tensor([5, 6, 7]))
    given = SimpleNamespace(device=torch.device("cuda")), [1, 2, 2], GREEDY, None
    picks = Picks(*given)
    assert calls == [given] and [picks[2], *picks.all()] == [7, 5, 6, 7] and len(calls) == 1


def test_greedy_is_argmax_with_the_first_of_equals():
    logits = torch.tensor([[0.0, 2.0, 2.0], [3.0, 1.0, 2.0]])
    assert pick(logits, [5, 5], Sampling(seed=9)).tolist() == [1, 0]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7), Sampling(0.7, 0.5)])
def test_rows_that_are_no_numbers_give_some_token(sampling):
    """On CUDA an index out of range would end the process; the loop says what is wrong."""
    nan, inf = math.nan, math.inf
    logits = torch.tensor([[0.0, 9.0], [nan, 1.0], [nan, nan], [inf, 1.0], [-inf, -inf], [-inf, 1.0]])
    picks = pick(logits, range(6), sampling).tolist()
    assert picks[0] == picks[5] == 1 and set(picks) <= {0, 1}


@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_pick_of_a_row_ignores_its_batch(top_p):
    torch.manual_seed(0)
    logits = torch.randn(12, 40)
    positions = [4, 9, 4, 5, 6, 9, 7, 4, 100, 101, 5, 5]
    sampling = Sampling(1.3, top_p, seed=5)
    together = pick(logits, positions, sampling)
    alone = [int(pick(logits[row : row + 1], positions[row : row + 1], sampling)) for row in range(12)]
    assert together.tolist() == alone
    assert together.tolist() != pick(logits, positions, Sampling(1.3, top_p, seed=6)).tolist()


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.7, 0.7), (1.0, 0.3)])
def test_picks_follow_the_distribution(temperature, top_p):
    """Chi-square over 8 tokens and 20,000 positions; the seed is fixed, so this passes always or never."""
    torch.manual_seed(1)
    logits = torch.randn(8)
    scaled = logits.double() / temperature
    law = scaled.masked_fill(~nucleus(scaled[None], top_p)[0], -math.inf).softmax(-1)
    picks = pick(logits.expand(20_000, -1), range(20_000), Sampling(temperature, top_p, seed=2))
    counts = picks.bincount(minlength=8).double()
    expected = law * 20_000
    assert counts[law == 0].sum() == 0
    assert ((counts - expected) ** 2 / expected)[law > 0].sum() < 24.3  # 0.1 % point of 7 degrees of freedom


def test_nucleus_is_the_smallest_set_with_the_mass():
    logits = torch.tensor([[0.1, 0.5, 0.25, 0.15], [0.25, 0.25, 0.25, 0.25]]).log().double()
    assert nucleus(logits, 0.6).tolist() == [[False, True, True, False], [True, True, True, False]]
    assert nucleus(logits, 0.49).tolist() == [[False, True, False, False], [True, True, False, False]]
    assert nucleus(logits, 1e-12).sum(-1).tolist() == [1, 1]


def test_a_flat_row_keeps_its_nucleus_beside_a_sure_one():
    """A sure row is done with the few tokens that are sorted first; one whose 1024 tokens are alike takes half."""
    logits = torch.zeros(2, 1024)
    logits[0, 7] = 99.0
    assert nucleus(logits, 0.5).sum(-1).tolist() == [1, 512]


def test_half_precision_is_left_before_the_temperature_divides():
    """Where bfloat16 holds halves alone, 65 / 0.7 and 65.5 / 0.7 would be rounded to 93 and 93.5."""
    logits, sampling = torch.arange(64, 68, 0.5).bfloat16().expand(200, -1), Sampling(0.7, seed=4)
    assert torch.equal(pick(logits, range(200), sampling), pick(logits.float(), range(200), sampling))


TREE = DraftTree(tokens=[9, 1, 2, 1, 3, 4], parents=[-1, 0, 0, 1, 1, 4], scores=[0.0] * 6)


@pytest.mark.parametrize(
    ("picks", "accepted", "bonus"),
    [
        ([5, 0, 0, 0, 0, 0], [], 5),
        ([2, 0, 1, 0, 0, 0], [2], 1),
        ([1, 3, 0, 0, 4, 8], [1, 4, 5], 8),
        ([1, 1, 0, 1, 0, 0], [1, 3], 1),
    ],
)
def test_walk_by_hand(picks, accepted, bonus):
    assert walk(TREE, picks, never) == (accepted, bonus)


def test_walk_ends_with_the_text_though_a_child_agrees():
    picks = [1, 3, 0, 0, 4, 8]
    assert walk(TREE, picks, lambda token, count: token == 3) == ([1], 3)
    assert walk(TREE, picks, lambda token, count: count == 1) == ([], 1)
    assert walk(TREE, picks, lambda token, count: count == 4) == ([1, 4, 5], 8)


def test_of_siblings_with_one_token_the_first_counts():
    twins = DraftTree(tokens=[9, 1, 1], parents=[-1, 0, 0], scores=[0.0] * 3)
    assert walk(twins, [1, 5, 6], never) == ([1], 5)


def sequential_rejection(tree: DraftTree, laws: list[list[float]]) -> dict[tuple, float]:
    """The law of EAGLE's verification: children tried in order, each accepted with p, else zeroed and renormalised."""
    children = [[child for child, parent in enumerate(tree.parents) if parent == node] for node in range(len(tree))]
    result = {}

    def visit(node: int, path: tuple, weight: float) -> None:
        left = list(laws[node])
        for child in children[node]:
            accept = left[tree.tokens[child]]
            visit(child, (*path, child), weight * accept)
            weight *= 1 - accept
            left[tree.tokens[child]] = 0.0
            total = sum(left)
            left = [p / total for p in left] if total else left
        for token, p in enumerate(left):
            result[path, token] = result.get((path, token), 0.0) + weight * p

    visit(0, (), 1.0)
    return result


@pytest.mark.parametrize("seed", range(12))
def test_walk_has_the_law_of_sequential_rejection(seed):
    """Every combination of picks at every node, weighted exactly, against the rejection scheme's recursion."""
    rng = random.Random(seed)
    vocab = 4
    tree = random_tree(rng, 0, rng.randrange(1, 6), vocab)
    weights = [[rng.random() ** 3 * (rng.random() > 0.15) for _ in range(vocab)] for _ in tree.tokens]
    laws = [[w / sum(row) for w in row] for row in weights]
    walked: dict[tuple, float] = {}
    for picks in itertools.product(range(vocab), repeat=len(tree)):
        accepted, bonus = walk(tree, picks, never)
        weight = math.prod(law[token] for law, token in zip(laws, picks, strict=True))
        walked[tuple(accepted), bonus] = walked.get((tuple(accepted), bonus), 0.0) + weight
    rejected = sequential_rejection(tree, laws)
    outcomes = walked.keys() | rejected.keys()
    assert max(abs(walked.get(key, 0.0) - rejected.get(key, 0.0)) for key in outcomes) < 1e-12
    assert len(outcomes) > 3


def test_where_there_is_no_float64_the_cpu_draws(monkeypatch):
    logits, sampling = torch.randn(3, 50), Sampling(0.8, top_p=0.9)
    expected, moved, cpu = pick(logits, [4, 5, 5], sampling), [], torch.Tensor.cpu
    for module in (verify, noise_module):
        monkeypatch.setattr(module, "DOUBLES", ("cuda",))
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: moved.append(self) or cpu(self))
    assert torch.equal(pick(logits, [4, 5, 5], sampling), expected) and len(moved) == 1
    assert torch.equal(pick(logits, [4, 5, 5], Sampling()), logits.argmax(-1)) and len(moved) == 1
