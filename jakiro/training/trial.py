"""Trials of heads in training: held-out prompts decoded by the engine, once for each way in which candidates come.

A head's loss says little about how long its drafts are accepted. trials.csv has, after every `every` steps, tau (mean
tokens a round, the bonus token included) and the share of rounds that reach each depth of the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from jakiro.drafter import Drafter
from jakiro.drafting.head import Head
from jakiro.drafting.weights import save_head
from jakiro.engine import record
from jakiro.methods import METHODS
from jakiro.models.lengths import positions
from jakiro.target import Target
from jakiro.training.answers import prompts_of
from jakiro.training.data import draw
from jakiro.training.loop import kept_rows, write_rows
from jakiro.training.sources import Source
from jakiro.verify import GREEDY

LONGEST = 512  # tokens of a prompt that is decoded
PATIENCE = 2000  # held-out documents without a new prompt, one after another, at which a mix is taken to have no others


@dataclass(frozen=True, slots=True)
class Trial:
    """How heads are tried. The tree is a GPU's default, but for EAGLE-3, whose own is deeper."""

    every: int  # steps
    prompts: int = 12
    new_tokens: int = 64
    top_k: int = 10
    depth: int = 6
    total_tokens: int = 60


def held_out_prompts(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, how: Trial, mix: list[Source], data: Path, seed: int
) -> list[list[int]]:
    """Token ids of prompts that the mix keeps for validation, as many as are asked for or as there are.

    Raises ValueError where there is none that leaves room for an answer.
    """
    longest = min(LONGEST, positions(model.config.get_text_config()) - how.new_tokens)
    if longest <= 0:
        raise ValueError(f"new_tokens of `trial` is {how.new_tokens}, all of the target's context: lower it")
    documents = draw(mix, data, tokenizer, longest, seed, validation=True)
    found = list(islice(prompts_of(documents, longest, PATIENCE), how.prompts))
    if not found:
        raise ValueError(
            f"no prompt that the mix holds out has fewer than {longest} tokens: leave `trial` out of the recipe, "
            "lower its new_tokens, or give more data"
        )
    return found


def ways(method: str, how: Trial) -> dict[str, Any]:
    """The method's settings for each way in which its candidates come, by the way's name, "" for the only one.

    Raises ValueError where it cannot draft such a tree.
    """
    settings = METHODS[method].settings
    tree = {name: getattr(how, name) for name in ("top_k", "depth", "total_tokens")}
    choices = next((one.metadata["choices"] for one in fields(settings) if one.name == "candidates"), None)
    return {way: settings(**tree, **({"candidates": way} if way else {})) for way in choices or [""]}


class Trials:
    """Decodes the same prompts again and again, with heads as they are."""

    def __init__(self, target: Target, prompts: list[list[int]], how: Trial, file: Path) -> None:
        self.target, self.prompts, self.how, self.file = target, prompts, how, file

    def due(self, step: int, last: int) -> bool:
        """Whether heads are tried after this step."""
        return step % self.how.every == 0 or step == last

    def run(self, step: int, heads: dict[str, tuple[str, Head]]) -> None:
        """Try all heads, name -> (method, head), and add a row to the file."""
        row: dict[str, float] = {"step": step}
        for name, (method, head) in heads.items():
            for way, make in self._ways(method, head):
                lengths = self._lengths(make)
                row[f"{name}{way}_tau"] = round(1 + sum(lengths) / len(lengths), 4)
                for depth in range(1, self.how.depth + 1):
                    reached = sum(length >= depth for length in lengths) / len(lengths)
                    row[f"{name}{way}_accepted{depth}"] = round(reached, 4)
        write_rows(self.file, [*kept_rows(self.file, step - 1), row])

    def _ways(self, method: str, head: Head) -> Iterator[tuple[str, Callable[[], Drafter]]]:
        """What makes drafters, for each way in which the method's candidates come, as a user would load it."""
        with TemporaryDirectory() as folder:
            save_head(folder, head)
            self.target.heads[method] = Path(folder)
            make = METHODS[method].load(self.target)
        del self.target.heads[method]  # its folder is gone
        for way, own in ways(method, self.how).items():
            yield f"_{way}" if way else "", partial(make, own)

    def _lengths(self, make: Callable[[], Drafter]) -> list[int]:
        """Accepted tokens of every round. Each text has a drafter of its own, which remembers nothing of another."""
        found = []
        for ids in self.prompts:
            run = record(self.target, make(), ids, self.how.new_tokens, GREEDY, inspect=False)
            found += [len(step.accepted) for step in run.steps]
        return found or [0]
