"""Random sentences to train on."""

from __future__ import annotations

import json
import lzma
import random
from pathlib import Path

TEXT = "the cat sat on a red mat and then saw two small dogs run over one green hill near that old house"


def message(role: str, content: object) -> dict:
    return {"role": role, "content": content}


def write_texts(folder: Path) -> Path:
    """A folder with one chat file and one plain file."""
    (folder / "plain").mkdir(parents=True)
    rng, words = random.Random(0), TEXT.split()

    def sentence(n: int) -> str:
        return " ".join(rng.choices(words, k=n)) + "."

    with (folder / "chat.jsonl").open("w") as file:
        for _ in range(400):
            turns = [message("user", sentence(5)), message("assistant", sentence(9))]
            file.write(json.dumps({"source": "made", "messages": turns}) + "\n")
    with lzma.open(folder / "plain" / "text.txt.xz", "wt") as file:
        file.write("\n<|doc|>\n".join("\n".join(sentence(12) for _ in range(40)) for _ in range(8)))
    return folder
