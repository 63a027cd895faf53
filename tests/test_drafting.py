"""Draft parity. Losslessness tests cannot see a wrong feature, mask or position in a draft: only tau would fall."""

from __future__ import annotations

import naive
import pytest
import torch
from tiny import tiny_model

from jakiro.drafter import Context, Drafter
from jakiro.drafting.fused import FusedEagle, FusedJakiro
from jakiro.drafting.sizes import TreeSettings
from jakiro.engine import StepTrace, decode, record
from jakiro.methods.eagle2 import Eagle2Drafter
from jakiro.methods.jakiro import JakiroDrafter, JakiroSettings
from jakiro.methods.vanilla import VanillaDrafter
from jakiro.target import Target
from jakiro.tree import DraftTree
from jakiro.verify import Sampling

PROMPT = [5, 17, 3, 250, 99]
MODES = {
    "eagle2": TreeSettings(4, 4, 30),
    "mixture": JakiroSettings(4, 4, 30, "mixture", contrastive=False),
    "mixture, contrastive": JakiroSettings(4, 4, 60, "mixture", contrastive=True),
    "mixture, mixed up": JakiroSettings(4, 4, 60, "mixture", contrastive=True, aligned=False),
    "decoupled": JakiroSettings(4, 4, 30, "decoupled", contrastive=False),
    "decoupled, contrastive": JakiroSettings(4, 4, 60, "decoupled", contrastive=True),
    "decoupled, mixed up": JakiroSettings(4, 4, 60, "decoupled", contrastive=True, aligned=False),
    "expert 0 alone": JakiroSettings(4, 4, 30, contrastive=False, expert="0"),
    "expert 1 alone": JakiroSettings(4, 4, 30, contrastive=False, expert="1"),
    "two levels": JakiroSettings(4, 2, 60, "mixture", contrastive=True),
    "one level": JakiroSettings(4, 1, 60, "decoupled", contrastive=False),
    "a chain": TreeSettings(1, 5, 60),
    "eagle2, sure of itself": TreeSettings(4, 4, 30, draft_temperature=0.5),
    "mixture, sure of itself": JakiroSettings(4, 4, 60, "mixture", draft_temperature=0.5),
    "decoupled, unsure": JakiroSettings(4, 4, 30, "decoupled", contrastive=False, draft_temperature=3.0),
    "eagle2, coupled": TreeSettings(4, 4, 30, coupled=True),
    "mixture, coupled": JakiroSettings(4, 4, 60, "mixture", coupled=True, draft_temperature=0.7),
    "decoupled, coupled": JakiroSettings(4, 4, 60, "decoupled", contrastive=False, coupled=True),
    "two levels, coupled": JakiroSettings(4, 2, 60, "decoupled", coupled=True),
}
WARM = Sampling(0.8, 1.0, seed=3)


def sampling_of(settings) -> Sampling:
    return WARM if settings.coupled else Sampling()


class Helped(Drafter):
    """The drafter under test; its trees get the target's own next tokens as extra nodes, so that rounds accept some."""

    def __init__(self, drafter, truth: list[int]) -> None:
        self.drafter, self.truth, self.seen = drafter, truth, []

    def draft(self, context: Context) -> DraftTree:
        tree = self.drafter.draft(context)
        self.seen.append((list(context.tokens), tree))
        done = len(context.tokens)
        tokens, parents, at = list(tree.tokens), list(tree.parents), 0
        for token in self.truth[done : done + len(self.seen) % 3]:
            tokens, parents, at = [*tokens, token], [*parents, at], len(tokens)
        return DraftTree(tokens, parents, [0.0] * len(tokens))


def drafter_for(target, mode: str, shape: str = "plain"):
    settings = MODES[mode]
    if type(settings) is TreeSettings:
        head = naive.head_for("eagle2", shape)
        return head, Eagle2Drafter(FusedEagle(head), target, settings)
    head = naive.head_for("jakiro", shape)
    return head, JakiroDrafter(FusedJakiro(head), target, settings)


@pytest.mark.parametrize("expert", ["0", "1"])
def test_one_expert_alone_has_no_contrastive_level(expert: str) -> None:
    with pytest.raises(ValueError, match="contrastive has both experts propose the last level: turn it off"):
        JakiroSettings(expert=expert)
    assert JakiroSettings(expert=expert, contrastive=False).expert == expert


def oracle_for(head, target, tokens: list[int], settings) -> naive.Oracle:
    decoupled = getattr(settings, "candidates", "") == "decoupled"
    more = (settings.draft_temperature, sampling_of(settings), getattr(settings, "expert", "all"))
    return naive.Oracle(head, target, tokens, decoupled, *more)


def rounds(target, drafter, count: int = 24) -> list[tuple[list[int], DraftTree]]:
    sampling = sampling_of(drafter.settings)
    helped = Helped(drafter, PROMPT + record(target, VanillaDrafter(), PROMPT, count, sampling).tokens)
    steps = decode(target, helped, PROMPT, count, sampling, inspect=False)
    accepted = [len(step.accepted) for step in steps if isinstance(step, StepTrace)]
    assert max(accepted[:3]) >= 2, "a later round must have been fed with several features at once"
    return helped.seen


@pytest.mark.parametrize("shape", naive.CONFIGS)
@pytest.mark.parametrize("mode", MODES)
def test_tree_is_the_naive_one(target, mode: str, shape: str) -> None:
    """Rounds 1 and 3 against lists and whole causal runs: tokens, parents and scores."""
    head, drafter = drafter_for(target, mode, shape)
    seen = rounds(target, drafter)
    for tokens, tree in (seen[0], seen[2]):
        expected = naive.draft(oracle_for(head, target, tokens, drafter.settings), tokens[-1], drafter.settings)
        assert (tree.tokens, tree.parents) == (expected.tokens, expected.parents)
        assert tree.scores == pytest.approx(expected.scores, abs=1e-4)


@pytest.mark.parametrize("mode", ["eagle2", "mixture", "mixture, contrastive", "decoupled", "decoupled, contrastive"])
def test_every_score_is_a_causal_run_along_its_path(target, mode: str) -> None:
    head, drafter = drafter_for(target, mode)
    contrastive = getattr(drafter.settings, "contrastive", False)
    seen = rounds(target, drafter)
    for tokens, tree in (seen[0], seen[2]):
        oracle = oracle_for(head, target, tokens, drafter.settings)
        for node in range(len(tree)):
            path = tree.paths()[node][1:]
            parts = [oracle(path[:end]).logprobs[path[end]] for end in range(len(path))]
            if contrastive and len(path) == drafter.settings.depth:
                parts[-1] = oracle(path[:-2]).ahead[path[-1]]
            assert tree.scores[node] == pytest.approx(float(sum(parts)), abs=1e-4)
    assert not contrastive or max(tree.depths()) == drafter.settings.depth, "the contrastive level must be in the tree"


@pytest.mark.parametrize(
    ("one", "other"), [("eagle2", "eagle2, sure of itself"), ("mixture", "mixture, sure of itself")]
)
def test_a_draft_that_is_sure_of_itself_goes_deeper(target, one: str, other: str) -> None:
    flat, sharp = (rounds(target, drafter_for(target, mode)[1])[0][1] for mode in (one, other))
    assert sum(sharp.depths()) / len(sharp) > sum(flat.depths()) / len(flat)


def test_what_a_draft_says_is_a_law_in_fp32(target) -> None:
    _, drafter = drafter_for(Target.wrap(tiny_model().bfloat16()), "decoupled, unsure")
    features = torch.randn(2, 3, 32).bfloat16()
    said = drafter.logprobs(features, 0)
    assert said.dtype == torch.float32
    torch.testing.assert_close(said, (drafter.target.logits(features).float() / 3).softmax(-1).log())


def test_a_head_that_answers_with_no_numbers_says_so(target) -> None:
    """As one that was trained in bfloat16 may in float16."""
    head = naive.head_for("eagle2", "plain")
    with torch.no_grad():
        next(head.parameters()).fill_(torch.nan)
    drafter = Eagle2Drafter(FusedEagle(head), target, TreeSettings(4, 4, 30))
    with pytest.raises(ValueError, match="no number: use another head or draft model"):
        rounds(target, drafter)


def test_mix_up_differs_from_aligned(target) -> None:
    """Else the tests above would not tell one from the other."""
    modes = ("mixture, contrastive", "mixture, mixed up")
    aligned, mixed_up = (rounds(target, drafter_for(target, mode)[1])[0][1] for mode in modes)
    assert aligned != mixed_up


@pytest.mark.parametrize(("depth", "total", "nodes"), [(4, 1, 1), (2, 12, 12), (2, 500, 1 + 12 + 144)])
def test_sizes_are_bounded_by_vocabulary_and_pool(depth: int, total: int, nodes: int) -> None:
    """A width of 20 over a vocabulary of 12; only a root; more nodes asked for than the pool has."""
    target = Target.wrap(tiny_model(vocab_size=12))
    drafter = Eagle2Drafter(FusedEagle(naive.head_for("eagle2", "plain")), target, TreeSettings(20, depth, total))
    tree = drafter.draft(Context([1, 2, 3], torch.randn(2, 32), room=9))
    assert len(tree) == nodes
    assert len(set(zip(tree.parents, tree.tokens, strict=True))) == len(tree), "siblings differ"


def test_no_pass_is_made_without_room(target) -> None:
    drafter = drafter_for(target, "mixture")[1]
    tree = drafter.draft(Context(PROMPT, torch.zeros(4, 32), room=0))
    assert tree == DraftTree([PROMPT[-1]], [-1], [0.0])
    assert drafter.inspect(tree, [1]) == {}
