"""The page's questions to the model: each gets an answer, whatever happens."""

from __future__ import annotations

import json
import os
import re
import threading
import time

import pytest
import torch

from jakiro.heed import heedless
from jakiro.ui import models as models_module
from jakiro.ui import page
from jakiro.ui.library import Library
from jakiro.ui.models import Left, Loaded, Models, RequestError
from jakiro.ui.questions import answered, lines

NO_MEMORY = (
    "the memory does not suffice: ask for fewer max_new_tokens or a smaller total_tokens, "
    "or start the page with another --dtype or --device"
)


def fail(error):
    raise error


def test_an_answer_is_a_line_that_is_never_the_one_before():
    found = ["".join(lines(lambda asked, heed: {"event": "done"} | asked, {"race": "a"})) for _ in range(2)]
    assert found[0] != found[1]
    assert json.loads(found[0]) | {"time": 0} == {"event": "done", "race": "a", "time": 0}


def test_an_answer_says_which_question_it_is_to():
    for work in (
        lambda asked, heed: {"event": "done"},
        lambda asked, heed: fail(RequestError("no")),
        lambda asked, heed: fail(OSError()),
    ):
        assert answered(work, {"nonce": 7}, heedless)["nonce"] == 7
        assert "nonce" not in answered(work, {"nonce": "x" * 9}, heedless)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RequestError("choose a lane"), "choose a lane"),
        (RuntimeError("no such operator"), "this failed: no such operator"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), NO_MEMORY),
    ],
)
def test_what_goes_wrong_is_an_answer_too(error, message):
    found = answered(lambda asked, heed: fail(error), {}, heedless)
    assert (found["event"], found["message"]) == ("error", message)


def test_models_that_do_not_fit_say_what_to_do():
    models = Models(lambda: fail(torch.OutOfMemoryError("CUDA out of memory.")))
    models.start()
    with pytest.raises(RequestError, match="no model to run: the memory does not suffice: take another --dtype"):
        models.get()
    assert models.status()["state"] == "failed"


@pytest.mark.parametrize("asked", [None, [], "jakiro", 3])
def test_what_is_no_question_is_refused(asked, caplog):
    found = answered(lambda asked, heed: fail(KeyError("never reached")), asked, heedless)
    assert (found["event"], found["message"]) == ("error", "what is asked must be names with values")
    assert not caplog.records  # a stranger does not fill the log


def loaded_of(nothing=None):
    return Loaded(nothing, {}, {}, {}, nothing)


def test_work_ends_with_whoever_asked_for_it():
    """Whether it is at work or still waits for the models: else what was stopped would keep them from everybody."""
    loaded, begun, ended = loaded_of(), threading.Event(), []

    def work(asked, heed):
        try:
            with loaded.held(heed):
                begun.set()
                for _ in range(1000):
                    heed(0.0)
                    time.sleep(0.01)
        except Left:
            ended.append(asked["who"])
            raise

    first, second = (lines(work, {"who": who}) for who in ("at work", "waiting"))
    assert next(first) == "" and begun.wait(10) and next(second) == ""
    second.close()
    wait_until(lambda: ended == ["waiting"])
    first.close()
    wait_until(lambda: ended == ["waiting", "at work"])
    assert loaded.busy.acquire(timeout=10)


def test_while_there_is_no_answer_it_is_told_how_far_the_work_is():
    go_on = threading.Event()

    def work(asked, heed):
        heed(0.333)
        go_on.wait(30)
        return {"event": "done"}

    texts = lines(work, {"nonce": 5})
    progress = next(text for text in texts if text)
    assert json.loads(progress) == {"event": "progress", "done": 0.33, "nonce": 5}
    go_on.set()
    *_, last = texts
    assert [json.loads(one)["event"] for one in last.splitlines()] == ["done"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_is_forked_off_does_not_wait_for_who_stayed_behind():
    """As on a host that lends GPUs: the other one's lock would never be released there."""
    models = Models(lambda: None)
    models._loaded = loaded_of()
    with models.quiet():
        if (child := os.fork()) == 0:
            os._exit(0 if models._loaded.busy.acquire(timeout=5) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert models._loaded.busy.locked()


def test_other_work_waits_for_a_race_but_not_for_ever(monkeypatch):
    models, seen = Models(lambda: None), []
    with models.quiet():  # nothing is loaded yet
        pass
    models._loaded = loaded_of()
    with models.quiet():
        assert models._loaded.busy.locked()
    assert not models._loaded.busy.locked()
    monkeypatch.setattr(models_module, "QUIET", 0.05)

    def other():
        with models.quiet():
            seen.append(models._loaded.busy.locked())

    with models._loaded.busy:
        other()
        assert models._loaded.busy.locked()  # it was not its own to let go
    assert seen == [True]


def wait_until(holds):
    ends = time.monotonic() + 20
    while not holds() and time.monotonic() < ends:
        time.sleep(0.01)
    assert holds()


def test_the_viewer_hears_of_the_end_of_whatever_it_asks_refused_or_not(tmp_path):
    """In Gradio `then` does not come after an error, and `failure` comes of nothing else but a stop."""
    found = page.build(Models(lambda: None), Library(tmp_path)).config["dependencies"]
    asked = [one for one in found if one["backend_fn"] and one["api_visibility"] == "private"]
    events = {event: one["id"] for one in asked for _, event in one["targets"]}
    for event in ("run", "branch", "compare", "doctor", "ready"):
        after = [one for one in found if one["trigger_after"] == events[event]]
        assert sorted(one["trigger_only_on_failure"] for one in after) == [False, True]
        said = {one["trigger_only_on_failure"]: re.search(r"Event\('(\w+)'\)", one["js"])[1] for one in after}
        assert said == ({True: "unable", False: "able"} if event == "ready" else {True: "failed", False: "over"})
