"""Tapes: what was written down gives what Python gave, for other inputs and texts of any length."""

from __future__ import annotations

import math

import pytest
import torch
from test_drafting import MODES, PROMPT, drafter_for, sampling_of
from test_engine import GREEDY, SAMPLED
from test_products import PACKS, packs
from test_programs import alike, assert_one_text, leave_no_trace
from tiny import CONTEXT, tiny_model

from jakiro import programs
from jakiro.bench import load_methods
from jakiro.drafting import state
from jakiro.engine import record
from jakiro.methods.vanilla import VanillaDrafter
from jakiro.models.products import by_fbgemm, by_onednn
from jakiro.tape import Tape, Tapes
from jakiro.target import Target
from jakiro.verify import Sampling

CPU = torch.device("cpu")


@pytest.fixture
def plain(target, tokenizer, heads) -> Target:
    """The weights of `target`, its passes from Python."""
    plain = Target.wrap(tiny_model(), tokenizer, heads, name="tiny", graphs=False)
    plain.ends = frozenset()
    assert target.tapes and not target.graphs and plain.tapes is None and plain.no_graphs == "not asked for"
    return plain


@pytest.fixture
def written(monkeypatch) -> list[Tape]:
    """The tapes that are made."""
    made, init = [], Tape.__init__
    monkeypatch.setattr(Tape, "__init__", lambda tape, *given: made.append(tape) or init(tape, *given))
    return made


def packed(rows: int) -> torch.Tensor:
    return torch.arange(8.0 * rows).view(rows, 8).cos()


WEIGHT, OFFSET = packed(8), torch.tensor([2.0, -1.0] * 4)
HALF, ONEDNN = (by_fbgemm(WEIGHT.half().float(), OFFSET), by_onednn(WEIGHT, OFFSET)) if PACKS else (None, None)
INDEX = torch.tensor([1, 0])


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x * WEIGHT[0] + OFFSET,
        lambda x: (x[1:] - 1.5).pow(2).mean(-1, keepdim=True).rsqrt(),
        lambda x: torch.cat([*x.split(3, dim=1)][::-1], dim=-1),
        lambda x: x.masked_fill(x > 0, -math.inf).clamp_min(-1e4).to(torch.float64).to(x.dtype),
        lambda x: {"both": x.topk(2), "tokens": [x.argmax(-1), x.sort(dim=-1, stable=True).indices]},
        lambda x: torch.nn.functional.linear(x, WEIGHT, None) + torch.zeros(8, dtype=x.dtype, device=x.device),
        pytest.param(lambda x: HALF(x) + ONEDNN(x) + HALF(x + 1), marks=packs),
        lambda x: (x[:, INDEX], x[INDEX], x.contiguous(memory_format=torch.contiguous_format)),
        lambda x: torch.full((2, 2), math.inf).fill_diagonal_(0.0) @ x[:2],
    ],
    ids=["arithmetic", "views", "parts", "numbers", "several", "constants", "packed", "index", "infinity"],
)
@torch.inference_mode()
def test_what_was_written_down_gives_what_python_gives(work):
    first, second = packed(3), packed(3).sin() - 0.2
    tape = Tape(lambda: work(first), [first])
    for given in (second, first):
        torch.testing.assert_close(tape([given]), work(given), atol=0, rtol=0, equal_nan=True)


@torch.inference_mode()
def test_a_number_is_made_a_tensor_once():
    """And not, with a conversion, in every call."""
    inputs = [torch.randn(2, 8)]
    tape = Tape(lambda: (inputs[0] + 1e-5) * 0.1, inputs)
    with torch.profiler.profile() as profile:
        found = tape(inputs)
    assert torch.equal(found, (inputs[0] + 1e-5) * 0.1)
    assert "aten::_to_copy" not in {event.key for event in profile.key_averages()}


@torch.inference_mode()
def test_it_writes_where_the_work_wrote():
    """Into inputs, through views of them, and into tensors that it was not given."""
    held, given = torch.zeros(4), torch.arange(4.0)

    def work():
        given[1:3].mul_(2)
        held.add_(given)
        held[:1] = 9
        return held[0] + given.sum()

    tape = Tape(work, [given])
    assert given.tolist() == [0, 4, 8, 3], "once to write it down, once to make it ready"
    other = torch.ones(4)
    held.zero_()
    assert tape([other]).item() == 9 + 1 + 2 + 2 + 1
    assert other.tolist() == [1, 2, 2, 1] and held.tolist() == [9, 2, 2, 1] and given.tolist() == [0, 4, 8, 3]


@torch.inference_mode()
def test_inputs_may_have_other_sizes_and_each_call_makes_its_own_result():
    tape = Tape(lambda: [short.sum(0) * 2], [short := torch.ones(2, 3)])
    long = tape([torch.ones(5, 3)])
    assert tape([short])[0].tolist() == [4.0] * 3 and long[0].tolist() == [10.0] * 3


@torch.inference_mode()
def test_what_is_no_tensor_is_given_back_as_it_was():
    given = torch.ones(2)
    tape = Tape(lambda: {"it": (given, given), "words": ["one", None, 7]}, [given])
    found = tape([other := torch.zeros(2)])
    assert [one.tolist() for one in found["it"]] == [other.tolist()] * 2
    assert found["words"] == ["one", None, 7]


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x[0, 0] > 0),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: torch.equal(x, x),
        lambda x: torch.rand(3, generator=torch.Generator()),
    ],
    ids=["item", "truth", "nonzero", "mask", "equal", "generator"],
)
def test_what_depends_on_values_is_refused(ask):
    with pytest.raises(RuntimeError, match=r"asks a tensor for its values|cannot be written down"):
        Tape(lambda: ask(given), [given := packed(2)])


def test_those_used_last_are_kept(written):
    kept, one = Tapes(3), torch.ones(1)
    for key in (1, 2, 3, 1, 4, 1, 3, 2):
        assert kept.run(key, lambda key=key: one * key, [one]).item() == key
    assert len(written) == 5, "2 again after 4, which came in its place"


def test_as_many_are_kept_as_may_be(written):
    kept, one = Tapes(8), torch.ones(1)
    for key in [*range(8)] * 2:
        kept.run(key, lambda key=key: one * key, [one])
    assert len(written) == 8


def test_the_clock_stands_still_while_one_is_written(monkeypatch):
    time = [0.0]
    monkeypatch.setattr(programs.time, "perf_counter", lambda: time[0])
    monkeypatch.setattr(programs._pause, "seconds", 0.0)

    def slow():
        time[0] += 100
        return given + 1

    Tapes(1).run("slow", slow, [given := torch.ones(1)])
    assert time[0] == 100 and programs.recording_seconds() == 100 and programs.now() == 0


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", ["vanilla", "prompt_lookup", "draft_model", "eagle2", "jakiro"])
def test_traces_are_those_without(target, plain, method, sampling):
    """To the last token of the context, columns included."""
    traces = []
    for one in (plain, target):
        [(make, settings)] = load_methods(one, [method], {}).values()
        traces.append(record(one, make(settings), PROMPT, CONTEXT, sampling))
    alike(*traces)
    assert len(traces[0].tokens) == CONTEXT - len(PROMPT)


@pytest.mark.parametrize("mode", MODES)
def test_drafts_are_those_without(target, plain, mode):
    sampling = sampling_of(MODES[mode])
    alike(*(record(one, drafter_for(one, mode)[1], PROMPT, 40, sampling) for one in (plain, target)))


@pytest.mark.parametrize(
    "family", ["gpt2", "mistral", "gemma3_text", "qwen3", "mixtral", "qwen3_moe", "gpt_neox", "granite", "opt", "phi3"]
)
def test_families_give_their_text(family):
    model = tiny_model(family)
    plain, found = Target.wrap(model, graphs=False), Target.wrap(model)
    assert found.tapes, found.no_graphs
    assert_one_text(plain, found)


def test_a_shape_is_written_down_once_for_all_runs_and_texts(written):
    target = Target.wrap(tiny_model())
    target.ends = frozenset()
    assert len(written) == 1, "the check of a model that is loaded"
    for prompt in (PROMPT, [3] * 90):
        record(target, VanillaDrafter(), prompt, 60, GREEDY)
    assert len(written) == 2


def test_runs_with_one_head_share_its_drafts(target, written):
    [(make, settings)] = load_methods(target, ["jakiro"], {"total_tokens": "9"}).values()
    first = record(target, make(settings), PROMPT, 60, GREEDY)
    made = len(written)
    second = record(target, make(settings), PROMPT, 60, GREEDY)
    assert len(written) == made and [one.tree for one in first.steps] == [one.tree for one in second.steps]


def test_other_settings_have_tapes_of_their_own(target, plain):
    """Of as many levels and candidates, but drafted otherwise, one of them with the noise of two temperatures."""
    shared = {}
    for draft_temperature, coupled, heat in (
        ("1", "off", 0),
        ("0.3", "off", 0),
        ("0.3", "on", 0),
        ("0.3", "on", 1),
        ("0.3", "on", 0.5),
    ):
        traces = []
        for one in (plain, target):
            changes = {"draft_temperature": draft_temperature, "contrastive": "off", "coupled": coupled}
            [(make, settings)] = load_methods(one, ["jakiro"], changes).values()
            make_again = make if one is plain else shared.setdefault("make", make)
            traces.append(record(one, make_again(settings), PROMPT, 30, Sampling(heat)))
        alike(*traces)


def test_a_head_outgrows_its_buffers(target, plain, monkeypatch):
    """Its tapes go on with the larger ones."""
    allocate = state.HeadState._allocate
    monkeypatch.setattr(state.HeadState, "_allocate", lambda own, rows: allocate(own, 16 if rows == 1024 else rows))
    drafters = [drafter_for(one, "mixture, contrastive")[1] for one in (plain, target)]
    alike(*(record(*pair, PROMPT, 60, GREEDY) for pair in zip((plain, target), drafters, strict=True)))
    assert drafters[1]._state.capacity >= 64


def test_bare_passes_leave_no_trace(target):
    leave_no_trace(target)


def test_a_model_that_asks_for_a_value_runs_without_and_says_so():
    model, seen = tiny_model(), []
    model.model.layers[1].register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0].sum().item()))
    found = Target.wrap(model)
    assert found.tapes is None and found.no_graphs.startswith("LlamaForCausalLM cannot be recorded: aten")
    assert record(found, VanillaDrafter(), PROMPT, 5, GREEDY).tokens


@pytest.mark.parametrize("how", ["sizes", "values"])
def test_a_model_that_keeps_a_number_of_its_recording_runs_without_and_says_so(how):
    """Right once, wrong ever after: a number of rows as eager attention repeats keys, or positions from the host."""
    model = tiny_model(attention="eager" if how == "sizes" else "sdpa")
    if how == "values":
        rotary, turn = model.model.rotary_emb, model.model.rotary_emb.forward
        rotary.forward = lambda hidden, position_ids: turn(hidden, torch.tensor(position_ids.tolist()))
    found = Target.wrap(model)
    another = "cannot be recorded: its passes do not work at another length of the text (The expanded size"
    why = another if how == "sizes" else "answers otherwise when replayed"
    assert found.tapes is None and why in found.no_graphs
    plain = Target.wrap(tiny_model(), graphs=False)
    texts = [record(one, VanillaDrafter(), PROMPT, 9, GREEDY).tokens for one in (plain, found)]
    assert texts[0] == texts[1]
