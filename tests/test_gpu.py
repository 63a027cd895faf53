"""On a CUDA device: `pytest -m gpu`. Skipped elsewhere."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
import torch
from test_engine import GREEDY, PROMPT, SAMPLED, Noise
from tiny import CONTEXT, VOCAB, tiny_model

from benchmarks import shapes
from jakiro import methods
from jakiro.assets import TARGET
from jakiro.bench import load_methods
from jakiro.engine import decode, record
from jakiro.measuring.limits import limits
from jakiro.methods.vanilla import VanillaDrafter
from jakiro.target import Target
from jakiro.text import encode
from jakiro.verify import Sampling, pick

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"


@pytest.fixture(scope="module")
def targets(tokenizer, heads) -> dict[bool, Target]:
    return both(tokenizer, heads)


def both(tokenizer, heads) -> dict[bool, Target]:
    """With CUDA graphs and without."""
    model = tiny_model().to(DEVICE)
    targets = {graphs: Target.wrap(model, tokenizer, heads, "tiny", graphs=graphs) for graphs in (True, False)}
    assert targets[True].graphs, targets[True].no_graphs
    for target in targets.values():
        target.ends = frozenset()
    return targets


def trace(target: Target, method: str, sampling: Sampling = GREEDY, count: int = CONTEXT, **settings: str):
    [(make, chosen)] = load_methods(target, [method], settings).values()
    return record(target, make(chosen), PROMPT, count, sampling)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_every_method_gives_vanillas_text_with_graphs_and_without(targets, sampling):
    texts = {method: [trace(one, method, sampling).tokens for one in targets.values()] for method in methods.METHODS}
    assert len({tuple(text) for pair in texts.values() for text in pair}) == 1


@pytest.mark.parametrize("lookup", [0, 2])
@pytest.mark.parametrize("method", ["draft_model", "eagle2", "eagle3", "jakiro"])
def test_drafts_are_those_without_graphs(targets, method, lookup):
    replayed, plain = (trace(one, method, lookup=lookup).steps for one in targets.values())
    assert [step.tree.tokens for step in replayed] == [step.tree.tokens for step in plain]
    assert any(step.tree.copied for step in replayed) == (lookup > 0)
    assert max(len(step.tree) for step in replayed) == 60


def test_compiled_layers_and_drafts_give_the_same(targets, tokenizer, heads):
    fast = Target.wrap(tiny_model().to(DEVICE), tokenizer, heads, "tiny", compile=True)
    fast.ends = frozenset()
    assert fast.compiled and fast.graphs
    for method in methods.METHODS:
        plain, made = (trace(one, method, SAMPLED) for one in (targets[False], fast))
        assert made.tokens == plain.tokens
        assert [step.tree.tokens for step in made.steps] == [step.tree.tokens for step in plain.steps]


def test_trees_of_any_size(targets):
    text = trace(targets[False], "vanilla", count=40).tokens
    for nodes in (1, 2, 9, 90):
        assert record(targets[True], Noise(nodes, nodes), PROMPT, 40, GREEDY).tokens == text


def test_other_families_and_eager_attention(targets):
    for family, attention in (("gpt2", "sdpa"), ("mistral", "sdpa"), ("llama", "eager")):
        target = Target.wrap(tiny_model(family, attention).to(DEVICE))
        target.ends = frozenset()
        assert target.graphs, target.no_graphs
        texts = [record(target, one, PROMPT, 40, SAMPLED).tokens for one in (VanillaDrafter(), Noise(2, 12))]
        assert texts[0] == texts[1]


def test_a_model_that_asks_for_a_value_runs_without_graphs():
    model, seen = tiny_model().to(DEVICE), []
    model.model.layers[1].register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0].sum().item()))
    target = Target.wrap(model)
    assert not target.graphs and "cannot be recorded" in target.no_graphs
    assert len(record(target, VanillaDrafter(), PROMPT, 5, GREEDY).tokens) == 5


def test_a_round_waits_for_two_copies_alone(targets):
    """The tree to the host, the picks to the host; and the clock at the end of the round."""
    [(make, settings)] = load_methods(targets[True], ["jakiro"], {}).values()
    rounds = decode(targets[True], make(settings), PROMPT, 100, GREEDY, inspect=False)
    for _ in range(4):
        next(rounds)  # the prompt, and recordings
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            step = next(rounds)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = Counter(f"{one.filename}:{one.lineno}" for one in found if "synchronizing" in str(one.message))
    after = 1  # the trace's log-probabilities, once the clock has stopped
    assert sum(waits.values()) <= 2 + after and len(step.tree) > 1, waits


def test_programs_are_freed_with_their_run(targets):
    used = []
    for _ in range(4):
        trace(targets[True], "jakiro", count=60)
        torch.cuda.synchronize()
        used.append(torch.cuda.memory_allocated())
    assert used[1] == used[2] == used[3]


def test_picks_are_those_of_a_cpu():
    logits = torch.randn(40, VOCAB, generator=torch.Generator().manual_seed(0))
    for sampling in (GREEDY, Sampling(0.7), SAMPLED):
        positions = [at // 2 for at in range(40)]
        assert pick(logits.cuda(), positions, sampling).tolist() == pick(logits, positions, sampling).tolist()


def test_the_embedded_model_gives_one_text():
    target = Target.load(TARGET, "cuda")
    prompt = encode(target.tokenizer, "What is a prime number?")
    able = [name for name, method in methods.METHODS.items() if not method.unavailable(target)]
    loaded = load_methods(target, able, {})
    assert {*methods.METHODS} - {*loaded} == {"eagle3"}  # it has no such head
    texts = {name: record(target, make(settings), prompt, 96, GREEDY) for name, (make, settings) in loaded.items()}
    assert len({tuple(text.tokens) for text in texts.values()}) == 1
    assert len(texts["jakiro"].steps) < 0.8 * len(texts["vanilla"].steps)
    found = limits(target, loaded, "What is a prime number?")["methods"]
    assert all(one["ideal_round_s"] > 0 for one in found.values())


def test_shapes_run_in_half_precision(tmp_path):
    out = tmp_path / "shapes.json"
    assert shapes.main(["--device", "cuda", "--dtype", "bfloat16", "--rounds", "5", "--out", str(out)]) == 0
