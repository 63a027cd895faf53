"""Compiled layers and drafts, on a CPU: programs are run as they are, and dynamo's graphs by torch's own operations."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from test_engine import GREEDY, SAMPLED, Noise
from tiny import tiny_model
from torch._dynamo.testing import CompileCounter

from jakiro import programs
from jakiro.bench import load_methods
from jakiro.engine import record
from jakiro.methods.vanilla import VanillaDrafter
from jakiro.models.compiled import compile_layers
from jakiro.models.fixed import padded
from jakiro.target import Target

PROMPT = [5, 9, 7, 11]


@pytest.fixture
def graphs(monkeypatch) -> CompileCounter:
    """Counts what is compiled."""
    torch._dynamo.reset()
    counter = CompileCounter()
    monkeypatch.setitem(programs._RECORDERS, "cpu", lambda work, device: work)
    monkeypatch.setattr("jakiro.target.lay_out", lambda model: None)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counter))
    yield counter
    torch._dynamo.reset()


@pytest.mark.parametrize("method", ["eagle2", "jakiro"])
def test_traces_are_those_without(target, tokenizer, heads, graphs, method):
    fast = Target.wrap(tiny_model(), tokenizer, heads, "tiny", compile=True)
    fast.ends = frozenset()
    assert fast.compiled and fast.graphs
    traces = []
    for one in (target, fast):
        [(make, settings)] = load_methods(one, [method], {}).values()
        traces.append(record(one, make(settings), PROMPT, 40, SAMPLED))
    plain, made = traces
    assert made.tokens == plain.tokens
    assert [step.tree.tokens for step in made.steps] == [step.tree.tokens for step in plain.steps]


def test_one_program_serves_all_layers_and_runs(graphs):
    """One for each number of padded nodes: four in the check of a model that is loaded, and what runs ask for."""
    deep = Target.wrap(tiny_model(num_hidden_layers=6), compile=True)
    deep.ends = frozenset()
    assert graphs.frame_count == 1
    for _ in range(2):
        steps = [
            step for one in (Noise(2, 11), VanillaDrafter()) for step in record(deep, one, PROMPT, 30, GREEDY).steps
        ]
        assert {4, 8} & {padded(len(step.tree)) for step in steps}, "where the text ends, which take the large one's"
        assert graphs.frame_count == len({4, 1, padded(11)})


@pytest.mark.parametrize("family", ["gpt2", "eager gpt_oss"])
def test_families_give_their_text(graphs, family):
    attention, _, name = family.rpartition(" ")
    model = tiny_model(name, attention or "sdpa")
    texts = set()
    for compile in (False, True):  # the second wraps the layers of the same model
        one = Target.wrap(model, graphs=compile, compile=compile)
        one.ends = frozenset()
        texts |= {
            tuple(record(one, drafter, PROMPT, 20, SAMPLED).tokens) for drafter in (VanillaDrafter(), Noise(3, 7))
        }
    assert len(texts) == 1 and graphs.frame_count


def test_only_what_is_recorded_can_be_compiled():
    with pytest.raises(ValueError, match="only CUDA graphs are compiled, and cpu has none: leave out --compile"):
        Target.wrap(tiny_model(), compile=True)
    with pytest.raises(ValueError, match="cpu has none"):
        Target.load("nowhere", compile=True)  # before anything is read
    with pytest.raises(ValueError, match="no list of layers to compile: leave out --compile"):
        compile_layers(torch.nn.Linear(1, 1))
