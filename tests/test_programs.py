"""Recorded programs, on a CPU: a tape of tensor operations stands in for CUDA's graphs."""

from __future__ import annotations

import random

import pytest
import tape
import test_gpu
import torch
from test_drafting import MODES, PROMPT, drafter_for, rounds
from test_engine import GREEDY, SAMPLED, Noise, Oracle
from tiny import CONTEXT, random_tree, tiny_model

from jakiro import engine, metrics, programs
from jakiro.bench import Benchmark, load_methods
from jakiro.cache import KVCache
from jakiro.drafter import Context
from jakiro.engine import record
from jakiro.measuring.prompts import Prompt
from jakiro.methods.vanilla import VanillaDrafter
from jakiro.models import fixed
from jakiro.models.fixed import padded
from jakiro.target import Target
from jakiro.trace import Trace


@pytest.fixture(autouse=True)
def taped(monkeypatch):
    """Programs on the CPU."""
    monkeypatch.setitem(programs._RECORDERS, "cpu", tape.record)


@pytest.fixture
def recorded(tokenizer, heads) -> Target:
    """The weights of `target`, its passes recorded."""
    recorded = Target.wrap(tiny_model(), tokenizer, heads, name="tiny")
    recorded.ends = frozenset()
    assert recorded.graphs and not recorded.no_graphs
    return recorded


def test_what_a_gpu_is_tested_with_can_be_made_and_called(tokenizer, heads, monkeypatch):
    """Here, where the tests themselves are skipped, with the CPU in its place."""
    monkeypatch.setattr(test_gpu, "DEVICE", "cpu")
    targets = test_gpu.both(tokenizer, heads)
    test_gpu.test_trees_of_any_size(targets)
    test_gpu.test_other_families_and_eager_attention(targets)
    test_gpu.test_a_model_that_asks_for_a_value_runs_without_graphs()
    plain, replayed = (test_gpu.trace(one, "jakiro", count=9, lookup=2).tokens for one in targets.values())
    assert plain == replayed


def test_a_tape_freezes_what_python_decides_and_reads_tensors_anew():
    given, factor = torch.tensor([1.0, 2.0]), [10.0]
    program = programs.record(lambda: (given * factor[0])[1:] + given[:1], torch.device("cpu"))
    assert program().tolist() == [21.0]
    first = program()
    given.copy_(torch.tensor([3.0, 4.0]))
    factor[0] = 0.0
    assert program().tolist() == [43.0] and program().data_ptr() == first.data_ptr()


@pytest.mark.parametrize("work", [lambda: torch.ones(1).item(), lambda: torch.tensor([1, 2]) + 1])
def test_a_tape_refuses_what_a_graph_cannot_hold(work):
    with pytest.raises(RuntimeError, match="cannot be recorded"):
        programs.record(work, torch.device("cpu"))


def test_a_pass_sees_whole_blocks_of_rows_to_the_end_of_its_cache(recorded):
    assert [recorded.new_cache(rows).capacity for rows in (1, fixed.ROWS, fixed.ROWS + 1)] == [256, 256, 512]
    assert recorded.new_cache(1).row_bytes == recorded.new_cache(300).row_bytes


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize(
    ("method", "changes"),
    [(name, {}) for name in ("vanilla", "prompt_lookup", "draft_model", "eagle2", "jakiro")]
    + [("draft_model", {"lookup": "1"}), ("jakiro", {"lookup": "1"})],
)
def test_traces_are_those_without_programs(target, recorded, method, changes, sampling):
    """To the last token of the context, columns included; drafts and passes are called for by replay alone."""
    traces = []
    for one in (target, recorded):
        [(make, settings)] = load_methods(one, [method], changes).values()
        traces.append(record(one, make(settings), PROMPT, CONTEXT, sampling))
    alike(*traces)
    assert len(traces[0].tokens) == CONTEXT - len(PROMPT)


def test_copies_that_the_end_of_the_text_cuts_short_have_no_programs_of_their_own(recorded, monkeypatch):
    made, real = [], fixed.FixedPass
    monkeypatch.setattr(fixed, "FixedPass", lambda cache, nodes, *more: made.append(nodes) or real(cache, nodes, *more))
    sizes = {"top_k": "10", "depth": "3", "total_tokens": "60", "lookup": "1"}
    [(make, settings)] = load_methods(recorded, ["eagle2"], sizes).values()
    found = record(recorded, make(settings), [7, 8] * 10, 120, GREEDY)
    copied = [len(step.tree) for step in found.steps if "copied_from" in step.tree.columns]
    assert len({*copied}) > 5 and {*made} == {60}, "the first round's program serves"


def alike(plain: Trace, replayed: Trace) -> None:
    """The same trees, with what is known of their nodes but for rounding."""
    assert replayed.tokens == plain.tokens
    for expected, found in zip(plain.steps, replayed.steps, strict=True):
        assert (found.tree.tokens, found.tree.parents) == (expected.tree.tokens, expected.tree.parents)
        assert found.target_logprobs == pytest.approx(expected.target_logprobs, abs=1e-2, rel=1e-3)
        for name, column in expected.tree.columns.items():
            assert [value is None for value in found.tree.columns[name]] == [value is None for value in column]
            near = 1 if name.endswith("rank") else 1e-2  # two tokens far down may be as likely
            assert known(found.tree.columns[name]) == pytest.approx(known(column), abs=near, rel=1e-3)


def known(column: list) -> list:
    return [value for value in column if value is not None]


@pytest.mark.parametrize("mode", MODES)
def test_drafts_are_those_without_programs(target, recorded, mode):
    """Rounds that are fed with one feature and with several, in every mode."""
    seen = [rounds(one, drafter_for(one, mode)[1]) for one in (target, recorded)]
    assert len(seen[0]) > 5
    for (tokens, expected), (same, found) in zip(*seen, strict=True):
        assert tokens == same and (found.tokens, found.parents) == (expected.tokens, expected.parents)
        assert found.scores == pytest.approx(expected.scores, abs=1e-2, rel=1e-3)


@pytest.mark.parametrize("family", ["gpt2", "eager gemma2", "mistral", "eager gpt_oss", "eager llama"])
def test_families_give_their_text(family):
    attention, _, name = family.rpartition(" ")
    model = tiny_model(name, attention or "sdpa")
    plain, replayed = Target.wrap(model, graphs=False), Target.wrap(model)
    assert plain.no_graphs == "not asked for" and replayed.graphs
    assert_one_text(plain, replayed)


def assert_one_text(*targets: Target) -> None:
    """Drawn, without drafts and with random ones."""
    texts = set()
    for one in targets:
        one.ends = frozenset()
        for drafter in (VanillaDrafter(), Noise(3, 11)):
            texts.add(tuple(record(one, drafter, PROMPT, 30, SAMPLED, inspect=False).tokens))
    assert len(texts) == 1


def test_trees_of_any_size_and_a_cache_that_moves(target, recorded):
    text = record(target, VanillaDrafter(), PROMPT, 40, GREEDY, inspect=False).tokens
    for nodes in (1, 2, 5, 260):
        assert record(recorded, Noise(nodes, nodes), PROMPT, 40, GREEDY, inspect=False).tokens == text
    trace = record(recorded, Oracle(PROMPT + text, 7, decoy=True), PROMPT, 40, GREEDY)
    assert trace.tokens == text and len(trace.steps) == 5


@pytest.mark.parametrize("family", ["mistral", "eager gpt_oss"])
@torch.inference_mode()
def test_a_tree_deeper_than_a_sliding_window(family):
    """Nodes of many siblings lie further apart in the cache than in the text."""
    attention, _, name = family.rpartition(" ")
    model = tiny_model(name, attention or "sdpa")
    logits = []
    for target in (Target.wrap(model, graphs=False), Target.wrap(model)):
        cache = target.new_cache(CONTEXT)
        target.prefill(torch.tensor(PROMPT), cache)
        tree = random_tree(random.Random(1), 7, 14)
        logits.append(target.score(tree.tokens, tree.parents, cache)[0].clone())
    torch.testing.assert_close(*logits, atol=2e-4, rtol=1e-3)


@torch.inference_mode()
def test_a_program_of_a_cache_that_moved_is_recorded_anew(target, recorded):
    """A small tree, a large one that moves the cache, the same small one."""
    answers = []
    for one in (target, recorded):
        cache = one.new_cache(fixed.ROWS)
        one.prefill(torch.tensor(PROMPT), cache)
        for tree in (random_tree(random.Random(0), 7, nodes) for nodes in (3, 320, 3)):
            logits, _ = one.score(tree.tokens, tree.parents, cache)
            cache.keep(cache.length, [0, 1])
        answers.append(logits)
    torch.testing.assert_close(*answers, atol=1e-2, rtol=1e-3)


def test_a_shape_is_recorded_once(recorded, monkeypatch):
    made = []
    monkeypatch.setitem(programs._RECORDERS, "cpu", lambda *work: made.append(work) or tape.record(*work))
    forward, passes = recorded.model.forward, []
    monkeypatch.setattr(recorded.model, "forward", lambda *a, **k: passes.append(a) or forward(*a, **k))
    [(make, settings)] = load_methods(recorded, ["jakiro"], {"total_tokens": "9"}).values()
    trace = record(recorded, make(settings), PROMPT, 60, GREEDY)
    assert len(trace.steps) > 20 and {len(step.tree) for step in trace.steps} >= {9}
    assert len(made) == 2, "the draft and its tree, which serves for the smaller ones where the text ends, too"
    assert len(passes) == 1 + 3 * (len(made) - 1), "the prompt; then two calls and a recording of each tree"


def test_the_clock_stands_still_while_a_program_is_recorded(recorded, monkeypatch):
    time = [0.0]
    monkeypatch.setattr(programs.time, "perf_counter", lambda: time[0])
    monkeypatch.setattr(programs._pause, "seconds", 0.0)  # earlier recordings' fractions round otherwise

    def slow(work, device):
        program = tape.record(work, device)
        time[0] += 100
        return lambda: time.__setitem__(0, time[0] + 1) or program()

    monkeypatch.setitem(programs._RECORDERS, "cpu", slow)
    [(make, settings)] = load_methods(recorded, ["eagle2"], {}).values()
    for step in record(recorded, make(settings), PROMPT, 20, GREEDY).steps[:5]:
        assert (step.draft_s, step.verify_s, step.overhead_s) == (1, 1, 0)
    assert time[0] > 200


def test_a_model_that_asks_for_a_value_runs_without_and_says_so():
    model = tiny_model()
    seen = []
    model.model.layers[1].register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0].sum().item()))
    found = Target.wrap(model)
    assert not found.graphs and "cannot be recorded" in found.no_graphs
    assert record(found, VanillaDrafter(), PROMPT, 5, GREEDY).tokens


def test_a_model_that_keeps_a_number_of_its_recording_runs_without_and_says_so(target, monkeypatch):
    """Its positions come from Python, as where a model counts the cache's rows: right once, wrong ever after."""
    fixed = Target._fixed

    def counted(self, tokens, positions, *rest):
        return fixed(self, tokens, torch.tensor(positions.tolist()), *rest)

    monkeypatch.setattr(tape, "REFUSED", set())
    monkeypatch.setattr(Target, "_fixed", counted)
    found = Target.wrap(tiny_model())
    assert not found.graphs and "otherwise when replayed" in found.no_graphs
    texts = [record(one, VanillaDrafter(), PROMPT, 9, GREEDY).tokens for one in (target, found)]
    assert texts[0] == texts[1]


def test_padding():
    assert [padded(nodes) for nodes in (1, 2, 4, 5, 60, 61)] == [1, 4, 4, 8, 60, 64]


def test_bare_passes_leave_no_trace(recorded):
    leave_no_trace(recorded)


def leave_no_trace(target: Target) -> None:
    [(make, settings)] = load_methods(target, ["jakiro"], {}).values()
    drafters = [make(settings), make(settings)]
    tokens, features = list(range(20)), torch.randn(19, target.hidden_size)
    trees = []
    for bare, drafter in enumerate(drafters):
        drafter.draft(Context(tokens, features, room=8))
        following = Context([*tokens, 5, 6], features[:2], room=8)
        if bare:
            assert drafter.bare(following) == drafter.bare(following) == settings.depth - 1
        trees.append(drafter.draft(following))
    assert trees[0] == trees[1]


def test_a_head_outgrows_its_buffers(target, recorded, monkeypatch):
    """Programs are made anew on the larger ones."""
    from jakiro.drafting import state

    monkeypatch.setattr(state, "ROWS", 16)
    plain, fixed = (drafter_for(one, "mixture, contrastive")[1] for one in (target, recorded))
    assert fixed._state.capacity == 16
    runs = [record(*pair, PROMPT, 60, GREEDY).steps for pair in ((target, plain), (recorded, fixed))]
    assert [step.tree.tokens for step in runs[0]] == [step.tree.tokens for step in runs[1]]
    assert fixed._state.capacity >= 64


def test_large_trees_move_the_cache_once_in_a_while(target, monkeypatch):
    """Not in every round, although the text grows in each."""
    moved, views = [], KVCache._views

    def noted(cache, *rows):
        if not rows:  # all, which storage is made or moved for
            moved.append(cache.capacity)
        return views(cache, *rows)

    monkeypatch.setattr(KVCache, "_views", noted)
    monkeypatch.setattr(engine, "TREE_ROWS", 0)
    run = record(target, drafter_for(target, "mixture, contrastive")[1], PROMPT, 60, GREEDY)
    assert len(run.steps) > 20 and len(moved) == 2  # made, moved


def test_programs_that_see_too_few_rows_are_freed(recorded, monkeypatch):
    monkeypatch.setattr(fixed, "ROWS", 16)
    new_cache, made = recorded.new_cache, []
    monkeypatch.setattr(recorded, "new_cache", lambda *how: made.append(new_cache(*how)) or made[-1])
    record(recorded, drafter_for(recorded, "mixture")[1], PROMPT, 60, GREEDY)
    [cache] = made
    assert cache.length >= 60 and min(rows for _, _, rows in cache.programs) >= 64


def test_a_benchmark_says_what_recording_took(recorded, monkeypatch):
    """Every run records its own programs; the seconds are in no phase."""
    time, made = [0.0], []
    monkeypatch.setattr(programs.time, "perf_counter", lambda: time[0])
    monkeypatch.setattr(programs._pause, "seconds", 0.0)  # earlier recordings' fractions round otherwise

    def slow(work, device):
        made.append(work)
        time[0] += 100
        return tape.record(work, device)

    monkeypatch.setitem(programs._RECORDERS, "cpu", slow)
    methods = load_methods(recorded, ["vanilla", "eagle2"], {})
    prompts = [Prompt("chat", "1", "the ant"), Prompt("chat", "2", "a man")]
    report = Benchmark(recorded, prompts, methods, 8, [GREEDY]).run()
    vanilla, eagle = ({**row} for row in report["rows"])
    assert vanilla["recording_s"] == 200 and eagle["recording_s"] >= 400
    assert vanilla["recording_s"] + eagle["recording_s"] == 100 * len(made) / 2  # the other half warmed up
    assert {row[f"{phase}_s"] for row in (vanilla, eagle) for phase in ("draft", "verify", "overhead")} == {0.0}
    make, settings = methods["vanilla"]
    trace = record(recorded, make(settings), PROMPT, 8, GREEDY)
    assert trace.steps[0].recording_s == 100 == metrics.recording(trace) and metrics.totals(trace)["verify_s"] == 0


def test_without_a_compiler_it_is_said_in_a_line_what_to_do():
    with torch._inductor.config.patch({"cpp.cxx": (None, "no-such-compiler")}):
        work = programs.compile_work(lambda x: 3 * x.sin() + 0.125)
        with pytest.raises(ValueError, match=r"fails .*no-such-compiler.*in training --no-compile") as ended:
            work(torch.ones(7))
    assert len(str(ended.value).splitlines()) == 1


@torch.inference_mode()
def test_a_spare_program_has_room_for_all_its_rows(recorded):
    cache = recorded.new_cache(fixed.ROWS)
    recorded.prefill(torch.tensor(PROMPT), cache)
    cache.length = 240
    tree = random_tree(random.Random(0), 7, 12)
    recorded.score(tree.tokens, tree.parents, cache)
    cache.length = 250  # twelve rows more would not fit
    recorded.score([7], [-1], cache, spare=True)
    assert {nodes for nodes, *_ in cache.programs} == {1, 12}
