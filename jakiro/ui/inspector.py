"""The node inspector's data: a table of columns a round, and the rows to show with their words and formats.

Columns are shown as people count: ranks (`rank` and what ends in `_rank`) from 1, probabilities as probabilities. A
column that this file does not know is shown all the same, under its own name.
"""

from __future__ import annotations

from jakiro.analysis.endings import alone
from jakiro.graph import STATES, draft_probabilities, probability, states
from jakiro.trace import StepTrace, Trace
from jakiro.ui.figures.digits import rounded, rounded_list

PROPOSED = "With decoupled candidates, tokens that no expert proposes come last."
WEIGHED = "at the parent: the same for all siblings. On the contrastive level in the feature that proposed it."
# Column -> label, format, help. The order is the inspector's. Formats: token rank share log number word, and exp: the
# share that a logarithm is of.
FIELDS: dict[str, tuple[str, str, str]] = {
    "id": ("token", "token", "The candidate token and its id."),
    "state": (
        "state",
        "word",
        "What the walk made of it: accepted; passed over, as the target chose a sibling; among the first rejected; or "
        "never reached.",
    ),
    "depth": ("depth", "number", "Levels below the root."),
    "q": (
        "draft q",
        "share",
        "Probability after its parent under the draft, at its draft_temperature; if coupled, given the noise.",
    ),
    "p": ("target p", "share", "Probability of the token after its path under the target, at temperature 1."),
    "rank": ("draft rank", "rank", f"Place of the token in the draft's distribution after its parent. {PROPOSED}"),
    "score": ("path log-probability", "log", "Sum of log q along the path; the tree keeps the nodes with the best."),
    "source": (
        "in the top-k of",
        "word",
        "Whose own top-k holds the token after the same parent: expert 0's, expert 1's, both, or neither's.",
    ),
    "gate0": ("router, expert 0", "share", f"Weight of expert 0 {WEIGHED}"),
    "gate1": ("router, expert 1", "share", f"Weight of expert 1 {WEIGHED}"),
    "expert0_rank": ("rank under expert 0", "rank", "Place of the token in expert 0's own distribution."),
    "expert1_rank": ("rank under expert 1", "rank", "Place of the token in expert 1's own distribution."),
    "expert0_logprob": ("q of expert 0", "exp", "Probability under expert 0 alone."),
    "expert1_logprob": ("q of expert 1", "exp", "Probability under expert 1 alone."),
    "head": (
        "level",
        "word",
        "Ordinary levels run the draft head; the contrastive one reuses its previous pass: no expert proposes there.",
    ),
    "overlap": ("experts' overlap", "share", "Share of the top-k that two experts both have, at the parent."),
    "js": ("experts' divergence", "number", "Jensen-Shannon divergence of the experts at the parent, in nats."),
    "copied_from": ("copied from", "number", "Position in the context that the token was copied from."),
    "pick": ("target's choice after it", "token", "The token that the target itself chooses after this node."),
    "pick_logprob": ("p of that choice", "exp", "Under the target at temperature 1."),
    "target_entropy": ("target's entropy after it", "number", "How undecided the target is after this node, in nats."),
    "pick_rank": (
        "draft rank of the choice",
        "rank",
        f"Place of the target's choice in the draft after this node. {PROPOSED}",
    ),
    "pick_draft_logprob": ("q of the choice", "exp", "What the draft gave the target's choice after this node."),
    "pick_expert0_rank": ("its rank under expert 0", "rank", "Place of the target's choice in expert 0's own list."),
    "pick_expert1_rank": ("its rank under expert 1", "rank", "Place of the target's choice in expert 1's own list."),
    "pick_score": ("path score of the choice", "log", "The path score that the target's choice would have had."),
    "cutoff": ("cutoff of the tree", "log", "Path score of the last node that the budget let in."),
}
# Of a number that is rounded twice the last digit that is shown may be wrong.
READ = 7  # significant digits of logarithms and of p and q, as in traces
EXACT = 15  # significant digits of any number
DECIMALS = {"number": 3, "share": 4}  # of others, as they are shown
HIDDEN = {"logprob", "parent"}  # said already: it is log q; the page's own


def node_table(step: StepTrace) -> dict[str, list]:
    """One round's nodes, column by column, as the inspector and the hover texts read them; null = does not apply."""
    tree = step.tree
    table: dict[str, list] = {
        "id": tree.tokens,
        "parent": tree.parents,
        "depth": tree.depths(),
        "state": [STATES.index(state) for state in states(step)],
        "q": rounded_list(draft_probabilities(tree), READ),
        "p": rounded_list([None, *map(probability, step.target_logprobs[1:])], READ),
        "score": [None] * len(tree) if tree.copied else rounded_list(tree.scores, READ),
    }
    for name, values in tree.columns.items():
        if name not in HIDDEN and name not in table:
            table[name] = _read(name, values)
    return table


def fields(trace: Trace) -> list[dict[str, str]]:
    """The inspector's rows for a trace: those of the known columns that it has, then the unknown ones."""
    has = {"id", "state", "depth", "p"} | {name for step in trace.steps for name in step.tree.columns}
    if any(not step.tree.copied for step in trace.steps):
        has |= {"q", "score"}
    if alone(trace):
        has -= {"gate0", "gate1"}  # whatever the router says, it is not asked
    known = [(name, *FIELDS[name]) for name in FIELDS if name in has]
    unknown = [(name, name, "number", "A column of this trace.") for name in sorted(has - FIELDS.keys() - HIDDEN)]
    return [dict(zip(("key", "label", "format", "help"), row, strict=True)) for row in known + unknown]


def _read(name: str, values: list) -> list:
    """A column as it is read: ranks from 1, other numbers with the digits that are shown of them."""
    if f"_{name}".endswith("_rank"):
        return [None if rank is None else rank + 1 for rank in values]
    decimals = DECIMALS.get(FIELDS[name][1] if name in FIELDS else "number")
    return rounded_list(values, READ) if decimals is None else [_shown(value, decimals) for value in values]


def _shown(value: float | None, decimals: int) -> float | None:
    """What is less than its last decimal is shown in another way, or not at all."""
    if value is None or isinstance(value, int):
        return value
    return rounded(value) if abs(value) < 10**-decimals else rounded(round(value, decimals), EXACT)
