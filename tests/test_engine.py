"""The loop: what it emits, what it hands to drafters, where it stops, and what it counts."""

from __future__ import annotations

import math
import random

import numpy
import pytest
import torch
from tiny import CONTEXT, VOCAB, random_tree, tiny_model

from jakiro import engine
from jakiro import trace as traces
from jakiro.cache import KVCache
from jakiro.drafter import Context, Drafter
from jakiro.engine import Prefill, decode, record, stop_reason, stopwatch
from jakiro.methods import METHODS
from jakiro.methods.vanilla import VanillaDrafter
from jakiro.models import hub
from jakiro.target import Target
from jakiro.traces import read_traces, traces_json
from jakiro.tree import CutNodes, DraftTree
from jakiro.verify import GREEDY, Sampling, pick

PROMPT = [5, 17, 230, 41, 5, 99]
SAMPLED = Sampling(temperature=1.1, top_p=0.9, seed=4)


class Base(Drafter):
    """A drafter that keeps what it was shown."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []

    def draft(self, context: Context) -> DraftTree:
        self.contexts.append(Context(list(context.tokens), context.features.clone(), context.room))
        return self.tree(context)


class Oracle(Base):
    """Knows the text. With `decoy`, each right node comes after a wrong sibling that has a child of its own."""

    def __init__(self, text: list[int], depth: int, decoy: bool = False) -> None:
        super().__init__()
        self.text, self.depth, self.decoy = text, depth, decoy

    def tree(self, context: Context) -> DraftTree:
        at = len(context.tokens)
        tokens, parents, right = [context.tokens[-1]], [-1], 0
        for token in self.text[at : at + self.depth]:
            if self.decoy:
                tokens += [(token + 1) % VOCAB, token]
                parents += [right, len(tokens) - 2]
            tokens.append(token)
            parents.append(right)
            right = len(tokens) - 1
        return DraftTree(tokens, parents, [0.0] * len(tokens))


class Wrong(Oracle):
    """Knows the text and never says it."""

    def tree(self, context: Context) -> DraftTree:
        right = self.text[len(context.tokens)] if len(context.tokens) < len(self.text) else 0
        tokens = [context.tokens[-1], (right + 1) % VOCAB, (right + 2) % VOCAB, right]
        return DraftTree(tokens, [-1, 0, 0, 1], [0.0] * 4)


class Noise(Base):
    """Random trees, always the same for a seed, minding neither room nor the size set aside."""

    def __init__(self, seed: int, nodes: int) -> None:
        super().__init__()
        self.rng, self.nodes = random.Random(seed), nodes

    def tree(self, context: Context) -> DraftTree:
        return random_tree(self.rng, context.tokens[-1], self.nodes)


def vanilla_text(target: Target, prompt: list[int], count: int, sampling: Sampling = GREEDY) -> list[int]:
    return record(target, VanillaDrafter(), prompt, count, sampling, inspect=False).tokens


def generated(target: Target, prompt: list[int], count: int) -> list[int]:
    ids = target.model.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False, pad_token_id=0)
    return ids[0, len(prompt) :].tolist()


def with_ends(target: Target, *ids: int) -> Target:
    """The same target, ending its text at the given tokens."""
    other = Target.__new__(Target)
    other.__dict__.update(target.__dict__, ends=frozenset(ids))
    return other


@pytest.fixture(scope="module")
def text(target) -> list[int]:
    """The target's greedy text, long enough to stop inside."""
    text = vanilla_text(target, PROMPT, 60)
    assert len(set(text)) > 20, "a repetitive target hides mistakes"
    return text


@pytest.mark.parametrize("count", [1, 2, 40])
def test_vanilla_is_generate(target, eager_target, count):
    for one in (target, eager_target):
        assert vanilla_text(one, PROMPT, count) == generated(one, PROMPT, count)


def test_sampled_tokens_are_keyed_by_their_absolute_position(target):
    """Against whole forward passes without a cache, each token picked for the place where it will stand."""
    ids = list(PROMPT)
    with torch.inference_mode():
        for _ in range(12):
            logits = target.model(torch.tensor([ids])).logits[0, -1:]
            ids.append(int(pick(logits, [len(ids)], SAMPLED)))
    assert vanilla_text(target, PROMPT, 12, SAMPLED) == ids[len(PROMPT) :]


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(1.0, 0.5)])
@pytest.mark.parametrize("at", [0, 4])
@pytest.mark.parametrize("lost", [slice(None), slice(7, 8)], ids=["all", "one"])
def test_a_target_whose_numbers_end_on_the_way_says_so(target, monkeypatch, sampling, at, lost):
    """As in half precision, where a long text may overflow what the first one did not."""
    whole, rounds = target._pass, []

    def overflowing(*arguments, **named):
        logits, features = whole(*arguments, **named)
        rounds.append(None)
        if len(rounds) > at:
            logits = logits.clone()
            logits[..., lost] = math.inf
        return logits, features

    monkeypatch.setattr(target, "tapes", None)
    monkeypatch.setattr(target, "_pass", overflowing)
    with pytest.raises(ValueError, match=r"answers with what is no number in torch\.float32: use bfloat16"):
        vanilla_text(target, PROMPT, 12, sampling)
    assert len(rounds) == at + 1


@pytest.mark.parametrize("depth", [1, 3, 7])
@pytest.mark.parametrize("decoy", [False, True])
def test_an_oracle_gives_depth_plus_one_tokens_a_round(target, text, depth, decoy):
    count = 1 + 4 * (depth + 1)
    trace = record(target, Oracle(PROMPT + text, depth, decoy), PROMPT, count, GREEDY)
    assert trace.tokens == text[:count]
    assert [len(step.emitted) for step in trace.steps] == [depth + 1] * 4


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("nodes", [1, 2, 9, 90])
def test_random_trees_change_nothing(target, sampling, nodes):
    trace = record(target, Noise(nodes, nodes), PROMPT, 20, sampling, inspect=False)
    assert trace.tokens == vanilla_text(target, PROMPT, 20, sampling)


def test_a_drafter_that_is_always_wrong_costs_rounds_only(target, text):
    trace = record(target, Wrong(PROMPT + text, 1), PROMPT, 20, GREEDY)
    assert trace.tokens == text[:20]
    assert len(trace.steps) == 19 and not any(step.accepted for step in trace.steps)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_features_are_those_of_the_text(target, sampling):
    """With decoys, any mix-up of rows would hand over the features of a wrong node."""
    text = vanilla_text(target, PROMPT, 25, sampling)
    drafter = Oracle(PROMPT + text, 3, decoy=True)
    assert record(target, drafter, PROMPT, 25, sampling).tokens == text
    shown = torch.cat([context.features for context in drafter.contexts])
    last = drafter.contexts[-1].tokens
    assert [len(context.features) for context in drafter.contexts] == [len(PROMPT)] + [4] * (len(drafter.contexts) - 1)
    with torch.inference_mode():
        expected = target.model.model(torch.tensor([last[:-1]])).last_hidden_state[0]
    torch.testing.assert_close(shown, expected, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("at", range(1, 10))
def test_nothing_follows_an_end_inside_an_accepted_block(target, text, at):
    """`at` runs over every place of a block; the end is never accepted, it is the bonus."""
    ended = with_ends(target, text[at])
    stop = text.index(text[at])
    trace = record(ended, Oracle(PROMPT + text, 4, decoy=True), PROMPT, 60, GREEDY)
    assert trace.tokens == text[: stop + 1] and trace.stop == "eos"
    assert trace.steps[-1].bonus == text[at] if stop else not trace.steps


def test_an_end_that_prefill_gives_leaves_no_round(target, text):
    trace = record(with_ends(target, text[0]), VanillaDrafter(), PROMPT, 9, GREEDY)
    assert (trace.tokens, trace.steps, trace.stop) == (text[:1], [], "eos")


@pytest.mark.parametrize("count", range(1, 12))
def test_the_length_is_exact_inside_a_block(target, text, count):
    drafter = Oracle(PROMPT + text, 4, decoy=True)
    trace = record(target, drafter, PROMPT, count, GREEDY)
    assert trace.tokens == text[:count] and trace.stop == "length"
    for context, step in zip(drafter.contexts, trace.steps, strict=True):
        assert context.room == count - (len(context.tokens) - len(PROMPT)) - 1
        assert max(step.tree.depths()) <= context.room


@pytest.mark.parametrize("room", [1, 2, 5, 9])
def test_the_context_is_filled_exactly(target, room):
    prompt = [(7 * at) % VOCAB for at in range(CONTEXT - room)]
    text = vanilla_text(target, prompt, 50)
    assert len(text) == room
    trace = record(target, Oracle(prompt + text + [1] * 9, 4), prompt, 50, GREEDY)
    assert trace.tokens == text and trace.stop == "context"


def test_text_that_fills_context_and_length_at_once_ends_by_length(target):
    prompt = [(7 * at) % VOCAB for at in range(CONTEXT - 3)]
    assert record(target, VanillaDrafter(), prompt, 3, GREEDY).stop == "length"


def test_a_method_is_no_drafter_and_a_number_no_sampling(target):
    with pytest.raises(ValueError, match=r"is no drafter: METHODS\[name\]"):
        decode(target, METHODS["vanilla"], PROMPT, 5, GREEDY)
    with pytest.raises(ValueError, match=r"0\.5 is no sampling: "):
        decode(target, Noise(1, 4), PROMPT, 5, 0.5)


def test_a_prompt_of_one_token(target):
    text = generated(target, [42], 12)
    assert record(target, Oracle([42, *text], 3), [42], 12, GREEDY).tokens == text


@pytest.mark.parametrize(
    ("prompt", "count", "message"),
    [
        ([], 5, "empty"),
        ([1] * CONTEXT, 5, "shorten it"),
        ([1, VOCAB], 5, "outside"),
        ([-1], 5, "outside"),
        ([1], 0, "at least 1"),
        (None, 5, "no list of token ids"),
    ],
)
def test_impossible_runs_are_refused_before_they_start(target, prompt, count, message):
    with pytest.raises(ValueError, match=message):
        decode(target, VanillaDrafter(), prompt, count, GREEDY)


def test_a_drafter_that_has_had_a_run_is_refused(target):
    """It remembers that text, and would draft on from it."""
    drafter = VanillaDrafter()
    record(target, drafter, PROMPT, 3, GREEDY)
    with pytest.raises(ValueError, match="make a new one"):
        decode(target, drafter, PROMPT, 3, GREEDY)


def test_runs_do_not_disturb_each_other(target, text):
    """Two runs stepped in turn, one left in the middle, as a race does."""
    left = decode(target, Noise(1, 6), PROMPT, 30, SAMPLED)
    runs = [decode(target, Oracle(PROMPT + text, 3), PROMPT, 30, GREEDY), left]
    emitted = []
    for _ in range(4):
        for run in runs:
            event = next(run)
            if run is runs[0]:
                emitted += [event.first] if isinstance(event, Prefill) else event.emitted
    left.close()
    for event in runs[0]:
        emitted += event.emitted
    assert emitted == text[:30]
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "mistral", "gemma2", "qwen3_moe"])
def test_other_architectures_decode_as_generate(name):
    other = Target.wrap(tiny_model(name, "eager" if name == "gemma2" else "sdpa"))
    text = generated(other, PROMPT, 24)
    assert record(other, Oracle(PROMPT + text, 3, decoy=True), PROMPT, 24, GREEDY).tokens == text
    assert record(other, Noise(3, 12), PROMPT, 24, GREEDY, inspect=False).tokens == text


def test_engine_columns_are_the_targets_own(target, text):
    """Against a plain forward of each node's path."""
    step = record(target, Oracle(PROMPT + text, 2, decoy=True), PROMPT, 4, GREEDY).steps[0]
    for node in range(len(step.tree)):
        path = [*PROMPT, *step.tree.paths()[node]]
        with torch.inference_mode():
            law = target.model(torch.tensor([path])).logits[0].log_softmax(-1)
        pick = int(law[-1].argmax())
        assert step.tree.columns["pick"][node] == pick
        assert step.tree.columns["pick_logprob"][node] == pytest.approx(float(law[-1, pick]), abs=1e-3)
        entropy = -float((law[-1].exp() * law[-1]).sum())
        assert step.tree.columns["target_entropy"][node] == pytest.approx(entropy, abs=1e-3)
        own = float(law[-2, step.tree.tokens[node]]) if node else 0.0
        assert step.target_logprobs[node] == pytest.approx(own, abs=1e-3)


def test_columns_can_be_left_out_and_drafters_may_add_some(target):
    class Marked(Noise):
        def inspect(self, tree, picks):
            return {"seen": list(picks)}

    bare = record(target, Marked(2, 5), PROMPT, 6, GREEDY, inspect=False)
    full = record(target, Marked(2, 5), PROMPT, 6, GREEDY)
    assert all(step.tree.columns == {} for step in bare.steps)
    assert all(step.tree.columns["seen"] == step.tree.columns["pick"] for step in full.steps)
    assert bare.tokens == full.tokens
    assert [step.target_logprobs for step in bare.steps] == [step.target_logprobs for step in full.steps]


def test_pruning_keeps_columns_with_their_nodes(target, text):
    class Numbered(Oracle):
        def tree(self, context):
            tree = super().tree(context)
            return DraftTree(tree.tokens, tree.parents, tree.scores, {"level": tree.depths()})

    trace = record(target, Numbered(PROMPT + text, 6, decoy=True), PROMPT, 3, GREEDY)
    tree = trace.steps[0].tree
    assert tree.columns["level"] == tree.depths() and max(tree.depths()) == 1


def test_what_is_asked_for_is_whole_numbers(target):
    with pytest.raises(ValueError, match=r"max_new_tokens is 4\.5; ask for a whole number"):
        record(target, Noise(1, 4), PROMPT, 4.5, GREEDY)
    with pytest.raises(ValueError, match="the prompt has ids outside"):
        record(target, Noise(1, 4), [1.0, 2.5], 4, GREEDY)
    with pytest.raises(ValueError, match="the prompt has ids outside"):
        record(target, Noise(1, 4), [True], 4, GREEDY)


def test_numpys_whole_numbers_are_whole_numbers(target):
    prompt, four = numpy.array(PROMPT), numpy.int64(4)
    found = record(target, Noise(1, 4), prompt, four, Sampling(1.0, 1.0, four))
    [again] = read_traces(traces_json([found]))
    assert (again.prompt, again.seed, len(again.tokens)) == (PROMPT, 4, 4)
    with pytest.raises(ValueError, match="empty"):
        record(target, Noise(1, 4), prompt[:0], four, GREEDY)
    copies = METHODS["prompt_lookup"]
    drafter = copies.load(target)(copies.defaults(target))
    assert traces_json([record(target, drafter, numpy.arange(140), 12, GREEDY)])  # some of which it copies


def test_a_run_on_numpys_numbers_can_be_kept_round_by_round(target):
    """As `record` keeps a whole one, and with a first token that is numpy's, too."""
    prompt, four = numpy.array(PROMPT), numpy.int64(4)
    prefill, *steps = decode(target, Noise(1, 4), prompt, four, GREEDY, first=numpy.int64(9))
    [again] = read_traces(traces_json([engine.as_trace(target, prompt, four, GREEDY, prefill, steps)]))
    assert (again.prompt, again.first, again.max_new_tokens) == (PROMPT, 9, 4)


def test_seconds_are_the_rounds_wall_time(target, monkeypatch):
    """On a clock that only the phases move: draft 100, target 10, walk 2, what is kept 1 a call."""
    from jakiro import engine, programs

    now = [0.0]

    def spend(seconds, call):
        def spent(*args, **kwargs):
            now[0] += seconds
            return call(*args, **kwargs)

        return spent

    monkeypatch.setattr(programs.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(engine, "walk", spend(2, engine.walk))
    monkeypatch.setattr(KVCache, "keep", spend(1, KVCache.keep))
    monkeypatch.setattr(Target, "score", spend(10, Target.score))
    drafter = Noise(1, 4)
    drafter.draft = spend(100, drafter.draft)
    drafter.inspect = spend(1000, drafter.inspect)
    for step in record(target, drafter, PROMPT, 5, GREEDY).steps:
        assert (step.draft_s, step.verify_s, step.overhead_s) == (100, 12, 1)


@pytest.mark.parametrize("name", ["cuda:1", "xpu:1", "mps:0"])
def test_the_clock_waits_for_its_own_device(monkeypatch, name):
    device, waited = torch.device(name), []
    monkeypatch.setattr(getattr(torch, device.type), "synchronize", lambda *given: waited.append(given))
    stopwatch(device)()
    assert waited == [() if device.type == "mps" else (device,)]


def test_stop_reason(target):
    ended = with_ends(target, 7)
    assert stop_reason(ended, [1], [3, 7], 2) == "eos"
    assert stop_reason(ended, [1], [7, 3], 2) == "length"
    assert stop_reason(ended, [1] * (ended.context - 2), [7, 3], 3) == "context"
    assert stop_reason(ended, [1], [7, 3], 3) == "stopped"


@pytest.mark.parametrize("method", ["vanilla", "prompt_lookup", "draft_model", "eagle2"])
def test_a_record_says_what_drafted(target, method):
    """Not in full: a path may say more of a machine than its owner wants to share. And which weights it had."""
    drafter = METHODS[method].load(target)(METHODS[method].defaults(target))
    trace = record(target, drafter, [5, 6, 7], 4, GREEDY, method)
    assert traces.from_json(traces.to_json(trace)).drafter == trace.drafter
    name, _, weights = trace.drafter.partition("@")
    assert name == ("/".join(target.heads[method].parts[-2:]) if method in target.heads else "")
    assert weights == (hub.fingerprint(target.heads[method])[:8] if method in target.heads else "")


def test_a_record_is_a_whole_trace(target):
    trace = record(target, Noise(5, 7), PROMPT, 8, SAMPLED, method="noise", settings={"nodes": 7})
    assert traces.from_json(traces.to_json(trace)).tokens == trace.tokens
    assert (trace.method, trace.settings, trace.target, trace.dtype) == ("noise", {"nodes": 7}, "tiny", "float32")
    assert (trace.seed, trace.temperature, trace.top_p) == (4, 1.1, 0.9)
    assert set(trace.versions) == {"python", "torch", "transformers"} and trace.device and trace.recorded
    assert trace.threads == torch.get_num_threads()
    occurring = {*PROMPT, *trace.tokens}
    for step in trace.steps:
        occurring |= {*step.tree.tokens, *step.tree.columns["pick"]}
    assert trace.pieces.keys() == occurring
    assert all(math.isfinite(value) for step in trace.steps for value in step.target_logprobs)


def test_zero_probabilities_stay_finite(target):
    """A model may rule a token out with -inf; a trace holds numbers."""

    class Ruled(VanillaDrafter):
        def draft(self, context):
            return DraftTree([context.tokens[-1], 1], [-1, 0], [0.0, 0.0])

    ruled = with_ends(target)
    score = target.score

    def without_one(*given, **named):
        logits, features = score(*given, **named)
        return logits.index_fill(-1, torch.tensor([1]), -math.inf), features

    ruled.score = without_one
    trace = record(ruled, Ruled(), PROMPT, 3, GREEDY)
    assert trace.steps[0].target_logprobs[1] < -1000
    assert traces.from_json(traces.to_json(trace)).tokens == trace.tokens


class Stubborn(Drafter):
    """Drafts as deep at the end of a text as anywhere, its nodes in no order of levels, and would cut two below."""

    def draft(self, context: Context) -> DraftTree:
        return DraftTree([context.tokens[-1], 1, 2, 3, 4], [-1, 0, 1, 0, 3], [0.0] * 5)

    def cut(self, tree: DraftTree) -> CutNodes:
        return CutNodes([5, 6], [4, 2], [-1.0, -2.0])


def test_a_tree_that_lost_levels_for_want_of_room_cuts_nothing(target):
    trace = record(target, Stubborn(), PROMPT, 9, Sampling())
    sizes = [(len(step.tree), len(step.tree.cut)) for step in trace.steps]
    assert set(sizes) >= {(5, 2), (3, 0)} and set(sizes) <= {(5, 2), (3, 0), (1, 0)}
    assert read_traces(traces_json([trace]))


@pytest.mark.parametrize(
    ("child", "score"), [(numpy.int64(5), -1.0), (torch.tensor(5), -1.0), (5.0, -1.0), (5, numpy.float32(-1))]
)
def test_a_trees_numbers_are_those_that_json_knows(target, child, score):
    """Else the run would go on, and its trace could not be saved."""

    class Foreign(Drafter):
        def draft(self, context: Context) -> DraftTree:
            return DraftTree([context.tokens[-1], child], [-1, 0], [0.0, score])

    with pytest.raises(AssertionError, match=r"tolist\(\) gives them"):
        record(target, Foreign(), PROMPT, 9, GREEDY)


@pytest.mark.parametrize(
    "column",
    [
        [numpy.float32(1), 2.0],
        [torch.tensor(1), None],
        torch.zeros(2),
        numpy.zeros(2),
        [True, False],
        ["one", "two"],
        [-math.inf, 0.0],
        [math.nan, 0.0],
        [1.0],
    ],
    ids=str,
)
def test_a_columns_values_are_those_that_a_trace_keeps(target, column):
    """Else the run would go on, and its trace could not be saved, with no word on which column it is."""

    class Foreign(Drafter):
        def draft(self, context: Context) -> DraftTree:
            return DraftTree([context.tokens[-1], 5], [-1, 0], [0.0, -1.0])

        def inspect(self, tree: DraftTree, picks: list[int]) -> dict[str, list]:
            return {"mine": column[: len(tree)]}

    with pytest.raises(AssertionError, match="mine has"):
        record(target, Foreign(), PROMPT, 9, GREEDY)


def test_more_cut_nodes_than_a_trace_keeps_are_a_drafters_mistake(target, monkeypatch):
    monkeypatch.setattr(engine, "MAX_CUT", 1)
    with pytest.raises(AssertionError, match="a trace keeps at most 1 cut nodes"):
        record(target, Stubborn(), PROMPT, 9, Sampling())
