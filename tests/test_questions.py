"""The page's questions to the model: each gets an answer, whatever happens."""

from __future__ import annotations

import json
import re

import pytest

from jakiro.ui import page
from jakiro.ui.library import Library
from jakiro.ui.models import Models, RequestError
from jakiro.ui.questions import answered


def fail(error):
    raise error


def test_an_answer_is_a_line_that_is_never_the_one_before():
    lines = [answered(lambda asked: {"event": "done"} | asked, {"race": "a"}) for _ in range(2)]
    assert lines[0] != lines[1]
    assert json.loads(lines[0]) | {"time": 0} == {"event": "done", "race": "a", "time": 0}


def test_an_answer_says_which_question_it_is_to():
    for work in (
        lambda asked: {"event": "done"},
        lambda asked: fail(RequestError("no")),
        lambda asked: fail(OSError()),
    ):
        assert json.loads(answered(work, {"nonce": 7}))["nonce"] == 7
        assert "nonce" not in json.loads(answered(work, {"nonce": "x" * 9}))


@pytest.mark.parametrize(
    ("error", "message"),
    [(RequestError("choose a lane"), "choose a lane"), (MemoryError("no room"), "this failed: no room")],
)
def test_what_goes_wrong_is_an_answer_too(error, message):
    found = json.loads(answered(lambda asked: fail(error), {}))
    assert (found["event"], found["message"]) == ("error", message)


@pytest.mark.parametrize("asked", [None, [], "jakiro", 3])
def test_what_is_no_question_is_refused(asked, caplog):
    found = json.loads(answered(lambda asked: fail(KeyError("never reached")), asked))
    assert (found["event"], found["message"]) == ("error", "what is asked must be names with values")
    assert not caplog.records  # a stranger does not fill the log


def test_the_viewer_hears_of_the_end_of_whatever_it_asks_refused_or_not(tmp_path):
    """In Gradio `then` does not come after an error, and `failure` comes of nothing else but a stop."""
    found = page.build(Models(lambda: None), Library(tmp_path)).config["dependencies"]
    asked = [one for one in found if one["backend_fn"] and one["api_visibility"] == "private"]
    events = {event: one["id"] for one in asked for _, event in one["targets"]}
    for event in ("run", "branch", "compare", "doctor", "ready"):
        after = [one for one in found if one["trigger_after"] == events[event]]
        assert sorted(one["trigger_only_on_failure"] for one in after) == [False, True]
        said = {one["trigger_only_on_failure"]: re.search(r"Event\('(\w+)'\)", one["js"])[1] for one in after}
        assert said == ({True: "able", False: "able"} if event == "ready" else {True: "failed", False: "over"})
