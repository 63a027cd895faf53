"""Measurements in a folder, prepared for the page's benchmark view.

{"reports": [{"name", "title", "facts": [[label, text]], "figures": [Figure with "title"], "table": {"head", "rows"}}],
 "themes", "config"}: figures as in replay.py; the table holds text only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jakiro.report import means, method_totals, temperatures
from jakiro.ui.figures import benchmark
from jakiro.ui.figures.theme import CONFIG, THEMES

SCHEMA = "jakiro-bench/1"
HEAD = ["method", "temperature", "speed-up", "tokens/s", "tau", "ms a round", "peak MiB", "identical"]


def payload(folder: Path) -> str:
    """Every benchmark report of the folder as one JSON text. Files of other schemas are not for this view."""
    found = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in _files(folder)]
    reports = [_report(path.stem, data) for path, data in found if data.get("schema") == SCHEMA]
    return json.dumps({"reports": reports, "themes": THEMES, "config": CONFIG}, ensure_ascii=False, allow_nan=False)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"), key=lambda path: path.stem)


def _report(name: str, data: dict[str, Any]) -> dict[str, Any]:
    machine, versions = data["machine"], data["versions"]
    facts = [
        ["target", data["target"]],
        ["device", f"{machine['device']}, {machine['threads']} threads, {data['dtype']}"],
        ["prompts", f"{data['rows'][0]['prompts']} of each task, at most {data['max_new_tokens']} new tokens"],
        ["versions", ", ".join(f"{package} {version}" for package, version in versions.items())],
        ["trees", "; ".join(f"{method}: {_settings(own)}" for method, own in data["settings"].items() if own)],
        ["command", data.get("command", "")],
    ]
    table = {"head": HEAD, "rows": _rows(data)}
    return {"name": name, "title": name, "facts": facts, "figures": benchmark.figures(data), "table": table}


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _rows(data: dict[str, Any]) -> list[list[str]]:
    totals = {(line["temperature"], line["method"]): line for line in method_totals(data)}
    found = []
    for heat in temperatures(data):
        for method, mean in means(data, heat).items():
            line = totals.get((heat, method), {})
            peak, round_s = line.get("peak_bytes"), line.get("round_s")
            cells = [
                _number(mean.get("speedup"), 2, "×"),
                _number(mean.get("tokens_per_s"), 1),
                _number(mean.get("tau"), 2),
                _number(round_s and 1000 * round_s, 2),
                _number(peak and peak / 2**20, 0),
                _number(mean.get("identical"), 2),
            ]
            found.append([method, f"{heat:g}", *cells])
    return found


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return "" if value is None else f"{value:.{digits}f}{unit}"
