"""How much of what is asked is read."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from jakiro.ui.race import MAX_PROMPT
from jakiro.ui.small import FILES, MOST, Small


@pytest.fixture(scope="module")
def client():
    async def size(request):
        return JSONResponse(len(await request.body()))

    routes = [Route(path, size, methods=["POST"]) for path in (FILES, "/call", "/call" + FILES)]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(Small)]))


def parts(size):
    """A body that does not say how long it is."""
    for _ in range(size // 1024):
        yield b"[],," * 256


@pytest.mark.parametrize("path", ["/call", "/call" + FILES])
def test_what_is_too_large_to_be_asked_is_not_read(client, path):
    for body in (b"[" * (MOST + 1), parts(2 * MOST)):
        answer = client.post(path, content=body)
        assert answer.status_code == 413 and "shorten the prompt" in answer.text
    assert client.post(path, content=parts(MOST)).json() == MOST


def test_files_have_limits_of_their_own(client):
    assert client.post(FILES, content=parts(2 * MOST)).json() == 2 * MOST


def test_the_longest_prompt_can_be_asked_in_any_script():
    assert 10 * MAX_PROMPT < MOST
