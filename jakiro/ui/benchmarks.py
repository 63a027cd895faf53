"""Measurements in a folder, prepared for the page's benchmark view.

Reports of methods (`python -m jakiro bench`), of tree sizes (`tune`), of published shapes and of long texts alike:

{"reports": [{"name", "title", "facts": [[label, text]], "figures": [Figure with "title"], "table": {"head", "rows"},
              "summary": [sentence]}],
 "themes", "config"}: figures as in replay.py; the table holds text only. Experiments alone have sentences.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jakiro.measuring.findings import summary
from jakiro.measuring.report import means, method_totals, number, prompts_a_task, short_of_one, temperatures
from jakiro.ui.about import method_titles
from jakiro.ui.figures import benchmark, experiment
from jakiro.ui.figures.costs import long_text_figure, shapes_figure
from jakiro.ui.figures.labels import of_method
from jakiro.ui.figures.theme import CONFIG, THEMES
from jakiro.ui.figures.tuning import tuning_figure

NAMES = method_titles() | {  # transformers' own decoders beside the methods
    "hf_generate_dynamic": "HF generate, dynamic",
    "hf_generate_static": "HF generate, static",
    "hf_prompt_lookup": "HF prompt lookup",
    "hf_assisted": "HF assisted",
}
HEAD = ["method", "temperature", "speed-up", "tokens/s", "tau", "ms a round", "recording, ms a prompt", "peak MiB"]
HEAD += ["identical outputs"]
COSTS = ["method", "tokens of context", "ms a round", "draft, ms", "verify, ms"]
TREES = ["total_tokens", "top_k", "depth", "expected tau", "ms a round", "expected tokens/s"]
MEANS = (
    "means over the tasks, each task's own speed-up among them; ms a round and identical outputs are of all tasks; "
    "what recording CUDA graphs or tapes takes is in no speed, and of tapes, which all methods share, not shown"
)
POINTS = 10  # of a tuning, the quickest
LOG = logging.getLogger(__name__)


def payload(folder: Path, tunings: Sequence[dict[str, Any]] = ()) -> str:
    """Tunings of this machine, then every benchmark report of the folder, as one JSON text.

    Files of other schemas are not for this view.
    """
    reports = []
    for at, data in enumerate(tunings, 1):
        title = f"auto on this machine: {_method(data)}, {_heat(data)}"
        reports.append(_tuning(data) | {"name": f"here-{at}", "title": title})
    for path in sorted(folder.glob("*.json"), key=lambda path: path.stem):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # of JSON or of UTF-8
            LOG.warning("%s cannot be read, and is not among the benchmarks", path)
            continue
        if isinstance(data, dict) and str(data.get("schema")) in _KINDS:
            report = _KINDS[data["schema"]](data)
            reports.append(report | {"name": path.stem, "title": f"{path.stem}: {report['title']}"})
    return json.dumps({"reports": reports, "themes": THEMES, "config": CONFIG}, ensure_ascii=False, allow_nan=False)


def _bench(data: dict[str, Any]) -> dict[str, Any]:
    repeats = data["rows"][0].get("repeats", 1)
    facts = [
        *_common(data),
        ["prompts", f"{prompts_a_task(data)} of each task, at most {data['max_new_tokens']} new tokens"],
        ["repeats", f"{repeats}; speeds are medians over them, bars their spread" if repeats > 1 else "1"],
        ["trees", _trees(data["settings"])],
    ]
    if auto := data.get("auto"):
        measured = "; ".join(f"{method}: {', '.join(names)}" for method, names in auto["settings"].items())
        facts.append(["auto", f"{measured}; measured on some of these prompts, {_heat(auto)}"])
    rows = _rows(data)
    filled = [at for at in range(len(HEAD)) if any(row[at] for row in rows)]
    table = {"head": [HEAD[at] for at in filled], "rows": [[row[at] for at in filled] for row in rows]}
    figures = experiment.figures(data) if "experiment" in data else benchmark.figures(data, NAMES)
    facts.append(["table", MEANS])
    if about := data.get("experiment"):
        facts.append(["heads", f"{about['steps']} steps of {about['tokens_a_step']:,} tokens each, on the same rows"])
    heats = " and ".join(f"{heat:g}" for heat in temperatures(data))
    sizes = sorted({one["total_tokens"] for one in data["settings"].values() if "total_tokens" in one})
    nodes = f"{' to '.join(map(str, sizes[:1] + sizes[1:][-1:]))} nodes, " if sizes else ""
    methods = f"methods on {data['target']}, {nodes}temperature {heats}, {_device(data)}"
    title = about["question"] if about else methods
    said = summary(data) if about else []
    return {"title": title, "facts": facts, "figures": figures, "table": table, "summary": said}


def _tuning(data: dict[str, Any]) -> dict[str, Any]:
    chosen = data["chosen"]
    best = [point for point in data["points"] if point["texts"] == chosen["texts"]][:POINTS]
    rows = [[f"{one['total_tokens']}", f"{one['top_k']}", f"{one['depth']}", *_expected(one)] for one in best]
    replayed = f"from {chosen['rounds']} rounds replayed on {chosen['texts']} answers of the target, {_heat(data)}"
    facts = [
        *_common(data),
        ["method", f"{data['method']}: {_settings(data['settings'])}"],
        ["expected", replayed],
    ]
    figure = {"title": f"Which tree pays: {_method(data)}", **tuning_figure(data)}
    table = {"head": TREES, "rows": rows}
    title = f"which tree pays for {_method(data)} on {data['target']}, {_device(data)}"
    return {"title": title, "facts": facts, "figures": [figure], "table": table, "summary": []}


def _method(data: dict[str, Any]) -> str:
    return of_method(data["method"], NAMES)


def _device(data: dict[str, Any]) -> str:
    return data["machine"]["device"]


def _heat(tuning: dict[str, Any]) -> str:
    """How the answers were sampled. Tunings of before it was written were greedy."""
    heat, mass = tuning.get("temperature", 0), tuning.get("top_p", 1)
    return f"sampled at temperature {heat:g}" + (f" and top_p {mass:g}" if mass < 1 else "") if heat else "greedy"


def _shapes(data: dict[str, Any]) -> dict[str, Any]:
    published = data["published"]
    said = [["published", published["source"]]] if published else []
    facts = [*_common(data | {"target": f"random weights of the shape {data['shape']}"}), *said]
    figure = {"title": "A round over a step of vanilla, by context", **shapes_figure(data, NAMES)}
    rows = [[*_costs(row), number(row["round_over_step"], 2), number(row["published_round_over_step"], 2)]
            for row in data["rows"]]  # fmt: skip
    table = {"head": [*COSTS, "over a step", "published"], "rows": rows}
    title = f"rounds at the shape of {data['shape']}, {_device(data)}"
    return {"title": title, "facts": facts, "figures": [figure], "table": table, "summary": []}


def _long_text(data: dict[str, Any]) -> dict[str, Any]:
    figure = {"title": "A round as the text grows", **long_text_figure(data, NAMES)}
    growths = ("growth_s", "attention_growth_s")
    rows = [[*_costs(row), *(number(row[one], 2, 1000) for one in growths)] for row in data["rows"]]
    table = {"head": [*COSTS, "growth, ms", "attention's own, ms"], "rows": rows}
    title = f"as the text grows on {data['target']}, {_device(data)}"
    return {"title": title, "facts": _common(data), "figures": [figure], "table": table, "summary": []}


def _costs(row: dict[str, Any]) -> list[str]:
    spent = (number(row[f"{phase}_s"], 2, 1000) for phase in ("round", "draft", "verify"))
    return [NAMES.get(row["method"], row["method"]), f"{row['context']:,}", *spent]


def _expected(point: dict[str, Any]) -> list[str]:
    return [number(point["tau"], 2), number(point["seconds"], 2, 1000), number(point["tokens_per_s"], 1)]


def _common(data: dict[str, Any]) -> list[list[str]]:
    machine, versions = data["machine"], data["versions"]
    on_cpu = machine.get("instructions") and machine.get("device_type", "cpu") == "cpu"  # of which they are
    vectors = f" ({machine['instructions']})" if on_cpu else ""
    noted = [["note", data["note"]]] if "note" in data else []  # put in by hand, beside what was measured
    return [
        *noted,
        ["target", data["target"]],
        ["device", f"{_device(data)}{vectors}, {machine['threads']} threads, {data['dtype']}"],
        ["versions", ", ".join(f"{package} {version}" for package, version in versions.items())],
        ["command", data.get("command", "")],
    ]


def _trees(settings: dict[str, dict[str, Any]]) -> str:
    """Those of each method, and once for all what all have alike."""
    methods = {method: own for method, own in settings.items() if own}
    first, *others = methods.values() if methods else [{}]
    shared = {name: value for name, value in first.items() if others and all(one.get(name) == value for one in others)}
    rest = {method: {name: own[name] for name in own if name not in shared} for method, own in methods.items()}
    told = {"all": shared} | rest
    return "; ".join(f"{method}: {_settings(own)}" for method, own in told.items() if own)


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _rows(data: dict[str, Any]) -> list[list[str]]:
    totals = {(line["temperature"], line["method"]): line for line in method_totals(data)}
    found = []
    for heat in temperatures(data):
        for method, mean in means(data, heat).items():
            line = totals.get((heat, method), {})
            cells = [
                number(mean.get("speedup"), 2, unit="×"),
                number(mean.get("tokens_per_s"), 1),
                number(mean.get("tau"), 2),
                number(line.get("round_s"), 2, 1000),
                number(line.get("recording_s"), 1, 1000),
                number(line.get("peak_bytes"), 0, 2**-20),
                _share(mean.get("identical")),
            ]
            found.append([of_method(method, NAMES), f"{heat:g}", *cells])
    return found


def _share(value: float | None) -> str:
    return "" if value is None else f"{short_of_one(value):.0%}"


_KINDS = {
    "jakiro-bench/1": _bench,
    "jakiro-tuning/1": _tuning,
    "jakiro-shapes/1": _shapes,
    "jakiro-long-text/1": _long_text,
}
