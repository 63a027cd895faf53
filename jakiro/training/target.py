"""A small Llama-architecture target from text, grown in depth as it learns.

A run is a sequence of stages. A later stage may be deeper: new layers are put between the old ones as copies whose
output projections are zero, so that the grown model starts as the same function (block expansion, as in LLaMA Pro,
arXiv 2401.02415, section 3). Shallow stages see most of the tokens at a fraction of the cost.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from jakiro.training import loop, repeats, workers
from jakiro.training.data import Source, pack, read_chats
from jakiro.training.optim import Optimizer, warm_up
from jakiro.training.tokenizer import END, PAD, train_tokenizer

ANSWERED = 24  # prompts of a step that the model answers itself, where a stage asks for answers
TOKENIZER_CHARS = 12_000_000  # text that the tokenizer is trained on


@dataclass(frozen=True, slots=True)
class Stage:
    """One stretch of a run at fixed depth, row length and mix."""

    layers: int
    tokens: int  # tokens seen in this stage
    row: int  # tokens in a row
    rows: int  # rows in one forward pass
    passes: int  # forward passes in one optimizer step
    mix: str  # name of a list of sources in the recipe
    rate: tuple[float, float]  # learning-rate factor at its start and end, linear between
    unlikelihood: float = 0.0  # weight of the loss on repeating recent tokens
    answers: int = 0  # tokens of the model's own answers in which repetition is a loss too; 0 for none
    note: str = ""  # for the model card


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything a run is made of, read from JSON."""

    vocab_size: int
    model: dict  # LlamaConfig fields
    prompt_weight: float  # weight of the loss on what the user says
    mixes: dict[str, list[Source]]
    stages: list[Stage]
    seed: int = 0
    dtype: str = "float32"  # of the weights as they are written

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """Raises OSError, or TypeError/KeyError naming the field that is unknown or missing."""
        data = json.loads(path.read_text())
        mixes = {
            name: [Source(**{k: tuple(v) if isinstance(v, list) else v for k, v in s.items()}) for s in sources]
            for name, sources in data.pop("mixes").items()
        }
        stages = [Stage(**{**stage, "rate": tuple(stage["rate"])}) for stage in data.pop("stages")]
        return cls(mixes=mixes, stages=stages, **data)


def train(
    accelerator: Accelerator,
    recipe: Recipe,
    data: Path,
    run: Path,
    out: Path,
    compiled: bool = True,
    like: Path | None = None,
    shard: bool = False,
) -> None:
    """Train all stages that `run` does not yet hold and write a Hugging Face folder to `out`, with the recipe.

    With the tokenizer of the model `like`, or one of the run's own. Raises ValueError where `like` has another
    vocabulary than the recipe.
    """
    run.mkdir(parents=True, exist_ok=True)
    with accelerator.main_process_first():
        tokenizer = _tokenizer_of(like, recipe) if like else _tokenizer(recipe, data, run)
    model = None
    for number, stage in enumerate(recipe.stages):
        folder = run / f"stage{number}"
        model = grow(model, stage.layers) if model else build(recipe, tokenizer, stage.layers)
        weights = folder / "model.pt"
        done = weights.exists()
        accelerator.wait_for_everyone()  # all have looked before one writes
        if not done:
            with accelerator.main_process_first():
                rows = _rows(recipe, stage, number, tokenizer, data, folder)
            job = StageJob(accelerator, model, stage, *rows, compiled, recipe, shard)
            loop.run(job, folder, accelerator.is_main_process)
            states = workers.parameters(job.trained)
            if accelerator.is_main_process:
                torch.save(states, weights)
            accelerator.wait_for_everyone()
            model = build(recipe, tokenizer, stage.layers)  # whole and bare, whatever it was prepared for
        model.load_state_dict(torch.load(weights, weights_only=True))
    if not accelerator.is_main_process:
        return
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.to(getattr(torch, recipe.dtype)).save_pretrained(out, max_shard_size="9MB")
    tokenizer.save_pretrained(out)
    (out / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1) + "\n")


def build(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, layers: int) -> LlamaForCausalLM:
    """A fresh model of `layers` layers."""
    torch.manual_seed(recipe.seed)
    config = LlamaConfig(
        vocab_size=recipe.vocab_size,
        num_hidden_layers=layers,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
        pad_token_id=tokenizer.convert_tokens_to_ids(PAD),
        **recipe.model,
    )
    model = LlamaForCausalLM(config)
    for layer in model.model.layers:
        _silence(layer)
    return model


def grow(model: LlamaForCausalLM, layers: int) -> LlamaForCausalLM:
    """A model of `layers` layers that computes the same function. Raises ValueError where the depths do not fit."""
    before = model.config.num_hidden_layers
    if layers == before:
        return model
    if layers % before:
        raise ValueError(f"a model of {before} layers grows by whole copies; {layers} is not a multiple of {before}")
    copies = layers // before
    config = LlamaConfig(**{**model.config.to_dict(), "num_hidden_layers": layers})
    grown = LlamaForCausalLM(config)
    old = model.state_dict()
    grown.load_state_dict({name: old[_source_name(name, copies)] for name in grown.state_dict()})
    for index, layer in enumerate(grown.model.layers):
        if index % copies:
            _silence(layer)
    return grown


class StageJob:
    """One stage as the loop wants it."""

    def __init__(
        self,
        accelerator: Accelerator,
        model: LlamaForCausalLM,
        stage: Stage,
        ids: np.ndarray,
        said: np.ndarray,
        compiled: bool,
        recipe: Recipe,
        shard: bool = False,
    ) -> None:
        if shard and stage.answers:
            raise ValueError("a stage with own answers cannot be sharded: set its `answers` to 0, or do not shard")
        self.accelerator, self.stage, self.prompt_weight = accelerator, stage, recipe.prompt_weight
        self.trained = workers.prepare(accelerator, model, shard)
        self.share = workers.share(accelerator, stage.rows)
        self.ids, self.said = ids, said
        self.optimizer = Optimizer(workers.bare(self.trained))
        self.per_step = stage.rows * stage.passes
        self.steps = len(ids) // self.per_step
        self.loss = torch.compile(self._loss) if compiled else self._loss

    def states(self) -> dict[str, object]:
        return dict(zip(("model", "optimizer"), workers.states(self.trained, self.optimizer), strict=True))

    def step(self, index: int) -> dict[str, float]:
        chosen = slice(index * self.per_step, (index + 1) * self.per_step)
        ids = torch.from_numpy(self.ids[chosen].astype(np.int64)).to(self.accelerator.device)
        said = torch.from_numpy(self.said[chosen]).to(self.accelerator.device)[:, 1:]
        real = ids[:, 1:] != 0
        weight = torch.where(said, 1.0, self.prompt_weight) * real
        scale, answer = self.accelerator.num_processes / weight.sum(), 0.0
        metrics = {}
        with workers.local(self.accelerator, self.trained):  # only the last pass exchanges gradients
            if self.stage.answers:
                metrics["repeated"] = self._answer(chosen, index)
            for part in range(0, self.per_step - self.stage.rows, self.stage.rows):
                answer += self._pass(ids, weight, part, scale)
        answer += self._pass(ids, weight, self.per_step - self.stage.rows, scale)
        [answer] = workers.total(self.accelerator, torch.tensor([answer], device=ids.device))
        start, end = self.stage.rate
        done = index / max(1, self.steps - 1)
        factor = (start + (end - start) * done) * warm_up(index, min(60, self.steps // 8))
        torch.nn.utils.clip_grad_norm_(self.trained.parameters(), 1.0)
        self.optimizer.step(factor)
        return {"loss": answer / int((said & real).sum()), "tokens": int(real.sum()), **metrics, "rate": factor}

    def _pass(self, ids: torch.Tensor, weight: torch.Tensor, start: int, scale: torch.Tensor) -> float:
        """Add the gradient of this process's rows of a pass; the sum of their cross-entropies."""
        rows = slice(start + self.share.start, start + self.share.stop)
        losses = self.loss(ids[rows], weight[rows])
        (losses[0] * scale).backward()
        return losses[1].item()

    def _answer(self, chosen: slice, index: int) -> float:
        """Add the gradient of the loss on own answers to this step's prompts; the share of them that is repeated."""
        prompts = repeats.prompts(self.ids[chosen], self.said[chosen], ANSWERED, index)
        mine = prompts[self.accelerator.process_index :: self.accelerator.num_processes]
        sums = torch.zeros(3, device=self.accelerator.device)  # loss, repeated tokens, tokens
        if mine:
            sums = repeats.sequence_level(workers.bare(self.trained), mine, self.stage.answers)
        _, again, tokens = workers.total(self.accelerator, sums)
        if mine:
            (sums[0] * (self.accelerator.num_processes / tokens)).backward()
        return again / tokens if tokens else 0.0

    def _loss(self, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """[2]: the weighted sum of the losses, and the plain sum of the cross-entropy of what the assistant says."""
        with torch.autocast(ids.device.type, dtype=torch.bfloat16):
            logits = self.trained(input_ids=ids[:, :-1], use_cache=False).logits
        logprobs = logits.float().log_softmax(dim=-1)
        entropy = -logprobs.gather(-1, ids[:, 1:, None])[..., 0]
        losses = entropy
        if self.stage.unlikelihood:
            losses = entropy + self.stage.unlikelihood * repeats.token_level(logprobs, ids)
        return torch.stack([(losses * weight).sum(), (entropy * (weight == 1.0)).sum()])


def _tokenizer_of(model: Path, recipe: Recipe) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
    if len(tokenizer) != recipe.vocab_size:
        raise ValueError(f"{model} has {len(tokenizer)} tokens, the recipe {recipe.vocab_size}; change its vocab_size")
    return tokenizer


def _tokenizer(recipe: Recipe, data: Path, run: Path) -> PreTrainedTokenizerFast:
    folder = run / "tokenizer"
    if folder.exists():
        return PreTrainedTokenizerFast.from_pretrained(folder)
    texts: list[str] = []
    for source in recipe.mixes[recipe.stages[-1].mix]:
        if source.file.startswith("plain/"):
            continue
        room = TOKENIZER_CHARS * source.weight / sum(s.weight for s in recipe.mixes[recipe.stages[-1].mix])
        for messages in read_chats(source, data):
            text = "\n".join(message["content"] for message in messages)
            texts.append(text)
            room -= len(text)
            if room < 0:
                break
    tokenizer = train_tokenizer(texts, recipe.vocab_size)
    tokenizer.save_pretrained(folder)
    return tokenizer


def _rows(
    recipe: Recipe, stage: Stage, number: int, tokenizer, data: Path, folder: Path
) -> tuple[np.ndarray, np.ndarray]:
    cached = folder / "rows.npz"
    if not cached.exists():
        folder.mkdir(parents=True, exist_ok=True)
        seed = recipe.seed * 1000 + number
        ids, said = pack(recipe.mixes[stage.mix], data, tokenizer, stage.tokens, stage.row, seed)
        np.savez(cached, ids=ids, said=said)
    loaded = np.load(cached)
    return loaded["ids"], loaded["said"]


def _source_name(name: str, copies: int) -> str:
    head, mark, tail = name.partition("layers.")
    number, _, rest = tail.partition(".")
    return f"{head}layers.{int(number) // copies}.{rest}" if mark else name


def _silence(layer: torch.nn.Module) -> None:
    with torch.no_grad():
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
