"""A run that is small enough to count by hand."""

from __future__ import annotations

import math

from jakiro.trace import StepTrace, Trace
from jakiro.tree import DraftTree

HALF, QUARTER = math.log(0.5), math.log(0.25)

# Round 0: 10 -> {11 -> {13, 14}, 12}, accepts 11 and 13, bonus 15. Round 1: 15 -> {16, 17}, accepts nothing, bonus 18.
# Round 2: nothing drafted, bonus 19. The text is 10 11 13 15 18 19.
COLUMNS = {
    "source": [None, 0, 1, 1, 2],
    "gate0": [None, 0.75, 0.75, 0.1, 0.1],
    "gate1": [None, 0.25, 0.25, 0.9, 0.9],
    "overlap": [None, 0.5, 0.5, 1.0, 1.0],
    "js": [None, 0.2, 0.2, 0.0, 0.0],
    "head": [None, 0, 0, 1, 1],
}
PICKS = {"pick": [18, 5, 6], "pick_logprob": [HALF, 0.0, 0.0]}
FIRST = StepTrace(
    tree=DraftTree([10, 11, 12, 13, 14], [-1, 0, 0, 1, 1], [0.0, HALF, QUARTER, 2 * HALF, HALF + QUARTER], COLUMNS),
    accepted=[1, 3],
    bonus=15,
    target_logprobs=[0.0, HALF, QUARTER, HALF, HALF],
    draft_s=1.0,
    verify_s=2.0,
    overhead_s=0.5,
)
SECOND = StepTrace(
    tree=DraftTree([15, 16, 17], [-1, 0, 0], [0.0, HALF, QUARTER], PICKS),
    accepted=[],
    bonus=18,
    target_logprobs=[0.0, QUARTER, QUARTER],
    draft_s=1.0,
    verify_s=2.0,
    overhead_s=0.5,
)
THIRD = StepTrace(DraftTree([18], [-1], [0.0]), [], 19, [0.0], 0.0, 2.5, 0.5)


def run(*steps: StepTrace) -> Trace:
    return Trace(
        method="hand", settings={}, target="t", device="cpu", dtype="float32", versions={}, seed=0, temperature=0.0,
        top_p=1.0, prompt=[1], first=10, pieces={11: " a"}, prefill_s=4.0, steps=list(steps),
    )  # fmt: skip


HAND = run(FIRST, SECOND, THIRD)
