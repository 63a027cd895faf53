"""The page as a server: what it answers to a client, and what starting it does and does not do."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
import synthetic
from gradio_client import Client
from gradio_client.exceptions import AppError

from jakiro.assets import ASSETS
from jakiro.trace import from_dict, to_json
from jakiro.ui import library as library_module
from jakiro.ui import page, recorded, site
from jakiro.ui.library import Library
from jakiro.ui.models import Models
from jakiro.ui.modules import Modules

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
    models, library = Models(lambda: target), Library(folder)
    demo = page.build(models, library)
    demo.launch(**page.options(models, library), server_name="127.0.0.1", prevent_thread_lock=True)
    models.start()
    yield demo.local_url
    demo.close()


@pytest.fixture(scope="module")
def client(address) -> Client:
    return Client(address, verbose=False)


def test_importing_the_app_starts_and_loads_nothing():
    code = "import sys, app; assert not {'torch', 'gradio', 'transformers'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


def test_the_command_line_says_what_is_wrong_with_a_head():
    import app

    with pytest.raises(SystemExit):
        app.arguments(["--head", "jakiro"])
    with pytest.raises(SystemExit):
        app.arguments(["--threads", "0"])
    assert app.arguments(["--chat-template", "chat.jinja"]).chat_template == Path("chat.jinja")
    options = app.arguments(["--head", "jakiro=a=b", "--port", "8000"])
    assert options.head == ["jakiro=a=b"] and options.port == 8000 and options.host is None


def test_race_is_the_only_public_endpoint(client):
    found = client.view_api(return_format="dict")["named_endpoints"]
    assert list(found) == ["/race"]
    parameters = {one["parameter_name"]: one["python_type"]["type"] for one in found["/race"]["parameters"]}
    assert list(parameters) == list(GOOD)


def test_a_client_gets_traces_in_the_order_asked_for(client):
    traces = [from_dict(one) for one in json.loads(client.predict(**GOOD, api_name="/race"))]
    assert [trace.method for trace in traces] == GOOD["methods"]
    assert traces[0].tokens == traces[1].tokens and len(traces[0].tokens) == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": "  "}, "the prompt is empty"),
        ({"prompt": "an " * 300}, "shorten it"),
        ({"methods": ["medusa"]}, "unknown method"),
        ({"max_new_tokens": -3}, "max_new_tokens must be from 1"),
        ({"temperature": None}, "temperature must be a finite number"),
        ({"top_p": 2}, "top_p is 2"),
        ({"seed": "x"}, "seed must be a finite number"),
    ],
)
def test_a_client_is_told_what_to_change(client, changes, message):
    with pytest.raises(AppError, match=message):
        client.predict(**(GOOD | changes), api_name="/race")


def test_what_the_browser_fetches_is_served_from_here(address):
    def get(path):
        return httpx.get(address + path, timeout=60)

    assert get(site.PLOTLY).text.lstrip("/* \n").startswith("plotly.js")
    shown = get("races/sample.json").json()
    assert shown["about"]["title"] == "Sample" and len(shown["replay"]["traces"]) == 2
    assert get("races/sample/nodes.csv").headers["content-disposition"] == 'attachment; filename="sample-nodes.csv"'
    assert len(get("races/sample/traces.json").json()) == 2
    for missing in ("races/other.json", "races/other/nodes.csv", "races/sample/secrets"):
        assert get(missing).status_code == 404
    assert get("models.json").json()["state"] in ("loading", "ready")


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


def test_a_file_is_read_and_kept_off_the_loop_that_answers_others(address, monkeypatch):
    threads = []
    monkeypatch.setattr(library_module, "settle", lambda: threads.append(threading.current_thread().name))
    run = to_json(synthetic.tree_trace(3, nodes=8))
    assert httpx.post(address + "races", content=run.encode(), timeout=60).json()["id"]
    assert threads and all("AnyIO worker" in name for name in threads)
