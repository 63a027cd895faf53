"""Targets and heads shared by the tests; built once a session, since nothing in a run changes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from recipes import growing
from texts import write_texts
from tiny import save_heads, tiny_model, tiny_tokenizer

from jakiro.methods import METHODS
from jakiro.target import Target
from jakiro.training import workers
from jakiro.training.target import train

# Workers look for a free port at different places: two that saw the same one free would both take it.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
os.environ.setdefault("GRADIO_SERVER_PORT", str(7860 + 100 * WORKER))  # read when gradio is imported
SLOWEST = ("test_workers.py", "test_the_commands_for_a_gpu", "test_scrub", "test_load")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: of tests that run side by side, one at the end would be waited for alone."""
    items.sort(key=lambda item: not any(name in item.nodeid for name in SLOWEST))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """For the tests, several of which may run side by side, and for the programs that they start."""
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A target folder with both heads as sub-folders."""
    folder = tmp_path_factory.mktemp("target")
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    save_heads(folder)
    return folder


@pytest.fixture
def methods_again():
    """METHODS, as they were again after a test."""
    before = dict(METHODS)
    yield METHODS
    METHODS.clear()
    METHODS.update(before)


@pytest.fixture(scope="session")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="session")
def heads(tmp_path_factory) -> dict[str, Path]:
    """Folders of random heads that fit the tiny targets."""
    return save_heads(tmp_path_factory.mktemp("heads"))


@pytest.fixture(scope="session")
def target(tokenizer, heads) -> Target:
    """A tiny Llama with a tokenizer and heads, no end-of-sequence token."""
    target = Target.wrap(tiny_model(), tokenizer, heads, name="tiny")
    target.ends = frozenset()
    return target


@pytest.fixture(scope="session")
def eager_target(heads) -> Target:
    """The same weights with eager attention."""
    return Target.wrap(tiny_model(attention="eager"), None, heads, name="tiny-eager")


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """A folder of random sentences."""
    return write_texts(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def trained(data, tmp_path_factory) -> Path:
    """A folder with the run of a tiny target, in `run`, and the target, in `out`."""
    folder = tmp_path_factory.mktemp("trained")
    train(workers.start(), growing(), data, folder / "run", folder / "out", compiled=False)
    return folder
