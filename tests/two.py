"""What test_workers.py runs in one process and in two: every kind of training, at a tiny size, into a folder.

`python -m torch.distributed.run --standalone --nproc-per-node 2 tests/two.py DATA FOLDER TARGET`
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch

from transformers import AutoModelForCausalLM, AutoTokenizer

from jakiro.training import loop, workers
from jakiro.training.head_recipe import HeadRecipe
from jakiro.training.head_rows import Lesson
from jakiro.training.heads import train_heads
from jakiro.training.target import train
from jakiro.training.target_recipe import Recipe, Stage

SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1}
HEADS = {
    "steps": 12,
    "row": 32,
    "rows": 4,
    "scored": 120,
    "rate": 3.0,
    "passes": 2,
    "epochs": 2,
    "answers": {"new_tokens": 9, "batch": 4, "temperatures": [0, 0.8]},
    "heads": {
        "eagle2": {"num_key_value_heads": 2},
        "jakiro": {"expert_intermediate_size": 16},
        "eagle3": {"draft_vocab_size": 90},
    },
}


def run(data: Path, folder: Path, target: Path) -> None:
    """A target in two stages; heads of `target`, data-parallel and averaged, and where there are two processes sharded,
    of which one head is then trained alone, stopped half-way and gone on with."""
    accelerator = workers.start()
    mix = HeadRecipe.of(HEADS | {"mix": [{"file": "chat.jsonl", "weight": 1.0}]}).mix
    stages = [
        Stage(1, 3000, 32, 4, 2, "all", (1.0, 1.0), answers=40),
        Stage(3, 2000, 64, 2, 2, "all", (1.0, 0.1), unlikelihood=0.1, answers=6, short=(32,)),
    ]
    recipe = Recipe(300, SHAPE | {"max_position_embeddings": 128}, 0.3, {"all": mix}, stages)
    train(accelerator, recipe, data, folder / "target", folder / "model", compiled=False)
    accelerator.wait_for_everyone()
    shard = accelerator.num_processes > 1
    todo = [
        ("parallel", {"average": 0.5}, False, [*HEADS["heads"]], None),
        ("sharded", {}, shard, [*HEADS["heads"]], None),
    ]
    todo += [("resumed", {}, True, ["eagle2"], stop) for stop in (5, None)] if shard else []
    for name, more, shard, heads, stop in todo:
        model = AutoModelForCausalLM.from_pretrained(target)
        tokenizer = AutoTokenizer.from_pretrained(target)
        how = HeadRecipe.of(HEADS | more | {"mix": [{"file": "chat.jsonl", "weight": 1.0}]})
        out = {kind: folder / name / kind for kind in heads}
        with patch.object(loop, "run", partial(loop.run, stop_after=stop)):
            lesson = Lesson(accelerator, model, tokenizer, how, data)
            train_heads(lesson, folder / f"{name}-run", out, False, shard)
    workers.end(accelerator)


if __name__ == "__main__":
    run(*map(Path, sys.argv[1:]))
