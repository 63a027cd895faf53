"""What a benchmark under way has measured, on disk: an interrupted one goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jakiro.files import append_lines, differing, hold, release, write_text
from jakiro.measuring.report import Sample

SETTINGS = "settings"  # key of the line that is no group


class Journal:
    """Groups of samples by key, and the settings that were chosen when the benchmark was begun (None: not yet).

    With a path, each is a line of that file as soon as it is known, after a first line with the plan.
    """

    def __init__(self, path: Path | None = None, plan: dict[str, Any] | None = None) -> None:
        """Read what is there. `plan` says what is being measured, so that two benchmarks are not mixed up.

        Raises ValueError for a file of another plan or a damaged one. One in which nothing was measured is begun anew.
        """
        self.path, self.plan = path, plan or {}
        self.settings: dict[str, dict[str, Any]] | None = None  # method -> its settings, none of them auto
        self._groups: dict[str, list[Sample]] = {}
        if path is None:
            return
        if path.exists():
            hold(path)
        try:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
            whole = [line for line in lines if line.endswith("\n")]  # the last one may have been cut off
            known = dict(map(json.loads, whole[1:]))
            planned = json.loads(whole[0]) if whole else plan
            settings = known.pop(SETTINGS, None)
        except (ValueError, TypeError) as error:
            raise _damaged(path, error) from error
        if planned != plan:
            if not isinstance(planned, dict) or not planned.keys() & self.plan.keys():
                raise _damaged(path, "its first line is no plan of a benchmark")
            if known:
                raise ValueError(
                    f"{path} holds the beginning of another benchmark; delete it or choose another --out "
                    f"({differing(planned, self.plan)})"
                )
            whole, settings = [], None
        self.settings = settings
        try:
            self._groups = {key: [Sample(**one) for one in group] for key, group in known.items()}
        except (TypeError, AttributeError) as error:
            raise _damaged(path, error) from error
        write_text(path, "".join(whole) or json.dumps(plan) + "\n")
        hold(path)  # another file by now

    def __contains__(self, key: str) -> bool:
        return key in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def settle(self, settings: dict[str, dict[str, Any]]) -> None:
        """Note what was chosen, so that a resumed benchmark does not choose anew."""
        self.settings = settings
        self._write(SETTINGS, settings)

    def add(self, key: str, samples: list[Sample]) -> None:
        self._groups[key] = samples
        self._write(key, [asdict(sample) for sample in samples])

    def samples(self) -> list[Sample]:
        return [sample for group in self._groups.values() for sample in group]

    def close(self) -> None:
        """The benchmark is written: the file has done its work."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            release(self.path)

    def _write(self, key: str, value: Any) -> None:
        if self.path is not None:
            append_lines(self.path, [[key, value]])


def _damaged(path: Path, error: Exception | str) -> ValueError:
    return ValueError(f"{path} is damaged ({error}): delete it to begin the benchmark anew")
