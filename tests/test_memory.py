"""What a race decodes with goes when it is over, however it ends: caches, drafters, and what was garbage before."""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import count

import pytest

from jakiro import machine
from jakiro.engine import record
from jakiro.heed import heedless
from jakiro.machine import settle
from jakiro.methods import METHODS
from jakiro.target import Target
from jakiro.trace import from_json, to_json
from jakiro.ui import models as models_module
from jakiro.ui import race as race_module
from jakiro.ui.comparing import compare
from jakiro.ui.library import Library
from jakiro.ui.live import branches, live_races
from jakiro.ui.models import Loaded, Models, load
from jakiro.ui.race import Race, check
from jakiro.ui.stream import Pace, events, flushed
from jakiro.verify import Sampling

ASKED = {"prompt": "the an the", "methods": list(METHODS), "max_new_tokens": 120, "temperature": 0, "top_p": 1,
         "seed": 0}  # fmt: skip


@pytest.fixture(scope="module")
def models(target) -> Loaded:
    return load(target)


@pytest.fixture
def ready(models):
    return type("Ready", (), {"get": staticmethod(lambda: models)})


@pytest.fixture
def caches(monkeypatch):
    """Weak references to the caches that are made from now on. Garbage is collected only where ours asks."""
    for thread in threading.enumerate():  # of the page of a module before, which makes caches, too
        if thread.name in ("models", "race"):
            thread.join(60)
    found, new_cache = [], Target.new_cache

    def made(self, rows, *reads):
        cache = new_cache(self, rows, *reads)
        found.append(weakref.ref(cache))
        return cache

    monkeypatch.setattr(Target, "new_cache", made)
    gc.disable()
    yield found
    gc.enable()


def alive(caches) -> int:
    return sum(cache() is not None for cache in caches)


def test_a_race_that_is_closed_has_its_traces_and_no_caches(models, caches, monkeypatch):
    monkeypatch.setattr(race_module, "TURN", 0.0)  # else not all lanes would have begun
    race = Race(models, check(models, **ASKED))
    rounds = race.rounds()
    for _ in range(12):
        next(rounds)
    rounds.close()
    before = [to_json(trace) for trace in race.traces()]
    assert alive(caches) == len(race.lanes) + 1  # the draft model has one of its own
    race.close()
    assert alive(caches) == 0
    assert [from_json(to_json(trace)).steps for trace in race.traces()] == [from_json(one).steps for one in before]
    assert list(race.rounds()) == []


def test_a_race_that_is_stopped_leaves_no_caches(ready, tmp_path, caches, monkeypatch):
    rounds = Race.rounds

    def held(race):
        for at, event in enumerate(rounds(race)):
            yield event
            if at == 3:  # no lane is through before the race is stopped
                race.left.wait(60)

    monkeypatch.setattr(Race, "rounds", held)
    library = Library(tmp_path)
    live = live_races(ready, library, None)("live-1", *ASKED.values())
    while '"tokens"' not in next(live):
        pass
    live.close()
    assert {trace.stop for trace in library.traces("live-1")} == {"stopped"}  # waits until the race has let go
    assert caches and alive(caches) == 0


def test_a_race_that_fails_leaves_no_caches_though_its_error_is_kept(models, caches, monkeypatch):
    score, calls = Target.score, count()

    def fail(*given, **named):
        if next(calls) == 8:
            raise MemoryError("no room")
        return score(*given, **named)

    monkeypatch.setattr(Target, "score", fail)
    race = Race(models, check(models, **ASKED))
    source = events(race, "live-1")
    lines = flushed(source, race.left, Pace(0.0, 0.0))
    with pytest.raises(MemoryError, match="no room") as kept:
        list(lines)
    race.close()
    assert caches and alive(caches) == 0 and kept.value


def test_a_question_leaves_no_caches(models, ready, tmp_path, caches):
    library, settings = Library(tmp_path), METHODS["jakiro"].settings(top_k=4, depth=3, total_tokens=12)
    drafter = models.makers["jakiro"](settings)
    run = record(models.target, drafter, [5, 17, 3], 20, Sampling(), "jakiro", settings)
    race = library.add([run, run])
    branches(ready, library, None)({"race": race, "lane": 0, "round": 1, "rounds": 2}, heedless)
    compare(models, library, {"race": race, "lane": 0, "other": 1})
    assert len(caches) >= 5 and alive(caches) == 0


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_what_has_become_garbage_since_is_collected_when_much_has_come(monkeypatch):
    monkeypatch.setattr(machine, "_settled", 0)
    settle()
    cycle = Cycle()
    seen = weakref.ref(cycle)
    settle()
    del cycle
    settle()
    assert seen() is not None  # a pass over everything takes a third of a second
    much = [[] for _ in range(gc.get_freeze_count() // 5)]
    settle()
    assert seen() is None and much


def test_no_garbage_is_collected_while_the_models_are_in_use(models, ready, tmp_path, monkeypatch):
    settled, library, page = [], Library(tmp_path), Models(lambda: models.target)
    monkeypatch.setattr(models_module, "settle", lambda: settled.append(models.busy.locked()))
    asked = ASKED | {"methods": ["vanilla"], "max_new_tokens": 4}
    page.settle()  # they are not there yet
    page._loaded = models
    with models.busy:  # rounds are decoded again, say
        page.settle()
    assert not settled
    page.settle()
    list(live_races(ready, library, None)("live-1", *asked.values()))
    library.traces("live-1")
    branches(ready, library, None)({"race": "live-1", "lane": 0, "round": 0, "rounds": 1}, heedless)
    assert settled == [True] * 3 and not models.busy.locked()
