"""The yardsticks: counts of bytes and passes are exact, seconds only have to be there."""

import math
from types import SimpleNamespace

import pytest
import torch
from tiny import tiny_model

from jakiro.bench import load_methods
from jakiro.measuring import limits
from jakiro.target import Target


@pytest.fixture(scope="module")
def found(target):
    methods = load_methods(target, ["vanilla", "prompt_lookup", "eagle2", "jakiro"], {"total_tokens": "7"})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TURNS": 1, "PASSES": 2, "NEW_TOKENS": 24, "SQUARE_ON_CPU": 64}.items():
            patch.setattr(limits, name, value)
        return limits.limits(target, methods, "the man ran and the man ran")


def test_every_method_is_held_against_both_yardsticks(found):
    assert set(found["methods"]) == {"vanilla", "prompt_lookup", "eagle2", "jakiro"}
    for one in found["methods"].values():
        assert all(math.isfinite(value) and value >= 0 for value in one.values())
        assert one["round_over_ideal"] == one["round_s"] / one["ideal_round_s"]  # of a single turn
        assert one["step_floor_s"] <= one["round_floor_s"]
    assert found["bandwidth_bytes_per_s"] > 0 and found["matmul_flops_per_s"] > 0


def test_a_tree_of_its_root_alone_has_no_pass(target):
    for name, (make, settings) in load_methods(target, ["eagle2", "jakiro"], {"total_tokens": "1"}).items():
        features = torch.zeros(3, target.hidden_size)
        assert limits._bare_draft(make(settings), [1, 2, 3, 4], features, 1)() == 0, name


def test_rounds_are_held_against_the_bare_ones_of_their_own_turn():
    """So that a machine that becomes slower in between does not count."""

    def run(*rounds):
        return SimpleNamespace(steps=[SimpleNamespace(seconds=seconds, tree=[0] * nodes) for seconds, nodes in rounds])

    runs = [run((6.0, 3), (99.0, 2)), run((12.0, 3), (14.0, 3), (13.0, 3)), run((1.0, 2)), run((60.0, 3))]
    bare = [[(3.0, 2.0)], [(6.0, 4.0), (1.0, 1.0), (9.0, 9.0)], [(0.1, 0.1)], [(20.0, 20.0)]]
    assert limits._over_ideal(runs, bare, nodes=3) == 13.0 / 10.0


def test_passes_and_nodes_are_counted(found):
    counts = {name: (one["nodes"], one["draft_passes"]) for name, one in found["methods"].items()}
    assert counts["vanilla"] == (1, 0) and counts["prompt_lookup"][1] == 0
    assert counts["eagle2"] == (7, 2) and counts["jakiro"] == (7, 1)  # depth 2, the contrastive level without a pass


def test_a_pass_reads_all_but_the_input_embedding(target, found):
    model = target.model
    size = 4 * (sum(one.numel() for one in model.parameters()) - model.get_input_embeddings().weight.numel())
    assert found["weight_bytes"] == size
    assert found["cache_bytes_per_token"] == 3 * 2 * 2 * 8 * 4  # layers, keys and values, heads, width, bytes


def test_a_pass_does_not_read_other_tables_nor_what_pictures_need(target):
    size, model = limits._read(target), target.model
    model.vision, model.model.per_layer = torch.nn.Linear(50, 50), torch.nn.Embedding(50, 50)
    try:
        assert limits._read(target) == size
    finally:
        del model.vision, model.model.per_layer


@pytest.mark.parametrize("tied", [True, False])
def test_a_tied_table_is_read_as_the_output(tokenizer, tied):
    one = Target.wrap(tiny_model(tie_word_embeddings=tied), tokenizer, graphs=False)
    rest = sum(part.nbytes for part in one.model.model.layers.parameters()) + one.model.model.norm.weight.nbytes
    whole = rest + one.model.lm_head.weight.nbytes
    assert limits._read(one) == (whole, whole // 4)


@pytest.mark.parametrize(
    ("family", "changes"), [("qwen3_moe", {"num_experts": 4}), ("mixtral", {"num_local_experts": 4})]
)
def test_a_mixture_of_experts_has_no_floor(tokenizer, monkeypatch, family, changes):
    """Its tokens choose what a pass reads."""
    for name, value in {"TURNS": 1, "PASSES": 2, "NEW_TOKENS": 8, "SQUARE_ON_CPU": 32}.items():
        monkeypatch.setattr(limits, name, value)
    mixture = Target.wrap(tiny_model(family, num_experts_per_tok=2, **changes), tokenizer, graphs=False)
    found = limits.limits(mixture, load_methods(mixture, ["vanilla", "prompt_lookup"], {}), "the man ran")
    assert found["weight_bytes"] is found["bandwidth_bytes_per_s"] is None
    for one in found["methods"].values():
        assert one["step_floor_s"] is one["round_floor_s"] is one["step_over_floor"] is None
        assert one["round_over_ideal"] > 0
