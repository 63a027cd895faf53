"""Runs on a device of its own, as a GPU is one: nothing mixes the two, and the host waits as seldom as it can."""

from __future__ import annotations

import pytest
import torch
from elsewhere import KIND, Device, attached
from test_engine import PROMPT, SAMPLED
from tiny import tiny_model

from jakiro import methods, programs
from jakiro.bench import load_methods
from jakiro.drafting import head
from jakiro.engine import decode, record
from jakiro.models import attention
from jakiro.target import Target

TREE = {"top_k": 4, "depth": 4, "total_tokens": 20}  # its defaults are the device's
METHODS = {name: TREE if name in methods.with_trees() else {} for name in methods.METHODS} | {
    "jakiro, decoupled": TREE | {"candidates": "decoupled"},
    "jakiro, all levels drafted": TREE | {"contrastive": "off"},
}


@pytest.fixture
def device(monkeypatch):
    """Attached, and programs can be recorded there."""
    with attached() as device:

        def recorder(work, where):
            work()
            before = len(device.waits)
            work()
            assert not device.waits[before:], "what is recorded must not wait for its device"
            return work

        monkeypatch.setitem(programs._RECORDERS, KIND, recorder)
        monkeypatch.setattr(head, "REPEATING", (KIND,))
        monkeypatch.setattr(attention, "OURS", (KIND,))
        yield device


@pytest.fixture
def remote(device, tokenizer, heads, request) -> Target:
    """The weights of `target` on the device, its passes recorded or not."""
    graphs = getattr(request, "param", True)
    remote = Target.wrap(tiny_model().to(KIND), tokenizer, heads, "tiny", graphs=graphs)
    remote.ends = frozenset()
    assert remote.graphs == graphs, remote.no_graphs
    return remote


def drafter(target: Target, name: str):
    [(make, settings)] = load_methods(target, [name.partition(",")[0]], METHODS[name]).values()
    return make(settings)


def test_the_device_refuses_what_a_gpu_refuses_and_notes_what_waits(device: Device):
    far, near = torch.tensor([1.0, 2.0], device=KIND), torch.tensor([3.0, 4.0])
    with pytest.raises(RuntimeError, match="two devices"):
        far + near
    assert (far + near.to(KIND)).tolist() == [4.0, 6.0]
    device.waits.clear()
    far[1:].add_(far[0])
    far.copy_(near, non_blocking=True)
    assert not device.waits
    assert [far.tolist(), far.sum().item(), bool(far[0] > 2), far.cpu()[1]] == [[3.0, 4.0], 7.0, True, 4.0]
    assert len(device.waits) == 4


@pytest.mark.parametrize("remote", [True, False], ids=["recorded", "plain"], indirect=True)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_the_same_trace_there(target, remote, name):
    """Columns included: their tensors, too, lie where they should."""
    runs = [record(one, drafter(one, name), PROMPT, 10, SAMPLED) for one in (target, remote)]
    (near, far) = ([(step.tree.tokens, step.accepted, step.bonus) for step in run.steps] for run in runs)
    assert near == far


@pytest.mark.parametrize("name", METHODS)
def test_a_round_waits_for_two_copies_alone(remote, device, name):
    """The tree to the host, the picks to the host; a draft model's levels, too, for it is fed from there."""
    rounds = decode(remote, drafter(remote, name), PROMPT, 24, SAMPLED, inspect=False)
    for _ in range(4):
        next(rounds)  # the prompt, and recordings
    device.waits.clear()
    next(rounds)
    waits = [line for line in device.waits if not line.startswith("programs.py")]  # `upload` does not wait on CUDA
    after = 1  # the trace's log-probabilities, once the clock has stopped
    levels = TREE["depth"] - 1 if name == "draft_model" else 0
    assert 1 + after + levels <= len(waits) <= 2 + after + levels, waits
