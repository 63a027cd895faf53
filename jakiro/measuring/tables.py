"""A benchmark in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jakiro.measuring.report import MEAN, PHASES, means, method_totals, number, short_of_one, temperatures


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """So many columns of words, and numbers in the others."""
    head, *rows = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in (head, *rows))
    lines = [head, ["---"] * words + ["--:"] * (len(head) - words), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ranged(row: dict[str, Any], name: str, digits: int) -> str:
    """As "1.93 (1.86 to 2.00)": a number of a row of `bootstrap.intervals`, and its interval. Empty where it has none:
    older reports have none of speeds, and without vanilla there is no `speedup`."""
    if name not in row:
        return ""
    low, high = row[f"{name}_interval"]
    return f"{row[name]:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def allowed(report: dict[str, Any]) -> str:
    """What tau, draft and verify cost allow, and the share of it that was reached; empty without `limits`, which are
    measured without sampling, and of a report that has no temperature 0.

    Allowed: tau times vanilla's round over the bare networks alone. These are of one short prompt (others may get more)
    and of full trees, so nothing is said of methods whose trees vary in size: those without `top_k`, or with copies.
    """
    ideal, parts = report.get("limits", {}).get("methods", {}) if temperatures(report)[0] == 0 else {}, []
    for name, row in means(report).items():
        asked = report["settings"].get(name, {})
        if name in ideal and "top_k" in asked and not asked.get("lookup") and "speedup" in row:
            most = row["tau"] * ideal["vanilla"]["round_s"] / ideal[name]["ideal_round_s"]
            parts.append(f"{name} {most:.2f}×, of which it reached {row['speedup'] / most:.2f}")
    return "Allowed by tau and the bare networks: " + "; ".join(parts) if parts else ""


def chosen(report: dict[str, Any]) -> str:
    """The numbers that `auto` came to, and that they were found on what was then measured; empty where none was."""
    parts = []
    for method, names in report.get("auto", {}).get("settings", {}).items():
        parts.append(f"{method}: " + ", ".join(f"{name} {report['settings'][method][name]}" for name in names))
    return f"Chosen by auto on some of these prompts: {'; '.join(parts)}" if parts else ""


def as_markdown(report: dict[str, Any]) -> str:
    """For each temperature: speed-up and tau, one line a task, one column a method, and their means."""
    found = temperatures(report)
    if len(found) == 1:
        return _speeds(report, found[0])
    return "\n\n".join(f"Temperature {one:g}\n\n{_speeds(report, one)}" for one in found)


def _speeds(report: dict[str, Any], temperature: float) -> str:
    mine = [row for row in report["rows"] if row["temperature"] == temperature]
    names = list(dict.fromkeys(row["method"] for row in mine))
    cells = {(row["task"], row["method"]): row for row in mine}
    cells |= {(MEAN, name): values for name, values in means(report, temperature).items()}
    tasks = dict.fromkeys(task for task, _ in cells)
    return table(["task", *names], [[task, *(_cell(cells.get((task, name), {})) for name in names)] for task in tasks])


def _cell(row: dict[str, Any]) -> str:
    speed = "" if row.get("speedup") is None else f"{row['speedup']:.2f}×"
    tau = "" if row.get("tau") is None else f"τ {row['tau']:.2f}"
    return ", ".join(part for part in (speed, tau) if part)


def details(report: dict[str, Any]) -> str:
    """One line a method and temperature: what drafts brought and where the time went, over all prompts together.

    `pays from`: the tau from which on a round is worth its time, which is as many of vanilla's; `speed-up` is over
    vanilla, in the second column with what recording programs took (report.py).
    """
    head = ["method", "temperature", "tau", "pays from", "speed-up", "with recording", "ms a round"]
    head += [f"{phase} %" for phase in PHASES]
    head += [
        "accepted at depth 1, 2, ... (%)",
        "prefill, ms a prompt",
        "recording, ms a prompt",
        "peak MiB",
        "identical",
    ]
    lines = []
    for one in method_totals(report):
        same = None if one["identical"] is None else short_of_one(one["identical"])
        lines.append([
            one["method"],
            f"{one['temperature']:g}",
            *(number(one[name], 2) for name in ("tau", "pays_from", "speedup", "speedup_recorded")),
            number(one["round_s"], 2, 1000),
            *(number(share, 1, 100) for share in one["shares"]),
            " ".join(number(rate, 1, 100) for rate in one["acceptance_rate_per_position"]),
            *(number(one[name], 1, 1000) for name in ("prefill_s", "recording_s")),
            number(one["peak_bytes"], 0, 2**-20),
            number(same, 2),
        ])  # fmt: skip
    return table(head, lines)
