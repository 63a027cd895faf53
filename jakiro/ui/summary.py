"""A run in words: where it was recorded, its numbers with what they mean, and whether the runs of a race agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jakiro import metrics
from jakiro.analysis.diversity import run_diversity
from jakiro.analysis.routing import run_routing
from jakiro.settings import written
from jakiro.trace import Trace
from jakiro.ui.figures.labels import counted, quote

SHOWN = 500, 300  # characters of a prompt's beginning and end that the page shows
# Key -> label, how the value is written, what it is.
TOTALS: dict[str, tuple[str, Callable[[Any], str], str]] = {
    "mean_acceptance_length": ("tau", "{:.2f}".format, "Mean tokens per verify pass of the target, bonus counted."),
    "paper_tau": (
        "tau as in papers",
        "{:.2f}".format,
        "The same tokens over one round too few, as published tables count.",
    ),
    "tokens_per_second": ("tokens/s", "{:.1f}".format, "Tokens after the first over the seconds of the rounds."),
    "num_tokens": ("tokens", str, "Generated tokens, the first one, before the rounds, included."),
    "num_rounds": ("rounds", str, "Verify passes of the target."),
    "num_draft_tokens": ("drafted tokens", str, "Nodes of all trees, roots not counted."),
    "num_accepted_draft_tokens": (
        "accepted tokens",
        str,
        "Drafted tokens that the target agreed with; one that ends the text counts as its own.",
    ),
    "draft_acceptance_rate": ("acceptance rate", "{:.1%}".format, "Accepted tokens over drafted tokens."),
    "prefill_s": ("prefill", "{:.3f} s".format, "Seconds for the prompt and the first token."),
    "draft_s": ("drafting", "{:.3f} s".format, "Seconds of all rounds spent on drafting."),
    "verify_s": ("verifying", "{:.3f} s".format, "Seconds of all rounds spent in the target."),
    "overhead_s": ("overhead", "{:.3f} s".format, "Seconds of all rounds spent on anything else."),
    "recording_s": (
        "recording",
        "{:.3f} s".format,
        "Seconds spent recording CUDA graphs or tapes: in none of the others, and in no speed.",
    ),
}


def metric_rows(trace: Trace) -> list[dict[str, str]]:
    """The numbers of a run as rows {"label", "text", "help"}; those it does not have are left out."""
    totals = metrics.totals(trace)
    rows = [
        (label, write(totals[key]), help)
        for key, (label, write, help) in TOTALS.items()
        if totals[key] is not None and (totals[key] or not key.endswith("_s"))  # seconds that were not taken are 0
    ]
    rows += _routing_rows(trace) + _diversity_rows(trace)
    return [dict(zip(("label", "text", "help"), row, strict=True)) for row in rows]


def header(trace: Trace) -> list[list[str]]:
    """Where and how the run was recorded, as [label, text] rows."""
    greedy = trace.temperature == 0
    sampling = "greedy" if greedy else f"temperature {trace.temperature:g}, top_p {trace.top_p:g}, seed {trace.seed}"
    threads = f", {counted(trace.threads, 'thread')}" if trace.threads else ""
    rows = [
        ("Target", trace.target),
        ("Drafter", trace.drafter),
        ("Device", f"{trace.device}{threads}, {trace.dtype}"),
        ("Sampling", sampling),
        ("Settings", " · ".join(f"{name} {written(value)}" for name, value in trace.settings.items())),
        ("Recorded", trace.recorded),
        ("Versions", " · ".join(f"{name} {version}" for name, version in trace.versions.items())),
        ("Prompt", counted(len(trace.prompt), "token")),
        ("As it was read", _both_ends("".join(map(trace.piece, trace.prompt)).replace("\n", "⏎"))),
    ]
    return [[name, text] for name, text in rows if text]


def _both_ends(text: str) -> str:
    """A text that may be long, of which a chat template's parts are to be seen."""
    return text if len(text) <= sum(SHOWN) else f"{text[: SHOWN[0]]} … {text[-SHOWN[1] :]}"


def lossless(traces: Sequence[Trace], titles: Sequence[str]) -> dict[str, Any]:
    """The badge: do all runs give the same token ids, and if not, where they part and by what margin.

    Each is held against the first as far as both went, and what goes beyond the first one's end against the longest of
    those that did not part from it.
    "lossless" is said only where there is a vanilla run; where there is nothing to compare, `identical` is None. `tie`:
    they part, each time at a tie that rounding explains.
    """
    if len(traces) < 2:
        text = "one run, nothing to compare" if traces else "no runs"
        return {"identical": None, "tie": False, "text": text}
    against = [_divergence(traces[0], trace, titles[0], title) for trace, title in zip(traces, titles, strict=True)]
    parted = [found for found in against if found is not None]
    like = [pair for pair, found in zip(zip(traces, titles, strict=True), against, strict=True) if found is None]
    further, name = max(like, key=lambda pair: len(pair[0].tokens))
    beyond = [_divergence(further, trace, name, title) for trace, title in like]
    parted += [found for found in beyond if found is not None]
    longest = max(traces, key=lambda trace: len(trace.tokens))
    short = any(trace.stop == "stopped" or _ran_out(trace, longest) for trace in traces)
    held = any(trace.method == "vanilla" for trace in traces)
    word, so_far = "lossless" if held else "identical", " as far as they went" * short
    same = f"{len(traces) - len(parted)}/{len(traces)} outputs"
    text = f"{word}{so_far}: {same}{' identical' * held}"
    tie = bool(parted) and all(tie for _, tie in parted)
    if parted:
        verdict = f"{word} up to rounding in {metrics.coarsest(traces)}" if tie else f"not {word}"
        text = f"{verdict}: {'; '.join(said for said, _ in parted)}; {same} identical{so_far}"
    return {"identical": not parted, "tie": tie, "text": text}


def _ran_out(trace: Trace, other: Trace) -> bool:
    """Whether a run has fewer tokens than another because of its length cap, the context or a stop."""
    return trace.stop != "eos" and len(trace.tokens) < len(other.tokens)


def _divergence(first: Trace, other: Trace, first_title: str, title: str) -> tuple[str, bool] | None:
    """Where they part, in words, and whether at a tie; None where they do not."""
    found = metrics.divergence(other, first)
    if found is None:
        return None
    ours, theirs = (_token(trace, token) for trace, token in ((other, found.ours), (first, found.theirs)))
    margin = "margin not recorded" if found.margin is None else f"the target's margin is {abs(found.margin):.4f} nats"
    if found.margin is not None and other.temperature:
        margin += " with the noise that it samples with"
    tie = ", a numeric tie" * found.tie + ", or a token at the edge of top_p, which no trace tells" * found.edge
    return (
        f"{title} parts from {first_title} at token {found.at + 1}: {ours} against {theirs}, {margin}{tie}",
        found.tie,
    )


def _token(trace: Trace, token: int | None) -> str:
    return "the end" if token is None else quote(trace.piece(token))


def _routing_rows(trace: Trace) -> list[tuple[str, str, str]]:
    run = run_routing(trace)
    if run is None:
        return []
    share = max(run.dominant_share)
    leader = run.dominant_share.index(share)
    return [
        ("router's favourite", f"expert {leader} at {share:.0%}",
         "Share of all parents at which that expert has the larger weight, the contrastive level's apart."),
        ("router's entropy", f"{run.mean_entropy:.2f} nats",
         "Mean over all parents; 0 = one expert alone, 0.69 = an even mixture."),
    ]  # fmt: skip


def _diversity_rows(trace: Trace) -> list[tuple[str, str, str]]:
    run = run_diversity(trace)
    if run is None:
        return []
    rows = [
        ("different tokens in a tree", f"{run.unique:.1f} of {run.drafted:.1f}", "Mean over the rounds that drafted.")
    ]
    if run.rescued_rounds is not None:
        rescued = sum(run.accepted_by_source[:2])
        text = f"{counted(rescued, 'token')} in {counted(run.rescued_rounds, 'round')}"
        rows.append(("rescues", text, "Accepted tokens that only one expert proposes, on ordinary levels."))
    return rows
