"""The page's questions to the model: each gets an answer, whatever happens."""

from __future__ import annotations

import json

import pytest

from jakiro.ui.models import RequestError
from jakiro.ui.questions import answered


def fail(error):
    raise error


def test_an_answer_is_a_line_that_is_never_the_one_before():
    lines = [answered(lambda: {"event": "done", "race": "a"}) for _ in range(2)]
    assert lines[0] != lines[1]
    assert json.loads(lines[0]) | {"time": 0} == {"event": "done", "race": "a", "time": 0}


@pytest.mark.parametrize(
    ("error", "message"),
    [(RequestError("choose a lane"), "choose a lane"), (MemoryError("no room"), "this failed: no room")],
)
def test_what_goes_wrong_is_an_answer_too(error, message):
    found = json.loads(answered(lambda: fail(error)))
    assert (found["event"], found["message"]) == ("error", message)
