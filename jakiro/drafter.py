"""What the loop and a drafter agree on: a context goes in, a draft tree comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite

from torch import Tensor

from jakiro.noise import Noise
from jakiro.tree import MAX_LEVELS, CutNodes, DraftTree


@dataclass(frozen=True, slots=True)
class Context:
    """What a drafter is shown each round."""

    tokens: list[int]  # prompt and text so far, the engine's own list; the last one is the root of the next tree
    features: Tensor  # [m, hidden], m >= 1, of the tokens before the root that are new since the last call; wider
    # where the drafter `reads` several layers
    room: int  # levels below the root that can still be accepted, >= 0
    noise: Noise | None = None  # that the target will pick with; None: it is greedy, or nobody says
    tree: DraftTree | None = None  # the last one that the target read; None: there is none yet, or nobody says
    logits: Tensor | None = None  # [n, vocab] of the target after its nodes, rejected ones too; until its next pass


class Drafter(ABC):
    """Proposes trees for one run. A subclass need not know more than `draft`."""

    used = False  # set by the engine: a run has it, or had it
    reads: tuple[int, ...] = ()  # layers whose inputs its features are; none: the last hidden state, as it is read out
    memory: dict | None = None  # of one that learns from rejected nodes what it has learnt; a later run may be given it
    pass_bytes = 0  # that a network pass of a draft reads; for `bench --limits`

    @abstractmethod
    def draft(self, context: Context) -> DraftTree:
        """The next tree, whose root is the context's last token. Timed.

        It may be deeper than the room: the engine cuts those levels off, and numbers the nodes that are left anew.
        """

    def inspect(self, tree: DraftTree, picks: list[int]) -> dict[str, list]:
        """More columns [n] for the tree just verified, given the target's pick after every node. Not timed."""
        return {}

    def cut(self, tree: DraftTree) -> CutNodes:
        """What was drafted beside the tree just verified but did not fit into its budget. Not timed.

        Asked of whole trees alone, not of those that levels were cut off from for want of room.
        """
        return CutNodes()

    def bare(self, context: Context) -> int:
        """Run a draft's network passes alone, leave no trace of them, and return their number; for `bench --limits`.

        What a draft costs at least. The text before the context's new features has been drafted on.
        """
        return 0


def within(tree: DraftTree, context: Context) -> DraftTree:
    """The tree without the levels that cannot count any more. A drafter that minds the room gets its own tree back."""
    assert tree.tokens, "a tree has its root at least"
    whole = all(type(one) is int for one in (*tree.tokens, *tree.parents))
    assert whole and all(isinstance(score, (int, float)) for score in tree.scores), (
        "tokens, parents and scores are Python's own numbers: a tensor's or an array's tolist() gives them"
    )
    assert tree.tokens[0] == context.tokens[-1], "the root of a tree is the last token of its context"
    assert len(tree.tokens) == len(tree.parents) == len(tree.scores), "a node has a token, a parent and a score"
    known = all(0 <= parent < node for node, parent in enumerate(tree.parents[1:], 1))
    assert tree.parents[0] == -1 and known, "a root's parent is -1, and other nodes come after theirs"
    assert tree.scores[0] == 0 and all(map(isfinite, tree.scores)), "a root's score is 0, and others are numbers"
    depths = tree.depths()
    assert max(depths) <= MAX_LEVELS, f"a tree has at most {MAX_LEVELS} levels"
    if max(depths) <= context.room:
        return tree
    kept = [node for node, depth in enumerate(depths) if depth <= context.room]
    new = {node: at for at, node in enumerate(kept)} | {-1: -1}
    columns = {name: [column[node] for node in kept] for name, column in tree.columns.items()}
    parents = [new[tree.parents[node]] for node in kept]
    return DraftTree([tree.tokens[node] for node in kept], parents, [tree.scores[node] for node in kept], columns)


def check_columns(columns: dict[str, list], count: int) -> None:
    """What a trace can keep of so many nodes: it could not be saved with anything else."""
    for name, column in columns.items():
        assert len(column) == count, f"a column has one value a node; {name} has {len(column)} for {count}"
        known = [value for value in column if value is not None]
        assert {*map(type, known)} <= {int, float} and all(map(isfinite, known)), (
            f"a column's values are Python's own numbers, finite ones, or None; {name} has others: "
            "a tensor's or an array's tolist() gives numbers, and None is for what is infinite or not known"
        )
