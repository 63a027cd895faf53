"""The page as a server: what it answers to a client, and what starting it does and does not do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import gradio as gr
import httpx
import pytest
import synthetic
import torch
from gradio_client import Client
from gradio_client.exceptions import AppError
from starlette.requests import Request
from tiny import save_heads, tiny_model, tiny_tokenizer

from jakiro import machine
from jakiro.assets import ASSETS, TEMPLATES
from jakiro.commands.arguments import how_to_load
from jakiro.engine import Prefill
from jakiro.trace import from_dict, to_json
from jakiro.ui import guard, page, recorded, site
from jakiro.ui.library import Library
from jakiro.ui.models import Models
from jakiro.ui.modules import Modules
from jakiro.ui.race import Race

ROOT = Path(__file__).parent.parent
GOOD = {
    "prompt": "the an",
    "methods": ["vanilla", "jakiro"],
    "max_new_tokens": 8,
    "temperature": 0,
    "top_p": 1,
    "seed": 0,
}


@pytest.fixture(scope="module")
def address(target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    run = synthetic.tree_trace(5, nodes=12)
    recorded.save(folder, "sample", "Sample", "asked", [synthetic.vanilla_trace(run.tokens), run])
    recorded.save(folder, "damaged", "Damaged", "asked", [run])
    (folder / "damaged-jakiro.json").write_text("{")
    models, library = Models(lambda: target), Library(folder)
    demo = page.build(models, library)
    demo.launch(**page.options(models, library), server_name="127.0.0.1", prevent_thread_lock=True)
    models.start()
    yield demo.local_url
    demo.close()


@pytest.fixture(scope="module")
def client(address) -> Client:
    return Client(address, verbose=False)


@pytest.mark.parametrize("port", ["99999", "0", "abc", "-1", ""])
def test_a_port_of_the_environment_is_checked(monkeypatch, capsys, port):
    import app

    monkeypatch.setenv("GRADIO_SERVER_PORT", port)
    with pytest.raises(SystemExit):
        app.arguments([])
    assert "GRADIO_SERVER_PORT takes a number from 1 to 65535" in capsys.readouterr().err
    assert app.arguments(["--port", "7870"]).port == 7870


def test_threads_have_a_bound(capsys):
    import app

    with pytest.raises(SystemExit):
        app.arguments(["--threads", "99999999999999999999999"])
    assert "--threads takes a whole number from 1 to 1024" in capsys.readouterr().err


def test_importing_the_app_starts_and_loads_nothing():
    code = "import sys, app; assert not {'torch', 'gradio', 'transformers'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


def free_port() -> int:
    """One of this worker's (conftest.py): one that the system names it may give to another before the page has it."""
    first = int(os.environ["GRADIO_SERVER_PORT"]) + 50
    return next(port for port in range(first, first + 50) if not listens(f"http://127.0.0.1:{port}/"))


@contextmanager
def started(*words):
    """The page in a process of its own, as a user starts it: the process, its address and the status of its models."""
    port = free_port()
    address = f"http://127.0.0.1:{port}/"
    command = [sys.executable, "app.py", *map(str, words), "--port", str(port), "--threads", "1"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == f"Jakiro Debugger: {address}\n"
        while (status := httpx.get(f"{address}models.json", timeout=60).json())["state"] == "loading":
            time.sleep(0.1)
        yield process, address, status
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def listens(address: str) -> bool:
    with socket.socket() as one:
        return one.connect_ex((httpx.URL(address).host, httpx.URL(address).port)) == 0


def test_the_app_opens_the_page_and_loads_the_models_until_it_is_told_to_end(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    save_heads(tmp_path)
    with started("--target", tmp_path, "--traces", tmp_path) as (process, _, status):
        assert status["state"] == "ready" and status["heads"] == ["eagle2", "eagle3", "jakiro"]
        process.send_signal(signal.SIGTERM)  # nothing else is sent where a container stops, and Python alone ignores it
        assert process.wait(60) == 0


def test_the_app_ends_in_the_middle_of_a_race_without_aborting(tmp_path):
    """Nor if it is told so again while it waits for a browser, when whoever read its output has already gone."""
    tiny_model(max_position_embeddings=20_000).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with started("--target", tmp_path, "--traces", tmp_path) as (process, address, _):
        long, call = ["the", ["vanilla"], 19_000, 0, 1, 0, None], f"{address}gradio_api/call/race"
        event = httpx.post(call, json={"data": long}, timeout=60).json()["event_id"]
        with httpx.stream("GET", f"{call}/{event}", timeout=60) as answer:
            assert next(answer.iter_lines()) == "event: generating"
            process.stdout.close()
            process.terminate()  # handled as SIGINT is, which is ignored where the suite runs in a shell's background
            late = time.monotonic() + 60
            while listens(address) and time.monotonic() < late:
                time.sleep(0.01)
            process.terminate()
            assert process.wait(60) == 0


def test_an_open_page_does_not_keep_the_app_from_ending(monkeypatch):
    """Its browser listens until it is closed; Gradio would wait five seconds for it at every end."""
    import app

    demo, sleeps = MagicMock(), MagicMock(side_effect=[None, KeyboardInterrupt])
    monkeypatch.setattr(time, "sleep", sleeps)
    demo.server.thread.join.side_effect = KeyboardInterrupt  # another one meanwhile
    app.wait(demo)
    assert (
        demo.server.should_exit is True and demo.server.thread.join.call_args.args == (app.ENDING,) and app.ENDING < 2
    )


FACTS = dict.fromkeys(("title", "prompt", "model", "device", "date"), "")
ODD = {"schema": recorded.SCHEMA, "races": [FACTS | {"id": "one", "traces": [5]}]}


def index(folder, text):
    (folder / "index.json").write_text(text)


def lose_a_trace(folder):
    recorded.save(folder, "sample", "Sample", "asked", [synthetic.tree_trace(3, nodes=8)])
    (folder / "sample-jakiro.json").unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: index(folder, "{"), "not an index of recorded races"),
        (lambda folder: index(folder, json.dumps(ODD)), "the fields of a race are texts, its traces a list of them"),
        (lose_a_trace, "sample-jakiro.json"),
        (lambda folder: folder.rmdir(), "there is no folder"),
    ],
)
def test_what_the_page_cannot_open_with_is_said_in_a_line(tmp_path, change, message):
    import app

    folder = tmp_path / "traces"
    folder.mkdir()
    change(folder)
    with pytest.raises(SystemExit) as ended:
        app.main(["--traces", str(folder), "--threads", "1"])
    said = ended.value.code
    assert said.startswith("app.py: ") and message in said and len(said.splitlines()) == 1


def test_a_port_that_is_taken_is_said_in_a_line(tmp_path):
    import app

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit, match=f"app.py: .*port.*{port}"):
            app.main(["--traces", str(tmp_path), "--threads", "1", "--port", str(port)])


def test_an_interrupt_while_it_starts_ends_it_without_a_word(tmp_path, monkeypatch, capsys):
    import app

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "build", interrupted)
    with pytest.raises(SystemExit) as ended:
        app.main(["--traces", str(tmp_path), "--threads", "1"])
    assert ended.value.code == 130 and capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--head", "jakrio=heads/mine"], "no method with a head is called 'jakrio'; known: "),
        (["--target", "/no/such"], "there is no folder /no/such: give --target a model's, or a hub id (owner/name)"),
        (["--head", "eagle2=/no/such"], "there is no folder /no/such: give --head eagle2 a model's, or a hub id"),
        (["--target", "no-such"], "there is no folder no-such: "),
        (["--target=~/no/such"], "there is no folder ~/no/such: "),
        (["--device", "cuda"], "torch sees no CUDA device here; use cpu"),
        (["--dtype", "int8"], "dtype is 'int8'"),
        (["--host", "203.0.113.7"], "nothing can listen on 203.0.113.7: it is no address of this machine"),
        (["--host", "a..b"], "nothing can listen on a..b: it is no address of this machine"),
    ],
)
def test_a_name_that_cannot_be_right_is_said_before_the_page_opens(tmp_path, monkeypatch, words, message):
    import app

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(page, "build", lambda *_: pytest.fail("the page opens"))
    with pytest.raises(SystemExit) as ended:
        app.main(["--traces", str(tmp_path), "--threads", "1", *words])
    assert ended.value.code.startswith("app.py: ") and message in ended.value.code


def test_what_only_the_models_can_tell_is_said_on_the_page(tmp_path, monkeypatch, caplog):
    """A hub id is not looked up before, nor a head opened. That there is nothing to look at is a warning, too."""
    import app

    made = []
    monkeypatch.setattr(gr.Blocks, "launch", lambda *_, **__: None)
    monkeypatch.setattr(app, "wait", lambda _: None)
    monkeypatch.setattr(Models, "start", lambda models: made.append(models))
    app.main(["--traces", str(tmp_path), "--threads", "1", "--target", "owner/name", "--head", "jakiro=no/such"])
    assert made and f"no recorded races in {tmp_path}" in caplog.text
    assert f"record some with: python -m scripts.record --out {tmp_path}" in caplog.text


@pytest.mark.parametrize(("space", "spare"), [("owner/name", 0), (None, 1)])
def test_a_core_is_left_to_the_browser_where_it_may_be_here(tmp_path, monkeypatch, space, spare):
    import app

    def use_threads(count, spare):
        raise ValueError(f"asked for {count}, {spare} spare")

    monkeypatch.setattr(machine, "use_threads", use_threads)
    monkeypatch.setenv("SPACE_ID", space) if space else monkeypatch.delenv("SPACE_ID", raising=False)
    with pytest.raises(SystemExit, match=f"asked for None, {spare} spare"):
        app.main(["--traces", str(tmp_path)])


def test_the_command_line_says_what_is_wrong_with_a_head(tmp_path):
    import app

    for wrong in ("jakiro", "=heads/jakiro", "jakiro="):
        with pytest.raises(SystemExit):
            app.arguments(["--head", wrong])
    with pytest.raises(SystemExit):
        app.arguments(["--threads", "0"])
    (tmp_path / "chat.jinja").write_text("")
    given = app.arguments(["--chat-template", str(tmp_path / "chat.jinja")])
    assert given.chat_template == tmp_path / "chat.jinja"
    given = app.arguments(["--chat-template", "vicuna", "--system", "Be kind."])
    assert given.chat_template == TEMPLATES / "vicuna.jinja" and how_to_load(given)["system"] == "Be kind."
    options = app.arguments(["--head", "jakiro=a=b", "--port", "8000"])
    assert options.head == ["jakiro=a=b"] and options.port == 8000 and options.host is None


def test_a_space_has_its_options_from_the_environment_and_the_command_line_goes_before(monkeypatch):
    import app

    monkeypatch.setenv(app.OPTIONS, "--device cuda --target 'my models/one' --head eagle2=a")
    monkeypatch.setattr("sys.argv", ["app.py", "--device", "cpu", "--head", "jakiro=b"])
    options = app.arguments()
    assert options.device == "cpu" and options.target == Path("my models/one")
    assert options.head == ["eagle2=a", "jakiro=b"]


def test_options_in_the_environment_that_are_not_closed_are_said(monkeypatch, capsys):
    import app

    monkeypatch.setenv(app.OPTIONS, "--target 'my models")
    with pytest.raises(SystemExit):
        app.arguments([])
    assert "JAKIRO_OPTIONS in the environment cannot be read (No closing quotation)" in capsys.readouterr().err


def test_race_is_the_only_public_endpoint(client):
    found = client.view_api(return_format="dict")["named_endpoints"]
    assert list(found) == ["/race"]
    parameters = {one["parameter_name"]: one["python_type"]["type"] for one in found["/race"]["parameters"]}
    assert list(parameters) == [*GOOD, "settings"]


def test_a_client_gets_traces_in_the_order_asked_for(client):
    traces = [from_dict(one) for one in json.loads(client.predict(**GOOD, api_name="/race"))]
    assert [trace.method for trace in traces] == GOOD["methods"]
    assert traces[0].tokens == traces[1].tokens and len(traces[0].tokens) == 8
    own = {"settings": {name: {"total_tokens": 3} for name in ("eagle2", "jakiro")}}  # of one that does not race, too
    found = [from_dict(one) for one in json.loads(client.predict(**GOOD, **own, api_name="/race"))]
    assert [trace.tokens for trace in found] == [trace.tokens for trace in traces]
    assert max(len(step.tree) for step in found[1].steps) == 3 < max(len(step.tree) for step in traces[1].steps)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": "  "}, "the prompt is empty"),
        ({"prompt": "an " * 300}, "shorten it"),
        ({"methods": ["nobody"]}, "unknown method"),
        ({"max_new_tokens": -3}, "max_new_tokens must be from 1"),
        ({"temperature": None}, "temperature is empty: give a number"),
        ({"top_p": 2}, "top_p is 2"),
        ({"seed": "x"}, "seed must be a finite number"),
        ({"temperature": 10**400}, "temperature must be a finite number"),
        ({"settings": {"jakiro": {"depth": 0}}}, "depth must be a whole number"),
        ({"settings": {"jakiro": 3}}, "settings must be names with values"),
        ({"settings": {"jakrio": {"depth": 3}}}, "unknown method 'jakrio'"),
    ],
)
def test_a_client_is_told_what_to_change(client, changes, message):
    with pytest.raises(AppError, match=message):
        client.predict(**(GOOD | changes), api_name="/race")


def test_a_race_ends_when_its_client_cancels_it(address, client, monkeypatch):
    """Else nobody else could use the model until its last token. It closes its own stream of events, so that a later
    question of the same client might be lost with it: another one asks."""
    begun, closed, rounds = threading.Event(), threading.Event(), Race.rounds

    def endless(race):
        yield from rounds(race)
        begun.set()
        while True:
            time.sleep(0.01)
            yield 0, Prefill(5, 0.0)

    monkeypatch.setattr(Race, "rounds", endless)
    monkeypatch.setattr(Race, "close", lambda race: closed.set())
    job = Client(address, verbose=False).submit(**GOOD, api_name="/race")
    assert begun.wait(60) and not closed.is_set()
    job.cancel()
    assert closed.wait(60)
    monkeypatch.undo()
    assert json.loads(client.predict(**GOOD, api_name="/race"))


def test_nothing_is_uploaded_but_traces(address):
    """They have a way of their own, with limits; Gradio's ways leave files on the disk, which nobody removes."""
    for way in ("upload", "process_recording", "component_server", "component_server/"):
        for data in (b"ab", b""):
            answer = httpx.post(f"{address}gradio_api/{way}", files={"video": ("a.html", data)}, timeout=60)
            assert answer.status_code == 404 and "files of traces go to /races" in answer.text
    assert httpx.get(address + "gradio_api/deep_link", params={"session_hash": "a"}, timeout=60).status_code == 404


def test_what_stands_in_the_address_is_for_the_viewer(address):
    """Gradio would look for a page of that name, and fail over it."""
    for ask in (httpx.get, httpx.head):
        assert ask(address, params={"page": "foo"}, timeout=60).status_code == 200


def test_nobody_gets_past_the_queue_or_its_limits(address):
    """Gradio's own ways: one that waits for nobody, and JSON of any size, which it would read while all others wait."""
    asked = {"data": [*GOOD.values(), None]}
    answer = httpx.post(address + "gradio_api/run/race", json=asked, timeout=60)
    assert answer.status_code == 404 and "join the queue" in answer.text
    for path in ("call/race", "queue/join", "run/ready"):
        answer = httpx.post(f"{address}gradio_api/{path}", content=b"[],," * (1 << 19), timeout=60)
        assert answer.status_code == 413 and "shorten the prompt" in answer.text
    assert httpx.get(address + "monitoring", timeout=60).status_code == 403


def ways(address):
    """Name -> number of what Gradio can be asked for."""
    return {one["api_name"]: one["id"] for one in httpx.get(address + "config", timeout=60).json()["dependencies"]}


def test_only_what_runs_on_the_model_waits_in_the_queue(address):
    """Else anybody could fill it with what nobody runs in it, and visitors were refused."""
    for way in (ways(address)["ready"], ways(address)["lambda"], 999, -1):
        asked = {"data": [None], "fn_index": way, "session_hash": "a"}
        answer = httpx.post(address + "gradio_api/queue/join", json=asked, timeout=60)
        assert answer.status_code == 400 and "waits in the queue" in answer.text


@pytest.mark.parametrize(
    "path, body, status, message",
    [
        ("call/nothing", '{"data": []}', 404, "nothing"),
        ("call/v2/nothing", "{}", 404, "nothing"),
        ("call/v2/race", '{"prompt": "the"}', 422, "required argument: methods"),
        ("run/predict", '{"data": [], "fn_index": 999}', 404, "999"),
        ("call/race", '{"data": NaN}', 422, "valid list"),
        ("call/race", r'{"data": "\ud800"}', 422, "valid list"),
    ],
)
def test_what_cannot_be_asked_is_said_and_not_logged(address, capfd, path, body, status, message):
    json_text = {"content-type": "application/json"}
    answer = httpx.post(f"{address}gradio_api/{path}", content=body, headers=json_text, timeout=60)
    assert answer.status_code == status and message in str(answer.json()["detail"])
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("values", [["the secret"], ["the an", ["the secret"], *[None] * 49]])
def test_what_a_visitor_sends_is_not_written_into_the_log(address, capfd, values):
    asked = {"data": values, "fn_index": ways(address)["run"], "session_hash": f"s{len(values)}"}
    httpx.post(address + "gradio_api/queue/join", json=asked, timeout=60).raise_for_status()
    told = httpx.get(f"{address}gradio_api/queue/data?session_hash=s{len(values)}", timeout=60).text
    assert '"success":false' in told and ("needed: " in told or "not in the list of choices" in told)
    assert capfd.readouterr().err == ""


def test_a_session_has_a_short_name(address):
    """Gradio keeps each name as long as it runs: a megabyte a request, of any number of requests."""
    race = ways(address)["race"]
    for path, length, status in (("queue/join", 100, 200), ("queue/join", 101, 400), ("call/race", 101, 400)):
        asked = {"data": [*GOOD.values(), None], "fn_index": race, "session_hash": "x" * length}
        answer = httpx.post(f"{address}gradio_api/{path}", json=asked, timeout=60)
        assert answer.status_code == status and ("shorten it" in answer.text) == (status == 400)


def test_a_client_without_a_name_stops_nobody(address, monkeypatch):
    """Gradio's queue has nobody to tell where it stands, and ended over that, for all."""
    begun, go_on, rounds = threading.Event(), threading.Event(), Race.rounds

    def held(race):
        begun.set()
        go_on.wait(60)
        yield from rounds(race)

    monkeypatch.setattr(Race, "rounds", held)
    jobs = [Client(address, verbose=False).submit(**GOOD, api_name="/race")]
    assert begun.wait(60)
    jobs.append(Client(address, verbose=False).submit(**GOOD, api_name="/race"))
    while not httpx.get(address + "gradio_api/queue/status", timeout=60).json()["queue_size"]:
        time.sleep(0.05)
    asked = {"data": [*GOOD.values(), None], "session_hash": ""}
    httpx.post(f"{address}gradio_api/call/race", json=asked, timeout=60)
    go_on.set()
    assert all(json.loads(job.result(60)) for job in jobs)


def test_an_answer_that_nobody_fetches_is_kept_for_a_while(address, monkeypatch):
    """Gradio keeps those of two thousand sessions, of megabytes each."""

    def fetched(id):
        return httpx.get(f"{address}gradio_api/call/race/{id}", timeout=60).text

    def asked():
        return httpx.post(address + "gradio_api/call/race", json={"data": [*GOOD.values(), None]}, timeout=60).json()

    first, second, third = (asked()["event_id"] for _ in range(3))
    assert "event: complete" in fetched(third)  # which is over after the others
    assert "event: complete" in fetched(second)
    monkeypatch.setattr(guard, "KEPT", 0.0)
    fetched(asked()["event_id"])
    assert "event: error" in (told := fetched(first)) and len(told) < 200


def test_an_answer_that_is_forgotten_takes_no_other_of_its_session_with_it(address, monkeypatch):
    def asked(**more):
        given = {"data": [*GOOD.values(), None], **more}
        return httpx.post(address + "gradio_api/call/race", json=given, timeout=60).json()["event_id"]

    def fetched(id):
        return httpx.get(f"{address}gradio_api/call/race/{id}", timeout=60).text

    later = 0.0
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + later))
    first = asked(session_hash="two")
    fetched(asked())  # which is over after the first
    later = 0.9 * guard.KEPT
    asked(session_hash="two")
    fetched(asked())
    later = 1.1 * guard.KEPT  # the first is late now, and the second is not
    fetched(asked())
    with httpx.stream("GET", f"{address}gradio_api/call/race/{first}", timeout=60) as answer:
        told = [*takewhile(lambda line: line != "event: heartbeat", answer.iter_lines())]
    assert told.count("event: error") == told.count("event: complete") == 1


def test_a_client_is_told_why_a_race_failed(client, monkeypatch):
    def rounds(race):
        raise RuntimeError("no memory left")

    monkeypatch.setattr(Race, "rounds", rounds)
    with pytest.raises(AppError, match="the race failed: no memory left"):
        client.predict(**GOOD, api_name="/race")


def test_what_the_browser_fetches_is_served_from_here(address):
    def get(path):
        return httpx.get(address + path, timeout=60)

    assert get(site.PLOTLY).text.lstrip("/* \n").startswith("plotly.js")
    shown = get("races/sample.json").json()
    assert shown["about"]["title"] == "Sample" and len(shown["replay"]["traces"]) == 2
    assert get("races/sample/nodes.csv").headers["content-disposition"] == 'attachment; filename="sample-nodes.csv"'
    assert len(get("races/sample/traces.json").json()) == 2
    assert get("races/sample/cut/1.json").status_code == 200
    for path in ("races/sample.json", "races/sample/replay.html"):  # compressed here: not by what serves all visitors
        asked = {
            accepted: httpx.get(address + path, headers={"Accept-Encoding": accepted}, timeout=60)
            for accepted in ("br, gzip", "identity")
        }
        assert [one.headers.get("content-encoding") for one in asked.values()] == ["gzip", None]
        assert asked["br, gzip"].text == asked["identity"].text
    for missing in ("races/other.json", "races/other/nodes.csv", "races/sample/secrets", "races/sample/cut/2.json"):
        assert get(missing).status_code == 404
    for long in (f"races/sample/{'x' * 5000}", *(f"races/sample/cut/{'9' * digits}.json" for digits in (9, 300, 5000))):
        assert get(long).status_code == 404 and len(get(long).text) < 200  # not all that was asked for
    assert get("races/sample/compare/1/0.json").json() is None  # asked for beforehand: no error in a console
    assert get("models.json").json()["state"] in ("loading", "ready")


@pytest.mark.parametrize("place", ["damaged.json", "damaged/nodes.csv", "damaged/cut/0.json"])
def test_a_damaged_race_says_where_it_is_damaged(address, place):
    answer = httpx.get(f"{address}races/{place}", timeout=60)
    assert answer.status_code == 404 and "damaged-jakiro.json: this is not a trace" in answer.text


def test_modules_have_another_address_when_one_has_changed(address, tmp_path):
    """So they can be kept for ever."""
    page, modules = httpx.get(address).text, Modules(ASSETS / "viewer")
    assert len(modules.addresses()) > 20 and all(one in page for one in modules.addresses())
    main = httpx.get(f"{address}{modules.path}/main.js")
    assert main.text == (ASSETS / "viewer" / "main.js").read_text() and "immutable" in main.headers["cache-control"]
    assert main.headers["content-type"].startswith("text/javascript")
    for none in (f"{modules.path}/none.js", f"{modules.path}/../app.py", "viewer/other/main.js"):
        assert httpx.get(address + none).status_code == 404
    (tmp_path / "main.js").write_text("one")
    before = Modules(tmp_path).path
    (tmp_path / "main.js").write_text("two")
    assert before != Modules(tmp_path).path


def test_a_dropped_file_becomes_a_race_or_a_reason(address):
    run = to_json(synthetic.tree_trace(3, nodes=8))
    id = httpx.post(address + "races", content=run.encode(), timeout=60).json()["id"]
    assert httpx.get(f"{address}races/{id}.json", timeout=60).json()["about"]["kind"] == "opened"
    assert b'"kind": "opened"' in httpx.get(f"{address}races/{id}/replay.html", timeout=60).content
    for text in ("{", run.replace('"columns":{', '"columns":{"\\ud800":[],', 1), run.replace('"seed":0', '"seed":-1')):
        answer = httpx.post(address + "races", content=text.encode(), timeout=60)
        assert answer.status_code == 200 and answer.json()["error"]


def test_a_file_that_is_broken_off_on_its_way_is_no_error_of_the_page(target, tmp_path):
    async def receive():
        return {"type": "http.disconnect"}

    routes = site.routes(Modules(ASSETS / "viewer"), Library(tmp_path), Models(lambda: target), tmp_path)
    [opened] = [route.endpoint for route in routes if route.path == "/races"]
    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    assert asyncio.run(opened(request)).status_code == 400


def test_a_file_is_read_and_kept_off_the_loop_that_answers_others(address, monkeypatch):
    threads, add = [], Library.add
    here = threading.current_thread
    monkeypatch.setattr(Library, "add", lambda *given: threads.append(here().name) or add(*given))
    monkeypatch.setattr(Models, "settle", lambda models: threads.append(here().name))
    run = to_json(synthetic.tree_trace(3, nodes=8))
    assert httpx.post(address + "races", content=run.encode(), timeout=60).json()["id"]
    assert len(threads) == 2 and all("AnyIO worker" in name for name in threads)
