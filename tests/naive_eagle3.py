"""EAGLE-3's head the slow way, to compare with: one plain causal run for each answer, in float32, head by head."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from naive import Answer, perturbed
from safetensors.torch import save_file
from torch import Tensor

from jakiro.target import Target
from jakiro.verify import GREEDY, Sampling


def config(**changes) -> dict:
    """The config.json of a tiny head as raw JSON; `changes` replace or add keys."""
    return {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 2048,
        "vocab_size": 300,
        "draft_vocab_size": 90,
    } | changes


def tensors(config: dict, seed: int = 1) -> dict[str, Tensor]:
    """Random weights under the published names, large enough for mistakes to show."""
    generator = torch.Generator().manual_seed(seed)
    hidden, inner, dim = config["hidden_size"], config["intermediate_size"], _head_dim(config)
    read = config.get("target_hidden_size", hidden)
    count = len(config.get("eagle_aux_hidden_state_layer_ids", range(3)))
    vocab, drafted = config["vocab_size"], config["draft_vocab_size"]
    matrices = {
        "fc": (hidden, count * read),
        "midlayer.self_attn.q_proj": (config["num_attention_heads"] * dim, 2 * hidden),
        "midlayer.self_attn.k_proj": (config["num_key_value_heads"] * dim, 2 * hidden),
        "midlayer.self_attn.v_proj": (config["num_key_value_heads"] * dim, 2 * hidden),
        "midlayer.self_attn.o_proj": (hidden, config["num_attention_heads"] * dim),
        "midlayer.mlp.gate_proj": (inner, hidden),
        "midlayer.mlp.up_proj": (inner, hidden),
        "midlayer.mlp.down_proj": (hidden, inner),
        "lm_head": (drafted, hidden),
    }
    if read != hidden or config.get("embed_requires_grad"):
        matrices["embed_tokens"] = (vocab, hidden)
    biased = ["fc", *(f"midlayer.self_attn.{name}_proj" for name in "qkv")] if config.get("attention_bias") else []
    norms = ("midlayer.hidden_norm", "midlayer.input_layernorm", "midlayer.post_attention_layernorm", "norm")

    found = {}
    for name, shape in matrices.items():
        found[f"{name}.weight"] = torch.randn(shape, generator=generator) * shape[1] ** -0.5
    for name in biased:
        found[f"{name}.bias"] = torch.randn(matrices[name][0], generator=generator)
    widths = dict.fromkeys(norms, hidden)
    if config.get("norm_before_fc"):
        widths["input_norm"] = count * read
    if config.get("fc_norm"):
        widths |= {f"fc_norm.{layer}": read for layer in range(count)}
    if config.get("qk_norm"):
        widths |= {f"midlayer.self_attn.{name}_norm": dim for name in "qk"}
    for name, width in widths.items():
        found[f"{name}.weight"] = 1 + 0.3 * torch.randn(width, generator=generator)
    if drafted < vocab:
        known = sorted(torch.randperm(vocab, generator=generator)[:drafted].tolist())
        found["d2t"] = torch.tensor([token - row for row, token in enumerate(known)])
        found["t2d"] = torch.tensor([token in known for token in range(vocab)])
    return found


def by_speculators(config: dict) -> dict:
    """The same config.json as vLLM's speculators writes it: the layer's part by itself."""
    own = (
        "draft_vocab_size",
        "norm_before_fc",
        "fc_norm",
        "norm_before_residual",
        "norm_output",
        "eagle_aux_hidden_state_layer_ids",
    )
    layer = {"model_type": "llama"} | {name: value for name, value in config.items() if name not in own}
    said = {name: config[name] for name in own if name in config}
    return {"speculators_model_type": "eagle3", "target_hidden_size": None, "transformer_layer_config": layer, **said}


def save(folder: Path, config: dict, seed: int = 1, **changes: Tensor | None) -> dict[str, Tensor]:
    """Write such a head; `changes` replace tensors by name, with None they are left out."""
    found = {name: one for name, one in (tensors(config, seed) | changes).items() if one is not None}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(found, folder / "model.safetensors")
    return found


class Oracle:
    """Answers for any path below the root of `tokens`, each by one causal run over the text and the path.

    Row t of a run is the hidden state of token t beside the embedding of token t + 1, at position t.
    """

    decoupled = False

    def __init__(
        self,
        config: dict,
        tensors: dict[str, Tensor],
        target: Target,
        tokens: Sequence[int],
        temperature: float = 1.0,
        coupled: Sampling = GREEDY,
    ) -> None:
        self.config, self.target, self.temperature, self.coupled = config, target, temperature, coupled
        self.weights = {name: value.float() for name, value in tensors.items() if name.endswith((".weight", ".bias"))}
        drafted = config["draft_vocab_size"]
        offsets = tensors["d2t"].tolist() if drafted < config["vocab_size"] else [0] * drafted
        self.known = [row + offset for row, offset in enumerate(offsets)]  # the target's id of each draft id
        self.tokens = list(tokens[1:])
        self.hidden = self._fuse(list(tokens[:-1]))
        self._seen: dict[tuple[int, ...], Answer] = {}

    @torch.no_grad()
    def __call__(self, path: tuple[int, ...]) -> Answer:
        if path not in self._seen:
            fed = [self(path[:end]).features[None] for end in range(len(path))]  # its own outputs, without fc
            output = self._layer(torch.cat([self.hidden, *fed]), self._embed(self.tokens + list(path)))
            self._seen[path] = Answer(self._fed(output[-1]), self._log(output[-1], 1 + len(self.tokens) + len(path)))
        return self._seen[path]

    @torch.no_grad()
    def _fuse(self, tokens: list[int]) -> Tensor:
        """What the layer is fed with at the text's positions [n, hidden]: fc of three of the target's states."""
        last = []
        hook = self.target.decoder.norm.register_forward_pre_hook(lambda _, inputs: last.append(inputs[0]))
        states = self.target.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
        hook.remove()
        layers = len(states) - 1  # the first are the embeddings
        named = self.config.get("eagle_aux_hidden_state_layer_ids") or (2, layers // 2, layers - 3)
        read = [(last if layer == layers else states[layer])[0].reshape(len(tokens), -1).float() for layer in named]
        if self.config.get("fc_norm"):
            read = [self._norm(f"fc_norm.{at}", one) for at, one in enumerate(read)]
        fused = torch.cat(read, dim=-1)
        return self._linear("fc", self._norm("input_norm", fused) if self.config.get("norm_before_fc") else fused)

    def _embed(self, tokens: list[int]) -> Tensor:
        if "embed_tokens.weight" in self.weights:
            return self.weights["embed_tokens.weight"][tokens]
        return self.target.embed(torch.tensor(tokens)).float()

    def _fed(self, output: Tensor) -> Tensor:
        """What the next level is fed with."""
        return self._norm("norm", output) if self.config.get("norm_output") else output

    def _layer(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        """The layer's output [n, hidden] before the last norm."""
        embedded = self._norm("midlayer.input_layernorm", embeddings)
        normed = self._norm("midlayer.hidden_norm", hidden)
        first = normed if self.config.get("norm_before_residual") else hidden
        hidden = first + self._attend(torch.cat([embedded, normed], dim=-1))
        return hidden + self._mlp(self._norm("midlayer.post_attention_layernorm", hidden))

    def _attend(self, pairs: Tensor) -> Tensor:
        """Causal attention from pairs [n, 2 hidden] to [n, hidden], one query head after the other."""
        dim, heads = _head_dim(self.config), self.config["num_attention_heads"]
        group = heads // self.config["num_key_value_heads"]  # query heads that share one of keys and values
        queries = self._linear("midlayer.self_attn.q_proj", pairs).split(dim, dim=-1)
        keys = self._linear("midlayer.self_attn.k_proj", pairs).split(dim, dim=-1)
        values = self._linear("midlayer.self_attn.v_proj", pairs).split(dim, dim=-1)
        if self.config.get("qk_norm"):
            queries = [self._norm("midlayer.self_attn.q_norm", one) for one in queries]
            keys = [self._norm("midlayer.self_attn.k_norm", one) for one in keys]
        later = torch.ones(len(pairs), len(pairs), dtype=torch.bool).triu(1)
        mixed = []
        for head in range(heads):
            scores = self._rotate(queries[head]) @ self._rotate(keys[head // group]).T * dim**-0.5
            mixed.append(scores.masked_fill(later, -torch.inf).softmax(-1) @ values[head // group])
        return self._linear("midlayer.self_attn.o_proj", torch.cat(mixed, dim=-1))

    def _rotate(self, rows: Tensor) -> Tensor:
        """RoPE of one head's rows [n, head_dim]: number i of the left half turns with number i of the right half."""
        dim = rows.shape[-1]
        speeds = self.config.get("rope_theta", 10000.0) ** -(torch.arange(0, dim, 2) / dim)
        angles = torch.arange(len(rows))[:, None] * speeds
        left, right = rows[:, : dim // 2], rows[:, dim // 2 :]
        return torch.cat(
            [left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()], dim=-1
        )

    def _mlp(self, rows: Tensor) -> Tensor:
        gate, up = self._linear("midlayer.mlp.gate_proj", rows), self._linear("midlayer.mlp.up_proj", rows)
        return self._linear("midlayer.mlp.down_proj", gate * gate.sigmoid() * up)

    def _log(self, features: Tensor, position: int) -> Tensor:
        """Log-probabilities [vocab] by the target's ids; tokens that the head does not know have none."""
        logits = perturbed(self._linear("lm_head", self._norm("norm", features)), position, self.coupled, self.known)
        logprobs = torch.full((self.config["vocab_size"],), -torch.inf)
        logprobs[self.known] = (logits / self.temperature).log_softmax(-1)
        return logprobs

    def _linear(self, name: str, rows: Tensor) -> Tensor:
        return rows @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0.0)

    def _norm(self, name: str, rows: Tensor) -> Tensor:
        size = (rows.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"]).sqrt()
        return rows / size * self.weights[f"{name}.weight"]


def _head_dim(config: dict) -> int:
    return config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
