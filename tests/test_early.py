"""The script that comes before all others of the page."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from jakiro.ui.early import Early

TEXT = "<html><head><script>theirs</script></head><body>ü</body></html>"
LONG = TEXT.replace("ü", "ü" * 10_000)


async def parts():
    for part in ("<head>", "<script>theirs</script>", "</head>"):
        yield part


@pytest.fixture(scope="module")
def client():
    routes = [
        Route("/", lambda request: HTMLResponse(TEXT)),
        Route("/replay.html", lambda request: HTMLResponse(TEXT)),
        Route("/long/", lambda request: HTMLResponse(LONG)),
        Route("/parts/", lambda request: StreamingResponse(parts())),
        Route("/plain/", lambda request: HTMLResponse("nothing")),
    ]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(Early)]))


@pytest.mark.parametrize("path", ["/", "/parts/"])
def test_it_is_the_first_in_the_head(client, path):
    answer = client.get(path)
    head, own, rest = answer.text.partition("<script>{")
    assert head.endswith("<head>") and "jakiro-there" in own + rest and "<script>theirs</script></head>" in rest
    assert path == "/parts/" or int(answer.headers["content-length"]) == len(answer.content)


@pytest.mark.parametrize(("path", "text"), [("/replay.html", TEXT), ("/plain/", "nothing")])
def test_all_else_is_left_as_it_is(client, path, text):
    answer = client.get(path)
    assert answer.text == text and int(answer.headers["content-length"]) == len(answer.content)


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip, br", "gzip"), ("identity", None)])
def test_the_page_is_compressed_with_the_script_for_who_takes_it(client, accepted, encoding):
    answer = client.get("/long/", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("content-encoding") == encoding and answer.headers["vary"] == "Accept-Encoding"
    assert "jakiro-there" in answer.text and answer.text.endswith(LONG.removeprefix("<html><head>"))
    assert (int(answer.headers["content-length"]) < len(LONG) / 10) == bool(encoding)
