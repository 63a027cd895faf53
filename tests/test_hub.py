"""Models by hub id, fetched from a small hub of our own that speaks the real one's protocol."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jakiro.models import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODELS = {  # id -> its files
    "some/safe": [
        "config.json",
        "model.safetensors",
        "pytorch_model.bin",
        "tokenizer.json",
        "original/consolidated.pth",
        "consolidated.safetensors",
    ],
    "some/old": ["config.json", "pytorch_model.bin", "tokenizer.model", "README.md"],
}
FETCH = """
import json, sys
from jakiro.models import hub
found = {}
for name in sys.argv[1:]:
    try:
        folder = hub.local(name)
        assert hub.place(folder) == name
        found[name] = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    except FileNotFoundError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


class Hub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        for id, files in MODELS.items():
            if self.path.startswith(f"/api/models/{id}/tree/"):
                tree = [{"type": "file", "path": name, "oid": COMMIT, "size": len(f"{id} {name}")} for name in files]
                return self.answer(json.dumps(tree).encode(), {"Content-Type": "application/json"})
            if self.path.startswith(f"/api/models/{id}"):
                listing = {"id": id, "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
                return self.answer(json.dumps(listing).encode(), {"Content-Type": "application/json"})
            for name in files:
                if self.path == f"/{id}/resolve/{COMMIT}/{name}":
                    body = f"{id} {name}".encode()
                    return self.answer(body, {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": COMMIT})
        gated = self.path.startswith("/api/models/some/gated")
        self.answer(b"{}", {"X-Error-Code": "GatedRepo" if gated else "RepoNotFound"}, 403 if gated else 404)

    do_HEAD = do_GET

    def answer(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


def fetched(cache: Path, address: str, *names: str) -> dict[str, list[str] | str]:
    """What `hub.local` brings, in a process of its own: the address is read when huggingface_hub is imported."""
    environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(cache), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    environment.pop("HF_HUB_OFFLINE", None)
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", FETCH, *names], env=environment, cwd=root, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def test_a_model_of_the_hub_is_fetched_once(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        found = fetched(tmp_path, address, *MODELS, "some/gated", "some/unknown")
    finally:
        server.shutdown()
        server.server_close()
    assert found["some/safe"] == ["config.json", "model.safetensors", "tokenizer.json"]
    assert found["some/old"] == ["config.json", "pytorch_model.bin", "tokenizer.model"]
    assert "some/gated is gated" in found["some/gated"] and "hf auth login" in found["some/gated"]
    assert "no folder some/unknown" in found["some/unknown"] and "check the path" in found["some/unknown"]

    again = fetched(tmp_path, address, "some/safe", "some/unknown")  # the hub is gone
    assert again["some/safe"] == found["some/safe"]
    assert "the network" in again["some/unknown"]


@pytest.mark.parametrize("error", [hub.HTTPError("peer closed connection"), json.JSONDecodeError("no JSON", "<", 0)])
def test_a_transfer_that_breaks_off_and_what_a_proxy_answers_are_said_in_words(error, monkeypatch):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(hub, "snapshot_download", broken)
    with pytest.raises(FileNotFoundError, match=r"the hub did not give .*\((peer closed|no JSON).*the network"):
        hub.local("some/safe")


@pytest.mark.parametrize("name", ["one", "a/b/c", "../up/there", "/root/x"])
def test_only_what_looks_like_an_id_is_asked_for(name, monkeypatch):
    monkeypatch.setattr(hub, "snapshot_download", None)
    assert hub.local(name) == Path(name)


def test_a_folder_is_told_by_the_end_of_its_path(tmp_path, monkeypatch):
    (tmp_path / "chat" / "eagle2").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "chat")
    assert hub.place(tmp_path / "chat" / "eagle2") == hub.place(Path("eagle2")) == "chat/eagle2"
    cached = Path("/root/hub/models--some--chat-7b/snapshots") / COMMIT
    assert hub.place(cached / "eagle2") == "some/chat-7b/eagle2" and hub.place(cached) == "some/chat-7b"
    assert hub.place(Path("/head")) == hub.place("/head") == "head"  # as `Target.wrap` may be given it


def test_a_folder_comes_before_an_id(tmp_path, monkeypatch):
    (tmp_path / "some" / "safe").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub, "snapshot_download", None)
    assert hub.local("some/safe") == Path("some/safe")
    assert hub.title("some/safe") == hub.title("other/safe") == "safe"


def test_a_home_is_one_wherever_it_stands_and_a_vocabulary_may_have_several_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hub.local("~/model") == tmp_path / "model"
    assert hub.local("~nobody-of-this-name/model") == Path("~nobody-of-this-name/model")  # which the shell left, too
    for name in ("tokenizer.json", "spiece.model", "sentencepiece.bpe.model", "vocab.txt"):
        (tmp_path / name).touch()
        hub.check_tokenizer(tmp_path)
        (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match="no tokenizer in"):
        hub.check_tokenizer(tmp_path)
