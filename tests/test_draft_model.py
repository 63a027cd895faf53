"""A draft model: every score is its own plain run along a path, whatever its tree was grown from, and it reads each
token once."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import accumulate

import naive
import pytest
import tape
import torch
from naive import Answer, perturbed
from test_drafting import PROMPT, WARM, rounds, sampling_of
from tiny import CONTEXT, VOCAB, random_tree, tiny_model, tiny_tokenizer

from jakiro import programs
from jakiro.analysis.stops import SHORT, stop
from jakiro.drafter import Context
from jakiro.drafting.sizes import TreeSettings
from jakiro.engine import record
from jakiro.methods import METHODS, check_fit
from jakiro.methods.draft_model import DraftModelDrafter
from jakiro.target import Target
from jakiro.tree import LOWEST
from jakiro.ui.why import whys
from jakiro.verify import GREEDY, Sampling, noise_of

METHOD = METHODS["draft_model"]
MODES = {
    "a tree": TreeSettings(4, 4, 30),
    "a chain": TreeSettings(1, 5, 60),
    "one level": TreeSettings(4, 1, 60),
    "sure of itself": TreeSettings(4, 3, 30, draft_temperature=0.5),
    "coupled": TreeSettings(4, 3, 30, coupled=True, draft_temperature=0.7),
}
WAYS = ("forwards", "tapes", "graphs")  # in which passes of the draft model are made


@pytest.fixture
def model(request, monkeypatch) -> Target:
    """A draft model whose passes are made in the way asked for, tapes unless another is."""
    way = getattr(request, "param", "tapes")
    if way == "graphs":
        monkeypatch.setitem(programs._RECORDERS, "cpu", tape.record)
    found = small(graphs=way != "forwards")
    assert (bool(found.graphs), bool(found.tapes)) == (way == "graphs", way == "tapes")
    return found


def small(family: str = "llama", graphs: bool = True, **changes) -> Target:
    return Target.wrap(tiny_model(family, num_hidden_layers=1, seed=1, **changes), name="small", graphs=graphs)


class Oracle:
    """The draft model's answers after any path, each by a forward of its own over the whole text."""

    decoupled = False

    def __init__(self, model: Target, target: Target, tokens: list[int], settings: TreeSettings) -> None:
        self.model, self.tokens, self.settings = model.model, tokens, settings
        self.vocab = min(model.vocab_size, target.vocab_size)

    @torch.no_grad()
    def __call__(self, path: tuple[int, ...]) -> Answer:
        logits = self.model(torch.tensor([[*self.tokens, *path]])).logits[0, -1, : self.vocab]
        logits = perturbed(logits, len(self.tokens) + len(path), sampling_of(self.settings))
        return Answer(logits, (logits / self.settings.draft_temperature).log_softmax(-1))


def assert_naive(model: Target, target: Target, tokens: list[int], tree, settings: TreeSettings) -> None:
    expected = naive.draft(Oracle(model, target, tokens, settings), tokens[-1], settings)
    assert (tree.tokens, tree.parents) == (expected.tokens, expected.parents)
    assert tree.scores == pytest.approx(expected.scores, abs=1e-4)


@pytest.mark.parametrize("model", WAYS, indirect=True)
@pytest.mark.parametrize("mode", MODES)
def test_tree_is_the_naive_one(target, model, mode):
    """Of every round, whether rows of the draft before were kept or not; the last ones have less room than levels."""
    count = 24
    seen = rounds(target, DraftModelDrafter(model, target, MODES[mode]), count)
    assert len(seen) > 5
    for tokens, tree in seen:
        room = len(PROMPT) + count - len(tokens) - 1
        assert_naive(model, target, tokens, tree, replace(MODES[mode], depth=max(1, min(MODES[mode].depth, room))))


@pytest.mark.parametrize("family", ["gpt2", "mistral", "gemma2"])
def test_other_families_draft(target, family):
    """Two with a window of two or three tokens, the last with soft caps, which are part of its law."""
    model = small(family, attention="eager")
    for tokens, tree in rounds(target, DraftModelDrafter(model, target, MODES["a tree"]))[:4]:
        assert_naive(model, target, tokens, tree, MODES["a tree"])


@pytest.mark.parametrize("model", WAYS, indirect=True)
@torch.inference_mode()
def test_a_tree_that_grows_pass_by_pass_is_the_whole_one(model):
    """Logits and features, where each pass but the first is told which nodes are known."""
    rng = random.Random(3)
    whole = random_tree(rng, 7, 14)
    caches = [model.new_cache(CONTEXT) for _ in range(2)]
    for cache in caches:
        model.prefill(torch.tensor(PROMPT), cache)
    expected = [part.clone() for part in model.score(whole.tokens, whole.parents, caches[0])]
    known = 0
    for end in (1, 4, 5, 11, 14):
        parts = model.score(whole.tokens[known:end], whole.parents[:end], caches[1], known)
        for part, one in zip(parts, expected, strict=True):
            torch.testing.assert_close(part, one[known:end], atol=2e-4, rtol=1e-3)
        caches[1].keep(caches[1].length, range(end - known))
        known = end


def test_what_was_drafted_and_accepted_is_not_read_again(target, model, monkeypatch):
    """A target that is the draft model itself: a round reads the bonus, and the last node where it was not expanded."""
    read, score = [], model.score
    monkeypatch.setattr(model, "score", lambda tokens, *more: read.append(len(tokens)) or score(tokens, *more))
    itself = Target.wrap(model.model, name="small")
    itself.ends = frozenset()
    trace = record(itself, DraftModelDrafter(model, itself, TreeSettings(3, 3, 60)), PROMPT, 60, GREEDY)
    accepted = [len(step.accepted) for step in trace.steps[:-1]]
    assert len(accepted) > 9 and max(accepted) == 3
    begun, levels = read[2::3], [*read[:2], *read[3::3], *read[4::3]]  # the prompt is read otherwise
    assert set(levels) == {3}
    for before, fresh in zip(accepted, begun, strict=False):
        assert fresh == 2 if before == 3 else fresh in (1, 2)


@pytest.mark.parametrize("model", WAYS, indirect=True)
def test_what_rounds_without_a_draft_left_unread_is_read_in_few_lengths(target, model, monkeypatch):
    """After copies it is of any length, up to the end of what the draft model can read."""
    read, score = set(), model.score
    monkeypatch.setattr(model, "score", lambda tokens, *more: read.add(len(tokens)) or score(tokens, *more))
    drafter, draw = DraftModelDrafter(model, target, TreeSettings(2, 1, 3)), random.Random(4)
    text = [draw.randrange(VOCAB) for _ in range(CONTEXT)]
    ends = [*accumulate([4, 5, 9, 1, 11, 3, 20, 2, 33, 6]), CONTEXT - 9, CONTEXT]
    for end in ends:
        tree = drafter.draft(Context(text[:end], torch.zeros(end, 32), 9))
        assert_naive(model, target, text[:end], tree, TreeSettings(2, 1, 3))
    assert read <= {1, 2, 4, 8, 16, 32, 64, 9}  # the last ones have no room for sixteen


@pytest.mark.parametrize("more", [4, -4])
def test_vocabularies_that_are_padded_differently(target, tmp_path, more):
    """Ids that only one of the two has are never proposed, and read as the last one of the other's."""
    model = small(vocab_size=VOCAB + more)
    settings = TreeSettings(4, 3, 30)
    drafter, text = DraftModelDrafter(model, target, settings), [*PROMPT, VOCAB - 1, 8]
    tree = drafter.draft(Context(text, torch.zeros(len(text) - 1, 32), 9))
    fed = [min(token, VOCAB + more - 1) for token in text]
    assert_naive(model, target, fed, tree, settings)
    columns = drafter.inspect(tree, [VOCAB - 1] * len(tree))
    ranks = [rank for rank in columns["pick_rank"] if rank is not None]
    assert (more < 0) == (set(ranks) == {VOCAB - 1}), "what it lacks comes after all that it has"
    assert (more < 0) == (LOWEST in columns["pick_draft_logprob"])


def test_it_drafts_as_far_as_it_can_read(target):
    """A draft model whose context ends before the target's: then the target goes on alone."""
    model = small(max_position_embeddings=40)
    trace = record(target, DraftModelDrafter(model, target, TreeSettings(3, 3, 10)), PROMPT, 60, GREEDY)
    alone = record(target, METHODS["vanilla"].load(target)(None), PROMPT, 60, GREEDY)
    assert trace.tokens == alone.tokens
    read = len(PROMPT) + 1
    for step in trace.steps[:-1]:
        assert (len(step.tree) > 1) == (read <= 40) and max(step.tree.depths()) <= max(0, 41 - read), read
        read += len(step.emitted)


@pytest.mark.parametrize("total_tokens", [6, 13, 14])
def test_where_it_reads_no_further_no_larger_top_k_is_asked_for(target, total_tokens):
    """Of two levels of 3 and 9 nodes, where a third would be beyond its context, some, all, or more would fit."""
    twin = Target.wrap(tiny_model(max_position_embeddings=len(PROMPT) + 2), name="twin")
    trace = record(target, DraftModelDrafter(twin, target, TreeSettings(3, 3, total_tokens)), PROMPT, 9, GREEDY)
    trace = replace(trace, method="draft_model", settings={"top_k": 3, "depth": 3, "total_tokens": total_tokens})
    assert len(trace.steps[0].accepted) == 2 and stop(trace, 0) == SHORT
    assert "the draft model reads no further" in whys(trace)[0]


def test_it_drafts_no_deeper_than_there_is_room(target, model, monkeypatch):
    """A level is a pass; and what can still count gets the whole budget."""
    passes, score = [], model.score
    monkeypatch.setattr(model, "score", lambda *given: passes.append(len(given)) or score(*given))
    settings = TreeSettings(3, 4, 6)
    drafter = DraftModelDrafter(model, target, settings)
    features = torch.zeros(len(PROMPT), target.hidden_size)
    tree = drafter.draft(Context([*PROMPT, 7], features, 2, None))
    assert max(tree.depths()) == 2 and len(tree) == 6 and len(passes) == 1  # the prompt's is no score
    assert_naive(model, target, [*PROMPT, 7], tree, replace(settings, depth=2))


def test_its_attention_is_written_out_where_its_targets_is(target, eager_target):
    for one, expected in ((target, "sdpa"), (eager_target, "eager")):
        model = METHOD.load(one)(TreeSettings(3, 3, 6)).model
        assert model.model.config._attn_implementation == expected


@pytest.mark.parametrize("model", WAYS, indirect=True)
def test_bare_passes_leave_no_trace(target, model):
    settings = TreeSettings(3, 3, 12)
    trees, text = [], [*PROMPT, 9, 12, 41]
    for bare in (False, True):
        drafter = DraftModelDrafter(model, target, settings)
        first = Context(text[:-2], torch.zeros(len(text) - 3, 32), 9)
        drafter.draft(first)
        if bare:
            assert drafter.bare(first) == drafter.bare(first) == 3
        trees.append(drafter.draft(Context(text, torch.zeros(2, 32), 9)))
    assert (trees[0].tokens, trees[0].parents) == (trees[1].tokens, trees[1].parents)
    assert trees[0].scores == pytest.approx(trees[1].scores, abs=1e-4)
    assert drafter.bare(Context(text, torch.zeros(1, 32), 0)) == 0


def test_a_pass_reads_the_model_but_for_its_embedding(target, model):
    weights = sum(one.nbytes for one in model.model.parameters()) - model.model.get_input_embeddings().weight.nbytes
    assert DraftModelDrafter(model, target, TreeSettings()).pass_bytes == weights
    experts = small("mixtral", num_local_experts=4)
    assert DraftModelDrafter(experts, target, TreeSettings()).pass_bytes == 0


def with_model(target: Target, folder) -> Target:
    return Target.wrap(target.model, target.tokenizer, {"draft_model": folder}, name="tiny")


def saved(folder, tokenizer=None, **changes):
    tiny_model(num_hidden_layers=1, **changes).save_pretrained(folder)
    if tokenizer:
        tokenizer.save_pretrained(folder)
    return folder


def test_a_model_of_another_vocabulary_is_refused(target, eager_target, tmp_path):
    other = tiny_tokenizer()
    vocab = json.loads(other.backend_tokenizer.to_str())
    vocab["model"]["vocab"] = {token: (id + 1) % 256 if id < 256 else id for token, id in other.get_vocab().items()}
    folder = saved(tmp_path / "other", other)
    (folder / "tokenizer.json").write_text(json.dumps(vocab))
    with pytest.raises(ValueError, match=r"other has other ids than tiny for 256 tokens \('!', '\"', '#'\): a draft"):
        METHOD.load(with_model(target, folder))
    (own := saved(tmp_path / "own", target.tokenizer)).joinpath("model.safetensors").write_bytes(b"not read")
    with pytest.raises(ValueError, match="other has other ids than own for 256 tokens"):
        check_fit(own, {"draft_model": folder})
    check_fit(own, {"draft_model": saved(tmp_path / "same", target.tokenizer)})
    with pytest.raises(FileNotFoundError, match="no tokenizer in "):
        METHOD.load(with_model(target, saved(tmp_path / "bare")))
    with pytest.raises(ValueError, match="wide has 310 tokens, the target 300: a draft model needs its target's"):
        METHOD.load(with_model(eager_target, saved(tmp_path / "wide", vocab_size=310)))


def test_a_few_tokens_of_another_name_are_none_the_worse(target, tmp_path):
    other = tiny_tokenizer()
    other.add_special_tokens({"additional_special_tokens": ["<user>", "<bot>", "<more>"]})
    own = with_model(target, saved(tmp_path / "other", other, vocab_size=VOCAB + 20))
    own.ends = frozenset()
    settings = METHOD.defaults(own)
    sampling = Sampling(1.0, seed=2)
    trace = record(own, METHOD.load(own)(settings), PROMPT, 30, sampling, METHOD.name, settings)
    assert trace.tokens == record(own, METHODS["vanilla"].load(own)(None), PROMPT, 30, sampling).tokens


def test_its_chat_template_does_not_matter(target, tmp_path):
    other = tiny_tokenizer()
    other.chat_template = "{{ raise_exception('no user here') }}"
    METHOD.load(with_model(target, saved(tmp_path / "other", other)))


@pytest.mark.parametrize("asked", [1, 0.7])
def test_it_may_ask_for_a_draft_temperature(target, tmp_path, asked):
    folder = saved(tmp_path / "other", tiny_tokenizer())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"draft_temperature": asked}))
    found = METHOD.defaults(with_model(target, folder)).draft_temperature
    assert found == asked and type(found) is float


def test_its_passes_are_recorded_where_the_targets_are(target, heads, monkeypatch):
    folder = {"draft_model": heads["draft_model"]}
    plain = Target.wrap(target.model, target.tokenizer, folder, graphs=False)
    assert not METHOD.load(plain)(METHOD.defaults(plain)).model.tapes
    assert METHOD.load(target)(METHOD.defaults(target)).model.tapes


@pytest.mark.parametrize("more", [4, -4])
def test_a_coupled_draft_model_may_have_more_or_fewer_words_than_its_target(target, more):
    model, settings = small(vocab_size=VOCAB + more), TreeSettings(4, 3, 30, coupled=True)
    text = [*PROMPT, 8]
    noise = noise_of(WARM, torch.zeros(VOCAB))
    tree = DraftModelDrafter(model, target, settings).draft(Context(text, torch.zeros(len(text) - 1, 32), 9, noise))
    assert_naive(model, target, text, tree, settings)


def test_a_target_without_a_draft_model_says_what_to_give(target):
    bare = Target.wrap(tiny_model())
    for ask in (METHODS["draft_model"].load, METHODS["draft_model"].defaults):
        with pytest.raises(ValueError, match="draft_model=DIR"):
            ask(bare)
