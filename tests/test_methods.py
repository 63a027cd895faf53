"""Every method under one contract. A new one is tested by its line in METHODS."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch
from tiny import CONTEXT, tiny_model

from jakiro.drafting.head import EagleHead
from jakiro.drafting.weights import save_head
from jakiro.engine import decode, record
from jakiro.methods import METHODS, meet, on_heads, with_trees
from jakiro.settings import build
from jakiro.target import Target
from jakiro.trace import Trace
from jakiro.traces import read_traces, traces_json
from jakiro.verify import GREEDY, Sampling

PROMPT = [5, 17, 230, 41, 5, 17]
OWN = {"id", "parent", "depth", "state", "q", "p", "score"}  # names of docs/trace.md
COLUMNS = {"source": {None, 0, 1, 2, 3}, "head": {None, 0, 1}}


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]


def run(method, target, count=24, sampling=GREEDY, prompt=PROMPT, inspect=True, **changes) -> Trace:
    settings = build(method.settings, method.defaults(target), changes)
    drafter = method.load(target)(settings)
    return record(target, drafter, prompt, count, sampling, method.name, settings, inspect)


def trees(trace: Trace) -> list[tuple]:
    return [(step.tree.tokens, step.tree.parents, step.tree.scores) for step in trace.steps]


def test_describes_itself(method, target):
    assert METHODS[method.name] is method
    assert method.title and method.summary.endswith(".")
    assert isinstance(method.defaults(target), method.settings)
    for field in dataclasses.fields(method.settings):
        assert field.metadata["help"].endswith("."), field.name
    assert method.settings.__dataclass_params__.frozen


def test_a_second_head_of_a_method_is_a_method_beside_it(target, heads, tmp_path, methods_again):
    order = [*METHODS]
    meet(["eagle2-mine", "jakiro", "eagle2-mine"])
    assert [*METHODS] == [*order[: order.index("eagle2") + 1], "eagle2-mine", *order[order.index("eagle2") + 1 :]]
    assert (METHODS["eagle2-mine"].title, METHODS["eagle2"].title) == ("EAGLE-2 (mine)", "EAGLE-2")
    torch.manual_seed(3)
    save_head(tmp_path / "theirs", EagleHead(EagleHead.Config.from_json(heads["eagle2"] / "config.json")))
    both = Target.wrap(target.model, heads={"eagle2": heads["eagle2"], "eagle2-mine": tmp_path / "theirs"})
    only = Target.wrap(target.model, heads={"eagle2": tmp_path / "theirs"})
    asked = (("eagle2-mine", both), ("eagle2", both), ("eagle2", only))
    mine, usual, theirs = (run(METHODS[name], one) for name, one in asked)
    assert trees(mine) == trees(theirs) != trees(usual) and mine.tokens == usual.tokens
    assert mine.method == "eagle2-mine" and mine.drafter == theirs.drafter and "/theirs@" in mine.drafter


@pytest.mark.parametrize(
    ("name", "said"),
    [("eagle2-", "names no second head of eagle2: after eagle2- write"), ("eagle2-a b", "names no second head"),
     ("eagle2-" + "x" * 99, "names no second head"), ("eagle-2", "no method with a head is called 'eagle-2'"),
     ("vanilla-mine", "no method with a head is called")],
)  # fmt: skip
def test_a_head_of_no_method_is_refused(name, said, methods_again):
    with pytest.raises(ValueError, match=said):
        meet([name])
    assert "eagle2" in METHODS and name not in METHODS


def test_the_default_tree_has_what_its_head_asks_for(target, tmp_path):
    for name in {*with_trees()} & {*target.heads}:
        folder = target.heads[name]
        asked = json.loads((folder / "config.json").read_text()) | {"draft_temperature": 0.7}
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(asked))
        own = Target.wrap(target.model, heads={name: tmp_path / name})
        usual = METHODS[name].defaults(target)
        assert usual.draft_temperature == 1.0
        assert METHODS[name].defaults(own) == dataclasses.replace(usual, draft_temperature=0.7)


def test_the_tree_of_a_gpu_is_as_deep_as_its_authors_draft(target):
    gpu = SimpleNamespace(device=torch.device("cuda"), heads=target.heads)
    depths = {name: METHODS[name].defaults(gpu).depth for name in with_trees()}
    assert depths == {name: 8 if name == "eagle3" else 6 for name in with_trees()}


def test_says_what_it_lacks(method, target):
    assert method.unavailable(target) == ""
    bare = Target.wrap(tiny_model())
    assert bool(method.unavailable(bare)) == (method.head is not None) == (method.name in on_heads())


def test_greedy_ids_are_those_of_generate(method, target, eager_target):
    for one in (target, eager_target):
        ids = one.model.generate(torch.tensor([PROMPT]), max_new_tokens=40, do_sample=False, pad_token_id=0)
        assert run(method, one, 40).tokens == ids[0, len(PROMPT) :].tolist()


@pytest.mark.parametrize(
    ("temperature", "top_p", "seed"), [(0.4, 1.0, 0), (1.0, 0.8, 1), (1.5, 0.95, 2), (1.0, 1.0, 7)]
)
def test_sampled_ids_are_those_of_vanilla(method, target, temperature, top_p, seed):
    sampling = Sampling(temperature, top_p, seed)
    assert run(method, target, 30, sampling).tokens == run(METHODS["vanilla"], target, 30, sampling).tokens


@pytest.mark.parametrize("name", with_trees())
def test_drafts_with_the_targets_noise_change_no_text_and_are_accepted_more(name, target):
    """Between laws that have little to do with each other, flat enough for the noise to decide."""
    method, sampling = METHODS[name], Sampling(8.0, seed=4)
    vanilla, plain, coupled, greedy = (
        run(METHODS["vanilla"], target, 80, sampling),
        run(method, target, 80, sampling),
        run(method, target, 80, sampling, coupled=True),
        run(method, target, 80, coupled=True),
    )
    assert vanilla.tokens == plain.tokens == coupled.tokens
    assert len(coupled.steps) < 0.8 * len(plain.steps)
    assert trees(greedy) == trees(run(method, target, 80))


def test_trees_are_well_formed(method, target):
    trace = run(method, target, 30, Sampling(1.0, seed=3))
    assert read_traces(traces_json([trace]))[0].tokens == trace.tokens
    for step in trace.steps:
        tree = step.tree
        assert tree.scores[0] == 0.0
        for node, parent in enumerate(tree.parents[1:], start=1):
            assert 0 <= parent < node
            assert tree.scores[node] <= tree.scores[parent] + 1e-6
        children = list(zip(tree.parents, tree.tokens, strict=True))
        assert len(set(children)) == len(children), "siblings are distinct"
        for name, column in tree.columns.items():
            assert len(column) == len(tree), name
            assert all(value is None or type(value) in (int, float) for value in column), name
            assert name not in OWN, "the page has another use for this name"
            assert set(column) <= COLUMNS.get(name, set(column)), "docs/trace.md says what this name stands for"


def test_runs_repeat_and_looking_changes_nothing(method, target):
    first = run(method, target, sampling=Sampling(0.9, seed=5))
    again = run(method, target, sampling=Sampling(0.9, seed=5), inspect=False)
    assert first.tokens == again.tokens
    assert [step[:2] for step in trees(first)] == [step[:2] for step in trees(again)]


def test_one_load_serves_runs_in_turn(method, target):
    """Two runs of one loaded method, stepped alternately, are as if each were alone."""
    make, settings = method.load(target), method.defaults(target)
    prompts = [PROMPT, [9, 8, 7]]
    alone = [[step.emitted for step in run(method, target, prompt=prompt).steps] for prompt in prompts]
    runs = [decode(target, make(settings), prompt, 24, GREEDY) for prompt in prompts]
    together: list[list] = [[], []]
    for run_ in runs:
        next(run_)
    for at in range(24):
        for side, run_ in enumerate(runs):
            step = next(run_, None)
            if step is not None:
                together[side].append(step.emitted)
        if at == 0:
            make(settings)  # a third run that never starts
    assert together == alone


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_length_caps(method, target, count):
    trace = run(method, target, count)
    assert trace.tokens == run(METHODS["vanilla"], target, count).tokens and trace.stop == "length"
    left = count - 1
    for step in trace.steps:
        assert max(step.tree.depths()) <= left - 1
        left -= len(step.emitted)


def test_the_context_limit(method, target):
    prompt = [(11 * at) % 300 for at in range(CONTEXT - 7)]
    trace = run(method, target, 50, prompt=prompt)
    assert trace.tokens == run(METHODS["vanilla"], target, 50, prompt=prompt).tokens
    assert len(trace.tokens) == 7 and trace.stop == "context"


def test_a_prompt_of_one_token(method, target):
    assert run(method, target, prompt=[42]).tokens == run(METHODS["vanilla"], target, prompt=[42]).tokens


def test_every_bound_and_choice_of_every_setting(method, target):
    """A value may be refused beside the other settings, with a reason; what is taken must run."""
    expected = run(METHODS["vanilla"], target, 10).tokens
    for field in dataclasses.fields(method.settings):
        low, high, choices = (field.metadata[name] for name in ("low", "high", "choices"))
        others = {bool: [False, True], str: ["", "x"]}.get(type(field.default), [])
        for value in choices or [bound for bound in (low, high) if bound is not None] or others:
            try:
                build(method.settings, method.defaults(target), {field.name: value})
            except ValueError as refusal:
                assert ":" in str(refusal), "say what to change"
                continue
            assert run(method, target, 10, **{field.name: value}).tokens == expected, (field.name, value)
