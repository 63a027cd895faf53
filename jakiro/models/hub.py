"""A model's folder on this machine: fetched from the Hugging Face hub where its name is a hub id, and checked."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, HFValidationError, HTTPError, LocalEntryNotFoundError

# HTTPError is what its client raises of any kind, a transfer broken off among them; no JSON is what a proxy answers
_NOT_GIVEN = (HTTPError, LocalEntryNotFoundError, HFValidationError, JSONDecodeError)
_BLOCK = 1 << 20  # bytes
_ID = re.compile(r"[\w.-]+/[\w.-]+")
_NEEDED = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
_BESIDE = ["config.json", "generation_config.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json"]
_BESIDE += ["*.model", "vocab*", "merges.txt"]  # of the tokenizer, too
_VOCABULARIES = ("tokenizer.json", "*.model", "vocab.json", "vocab.txt")
_ORIGINAL = ["original/*", "consolidated*", "onnx/*", "gguf/*"]  # the same weights again, for other programs


def local(name: str | Path) -> Path:
    """The folder `name`, or the files of the hub's model of that id ("owner/name"), from the cache if they are there.

    Weights are taken as safetensors, or as pytorch_model*.bin where a model has no others. What is neither a folder
    nor formed like an id is returned as it is. Raises FileNotFoundError with the remedy where the hub does not give it.
    """
    path = Path(os.path.expanduser(name))  # a shell leaves it alone in METHOD=~/DIR; Path's raises where nobody is "~x"
    id = path.as_posix()
    if path.exists() or not _ID.fullmatch(id):
        return path
    try:
        folder = Path(snapshot_download(id, allow_patterns=_NEEDED, ignore_patterns=_ORIGINAL))
        if not any(folder.glob("*.safetensors")):
            snapshot_download(id, allow_patterns=["pytorch_model*.bin"])
        return folder
    except GatedRepoError as error:
        raise FileNotFoundError(
            f"the hub's model {id} is gated: ask for access on its page, then log in with: hf auth login"
        ) from error
    except _NOT_GIVEN as error:
        raise FileNotFoundError(
            f"there is no folder {id}, and the hub did not give a model of that id ({first_line(error)}): "
            "check the path, the id and the network"
        ) from error


def heads(folder: Path, given: Mapping[str, str | Path]) -> dict[str, Path]:
    """Method -> its head's folder: the target's sub-folders with a config.json, and in their place those given.

    Raises FileNotFoundError, before a target's weights are read, where nothing is in one that was given.
    """
    found = {one.parent.name: one.parent for one in sorted(folder.glob("[!.]*/config.json"))}  # not being written
    for name, head in given.items():
        found[name] = local(head)
        if not (found[name] / "config.json").is_file():
            raise FileNotFoundError(f"--head {name}={head} has no config.json: give a folder with a head, or a hub id")
    return found


def title(name: str | Path) -> str:
    """What a model is called: the last part of its path or id."""
    path = Path(name)
    return path.resolve().name if path.exists() else path.name


def place(folder: str | Path) -> str:
    """Where a head or a model in a folder came from, in short: its id on the hub, or the last two parts of its path."""
    parts = Path(folder).resolve().parts[1:]  # without the root
    if "snapshots" in parts[1:-1]:  # of the hub's cache: models--owner--name/snapshots/<revision>
        at = parts.index("snapshots", 1)
        return "/".join([parts[at - 1].removeprefix("models--").replace("--", "/", 1), *parts[at + 2 :]])
    return "/".join(parts[-2:])


def check(folder: Path) -> None:
    """Raise FileNotFoundError or ValueError with the remedy if a target cannot be read from the folder."""
    check_weights(folder)
    check_tokenizer(folder)
    if (said := folder / "generation_config.json").is_file():  # transformers does without a damaged one, and its ends
        try:
            json.loads(said.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{said}, which says where texts end, is damaged ({error}): download it again") from error


def check_weights(folder: Path) -> None:
    """Raise FileNotFoundError or ValueError with the remedy if a model cannot be read from the folder."""
    files = [file for file in weight_files(folder) if not file.name.startswith("adapter_")]
    if not files and (folder / "adapter_config.json").is_file():
        raise ValueError(f"{folder} holds an adapter, no model: merge it into one (peft's merge_and_unload) first")
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"no model in {folder}: give a folder with config.json, weights and a tokenizer, or a hub id (owner/name)"
        )
    if not files:
        raise FileNotFoundError(f"no weights in {folder}: it needs *.safetensors or pytorch_model*.bin")
    for file in files:
        check_fetched(file)
    index = folder / "model.safetensors.index.json"
    if index.is_file() and not (folder / "model.safetensors").is_file():
        check_shards(index)


def check_shards(index: Path) -> list[str]:
    """The files that an index of weights lists. Raises FileNotFoundError for one that is not there, ValueError for an
    index that lists none."""
    try:
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        shards = sorted({Path(name).name for name in names})
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{index} does not say which file a tensor is in ({error!r}); download it again") from error
    for name in shards:
        if not (index.parent / name).is_file():
            raise FileNotFoundError(
                f"{index.parent / name} is listed in the index but is not there; download the folder again"
            )
    return shards


def check_fetched(file: Path) -> None:
    """Raise ValueError for what git leaves in place of a large file."""
    if file.stat().st_size < 1024 and file.read_bytes().startswith(b"version https://git-lfs"):
        raise ValueError(f"{file} is only a pointer; fetch the weights with: git lfs pull")


def check_tokenizer(folder: Path) -> None:
    """Raise FileNotFoundError with the remedy if a tokenizer cannot be read from the folder."""
    if not any(one.is_file() for kind in _VOCABULARIES for one in folder.glob(kind)):
        raise FileNotFoundError(f"no tokenizer in {folder}: it needs tokenizer.json (or tokenizer.model, vocab.json)")


def weights(folder: Path) -> dict[str, Any]:
    """What tells a model in a folder from others, unread: where it is; bytes and time of change (ns) of its weights,
    configuration and tokenizer."""
    files = {*weight_files(folder), *(file for pattern in _BESIDE for file in folder.glob(pattern))}
    stats = [(file.name, file.stat()) for file in sorted(files)]
    return {"folder": str(folder.resolve()), "files": [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]}


def fingerprint(folder: Path) -> str:
    """Of a model's weights, wherever they lie: 16 hexadecimal digits.

    Of each file the size, and a MiB at its beginning, middle and end: training changes all of them, and large models
    are not read twice.
    """
    found = hashlib.sha256()
    for path in sorted(weight_files(folder)):
        size = path.stat().st_size
        found.update(f"{path.name} {size}\0".encode())
        with path.open("rb") as file:
            for at in (0, size // 2, max(0, size - _BLOCK)):
                file.seek(at)
                found.update(file.read(_BLOCK))
    return found.hexdigest()[:16]


def signed(folder: Path) -> str:
    """What traces call a head or a model: its place, and the beginning of its fingerprint."""
    return f"{place(folder)}@{fingerprint(folder)[:8]}"


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder that hold a model's weights."""
    return [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]


def first_line(error: Exception) -> str:
    """Of what the hub's client says: a request's numbers come after it."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__).rstrip(".")
