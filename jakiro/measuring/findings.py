"""A page about an experiment, from its report: what was asked, the figures, and what they allow one to say."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from jakiro.measuring.bootstrap import LEVEL, note_of_few
from jakiro.measuring.findings_text import AGAIN, EXPERTS, NAMES
from jakiro.measuring.report import identical, means, method_totals, prompts_a_task, temperatures
from jakiro.measuring.tables import ranged, table

NONE = "–"
BETTER, WORSE, SAME = "better", "worse", "not told apart"
SIZES = ("top_k", "depth", "total_tokens")  # of a tree: a smaller one accepts less, whatever drafts it
NEARLY = 0.01  # by so much heads of a size differ in their parameters: a router's
OF_EXPERTS = ("decoupled", "contrast", "contrast_entropy", "diversity")  # weights of losses.py that are Jakiro's alone
HEAD = [
    "variant",
    "tau",
    "over the reference",
    "draft ms a round",
    "tokens/s",
    "speed-up",
    "accepted at depth 1, 2, ...",
]


def as_page(report: dict[str, Any], pictures: dict[str, str] | None = None) -> str:
    """Markdown, with pictures by title: addresses as seen from the page."""
    about = report["experiment"]
    heats = temperatures(report)
    parts = [
        f"# {about['question']}",
        " ".join([_how(report), *([report["note"]] if "note" in report else [])]),
        "## The answer",
        " ".join(summary(report)),
        *(f"![{title}]({address})" for title, address in (pictures or {}).items()),
        "## Part by part",
        table(
            ["part", "with it", "without it", *(f"tau, temperature {heat:g}" for heat in heats)],
            _parts(about, heats),
        ),
        "## Heads",
        NAMES,
        table(["variant", "head", "parameters", "loss weights", "settings"], _heads(about), 5),
    ]
    for temperature in heats:
        parts += [f"## Temperature {temperature:g}", table(HEAD, _rows(report, temperature))]
    parts += [
        "## The experts",
        EXPERTS,
        table(["variant", "prompts", "overlap", "js", "rescued"], _experts(about)),
        "## Again",
        f"```\n{report['command']}\n```",
        AGAIN,
        "`python scripts/plots.py` draws the pictures.",
    ]
    return "\n\n".join(parts) + "\n"


def _how(report: dict[str, Any]) -> str:
    about, machine = report["experiment"], report["machine"]
    seen = about["steps"] * about["tokens_a_step"] / about["distinct_tokens"]
    rows = (*about["parts"], *about["intervals"])  # of which some drafted alike, as the reference and itself
    compared = len({_pair(row, about["reference"]) for row in rows if len({*row["over_reference_interval"]}) > 1})
    tasks, heated = ", ".join(dict.fromkeys(row["task"] for row in report["rows"])), max(temperatures(report)) > 0
    same = identical(row for row in report["rows"] if row["method"] != "vanilla")
    return " ".join(
        [
            f"Target {report['target']} in {report['dtype']} on {machine['device']}, {machine['threads']} threads.",
            f"All heads: {about['steps']} steps of {about['tokens_a_step']:,} tokens, the same rows in one order;",
            f"of these {about['distinct_tokens']:,} are distinct, so that each was seen {seen:.0f} times.",
            f"Measured on {prompts_a_task(report)} prompts of each of {tasks}, at most {report['max_new_tokens']} new",
            f"tokens, drafted with {_named(_shared(report))}{_tree(report)}.",
            f"Tau is the mean of the tasks; intervals hold {LEVEL} % of a bootstrap over prompts.",
            *filter(None, [note_of_few(about["intervals"])]),
            f"Each comparison stands alone: of those where nothing differs {100 - LEVEL} % at least look different by",
            f"chance, {(1 - LEVEL / 100) * compared:.0f} of all {compared} in which any prompt differs.",
            "What another seed of a head would change is not in the intervals.",
            *(["All prompts are drawn with one seed, which intervals do not know of."] if heated else []),
            f"The reference is *{about['reference']}*.",
            f"The variants gave vanilla's tokens on {100 * same:.4g} % of the runs.",
        ]
    )


def _shared(report: dict[str, Any]) -> dict[str, Any]:
    """The settings that all variants were drafted with: those of the tree, unless they are what was tried."""
    first, *others = (values for method, values in report["settings"].items() if method != "vanilla")
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}


def _tree(report: dict[str, Any]) -> str:
    """What the reference is drafted with of what not all are: the tree of those whose `set` has none."""
    usual, shared = report["settings"][report["experiment"]["reference"]], _shared(report)
    sizes = {name: usual[name] for name in SIZES if name in usual and name not in shared}
    return f", and {_named(sizes)} where a variant's settings do not say otherwise" if sizes else ""


def _pair(row: dict[str, Any], reference: str) -> tuple[frozenset[str], float]:
    return frozenset((row["variant"], row.get("against", reference))), row["temperature"]  # whichever is the first


def summary(report: dict[str, Any]) -> list[str]:
    """Two sentences a temperature: how the variants with trees and heads of the reference's size do against it, and
    which parts bring something."""
    about, lines = report["experiment"], []
    for temperature in temperatures(report):
        rows = _others(report, temperature)
        found = [_verdict(row) for row in rows]
        if rows:
            most = max(rows, key=itemgetter("over_reference"))
            lines.append(
                f"At temperature {temperature:g}, of {len(rows)} variants with trees and heads as large as those of "
                f"“{about['reference']}”, {found.count(BETTER)} draft better, {found.count(WORSE)} worse, and "
                f"{found.count(SAME)} cannot be told apart; the best is “{most['variant']}” with tau {_change(most)}."
            )
        parts = [row for row in about["parts"] if row["temperature"] == temperature]
        if parts:
            told = {verdict: [row for row in parts if _verdict(row) == verdict] for verdict in (BETTER, WORSE, SAME)}
            said = " and ".join(_most(told[verdict], verdict, pick) for verdict, pick in ((BETTER, max), (WORSE, min)))
            unsure = f"{len(told[SAME])} cannot be told apart"
            at = "Of" if rows else f"At temperature {temperature:g}, of"  # as the sentence before said
            lines.append(f"{at} {len(parts)} parts, each tried alone, drafts are {said}; {unsure}.")
    return lines


def _most(rows: list[dict[str, Any]], verdict: str, pick: Callable) -> str:
    """As "better with 2, most of all “a part” (+2.0 % (-0.5 to +4.1))"."""
    if not rows:
        return f"{verdict} with none"
    row = pick(rows, key=itemgetter("over_reference"))
    return f"{verdict} with {len(rows)}, most of all “{row['what']}” ({_change(row)})"


def _others(report: dict[str, Any], temperature: float) -> list[dict[str, Any]]:
    """Intervals of the variants beside the reference whose tree has its size, and whose head as many parameters."""
    about, own = report["experiment"], report["experiment"]["reference"]
    tree = {label: [settings.get(name) for name in SIZES] for label, settings in report["settings"].items()}
    head = {label: one["parameters"] for label, one in about["variants"].items()}
    alike = [one for one in head if one != own and tree[one] == tree[own] and abs(head[one] / head[own] - 1) < NEARLY]
    return [row for row in about["intervals"] if row["variant"] in alike and row["temperature"] == temperature]


def _verdict(row: dict[str, Any]) -> str:
    low, high = row["over_reference_interval"]
    if low == high:
        return SAME  # nothing varied, so nothing is known of how sure one may be
    return BETTER if low > 1 else WORSE if high < 1 else SAME


def _change(row: dict[str, Any]) -> str:
    """As "+2.0 % (-0.5 to +4.1)"."""
    low, high = (100 * (edge - 1) for edge in row["over_reference_interval"])
    return f"{100 * (row['over_reference'] - 1):+.1f} % ({low:+.1f} to {high:+.1f})"


def _parts(about: dict[str, Any], temperatures: list[float]) -> list[list[str]]:
    """A line for each part, with its change of tau and what that means at each temperature."""
    rows = {(row["what"], row["temperature"]): row for row in about["parts"]}
    lines = []
    for what in dict.fromkeys(row["what"] for row in about["parts"]):
        found = [rows[what, temperature] for temperature in temperatures]
        lines.append([what, found[0]["variant"], found[0]["against"]])
        lines[-1] += [f"{_change(row)}: {_verdict(row)}" for row in found]
    return lines


def _heads(about: dict[str, Any]) -> list[list[str]]:
    return [
        [label, one["head"], f"{one['parameters']:,}", _named(_losses(one)), _named(one["set"])]
        for label, one in about["variants"].items()
    ]


def _losses(one: dict[str, Any]) -> dict[str, float]:
    """The loss weights that a head of this kind is trained with: one for EAGLE-3 has a loss of its own."""
    if one["kind"] == "eagle3":
        return {}
    return {name: value for name, value in one["losses"].items() if one["kind"] == "jakiro" or name not in OF_EXPERTS}


def _rows(report: dict[str, Any], temperature: float) -> list[list[str]]:
    totals = {line["method"]: line for line in method_totals(report) if line["temperature"] == temperature}
    speeds = means(report, temperature)
    found = []
    for row in report["experiment"]["intervals"]:
        if row["temperature"] == temperature:
            total, speed = totals[row["variant"]], speeds[row["variant"]]
            found.append(
                [
                    row["variant"],
                    ranged(row, "tau", 2),
                    ranged(row, "over_reference", 3),
                    f"{1000 * total['round_s'] * total['shares'][0]:.2f}",
                    f"{speed['tokens_per_s']:.1f}",
                    ranged(row, "speedup", 2) or f"{speed['speedup']:.2f}×",
                    " ".join(f"{share:.2f}" for share in total["acceptance_rate_per_position"]),
                ]
            )
    return found


def _experts(about: dict[str, Any]) -> list[list[str]]:
    return [
        [
            one["variant"],
            str(one["prompts"]),
            f"{one['overlap']:.2f}",
            f"{one['js']:.3f}",
            NONE if one["rescued_rounds"] is None else f"{one['rescued_rounds']:.3f}",
        ]
        for one in about["experts"]
    ]


def _named(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or NONE
