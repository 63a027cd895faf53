"""Races recorded beforehand: a folder of trace files and an index.json that says what they show.

    {"schema": "jakiro-races/1",
     "races": [{"id": "prime", "title": "What is a prime number?", "prompt": "...",
                "traces": ["prime-vanilla.json", "prime-jakiro.json"],          # files beside the index, lanes in order
                "model": "...", "device": "...", "date": "2026-11-21"}]}        # read off the first trace by `save`

The first race is the one that the page opens with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jakiro import trace
from jakiro.files import write_text
from jakiro.trace import Trace, TraceError
from jakiro.traces import check_together, load_traces
from jakiro.ui.replay import keys

SCHEMA = "jakiro-races/1"
INDEX = "index.json"
_ID = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded race, without its traces."""

    id: str  # also its name in the page's address
    title: str
    prompt: str
    traces: list[str]  # file names
    model: str
    device: str
    date: str  # ISO, day only


def read(folder: str | Path) -> list[Recorded]:
    """The races of a folder, in order; none where it has no index. Raises TraceError for a damaged index."""
    path = Path(folder) / INDEX
    if not path.is_file():
        return []
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("schema") != SCHEMA:
            raise TraceError(f"{path}: schema is {data.get('schema')!r}, this program reads {SCHEMA!r}; record again")
        races = [Recorded(**race) for race in data["races"]]
    except (AttributeError, KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise TraceError(f"{path}: not an index of recorded races ({error}); record them again") from error
    for race in races:
        _check(race, path)
    return races


def load(folder: str | Path, race: Recorded) -> list[Trace]:
    """The traces of a race, whose files are as those that are dropped on the page. Raises OSError or TraceError."""
    traces = [one for name in race.traces for one in load_traces(Path(folder) / name)]
    check_together(traces)
    return traces


def save(folder: str | Path, id: str, title: str, prompt: str, traces: Sequence[Trace]) -> Recorded:
    """Write the traces and put the race into the folder's index, in place of one with the same id."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    first = traces[0]
    names = [f"{id}-{key}.json" for key in keys(traces)]
    race = Recorded(id, title, prompt, names, first.target, first.device, first.recorded[:10])
    _check(race, folder / INDEX)
    for name, one in zip(names, traces, strict=True):
        trace.save(one, folder / name)
    races = {one.id: one for one in read(folder)} | {id: race}
    index = {"schema": SCHEMA, "races": [asdict(one) for one in races.values()]}
    write_text(folder / INDEX, json.dumps(index, indent=1, ensure_ascii=False) + "\n")
    return race


def _check(race: Recorded, path: Path) -> None:
    """File names must not lead out of the folder, and ids must fit into an address."""
    *facts, names = (getattr(race, name) for name in ("id", "title", "prompt", "model", "device", "date", "traces"))
    if not isinstance(names, list) or not all(isinstance(text, str) for text in [*facts, *names]):
        raise TraceError(f"{path}: the fields of a race are texts, its traces a list of them; record it again")
    if not _ID.fullmatch(race.id):
        raise TraceError(f"{path}: the id {race.id!r} may only have lower-case letters, digits and hyphens")
    if not race.traces or any(Path(name).name != name for name in race.traces):
        raise TraceError(f"{path}: {race.id} needs trace files beside the index, got {race.traces}")
