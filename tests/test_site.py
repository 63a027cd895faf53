"""Files of traces that are sent to the page: how much of them the server holds at once."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import synthetic
from starlette.concurrency import run_in_threadpool
from starlette.routing import Router
from starlette.testclient import TestClient

from jakiro.assets import ASSETS, BENCHMARKS
from jakiro.trace import to_json
from jakiro.ui import library as library_module
from jakiro.ui import recorded, site
from jakiro.ui.library import Library
from jakiro.ui.models import Loaded, Models
from jakiro.ui.modules import Modules

BODY = to_json(synthetic.tree_trace(3, nodes=4)).encode()


def served(library, models=None, benchmarks=BENCHMARKS):
    return Router(site.routes(Modules(ASSETS / "viewer"), library, models or Models(lambda: None), benchmarks))


@pytest.fixture
def router(tmp_path):
    return served(Library(tmp_path))


def test_all_recorded_races_are_prepared_before_somebody_asks(tmp_path):
    for name in ("one", "two"):
        recorded.save(tmp_path, name, name, "why?", [synthetic.tree_trace(3, nodes=4)])
    next(tmp_path.glob("two-*.json")).write_text("[")
    library = Library(tmp_path)
    models = Models(lambda: 1 / 0)
    models.start()
    site.prepare_all(library, models)
    assert [*library._packed] == ["one"]


async def post(router, receive, length=site.SMALL + 1):
    """The answer to a file of which `receive` gives the parts, and which says that it has `length` bytes."""
    sent = []
    headers = [(b"content-length", str(length).encode())] if length else []
    scope = {"type": "http", "method": "POST", "path": "/races", "headers": headers, "query_string": b""}

    async def send(message):
        sent.append(message)

    await router(scope, receive, send)
    return json.loads(b"".join(one.get("body", b"") for one in sent))


async def never():
    """No part of a file comes."""
    await asyncio.Event().wait()


async def soon():
    """A whole file comes."""
    return {"type": "http.request", "body": BODY, "more_body": False}


def test_what_says_that_it_is_too_large_is_not_read(router):
    async def receive():
        raise AssertionError("a part was asked for")

    answer = asyncio.run(post(router, receive, site.MAX_BYTES + 1))
    assert "more than" in answer["error"]


@pytest.mark.parametrize("length", [0, 10])
def test_what_is_larger_than_it_says_is_not_read_to_its_end(router, monkeypatch, length):
    monkeypatch.setattr(site, "MAX_BYTES", 1000)
    parts = []

    async def receive():
        parts.append(400)
        return {"type": "http.request", "body": b" " * 400, "more_body": True}

    assert "more than" in asyncio.run(post(router, receive, length))["error"]
    assert sum(parts) == 1200


def test_a_few_files_are_held_at_once_and_all_are_read(router):
    async def all_of_them(count=3 * site.BODIES):
        begun, full, go_on = set(), asyncio.Event(), asyncio.Event()

        def one(name):
            async def receive():
                begun.add(name)
                if len(begun) == site.BODIES:
                    full.set()
                await go_on.wait()
                return {"type": "http.request", "body": BODY, "more_body": False}

            return asyncio.create_task(post(router, receive))

        answers = [one(name) for name in range(count)]
        await full.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(begun) == site.BODIES
        go_on.set()
        return await asyncio.gather(*answers)

    answers = asyncio.run(all_of_them())
    assert len({answer["id"] for answer in answers}) == 3 * site.BODIES


def test_small_files_wait_for_no_others(router):
    async def both():
        slow = [asyncio.create_task(post(router, never)) for _ in range(site.BODIES)]
        await asyncio.sleep(0)
        answer = await asyncio.wait_for(post(router, soon, len(BODY)), 60)
        for one in slow:
            one.cancel()
        return answer

    assert "id" in asyncio.run(both())


def test_pages_of_others_bring_no_files(router):
    with TestClient(router) as client:
        for site_of, status in (("cross-site", 403), ("same-origin", 200), ("none", 200)):
            assert client.post("races", content=BODY, headers={"Sec-Fetch-Site": site_of}).status_code == status
        assert "id" in client.post("races", content=BODY).json()  # a program's


@pytest.mark.parametrize("patience", ["ARRIVING", "SILENT"])
def test_a_file_that_does_not_arrive_lets_the_next_be_read(router, monkeypatch, patience):
    monkeypatch.setattr(site, patience, 0.05)

    async def both():
        slow = [asyncio.create_task(post(router, never)) for _ in range(site.BODIES)]
        await asyncio.sleep(0)
        return await post(router, soon), await asyncio.gather(*slow)

    answer, slow = asyncio.run(both())
    assert "id" in answer and all("not arrived" in one["error"] for one in slow)


@pytest.mark.parametrize("file", ["nodes.csv", "json"])
def test_a_few_exports_are_made_and_races_prepared_at_once(tmp_path, monkeypatch, file):
    """Each may take seconds and a hundred MB; who waits for an export keeps no thread from others."""
    library, going, most = Library(tmp_path), [], []
    together = threading.Barrier(site.LARGE)

    def slowly(*given):
        going.append(1)
        most.append(len(going))
        together.wait(60)
        time.sleep(0.05)
        going.pop()
        return "{}"

    monkeypatch.setitem(site.EXPORTS, "nodes.csv", ("text/csv", slowly))
    monkeypatch.setattr(library_module, "prepared", slowly)
    races = [library.add([synthetic.tree_trace(3, nodes=4)]) for _ in range(8)]
    with TestClient(served(library)) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(client.get, [f"races/{race}{'.' if file == 'json' else '/'}{file}" for race in races]))
    assert [answer.text for answer in answers] == ["{}"] * 8 and max(most) == site.LARGE


def test_races_that_are_opened_leave_threads_to_others(tmp_path, monkeypatch):
    """One visitor who opens fifty, none of which can be prepared beside a live race, keeps nobody from the page."""
    library, go_on = Library(tmp_path), threading.Event()
    monkeypatch.setattr(library_module, "prepared", lambda facts, traces: go_on.wait(60) and "{}")
    races = [library.add([synthetic.tree_trace(3, nodes=4)]) for _ in range(50)]
    app = served(library)

    async def opened(race):
        sent = []

        async def send(message):
            sent.append(message)

        path = f"/races/{race}.json"
        await app({"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}, never, send)
        return b"".join(one.get("body", b"") for one in sent)

    async def all_of_them():
        waiting = [asyncio.create_task(opened(race)) for race in races]
        for _ in range(50):
            await asyncio.sleep(0)
        try:
            assert await asyncio.wait_for(run_in_threadpool(int), 20) == 0
        finally:
            go_on.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(all_of_them()) == [b"{}"] * 50


@pytest.mark.parametrize("accepted", ["gzip", "identity"])
@pytest.mark.parametrize("file", [".json", "/nodes.csv"])
def test_an_answer_is_given_in_parts(tmp_path, monkeypatch, file, accepted):
    """Else a hundred clients that do not read have all of it held a hundred times."""
    monkeypatch.setattr(site, "PART", 100)
    library, sent = Library(tmp_path), []
    path = f"/races/{library.add([synthetic.tree_trace(3, nodes=4)])}{file}"

    async def send(message):
        sent.append(message.get("body", b""))

    headers = [(b"accept-encoding", accepted.encode())]
    scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b""}
    asyncio.run(served(library)(scope, never, send))
    text = b"".join(sent) if accepted == "identity" else gzip.decompress(b"".join(sent))
    with TestClient(served(library)) as client:
        assert text == client.get(path).content and max(map(len, sent)) == 100


def test_a_race_that_the_browser_has_is_not_sent_again(tmp_path):
    """Whenever it was prepared: a server that was started anew says the same of it."""
    one, other = ([synthetic.tree_trace(rounds, nodes=4)] for rounds in (3, 4))
    recorded.save(tmp_path, "one", "one", "why?", one)
    with TestClient(served(Library(tmp_path))) as client:
        tag = client.get("races/one.json").headers["etag"]
    recorded.save(tmp_path, "two", "two", "why?", other)
    with TestClient(served(Library(tmp_path))) as client:
        for race, status in (("one", 304), ("two", 200)):
            answer = client.get(f"races/{race}.json", headers={"If-None-Match": tag})
            assert answer.status_code == status and bool(answer.content) == (status == 200)


def test_reports_are_prepared_once(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(site, "payload", lambda folder, tunings: made.append(folder) or "{}")
    with TestClient(served(Library(tmp_path), benchmarks=tmp_path)) as client:
        assert [client.get("benchmarks.json").text for _ in range(2)] == ["{}", "{}"] and len(made) == 1
        (tmp_path / "new.json").write_text("{}")
        assert client.get("benchmarks.json").status_code == 200 and len(made) == 2


def test_figures_are_made_between_races(tmp_path, monkeypatch):
    """What one visitor looks at must not make the seconds of another's race longer."""
    models, library = Models(lambda: None), Library(tmp_path)
    models._loaded = Loaded(None, {}, {}, {}, None)
    race, made = library.add([synthetic.tree_trace(3, nodes=4)]), []
    monkeypatch.setattr("jakiro.ui.library.prepared", lambda *given: made.append(models._loaded.busy.locked()) or "{}")
    monkeypatch.setattr(site, "cut_figure", lambda trace: made.append(models._loaded.busy.locked()) or "{}")
    with TestClient(served(library, models)) as client:
        for address in (f"races/{race}.json", f"races/{race}/cut/0.json", f"races/{race}/traces.json"):
            answers = []
            with models._loaded.busy:  # a race runs
                asking = threading.Thread(target=lambda at=address, found=answers: found.append(client.get(at)))
                asking.start()
                asking.join(0.3)
                assert asking.is_alive()
            asking.join(20)
            assert answers[0].status_code == 200
        client.get(f"races/{race}.json")  # it is kept
    assert made == [True, True]
