"""Tables of a benchmark, from the runs that it measured. No tensors: a bench.json can be read anywhere.

Definitions, for a row (task, method, temperature): `tokens` counts generated tokens, the first one of each prompt
(which prefill gives) included; `tau` is tokens after the first over rounds; `tokens_per_s` is tokens after the first
over the seconds of the rounds, so prefill is not in it; `speedup` is tokens_per_s over vanilla's in the same repeat,
None where the run has no vanilla; `identical` is the share of prompts whose ids equal vanilla's, None for another
library's sampling, which draws other numbers; `by_prompt` has each prompt's tokens after the first (`decoded`), rounds
and, a list for each repeat, seconds of the rounds (`decode_s`), of which `bootstrap` draws intervals. Counts are those
of one repeat; speeds and seconds are medians over the repeats, a `_spread` the least and the greatest. `peak_bytes` is
the greatest memory in use during a run: of the device, on a CPU of the process, all weights included, with peers theirs
too; what recorded graphs keep is not counted. On CUDA every run records its programs anew (programs.py), on a CPU the
first of a shape writes its tape (tape.py). That time is in no other seconds: `recording_s` is it, of the repeat that
had most, None for other libraries; tapes that are written while decoders warm up are in no row. What transformers
compiles on CUDA for its static cache is in none at all (peers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

PHASES = ("draft", "verify", "overhead")
AVERAGED = ("tau", "tokens_per_s", "speedup")
MEAN = "mean"  # what tables and figures call all tasks together


@dataclass(frozen=True, slots=True)
class Sample:
    """One decoder's run on one prompt."""

    task: str
    prompt: str
    method: str
    temperature: float
    repeat: int
    tokens: int  # generated
    decoded: int  # those of them that decode_s is the time of
    prefill_s: float
    decode_s: float
    identical: bool | None = None
    peak_bytes: int | None = None
    reached: list[int] | None = None  # rounds that accepted at least 0, 1, 2, ... tokens; None for other libraries
    phases: list[float] | None = None  # seconds of PHASES; likewise
    recording_s: float | None = None  # in which programs were recorded, in none of the other seconds; likewise


def rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """One row for each task, method and temperature."""
    groups: dict[tuple, list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.temperature, sample.task, sample.method), []).append(sample)
    speeds = {key: _speeds(found) for key, found in groups.items()}
    return [_row(key, found, speeds) for key, found in groups.items()]


def _speeds(samples: list[Sample]) -> list[float | None]:
    """tokens_per_s of each repeat."""
    spent = [(sum(one.decoded for one in repeat), sum(one.decode_s for one in repeat)) for repeat in _repeats(samples)]
    return [decoded / seconds if decoded and seconds else None for decoded, seconds in spent]


def _repeats(samples: list[Sample]) -> list[list[Sample]]:
    count = 1 + max(sample.repeat for sample in samples)
    return [[sample for sample in samples if sample.repeat == repeat] for repeat in range(count)]


def _row(key: tuple, samples: list[Sample], speeds: dict[tuple, list]) -> dict[str, Any]:
    temperature, task, method = key
    own, base = speeds[key], speeds.get((temperature, task, "vanilla"), [])
    known = [speed for speed in own if speed]
    ratios = [a / b for a, b in zip(own, base, strict=False) if a and b]
    repeats = _repeats(samples)
    first, checked = repeats[0], [sample.identical for sample in samples if sample.identical is not None]
    peaks = [sample.peak_bytes for sample in samples if sample.peak_bytes is not None]
    return {
        "task": task,
        "method": method,
        "temperature": temperature,
        "prompts": len(first),
        "repeats": len(repeats),
        "tokens": sum(sample.tokens for sample in first),
        **_acceptance(first),
        "tokens_per_s": _median(known),
        "tokens_per_s_spread": _spread(known),
        "speedup": _median(ratios),
        "speedup_spread": _spread(ratios),
        "prefill_s": _seconds(repeats, lambda one: one.prefill_s),
        **{
            f"{phase}_s": _seconds(repeats, lambda one, at=at: one.phases and one.phases[at])
            for at, phase in enumerate(PHASES)
        },
        "recording_s": _seconds(repeats, lambda one: one.recording_s, max),
        "peak_bytes": max(peaks, default=None),
        "identical": mean(checked) if checked else None,
        "by_prompt": {
            "prompt": [sample.prompt for sample in first],
            "decoded": [sample.decoded for sample in first],
            "rounds": [sample.reached and sample.reached[0] for sample in first],
            "decode_s": [[sample.decode_s for sample in repeat] for repeat in repeats],
        },
    }


def _acceptance(samples: list[Sample]) -> dict[str, Any]:
    if samples[0].reached is None:
        return {"rounds": None, "tau": None, "acceptance_rate_per_position": None}
    depth = max(len(sample.reached) for sample in samples)
    reached = [sum(sample.reached[at] for sample in samples if at < len(sample.reached)) for at in range(depth)]
    rounds = reached[0]
    return {
        "rounds": rounds,
        "tau": sum(sample.decoded for sample in samples) / rounds if rounds else None,
        "acceptance_rate_per_position": [count / rounds for count in reached[1:]] if rounds else [],
    }


def _seconds(repeats: list, of: Callable[[Sample], float | None], one_of: Callable = median) -> float | None:
    """Of all prompts, the median over the repeats or another `one_of` them; None where a sample does not tell."""
    found = [[of(sample) for sample in repeat] for repeat in repeats]
    return None if any(value is None for repeat in found for value in repeat) else one_of(map(sum, found))


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


def _spread(values: list[float]) -> list[float] | None:
    return [min(values), max(values)] if values else None


def temperatures(report: dict[str, Any]) -> list[float]:
    """Those that were measured, in order."""
    return sorted({row["temperature"] for row in report["rows"]})


def prompts_a_task(report: dict[str, Any]) -> str:
    """How many prompts each task has: "10", or "4 to 10" where they differ."""
    counts = {row["prompts"] for row in report["rows"]}
    return f"{min(counts)} to {max(counts)}" if len(counts) > 1 else f"{min(counts)}"


def means(report: dict[str, Any], temperature: float | None = None) -> dict[str, dict[str, float | None]]:
    """Method -> means over the tasks of AVERAGED, and `identical` of all prompts, at a temperature (None: least)."""
    wanted = temperatures(report)[0] if temperature is None else temperature
    found: dict[str, list[dict]] = {}
    for row in report["rows"]:
        if row["temperature"] == wanted:
            found.setdefault(row["method"], []).append(row)
    return {name: _means_of(rows) for name, rows in found.items()}


def _means_of(rows: list[dict[str, Any]]) -> dict[str, float | None]:
    columns = {key: [row[key] for row in rows if row[key] is not None] for key in AVERAGED}
    return {key: mean(values) for key, values in columns.items() if values} | {"identical": identical(rows)}


def identical(rows: Iterable[dict[str, Any]]) -> float | None:
    """The share of all prompts of the rows; None where none tells."""
    known = [(row["identical"], row["prompts"]) for row in rows if row["identical"] is not None]
    return sum(share * count for share, count in known) / sum(count for _, count in known) if known else None


def short_of_one(share: float) -> float:
    """A share to be written with two decimals, which are 1.00 only where it is."""
    return share if share == 1 else min(share, 0.99)


def number(value: float | None, digits: int, scale: float = 1, unit: str = "") -> str:
    """A cell of a table; empty where there is no such number."""
    return "" if value is None else f"{value * scale:.{digits}f}{unit}"


def method_totals(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Each of our methods at each temperature over all prompts together, where a mean of the tasks counts each as much:
    tau, seconds a round and their shares, acceptance, memory, and seconds of a prompt in which it was read and in which
    programs were recorded. Against vanilla, where it was measured: rounds of its own that one takes, which is the tau
    from which on that pays, and the speed-up, without and with recording: of the medians of the repeats' seconds, where
    a row's is the median of their ratios. What recording tapes took is left out: they are shared, so that the method
    that first met a tree's size has written it for all.

    By temperature, methods in the order of the report.
    """
    groups: dict[tuple, list[dict]] = {}
    for row in report["rows"]:
        if row["rounds"]:
            groups.setdefault((row["temperature"], row["method"]), []).append(row)
    totals = {key: _total(*key, found) for key, found in sorted(groups.items(), key=lambda group: group[0][0])}
    if report.get("tapes"):
        totals = {key: one | {"recording_s": None} for key, one in totals.items()}
    return [one | _against(one, totals.get((one["temperature"], "vanilla"))) for one in totals.values()]


def _against(one: dict[str, Any], vanilla: dict[str, Any] | None) -> dict[str, float | None]:
    """Of totals, what one has over vanilla's."""
    if vanilla is None:
        return {"pays_from": None, "speedup": None, "speedup_recorded": None}
    known = None not in (one["recording_s"], vanilla["recording_s"])
    rates = [total["tokens"] / (total["prompt_s"] + total["recording_s"]) for total in (one, vanilla) if known]
    return {
        "pays_from": one["round_s"] / vanilla["round_s"],
        "speedup": one["tau"] * vanilla["round_s"] / (vanilla["tau"] * one["round_s"]),
        "speedup_recorded": rates[0] / rates[1] if known else None,
    }


def _total(temperature: float, method: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    rounds, prompts = (sum(row[name] for row in found) for name in ("rounds", "prompts"))
    tokens = sum(row["tokens"] for row in found) - prompts  # the first one of each is no round's
    spent = [sum(row[f"{phase}_s"] for row in found) for phase in PHASES]
    depth = max(len(row["acceptance_rate_per_position"]) for row in found)
    rates = [[*row["acceptance_rate_per_position"], *[0.0] * depth][:depth] for row in found]
    weighted = [sum(rate[at] * row["rounds"] for rate, row in zip(rates, found, strict=True)) for at in range(depth)]
    peaks = [row["peak_bytes"] for row in found if row.get("peak_bytes") is not None]
    recordings = [row["recording_s"] for row in found if row.get("recording_s") is not None]
    return {
        "method": method,
        "temperature": temperature,
        "tau": tokens / rounds,
        "tokens": tokens / prompts,
        "prompt_s": sum(spent) / prompts,
        "round_s": sum(spent) / rounds,
        "shares": [seconds / sum(spent) for seconds in spent],
        "acceptance_rate_per_position": [value / rounds for value in weighted],
        "prefill_s": sum(row["prefill_s"] for row in found) / prompts,
        "recording_s": sum(recordings) / prompts if recordings else None,
        "peak_bytes": max(peaks, default=None),
        "identical": identical(found),
    }
