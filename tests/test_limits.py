"""The yardsticks: counts of bytes and passes are exact, seconds only have to be there."""

import math
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from tiny import tiny_model

from jakiro.bench import load_methods
from jakiro.drafter import Context
from jakiro.drafting.eagle3_head import load_eagle3
from jakiro.drafting.weights import load_head
from jakiro.engine import record
from jakiro.measuring import limits
from jakiro.methods import METHODS
from jakiro.models import products
from jakiro.target import Target
from jakiro.verify import GREEDY


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


def test_a_method_that_copies_is_measured_where_it_drafts(target, monkeypatch):
    for name, value in {"TURNS": 1, "PASSES": 2, "NEW_TOKENS": 24, "SQUARE_ON_CPU": 32}.items():
        monkeypatch.setattr(limits, name, value)
    asked = load_methods(target, ["eagle2"], {"top_k": "2", "depth": "2", "total_tokens": "20", "lookup": "1"})
    [found] = limits.limits(target, asked, "the man ran and the man ran")["methods"].values()
    assert (found["nodes"], found["draft_passes"]) == (7, 2)  # a copy would have 20


def test_runs_with_and_without_columns_take_turns_at_being_first(target, monkeypatch):
    decode, started = limits.decode, []

    def noted(*given):
        started.append(given[-1])
        yield from decode(*given)

    monkeypatch.setattr(limits, "decode", noted)
    for name, value in {"TURNS": 2, "PASSES": 2, "NEW_TOKENS": 8, "SQUARE_ON_CPU": 32}.items():
        monkeypatch.setattr(limits, name, value)
    limits.limits(target, load_methods(target, ["vanilla"], {}), "the man ran")
    assert started == [False, True, True, False]


def test_a_tree_of_its_root_alone_has_no_pass(target):
    for name, (make, settings) in load_methods(target, ["eagle2", "jakiro"], {"total_tokens": "1"}).items():
        features = torch.zeros(3, target.hidden_size)
        assert limits._bare_draft(make(settings), [1, 2, 3, 4], features, 1)() == 0, name


def test_bare_passes_leave_no_trace(target):
    """A draft after them is what it is without."""
    tokens = [5, 17, 3, 250, 99, 40]
    features = target.prefill(torch.tensor(tokens[:-1]), target.new_cache(8))[1]
    for name, (make, settings) in load_methods(target, ["eagle2", "jakiro"], {}).items():
        found = []
        for times in (0, 3):
            drafter = make(settings)
            drafter.draft(Context(tokens[:-1], features[:-1], room=9))
            for _ in range(times):
                drafter.bare(Context(tokens, features[-1:], room=9))
            found.append(drafter.draft(Context(tokens, features[-1:], room=9)))
        assert found[0] == found[1], name


def test_rounds_are_held_against_the_bare_ones_of_their_own_turn():
    """So that a machine that becomes slower in between does not count."""

    def run(*rounds):
        return SimpleNamespace(steps=[SimpleNamespace(seconds=seconds, tree=[0] * nodes) for seconds, nodes in rounds])

    runs = [run((6.0, 3), (99.0, 2)), run((12.0, 3), (14.0, 3), (13.0, 3)), run((1.0, 2)), run((60.0, 3))]
    bare = [[(3.0, 2.0)], [(6.0, 4.0), (1.0, 1.0), (9.0, 9.0)], [(0.1, 0.1)], [(20.0, 20.0)]]
    turns = [limits.Turn(one, one, alone, 0) for one, alone in zip(runs, bare, strict=True)]
    assert limits._over_ideal(turns, nodes=3) == 13.0 / 10.0


def steps_of(*rounds):
    """Rounds of (seconds, nodes, tokens), of which the draft takes 1 s and the overhead 0.5 s."""
    return [
        SimpleNamespace(seconds=s, tree=[0] * nodes, emitted=[7] * more, draft_s=1.0, overhead_s=0.5, verify_s=s - 1.5)
        for s, nodes, more in rounds
    ]


@pytest.mark.parametrize(("rate", "step", "round_"), [(1000.0, 10.7, 11.7), (100.0, 15.0, 16.0)])
def test_a_floor_is_what_takes_longer_of_reading_and_multiplying(rate, step, round_):
    """4 tokens of the prompt and 3 of the first round lie before the middle one of three rounds with a full tree: with
    1000 bytes of weights 1070 are read at 100 a second. 3 nodes multiply 250 parameters and add, 1500 operations. A
    pass of the draft reads 50 bytes, and there are two."""
    rates = {"bandwidth_bytes_per_s": 100.0, "matmul_flops_per_s": rate}
    rates |= {"weight_bytes": 1000, "cache_bytes_per_token": 10}
    run = SimpleNamespace(prompt=[7] * 4, steps=steps_of((5.0, 3, 3), (25.0, 3, 2), (30.0, 3, 4), (99.0, 2, 1)))
    turn = limits.Turn(run, run, [(8.0, 2.0), (9.0, 1.0), (7.0, 4.0)], passes=2)
    found = limits._compare(rates, 250, [turn], pass_bytes=50)
    assert (found["nodes"], found["context"]) == (3, 7)
    assert found["step_floor_s"] == pytest.approx(step) and found["round_floor_s"] == pytest.approx(round_)
    assert found["step_over_floor"] == pytest.approx(23.5 / step)
    assert (found["step_s"], found["round_s"], found["draft_s"]) == (23.5, 25.0, 1.0)
    assert (found["ideal_round_s"], found["ideal_draft_s"]) == (10.0, 2.0)
    assert found["round_over_ideal"] == 2.5 and found["overhead_share"] == 0.02


def test_recording_is_held_against_the_same_rounds_without():
    """In the median of two turns rounds take 2 and 4 s without, 3 and 4 with."""
    plain = [
        SimpleNamespace(steps=steps_of((1.0, 3, 1), (4.0, 3, 1))),
        SimpleNamespace(steps=steps_of((3.0, 3, 1), (4.0, 3, 1))),
    ]
    traced = SimpleNamespace(steps=steps_of((3.0, 3, 1), (4.0, 3, 1), (9.0, 3, 1)))
    assert limits._traced_over_plain([limits.Turn(run, traced, [], 0) for run in plain]) == 1.25


def test_rates_are_those_of_the_best_time(target, monkeypatch):
    """A product of 64 rows and 64 columns is 64 cubed multiplications and as many additions."""
    monkeypatch.setattr(limits, "timed", lambda device, work, count: [2.0, 0.5, 4.0])
    monkeypatch.setattr(limits, "SQUARE_ON_CPU", 64)
    assert limits.matmul_rate(target) == 2 * 262_144 / 0.5
    assert limits.read_bandwidth(target, 4000) == 8000
    elsewhere = SimpleNamespace(device=torch.device("meta"))  # 50 sums are waited for together
    assert limits.read_bandwidth(elsewhere, 4000) == 50 * 8000


def test_the_first_of_the_bare_rounds_does_not_count(target, monkeypatch):
    clock = count(1)
    monkeypatch.setattr(limits, "timed", lambda *given, **named: [next(clock)])
    monkeypatch.setattr(limits, "PASSES", 3)
    make, settings = load_methods(target, ["vanilla"], {})["vanilla"]
    run = record(target, make(settings), [1, 2, 3], 4, GREEDY)
    assert limits._bare_rounds(target, make(settings), run) == ([(3, 4), (5, 6)], 0)


def test_passes_and_nodes_are_counted(found):
    counts = {name: (one["nodes"], one["draft_passes"]) for name, one in found["methods"].items()}
    assert counts["vanilla"] == (1, 0) and counts["prompt_lookup"][1] == 0
    assert counts["eagle2"] == (7, 2) and counts["jakiro"] == (7, 1)  # depth 2, the contrastive level without a pass


def test_a_pass_reads_all_but_the_input_embedding(target, found):
    model = target.model
    size = 4 * (sum(one.numel() for one in model.parameters()) - model.get_input_embeddings().weight.numel())
    assert found["weight_bytes"] == size
    assert found["cache_bytes_per_token"] == 3 * 2 * 2 * 8 * 4  # layers, keys and values, heads, width, bytes


@pytest.mark.parametrize("name", ["eagle2", "eagle3", "jakiro"])
def test_a_pass_of_a_draft_reads_the_head_and_what_reads_it_out(target, monkeypatch, name):
    """A router's 4 rows are 8 there; EAGLE-3's fc is for the first pass alone, and its output is its own."""
    monkeypatch.setattr("jakiro.drafting.drafter.spared_bytes", lambda output: 100)  # where it is laid out in less
    method, own = METHODS[name], name == "eagle3"
    head = (load_eagle3 if own else load_head)(target.heads[name], target)
    numbers = {key: one.numel() for key, one in head.named_parameters()}
    read = sum(count for key, count in numbers.items() if not (own and key.startswith("fc.")))
    read += {"eagle2": 0, "jakiro": 4 * target.hidden_size, "eagle3": 0}[name]
    output = 0 if own else 4 * target.model.lm_head.weight.numel() - 100
    assert method.load(target)(method.defaults(target)).pass_bytes == 4 * read + output


def test_a_pass_does_not_read_other_tables_nor_what_pictures_need(target):
    size, model = limits.read_by_pass(target), target.model
    model.vision, model.model.per_layer = torch.nn.Linear(50, 50), torch.nn.Embedding(50, 50)
    try:
        assert limits.read_by_pass(target) == size
    finally:
        del model.vision, model.model.per_layer


def test_what_is_laid_out_in_fewer_bytes_is_read_as_those(target, monkeypatch):
    size, numbers = limits.read_by_pass(target)
    monkeypatch.setattr(products, "spared_bytes", lambda part: 1000 if part is target.decoder else 100)
    assert limits.read_by_pass(target) == (size - 1100, numbers)


@pytest.mark.parametrize("tied", [True, False])
def test_a_tied_table_is_read_as_the_output(tokenizer, tied):
    one = Target.wrap(tiny_model(tie_word_embeddings=tied), tokenizer, graphs=False)
    rest = sum(part.nbytes for part in one.model.model.layers.parameters()) + one.model.model.norm.weight.nbytes
    whole = rest + one.model.lm_head.weight.nbytes
    assert limits.read_by_pass(one) == (whole, whole // 4)


@pytest.mark.parametrize(
    ("family", "changes"), [("qwen3_moe", {"num_experts": 4}), ("mixtral", {"num_local_experts": 4})]
)
def test_a_mixture_of_experts_has_no_floor(tokenizer, monkeypatch, family, changes):
    """Its tokens choose what a pass reads, unless there is but one."""
    one = tiny_model()
    one.config.num_experts = 1
    assert limits.read_by_pass(Target.wrap(one, tokenizer, graphs=False)) is not None
    for name, value in {"TURNS": 1, "PASSES": 2, "NEW_TOKENS": 8, "SQUARE_ON_CPU": 32}.items():
        monkeypatch.setattr(limits, name, value)
    mixture = Target.wrap(tiny_model(family, num_experts_per_tok=2, **changes), tokenizer, graphs=False)
    found = limits.limits(mixture, load_methods(mixture, ["vanilla", "prompt_lookup"], {}), "the man ran")
    assert found["weight_bytes"] is found["bandwidth_bytes_per_s"] is None
    for one in found["methods"].values():
        assert one["step_floor_s"] is one["round_floor_s"] is one["step_over_floor"] is None
        assert one["round_over_ideal"] > 0
